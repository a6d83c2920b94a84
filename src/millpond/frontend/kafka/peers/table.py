"""Every question that a node may ask another, and how it travels. One line for each."""

from typing import Any

from millpond.engine.peers import PeerRequest
from millpond.frontend.kafka.peers import join_transaction, replica_fetch, write_markers
from millpond.frontend.kafka.peers.call import PeerCall

_ALL: tuple[PeerCall[Any], ...] = (
    join_transaction.CALL,
    replica_fetch.CALL,
    write_markers.CALL,
)

CALLS: dict[type[PeerRequest[Any]], PeerCall[Any]] = {call.kind: call for call in _ALL}
