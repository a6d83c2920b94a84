"""Which APIs serve clients and which serve only nodes of the cluster.

Kafka guards the calls of its brokers and controllers by the operation CLUSTER_ACTION. Here a node proves that
it is one (``peers/proof.py``), and a connection without that proof is refused what only nodes ask, with
CLUSTER_AUTHORIZATION_FAILED as in Kafka. Administrators' calls (``kafka-metadata-quorum add-controller``,
``kafka-features``, …) are clients' calls: who may make them is a matter of users and rights, not of nodes.

Every API that the wire knows stands in the table; a test fails for one that does not.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from millpond.wire.kafka.api import ApiKey


class Audience(Enum):
    """Which connections may send a request."""

    CLIENTS = "clients"
    NODES = "nodes"
    # Its handler looks into the request (``Context.check_node``): some of it is clients', some nodes'.
    BY_CONTENT = "by content"


_NODES: Final = frozenset(
    {
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.VOTE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
    }
)

_BY_CONTENT: Final = frozenset(
    {
        # From version 4 on it asks for many producers at once, which only partitions' leaders do (KIP-890).
        ApiKey.ADD_PARTITIONS_TO_TXN,
        # A follower's fetch names its replica; the metadata log is read by nodes alone.
        ApiKey.FETCH,
        # `kafka-transactions abort` sends it for a transaction that hangs; coordinators send all else.
        ApiKey.WRITE_TXN_MARKERS,
    }
)

_CLIENTS: Final = frozenset(
    {
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.API_VERSIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_RECORDS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ELECT_LEADERS,
        ApiKey.END_TXN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.FIND_COORDINATOR,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.HEARTBEAT,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_OFFSETS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.PRODUCE,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.RENEW_DELEGATION_TOKEN,
        # These two carry the proof itself.
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.UPDATE_FEATURES,
    }
)

AUDIENCES: Final[Mapping[ApiKey, Audience]] = {
    **dict.fromkeys(_CLIENTS, Audience.CLIENTS),
    **dict.fromkeys(_NODES, Audience.NODES),
    **dict.fromkeys(_BY_CONTENT, Audience.BY_CONTENT),
}

# By number, for the session to look up with each request.
NODES_ONLY: Final[frozenset[int]] = frozenset(int(key) for key in _NODES)
