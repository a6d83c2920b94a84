"""What a queue's log says of its messages, between them: facts in control batches, which readers skip.

A fact is a list of runs of offsets with what holds of them from then on. A run that is available and has been
delivered is one that was handed out: the node that loads the queue knows that a consumer may have seen it,
and not which. A fact speaks only of offsets below its own, so a log may lose its beginning up to the first
message that is not over, and nothing that is lost is missed. That messages with an age of their own may be in
the log is said again before the log loses its beginning. A run that is held is one that is to come again at a
time.

A *mark* is an offset, ahead of what was handed out: whatever lies below it may have been handed out though
the log does not say so. A host whose log has copies writes it before it hands anything out, so that the next
host, which may lack the last facts, knows what may have been seen. A snapshot says
it, too, and a log is not cut behind the last that its copies have; 0 takes it back.

A snapshot says all that the log before it says, so that the node that loads the queue need not read that.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import NamedTuple

from millpond.base.errors import CorruptBatch, MalformedVarint, UnsupportedVersion
from millpond.base.varint import VARLONG_BYTES_MAX, decode_unsigned, encode_unsigned
from millpond.cursor.runs import NEVER_MS, NO_OWNER, Run, State
from millpond.queue.gaps import PackedGaps, skip
from millpond.queue.lane import LATER, LaneState
from millpond.record.builder import build_control
from millpond.record.records import Record

# Of a control record's key; far above the types that Kafka has.
QUEUE_FACTS_TYPE = 1_000
QUEUE_SNAPSHOT_TYPE = 1_001
_KEY = Struct(">hh").pack(0, QUEUE_FACTS_TYPE)
_SNAPSHOT_KEY = Struct(">hh").pack(0, QUEUE_SNAPSHOT_TYPE)
_VERSION = 0
_HAS_TTL = 1
_HAS_BYTES = 2
_HAS_MARK = 4


class LogFacts(NamedTuple):
    """One control record's worth."""

    runs: tuple[Run, ...]
    has_ttl: bool = False
    mark: int | None = None


class LaneSnapshot(NamedTuple):
    """What holds of all messages below ``taken``.

    ``kept_bytes`` is the size of those that are not over, where it is counted.
    """

    taken: int
    lane: LaneState
    has_ttl: bool = False
    kept_bytes: int | None = None
    mark: int = 0


def build_facts(facts: LogFacts, *, now_ms: int) -> bytearray:
    """A control batch."""
    flags = (_HAS_TTL if facts.has_ttl else 0) | (_HAS_MARK if facts.mark is not None else 0)
    out = bytearray((_VERSION, flags))
    _put_runs(out, facts.runs, 0)
    if facts.mark is not None:
        out += encode_unsigned(facts.mark)
    return build_control(now_ms, _KEY, bytes(out))


def build_snapshot(snapshot: LaneSnapshot, *, now_ms: int) -> bytearray:
    """A control batch. Offsets are written as distances."""
    lane, kept_bytes = snapshot.lane, snapshot.kept_bytes
    flags = (_HAS_TTL if snapshot.has_ttl else 0) | (_HAS_BYTES if kept_bytes is not None else 0)
    flags |= _HAS_MARK if snapshot.mark else 0
    out = bytearray((_VERSION, flags))
    out += encode_unsigned(lane.start)
    out += encode_unsigned(lane.end - lane.start)
    out += encode_unsigned(snapshot.taken - lane.start)
    _put_runs(out, lane.runs, lane.start)
    out += encode_unsigned(lane.gaps.count)
    out += lane.gaps.data
    if kept_bytes is not None:
        out += encode_unsigned(kept_bytes)
    if snapshot.mark:
        out += encode_unsigned(snapshot.mark)
    return build_control(now_ms, _SNAPSHOT_KEY, bytes(out))


def read_facts(records: Iterable[Record]) -> LogFacts:
    """What a control batch says; nothing if it is of another kind.

    Raises ``CorruptBatch``, and ``UnsupportedVersion`` where a newer program wrote it.
    """
    runs: list[Run] = []
    has_ttl = False
    mark: int | None = None
    for record in records:
        if record.key != _KEY or not record.value:
            continue
        with _reading():
            _check_version(record.value)
            has_ttl = bool(record.value[1] & _HAS_TTL) or has_ttl
            found, position = _get_runs(record.value, 2, 0)
            runs += found
            if record.value[1] & _HAS_MARK:
                mark, position = decode_unsigned(record.value, position, VARLONG_BYTES_MAX)
    return LogFacts(tuple(runs), has_ttl, mark)


def read_snapshot(records: Iterable[Record]) -> LaneSnapshot | None:
    """The snapshot that a control batch is; None if it is of another kind. Raises as ``read_facts`` does."""
    for record in records:
        if record.key == _SNAPSHOT_KEY and record.value:
            with _reading():
                _check_version(record.value)
                return _get_snapshot(record.value)
    return None


def _check_version(data: bytes) -> None:
    if data[0] != _VERSION:
        raise UnsupportedVersion(
            f"what a queue wrote to its log has version {data[0]}, and this version of Millpond reads "
            f"{_VERSION}: a newer one wrote it; use that"
        )


def _get_snapshot(data: bytes) -> LaneSnapshot:
    start, position = decode_unsigned(data, 2, VARLONG_BYTES_MAX)
    length, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
    reach, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
    runs, position = _get_runs(data, position, start)
    count, position = decode_unsigned(data, position)
    gaps_end = skip(data, position, count)
    gaps = PackedGaps(count, bytes(data[position:gaps_end]))
    position = gaps_end
    kept_bytes: int | None = None
    if data[1] & _HAS_BYTES:
        kept_bytes, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
    mark = 0
    if data[1] & _HAS_MARK:
        mark, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
    lane = LaneState(start, start + length, tuple(runs), gaps)
    return LaneSnapshot(start + reach, lane, bool(data[1] & _HAS_TTL), kept_bytes, mark)


def _put_runs(out: bytearray, runs: Sequence[Run], base: int) -> None:
    out += encode_unsigned(len(runs))
    for run in runs:
        assert run.owner in {NO_OWNER, LATER}
        out += encode_unsigned(run.first - base)
        out += encode_unsigned(run.next - run.first)
        out += encode_unsigned(run.state)
        out += encode_unsigned(run.deliveries)
        if run.state is State.ACQUIRED:
            out += encode_unsigned(run.deadline_ms)


def _get_runs(data: bytes, position: int, base: int) -> tuple[list[Run], int]:
    runs: list[Run] = []
    count, position = decode_unsigned(data, position)
    for _run in range(count):
        first, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        size, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        number, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        deliveries, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        state, owner, deadline_ms = State(number), NO_OWNER, NEVER_MS
        if state is State.ACQUIRED:
            owner = LATER
            deadline_ms, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        first += base
        runs.append(Run(first, first + size, state, deliveries, owner, deadline_ms))
    return runs, position


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (IndexError, MalformedVarint, ValueError) as error:
        raise CorruptBatch(f"what a queue wrote to its log cannot be read: {error}") from error
