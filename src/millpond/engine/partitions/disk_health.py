"""What this node does when a disk fails, and how it comes back without a restart.

A write or a sync that fails takes its log directory offline at once. The log that met it refuses everything
until it has been restored (``log/restore.py``), so no batch is appended behind one that is missing. The node
tells the controller with its next heartbeat, which it sends at once: other nodes lead the partitions of that
directory, and their leaders do not wait for its followers. Other directories serve on.

The node as a whole is offline, and asks to be fenced, when none of its directories takes writes, or when the
one with the metadata log does not. As a voter it does not stand for election then and lets another lead; if
the metadata log itself failed it takes no part in the quorum at all, since what it says there must be on its
disk (``QuorumHost``). So it is, too, while the cluster is at a level at which controllers do not know what
lies in which directory.

From then on the directory is tried: a file is written and synced, then every log that failed is restored,
then the quorum is joined anew, and the heartbeat says that the directory is back. What could be written
again in full is as if it had never failed; a log of which something is missing, or which failed in the
middle of a swap of segments, keeps its directory offline until the node is started again. So does a
directory that could not be opened when the node started.

A node that is alone refuses writes with the same error and goes on when the disk does.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from millpond.base.errors import CorruptLog, MillpondError, ShuttingDown, StorageFailure
from millpond.base.ids import TopicPartition
from millpond.engine.cluster.disk_history import DiskHistory
from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.quorum.metadata_log import METADATA_KEY
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.runtime import Runtime
from millpond.engine.runtime.waiting import Waiting
from millpond.engine.runtime.worker import Worker
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.log.restore import RestoreImpossible
from millpond.metadata.features import knows_directories
from millpond.metadata.image import Image
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskParts:
    """The services of the node that the health of disks uses."""

    info: NodeInfo
    runtime: Runtime
    log_dirs: LogDirs
    topics: TopicTable
    flusher: Flusher
    metadata: MetadataView
    membership: Membership
    disk_history: DiskHistory
    # Called when a directory takes no writes any more, and when it does again.
    on_offline: Callable[[LogDir], None]
    on_online: Callable[[LogDir], None]


class DiskHealth:
    """The health of the disks of one node."""

    def __init__(self, parts: DiskParts) -> None:
        self._parts = parts
        self._log_dirs = parts.log_dirs
        self._online = Waiting()
        # Whether the controller knows what lies in these directories, by these metadata.
        self._known: tuple[Image, list[tuple[LogDir, int]], bool] | None = None
        self._watched = {one: DirectoryHealth(parts, one, self) for one in parts.log_dirs}

    @property
    def is_offline(self) -> bool:
        """Whether the node can neither lead nor follow."""
        dirs = self._log_dirs
        if dirs.metadata.state.is_offline or all(one.state.is_offline for one in dirs.dirs):
            return True
        return bool(self.offline_dirs) and not self._is_known()

    def _is_known(self) -> bool:
        """Whether the controller knows what lies in the directories that are offline.

        It is asked with each message that a client publishes meanwhile, and looked up when something changed.
        """
        image = self._parts.metadata.image
        sick = [
            (one, one.changes)
            for one in self._log_dirs.dirs
            if one.is_open and one.state.is_offline
        ]
        if self._known is None or self._known[0] is not image or self._known[1] != sick:
            self._known = image, sick, self._is_known_by(image, [one for one, _ in sick])
        return self._known[2]

    def _is_known_by(self, image: Image, dirs: Sequence[LogDir]) -> bool:
        node = self._parts.info.node_id
        if not knows_directories(image):
            return False
        for one in dirs:
            for key in one.logs:
                topic = image.topics.get(key.topic)
                if topic is None or key.partition >= len(topic.partitions):
                    continue
                partition = topic.partitions[key.partition]
                if node in partition.replicas and partition.directory_of(node) != one.directory_id:
                    return False
        return True

    @property
    def offline_dirs(self) -> tuple[UUID, ...]:
        """The registered directories that take no writes: all of them if the node is offline."""
        dirs = self._log_dirs
        if dirs.metadata.state.is_offline:
            return dirs.ids
        return tuple(one.directory_id for one in dirs.dirs if one.is_open and one.state.is_offline)

    @property
    def offline(self) -> dict[str, str]:
        """The directories that take no writes, by their path, and why."""
        return {
            one.name: one.state.reason for one in self._log_dirs if one.state.reason is not None
        }

    @property
    def is_busy(self) -> bool:
        """Whether a thread is at work."""
        return any(one.is_busy for one in self._watched.values())

    def is_shut(self, partition: Partition) -> bool:
        """Whether a replica's directory takes no writes: it is not followed until it does."""
        holding = self._log_dirs.holding(TopicPartition(partition.topic, partition.index))
        return holding is not None and holding.state.is_offline

    async def online(self) -> None:
        """Wait until every directory takes writes, and this node knows what the quorum agrees on."""
        while any(one.state.is_offline for one in self._log_dirs):
            await self._online.next()
        await self._parts.metadata.quorum.caught_up()

    def on_metadata_failure(self, reason: str) -> None:
        """Take the metadata directory offline: a write of the quorum has failed."""
        self._watched[self._log_dirs.metadata].on_failure(reason)

    def on_returned(self) -> None:
        """Note a directory that takes writes again."""
        self._known = None
        self._online.wake()

    def start(self) -> None:
        """Begin to look after directories that failed, if the node has come so far."""
        for one in self._watched.values():
            one.start()

    def stop(self) -> None:
        """End the threads: the node stops."""
        for one in self._watched.values():
            one.stop()


