"""Partitions that move to other nodes while they are read and written.

A move adds the new replicas to the old ones; when all that are to stay are in sync, those that are to go do,
in one step (``partition_change.py``). Until then it can be cancelled, or changed into another move.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millpond.base.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MillpondError,
    NoReassignment,
    UnknownTopic,
)
from millpond.base.ids import NodeId
from millpond.metadata.elections import Rules
from millpond.metadata.image import Image, PartitionImage, TopicImage
from millpond.metadata.partition_change import PartitionTarget, active_in, partition_change
from millpond.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition and the nodes that are to keep it; None: where it was, if it is on its way."""

    topic: str
    partition: int
    replicas: Sequence[NodeId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentDecision:
    """Facts to write, and for each command what is wrong with it, in the order asked."""

    records: tuple[PartitionChangeRecord, ...]
    errors: tuple[MillpondError | None, ...]


def decide_reassign(
    image: Image,
    commands: Sequence[Reassignment],
    *,
    rules: Rules,
    allow_factor_change: bool = True,
) -> ReassignmentDecision:
    """Set partitions on their way, or back; each alone succeeds or fails."""
    records: list[PartitionChangeRecord] = []
    errors: list[MillpondError | None] = []
    # The second fact about one partition would be decided from a state that the first has ended.
    seen: set[tuple[str, int]] = set()
    for command in commands:
        error: MillpondError | None = None
        try:
            if (command.topic, command.partition) in seen:
                raise InvalidReplicaAssignment(
                    f"{command.topic}:{command.partition} is named more than once in one request."
                )
            seen.add((command.topic, command.partition))
            record = _reassigned(image, command, rules, allow_factor_change)
            if record is not None:
                records.append(record)
        except MillpondError as refused:
            error = refused
        errors.append(error)
    return ReassignmentDecision(records=tuple(records), errors=tuple(errors))


def find_reassignments(
    image: Image, wanted: Iterable[tuple[str, Iterable[int]]] | None
) -> list[tuple[str, int, PartitionImage]]:
    """The partitions that are on their way: all, or those of these that exist."""
    if wanted is None:
        wanted = [(topic.name, range(len(topic.partitions))) for topic in image.topics.values()]
    found = []
    for name, indexes in wanted:
        topic = image.topics.get(name)
        for index in dict.fromkeys(indexes):
            if topic is not None and 0 <= index < len(topic.partitions):
                partition = topic.partitions[index]
                if partition.is_reassigning:
                    found.append((name, index, partition))
    return found


def decide_completions(image: Image, rules: Rules) -> list[PartitionChangeRecord]:
    """End the moves that have nothing left to wait for."""
    available = active_in(image)
    records = []
    for name, index, partition in find_reassignments(image, None):
        topic_id = image.topics[name].topic_id
        change = partition_change(
            topic_id, index, partition, PartitionTarget(), available, min_isr=rules.min_isr(name)
        )
        if change is not None and change.replicas is not None:
            records.append(change)
    return records


def check_replicas(image: Image, replicas: Sequence[NodeId]) -> None:
    """Raise ``InvalidReplicaAssignment`` unless a partition can be kept on these nodes."""
    if not replicas:
        raise InvalidReplicaAssignment(
            "The manual partition assignment includes an empty replica list."
        )
    for node in sorted(replicas):
        if node not in image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {node}, but no such broker is "
                "registered."
            )
        if replicas.count(node) > 1:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {node} more than once."
            )


def _reassigned(
    image: Image, command: Reassignment, rules: Rules, allow_factor_change: bool
) -> PartitionChangeRecord | None:
    topic = image.topics.get(command.topic)
    if topic is None:
        raise UnknownTopic(f"Unable to find a topic named {command.topic}.")
    if not 0 <= command.partition < len(topic.partitions):
        raise UnknownTopic(f"Unable to find partition {command.topic}:{command.partition}.")
    before = topic.partitions[command.partition]
    if command.replicas is None:
        wanted = _cancelled(topic, command.partition, before, rules)
    else:
        check_replicas(image, command.replicas)
        wanted = _moved(before, tuple(command.replicas), allow_factor_change)
    return partition_change(
        topic.topic_id,
        command.partition,
        before,
        wanted,
        active_in(image),
        min_isr=rules.min_isr(topic.name),
    )


def _moved(
    before: PartitionImage, target: tuple[NodeId, ...], allow_factor_change: bool
) -> PartitionTarget:
    factor = len(set(before.replicas) - set(before.removing))
    if not allow_factor_change and len(target) != factor:
        raise InvalidReplicationFactor(
            f"The replication factor is changed from {factor} to {len(target)}"
        )
    removing = tuple(sorted(set(before.replicas) - set(target)))
    # Those that an earlier move has not brought in yet are still new.
    adding = tuple(sorted(set(target) - (set(before.replicas) - set(before.adding))))
    return PartitionTarget(replicas=(*target, *removing), removing=removing, adding=adding)


def _cancelled(
    topic: TopicImage, index: int, before: PartitionImage, rules: Rules
) -> PartitionTarget:
    if not before.is_reassigning:
        raise NoReassignment("No partition reassignment is in progress.")
    stays = tuple(node for node in before.replicas if node not in before.adding)
    isr = tuple(node for node in before.isr if node not in before.adding)
    has_worthy = bool(isr or set(before.eligible_leaders) & set(stays))
    if not has_worthy and not rules.allows_unclean(topic.name):
        raise InvalidReplicaAssignment(
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require "
            "an unclean leader election."
        )
    return PartitionTarget(
        isr=isr if has_worthy or rules.min_isr(topic.name) is not None else stays[:1],
        replicas=stays,
        removing=(),
        adding=(),
        election=rules.online(topic.name),
    )
