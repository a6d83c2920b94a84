"""What a node that is alone writes into the metadata at its start: who it is, and what lies here already."""

import logging
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.ids import TopicPartition
from millpond.metadata.controller import METADATA_TOPIC, decide_new_epochs
from millpond.metadata.directories import decide_replaced_directories
from millpond.metadata.elections import decide_emptied, decide_one_min_isr
from millpond.metadata.features import first_levels, own_features
from millpond.metadata.image import Image, apply
from millpond.metadata.records import (
    BrokerEndpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)


async def write_first_facts(engine: "Engine", *, fresh: bool) -> None:
    """What each start adds: the format at the very first, the node, epochs after an unclean stop."""
    metadata = engine.quorum
    records: list[MetadataRecord] = []
    known = metadata.image.brokers.get(engine.node.node_id)
    others = metadata.image.brokers.keys() - {engine.node.node_id}
    is_replaced = False
    records += first_levels(metadata.image, fresh=fresh, is_alone=not others)
    if fresh or known is None:
        records.append(registration(engine, ()))
    elif not others and (known.incarnation_id, known.log_dirs) != (
        engine.incarnation_id,
        engine.log_dirs.ids,
    ):
        # Nodes that join later find this life of the node registered, with the directories that it has.
        is_replaced = bool(known.log_dirs) and not set(known.log_dirs) & set(engine.log_dirs.ids)
        records.append(registration(engine, known.end_points))
        if is_replaced:
            records += _without_records(engine, apply(metadata.image, records))
    if fresh:
        records += _adopted_topics(engine)
    if is_replaced or not engine.log_dirs.was_clean:
        records += decide_new_epochs(apply(metadata.image, records), engine.node.node_id)
    if fresh:
        records += decide_one_min_isr(apply(metadata.image, records), engine.rules)
    await metadata.propose(records)


def registration(engine: "Engine", end_points: tuple[BrokerEndpoint, ...]) -> RegisterBrokerRecord:
    """How a node that is alone says where it is reached."""
    return RegisterBrokerRecord(
        broker_id=engine.node.node_id,
        incarnation_id=engine.incarnation_id,
        broker_epoch=engine.quorum.end_offset,
        end_points=end_points,
        rack=engine.node.rack,
        log_dirs=engine.log_dirs.ids,
        features=own_features(),
    )


def _without_records(engine: "Engine", image: Image) -> list[MetadataRecord]:
    """A node that is alone has none of the directories that it was registered with: their disks were replaced
    by empty ones, and the metadata lie elsewhere.

    Partitions that no other node has begin anew. Those that other nodes had a replica of get no leader: the
    copies of a node that joins again would be cut to what is here, which is nothing.
    """
    node = engine.node.node_id
    rules = engine.rules(image)
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


def _adopted_topics(engine: "Engine") -> list[MetadataRecord]:
    """Partitions that lie here without any metadata: data of a broker whose metadata was elsewhere."""
    counts: dict[str, int] = {}
    for key in engine.log_dirs.logs:
        # A number that no topic has is no partition; such a directory is set aside.
        if key.topic != METADATA_TOPIC and key.partition < limits.PARTITIONS_PER_REQUEST_MAX:
            counts[key.topic] = max(counts.get(key.topic, 0), key.partition + 1)
    records: list[MetadataRecord] = []
    node = (engine.node.node_id,)
    for topic, count in sorted(counts.items()):
        log.warning("topic=%s: found %d partitions without metadata; adopting them", topic, count)
        logs = [engine.log_dirs.logs.get(TopicPartition(topic, index)) for index in range(count)]
        ids = [one.topic_id for one in logs if one is not None and one.topic_id is not None]
        topic_id = ids[0] if ids else engine.rng.uuid4()
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
