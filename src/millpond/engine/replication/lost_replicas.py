"""Which replicas of this node may be elected although committed records of theirs are not on its disk.

The node names them when it registers, so that the controller has other replicas lead
(``metadata/elections.py``).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from millpond.base.ids import NodeId, Offset, TopicPartition
from millpond.metadata.image import Image


class FoundLog(Protocol):
    """A partition's log that was found on the disk."""

    @property
    def topic_id(self) -> UUID | None:
        """None if the log does not say of which topic it is."""


class FoundLogs(Protocol):
    """What was found in the log directories when the node started."""

    @property
    def logs(self) -> Mapping[TopicPartition, FoundLog]: ...

    @property
    def unreadable(self) -> Mapping[TopicPartition, str]:
        """Logs that are there and could not be opened."""

    @property
    def shortened(self) -> Mapping[TopicPartition, Offset]:
        """Logs that end below their high watermark."""

    @property
    def unopened(self) -> Sequence[object]:
        """Directories that could not be opened: what is missing elsewhere may lie there."""


def lost_replicas(image: Image, node: NodeId, found: FoundLogs) -> tuple[tuple[UUID, int], ...]:
    """Topic and partition of each replica that is in sync, eligible or a last known leader, and whose log is
    gone, belongs to an earlier topic of the same name, or ends below its high watermark.
    """
    lost = []
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if (
                node not in partition.isr
                and node not in partition.eligible_leaders
                and node not in partition.last_known_leaders
            ):
                continue
            key = TopicPartition(topic.name, index)
            log = found.logs.get(key)
            if log is not None and log.topic_id in {None, topic.topic_id}:
                is_lost = key in found.shortened
            else:
                is_lost = key not in found.unreadable and not found.unopened
            if is_lost:
                lost.append((topic.topic_id, index))
    return tuple(lost)
