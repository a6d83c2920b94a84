"""The records of ``__timers``, a compacted topic: which timers are pending, and what is being delivered.

A *target* is the partition that a timer's record goes to. All timers of a target are in one partition of
``__timers``, named by the offset that the producer was told (``source``). A partition of ``__timers`` has

* for each pending timer its record; a missing value says that it was delivered or cancelled;
* for each target the *position*: all delayed records of the target below this offset have become timers;
* for each target at most one *intent*: these timers are being delivered, in this order, as one batch with
  this producer id and sequence. A missing value says that they were delivered.

    key: version u8 | kind u8 | topic id | partition i32 [| source i64]
    position: version u8 | offset i64
    intent: version u8 | producer id i64 | sequence i32 | sources i64 each
"""

import sys
from array import array
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from millpond.base.errors import MalformedData

_VERSION: Final = 0
_TIMER: Final = 0
_POSITION: Final = 1
_INTENT: Final = 2
_KEY: Final = Struct(">BB16si")
_SOURCE: Final = Struct(">q")
_POSITION_VALUE: Final = Struct(">Bq")
_INTENT_HEAD: Final = Struct(">Bqi")


class Target(NamedTuple):
    """The partition that timers' records go to."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class TimerScheduled:
    """A timer is pending; ``value`` is its record (``timer.delayed``)."""

    target: Target
    source: int
    value: bytes


@dataclass(frozen=True, slots=True)
class TimerEnded:
    """A timer's record was delivered, or the timer was cancelled."""

    target: Target
    source: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    """All delayed records of the target below this offset have become timers."""

    target: Target
    position: int


@dataclass(frozen=True, slots=True)
class TargetForgotten:
    """The target does not exist any more."""

    target: Target


@dataclass(frozen=True, slots=True)
class Intent:
    """These timers are being delivered, in this order, as one batch."""

    target: Target
    producer_id: int
    sequence: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IntentDone:
    """What the target's intent named was delivered, or will not be."""

    target: Target


Fact: TypeAlias = TimerScheduled | TimerEnded | Scheduled | TargetForgotten | Intent | IntentDone


def encode(fact: Fact) -> tuple[bytes, bytes | None]:
    """The key and the value (None for a tombstone) that say this."""
    match fact:
        case TimerScheduled(target, source, value):
            return _timer_key(target, source), value
        case TimerEnded(target, source):
            return _timer_key(target, source), None
        case Scheduled(target, position):
            return _key(_POSITION, target), _POSITION_VALUE.pack(_VERSION, position)
        case TargetForgotten(target):
            return _key(_POSITION, target), None
        case Intent(target, producer_id, sequence, sources):
            head = _INTENT_HEAD.pack(_VERSION, producer_id, sequence)
            return _key(_INTENT, target), head + _packed(sources)
        case IntentDone(target):
            return _key(_INTENT, target), None


def decode(key: bytes, value: bytes | None) -> Fact:
    """Read a fact back. ``MalformedData`` if the bytes cannot be one."""
    try:
        version, kind, topic_id, partition = _KEY.unpack_from(key)
        target = Target(UUID(bytes=topic_id), partition)
        if version != _VERSION:
            raise MalformedData(f"version {version} of a timer's key is not known")
        if kind == _TIMER:
            (source,) = _SOURCE.unpack_from(key, _KEY.size)
            if value is None:
                return TimerEnded(target, source)
            return TimerScheduled(target, source, value)
        if kind == _POSITION:
            return TargetForgotten(target) if value is None else _position(target, value)
        if kind == _INTENT:
            return IntentDone(target) if value is None else _intent(target, value)
    except StructError:
        raise MalformedData(
            f"{len(key)} bytes are no key of a timer, or its value is cut"
        ) from None
    raise MalformedData(f"a timer's key of kind {kind} is not known")


def _key(kind: int, target: Target) -> bytes:
    return _KEY.pack(_VERSION, kind, target.topic_id.bytes, target.partition)


def _timer_key(target: Target, source: int) -> bytes:
    return _key(_TIMER, target) + _SOURCE.pack(source)


def _position(target: Target, value: bytes) -> Scheduled:
    version, position = _POSITION_VALUE.unpack(value)
    _check(version, "position")
    return Scheduled(target, position)


def _intent(target: Target, value: bytes) -> Intent:
    version, producer_id, sequence = _INTENT_HEAD.unpack_from(value)
    _check(version, "intent")
    sources: array[int] = array("q")
    packed = value[_INTENT_HEAD.size :]
    if len(packed) % sources.itemsize:
        raise MalformedData(f"an intent of {len(value)} bytes is cut")
    sources.frombytes(packed)
    if sys.byteorder == "little":
        sources.byteswap()
    return Intent(target, producer_id, sequence, tuple(sources))


def _packed(sources: tuple[int, ...]) -> bytes:
    packed = array("q", sources)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def _check(version: int, what: str) -> None:
    if version != _VERSION:
        raise MalformedData(f"version {version} of a timer's {what} is not known")
