"""``SendQueueRequests``: what clients of one node ask of queues at another, directly or relayed."""

from typing import cast

from millpond.base.fields import Table
from millpond.engine.queues.peer_requests import RelayQueueRequests, SendQueueRequests
from millpond.engine.queues.remote.queue_messages import decode_messages, encode_messages
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, bytes_of, empty_answer, int_of, no_answer


def _to_table(one: SendQueueRequests) -> Table:
    return {
        "node": one.node_id,
        "life": one.life,
        "session": one.session,
        "number": one.number,
        "wishes": encode_messages(one.requests),
    }


def _from_table(table: Table) -> SendQueueRequests:
    return SendQueueRequests(
        node_id=int_of(table["node"]),
        life=str(table["life"]),
        session=int_of(table["session"]),
        number=int_of(table["number"]),
        requests=decode_messages(bytes_of(table["wishes"])),
    )


CALL = OwnCall(
    name="SendWishes",
    kind=SendQueueRequests,
    connection=ConnectionKind.QUEUE_REQUESTS,
    to_table=_to_table,
    from_table=_from_table,
    answer_to_table=empty_answer,
    answer_from_table=no_answer,
)

RELAYED = OwnCall(
    name="RelayWishes",
    kind=RelayQueueRequests,
    connection=ConnectionKind.RELAYED_REQUESTS,
    to_table=lambda one: {"to": one.to, "wishes": _to_table(one.requests)},
    from_table=lambda table: RelayQueueRequests(
        to=int_of(table["to"]), requests=_from_table(cast("Table", table["wishes"]))
    ),
    answer_to_table=empty_answer,
    answer_from_table=no_answer,
)
