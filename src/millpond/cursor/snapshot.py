"""Encodes an ack cursor's deltas and snapshots as bytes.

Layout: a version byte, a flags byte, the start, the names of owners once each, then the runs. Numbers are
varints; a run's first offset is written as the distance from the end of the run before it, so a run of any
length takes about five bytes. Bytes may come from a damaged file: invalid ones raise ``MalformedData``.
"""

from collections.abc import Iterable

from millpond.base import varint
from millpond.base.errors import MalformedData
from millpond.cursor.ack import AckCursor, Delta
from millpond.cursor.dead_letter import DeadLetterPolicy
from millpond.cursor.runs import NEVER_MS, Run, State

VERSION = 1

_HAS_START = 1
_RESTARTS = 2
_KNOWN_FLAGS = _HAS_START | _RESTARTS

# The smallest size of a run, so that a count can be checked before memory is allocated.
_RUN_BYTES_MIN = 4
_LONG = varint.VARLONG_BYTES_MAX


def encode_delta(delta: Delta) -> bytes:
    """Encode a delta."""
    flags = (_HAS_START if delta.start is not None else 0) | (_RESTARTS if delta.restarts else 0)
    owners = {
        owner: index for index, owner in enumerate(dict.fromkeys(r.owner for r in delta.runs))
    }
    start = delta.start or 0
    parts = [bytes((VERSION, flags)), varint.encode_signed(start)]
    parts.append(varint.encode_unsigned(len(owners)))
    for owner in owners:
        name = owner.encode()
        parts += (varint.encode_unsigned(len(name)), name)
    parts.append(varint.encode_unsigned(len(delta.runs)))
    position = start
    for run in delta.runs:
        # A bit beside the state says whether there is a deadline.
        timed = run.deadline_ms != NEVER_MS
        parts += (
            varint.encode_signed(run.first - position),
            varint.encode_unsigned(run.next - run.first),
            varint.encode_unsigned(run.deliveries),
            bytes(((run.state << 1) | timed,)),
            varint.encode_unsigned(owners[run.owner]),
        )
        if timed:
            parts.append(varint.encode_signed(run.deadline_ms))
        position = run.next
    return b"".join(parts)


def decode_delta(data: bytes) -> Delta:
    """Decode a delta."""
    if len(data) < 2 or data[0] != VERSION:
        raise MalformedData("this is not a cursor's record, or of a version that is not known")
    flags = data[1]
    if flags & ~_KNOWN_FLAGS or flags == _RESTARTS:
        raise MalformedData(f"a cursor's record has flags {flags:#x}")
    start, position = varint.decode_signed(data, 2)
    owners, position = _decode_owners(data, position)
    runs, position = _decode_runs(data, position, owners, start)
    if position != len(data):
        raise MalformedData(f"a cursor's record has {len(data) - position} bytes too many")
    return Delta(
        runs=tuple(runs),
        start=start if flags & _HAS_START else None,
        restarts=bool(flags & _RESTARTS),
    )


def snapshot(cursor: AckCursor, *, keep_acquired: bool = True) -> Delta:
    """Return the delta that gives an empty cursor this state.

    Without ``keep_acquired``, acquired messages are written as available, with the deliveries they had
    before: for owners that do not survive the process.
    """
    runs: Iterable[Run] = cursor.runs()
    if not keep_acquired:
        runs = (
            Run(run.first, run.next, State.AVAILABLE, run.deliveries - 1)
            if run.state is State.ACQUIRED
            else run
            for run in runs
        )
    return Delta(runs=tuple(runs), start=cursor.start, restarts=True)


def restore(data: bytes, policy: DeadLetterPolicy | None = None) -> AckCursor:
    """Return a cursor from an encoded snapshot."""
    delta = decode_delta(data)
    if not delta.restarts:
        raise MalformedData("a cursor's record is a delta where a snapshot was expected")
    cursor = AckCursor(policy=policy)
    cursor.apply(delta)
    return cursor


def _decode_owners(data: bytes, position: int) -> tuple[list[str], int]:
    count, position = varint.decode_unsigned(data, position)
    owners: list[str] = []
    if count > len(data) - position:
        raise MalformedData(f"a cursor's record of {len(data)} bytes names {count} owners")
    for _ in range(count):
        size, position = varint.decode_unsigned(data, position)
        name = data[position : position + size]
        if len(name) != size:
            raise MalformedData("a cursor's record ends in the name of an owner")
        try:
            owners.append(name.decode())
        except UnicodeDecodeError as error:
            raise MalformedData(f"the name of an owner is not UTF-8: {error}") from None
        position += size
    return owners, position


def _decode_runs(
    data: bytes, position: int, owners: list[str], first: int
) -> tuple[list[Run], int]:
    count, position = varint.decode_unsigned(data, position)
    if count * _RUN_BYTES_MIN > len(data) - position:
        raise MalformedData(f"a cursor's record of {len(data)} bytes announces {count} runs")
    runs: list[Run] = []
    for _ in range(count):
        gap, position = varint.decode_signed(data, position)
        length, position = varint.decode_unsigned(data, position, _LONG)
        deliveries, position = varint.decode_unsigned(data, position)
        if position >= len(data):
            raise MalformedData("a cursor's record ends in a run")
        kind = data[position]
        owner, position = varint.decode_unsigned(data, position + 1)
        deadline_ms = NEVER_MS
        if kind & 1:
            deadline_ms, position = varint.decode_signed(data, position)
        first += gap
        runs.append(_checked_run(first, length, kind >> 1, deliveries, owners, owner, deadline_ms))
        first += length
    return runs, position


def _checked_run(
    first: int,
    length: int,
    state: int,
    deliveries: int,
    owners: list[str],
    owner: int,
    deadline_ms: int,
) -> Run:
    if first < 0 or length < 1 or state >= len(State) or owner >= len(owners):
        raise MalformedData(
            f"a cursor's record has a run at {first} of {length} in state {state} of owner {owner}"
        )
    name = owners[owner]
    if (state == State.ACQUIRED) != bool(name):
        raise MalformedData(f"a cursor's record has a run at {first} whose owner is {name!r}")
    return Run(first, first + length, State(state), deliveries, name, deadline_ms)
