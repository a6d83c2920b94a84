"""Decisions about the records of a share partition: which a member is given, and what it acknowledges.

Functions of the ack cursor, which knows offsets, and of batches of the log. The host writes what is decided
and applies it to the cursor.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from millpond.base.errors import InvalidRecordState, InvalidRequest
from millpond.cursor.ack import AckCursor, Delta, Outcome, Range
from millpond.cursor.runs import Run, State
from millpond.record.aborted import AbortedTransaction, AbortedTransactions
from millpond.record.batch import BatchHeader, iter_batches

# How a member acknowledges a record; the protocol's numbers. A gap is an offset without a record.
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

_ALL = 2**63 - 1


class Acknowledgement(NamedTuple):
    """How a member acknowledges the offsets from ``first`` to ``last``: one type for all, or one for each."""

    first: int
    last: int
    kinds: Sequence[int]


class HandedOut(NamedTuple):
    """Records for a member, as whole batches, and which of them it has acquired."""

    records: bytes | memoryview
    runs: tuple[Run, ...]


def start_after(cursor: AckCursor, delta: Delta) -> int:
    """Return where the cursor will start once a delta is applied."""
    position = max(cursor.start, delta.start or 0)
    final = deque(sorted(run[:2] for run in delta.runs if run.state.is_final))
    while True:
        while final and final[0][1] <= position:
            final.popleft()
        if final and final[0][0] <= position:
            position = final.popleft()[1]
            continue
        run = next(cursor.runs_within(position, _ALL), None)
        if run is None or not run.state.is_final:
            return position
        position = run.next


# --- what members say -------------------------------------------------------------------------------


def decide_acknowledge(
    cursor: AckCursor,
    words: Sequence[Acknowledgement],
    *,
    owner: str,
    now_ms: int,
    lock_ms: int,
    may_renew: bool,
) -> Outcome:
    """Apply all acknowledgements or none. Raises ``InvalidRequest``, ``InvalidRecordState``."""
    ranges = _by_kind(words)
    if ranges[RENEW] and not may_renew:
        raise InvalidRequest("this group does not allow renewing acquisition locks")
    outcomes = [
        cursor.settle(ranges[ACCEPT], owner=owner, now_ms=now_ms),
        cursor.release(ranges[RELEASE], owner=owner, now_ms=now_ms),
        cursor.reject(ranges[REJECT], owner=owner, now_ms=now_ms),
        cursor.extend(ranges[RENEW], owner=owner, now_ms=now_ms, lock_ms=lock_ms),
    ]
    gaps = cursor.settle(ranges[GAP], owner=owner, now_ms=now_ms)
    # What is not in the log was not worked on.
    archived = tuple(run._replace(state=State.ARCHIVED) for run in gaps.delta.runs)
    outcomes.append(Outcome(delta=Delta(runs=archived), refused=gaps.refused))
    refused = [one for outcome in outcomes for one in outcome.refused]
    if refused:
        first, next_ = refused[0]
        # Kafka makes this difference: nothing at all is under way, or other records are.
        if first >= cursor.end > cursor.start:
            raise InvalidRequest(f"nothing from record {first} on was ever handed out")
        raise InvalidRecordState(f"records {first} to {next_ - 1} are not held by member {owner}")
    return Outcome(
        delta=Delta(runs=tuple(run for outcome in outcomes for run in outcome.delta.runs)),
        dead_letters=tuple(one for outcome in outcomes for one in outcome.dead_letters),
    )


def _by_kind(words: Sequence[Acknowledgement]) -> list[list[Range]]:
    ranges: list[list[Range]] = [[] for _ in range(RENEW + 1)]
    position = -1
    for first, last, kinds in words:
        if first < 0 or first > last:
            raise InvalidRequest(f"there are no records from {first} to {last}")
        if first <= position:
            raise InvalidRequest(f"record {first} is acknowledged twice, or out of order")
        position = last
        if not kinds:
            raise InvalidRequest(f"there is no acknowledge type for records {first} to {last}")
        if any(not GAP <= kind <= RENEW for kind in kinds):
            raise InvalidRequest(f"invalid acknowledge types {list(kinds)}")
        if len(kinds) == 1:
            ranges[kinds[0]].append((first, last + 1))
            continue
        if len(kinds) != last - first + 1:
            raise InvalidRequest(
                f"{len(kinds)} acknowledge types for {last - first + 1} records from {first}"
            )
        at = first
        for kind, same in groupby(kinds):
            count = sum(1 for _ in same)
            ranges[kind].append((at, at + count))
            at += count
    return ranges


# --- what members get -------------------------------------------------------------------------------


def decide_acquire(
    cursor: AckCursor,
    data: bytes | memoryview,
    *,
    owner: str,
    records_max: int,
    exact: bool,
    lock_ms: int,
    now_ms: int,
) -> Outcome:
    """Acquire what is available of the records in ``data``.

    Unless it must be exact, the batch in which the limit is reached is acquired to its end, so that the same
    batch need not be sent twice.
    """
    headers = [header for _position, header in iter_batches(data)]
    if not headers:
        return Outcome(delta=Delta())

    def acquire(credit: int, upto: int) -> Outcome:
        return cursor.acquire(owner=owner, credit=credit, upto=upto, now_ms=now_ms, lock_ms=lock_ms)

    outcome = acquire(records_max, headers[-1].next_offset)
    if exact or not outcome.delta.runs:
        return outcome
    last = outcome.delta.runs[-1].next - 1
    end = next(header.next_offset for header in headers if header.last_offset >= last)
    return acquire(_ALL, end) if end > last + 1 else outcome


def skipped(
    data: bytes | memoryview, aborted: Sequence[AbortedTransaction], runs: Sequence[Run]
) -> list[Range]:
    """Return what was acquired of ``data`` but must not be read: markers, and aborted records."""
    transactions = AbortedTransactions(aborted)
    ranges: list[Range] = []
    for _position, header in iter_batches(data):
        # By the header alone: a marker that the disk has damaged must not stop the partition.
        if not transactions.hides(header):
            continue
        ranges += [
            (max(run.first, header.base_offset), min(run.next, header.next_offset))
            for run in runs
            if run.first < header.next_offset and header.base_offset < run.next
        ]
    return ranges


def covering(data: bytes | memoryview, runs: Sequence[Run]) -> bytes | memoryview:
    """Return the batches of ``data`` that hold some of these records."""
    spans: list[tuple[int, int]] = []
    pending = list(reversed(runs))
    for position, header in iter_batches(data):
        while pending and pending[-1].next <= header.base_offset:
            pending.pop()
        if not pending:
            break
        if pending[-1].first <= header.last_offset:
            _extend(spans, position, header)
    view = memoryview(data)
    if len(spans) == 1:
        return view[spans[0][0] : spans[0][1]]
    return b"".join(view[first:last] for first, last in spans)


def _extend(spans: list[tuple[int, int]], position: int, header: BatchHeader) -> None:
    if spans and spans[-1][1] == position:
        spans[-1] = (spans[-1][0], position + header.size)
    else:
        spans.append((position, position + header.size))
