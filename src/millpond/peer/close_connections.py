"""``CloseConnections``: end connections of clients to another node."""

from dataclasses import dataclass

from millpond.engine.peers import PeerRequest
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, int_of, texts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConnections(PeerRequest[int]):
    """To the node that has these connections: end them. The answer is how many there were."""

    names: tuple[str, ...]
    reason: str


CALL = OwnCall(
    name="CloseConnections",
    kind=CloseConnections,
    connection=ConnectionKind.QUEUE_REQUESTS,
    to_table=lambda one: {"names": list(one.names), "reason": one.reason},
    from_table=lambda table: CloseConnections(
        names=texts_of(table["names"]), reason=str(table["reason"])
    ),
    answer_to_table=lambda count: {"closed": count},
    answer_from_table=lambda table: int_of(table["closed"]),
)
