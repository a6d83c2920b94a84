"""``ListClients``: rows about the clients of another node, for an HTTP API that shows the whole cluster."""

from dataclasses import dataclass

from millpond.engine.peers import PeerRequest
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, bytes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ListClients(PeerRequest[bytes]):
    """To every other node: its ``connections``, ``channels`` or ``consumers``, as rows of JSON.

    ``nodes`` and ``auth_attempts`` are rows about the node itself.
    """

    what: str


CALL = OwnCall(
    name="ListClients",
    kind=ListClients,
    connection=ConnectionKind.QUEUE_REQUESTS,
    to_table=lambda one: {"what": one.what},
    from_table=lambda table: ListClients(what=str(table["what"])),
    answer_to_table=lambda rows: {"rows": rows},
    answer_from_table=lambda table: bytes_of(table["rows"]),
)
