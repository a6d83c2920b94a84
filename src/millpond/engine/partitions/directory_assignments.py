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
from typing import TYPE_CHECKING

from millpond.base.errors import MillpondError, ShuttingDown
from millpond.base.ids import TopicPartition
from millpond.base.limits import DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX
from millpond.engine.peers import AssignDirectories, ReplicaPlace
from millpond.engine.runtime.backoff import Backoff
from millpond.metadata.features import knows_directories
from millpond.metadata.image import Image
from millpond.metadata.records import LOST_DIRECTORY, is_reserved_directory

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)

_PAUSE_MS_MIN = 100
_PAUSE_MS_MAX = 10_000
# Replicas looked at before others get their turn; a millisecond or two.
_LOOKED_AT_A_TURN = 500


class DirectoryAssignments:
    """One for each node."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._has_several = len(engine.log_dirs.dirs) > 1
        # Replicas that may have to be told of.
        self._noted: dict[TopicPartition, None] = {}
        self._told_as = -1  # the epoch under which all were looked at
        self._pause = Backoff(_PAUSE_MS_MIN)
        self._task: asyncio.Task[None] | None = None

    def note(self, key: TopicPartition) -> None:
        """A replica was opened, moved, or could not be opened."""
        if self._has_several or self._place_of(key) is not None:
            self._noted[key] = None
            self._begin()

    def on_change(self, before: Image, after: Image) -> None:
        """The metadata changed: with a new registration, and when controllers begin to go by directories,
        everything is looked at.
        """
        if not self._engine.membership.has_registered:
            return
        epoch = self._engine.broker_epoch
        if epoch != self._told_as or knows_directories(before) != knows_directories(after):
            self._told_as = epoch
            for partition in self._engine.topics:
                self._noted[TopicPartition(partition.topic, partition.index)] = None
            self._noted |= dict.fromkeys(self._engine.topics.failed_to_open)
        self._begin()

    def _begin(self) -> None:
        engine = self._engine
        if not self._noted or not engine.running or not engine.membership.has_registered:
            return
        if not knows_directories(engine.image):
            return
        if self._task is not None and not self._task.done():
            return
        try:
            self._task = engine.tasks.keep(self._tell, name="placements")
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
                pause_ms = self._pause.extend(self._engine.clock.monotonic_ms(), _PAUSE_MS_MAX)
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
        engine = self._engine
        answer = await engine.link.call(
            AssignDirectories(
                node_id=engine.node.node_id,
                broker_epoch=engine.broker_epoch,
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
        """What is to be told next, as much as goes into one request."""
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
        """Where a replica lies, if the metadata do not know that."""
        engine = self._engine
        node = engine.node.node_id
        topic = engine.image.topics.get(key.topic)
        broker = engine.image.brokers.get(node)
        if topic is None or broker is None or key.partition >= len(topic.partitions):
            return None
        partition = topic.partitions[key.partition]
        if node not in partition.replicas:
            return None
        known = partition.directory_of(node)
        if not self._has_several and is_reserved_directory(known) and known != LOST_DIRECTORY:
            return None
        holding = engine.log_dirs.holding(key)
        if holding is not None:
            directory = holding.directory_id
        elif engine.log_dirs.unopened and broker.has_online(known):
            directory = LOST_DIRECTORY
        else:
            return None
        if directory == known:
            return None
        return ReplicaPlace(directory=directory, topic_id=topic.topic_id, partition=key.partition)
