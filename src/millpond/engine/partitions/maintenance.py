"""The periodic work of a broker: retention, rolling, flushing by age, compaction, checkpoints, purging.

Two tasks wake once a second and run the duties that are due by the (injected) clock: one compacts, which
may take hours, the other does the rest meanwhile. A duty that walks over all partitions lets the loop
serve others every few of them. Compaction's heavy part runs in a worker thread, one log at a time. A
duty that fails is logged and tried again at its next time:
a broker with a broken disk goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from millpond.base import limits
from millpond.base.errors import CorruptLog, MillpondError, ShuttingDown, StorageFailure
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.runtime import Runtime
from millpond.engine.runtime.worker import Worker
from millpond.log.log_dirs import LogDirs
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

TICK_MS = 1000

# Partitions that are handled before other tasks get their turn: about a millisecond.
_PARTITIONS_A_TURN = 32

# The intervals of checking for segments that are due by time, and for data that is due to be flushed.
_ROLL_CHECK_MS = 10_000


# Kafka's default of flush.ms is the largest number there is; a century is as good.
_NEVER_MS = 100 * 365 * 24 * 60 * 60 * 1000


class Duty:
    """Work that is due at an interval."""

    __slots__ = ("due_ms", "every_ms", "name", "run")

    def __init__(
        self, name: str, every_ms: Callable[[], int], run: Callable[[], Awaitable[None]]
    ) -> None:
        self.name = name
        self.every_ms = every_ms
        self.run = run
        self.due_ms = 0


class Maintenance:
    """The duties of one node."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        settings: NodeSettings,
        log_dirs: LogDirs,
        topics: TopicTable,
        flusher: Flusher,
        partitions: Partitions,
        on_start_moved: Callable[[Partition], None],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._log_dirs = log_dirs
        self._topics = topics
        self._flusher = flusher
        self._partitions = partitions
        self._on_start_moved = on_start_moved
        broker = self._settings.get
        self._duties = [
            Duty("retention", lambda: broker("log.retention.check.interval.ms"), self.retain),
            Duty("rolling", lambda: _ROLL_CHECK_MS, self.roll),
            Duty("flushing", lambda: TICK_MS, self.flush_due),
            Duty(
                "checkpoints",
                lambda: broker("log.flush.offset.checkpoint.interval.ms"),
                self.checkpoint,
            ),
            Duty("purging", lambda: TICK_MS, self.purge),
        ]
        self._compaction = Duty(
            "compaction", lambda: broker("log.cleaner.backoff.ms"), self.compact
        )
        # Logs with files of deleted segments, by when these may go.
        self._doomed: list[tuple[int, Partition]] = []
        self._worker = Worker(self._runtime.threads, "millpond-cleaner")
        # Logs that hold data no fsync covers, and since when it may have been there.
        self._unflushed_since: dict[Partition, int] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._repeat(self._duties), name="duties")
                group.create_task(self._repeat([self._compaction]), name="compaction")
        finally:
            self._worker.stop()

    async def _repeat(self, duties: list[Duty]) -> None:
        now = self._runtime.clock.monotonic_ms()
        for duty in duties:
            duty.due_ms = now + duty.every_ms()
        while True:
            soonest_ms = min(duty.due_ms for duty in duties) - self._runtime.clock.monotonic_ms()
            await asyncio.sleep(max(soonest_ms, TICK_MS) / 1000)
            await self._run_due(duties)

    async def _run_due(self, duties: list[Duty]) -> None:
        now = self._runtime.clock.monotonic_ms()
        for duty in duties:
            if duty.due_ms > now:
                continue
            try:
                await duty.run()
            except MillpondError as error:
                log.error("maintenance: %s failed (%s); trying again later", duty.name, error)
            except Exception:  # one bad duty must not end the others
                log.exception("maintenance: %s failed; trying again later", duty.name)
            duty.due_ms = self._runtime.clock.monotonic_ms() + duty.every_ms()

    # --- the duties ------------------------------------------------------------------------------

    async def retain(self) -> None:
        """Delete segments past their time or beyond their size; forget producers long silent."""
        await self._each(self._retain_one)

    async def roll(self) -> None:
        """Close segments that are due by time, and flush what was closed."""
        await self._each(self._roll_one)

    async def flush_due(self) -> None:
        """Flush logs by age (``flush.ms``), by count (``flush.messages``), and segments that were closed.

        Age is no reason where all that is unflushed need not outlive the machine (transient messages).

        Looks at logs that were written to since the last time, and at those whose settings have a
        deadline for them; never at all logs.
        """
        now = self._runtime.clock.monotonic_ms()
        dirty = self._partitions.take_dirty()
        for partition in dirty:
            self._unflushed_since.setdefault(partition, now)
        for partition, since in list(self._unflushed_since.items()):
            if not self._flush_one(partition, now - since):
                del self._unflushed_since[partition]

    def _flush_one(self, partition: Partition, age_ms: int) -> bool:
        """Flush if it is due. Return whether to check again although nothing was written."""
        log_ = partition.log
        config = log_.config
        unflushed = log_.end_offset - log_.recovery_point
        if unflushed <= 0 or not self._topics.has(partition):
            return False
        if log_.failure is not None:
            return True
        is_spared = partition.is_spared
        if (
            (age_ms >= config.flush_ms and not is_spared)
            or unflushed >= config.flush_messages
            or log_.recovery_point < log_.active.base_offset
        ):
            self._flusher.request(partition)
            return False
        return config.flush_ms < _NEVER_MS and not is_spared

    async def compact(self) -> None:
        """Rewrite the logs that need it, one after the other."""
        if not self._settings.get("log.cleaner.enable"):
            return
        for partition in list(self._topics):
            if partition.log.config.compacts:
                try:
                    await self._compact_one(partition)
                except MillpondError as error:
                    # A log whose disk fails must not keep others from compaction.
                    log.error(
                        "partition=%s-%d: compaction failed (%s); trying again later",
                        partition.topic,
                        partition.index,
                        error,
                    )

    async def checkpoint(self) -> None:
        """Write down how far the logs are durable and where they start."""
        self._log_dirs.write_checkpoints()

    async def purge(self) -> None:
        """Remove files whose deletion was announced long enough ago."""
        now_ms = self._runtime.clock.now_ms()
        self._log_dirs.purge(now_ms)
        due = [partition for at_ms, partition in self._doomed if at_ms <= now_ms]
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        for partition in dict.fromkeys(due):
            try:
                if self._topics.has(partition):
                    partition.log.purge(now_ms)
            except StorageFailure as error:
                self._doomed.append((now_ms + limits.DELETE_AGAIN_MS, partition))
                log.error(
                    "partition=%s-%d: files that were deleted are still there (%s); trying again later",
                    partition.topic,
                    partition.index,
                    error,
                )

    # --- one partition ---------------------------------------------------------------------------

    async def _each(self, act: Callable[[Partition], None]) -> None:
        for number, partition in enumerate(list(self._topics), start=1):
            try:
                if not partition.is_retired:
                    act(partition)
            except MillpondError as error:
                log.error("partition=%s-%d: %s", partition.topic, partition.index, error)
            if number % _PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)

    def _retain_one(self, partition: Partition) -> None:
        deleted = partition.log.apply_retention(
            self._runtime.clock.now_ms(), upto=partition.high_watermark
        )
        if deleted:
            self._doom_files(partition)
            self._on_start_moved(partition)
            log.info(
                "partition=%s-%d: retention deleted %d segments; the log starts at %d now",
                partition.topic,
                partition.index,
                deleted,
                partition.log.start_offset,
            )

    def _doom_files(self, partition: Partition) -> None:
        delay_ms = partition.log.config.file_delete_delay_ms
        self._doomed.append((self._runtime.clock.now_ms() + delay_ms, partition))

    def _roll_one(self, partition: Partition) -> None:
        if partition.log.roll_if_due(self._runtime.clock.now_ms()):
            self._flusher.request(partition)

    async def _compact_one(self, partition: Partition) -> None:
        log_ = partition.log
        plan = log_.plan_compaction(self._runtime.clock.now_ms(), upto=partition.high_watermark)
        if plan is None:
            return
        reason = None
        try:
            result = await self._worker.run(plan.run)
            if self._topics.has(partition):
                log_.install_compaction(result)
                self._doom_files(partition)
                log.info(
                    "partition=%s-%d: compaction kept %d of %d records, %d of %d bytes",
                    partition.topic,
                    partition.index,
                    result.records_kept,
                    result.records_read,
                    result.bytes_kept,
                    result.bytes_read,
                )
                return
        except asyncio.CancelledError:
            # The thread sees this soon; the files that it leaves behind go at the next start.
            plan.stopped = True
            raise
        except MillpondError as error:
            # A full disk passes; a batch that cannot be read will not be readable at the next try either.
            passes = isinstance(error, (StorageFailure, ShuttingDown))
            reason = str(error) if isinstance(error, CorruptLog) or not passes else None
            log.error(
                "partition=%s-%d: compaction failed (%s); the log is as it was",
                partition.topic,
                partition.index,
                error,
            )
        if self._topics.has(partition):
            log_.abandon_compaction(plan, reason=reason)
