"""Every question that a node may ask another, and how it travels. One line for each."""

from typing import Any

from millpond.engine.peers import PeerRequest
from millpond.frontend.kafka.peers import (
    alter_in_sync,
    assign_directories,
    envelope,
    join_transaction,
    make_topics,
    node_heartbeat,
    partition_calls,
    producer_ids,
    queue_calls,
    register_node,
    replica_fetch,
    share_state,
    timer_calls,
    write_markers,
)
from millpond.frontend.kafka.peers.call import PeerCall

_ALL: tuple[PeerCall[Any], ...] = (
    alter_in_sync.CALL,
    assign_directories.CALL,
    envelope.CALL,
    make_topics.CALL,
    node_heartbeat.CALL,
    producer_ids.CALL,
    register_node.CALL,
    join_transaction.CALL,
    *partition_calls.CALLS,
    *queue_calls.CALLS,
    replica_fetch.CALL,
    *share_state.CALLS,
    timer_calls.CALL,
    write_markers.CALL,
)

CALLS: dict[type[PeerRequest[Any]], PeerCall[Any]] = {call.kind: call for call in _ALL}
