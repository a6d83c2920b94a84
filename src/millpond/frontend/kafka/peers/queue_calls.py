"""What nodes say to each other about queues. Kafka has no such requests, so these travel in an Envelope.

A client's request that was sent on has no principal in its envelope; these have one that says what is inside:
tables of typed values (``base/fields.py``), as facts about queues are. A refusal comes back in the answer
with its class, because AMQP's clients are told more than Kafka has codes for.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast, get_args

from millpond.base.errors import MalformedData, MillpondError
from millpond.base.fields import LongString, Table, decode_table, encode_table
from millpond.engine.peers import (
    CloseConnections,
    CollectEvents,
    DecideOnQueues,
    ListClients,
    PassReply,
    PeerRequest,
    QueueDecision,
    RelayCollect,
    RelayWishes,
    SendQueueRequests,
    TellPressure,
)
from millpond.engine.queues.remote.queue_messages import (
    decode_error,
    decode_letters,
    encode_error,
    encode_letters,
)
from millpond.frontend.kafka.peers.call import ConnectionKind, PeerCall, raise_refusal
from millpond.rabbit.commands import Command, Principal
from millpond.rabbit.records import KINDS, Queue, decode_fact, encode_fact
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

# The principal of an envelope with a question about queues.
ABOUT_QUEUES = b"millpond.queues"

_COMMANDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Command)}
_TEXT = frozenset(("str", "<class 'str'>"))
_FACTS = tuple(KINDS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One kind of question: its bytes and its answer's, there and back."""

    kind: type[PeerRequest[Any]]
    lane: ConnectionKind
    to_table: Callable[[Any], Table]
    from_table: Callable[[Table], PeerRequest[Any]]
    answer_to_table: Callable[[Any], Table]
    answer_from_table: Callable[[Table], Any]


def to_wire(question: PeerRequest[Any]) -> EnvelopeRequest:
    """The envelope of a question."""
    name = type(question).__name__
    table: Table = {"question": name, **_KINDS[name].to_table(question)}
    return EnvelopeRequest(request_data=encode_table(table), request_principal=ABOUT_QUEUES)


def question_of(message: EnvelopeRequest) -> PeerRequest[Any]:
    """What the envelope asks. Raises ``MalformedData``."""
    table = decode_table(bytes(message.request_data))
    kind = _KINDS.get(str(table.get("question")))
    if kind is None:
        raise MalformedData(f"nobody answers {table.get('question')!r} about queues")
    try:
        return kind.from_table(table)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedData(f"a question about queues lacks something: {error!r}") from None


def answer_to_wire(
    question: PeerRequest[Any], answer: object, error: MillpondError | None = None
) -> EnvelopeResponse:
    """The envelope of an answer, or of why there is none."""
    if error is not None:
        table: Table = {"error": cast("Any", encode_error(error))}
    else:
        table = _KINDS[type(question).__name__].answer_to_table(answer)
    return EnvelopeResponse(response_data=encode_table(table))


def from_wire(question: PeerRequest[Any], message: EnvelopeResponse) -> Any:
    """The answer. Raises what the peer refused with."""
    raise_refusal(message.error_code)
    table = decode_table(bytes(message.response_data or b""))
    if "error" in table:
        raise decode_error(table["error"])
    try:
        return _KINDS[type(question).__name__].answer_from_table(table)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedData(f"an answer about queues lacks something: {error!r}") from None


# --- commands ------------------------------------------------------------------------------------------


def _command_to_table(command: object) -> Table:
    values: dict[str, Any] = {"command": type(command).__name__}
    for one in fields(command):  # type: ignore[arg-type]
        values[one.name] = _value(getattr(command, one.name))
    return values


def _value(value: Any) -> Any:
    if isinstance(value, _FACTS):
        return {"fact": encode_fact(value)}
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        # What is as always is left out: an older node does not know all of it.
        said = ((one.name, getattr(value, one.name), one.default) for one in fields(value))
        return {name: _value(given) for name, given, usual in said if given != usual}
    return value


def _command(table: Table) -> Any:
    kind = _COMMANDS[str(table["command"])]
    values: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in table:
            values[one.name] = _read(one.name, str(one.type), table[one.name])
    return kind(**values)


def _read(name: str, type_: str, value: Any) -> Any:
    if name == "asker":
        return _asker(value)
    if isinstance(value, LongString) and type_ in _TEXT:
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict) and set(value) == {"fact"}:
        return decode_fact(value["fact"])
    if isinstance(value, list) and "tuple" in type_:
        return tuple(_read("", "", one) for one in value)
    return value


def _asker(values: dict[str, Any]) -> Principal:
    scopes = values.get("scopes")
    return Principal(**{**values, "scopes": None if scopes is None else tuple(map(str, scopes))})


def _decision_to_table(decision: QueueDecision) -> Table:
    queue = decision.queue
    return {
        "offset": decision.offset,
        "queue": None if queue is None else encode_fact(queue),
    }


def _decision(table: Table) -> QueueDecision:
    queue = table["queue"]
    found = decode_fact(queue) if isinstance(queue, bytes) else None
    return QueueDecision(
        offset=_int(table["offset"]), queue=found if isinstance(found, Queue) else None
    )


