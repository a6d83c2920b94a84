"""What clients ask of the groups that this node coordinates: membership, offsets, descriptions.

Each call is one command to the state machine of the group (``group_host.py``). Joins and syncs may be
answered much later: they give a callback and get a ticket, which is withdrawn when the client goes away.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from millpond.base import limits
from millpond.base.errors import (
    CoordinatorNotAvailable,
    GroupNotFound,
    InconsistentGroupProtocol,
    UnknownMember,
    UnsupportedVersion,
)
from millpond.base.ids import NodeId
from millpond.engine.coordinators.durable import Durable
from millpond.engine.coordinators.group_host import GroupHost
from millpond.engine.coordinators.internal_topics import InternalTopics
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.phases import GroupState
from millpond.group.classic.views import GroupDescription, MemberDescription, description
from millpond.group.consumer.group import ConsumerGroup
from millpond.group.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
)
from millpond.group.consumer.views import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    consumer_description,
)
from millpond.group.kind import Group
from millpond.group.memory import MemberMemory, bytes_held
from millpond.group.messages import (
    Command,
    CommitOffsets,
    DeleteGroup,
    ErrorClass,
    ForgetOffsets,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    LeavingMember,
    Outbox,
    PendOffsets,
    Sync,
    SyncAnswer,
    Ticket,
)
from millpond.group.records import (
    CommittedOffset,
)
from millpond.group.streams.group import StreamsGroup
from millpond.group.streams.messages import StreamsHeartbeat, StreamsHeartbeatAnswer
from millpond.group.streams.views import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    streams_description,
)
from millpond.group.views import GroupListing, listings
from millpond.metadata.features import GROUP_VERSION, STREAMS_VERSION

__all__ = [
    "CommitOffsets",
    "CommittedOffset",
    "ConsumerGroupDescription",
    "ConsumerHeartbeat",
    "ConsumerHeartbeatAnswer",
    "ConsumerMemberDescription",
    "ErrorClass",
    "ForgetOffsets",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "Groups",
    "Heartbeat",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "Leave",
    "LeavingMember",
    "MemberDescription",
    "PendOffsets",
    "StreamsGroupDescription",
    "StreamsHeartbeat",
    "StreamsHeartbeatAnswer",
    "StreamsMemberDescription",
    "Sync",
    "SyncAnswer",
]

log = logging.getLogger(__name__)


class Groups:
    """The groups this node coordinates: those of the partitions of ``__consumer_offsets`` it leads."""

    def __init__(
        self,
        services: CoordinatorServices,
        *,
        has_share_group: Callable[[str], bool],
        drop_share_groups: Callable[[int, int], None],
    ) -> None:
        """``has_share_group`` tells whether a share group has this id: ids are unique among all kinds of
        groups. ``drop_share_groups`` forgets those of one partition of how many, when it is led elsewhere.
        """
        self._services = services
        self._has_share_group = has_share_group
        self._host = GroupHost(services, drop_share_groups)
        self._internal_topics = InternalTopics(services)
        self._memory = MemberMemory(lambda: bytes_held(self._host.groups()))

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Load the groups and begin to watch their deadlines. The node's topics are loaded."""
        self._host.start()

    def stop(self) -> None:
        """Refuse every parked request, so that its client finds another coordinator or retries later."""
        self._host.stop()

    @property
    def is_ready(self) -> bool:
        """Whether ``__consumer_offsets`` exists; ``prepare`` creates it."""
        return self._host.shards.is_ready

    async def prepare(self) -> None:
        """Create ``__consumer_offsets`` if it does not exist yet."""
        await self._host.shards.prepare()

    # --- where a group is -------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` of a group.

        Raises ``NotCoordinator`` before the topic is created.
        """
        return self._host.shards.index_of(group_id)

    def coordinator_of(self, group_id: str) -> NodeId:
        """Return the node that coordinates a group; -1 if there is none now."""
        return self._host.shards.leader(group_id)

    def check_coordinates(self, group_id: str) -> None:
        """Raises ``NotCoordinator`` or ``CoordinatorLoadInProgress`` unless this node coordinates a group."""
        self._host.shards.get(group_id)

    def settled(self, group_id: str) -> Durable:
        """Return when the present state of a group is committed; None if it is."""
        return self._host.shards.settled(self._host.shards.get(group_id))

    # --- membership -------------------------------------------------------------------------------

    def join(self, command: Join, done: Callable[[JoinAnswer], None]) -> Ticket:
        """Take part in the next generation; ``done`` is called once, perhaps before this returns.

        The command's ticket and fresh id are given here.
        """
        ticket = self._host.parked.issue(done)
        command = replace(command, ticket=ticket)
        if self._has_share_group(command.group_id):
            # As in Kafka, without the member's id.
            refused = Outbox(joins=[(ticket, JoinAnswer(error=InconsistentGroupProtocol))])
            self._host.parked.answer(refused)
        elif not self._has_room(command):
            self._host.parked.refuse(command, CoordinatorNotAvailable)
        else:
            fresh_id = str(self._services.runtime.rng.uuid4())
            self._host.perform_parked(replace(command, fresh_id=fresh_id))
        return ticket

    def sync(self, command: Sync, done: Callable[[SyncAnswer], None]) -> Ticket:
        """Ask for an assignment; ``done`` is called once, perhaps before this returns."""
        ticket = self._host.parked.issue(done)
        command = replace(command, ticket=ticket)
        if not self._has_room(command):
            self._host.parked.refuse(command, CoordinatorNotAvailable)
        else:
            self._host.perform_parked(command)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Forget a parked request. The member stays until its session ends."""
        self._host.parked.withdraw(ticket)

    def heartbeat(self, command: Heartbeat) -> tuple[ErrorClass | None, Durable]:
        """Extend a session; return the member's error, if any, and when the answer is durable."""
        if self._has_share_group(command.group_id):
            return UnknownMember, None
        return self._host.perform(command)

    def leave(self, command: Leave) -> tuple[tuple[ErrorClass | None, ...], Durable]:
        """Remove members; return an error or None for each, and when that is durable."""
        return self._host.perform(command)

    def consumer_heartbeat(
        self, command: ConsumerHeartbeat
    ) -> tuple[ConsumerHeartbeatAnswer, Durable]:
        """A member of a consumer group joins, is alive or leaves: its answer, and when that is durable.

        Raises the error for the member. The command's fresh id is given here.
        """
        if not self._services.metadata.image.features.get(GROUP_VERSION):
            raise UnsupportedVersion("consumer groups are off: group.version is 0")
        self._refuse_share_group(command.group_id)
        if not self._has_room(command):
            raise CoordinatorNotAvailable("members of all groups hold as much as they may")
        fresh_id = str(self._services.runtime.rng.uuid4()) if not command.member_id else ""
        return self._host.perform(replace(command, fresh_id=fresh_id))

    def streams_heartbeat(
        self, command: StreamsHeartbeat
    ) -> tuple[StreamsHeartbeatAnswer, Durable]:
        """A member of a streams group joins, is alive or leaves; as ``consumer_heartbeat``.

        Missing internal topics are created meanwhile.
        """
        if not self._services.metadata.image.features.get(STREAMS_VERSION):
            raise UnsupportedVersion("streams groups are off: streams.version is 0")
        if self._has_share_group(command.group_id):
            raise GroupNotFound(f"Group {command.group_id} is not a streams group.")
        answer, durable = self._host.perform(command)
        return self._internal_topics.see_to(answer), durable

    def _has_room(self, command: Command[Any]) -> bool:
        """Whether groups may keep the bytes that this command carries; a refused client retries."""
        memory = self._memory
        has_room = memory.admits(command, self._services.runtime.clock.monotonic_ms())
        # One line for each doubling.
        if not has_room and memory.refused & (memory.refused - 1) == 0:
            log.warning(
                "group=%s: refused because members of all groups hold up to %d bytes of metadata and "
                "assignments; %d requests so far; end consumers that bring very much",
                command.group_id,
                limits.GROUP_MEMBER_BYTES_MAX,
                memory.refused,
            )
        return has_room

    # --- offsets ----------------------------------------------------------------------------------

    def commit(self, command: CommitOffsets) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Commit offsets; return an error for each that is refused, and when the rest is durable.

        Raises a ``MillpondError`` if nothing was done.
        """
        self._refuse_share_group(command.group_id)
        return self._host.perform(command)

    def commit_in_transaction(
        self, command: PendOffsets
    ) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Store offsets that count when the producer's transaction commits; as ``commit``.

        The transaction has been asked and has the partition of ``partition_of`` in it.
        """
        return self._host.perform(command)

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """Apply a producer's marker that was written to this partition of ``__consumer_offsets``.

        A shard that is being loaded reads it from the log.
        """
        coordinator = self._host.shards.state_at(partition)
        if coordinator is not None:
            coordinator.end_transaction(producer_id, committed=committed)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset of this partition."""
        return self._host.coordinator(group_id).offsets.is_pending(group_id, topic, partition)

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return offsets by topic and partition; none if there is no such group."""
        return self._host.coordinator(group_id).committed(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorClass | None:
        """Return why this member, or a client without a member id, may not read the group's offsets now."""
        return self._host.coordinator(group_id).check_fetch(group_id, member_id, epoch)

    def forget_offsets(self, command: ForgetOffsets) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Delete offsets; as ``commit``."""
        return self._host.perform(command)

    # --- describing and deleting ------------------------------------------------------------------

    def list(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Iterator[GroupListing]:
        """List all groups, or those in one of these states and of one of these types, in any case."""
        self._host.shards.check_running()
        return listings(self._host.groups(), states, types)

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a classic group. A group of another kind is described as dead."""
        group = self._group(group_id)
        if not isinstance(group, ClassicGroup):
            return GroupDescription(group_id=group_id, state=GroupState.DEAD)
        return description(group)

    def describe_consumers(self, group_id: str) -> ConsumerGroupDescription:
        """Describe a consumer group. Raises ``GroupNotFound``, also for a group of another kind."""
        group = self._group(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            raise GroupNotFound(f"Group {group_id} {reason}.")
        return consumer_description(
            group, self._host.read_settings(ConsumerSettings, group_id).assignors[0]
        )

    def describe_streams(self, group_id: str) -> StreamsGroupDescription:
        """Describe a streams group. Raises ``GroupNotFound``, also for a group of another kind."""
        group = self._group(group_id)
        if not isinstance(group, StreamsGroup):
            known = group is not None or self._has_share_group(group_id)
            reason = "is not a streams group" if known else "not found"
            raise GroupNotFound(f"Group {group_id} {reason}.")
        return streams_description(group)

    def has_group(self, group_id: str) -> bool:
        """Whether this node coordinates a group of this name."""
        return self._host.find(group_id) is not None

    def delete(self, group_id: str) -> Durable:
        """Delete an empty group. Raises ``GroupNotFound``, ``GroupNotEmpty`` or why it failed."""
        return self._host.perform(DeleteGroup(group_id=group_id))[1]

    def _group(self, group_id: str) -> Group | None:
        return self._host.coordinator(group_id).groups.get(group_id)

    def _refuse_share_group(self, group_id: str) -> None:
        if self._has_share_group(group_id):
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")
