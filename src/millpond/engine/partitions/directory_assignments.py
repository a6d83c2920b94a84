"""The node tells the controller in which of its log directories each replica lies (KIP-858).

The controller goes by it when a directory fails: it has others lead what lay there. What it knows stands in
the metadata, so what is to be told is the difference between those and the directories: replicas that were
made, or moved, or found at the start, and replicas that may lie in a directory that could not be opened
(those are told to be lost). Many are told at once, and again until the controller has taken them.

A node with a single directory tells nothing, since the controller knows by its registration, unless the
metadata have a replica in another one: that was taken out, and the replica begun anew here. Nor does a node
that is alone tell anything, until others have joined it.
"""

import asyncio
import logging

from millpond.base.errors import MillpondError, ShuttingDown
from millpond.base.ids import TopicPartition
from millpond.base.limits import DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.peers import AssignDirectories, ReplicaPlace
from millpond.engine.runtime.backoff import Backoff
from millpond.engine.runtime.runtime import Runtime
from millpond.log.log_dirs import LogDirs
from millpond.metadata.features import knows_directories
from millpond.metadata.image import Image
from millpond.metadata.records import LOST_DIRECTORY, is_reserved_directory

log = logging.getLogger(__name__)

_PAUSE_MS_MIN = 100
_PAUSE_MS_MAX = 10_000
# Replicas that are checked before other tasks get their turn: a millisecond or two.
_LOOKED_AT_A_TURN = 500


class DirectoryAssignments:
    """The directory assignments of one node."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        info: NodeInfo,
        log_dirs: LogDirs,
        topics: TopicTable,
        metadata: MetadataView,
        membership: Membership,
        controller_link: ControllerLink,
    ) -> None:
        self._runtime = runtime
        self._info = info
        self._log_dirs = log_dirs
        self._topics = topics
        self._metadata = metadata
        self._membership = membership
        self._controller_link = controller_link
        self._has_several = len(self._log_dirs.dirs) > 1
        # Replicas whose directory the controller may not know.
        self._noted: dict[TopicPartition, None] = {}
        self._told_as = -1  # the epoch under which all were looked at
        self._pause = Backoff(_PAUSE_MS_MIN)
        self._task: asyncio.Task[None] | None = None

    def note(self, key: TopicPartition) -> None:
        """Note a replica that was opened or moved, or could not be opened."""
        if self._has_several or self._place_of(key) is not None:
            self._noted[key] = None
            self._begin()

    def on_change(self, before: Image, after: Image) -> None:
        """The metadata changed: with a new registration, and when controllers begin to go by directories,
        everything is looked at.
        """
        if not self._membership.has_registered:
            return
        epoch = self._membership.broker_epoch
        if epoch != self._told_as or knows_directories(before) != knows_directories(after):
            self._told_as = epoch
            for partition in self._topics:
                self._noted[TopicPartition(partition.topic, partition.index)] = None
            self._noted |= dict.fromkeys(self._topics.failed_to_open)
        self._begin()

    def _begin(self) -> None:
        if not self._noted or not self._runtime.running or not self._membership.has_registered:
            return
        if not knows_directories(self._metadata.image):
            return
        if self._task is not None and not self._task.done():
            return
        try:
            self._task = self._runtime.tasks.keep(self._tell, name="placements")
        except ShuttingDown:
            return

    async def _tell(self) -> None:
        while self._noted:
            places = await self._places()
            if not places:
                continue
            try:
                await self._ask(places)
            except MillpondError as error:
                pause_ms = self._pause.extend(self._runtime.clock.monotonic_ms(), _PAUSE_MS_MAX)
                level = logging.WARNING if self._pause.failures == 3 else logging.DEBUG
                log.log(
                    level,
                    "the controller could not be told in which directories %d replicas lie (%s); trying "
                    "again until it was",
                    len(places),
                    error,
                )
                await asyncio.sleep(pause_ms / 1000)
            else:
                self._pause.end()

    async def _ask(self, places: dict[TopicPartition, ReplicaPlace]) -> None:
        answer = await self._controller_link.call(
            AssignDirectories(
                node_id=self._info.node_id,
                broker_epoch=self._membership.broker_epoch,
                places=tuple(places.values()),
            )
        )
        for key, place in places.items():
            error = answer.get(place)
            if error is not None:
                # Of a topic that is gone, or of another one meanwhile: if it comes again it is noted again.
                log.debug("partition=%s: its directory was refused: %s", key, error)
            if self._place_of(key) in {place, None}:
                self._noted.pop(key, None)

    async def _places(self) -> dict[TopicPartition, ReplicaPlace]:
        """Return the assignments of the next request."""
        places: dict[TopicPartition, ReplicaPlace] = {}
        for number, key in enumerate(tuple(self._noted), start=1):
            place = self._place_of(key)
            if place is None:
                self._noted.pop(key, None)
            else:
                places[key] = place
                if len(places) == DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX:
                    break
            if number % _LOOKED_AT_A_TURN == 0:
                await asyncio.sleep(0)
        return places

    def _place_of(self, key: TopicPartition) -> ReplicaPlace | None:
        """Return the directory of a replica if the metadata have another one."""
        node = self._info.node_id
        topic = self._metadata.image.topics.get(key.topic)
        broker = self._metadata.image.brokers.get(node)
        if topic is None or broker is None or key.partition >= len(topic.partitions):
            return None
        partition = topic.partitions[key.partition]
        if node not in partition.replicas:
            return None
        known = partition.directory_of(node)
        if not self._has_several and is_reserved_directory(known) and known != LOST_DIRECTORY:
            return None
        holding = self._log_dirs.holding(key)
        if holding is not None:
            directory = holding.directory_id
        elif self._log_dirs.unopened and broker.has_online(known):
            directory = LOST_DIRECTORY
        else:
            return None
        if directory == known:
            return None
        return ReplicaPlace(directory=directory, topic_id=topic.topic_id, partition=key.partition)
