"""The list of handlers: the APIs that the broker serves. ApiVersions is derived from it.

The APIs between nodes and those that every client begins with are imported at once. The others are imported
when a client uses them, or a moment after the start (``load_all``): a broker starts sooner without the
messages of sixty APIs that may never be used.
"""

import asyncio
import logging

from millpond.frontend.kafka.handler import Handler, handler_in
from millpond.frontend.kafka.handlers import (
    add_raft_voter,
    allocate_producer_ids,
    alter_partition,
    api_versions,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    create_topics,
    describe_quorum,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    unregister_broker,
    update_raft_voter,
    vote,
)
from millpond.wire.kafka.api import ApiKey


def _later(
    module: str, api_key: ApiKey, min_version: int, max_version: int, *, refuses: bool = True
) -> Handler:
    return handler_in(f"{__name__}.{module}", api_key, (min_version, max_version), refuses=refuses)


HANDLERS: tuple[Handler, ...] = (
    add_raft_voter.HANDLER,
    allocate_producer_ids.HANDLER,
    alter_partition.HANDLER,
    api_versions.HANDLER,
    begin_quorum_epoch.HANDLER,
    broker_heartbeat.HANDLER,
    broker_registration.HANDLER,
    create_topics.HANDLER,
    describe_quorum.HANDLER,
    end_quorum_epoch.HANDLER,
    envelope.HANDLER,
    fetch.HANDLER,
    fetch_snapshot.HANDLER,
    find_coordinator.HANDLER,
    init_producer_id.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    produce.HANDLER,
    remove_raft_voter.HANDLER,
    sasl_authenticate.HANDLER,
    sasl_handshake.HANDLER,
    unregister_broker.HANDLER,
    update_raft_voter.HANDLER,
    vote.HANDLER,
    _later("add_offsets_to_txn", ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    _later("add_partitions_to_txn", ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
    _later("alter_client_quotas", ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    _later("alter_configs", ApiKey.ALTER_CONFIGS, 0, 2),
    _later("alter_partition_reassignments", ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    _later("alter_replica_log_dirs", ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, refuses=False),
    _later("alter_share_group_offsets", ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0),
    _later("alter_user_scram_credentials", ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    _later("assign_replicas_to_dirs", ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0),
    _later("consumer_group_describe", ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
    _later("consumer_group_heartbeat", ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
    _later("create_acls", ApiKey.CREATE_ACLS, 1, 3, refuses=False),
    _later("create_delegation_token", ApiKey.CREATE_DELEGATION_TOKEN, 1, 3),
    _later("create_partitions", ApiKey.CREATE_PARTITIONS, 0, 3),
    _later("delete_acls", ApiKey.DELETE_ACLS, 1, 3, refuses=False),
    _later("delete_groups", ApiKey.DELETE_GROUPS, 0, 2),
    _later("delete_records", ApiKey.DELETE_RECORDS, 0, 2),
    _later("delete_share_group_offsets", ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0),
    _later("delete_topics", ApiKey.DELETE_TOPICS, 1, 6),
    _later("describe_acls", ApiKey.DESCRIBE_ACLS, 1, 3),
    _later("describe_client_quotas", ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    _later("describe_cluster", ApiKey.DESCRIBE_CLUSTER, 0, 2),
    _later("describe_configs", ApiKey.DESCRIBE_CONFIGS, 1, 4),
    _later("describe_delegation_token", ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3),
    _later("describe_groups", ApiKey.DESCRIBE_GROUPS, 0, 6),
    _later("describe_log_dirs", ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    _later("describe_producers", ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    _later("describe_share_group_offsets", ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1),
    _later("describe_topic_partitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    _later("describe_transactions", ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    _later("describe_user_scram_credentials", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    _later("elect_leaders", ApiKey.ELECT_LEADERS, 0, 2),
    _later("end_txn", ApiKey.END_TXN, 0, 5),
    _later("expire_delegation_token", ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2),
    _later("get_telemetry_subscriptions", ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0),
    _later("heartbeat", ApiKey.HEARTBEAT, 0, 4),
    _later("incremental_alter_configs", ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    _later("join_group", ApiKey.JOIN_GROUP, 0, 9),
    _later("leave_group", ApiKey.LEAVE_GROUP, 0, 5),
    _later("list_config_resources", ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    _later("list_groups", ApiKey.LIST_GROUPS, 0, 5),
    _later("list_partition_reassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    _later("list_transactions", ApiKey.LIST_TRANSACTIONS, 0, 2),
    _later("offset_commit", ApiKey.OFFSET_COMMIT, 2, 10),
    _later("offset_delete", ApiKey.OFFSET_DELETE, 0, 0),
    _later("offset_fetch", ApiKey.OFFSET_FETCH, 1, 10),
    _later("offset_for_leader_epoch", ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    _later("push_telemetry", ApiKey.PUSH_TELEMETRY, 0, 0),
    _later("renew_delegation_token", ApiKey.RENEW_DELEGATION_TOKEN, 1, 2),
    _later("share_acknowledge", ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
    _later("share_fetch", ApiKey.SHARE_FETCH, 1, 2),
    _later("share_group_describe", ApiKey.SHARE_GROUP_DESCRIBE, 1, 1),
    _later("share_group_heartbeat", ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1),
    _later("share_group_state", ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0),
    _later("share_group_state", ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0),
    _later("share_group_state", ApiKey.READ_SHARE_GROUP_STATE, 0, 0),
    _later("share_group_state", ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1),
    _later("share_group_state", ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1),
    _later("streams_group_describe", ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0),
    _later("streams_group_heartbeat", ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0),
    _later("sync_group", ApiKey.SYNC_GROUP, 0, 5),
    _later("txn_offset_commit", ApiKey.TXN_OFFSET_COMMIT, 0, 5),
    _later("update_features", ApiKey.UPDATE_FEATURES, 0, 2),
    _later("write_txn_markers", ApiKey.WRITE_TXN_MARKERS, 1, 2),
)

log = logging.getLogger(__name__)

# Requests that come at the start are served first.
_LOADED_AFTER_S = 1.0


async def load_all(after_s: float = _LOADED_AFTER_S) -> None:
    """Import the rest, one after the other: the installed files may change while a broker runs."""
    await asyncio.sleep(after_s)
    for handler in HANDLERS:
        if handler.load is not None:
            try:
                handler.load()
            except Exception:  # the others are to be there
                log.exception(
                    "a part of the broker cannot be loaded; was it changed while it runs?"
                )
            await asyncio.sleep(0)


__all__ = ["HANDLERS", "load_all"]
