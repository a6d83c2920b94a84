"""The records that a node that is alone writes at its start: its registration, and partitions on its disk."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from millpond.base import limits
from millpond.base.ids import TopicPartition
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.log.log_dirs import LogDirs
from millpond.metadata.controller import METADATA_TOPIC, decide_new_epochs
from millpond.metadata.directories import decide_replaced_directories
from millpond.metadata.elections import Rules, decide_emptied, decide_one_min_isr
from millpond.metadata.features import first_levels, own_features
from millpond.metadata.image import Image, apply
from millpond.metadata.records import (
    BrokerEndpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapParts:
    """What the first records depend on."""

    info: NodeInfo
    log_dirs: LogDirs
    quorum: QuorumHost
    rules: Callable[[Image], Rules]
    new_id: Callable[[], UUID]


async def write_first_facts(parts: BootstrapParts, *, fresh: bool) -> None:
    """Write the records of a start: the first levels, the node, new epochs after an unclean stop."""
    metadata = parts.quorum
    records: list[MetadataRecord] = []
    known = metadata.image.brokers.get(parts.info.node_id)
    others = metadata.image.brokers.keys() - {parts.info.node_id}
    is_replaced = False
    records += first_levels(metadata.image, fresh=fresh, is_alone=not others)
    if fresh or known is None:
        records.append(registration(parts, ()))
    elif not others and (known.incarnation_id, known.log_dirs) != (
        parts.info.incarnation_id,
        parts.log_dirs.ids,
    ):
        # Nodes that join later find this incarnation registered, with its directories.
        is_replaced = bool(known.log_dirs) and not set(known.log_dirs) & set(parts.log_dirs.ids)
        records.append(registration(parts, known.end_points))
        if is_replaced:
            records += _without_records(parts, apply(metadata.image, records))
    if fresh:
        records += _adopted_topics(parts)
    if is_replaced or not parts.log_dirs.was_clean:
        records += decide_new_epochs(apply(metadata.image, records), parts.info.node_id)
    if fresh:
        records += decide_one_min_isr(apply(metadata.image, records), parts.rules)
    await metadata.propose(records)


def registration(
    parts: BootstrapParts, end_points: tuple[BrokerEndpoint, ...]
) -> RegisterBrokerRecord:
    """Return the registration of a node that is alone, with its addresses."""
    return RegisterBrokerRecord(
        broker_id=parts.info.node_id,
        incarnation_id=parts.info.incarnation_id,
        broker_epoch=parts.quorum.end_offset,
        end_points=end_points,
        rack=parts.info.rack,
        log_dirs=parts.log_dirs.ids,
        features=own_features(),
    )


def _without_records(parts: BootstrapParts, image: Image) -> list[MetadataRecord]:
    """A node that is alone has none of the directories that it was registered with: their disks were replaced
    by empty ones, and the metadata lie elsewhere.

    Partitions that no other node has begin anew. Those that other nodes had a replica of get no leader: the
    copies of a node that joins again would be cut to what is here, which is nothing.
    """
    node = parts.info.node_id
    rules = parts.rules(image)
    emptied = decide_emptied(image, node, rules)
    moved = decide_replaced_directories(apply(image, emptied), node, rules)
    after = apply(image, (*emptied, *moved))
    held = [
        partition
        for topic in after.topics.values()
        for partition in topic.partitions
        if node in partition.replicas
    ]
    led = sum(partition.leader == node for partition in held)
    log.error(
        "none of the log directories that this node was registered with is here: the records of %d "
        "partitions are gone. %d partitions without another replica begin empty; %d wait for a node that has "
        "a replica, and for an unclean election. If the disks are only not mounted, stop the node and mount "
        "them",
        len(held),
        led,
        len(held) - led,
    )
    return [*emptied, *moved]


def _adopted_topics(parts: BootstrapParts) -> list[MetadataRecord]:
    """Return records for partitions on the disk that the metadata do not have."""
    counts: dict[str, int] = {}
    for key in parts.log_dirs.logs:
        # A number that no topic has is no partition; such a directory is set aside.
        if key.topic != METADATA_TOPIC and key.partition < limits.PARTITIONS_PER_REQUEST_MAX:
            counts[key.topic] = max(counts.get(key.topic, 0), key.partition + 1)
    records: list[MetadataRecord] = []
    node = (parts.info.node_id,)
    for topic, count in sorted(counts.items()):
        log.warning("topic=%s: found %d partitions without metadata; adopting them", topic, count)
        logs = [parts.log_dirs.logs.get(TopicPartition(topic, index)) for index in range(count)]
        ids = [one.topic_id for one in logs if one is not None and one.topic_id is not None]
        topic_id = ids[0] if ids else parts.new_id()
        records.append(TopicRecord(name=topic, topic_id=topic_id))
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=node,
                isr=node,
                leader=node[0],
                leader_epoch=max(one.latest_epoch, -1) + 1 if one is not None else 0,
            )
            for index, one in enumerate(logs)
        ]
    return records
