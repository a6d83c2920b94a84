"""Where a partition's replicas are to be. On one node there is one place, so only words can be wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.base.errors import (
    InvalidReplicaAssignment,
    MillpondError,
    NoReassignment,
    UnknownTopic,
)
from millpond.base.ids import NodeId
from millpond.metadata.image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition and the nodes that are to keep it; None: where it is, if it is on its way."""

    topic: str
    partition: int
    replicas: Sequence[NodeId] | None


def check_reassignment(image: Image, command: Reassignment) -> MillpondError | None:
    """Why the partition cannot be kept there, or None: then it is there already."""
    topic = image.topics.get(command.topic)
    if topic is None:
        return UnknownTopic(f"Unable to find a topic named {command.topic}.")
    if not 0 <= command.partition < len(topic.partitions):
        return UnknownTopic(f"Unable to find partition {command.topic}:{command.partition}.")
    replicas = command.replicas
    if replicas is None:
        return NoReassignment("No partition reassignment is in progress.")
    if not replicas:
        return InvalidReplicaAssignment(
            "The manual partition assignment includes an empty replica list."
        )
    for position, node in enumerate(replicas):
        if node in replicas[:position]:
            return InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {node} more than once."
            )
        if node not in image.brokers:
            return InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {node}, but no such broker is "
                "registered."
            )
    return None