# --- the rest --------------------------------------------------------------------------------------------


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is no bytes")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return tuple(str(one) for one in value)


def _nothing(_answer: object) -> Table:
    return {}


def _wishes_to_table(one: SendQueueRequests) -> Table:
    return {
        "node": one.node_id,
        "life": one.life,
        "session": one.session,
        "number": one.number,
        "wishes": encode_letters(one.wishes),
    }


def _wishes(table: Table) -> SendQueueRequests:
    return SendQueueRequests(
        node_id=_int(table["node"]),
        life=str(table["life"]),
        session=_int(table["session"]),
        number=_int(table["number"]),
        wishes=decode_letters(_bytes(table["wishes"])),
    )


def _collect_to_table(one: CollectEvents) -> Table:
    return {
        "node": one.node_id,
        "life": one.life,
        "session": one.session,
        "seen": one.seen,
        "wait": one.wait_ms,
    }


def _collect(table: Table) -> CollectEvents:
    return CollectEvents(
        node_id=_int(table["node"]),
        life=str(table["life"]),
        session=_int(table["session"]),
        seen=_int(table["seen"]),
        wait_ms=_int(table["wait"]),
    )


_ALL = (
    _Kind(
        kind=DecideOnQueues,
        lane=ConnectionKind.QUEUE_COMMANDS,
        to_table=lambda one: {
            "node": one.node_id,
            "life": one.life,
            "command": _command_to_table(one.command),
        },
        from_table=lambda table: DecideOnQueues(
            node_id=_int(table["node"]),
            life=str(table["life"]),
            command=_command(cast("Table", table["command"])),
        ),
        answer_to_table=_decision_to_table,
        answer_from_table=_decision,
    ),
    _Kind(
        kind=SendQueueRequests,
        lane=ConnectionKind.QUEUE_WISHES,
        to_table=_wishes_to_table,
        from_table=_wishes,
        answer_to_table=_nothing,
        answer_from_table=lambda _table: None,
    ),
    _Kind(
        kind=CollectEvents,
        lane=ConnectionKind.QUEUE_EVENTS,
        to_table=_collect_to_table,
        from_table=_collect,
        answer_to_table=lambda events: {"events": encode_letters(events)},
        answer_from_table=lambda table: decode_letters(_bytes(table["events"])),
    ),
    _Kind(
        kind=RelayWishes,
        lane=ConnectionKind.RELAYED_WISHES,
        to_table=lambda one: {"to": one.to, "wishes": _wishes_to_table(one.wishes)},
        from_table=lambda table: RelayWishes(
            to=_int(table["to"]), wishes=_wishes(cast("Table", table["wishes"]))
        ),
        answer_to_table=_nothing,
        answer_from_table=lambda _table: None,
    ),
    _Kind(
        kind=RelayCollect,
        lane=ConnectionKind.RELAYED_EVENTS,
        to_table=lambda one: {"to": one.to, "collect": _collect_to_table(one.collect)},
        from_table=lambda table: RelayCollect(
            to=_int(table["to"]), collect=_collect(cast("Table", table["collect"]))
        ),
        answer_to_table=lambda events: {"events": encode_letters(events)},
        answer_from_table=lambda table: decode_letters(_bytes(table["events"])),
    ),
    _Kind(
        kind=PassReply,
        lane=ConnectionKind.QUEUE_WISHES,
        to_table=lambda one: {"key": one.key, "batch": one.batch},
        from_table=lambda table: PassReply(key=str(table["key"]), batch=_bytes(table["batch"])),
        answer_to_table=_nothing,
        answer_from_table=lambda _table: None,
    ),
    _Kind(
        kind=ListClients,
        lane=ConnectionKind.QUEUE_WISHES,
        to_table=lambda one: {"what": one.what},
        from_table=lambda table: ListClients(what=str(table["what"])),
        answer_to_table=lambda rows: {"rows": rows},
        answer_from_table=lambda table: _bytes(table["rows"]),
    ),
    _Kind(
        kind=CloseConnections,
        lane=ConnectionKind.QUEUE_WISHES,
        to_table=lambda one: {"names": list(one.names), "reason": one.reason},
        from_table=lambda table: CloseConnections(
            names=_texts(table["names"]), reason=str(table["reason"])
        ),
        answer_to_table=lambda count: {"closed": count},
        answer_from_table=lambda table: _int(table["closed"]),
    ),
    _Kind(
        kind=TellPressure,
        lane=ConnectionKind.QUEUE_WISHES,
        to_table=lambda one: {"node": one.node_id, "low": list(one.low_on)},
        from_table=lambda table: TellPressure(
            node_id=_int(table["node"]), low_on=_texts(table["low"])
        ),
        answer_to_table=_nothing,
        answer_from_table=lambda _table: None,
    ),
)
_KINDS = {one.kind.__name__: one for one in _ALL}

CALLS = tuple(
    PeerCall(
        kind=one.kind,
        api_key=ApiKey.ENVELOPE,
        version=0,
        to_wire=to_wire,
        from_wire=from_wire,
        lane=one.lane,
    )
    for one in _ALL
)
