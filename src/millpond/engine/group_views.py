"""Groups as lists and descriptions show them: values, made from a group as it is at one moment."""

from dataclasses import dataclass
from uuid import UUID

from millpond.group.classic import ClassicGroup, GroupState
from millpond.group.consumer import ConsumerGroup, ConsumerMember
from millpond.group.consumer_records import Holding, Target
from millpond.group.offset_decisions import AnyGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as a list shows it."""

    group_id: str
    state: str
    protocol_type: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member as a description shows it; metadata only of a stable group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A classic group and its members. A group that does not exist is dead."""

    group_id: str
    state: GroupState
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


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


def listing(group: AnyGroup) -> GroupListing:
    return GroupListing(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        kind="consumer" if isinstance(group, ConsumerGroup) else "classic",
    )


def description(group: ClassicGroup) -> GroupDescription:
    stable = group.state is GroupState.STABLE
    return GroupDescription(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if stable else "",
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol) if stable else b"",
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def consumer_description(group: ConsumerGroup, default_assignor: str) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.assignor or default_assignor,
        members=tuple(_member(group, member) for member in group.members.values()),
    )


def _member(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMemberDescription:
    wishes, current = member.wishes, member.current
    return ConsumerMemberDescription(
        member_id=wishes.member_id,
        instance_id=wishes.instance_id,
        rack_id=wishes.rack_id,
        client_id=wishes.client_id,
        client_host=wishes.client_host,
        epoch=current.epoch,
        topics=tuple(sorted(wishes.topics)),
        pattern=wishes.pattern,
        is_classic=member.is_classic,
        assigned=_together(current.assigned, current.revoking),
        target=group.targets.get(wishes.member_id, {}),
    )


def _together(*holdings: Holding) -> Target:
    partitions: dict[UUID, set[int]] = {}
    for holding in holdings:
        for topic_id, held in holding.items():
            partitions.setdefault(topic_id, set()).update(held)
    return {topic_id: frozenset(held) for topic_id, held in partitions.items()}
