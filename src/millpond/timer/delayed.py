"""A record that is to be delivered later: how a producer asks for it, and how it is kept until then.

A producer sets one header of a record: ``millpond.deliver-at`` (milliseconds since the epoch) or
``millpond.delay`` (milliseconds from now on), as decimal digits. ``millpond.cancel`` names a delayed record
of the same partition, by the offset that its producer was told, which is not to be delivered after all.

What is kept is the record and its due time, in bytes that are the same in the control batch of its partition
(``timer.deferral``) and in ``__timers``. What is delivered has the headers ``millpond.due-at`` and
``millpond.created-at`` (the producer's own time) instead of the one that asked for the delay, so a consumer
that passes it on does not delay it again.

    version u8 | kind u8 | due ms i64 | created ms i64 | a record in Kafka's format, deltas 0
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)
from typing import Final

from millpond.base.errors import CorruptBatch, InvalidRecord, MalformedData
from millpond.base.limits import TIMER_DELAY_MS_MAX
from millpond.record.batch import MAGIC, BatchHeader
from millpond.record.builder import NewRecord, encode_records
from millpond.record.records import Headers, Record, decode_records

DELIVER_AT: Final = "millpond.deliver-at"
DELAY: Final = "millpond.delay"
CANCEL: Final = "millpond.cancel"
DUE_AT: Final = "millpond.due-at"
CREATED_AT: Final = "millpond.created-at"
# What all of these begin with, for a look at a batch's bytes.
PREFIX: Final = b"millpond."

_ASKING: Final = frozenset({DELIVER_AT, DELAY, CANCEL})
_VERSION: Final = 0
_HEAD: Final = Struct(">BBqq")
_DIGITS_MAX: Final = 19


class Kind(IntEnum):
    """What is to become of a record, by its number in the log."""

    # It is delivered when it is due.
    DELAYED = 0
    # It was not delayed, and came in a batch with records that were.
    PLAIN = 1
    # It takes a delayed record back; ``due_ms`` is that one's offset.
    CANCEL = 2


# By number: a look into a tuple takes a third of the time of ``Kind(number)``.
_KINDS: Final = tuple(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A record and when it is due.

    ``due_ms`` is an offset if the kind is ``CANCEL``, and 0 if it is ``PLAIN``.
    """

    kind: Kind
    due_ms: int
    created_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_request(record: Record, now_ms: int) -> Delayed | None:
    """What a producer wants of its record; None if it asks for nothing. Raises ``InvalidRecord``."""
    asked = [(name, value) for name, value in record.headers if name in _ASKING]
    if not asked:
        return None
    if len(asked) > 1:
        names = " and ".join(name for name, _ in asked)
        raise InvalidRecord(f"a record has the headers {names}; it may have one of them, once")
    name, value = asked[0]
    number = _number(name, value)
    if name == CANCEL:
        kind, due_ms = Kind.CANCEL, number
    else:
        kind, due_ms = Kind.DELAYED, number + (now_ms if name == DELAY else 0)
        if due_ms - now_ms > TIMER_DELAY_MS_MAX:
            raise InvalidRecord(
                f"the header {name} says {number}: that is more than {TIMER_DELAY_MS_MAX} ms away; the "
                f"number is milliseconds {'from now on' if name == DELAY else 'since the epoch'}"
            )
    return Delayed(
        kind=kind,
        due_ms=due_ms,
        created_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(pair for pair in record.headers if pair[0] not in _ASKING),
    )


def plain(record: Record) -> Delayed:
    """A record without delay, as it is kept beside those that have one."""
    return Delayed(
        kind=Kind.PLAIN,
        due_ms=0,
        created_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def delivered(one: Delayed, now_ms: int) -> NewRecord:
    """The record that is appended when it is due. Its time is that of the delivery."""
    if one.kind is Kind.PLAIN:
        return one.created_ms, one.key, one.value, one.headers
    notes = (
        (DUE_AT, str(one.due_ms).encode()),
        (CREATED_AT, str(one.created_ms).encode()),
    )
    kept = tuple(pair for pair in one.headers if pair[0] not in {DUE_AT, CREATED_AT})
    return now_ms, one.key, one.value, (*kept, *notes)


def encode(one: Delayed) -> bytes:
    """The bytes that are kept."""
    head = _HEAD.pack(_VERSION, one.kind, one.due_ms, one.created_ms)
    return head + encode_records([(0, one.key, one.value, one.headers)], (0,), 0)


def due_of(value: bytes) -> tuple[Kind, int]:
    """The kind and the due time, without a look at the record. Raises ``MalformedData``."""
    try:
        version, kind, due_ms, _created_ms = _HEAD.unpack_from(value)
        if version != _VERSION or due_ms < 0:
            raise MalformedData(f"version {version} of a delayed record is not known")
        return _KINDS[kind], due_ms
    except (StructError, IndexError):
        raise MalformedData(f"{len(value)} bytes are no delayed record") from None


def decode(value: bytes) -> Delayed:
    """Read back what ``encode`` wrote. Raises ``MalformedData``."""
    kind, due_ms = due_of(value)
    try:
        (record,) = decode_records(value[_HEAD.size :], _ONE_RECORD)
    except CorruptBatch as error:
        raise MalformedData(f"a delayed record cannot be read: {error}") from None
    return Delayed(
        kind=kind,
        due_ms=due_ms,
        created_ms=_HEAD.unpack_from(value)[3],
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def _number(name: str, value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > _DIGITS_MAX:
        shown = "nothing" if value is None else repr(value[:40].decode("utf-8", "replace"))
        raise InvalidRecord(f"the header {name} must be a number in decimal digits, not {shown}")
    number = int(value)
    if number >= 1 << 62:
        raise InvalidRecord(f"the header {name} says {number}, which is too large")
    return number


_ONE_RECORD: Final = BatchHeader(
    base_offset=0,
    length=0,
    leader_epoch=-1,
    magic=MAGIC,
    crc=0,
    attributes=0,
    last_offset_delta=0,
    base_timestamp=0,
    max_timestamp=0,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=-1,
    record_count=1,
)
