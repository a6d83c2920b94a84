"""The topics of this node: the partitions that it has a replica of, with directories as the metadata say.

The metadata say which partitions should exist and where; the log directories hold those that do. Metadata
come first and directories follow, so a crash in between leaves a topic without directories (made again at the
next start) or directories of a topic that was removed (deleted at the next start). A directory that no record
names is not deleted: it is kept under another name and reported. A directory that cannot be made or opened
now, because the disk is full or cannot be read, is tried again from time to time; one that is to be made also
when a client asks for the partition.

Who leads and who follows is a part of the metadata too: ``on_change`` is told of each replica whose role is
another one now.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from uuid import UUID

from millpond.base.clock import Clock
from millpond.base.errors import NotLeader, StorageFailure, UnknownTopic, UnknownTopicId
from millpond.base.ids import NodeId, Offset, TopicPartition
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.quorum.metadata_log import METADATA_LOG_CONFIG
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.log.partition_log import PartitionLog
from millpond.metadata.configs import log_config
from millpond.metadata.controller import METADATA_TOPIC
from millpond.metadata.image import Image, PartitionImage, TopicImage
from millpond.metadata.records import (
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from millpond.replication.partition import Change, Partition

log = logging.getLogger(__name__)

NO_BROKER_EPOCH = -1


class Topic:
    """A topic's partitions; None where this node has no replica, or could not open it yet."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition | None] = []


