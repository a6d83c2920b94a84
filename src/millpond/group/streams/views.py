"""Streams groups as descriptions show them: values, made from a group as it is at one moment."""

from dataclasses import dataclass

from millpond.group.streams.image import StreamsGroupImage, StreamsMember
from millpond.group.streams.records import StreamsMemberStored, TaskSet
from millpond.group.streams.topology import InternalTopic


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


def streams_description(group: StreamsGroupImage) -> StreamsGroupDescription:
    """Return the group, its application and its members as they are now."""
    return StreamsGroupDescription(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology_epoch=None if group.topology is None else group.topology.epoch,
        subtopologies=_subtopologies(group),
        members=tuple(_streams_member(group, member) for member in group.members.values()),
    )


def _subtopologies(group: StreamsGroupImage) -> tuple[SubtopologyDescription, ...]:
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


def _streams_member(group: StreamsGroupImage, member: StreamsMember) -> StreamsMemberDescription:
    return StreamsMemberDescription(
        about=member.about,
        epoch=member.current.epoch,
        assigned=member.current.assigned.undated(),
        target=group.targets.get(member.member_id, TaskSet()),
    )
