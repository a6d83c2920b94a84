"""Every call between nodes, and how it travels: one line for each. A new call is a file and a line here."""

from typing import Any, Final

from millpond.engine.peers import PeerRequest
from millpond.peer import (
    alter_in_sync,
    append_batch,
    assign_directories,
    close_connections,
    collect_events,
    decide_on_queues,
    find_offset,
    forwarded_request,
    join_transaction,
    list_clients,
    make_topics,
    node_heartbeat,
    pass_reply,
    producer_ids,
    read_replica,
    register_node,
    replica_fetch,
    schedule_timers,
    send_queue_requests,
    share_state,
    tell_pressure,
    write_markers,
)
from millpond.peer.calls import PeerCall
from millpond.peer.own_calls import OwnCalls

# Those that Kafka has no API for.
OWN_CALLS: Final = OwnCalls(
    (
        close_connections.CALL,
        collect_events.CALL,
        collect_events.RELAYED,
        decide_on_queues.CALL,
        list_clients.CALL,
        pass_reply.CALL,
        schedule_timers.CALL,
        send_queue_requests.CALL,
        send_queue_requests.RELAYED,
        tell_pressure.CALL,
    )
)

_ALL: tuple[PeerCall[Any], ...] = (
    alter_in_sync.CALL,
    append_batch.CALL,
    assign_directories.CALL,
    find_offset.CALL,
    forwarded_request.CALL,
    join_transaction.CALL,
    make_topics.CALL,
    node_heartbeat.CALL,
    producer_ids.CALL,
    read_replica.CALL,
    register_node.CALL,
    replica_fetch.CALL,
    *share_state.CALLS,
    write_markers.CALL,
    *OWN_CALLS.peer_calls(),
)

CALLS: Final[dict[type[PeerRequest[Any]], PeerCall[Any]]] = {call.kind: call for call in _ALL}
assert len(CALLS) == len(_ALL)
