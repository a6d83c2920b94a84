"""Replicas in several log directories of one node: where they lie, and what a failed directory means.

The rules are those of Kafka's KIP-858. Each replica has a directory in the metadata: its node says which, or,
where the node has only one, it is that one. A directory that a node calls offline takes its replicas out of
the ISR and from leadership in one step, while the node goes on with all else; when it is back they may lead
again. What a replica had in an offline directory it still has, so it stays eligible (KIP-966) and waits.

Different from Kafka, a directory comes back with a heartbeat that does not call it offline any more, without
a new registration. And a replica that its node puts into another directory while the metadata have it in one
that is offline or not registered any more cannot have been copied: it begins empty, as after a lost disk, so
it is eligible no longer where there are other replicas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from millpond.base.errors import (
    InvalidRequest,
    LogDirNotFound,
    MillpondError,
    NotLeader,
    UnknownTopic,
    UnknownTopicId,
    UnsupportedVersion,
)
from millpond.base.ids import NodeId
from millpond.metadata.elections import Rules, decide_started, each_partition
from millpond.metadata.features import knows_directories
from millpond.metadata.image import BrokerImage, Image, PartitionImage, TopicImage, apply, changed
from millpond.metadata.partition_change import (
    PartitionTarget,
    active_in,
    new_directory,
    partition_change,
)
from millpond.metadata.records import (
    LOST_DIRECTORY,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    is_reserved_directory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A node keeps its replica of a partition in this directory."""

    directory: UUID
    topic_id: UUID
    partition: int


def decide_directories(
    image: Image, broker: BrokerImage, offline: frozenset[UUID], rules: Rules
) -> list[MetadataRecord]:
    """These directories of a node are offline, and no others; nothing if that is known."""
    if offline == set(broker.offline_dirs):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        log_dirs=tuple(one for one in broker.log_dirs if one not in offline),
    )
    after = apply(image, [change])
    records: list[MetadataRecord] = [
        *decide_without_directories(after, broker.broker_id, rules),
        change,
    ]
    if broker.is_active:
        records += decide_started(apply(image, records), broker.broker_id, rules)
    return records


def decide_without_directories(
    image: Image, node: NodeId, rules: Rules
) -> list[PartitionChangeRecord]:
    """Hand over what a node leads from directories that are offline, and strike it off where it is in sync
    with a replica in one of them.
    """
    broker = image.brokers[node]
    available = active_in(image)
    records = []
    for topic, index, partition in each_partition(image):
        if node != partition.leader and node not in partition.isr:
            continue
        if broker.has_online(partition.directory_of(node)):
            continue
        wanted = PartitionTarget(
            isr=tuple(one for one in partition.isr if one != node),
            election=rules.online(topic.name),
        )
        record = partition_change(
            topic.topic_id, index, partition, wanted, available, min_isr=rules.min_isr(topic.name)
        )
        if record is not None:
            records.append(record)
    return records


def decide_replaced_directories(
    image: Image, node: NodeId, rules: Rules
) -> list[PartitionChangeRecord]:
    """A node has come back with none of the directories that it had: its replicas lie in the new ones."""
    broker = image.brokers[node]
    available = active_in(image)
    directory = new_directory(image, node)
    records = []
    for topic, index, partition in each_partition(image):
        if node not in partition.replicas or broker.has_online(partition.directory_of(node)):
            continue
        record = partition_change(
            topic.topic_id,
            index,
            partition,
            PartitionTarget(placed=((node, directory),)),
            available,
            min_isr=rules.min_isr(topic.name),
        )
        if record is not None:
            records.append(record)
    return records


def decide_assign(
    image: Image, broker: BrokerImage, placements: Sequence[Placement], rules: Rules
) -> tuple[list[PartitionChangeRecord], list[MillpondError | None]]:
    """A node says where its replicas lie; for each of them what is wrong with that, in the order asked.

    Raises ``UnsupportedVersion`` while nodes of an older release may have to decide.
    """
    if not knows_directories(image):
        raise UnsupportedVersion("Directory assignment is not supported yet.")
    records: list[PartitionChangeRecord] = []
    errors: list[MillpondError | None] = []
    # A partition that is named twice is decided the second time from what the first made of it.
    partitions: dict[tuple[UUID, int], PartitionImage] = {}
    for one in placements:
        try:
            topic = _checked(image, broker, one)
        except MillpondError as refused:
            errors.append(refused)
            continue
        errors.append(None)
        key = (one.topic_id, one.partition)
        before = partitions.get(key, topic.partitions[one.partition])
        record = _assigned(image, broker, topic, one, before, rules)
        if record is not None:
            records.append(record)
            partitions[key] = changed(before, record)
    return records, errors


def _checked(image: Image, broker: BrokerImage, one: Placement) -> TopicImage:
    topic = image.topics_by_id.get(one.topic_id)
    if topic is None:
        raise UnknownTopicId(f"there is no topic with id {one.topic_id}")
    if not 0 <= one.partition < len(topic.partitions):
        raise UnknownTopic(f"there is no partition {topic.name}-{one.partition}")
    if broker.broker_id not in topic.partitions[one.partition].replicas:
        raise NotLeader(
            f"node {broker.broker_id} has no replica of {topic.name}-{one.partition} to place"
        )
    if is_reserved_directory(one.directory):
        if one.directory != LOST_DIRECTORY:
            raise InvalidRequest(f"{one.directory} is reserved and names no directory")
    elif one.directory not in broker.log_dirs:
        raise LogDirNotFound(
            f"node {broker.broker_id} is not registered with directory {one.directory}"
        )
    return topic


def _assigned(
    image: Image,
    broker: BrokerImage,
    topic: TopicImage,
    one: Placement,
    before: PartitionImage,
    rules: Rules,
) -> PartitionChangeRecord | None:
    node = broker.broker_id
    # What has no other copy is gone, and begins anew.
    is_empty = _begins_empty(broker, before, one.directory) and len(before.replicas) > 1
    stays = not is_empty and broker.has_online(one.directory)
    wanted = PartitionTarget(
        isr=None if stays else tuple(other for other in before.isr if other != node),
        emptied=(node,) if is_empty else (),
        placed=((node, one.directory),),
        election=rules.online(topic.name),
    )
    return partition_change(
        topic.topic_id,
        one.partition,
        before,
        wanted,
        active_in(image),
        min_isr=rules.min_isr(topic.name),
    )


def _begins_empty(broker: BrokerImage, before: PartitionImage, directory: UUID) -> bool:
    """Whether the replica cannot have been copied from where it was."""
    was = before.directory_of(broker.broker_id)
    return was != directory and not broker.has_online(was)
