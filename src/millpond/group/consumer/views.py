"""Consumer groups as descriptions show them: values, made from a group as it is at one moment."""

from dataclasses import dataclass
from uuid import UUID

from millpond.group.consumer.image import ConsumerGroupImage, ConsumerMember
from millpond.group.consumer.records import Holding, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    """A member of a consumer group: what it wants, has, and shall have."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    epoch: int
    topics: tuple[str, ...]
    pattern: str | None
    is_classic: bool
    # What it must still give up is part of what it has.
    assigned: Target
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    """A consumer group and its members."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]


def consumer_description(
    group: ConsumerGroupImage, default_assignor: str
) -> ConsumerGroupDescription:
    """Return the group and its members as they are now."""
    return ConsumerGroupDescription(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.assignor or default_assignor,
        members=tuple(_member(group, member) for member in group.members.values()),
    )


def _member(group: ConsumerGroupImage, member: ConsumerMember) -> ConsumerMemberDescription:
    metadata, current = member.metadata, member.current
    return ConsumerMemberDescription(
        member_id=metadata.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        epoch=current.epoch,
        topics=tuple(sorted(metadata.topics)),
        pattern=metadata.pattern,
        is_classic=member.is_classic,
        assigned=_together(current.assigned, current.revoking),
        target=group.targets.get(metadata.member_id, {}),
    )


def _together(*holdings: Holding) -> Target:
    partitions: dict[UUID, set[int]] = {}
    for holding in holdings:
        for topic_id, held in holding.items():
            partitions.setdefault(topic_id, set()).update(held)
    return {topic_id: frozenset(held) for topic_id, held in partitions.items()}
