"""A share partition: one group's ack cursor over one partition, and how it is written and read.

Joins the cursor with the records of ``__share_group_state``. ``cursor.share`` decides what members are given;
``share_delivery.py`` has it written and applies it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from millpond.cursor.ack import AckCursor, Delta
from millpond.cursor.runs import Run, State
from millpond.cursor.share import start_after
from millpond.cursor.snapshot import snapshot
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.waiters import ReadWaiter
from millpond.group.share.records import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    START_UNCHANGED,
    ShareKey,
    ShareSnapshot,
    ShareUpdate,
    StateBatch,
)
from millpond.replication.partition import Partition

_STORED = {State.AVAILABLE: AVAILABLE, State.SETTLED: ACKNOWLEDGED, State.ARCHIVED: ARCHIVED}
_READ = {number: state for state, number in _STORED.items()}


class SharePartition:
    """State of one group in one partition, and the callbacks that wait for a change of it."""

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
        """Call the watchers: a record may be available that was not."""
        for call in tuple(self.watchers):
            call()

    def unlock(self) -> None:
        """Release all records: another node gives them out now."""
        kept = snapshot(self.cursor, keep_acquired=False)
        self.cursor = AckCursor(policy=self.cursor.policy)
        self.cursor.apply(kept)
        self.wake()

    # --- records -----------------------------------------------------------------------------------

    def replay(self, record: ShareSnapshot | ShareUpdate, offset: int) -> None:
        """Apply a record of the state topic."""
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
        """Return the record of a change, or None if it has only locks, which are not written."""
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
        """Return the whole state as one record; the host notes that it is written."""
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


class ShareWaiter:
    """A fetch waits for records: new ones, or ones that are released. ``cancel`` ends it."""

    __slots__ = ("_done", "_loop", "_reading", "_shared")

    def __init__(
        self,
        all_partitions: Partitions,
        shared: Sequence[SharePartition],
        partitions: Sequence[Partition],
        *,
        wait_ms: int,
        done: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._done = done
        self._loop = asyncio.get_running_loop()
        for one in shared:
            one.watchers[self._wake] = None
        self._reading: ReadWaiter = all_partitions.wait_for_data(
            partitions, missing_bytes=1, wait_ms=wait_ms, done=self._finish
        )

    def cancel(self) -> None:
        """Stop waiting; ``done`` will not be called."""
        self._done = _nothing
        self._leave()

    def _wake(self) -> None:
        # Not at once: the change that released records has not finished yet.
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
