"""Groups as lists and descriptions show them: values, made from a group as it is at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from millpond.group.classic import ClassicGroup
from millpond.group.consumer import ConsumerGroup, ConsumerMember
from millpond.group.consumer_records import Holding, Target
from millpond.group.offset_decisions import AnyGroup
from millpond.group.phases import GroupState
from millpond.group.streams import StreamsGroup, StreamsMember
from millpond.group.streams_records import StreamsMemberStored, TaskSet
from millpond.group.topology import InternalTopic


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberDescription:
    """A member of a streams group: what it says of itself, which tasks it has, and shall have."""

    about: StreamsMemberStored
    epoch: int
    assigned: TaskSet
    target: TaskSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtopologyDescription:
    """A part of an application; with partition counts of its internal topics once they are known."""

    subtopology_id: str
    sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescription:
    """A streams group, its application and its members."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    # None if the group's topology was never written.
    topology_epoch: int | None
    subtopologies: tuple[SubtopologyDescription, ...]
    members: tuple[StreamsMemberDescription, ...]


def listing(group: AnyGroup) -> GroupListing:
    return GroupListing(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        kind=_KINDS[type(group)],
    )


_KINDS: Mapping[type[AnyGroup], str] = {
    ClassicGroup: "classic",
    ConsumerGroup: "consumer",
    StreamsGroup: "streams",
}


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


def streams_description(group: StreamsGroup) -> StreamsGroupDescription:
    return StreamsGroupDescription(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology_epoch=None if group.topology is None else group.topology.epoch,
        subtopologies=_subtopologies(group),
        members=tuple(_streams_member(group, member) for member in group.members.values()),
    )


def _subtopologies(group: StreamsGroup) -> tuple[SubtopologyDescription, ...]:
    if group.topology is None:
        return ()
    configured = group.configured
    known = configured.subtopologies if configured is not None and configured.is_ready else None
    parts = known or group.topology.subtopologies
    return tuple(
        SubtopologyDescription(
            subtopology_id=name,
            sources=tuple(sorted(parts[name].sources)),
            repartition_sinks=tuple(sorted(parts[name].repartition_sinks)),
            repartition_sources=_by_name(parts[name].repartition_sources),
            changelogs=_by_name(parts[name].changelogs),
        )
        for name in sorted(parts)
    )


def _by_name(topics: tuple[InternalTopic, ...]) -> tuple[InternalTopic, ...]:
    return tuple(sorted(topics, key=lambda topic: topic.name))


def _streams_member(group: StreamsGroup, member: StreamsMember) -> StreamsMemberDescription:
    return StreamsMemberDescription(
        about=member.about,
        epoch=member.current.epoch,
        assigned=member.current.assigned.undated(),
        target=group.targets.get(member.member_id, TaskSet()),
    )
