"""Requests of a front-end's node to the host of a queue, events that come back, and their bytes.

Both stay in order. A request names the *attachment*, the number that the queue has between the two nodes; one
that is to be answered has a number of its own. Messages travel as the record batches that they are kept as.
"""

from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeAlias

from millpond.base.errors import MalformedData, MillpondError
from millpond.base.fields import LongString, Table, decode_table, encode_table
from millpond.cursor.ack import Range
from millpond.engine.peers import decode_error, encode_error
from millpond.queue.consumers import Consumer
from millpond.rabbit.commands import DeleteQueue, Principal

# --- requests ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attach:
    """Use a queue: requests with this attachment are about it from now on."""

    attachment: int
    key: str


@dataclass(frozen=True, slots=True)
class Detach:
    """No client of the sender uses the queue any more."""

    attachment: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Messages; answered with how many were admitted, when those are as safe as they have to be.

    ``again``: another host was told of them and did not answer, so they may be in the queue already.
    """

    attachment: int
    number: int
    batch: bytes
    again: bool = False


@dataclass(frozen=True, slots=True)
class Consume:
    """A consumer comes. ``credit``: so many messages may come for it, all in all."""

    attachment: int
    number: int
    consumer: Consumer
    credit: int


@dataclass(frozen=True, slots=True)
class Cancel:
    attachment: int
    number: int
    owner: str


@dataclass(frozen=True, slots=True)
class Credit:
    """A consumer may have more: so many, all in all."""

    attachment: int
    owner: str
    credit: int


@dataclass(frozen=True, slots=True)
class Finish:
    """What became of messages: ``settle``, ``requeue`` or ``reject``."""

    attachment: int
    verb: str
    lane: int
    ranges: tuple[Range, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class LoseChannel:
    attachment: int
    channel: str


@dataclass(frozen=True, slots=True)
class Count:
    """``is_use``: the question counts as a use of the queue, and what is on its way into it is waited for.

    ``deletion``: the queue is to go if it is as this says; then the answer ends with ``DELETED``. A host that
    does not know of that counts only. ``wants_lost``: the answer is to say what was lost, too, which earlier
    versions would not understand.
    """

    attachment: int
    number: int
    is_use: bool
    deletion: Table = field(default_factory=dict)
    wants_lost: bool = False

    @property
    def command(self) -> DeleteQueue:
        """Which client deletes which queue, and on which conditions."""
        values: dict[str, Any] = {name: _text(one) for name, one in self.deletion.items()}
        if values["scopes"] is not None:
            values["scopes"] = tuple(values["scopes"])
        asker = Principal(**{one.name: values.pop(one.name) for one in fields(Principal)})
        return DeleteQueue(asker=asker, **values)


DELETED = 1


def deletion_of(command: DeleteQueue) -> Table:
    """What a ``Count`` says of it."""
    asker = {one.name: getattr(command.asker, one.name) for one in fields(Principal)}
    conditions = {"if_unused": command.if_unused, "if_empty": command.if_empty}
    return {**asker, "name": command.name, **conditions}


@dataclass(frozen=True, slots=True)
class Get:
    attachment: int
    number: int
    consumer: Consumer


@dataclass(frozen=True, slots=True)
class Purge:
    attachment: int
    number: int


QueueRequest: TypeAlias = (
    Attach
    | Detach
    | Publish
    | Consume
    | Cancel
    | Credit
    | Finish
    | LoseChannel
    | Count
    | Get
    | Purge
)

# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Detached:
    """The queue is not hosted here, or not any more; nothing more comes of this attachment."""

    attachment: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request: numbers, and the message that was asked for."""

    number: int
    values: tuple[int, ...] = ()
    batch: bytes = b""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request was refused."""

    number: int
    error: MillpondError


@dataclass(frozen=True, slots=True)
class Handed:
    """Messages for a consumer: some of a lane from ``first`` on, one for each record of the batch."""

    attachment: int
    owner: str
    lane: int
    first: int
    deliveries: int
    batch: bytes


QueueEvent: TypeAlias = Detached | Answered | Refused | Handed

# --- bytes -------------------------------------------------------------------------------------------

# The numbers are spoken between versions: they may be added to, never changed.
_KINDS: dict[int, type[Any]] = {
    1: Attach,
    2: Detach,
    3: Publish,
    4: Consume,
    5: Cancel,
    6: Credit,
    7: Finish,
    8: LoseChannel,
    9: Count,
    10: Get,
    11: Purge,
    101: Detached,
    102: Answered,
    103: Refused,
    104: Handed,
}
_NUMBERS = {kind: number for number, kind in _KINDS.items()}


def encode_messages(messages: Iterable[QueueRequest | QueueEvent]) -> bytes:
    """Encode requests or events, in order."""
    return encode_table({"letters": [_values(message) for message in messages]})


def decode_messages(data: bytes) -> tuple[Any, ...]:
    """Reads what ``encode_messages`` wrote. Raises ``MalformedData``."""
    found = decode_table(data).get("letters")
    if not isinstance(found, list):
        raise MalformedData("there are no letters")
    return tuple(_message(one) for one in found)


def _values(message: QueueRequest | QueueEvent) -> list[object]:
    values: list[object] = [_NUMBERS[type(message)]]
    for one in fields(message):
        value = getattr(message, one.name)
        match value:
            case Consumer():
                value = _consumer_values(value)
            case MillpondError():
                value = encode_error(value)
            case tuple():
                value = [list(item) if isinstance(item, tuple) else item for item in value]
            case _:
                pass
        values.append(value)
    return values


def _message(value: object) -> Any:
    if not isinstance(value, list) or not value or value[0] not in _KINDS:
        raise MalformedData("a letter between nodes is of no known kind")
    kind = _KINDS[value[0]]
    names = [one.name for one in fields(kind)]
    # Earlier versions do not say what was added since; it has a default.
    if len(value) - 1 < sum(_is_needed(one) for one in fields(kind)):
        raise MalformedData(f"{kind.__name__} lacks something")
    try:
        return kind(*(_read(name, one) for name, one in zip(names, value[1:], strict=False)))
    except (TypeError, ValueError) as error:
        raise MalformedData(f"{kind.__name__} cannot be read: {error}") from None


def _is_needed(one: "Field[Any]") -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _read(name: str, value: Any) -> Any:
    match name:
        case "consumer":
            return _consumer(value)
        case "error":
            return decode_error(value)
        case "ranges":
            return tuple((first, next_) for first, next_ in value)
        case "values":
            return tuple(value)
        case "batch":
            return bytes(value)
        case _:
            return _text(value)


def _text(value: Any) -> Any:
    """Names of queues and consumers may have bytes that are no text, as AMQP allows."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, LongString) else value


def _consumer_values(consumer: Consumer) -> Table:
    return {one.name: getattr(consumer, one.name) for one in fields(consumer)}


def _consumer(value: Table) -> Consumer:
    known = {one.name for one in fields(Consumer)}
    values: dict[str, Any] = {name: _text(one) for name, one in value.items() if name in known}
    return Consumer(**values)