class DirectoryHealth:
    """The health of one directory."""

    def __init__(self, parts: DiskParts, log_dir: LogDir, health: DiskHealth) -> None:
        self._parts = parts
        self._dir = log_dir
        self._health = health
        self._has_metadata = log_dir is parts.log_dirs.metadata
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_probing = False
        log_dir.on_failure = self.on_failure
        log_dir.on_unreadable = self.on_unreadable

    @property
    def is_busy(self) -> bool:
        """Whether its thread is at work."""
        return self._worker is not None and self._worker.is_busy

    # --- failing -----------------------------------------------------------------------------------

    def on_failure(self, reason: str) -> None:
        """Take the directory offline: a write or a sync has failed."""
        if not self._dir.state.on_failure(reason, self._parts.runtime.clock.monotonic_ms()):
            return
        # Before the node is up a failing directory may end the start, and then nothing is tried again.
        is_tried = self._parts.runtime.running
        advice = "; it is tried until it takes writes again, without a restart" if is_tried else ""
        log.error("log directory %s is offline: %s%s", self._dir.name, reason, advice)
        self.start()
        self._parts.on_offline(self._dir)
        self._parts.membership.hurry()

    def on_unreadable(self, reason: str) -> None:
        """Test the disk after a failed read: it may be one bad sector or the whole disk."""
        if self._dir.state.is_offline or self._is_probing:
            return
        self._is_probing = True
        try:
            self._parts.runtime.tasks.spawn(self._suspect(reason), name="look at the disk")
        except ShuttingDown:
            self._is_probing = False

    async def _suspect(self, reason: str) -> None:
        try:
            await self._run(self._dir.probe())
        except StorageFailure as failure:
            self.on_failure(f"{reason}; and {failure}")
        finally:
            self._is_probing = False

    # --- coming back -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look after the directory if it failed, if the node has come so far."""
        if not self._dir.state.is_offline or not self._dir.is_open:
            return
        if self._task is not None and not self._task.done():
            return
        try:
            self._task = self._parts.runtime.tasks.keep(self._bring_back, name="disk")
        except ShuttingDown:
            return

    async def _bring_back(self) -> None:
        state, clock = self._dir.state, self._parts.runtime.clock
        if self._has_metadata:
            # Not in the step in which the write failed: that may be a step of the quorum.
            self._parts.metadata.quorum.stand_back()
        while state.is_offline:
            await asyncio.sleep(max(1, state.next_try_ms - clock.monotonic_ms()) / 1000)
            try:
                await self._try()
            except (RestoreImpossible, CorruptLog) as error:
                if str(error) != state.reason:
                    log.error(
                        "%s; log directory %s is used again when the node has been restarted",
                        error,
                        self._dir.name,
                    )
                state.on_try_failed(str(error), clock.monotonic_ms())
            except MillpondError as error:
                log.debug("log directory %s does not take writes yet: %s", self._dir.name, error)
                state.on_try_failed(str(error), clock.monotonic_ms())
            else:
                self._return()

    async def _try(self) -> None:
        await self._run(self._dir.probe())
        for one in self._dir.failed:
            plan = one.begin_restore()
            if plan is None:
                continue
            await self._run(plan.run)
            if one.failure is not None and self._dir.logs.get(one.topic_partition) is one:
                one.finish_restore(plan)
                self._flush(one.topic_partition.topic, one.topic_partition.partition)
        if self._dir.failed:
            raise StorageFailure(self._dir.failed[0].failure or "")

    def _flush(self, topic: str, index: int) -> None:
        """Make durable what the restored log holds: a leader or a follower may wait for it."""
        if topic == METADATA_KEY.topic:
            return  # its flush is asked for when the quorum is joined anew
        for partition in self._parts.topics:
            if (partition.topic, partition.index) == (topic, index):
                self._parts.flusher.request(partition)

    def _return(self) -> None:
        state = self._dir.state
        now_ms = self._parts.runtime.clock.monotonic_ms()
        offline_ms = now_ms - state.since_ms
        state.on_returned(now_ms)
        self._dir.trust(self._parts.disk_history.kept_registrations())
        log.warning("log directory %s takes writes again, after %d ms", self._dir.name, offline_ms)
        if self._has_metadata:
            self._parts.metadata.quorum.come_back()
        self._parts.on_online(self._dir)
        self._parts.membership.hurry()
        self._health.on_returned()

    async def _run(self, job: Callable[[], None]) -> None:
        if self._worker is None:
            self._worker = Worker(self._parts.runtime.threads, "millpond-disk")
        await self._worker.run(job)

    def stop(self) -> None:
        """End the thread: the node stops."""
        if self._worker is not None:
            self._worker.stop()
