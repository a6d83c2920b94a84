"""The partitions of this node: writes, reads, and observers of their leadership.

Front-ends, coordinators, share groups and queues use this service; what stands behind it (the table of
topics, the publisher, the read path) is the business of this package. Plain methods are complete when they
return. Refusals are the classes of ``base.errors``.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from uuid import UUID

from millpond.base.errors import InvalidTopicName, NotLeader
from millpond.base.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset
from millpond.engine.partitions.deletions import Deletions
from millpond.engine.partitions.publish import Appended, Publisher
from millpond.engine.partitions.read import (
    FoundOffset,
    PartitionRead,
    delete_records,
    find_offset,
    read,
)
from millpond.engine.partitions.topic_table import Topic, TopicTable
from millpond.engine.partitions.waiters import ReadWaiter
from millpond.engine.runtime.runtime import Runtime
from millpond.log.config import LogConfig
from millpond.log.log_dirs import LogDirs
from millpond.metadata.controller import INTERNAL_TOPICS
from millpond.record.producer_abilities import ALL_ABILITIES, ProducerAbilities
from millpond.record.validate import Validated
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

LeadershipObserver = Callable[[Partition, bool, LeaderEpoch], None]


class Partitions:
    """Writing, reading and leadership. ``is_cut_off`` says whether this node may not lead for now, because
    the controller has not answered it for too long.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        runtime: Runtime,
        log_dirs: LogDirs,
        topics: TopicTable,
        publisher: Publisher,
        deletions: Deletions,
        is_cut_off: Callable[[], bool],
    ) -> None:
        self._node_id = node_id
        self._runtime = runtime
        self._log_dirs = log_dirs
        self._topics = topics
        self._publisher = publisher
        self._deletions = deletions
        self._is_cut_off = is_cut_off
        self._leadership_observers: list[LeadershipObserver] = []
        # Partitions written to since maintenance last looked (flush policy "os").
        self._dirty: dict[Partition, None] = {}

    # --- looking up --------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition that this node leads, to be given back to the methods below.

        Raises ``UnknownTopic``, ``NotLeader``, ``StorageFailure``.
        """
        partition = self._topics.partition(topic, index)
        if self._is_cut_off():
            raise self._cut_off(partition)
        return partition

    def replica(self, topic: str, index: int) -> Partition:
        """Return this node's replica, whichever node leads it. Raises as ``partition`` does."""
        partition = self._topics.replica(topic, index)
        if partition.is_leader and self._is_cut_off():
            raise self._cut_off(partition)
        return partition

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """Return a topic by its id. Raises ``UnknownTopicId``."""
        return self._topics.topic_by_id(topic_id)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic's logs."""
        return self._topics.config_of(topic)

    # --- writing -----------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int,
        records: bytearray | memoryview,
        *,
        acks: int = -1,
        producer: ProducerAbilities = ALL_ABILITIES,
        internal: bool = False,
    ) -> Appended:
        """Append one record batch. The buffer is changed in place and belongs to the log afterwards.

        ``durable`` of the answer is None when the append may be acknowledged at once; otherwise it is
        done when the flush policy's promise is kept, or fails with why not.
        ``internal``: the batch is ours; a client's rules do not apply.
        """
        return self.append_to(
            self._topics.partition(topic, partition),
            records,
            acks=acks,
            producer=producer,
            internal=internal,
        )

    def append_to(
        self,
        partition: Partition,
        records: bytearray | memoryview,
        *,
        acks: int,
        producer: ProducerAbilities = ALL_ABILITIES,
        internal: bool = False,
        transactional_id: str | None = None,
        validated: Validated | None = None,
    ) -> Appended:
        """As ``append``, for a given partition. A transactional batch needs its ``transactional_id``.

        Raises ``LongValidation`` for a batch that must be checked on a thread: give it to
        ``append_in_thread``. ``validated`` is the outcome of the check.
        """
        self._runtime.check_running()
        appended = self._publisher.append(
            partition,
            records,
            acks=acks,
            producer=producer,
            internal=internal,
            transactional_id=transactional_id,
            validated=validated,
        )
        self._dirty[partition] = None
        return appended

    async def append_in_thread(
        self,
        find: Callable[[], Partition],
        partition: Partition,
        records: bytearray | memoryview,
        *,
        acks: int,
        producer: ProducerAbilities = ALL_ABILITIES,
        transactional_id: str | None = None,
    ) -> Appended:
        """As ``append_to``, for a batch that needs a check on a thread (``LongValidation``).

        ``find`` is what found the partition. It is called again after the check, because meanwhile another
        node may lead the partition, or its topic may be gone. Raises what ``find`` does, and ``NotLeader`` if
        that gives another partition (of a new topic with the same name).
        """
        validated = await self._publisher.validate_in_thread(partition, records, producer=producer)
        if find() is not partition:
            raise NotLeader(
                f"partition {partition.topic}-{partition.index} was made anew while a batch for it was "
                "checked; ask for the metadata again"
            )
        return self.append_to(
            partition,
            records,
            acks=acks,
            producer=producer,
            transactional_id=transactional_id,
            validated=validated,
        )

    def mark_dirty(self, partition: Partition) -> None:
        """Note that a partition was written to, other than by ``append``: by a follower's fetch, for one."""
        self._dirty[partition] = None

    def take_dirty(self) -> dict[Partition, None]:
        """Return the partitions written to since the last call."""
        dirty, self._dirty = self._dirty, {}
        return dirty

    def send_writers_away(self) -> None:
        """Fail the appends that wait for replicas, since this node may lead no longer."""
        self._publisher.send_away(self._cut_off)

    def deleting_records(self) -> AbstractContextManager[None]:
        """Within the block ``delete_records`` does not write checkpoints.

        They are written once at its end.
        """
        return self._log_dirs.saving_together()

    def delete_records(self, topic: str, partition: int, before: Offset) -> Offset:
        """Make everything before this offset (-1: before the high watermark) unreadable; return the new
        start. Other replicas follow: ``Deletions.done`` tells when they have.
        """
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicName(f"records of the internal topic {topic} may not be deleted")
        led = self._topics.partition(topic, partition)
        start = delete_records(led, before)
        self._deletions.begin(led)
        return start

    # --- reading -----------------------------------------------------------------------------------

    def read_now(
        self,
        partition: Partition,
        offset: Offset,
        *,
        bytes_max: int,
        committed: bool = False,
        at_least_one: bool = True,
        leader_epoch: LeaderEpoch = NO_EPOCH,
    ) -> PartitionRead:
        """Read without waiting. See ``partitions.read.read``."""
        return read(
            partition,
            offset,
            bytes_max=bytes_max,
            committed=committed,
            at_least_one=at_least_one,
            leader_epoch=leader_epoch,
        )

    def wait_for_data(
        self,
        partitions: Sequence[Partition],
        *,
        missing_bytes: int,
        wait_ms: int,
        done: Callable[[], None],
    ) -> ReadWaiter:
        """Call ``done`` once: when that many bytes came, a partition left, or the time is over."""
        return ReadWaiter(
            partitions,
            missing_bytes=missing_bytes,
            wait_ms=wait_ms,
            done=done,
            loop=asyncio.get_running_loop(),
        )

    def find_offset(
        self,
        partition: Partition,
        time_or_place: int,
        *,
        committed: bool = False,
        leader_epoch: LeaderEpoch = NO_EPOCH,
    ) -> FoundOffset:
        """The position for a time in ms, or for a place (``LATEST``, ``EARLIEST``, ``MAX_TIMESTAMP``)."""
        partition.check_epoch(leader_epoch)
        return find_offset(partition, time_or_place, committed=committed)

    def epoch_end_offset(
        self, partition: Partition, epoch: LeaderEpoch, *, leader_epoch: LeaderEpoch = NO_EPOCH
    ) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch not above ``epoch`` that has records, and the offset at which it ends."""
        partition.check_epoch(leader_epoch)
        return partition.epoch_end_offset(epoch)

    # --- leadership --------------------------------------------------------------------------------

    def on_leadership(self, call: LeadershipObserver) -> None:
        """Call this with (partition, gained, leader epoch) when this node begins or ends to lead, on the
        loop.
        """
        self._leadership_observers.append(call)

    def tell_leadership(self, partition: Partition, gained: bool) -> None:
        """This node leads a partition now, or does so no more: tell the observers.

        An observer that fails does not keep the others from being told, nor those of other partitions.
        """
        for call in self._leadership_observers:
            try:
                call(partition, gained, partition.leader_epoch)
            except Exception:
                log.exception(
                    "partition=%s-%d epoch=%d: a change of its leader could not be acted upon",
                    partition.topic,
                    partition.index,
                    partition.leader_epoch,
                )

    def _cut_off(self, partition: Partition) -> NotLeader:
        return NotLeader(
            f"node {self._node_id} has had no answer of the controller for too long to lead "
            f"{partition.topic}-{partition.index}; ask for the metadata again"
        )
