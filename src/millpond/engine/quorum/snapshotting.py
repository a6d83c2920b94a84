"""Replaces the metadata log by snapshots: written in a thread, put in place on the loop."""

import logging
from collections.abc import Callable

from millpond.base.clock import Clock
from millpond.base.errors import ShuttingDown, StorageFailure
from millpond.base.ids import Offset
from millpond.engine.quorum.metadata_snapshot import write_snapshot
from millpond.engine.quorum.raft_log import DiskRaftLog
from millpond.engine.runtime.tasks import TaskOwner
from millpond.engine.runtime.worker import Worker
from millpond.metadata.image import Image
from millpond.raft.messages import SnapshotId
from millpond.raft.voters import VoterHistory

log = logging.getLogger(__name__)

# A shorter log is read quickly; a longer one that is mostly superseded is replaced.
FACTS_MIN = 10_000
_RATIO = 4


class Snapshotting:
    """Counts records since the last snapshot, and takes the next one when there are many."""

    def __init__(
        self,
        raft_log: DiskRaftLog,
        *,
        voters: VoterHistory,
        tasks: TaskOwner,
        worker: Worker,
        clock: Clock,
    ) -> None:
        self._log = raft_log
        self._voters = voters
        self._tasks = tasks
        self._worker = worker
        self._clock = clock
        self._facts = 0
        self._facts_max = FACTS_MIN
        self._is_under_way = False

    def begin_anew(self, kept: int) -> None:
        """Begin to count after a snapshot of so many records."""
        self._facts, self._facts_max = 0, max(FACTS_MIN, _RATIO * kept)

    def count(self, facts: int) -> None:
        """Count a batch of so many records; one of the quorum's own counts, too."""
        self._facts += max(facts, 1)

    def take_if_due(self, image: Image, end: Offset) -> None:
        """Take a snapshot in the background if most of the log is superseded."""
        if self._is_under_way or self._facts < self._facts_max:
            return
        self._is_under_way = True
        try:
            self._tasks.spawn(self._guarded(image, end), name="metadata snapshot")
        except ShuttingDown:
            self._is_under_way = False

    def mend(
        self, image: Image, end: Offset, *, damage: str, on_failure: Callable[[], None]
    ) -> None:
        """The disk has damaged what was agreed, and the image is whole: take one in the background that
        stands for all of it. One that is under way already is waited for."""
        if self._is_under_way:
            return
        log.error("metadata: %s; a new snapshot is written of what this node knows", damage)
        self._is_under_way = True
        try:
            self._tasks.spawn(self._mending(image, end, on_failure), name="metadata mending")
        except ShuttingDown:
            self._is_under_way = False

    async def _mending(self, image: Image, end: Offset, on_failure: Callable[[], None]) -> None:
        try:
            await self.take(image, end, anew=True)
        except StorageFailure as error:
            log.error("metadata: no new snapshot could be written (%s)", error)
            on_failure()
        finally:
            self._is_under_way = False

    async def _guarded(self, image: Image, end: Offset) -> None:
        try:
            await self.take(image, end)
        except StorageFailure as error:
            log.warning("metadata: no snapshot could be written (%s); the log grows on", error)
            self._facts_max += FACTS_MIN
        finally:
            self._is_under_way = False

    async def take(self, image: Image, end: Offset, *, anew: bool = False) -> None:
        """Write down the image of everything below ``end``, so that the log before the last one can go;
        ``anew``: instead of everything that was agreed, and of a snapshot that ends there, too."""
        facts = self._facts
        if end == 0 or self._has(end + anew):
            return
        taken = SnapshotId(end, self._log.epoch_at(end - 1))
        voters = self._voters.written_at(end)
        now_ms = self._clock.now_ms()
        storage, directory = self._log.log.storage, self._log.log.directory
        kept = await self._worker.run(
            lambda: write_snapshot(
                storage,
                directory,
                image,
                end_offset=taken.end_offset,
                epoch=taken.epoch,
                now_ms=now_ms,
                voters=voters,
            )
        )
        if not self._has(end + anew):
            put_in_place = self._log.begin_behind if anew else self._log.shorten
            put_in_place(taken, self._clock.now_ms())
            self._facts -= facts
            self._facts_max = max(FACTS_MIN, _RATIO * kept)
            log.info("metadata: %d facts were replaced by a snapshot of %d", facts, kept)

    def _has(self, end: Offset) -> bool:
        return self._log.snapshot is not None and self._log.snapshot.end_offset >= end