class TopicTable:
    """All topics by name and by id, with the replicas on this node."""

    def __init__(
        self,
        log_dirs: LogDirs,
        node_id: NodeId,
        settings: NodeSettings,
        clock: Clock,
        *,
        on_change: Callable[[Partition, Change], None],
        is_replaced: Callable[[], bool],
    ) -> None:
        """``on_change`` is told of replicas that lead, follow, or are gone. ``is_replaced`` says whether
        another process is registered as this node: then nothing is led here.
        """
        self._log_dirs = log_dirs
        self._node_id = node_id
        self._clock = clock
        self._settings = settings
        self.image = Image()
        # Most topics have the same settings; one object serves them all. Forgotten when the broker's change.
        self._configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._unopened: deque[tuple[Topic, int]] = deque()
        # Replicas that this node was given since it started: it cannot have had them before.
        self._new_here: set[tuple[Topic, int]] = set()
        # Partitions that could not be opened, and why: the directory could not be made, or not be read.
        self._failed: dict[tuple[Topic, int], str] = {}
        self._on_change = on_change
        self._is_replaced = is_replaced
        self._high_watermarks: dict[TopicPartition, Offset] = {}

    # --- looking up ---------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition that this node leads.

        Raises ``UnknownTopic``, ``NotLeader``, ``StorageFailure``.
        """
        found = self._by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopic(f"there is no partition {topic}-{index}")
        partition = found.partitions[index]
        if partition is None:
            partition = self._open_late(found, index)
        if not partition.is_leader:
            raise partition.not_leader()
        return partition

    def replica(self, topic: str, index: int) -> Partition:
        """Return this node's replica, leading or not.

        Raises ``UnknownTopic``, ``NotLeader``, ``StorageFailure``.
        """
        found = self._by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopic(f"there is no partition {topic}-{index}")
        return found.partitions[index] or self._open_late(found, index)

    def check_here(self, topic: str, index: int) -> None:
        """Raises ``UnknownTopic``, or ``NotLeader`` if this node is not to have a replica; opens nothing."""
        found = self._by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopic(f"there is no partition {topic}-{index}")
        if not self._is_wanted(found, index):
            raise NotLeader(f"partition {topic}-{index} has no replica on node {self._node_id}")

    def _open_late(self, topic: Topic, index: int) -> Partition:
        state = self.image.topics_by_id[topic.topic_id].partitions[index]
        if self._node_id not in state.replicas:
            where = f"node {state.leader} leads it" if state.leader >= 0 else "nobody leads it now"
            raise NotLeader(
                f"partition {topic.name}-{index} has no replica on node {self._node_id}: {where}; "
                "ask for the metadata again"
            )
        unreadable = self._log_dirs.unreadable.get(TopicPartition(topic.name, index))
        if unreadable is not None:
            # Recovering a log takes a while and is not done for a request: ``retry_unopened`` does it.
            raise StorageFailure(
                f"partition {topic.name}-{index} could not be opened ({unreadable}); it is tried again"
            )
        return self._retry(topic, index)

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """Return the topic of this id. Raises ``UnknownTopicId``."""
        found = self._by_id.get(topic_id)
        if found is None:
            raise UnknownTopicId(f"no topic has the id {topic_id}")
        return found

    def has(self, partition: Partition) -> bool:
        """Whether the partition is still one of ours (its topic may have been deleted meanwhile)."""
        topic = self._by_id.get(partition.topic_id)
        return topic is not None and topic.partitions[partition.index] is partition

    def __iter__(self) -> Iterator[Partition]:
        for topic in tuple(self._by_name.values()):
            for partition in tuple(topic.partitions):
                if partition is not None:
                    yield partition

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic's logs."""
        if topic == METADATA_TOPIC:
            return METADATA_LOG_CONFIG
        if topic not in self.image.topics:
            # A directory of a topic that we know nothing about: it may have been compacted, so gaps in its
            # offsets are no sign of a crash and must not be taken for the log's end.
            unknown = log_config({}, self._settings.broker)
            return replace(unknown, cleanup_policy=frozenset({"compact", "delete"}))
        overrides = self.image.topic_config(topic)
        key = tuple(sorted(overrides.items()))
        config = self._configs.get(key)
        if config is None:
            config = self._configs[key] = log_config(overrides, self._settings.broker)
        return config

    # --- following the metadata -----------------------------------------------------------------

    def learn(self, image: Image) -> None:
        """Take the metadata before any log is opened, so that ``config_of`` can answer."""
        self.image = image
        self.reload_broker()

    def load(self, image: Image, removed: AbstractSet[UUID]) -> None:
        """At the start: join the directories that were found to the topics that should exist.

        ``removed`` are the topics that the metadata knows to have been deleted.
        """
        self.learn(image)
        for log_dir, key, topic_id in self._log_dirs.found():
            if key.topic == METADATA_TOPIC:
                continue
            topic = image.topics.get(key.topic)
            if topic is None or topic_id not in {None, topic.topic_id}:
                self._leave_out(log_dir, key, known_removed=topic_id in removed)
            elif key.partition >= len(topic.partitions):
                self._leave_out(log_dir, key, known_removed=False)
            elif self._node_id not in topic.partitions[key.partition].replicas:
                self._delete(log_dir, key, "its replica is kept by other nodes now")
        self._high_watermarks = self._log_dirs.high_watermarks()
        for topic in image.topics.values():
            self._add_topic(topic.name, topic.topic_id)
            self._ensure_partitions(topic, range(len(topic.partitions)))
        for _ in self.open_waiting():
            pass

    def _leave_out(
        self, log_dir: LogDir, topic_partition: TopicPartition, *, known_removed: bool
    ) -> None:
        if known_removed:
            log.warning(
                "partition=%s: its topic was deleted and its directory was still there in %s; deleting it",
                topic_partition,
                log_dir.name,
            )
            self._delete(log_dir, topic_partition)
            return
        try:
            kept_as = log_dir.set_aside(topic_partition, now_ms=self._clock.now_ms())
        except StorageFailure as error:
            log.error(
                "partition=%s: the metadata knows no such partition, and its directory in %s cannot be set "
                "aside (%s); it is not served, and tried again",
                topic_partition,
                log_dir.name,
                error,
            )
            return
        log.error(
            "partition=%s: the metadata knows no such partition, nor that there was one; its directory is "
            "kept as %s and not served (was the metadata log lost or the directory copied here?)",
            topic_partition,
            kept_as,
        )

    def on_commit(self, records: Sequence[MetadataRecord], before: Image, after: Image) -> None:
        """Act on records that were just committed."""
        self.image = after
        touched: dict[UUID, dict[int, None]] = {}
        configured: dict[str, None] = {}
        broker_changed = False
        for record in records:
            match record:
                case TopicRecord():
                    self._add_topic(record.name, record.topic_id)
                case PartitionRecord() | PartitionChangeRecord():
                    touched.setdefault(record.topic_id, {})[record.partition_id] = None
                case RemoveTopicRecord():
                    self._remove_topic(before.topics_by_id[record.topic_id])
                case ConfigRecord():
                    if record.resource_type == RESOURCE_TOPIC:
                        configured[record.resource_name] = None
                    elif record.resource_type == RESOURCE_BROKER:
                        broker_changed = True
                case _:
                    pass
        for topic_id, indexes in touched.items():
            topic = after.topics_by_id.get(topic_id)
            if topic is not None:
                self._note_new(before.topics_by_id.get(topic_id), topic, indexes)
                self._ensure_partitions(topic, indexes)
        if broker_changed:
            self.reload_broker()
        else:
            for name in configured:
                self._reconfigure(name)

    def _note_new(
        self, before: TopicImage | None, after: TopicImage, indexes: Iterable[int]
    ) -> None:
        """Remember which of these replicas this node has only been given now."""
        topic = self._by_id[after.topic_id]
        for index in indexes:
            known = before.partitions[index : index + 1] if before is not None else ()
            if not any(self._node_id in state.replicas for state in known):
                self._new_here.add((topic, index))

    def reload_broker(self) -> None:
        """Take the broker settings that the metadata holds, and give them to every log."""
        self._settings.reload(self.image)
        self._configs.clear()
        for name in self._by_name:
            self._reconfigure(name)

    def _add_topic(self, name: str, topic_id: UUID) -> None:
        self._by_name[name] = self._by_id[topic_id] = Topic(name, topic_id)

    def _remove_topic(self, image: TopicImage) -> None:
        topic = self._by_id.pop(image.topic_id)
        del self._by_name[topic.name]
        self._new_here = {one for one in self._new_here if one[0] is not topic}
        gone = UnknownTopic(f"topic {topic.name} was deleted")
        for index, partition in enumerate(topic.partitions):
            if partition is not None:
                partition.retire(gone)
                self._on_change(partition, Change.GONE)
            key = TopicPartition(topic.name, index)
            log_dir = self._log_dirs.holding(key)
            if log_dir is None:
                continue
            # A partition that could not be opened has its directory, too.
            if partition is not None or log_dir.topic_id_of(key) == topic.topic_id:
                self._delete(log_dir, key)

    def _give_up(self, topic: Topic, partition: Partition) -> None:
        """Delete a replica that is not this node's any more."""
        topic.partitions[partition.index] = None
        partition.retire(partition.not_leader())
        self._on_change(partition, Change.GONE)
        key = TopicPartition(topic.name, partition.index)
        log_dir = self._log_dirs.holding(key)
        assert log_dir is not None
        self._delete(log_dir, key, "its replica was moved to other nodes")

    def _delete(self, log_dir: LogDir, key: TopicPartition, reason: str = "") -> None:
        if reason:
            log.info("partition=%s: %s; deleting it from %s", key, reason, log_dir.name)
        try:
            log_dir.delete(key, now_ms=self._clock.now_ms())
        except StorageFailure as error:
            log.warning(
                "partition=%s: its directory in %s could not be deleted (%s); trying again until it can",
                key,
                log_dir.name,
                error,
            )

    def _reconfigure(self, name: str) -> None:
        topic = self._by_name.get(name)
        if topic is None:
            return
        config = self.config_of(name)
        for partition in topic.partitions:
            if partition is not None and partition.log.config != config:
                partition.reconfigure(config)

    def _ensure_partitions(self, image: TopicImage, indexes: Iterable[int]) -> None:
        topic = self._by_id[image.topic_id]
        missing = len(image.partitions) - len(topic.partitions)
        topic.partitions += [None] * missing
        for index in indexes:
            state = self._state(image, index)
            partition = topic.partitions[index]
            is_here = self._node_id in state.replicas
            if partition is None:
                if is_here:
                    self._unopened.append((topic, index))
            elif not is_here:
                partition.assume(state, now_ms=self._clock.monotonic_ms())
                self._give_up(topic, partition)
            else:
                change = partition.assume(state, now_ms=self._clock.monotonic_ms())
                if change is not Change.NOTHING:
                    self._on_change(partition, change)

    def _state(self, image: TopicImage, index: int) -> PartitionImage:
        """A partition's state as far as it concerns this process."""
        state = image.partitions[index]
        if state.leader == self._node_id and self._is_replaced():
            return replace(state, leader=NO_LEADER)
        return state

    @property
    def has_waiting(self) -> bool:
        """Whether directories are still to be made."""
        return bool(self._unopened)

    @property
    def failed_to_open(self) -> Mapping[TopicPartition, str]:
        """Partitions of this node that could not be opened, and why. They are tried again."""
        return {
            TopicPartition(topic.name, index): reason
            for (topic, index), reason in self._failed.items()
            if topic.partitions[index] is None and self._is_wanted(topic, index)
        }

    def try_again(self) -> None:
        """Queue the partitions that could not be opened for another attempt."""
        waiting = set(self._unopened)
        self._unopened.extend(one for one in self._failed if one not in waiting)

    def open_waiting(self) -> Iterator[Partition | None]:
        """Make, find or recover the directories of partitions, one a step, so that others get their turn.

        Who asks for a new partition before its turn has it opened at once. After the last step everything
        that waited when the first was made is open, or has failed and was logged: at the first attempt, and
        when the reason is another.
        """
        while self._unopened:
            topic, index = key = self._unopened[0]
            opened: Partition | None = None
            if topic.partitions[index] is None and self._is_wanted(topic, index):
                try:
                    opened = self._retry(topic, index)
                except StorageFailure as error:
                    self._on_failed(topic, index, str(error))
                except (
                    Exception
                ) as error:  # a defect with one partition must not keep others closed
                    log.exception("partition=%s-%d: cannot be opened", topic.name, index)
                    self._on_failed(topic, index, repr(error))
            if topic.partitions[index] is not None or not self._is_wanted(topic, index):
                self._on_opened(topic, index)
            if self._unopened and self._unopened[0] is key:
                self._unopened.popleft()
            yield opened

    def _on_failed(self, topic: Topic, index: int, reason: str) -> None:
        if self._failed.get((topic, index)) != reason:
            log.error(
                "partition=%s-%d: cannot be opened (%s); it is tried again after a pause of a minute at most",
                topic.name,
                index,
                reason,
            )
        self._failed[topic, index] = reason

    def _on_opened(self, topic: Topic, index: int) -> None:
        is_news = self._failed.pop((topic, index), None) is not None
        if is_news and topic.partitions[index] is not None:
            log.warning("partition=%s-%d: could be opened after all", topic.name, index)

    def _is_wanted(self, topic: Topic, index: int) -> bool:
        image = self.image.topics_by_id.get(topic.topic_id)
        return image is not None and self._node_id in image.partitions[index].replicas

    def _retry(self, topic: Topic, index: int) -> Partition:
        partition = self._open(topic, index, self.config_of(topic.name))
        topic.partitions[index] = partition
        self._on_change(partition, Change.LEADS if partition.is_leader else Change.FOLLOWS)
        return partition

    def _open(self, topic: Topic, index: int, config: LogConfig) -> Partition:
        key = TopicPartition(topic.name, index)
        state = self._state(self.image.topics_by_id[topic.topic_id], index)
        found = self._log_dirs.logs.get(key)
        if found is not None and found.topic_id not in {None, topic.topic_id}:
            # An earlier topic of this name was deleted while its directory could not be.
            self._log_dirs.delete(key, now_ms=self._clock.now_ms())
            found = None
        if found is None:
            found = self._reopened(key, topic.topic_id, config)
        if found is None:
            found = self._log_dirs.create(
                key,
                config,
                topic.topic_id,
                now_ms=self._clock.now_ms(),
                is_first_here=(topic, index) in self._new_here,
            )
            if state.leader == self._node_id:
                # Written down now, so that the first append need not.
                found.assign_epoch(state.leader_epoch, found.end_offset)
        elif found.config != config:
            found.reconfigure(config)
        self._new_here.discard((topic, index))
        return Partition(
            topic=topic.name,
            index=index,
            topic_id=topic.topic_id,
            log=found,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            node_id=self._node_id,
            replicas=state.replicas,
            leader=state.leader,
            partition_epoch=state.partition_epoch,
            high_watermark=self._high_watermarks.pop(key, 0),
            now_ms=self._clock.monotonic_ms(),
            lag_ms_max=self._lag_ms_max,
            is_eligible=partial(self._is_eligible, topic.topic_id, index),
            has_eligible=bool(state.eligible_leaders),
        )

    def _reopened(
        self, key: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> PartitionLog | None:
        """The log of a partition that could not be opened at the start, if there is one."""
        if key not in self._log_dirs.unreadable:
            return None
        holding = self._log_dirs.holding(key)
        assert holding is not None
        if holding.topic_id_of(key) not in {None, topic_id}:
            self._leave_out(holding, key, known_removed=False)
            return None
        return self._log_dirs.open_again(key, config, now_ms=self._clock.now_ms())

    def _lag_ms_max(self) -> int:
        lag_ms: int = self._settings.get("replica.lag.time.max.ms")
        return lag_ms

    def _is_eligible(self, topic_id: UUID, index: int, node: NodeId, broker_epoch: int) -> bool:
        """Whether a follower may be in sync: its node serves, also from the directory in which the replica
        lies, and is still the one that fetched.
        """
        broker = self.image.brokers.get(node)
        topic = self.image.topics_by_id.get(topic_id)
        return (
            broker is not None
            and topic is not None
            and self.image.may_lead(node, topic.partitions[index])
            and broker_epoch in {NO_BROKER_EPOCH, broker.broker_epoch}
        )
