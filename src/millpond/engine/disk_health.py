"""What this node does when its disk fails, and how it comes back without a restart.

A write or a sync that fails takes the log directory offline at once. The log that met it refuses everything
until it has been restored (``log/restore.py``), so no batch is appended behind one that is missing. The node
tells the controller with its next heartbeat, which goes out at once: it asks to be fenced, so others lead
what it led and nobody waits for it as a follower. As a voter it does not stand for election and lets another
lead; if the metadata log itself failed it takes no part in the quorum at all, since what it says there must
be on its disk (``QuorumHost``).

From then on the directory is tried: a file is written and synced, then every log that failed is restored,
then the quorum is joined anew, and the heartbeat asks for the node's place again. What could be written
again in full is as if it had never failed; a log of which something is missing, or which failed in the
middle of a swap of segments, keeps the node fenced until it is started again.

A node that is alone refuses writes with the same error and goes on when the disk does.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from millpond.base.errors import CorruptLog, MillpondError, ShuttingDown, StorageFailure
from millpond.engine.metadata_log import METADATA_KEY
from millpond.engine.quorum_driver import Waiting
from millpond.engine.worker import Worker
from millpond.log.offline import DirectoryState
from millpond.log.restore import RestoreImpossible

if TYPE_CHECKING:
    from millpond.engine.engine import Engine

log = logging.getLogger(__name__)


class DiskHealth:
    """One for each node; told by the log directory and by the quorum."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._state = DirectoryState()
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_probing = False
        self._online = Waiting()
        engine.log_dir.on_failure = self.on_failure
        engine.log_dir.on_unreadable = self.on_unreadable

    @property
    def is_offline(self) -> bool:
        """Whether the log directory takes no writes."""
        return self._state.is_offline

    @property
    def is_busy(self) -> bool:
        """Whether its thread is at work."""
        return self._worker is not None and self._worker.is_busy

    @property
    def reason(self) -> str | None:
        """Why it takes none; nothing while it does."""
        return self._state.reason

    async def online(self) -> None:
        """Wait until it takes writes, and this node knows what the quorum agrees on."""
        while self._state.is_offline:
            await self._online.next()
        await self._engine.quorum.caught_up()

    # --- failing -----------------------------------------------------------------------------------

    def on_failure(self, reason: str) -> None:
        """A write or a sync has failed."""
        engine = self._engine
        if not self._state.on_failure(reason, engine.clock.monotonic_ms()):
            return
        log.error(
            "log directory %s is offline: %s; it is tried again until it takes writes, and nothing else has "
            "to be done once it does",
            engine.data_path or engine.log_dir.path,
            reason,
        )
        self.start()
        engine.membership.hurry()

    def on_unreadable(self, reason: str) -> None:
        """A read has failed: that may be one bad place, or the whole disk. A try tells."""
        if self._state.is_offline or self._is_probing:
            return
        self._is_probing = True
        try:
            self._engine.tasks.spawn(self._suspect(reason), name="look at the disk")
        except ShuttingDown:
            self._is_probing = False

    async def _suspect(self, reason: str) -> None:
        try:
            await self._run(self._engine.log_dir.probe())
        except StorageFailure as failure:
            self.on_failure(f"{reason}; and {failure}")
        finally:
            self._is_probing = False

    # --- coming back -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look after a directory that failed, if the node has come so far."""
        if not self._state.is_offline or (self._task is not None and not self._task.done()):
            return
        try:
            self._task = self._engine.tasks.keep(self._bring_back, name="disk")
        except ShuttingDown:
            return

    async def _bring_back(self) -> None:
        state, clock = self._state, self._engine.clock
        # Not in the step in which the write failed: that may be a step of the quorum.
        self._engine.quorum.stand_back()
        while state.is_offline:
            await asyncio.sleep(max(1, state.next_try_ms - clock.monotonic_ms()) / 1000)
            try:
                await self._try()
            except (RestoreImpossible, CorruptLog) as error:
                if str(error) != state.reason:
                    log.error("%s; this node serves again when it has been restarted", error)
                state.on_try_failed(str(error), clock.monotonic_ms())
            except MillpondError as error:
                log.debug("the log directory does not take writes yet: %s", error)
                state.on_try_failed(str(error), clock.monotonic_ms())
            else:
                self._return()

    async def _try(self) -> None:
        engine = self._engine
        await self._run(engine.log_dir.probe())
        for one in engine.log_dir.failed:
            plan = one.begin_restore()
            if plan is None:
                continue
            await self._run(plan.run)
            if one.failure is not None and engine.log_dir.logs.get(one.topic_partition) is one:
                one.finish_restore(plan)
                self._flush(one.topic_partition.topic, one.topic_partition.partition)
        if engine.log_dir.failed:
            raise StorageFailure(engine.log_dir.failed[0].failure or "")

    def _flush(self, topic: str, index: int) -> None:
        """Make durable what the restored log holds: a leader or a follower may wait for it."""
        engine = self._engine
        if topic == METADATA_KEY.topic:
            return  # its flush is asked for when the quorum is joined anew
        for partition in engine.topics:
            if (partition.topic, partition.index) == (topic, index):
                engine.flusher.request(partition)

    def _return(self) -> None:
        engine, state = self._engine, self._state
        now_ms = engine.clock.monotonic_ms()
        offline_ms = now_ms - state.since_ms
        state.on_returned(now_ms)
        engine.log_dir.trust(engine.own_registrations())
        log.warning(
            "log directory %s takes writes again, after %d ms",
            engine.data_path or engine.log_dir.path,
            offline_ms,
        )
        engine.quorum.come_back()
        engine.membership.hurry()
        self._online.wake()

    async def _run(self, job: Callable[[], None]) -> None:
        if self._worker is None:
            self._worker = Worker(self._engine.threads, "millpond-disk")
        await self._worker.run(job)

    def stop(self) -> None:
        """The node stops: end the thread."""
        if self._worker is not None:
            self._worker.stop()
