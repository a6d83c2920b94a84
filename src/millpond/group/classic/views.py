"""Classic groups as descriptions show them: values, made from a group as it is at one moment."""

from dataclasses import dataclass

from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.phases import GroupState


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


def description(group: ClassicGroup) -> GroupDescription:
    """Return the group and its members as they are now."""
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
