"""One leader for all partitions of a topic, where a topic is used as a whole."""

from millpond.base.ids import NodeId
from millpond.metadata.image import Image, TopicImage
from millpond.metadata.records import PartitionChangeRecord


def decide_together(image: Image, topic: TopicImage) -> list[PartitionChangeRecord]:
    """Return elections after which one node leads all partitions; none if one does, or none can."""
    leaders = {one.leader for one in topic.partitions}
    if len(leaders) == 1:
        return []

    def may_lead_all(node: NodeId) -> bool:
        return all(image.may_lead(node, one) for one in topic.partitions)

    shared = set.intersection(*(set(one.isr) for one in topic.partitions))
    order = (topic.partitions[0].leader, *topic.partitions[0].replicas)
    host = next((node for node in order if node in shared and may_lead_all(node)), None)
    if host is None:
        return []
    return [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=host)
        for index, one in enumerate(topic.partitions)
        if one.leader != host
    ]
