"""Topics on this node: which partitions it leads, and keeping directories in step with the metadata.

The metadata says what should exist; the log directory holds what does. Facts come first and
directories follow, so a crash in between leaves a topic without directories (made again at the next
start) or directories of a topic that was removed (deleted at the next start). A directory that no fact
speaks of is nobody's to delete: it is kept under another name and reported. A directory that cannot be made
now, because the disk is full, is tried again when someone asks for the partition.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from uuid import UUID

from millpond.base.clock import Clock
from millpond.base.errors import StorageFailure, UnknownTopic, UnknownTopicId
from millpond.base.ids import NodeId, TopicPartition
from millpond.engine.metadata_log import METADATA_LOG_CONFIG
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.metadata.configs import BrokerConfig, log_config
from millpond.metadata.controller import METADATA_TOPIC
from millpond.metadata.image import Image, TopicImage
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)


class Topic:
    """A topic's partitions on this node; None where the directory could not be made yet."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition | None] = []


class TopicTable:
    """Every partition this node leads, by topic name and by topic id."""

    def __init__(
        self, log_dir: LogDir, node_id: NodeId, broker: BrokerConfig, clock: Clock
    ) -> None:
        self._log_dir = log_dir
        self._node_id = node_id
        self._clock = clock
        self.broker = broker
        self.image = Image()
        # Most topics have the same settings; one object serves them all. Forgotten when the broker's change.
        self._configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._unopened: deque[tuple[Topic, int]] = deque()

    # --- looking up ---------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, by topic name. Raises ``UnknownTopic`` or ``StorageFailure``."""
        found = self._by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopic(f"there is no partition {topic}-{index}")
        return found.partitions[index] or self._retry(found, index)

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """The topic of this id. Raises ``UnknownTopicId``."""
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
        """The settings in force for a topic's logs."""
        if topic == METADATA_TOPIC:
            return METADATA_LOG_CONFIG
        if topic not in self.image.topics:
            # A directory of a topic that we know nothing about: it may have been compacted, so gaps in its
            # offsets are no sign of a crash and must not be taken for the log's end.
            unknown = log_config({}, self.broker)
            return replace(unknown, cleanup_policy=frozenset({"compact", "delete"}))
        overrides = self.image.topic_config(topic)
        key = tuple(sorted(overrides.items()))
        config = self._configs.get(key)
        if config is None:
            config = self._configs[key] = log_config(overrides, self.broker)
        return config

    # --- following the metadata -----------------------------------------------------------------

    def learn(self, image: Image) -> None:
        """What the metadata says, before any log is opened: ``config_of`` can answer from now on."""
        self.image = image
        self.reload_broker()

    def load(self, image: Image, removed: AbstractSet[UUID]) -> None:
        """At the start: join the directories that were found to the topics that should exist.

        ``removed`` are the topics that the metadata knows to have been deleted.
        """
        self.learn(image)
        for topic_partition, found in list(self._log_dir.logs.items()):
            if topic_partition.topic == METADATA_TOPIC:
                continue
            topic = image.topics.get(topic_partition.topic)
            if topic is None or found.topic_id not in {None, topic.topic_id}:
                self._leave_out(topic_partition, known_removed=found.topic_id in removed)
            elif topic_partition.partition >= len(topic.partitions):
                self._leave_out(topic_partition, known_removed=False)
        for topic in image.topics.values():
            self._add_topic(topic.name, topic.topic_id)
            self._ensure_partitions(topic)
        for _ in self.open_waiting():
            pass

    def _leave_out(self, topic_partition: TopicPartition, *, known_removed: bool) -> None:
        now_ms = self._clock.now_ms()
        if known_removed:
            log.warning(
                "partition=%s: its topic was deleted and its directory was still there; deleting it",
                topic_partition,
            )
            self._log_dir.delete(topic_partition, now_ms=now_ms)
            return
        kept_as = self._log_dir.set_aside(topic_partition, now_ms=now_ms)
        log.error(
            "partition=%s: the metadata knows no such partition; its directory is kept as %s and not "
            "served (was the metadata log lost or the directory copied here?)",
            topic_partition,
            kept_as,
        )

    def on_commit(self, records: Sequence[MetadataRecord], before: Image, after: Image) -> None:
        """Act on facts that have just become durable."""
        self.image = after
        touched: dict[UUID, None] = {}
        configured: dict[str, None] = {}
        broker_changed = False
        for record in records:
            match record:
                case TopicRecord():
                    self._add_topic(record.name, record.topic_id)
                case PartitionRecord() | PartitionChangeRecord():
                    touched[record.topic_id] = None
                case RemoveTopicRecord():
                    self._remove_topic(before.topics_by_id[record.topic_id])
                case ConfigRecord():
                    if record.resource_type == RESOURCE_TOPIC:
                        configured[record.resource_name] = None
                    elif record.resource_type == RESOURCE_BROKER:
                        broker_changed = True
                case _:
                    pass
        for topic_id in touched:
            topic = after.topics_by_id.get(topic_id)
            if topic is not None:
                self._ensure_partitions(topic)
        if broker_changed:
            self.reload_broker()
        else:
            for name in configured:
                self._reconfigure(name)

    def reload_broker(self) -> None:
        """Take the broker settings that the metadata holds, and give them to every log."""
        self.broker = self.broker.altered(
            cluster_default=self.image.config_of(RESOURCE_BROKER, ""),
            node=self.image.config_of(RESOURCE_BROKER, str(self._node_id)),
        )
        self._configs.clear()
        for name in self._by_name:
            self._reconfigure(name)

    def _add_topic(self, name: str, topic_id: UUID) -> None:
        self._by_name[name] = self._by_id[topic_id] = Topic(name, topic_id)

    def _remove_topic(self, image: TopicImage) -> None:
        topic = self._by_id.pop(image.topic_id)
        del self._by_name[topic.name]
        gone = UnknownTopic(f"topic {topic.name} was deleted")
        for index, partition in enumerate(topic.partitions):
            if partition is None:
                continue
            partition.retire(gone)
            try:
                self._log_dir.delete(TopicPartition(topic.name, index), now_ms=self._clock.now_ms())
            except StorageFailure as error:
                log.warning(
                    "partition=%s-%d: the directory could not be deleted (%s); the next start will",
                    topic.name,
                    index,
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

    def _ensure_partitions(self, image: TopicImage) -> None:
        topic = self._by_id[image.topic_id]
        for index, state in enumerate(image.partitions):
            if index < len(topic.partitions):
                partition = topic.partitions[index]
                if partition is not None:
                    partition.isr = state.isr
                    if partition.leader_epoch != state.leader_epoch:
                        partition.lead(state.leader_epoch)
                continue
            topic.partitions.append(None)
            self._unopened.append((topic, index))

    def open_waiting(self) -> Iterator[None]:
        """Make or find the directories of new partitions, one a step, so that others get their turn.

        Who asks for a partition before its turn has it opened at once. After the last step everything
        that waited when the first was made is open, or has failed and was logged.
        """
        while self._unopened:
            topic, index = self._unopened.popleft()
            if topic.partitions[index] is None and self._by_id.get(topic.topic_id) is topic:
                try:
                    self._retry(topic, index)
                except StorageFailure as error:
                    log.error(
                        "partition=%s-%d: the directory could not be made (%s); it will be tried again "
                        "when the partition is used",
                        topic.name,
                        index,
                        error,
                    )
            yield

    def _retry(self, topic: Topic, index: int) -> Partition:
        partition = self._open(topic, index, self.config_of(topic.name))
        topic.partitions[index] = partition
        return partition

    def _open(self, topic: Topic, index: int, config: LogConfig) -> Partition:
        key = TopicPartition(topic.name, index)
        found = self._log_dir.logs.get(key)
        if found is not None and found.topic_id not in {None, topic.topic_id}:
            # An earlier topic of this name was deleted while its directory could not be.
            self._log_dir.delete(key, now_ms=self._clock.now_ms())
            found = None
        if found is None:
            if key in self._log_dir.unreadable:
                raise StorageFailure(self._log_dir.unreadable[key])
            found = self._log_dir.create(key, config, topic.topic_id, now_ms=self._clock.now_ms())
            # Written down now, so that the first append need not.
            epoch = self.image.topics_by_id[topic.topic_id].partitions[index].leader_epoch
            found.assign_epoch(epoch, found.end_offset)
        elif found.config != config:
            found.reconfigure(config)
        state = self.image.topics_by_id[topic.topic_id].partitions[index]
        return Partition(
            topic=topic.name,
            index=index,
            topic_id=topic.topic_id,
            log=found,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
        )
