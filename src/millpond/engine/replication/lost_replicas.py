"""Which replicas of this node may be elected although committed records of theirs are not on its disk.

The node names them when it registers, so that the controller has other replicas lead
(``metadata/elections.py``).
"""

from collections.abc import Callable
from uuid import UUID

from millpond.base.ids import NodeId, TopicPartition
from millpond.metadata.image import Image

# Whether committed records of a replica of this topic are not on the disk any more.
HasLost = Callable[[TopicPartition, UUID], bool]


def lost_replicas(image: Image, node: NodeId, has_lost: HasLost) -> tuple[tuple[UUID, int], ...]:
    """Return topic and partition of each replica that is in sync, eligible or a last known leader, and has
    lost committed records.
    """
    lost = []
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            may_be_elected = (
                node in partition.isr
                or node in partition.eligible_leaders
                or node in partition.last_known_leaders
            )
            if may_be_elected and has_lost(TopicPartition(topic.name, index), topic.topic_id):
                lost.append((topic.topic_id, index))
    return tuple(lost)
