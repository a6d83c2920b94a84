"""Group commit: one thread that makes logs durable, many requests sharing one fsync.

The loop thread owns the logs. It takes a plan from a log (``begin_flush``), the flusher thread runs
it (fsync and nothing else), the loop thread finishes it (``finish_flush``) and tells the partition.
While a partition's plan is under way further requests for it coalesce into one next plan: that is
the group in group commit. Requests made in one turn of the loop share one plan too, because plans
are taken at its end.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from millpond.base.errors import MillpondError, StorageFailure
from millpond.base.ids import TopicPartition
from millpond.engine.runtime.threads import Threads
from millpond.log.flush import FlushPlan
from millpond.log.partition_log import PartitionLog
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)


class Flushable(Protocol):
    """A log that requests wait for to be durable: a partition's, or the metadata's."""

    flush_queued: bool

    @property
    def topic(self) -> str:
        """The topic, for log lines."""
        ...

    @property
    def index(self) -> int:
        """The partition's index, for log lines."""
        ...

    @property
    def log(self) -> PartitionLog:
        """The log to flush."""
        ...

    @property
    def is_retired(self) -> bool:
        """Whether its files were deleted."""
        ...

    def on_flushed(self) -> None:
        """A flush finished and the log's recovery point moved."""
        ...

    def on_flush_failed(self, error: MillpondError) -> None:
        """A flush failed: its records are not durable, and the log takes no more."""
        ...


class Flusher:
    """The one flusher thread and the hand-over to and from it."""

    def __init__(self, threads: Threads, *, on_failure: Callable[[TopicPartition], None]) -> None:
        """``on_failure`` is called with a log that could not be flushed."""
        self._threads = threads
        self._thread = threads.one("millpond-flusher")
        self._wanted: dict[Flushable, None] = {}
        self._turn_scheduled = False
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_failure = on_failure

    def start(self) -> None:
        """Take requests from now on; called on the loop."""
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        """Finish the flushes that were requested, then end the thread."""
        await self.drained()
        # It has nothing left to do, so this does not wait; an executor would refuse at the end of a program.
        self._thread.stop(wait=True)

    async def flush_all(self, partitions: Iterable[Partition]) -> None:
        """Make many logs durable at once, at the stop: a file system commits together what comes together.

        No other flush may be requested meanwhile. A failure is logged and its log stays unflushed.
        """
        await self.drained()
        plans = []
        for partition in partitions:
            try:
                plan = partition.log.begin_flush()
            except StorageFailure as error:
                self._failed(partition, error)
                continue
            if plan is not None:
                plans.append((partition, plan))
        failures = await self._threads.run_all([plan.run for _partition, plan in plans])
        for (partition, plan), failure in zip(plans, failures, strict=True):
            partition.log.finish_flush(plan)
            if failure is None:
                partition.on_flushed()
            else:
                self._failed(partition, StorageFailure(f"flush failed: {failure}"))

    @property
    def is_busy(self) -> bool:
        """Whether a requested flush has not ended."""
        return bool(self._under_way or self._wanted)

    async def drained(self) -> None:
        """Wait until every flush that was requested so far has ended."""
        while self.is_busy:
            assert self._loop is not None
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def request(self, partition: Flushable) -> None:
        """Make the partition's log durable up to its present end, soon."""
        self._wanted[partition] = None
        if not partition.flush_queued and not self._turn_scheduled:
            assert self._loop is not None
            self._turn_scheduled = True
            self._loop.call_soon(self._take_turn)

    def hurry(self) -> None:
        """Begin the requested flushes now, before other work takes its time."""
        if self._turn_scheduled:
            self._take_turn()

    def _take_turn(self) -> None:
        self._turn_scheduled = False
        for partition in [one for one in self._wanted if not one.flush_queued]:
            del self._wanted[partition]
            self._begin(partition)
        self._settle()

    def _begin(self, partition: Flushable) -> None:
        if partition.is_retired:
            return
        try:
            plan = partition.log.begin_flush()
        except StorageFailure as error:
            self._failed(partition, error)
            return
        if plan is None:
            partition.on_flushed()
            return
        partition.flush_queued = True
        self._under_way += 1
        self._thread.submit(plan.run, partial(self._end, partition, plan))

    def _end(
        self, partition: Flushable, plan: FlushPlan, _result: None, error: BaseException | None
    ) -> None:
        self._under_way -= 1
        partition.flush_queued = False
        partition.log.finish_flush(plan)
        if error is None:
            partition.on_flushed()
        elif isinstance(error, MillpondError):
            self._failed(partition, error)
        else:
            self._failed(partition, StorageFailure(f"flush failed: {error!r}"))
        if partition in self._wanted:
            del self._wanted[partition]
            self._begin(partition)
        self._settle()

    def _failed(self, partition: Flushable, error: MillpondError) -> None:
        if partition.is_retired:
            return  # its files were deleted while they were being flushed
        log.error(
            "partition=%s-%d: flush failed (%s); writers that waited for it get an error",
            partition.topic,
            partition.index,
            error,
        )
        self._on_failure(partition.log.topic_partition)
        partition.on_flush_failed(error)

    def _settle(self) -> None:
        if self._idle is not None and not self.is_busy:
            idle, self._idle = self._idle, None
            idle.set_result(None)
