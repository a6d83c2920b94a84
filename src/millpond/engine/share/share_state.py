"""A share partition: one group's ack cursor over one partition, and how it is written and read.

Joins the cursor, which knows offsets, with the log, which knows batches, and with the records of
``__share_group_state``. Plain functions; what is decided here is written and made true by ``engine.share``.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from millpond.base.errors import InvalidRecordState, InvalidRequest
from millpond.cursor.ack import AckCursor, Delta, Outcome, Range
from millpond.cursor.runs import Run, State
from millpond.cursor.snapshot import snapshot
from millpond.engine.partitions.read import AbortedTransaction
from millpond.group.share_records import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    START_UNCHANGED,
    ShareKey,
    ShareSnapshot,
    ShareUpdate,
    StateBatch,
)
from millpond.record.batch import BatchHeader, iter_batches

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine
    from millpond.engine.partitions.waiters import ReadWaiter
    from millpond.replication.partition import Partition

# What a member says of a record; the protocol's numbers. A gap is an offset without a record.
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

_STORED = {State.AVAILABLE: AVAILABLE, State.SETTLED: ACKNOWLEDGED, State.ARCHIVED: ARCHIVED}
_READ = {number: state for state, number in _STORED.items()}

_ALL = 2**63 - 1


class Acknowledgement(NamedTuple):
    """What a member says of the offsets from ``first`` to ``last``: one word for all, or one for each."""

    first: int
    last: int
    kinds: Sequence[int]


class HandedOut(NamedTuple):
    """Records for a member, as whole batches, and which of them are its to work on."""

    records: bytes | memoryview
    runs: tuple[Run, ...]


class SharePartition:
    """State of one group in one partition, and whoever waits for a change of it."""

    __slots__ = (
        "created_ms",
        "cursor",
        "key",
        "leader_epoch",
        "snapshot_epoch",
        "snapshot_offset",
        "state_epoch",
        "updates",
        "watchers",
    )

    def __init__(self, key: ShareKey, created_ms: int = -1) -> None:
        self.key = key
        self.cursor = AckCursor()
        self.created_ms = created_ms
        self.snapshot_epoch = 0
        self.state_epoch = 0
        # The last leader of the partition that was heard of.
        self.leader_epoch = -1
        # Where in its partition of the state topic the last snapshot is, and how much came after it.
        self.snapshot_offset = -1
        self.updates = 0
        self.watchers: dict[Callable[[], None], None] = {}

    def wake(self) -> None:
        """Something may be available that was not."""
        for call in tuple(self.watchers):
            call()

    def unlock(self) -> None:
        """Somebody else hands the records out now: nobody holds any here."""
        kept = snapshot(self.cursor, keep_acquired=False)
        self.cursor = AckCursor(policy=self.cursor.policy)
        self.cursor.apply(kept)
        self.wake()

    # --- records -----------------------------------------------------------------------------------

    def replay(self, record: ShareSnapshot | ShareUpdate, offset: int) -> None:
        """A fact read back from the state topic."""
        runs = tuple(
            Run(batch.first, batch.last + 1, state, 0 if state.is_final else batch.deliveries)
            for batch in record.batches
            for state in (_READ[batch.state],)
        )
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        if isinstance(record, ShareSnapshot):
            self.snapshot_epoch = record.snapshot_epoch
            self.state_epoch = record.state_epoch
            self.created_ms = record.created_ms
            self.snapshot_offset = offset
            self.updates = 0
            self.cursor.apply(Delta(runs=runs, start=record.start, restarts=True))
        else:
            self.updates += 1
            start = None if record.start == START_UNCHANGED else record.start
            self.cursor.apply(Delta(runs=runs, start=start))

    def update(self, delta: Delta, *, leader_epoch: int) -> ShareUpdate | None:
        """The fact that says this, or None if nothing of it is worth one: locks are not written."""
        assert not delta.restarts
        batches = tuple(_state_batches(delta.runs))
        start = start_after(self.cursor, delta)
        if not batches and start == self.cursor.start:
            return None
        return ShareUpdate(
            key=self.key,
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start=start if start != self.cursor.start else START_UNCHANGED,
            batches=batches,
        )

    def snapshot(self, *, leader_epoch: int, now_ms: int) -> ShareSnapshot:
        """Everything, as one fact; whoever writes it notes that it has."""
        runs = snapshot(self.cursor, keep_acquired=False).runs
        worth_it = (run for run in runs if run.state.is_final or run.deliveries > 0)
        return ShareSnapshot(
            key=self.key,
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=leader_epoch,
            start=self.cursor.start,
            created_ms=self.created_ms,
            written_ms=now_ms,
            batches=tuple(_state_batches(worth_it)),
        )


def _state_batches(runs: Iterable[Run]) -> Iterator[StateBatch]:
    for run in runs:
        if run.state in _STORED:
            yield StateBatch(run.first, run.next - 1, _STORED[run.state], run.deliveries)


def start_after(cursor: AckCursor, delta: Delta) -> int:
    """Where the cursor will start once a delta is applied."""
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


class ShareWaiter:
    """Someone waits for records: new ones, or ones that are given back. ``cancel`` forgets it."""

    __slots__ = ("_done", "_loop", "_reading", "_shared")

    def __init__(
        self,
        engine: "Engine",
        shared: Sequence[SharePartition],
        partitions: "Sequence[Partition]",
        *,
        wait_ms: int,
        done: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._done = done
        self._loop = asyncio.get_running_loop()
        for one in shared:
            one.watchers[self._wake] = None
        self._reading: ReadWaiter = engine.wait_for_data(
            partitions, missing_bytes=1, wait_ms=wait_ms, done=self._finish
        )

    def cancel(self) -> None:
        """Stop waiting; ``done`` will not be called."""
        self._done = _nothing
        self._leave()

    def _wake(self) -> None:
        # Not at once: whoever gives records back has not finished yet.
        self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        done, self._done = self._done, _nothing
        self._leave()
        done()

    def _leave(self) -> None:
        self._reading.cancel()
        for one in self._shared:
            one.watchers.pop(self._wake, None)
        self._shared = ()


def _nothing() -> None:
    return None


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
    """All of it or nothing. Raises ``InvalidRequest``, ``InvalidRecordState``."""
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
        letters=tuple(letter for outcome in outcomes for letter in outcome.letters),
    )


def _by_kind(words: Sequence[Acknowledgement]) -> list[list[Range]]:
    ranges: list[list[Range]] = [[] for _ in range(RENEW + 1)]
    position = -1
    for first, last, kinds in words:
        if first < 0 or first > last:
            raise InvalidRequest(f"there are no records from {first} to {last}")
        if first <= position:
            raise InvalidRequest(f"record {first} is spoken of twice, or out of order")
        position = last
        if not kinds:
            raise InvalidRequest(f"nothing is said of records {first} to {last}")
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
    """Hand out what is available of the records in ``data``.

    Unless it must be exact, the batch in which the limit is reached is handed out to its end: nobody has to
    be sent the same batch twice.
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
    """What was handed out of ``data`` but is nobody's to read: markers, and what was aborted."""
    open_aborts = sorted(aborted, key=lambda one: one.first_offset)
    producers: set[int] = set()
    ranges: list[Range] = []
    for _position, header in iter_batches(data):
        while open_aborts and open_aborts[0].first_offset <= header.last_offset:
            producers.add(open_aborts.pop(0).producer_id)
        if header.is_control:
            producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in producers):
            continue
        ranges += [
            (max(run.first, header.base_offset), min(run.next, header.next_offset))
            for run in runs
            if run.first < header.next_offset and header.base_offset < run.next
        ]
    return ranges


def covering(data: bytes | memoryview, runs: Sequence[Run]) -> bytes | memoryview:
    """The batches of ``data`` that hold some of these records."""
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
