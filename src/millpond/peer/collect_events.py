"""``CollectEvents``: what has happened at queues of another node, directly or relayed."""

from typing import cast

from millpond.base.fields import Table
from millpond.engine.queues.peer_requests import CollectEvents, RelayCollect
from millpond.engine.queues.remote.queue_messages import (
    QueueEvent,
    decode_messages,
    encode_messages,
)
from millpond.peer.calls import ConnectionKind
from millpond.peer.own_calls import OwnCall, bytes_of, int_of


def _to_table(one: CollectEvents) -> Table:
    return {
        "node": one.node_id,
        "life": one.life,
        "session": one.session,
        "seen": one.seen,
        "wait": one.wait_ms,
    }


def _from_table(table: Table) -> CollectEvents:
    return CollectEvents(
        node_id=int_of(table["node"]),
        life=str(table["life"]),
        session=int_of(table["session"]),
        seen=int_of(table["seen"]),
        wait_ms=int_of(table["wait"]),
    )


def _answer_to_table(events: tuple[QueueEvent, ...]) -> Table:
    return {"events": encode_messages(events)}


def _answer_from_table(table: Table) -> tuple[QueueEvent, ...]:
    return decode_messages(bytes_of(table["events"]))


CALL = OwnCall(
    name="CollectEvents",
    kind=CollectEvents,
    connection=ConnectionKind.QUEUE_EVENTS,
    to_table=_to_table,
    from_table=_from_table,
    answer_to_table=_answer_to_table,
    answer_from_table=_answer_from_table,
)

RELAYED = OwnCall(
    name="RelayCollect",
    kind=RelayCollect,
    connection=ConnectionKind.RELAYED_EVENTS,
    to_table=lambda one: {"to": one.to, "collect": _to_table(one.collect)},
    from_table=lambda table: RelayCollect(
        to=int_of(table["to"]), collect=_from_table(cast("Table", table["collect"]))
    ),
    answer_to_table=_answer_to_table,
    answer_from_table=_answer_from_table,
)
