"""The members of a share group and their partitions (KIP-932).

Members of a share group do not own partitions: several may be given the same one, and what became of each
record is an ack cursor's business. So nothing here has to be agreed on before it is true: a member that
joins, leaves or falls silent changes the group's epoch, the assignment is made anew at once, and each
member hears of its part with its next heartbeat.

Members are not kept over a restart. They are told that they are unknown, and join again with the same id.

Time is an argument; topics are given with their ids and partition counts. Knows no log and no wire.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from millpond.base.errors import (
    GroupFull,
    GroupNotEmpty,
    InvalidRequest,
    MemberEpochFenced,
    UnknownMember,
)
from millpond.group.messages import NEVER_MS
from millpond.group.topics import TopicShape

JOINING = 0
LEAVING = -1

ASSIGNOR = "simple"

Assignment: TypeAlias = Mapping[UUID, tuple[int, ...]]


FindTopic: TypeAlias = Callable[[str], TopicShape | None]


class ShareState(StrEnum):
    """Kafka's names; a share group that has members is stable at once."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of one group."""

    heartbeat_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    members_max: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A member joins (epoch 0), is alive, or leaves (-1). ``topics`` None: as before."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatAnswer:
    """The member's epoch, and its assignment if that has changed."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(slots=True, kw_only=True)
class ShareMember:
    """One member."""

    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    epoch: int = 0
    previous_epoch: int = 0
    deadline_ms: int = NEVER_MS
    assignment: Assignment = field(default_factory=dict)
    # What the member was last told.
    told: Assignment | None = None


class ShareGroup:
    """One group with its members. The state of its share partitions is kept elsewhere."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}

    @property
    def state(self) -> ShareState:
        return ShareState.STABLE if self.members else ShareState.EMPTY

    @property
    def wake_ms(self) -> int:
        """When the first session ends unless its member is heard of."""
        return min((member.deadline_ms for member in self.members.values()), default=NEVER_MS)

    def heartbeat(
        self, command: ShareHeartbeat, find: FindTopic, settings: ShareSettings, now_ms: int
    ) -> ShareHeartbeatAnswer:
        """Take in a heartbeat. Raises the error that the member is told instead of an answer."""
        check_heartbeat(command)
        if command.epoch == LEAVING:
            self._leave(command.member_id, find)
            return ShareHeartbeatAnswer(member_id=command.member_id, epoch=LEAVING)
        member = self._member(command, settings)
        if self._update(member, command):
            self.reassign(find)
        member.deadline_ms = now_ms + settings.session_timeout_ms
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        # A member that sends its whole subscription is sent its whole assignment.
        is_news = member.told != member.assignment or command.topics is not None
        member.told = member.assignment
        return ShareHeartbeatAnswer(
            member_id=member.member_id,
            epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=member.assignment if is_news else None,
        )

    def expire(self, find: FindTopic, now_ms: int) -> list[str]:
        """Remove members that were silent for too long. Return their ids."""
        silent = [one.member_id for one in self.members.values() if one.deadline_ms <= now_ms]
        for member_id in silent:
            del self.members[member_id]
        if silent:
            self.reassign(find)
        return silent

    def reassign(self, find: FindTopic) -> None:
        """Assign again in a new epoch, because members or topics have changed."""
        self.epoch += 1
        shapes = {
            name: shape
            for name in {name for member in self.members.values() for name in member.topics}
            if (shape := find(name)) is not None
        }
        assigned = assign(
            {member.member_id: member.topics for member in self.members.values()}, shapes
        )
        for member_id, assignment in assigned.items():
            self.members[member_id].assignment = assignment

    def follow(self, find: FindTopic) -> bool:
        """Assign again if a change of topics concerns this group. Return whether it does."""
        subscribed = {name for member in self.members.values() for name in member.topics}
        shapes = {name: shape for name in subscribed if (shape := find(name)) is not None}
        wanted = assign({one.member_id: one.topics for one in self.members.values()}, shapes)
        if all(wanted[one.member_id] == one.assignment for one in self.members.values()):
            return False
        self.reassign(find)
        return True

    def check_empty(self) -> None:
        """Raise ``GroupNotEmpty`` if the group has members."""
        if self.members:
            raise GroupNotEmpty(f"group {self.group_id!r} has members")

    def _member(self, command: ShareHeartbeat, settings: ShareSettings) -> ShareMember:
        member = self.members.get(command.member_id)
        if member is None:
            if command.epoch != JOINING:
                raise UnknownMember(
                    f"member {command.member_id} is not a member of group {command.group_id!r}"
                )
            if len(self.members) >= settings.members_max:
                raise GroupFull(
                    f"group {command.group_id!r} has {len(self.members)} members, and may not have more"
                )
            assert command.topics is not None
            member = ShareMember(
                member_id=command.member_id,
                rack_id=command.rack_id,
                client_id=command.client_id,
                client_host=command.client_host,
                topics=(),
            )
            self.members[member.member_id] = member
        elif command.epoch != JOINING and command.epoch not in {
            member.epoch,
            member.previous_epoch,
        }:
            raise MemberEpochFenced(
                f"member {command.member_id} of group {command.group_id!r} has epoch "
                f"{member.epoch}, not {command.epoch}; it must join again"
            )
        return member

    def _update(self, member: ShareMember, command: ShareHeartbeat) -> bool:
        """Take in what the member says of itself. Return whether the assignment depends on it."""
        if command.rack_id is not None:
            member.rack_id = command.rack_id
        member.client_id, member.client_host = command.client_id, command.client_host
        if command.topics is None or set(command.topics) == set(member.topics):
            return False
        member.topics = tuple(sorted(set(command.topics)))
        return True

    def _leave(self, member_id: str, find: FindTopic) -> None:
        if self.members.pop(member_id, None) is None:
            raise UnknownMember(f"member {member_id} is not a member of group {self.group_id!r}")
        self.reassign(find)


def assign(
    members: Mapping[str, tuple[str, ...]], shapes: Mapping[str, TopicShape]
) -> dict[str, Assignment]:
    """Give every partition a member and, of its topics, every member a partition.

    With fewer members than partitions each partition is given once; with more, members share
    partitions, evenly. Which member begins moves from topic to topic, so that many small topics do not
    all fall to the same few.
    """
    parts: dict[str, dict[UUID, list[int]]] = {member_id: {} for member_id in members}
    turn = 0
    for name in sorted(shapes):
        readers = sorted(member_id for member_id, topics in members.items() if name in topics)
        topic_id, count = shapes[name]
        if not readers or count <= 0:
            continue
        for step in range(max(count, len(readers))):
            member_id = readers[(turn + step) % len(readers)]
            parts[member_id].setdefault(topic_id, []).append(step % count)
        turn += max(count, len(readers))
    return {member_id: _sorted(topics.items()) for member_id, topics in parts.items()}


def _sorted(topics: Iterable[tuple[UUID, list[int]]]) -> Assignment:
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in topics}


def check_heartbeat(command: ShareHeartbeat) -> None:
    """Check what does not depend on the group. Raises ``InvalidRequest``."""
    if not command.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if not command.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if command.epoch < LEAVING:
        raise InvalidRequest("MemberEpoch is invalid.")
    if command.epoch == JOINING and not command.topics:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
