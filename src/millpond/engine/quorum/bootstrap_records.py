"""What a node that is alone writes into the metadata at its start: who it is, and what lies here already."""

import logging
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.ids import TopicPartition
from millpond.metadata.controller import METADATA_TOPIC, decide_new_epochs
from millpond.metadata.elections import decide_one_min_isr
from millpond.metadata.features import first_levels, own_features
from millpond.metadata.image import apply
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
    others = metadata.image.brokers.keys() - {engine.node.node_id}
    records += first_levels(metadata.image, fresh=fresh, is_alone=not others)
    if fresh or engine.node.node_id not in metadata.image.brokers:
        records.append(registration(engine, ()))
    if fresh:
        records += _adopted_topics(engine)
    if not engine.log_dirs.was_clean:
        records += decide_new_epochs(metadata.image, engine.node.node_id)
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
