"""One classic group: its members agree on generations, its leader assigns the work.

The phases are those of ``rebalance``. Only two things are records in the log: a stable generation with its
assignments, and an empty one. Everything else is presence: after a restart the members build it up again
themselves, as in Kafka.

Between the decision to store a generation and ``stored`` or ``store_failed`` the host lets no other command
in. May not know: the log, the wire, other groups, committed offsets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from millpond.base import limits
from millpond.base.errors import (
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberFenced,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.group.classic import subscription
from millpond.group.classic.phases import GroupState
from millpond.group.classic.rebalance import RebalancingGroup
from millpond.group.classic.records import GroupForgotten, GroupStored
from millpond.group.classic.roster import Member
from millpond.group.kind import CLASSIC, GroupContext, RetentionStart
from millpond.group.messages import (
    NEVER_MS,
    NO_MEMBER_ID,
    CommitOffsets,
    ErrorClass,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeavingMember,
    Now,
    Outbox,
    PendOffsets,
    Protocols,
    Sync,
    SyncAnswer,
)

_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE


class _Replacement:
    """A static member that came back under a new id while its group is stable; not yet stored."""

    __slots__ = ("command", "old_member_id", "successor")

    def __init__(self, command: Join, old_member_id: str, successor: Member) -> None:
        self.command = command
        self.old_member_id = old_member_id
        self.successor = successor


class ClassicGroup(RebalancingGroup):
    """The state of one group. All changes happen through the verbs below."""

    __slots__ = ("_replacement",)

    def __init__(self, group_id: str, settings: GroupSettings, *, since_ms: int) -> None:
        super().__init__(group_id, settings, since_ms=since_ms)
        self._replacement: _Replacement | None = None

    # --- restoring --------------------------------------------------------------------------------

    @classmethod
    def restore(cls, record: GroupStored, settings: GroupSettings) -> "ClassicGroup":
        """Return the group that a stored generation describes, before any member has been heard of."""
        group = cls(record.group_id, settings, since_ms=record.state_since_ms)
        group.generation = record.generation
        group.protocol = record.protocol
        group.is_stored = True
        roster = group.roster
        roster.protocol_type = record.protocol_type or None
        for stored in record.members:
            roster.add(Member.restored(stored, record.protocol))
        roster.leader = record.leader
        if roster.members:
            group.state = _STABLE
        group.subscribed_topics = roster.subscribed_topics(group.protocol)
        return group

    def adopt(self, generation: int) -> None:
        """Begin with members that were a consumer group until now and have their assignments from there."""
        self.generation = generation
        self.roster.protocol_type = subscription.PROTOCOL_TYPE
        self.protocol = self.roster.select_protocol()
        self.subscribed_topics = self.roster.subscribed_topics(self.protocol)
        self.state = _STABLE
        self.is_stored = True

    def take_over(self, now: Now, out: Outbox, *, rebalance: bool) -> None:
        """Start the sessions of adopted members once the record is written, and a rebalance if asked to."""
        for member in self.roster:
            self._extend_session(member, now)
        if rebalance:
            self._prepare_rebalance(now, out)

    def resume(self, context: GroupContext) -> None:
        """Give every member one session time-out after a restart to be heard of."""
        for member in self.roster:
            self._extend_session(member, context.now)
        if len(self.members) > self._settings.members_max:
            self._prepare_rebalance(context.now, context.out)

    # --- what the coordinator may ask -------------------------------------------------------------

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == subscription.PROTOCOL_TYPE

    @property
    def is_deserted(self) -> bool:
        """Whether the group has no members and no id is given out to a client that joins."""
        return self.state is _EMPTY and not self._pending_joins

    def may_be_replaced_by(self, kind: str) -> bool:
        """A classic group without members gives way to a group of any other kind."""
        return kind != CLASSIC and not self.members

    def kept_bytes(self) -> int:
        return sum(
            sum(len(metadata) for _name, metadata in member.protocols) + len(member.assignment)
            for member in self.members.values()
        )

    def reads_topic(self, topic: str) -> bool:
        """Whether a member reads this topic. When that cannot be known, assume that consumers do."""
        if self.subscribed_topics is None:
            return self.is_consumer_group
        return topic in self.subscribed_topics

    def check_commit(self, command: CommitOffsets | PendOffsets) -> ErrorClass | None:
        """Return why this client may not commit offsets now."""
        generation, member_id = command.generation, command.member_id
        if isinstance(command, PendOffsets) and (
            generation < 0 and not member_id and command.instance_id is None
        ):
            return None  # before KIP-447 producers did not say for which member they commit
        if generation < 0 and self.state is _EMPTY:
            return None
        if generation < 0 and not member_id and command.instance_id is None:
            return UnknownMember
        if error := self.roster.check(member_id, command.instance_id):
            return error
        if generation != self.generation:
            return IllegalGeneration
        if self.state is _COMPLETING:
            # It knows the generation, so it has joined; but the plan is not out yet.
            return RebalanceInProgress
        return None

    def check_fetch(self, _member_id: str | None, _epoch: int) -> ErrorClass | None:
        """Every client may read a classic group's offsets."""
        return None

    def note_commit(self, member_id: str, now: Now) -> None:
        """Extend the session: a commit counts as a heartbeat."""
        member = self.members.get(member_id)
        if member is not None and self.state in {_STABLE, _PREPARING}:
            self._extend_session(member, now)

    def retention_start(self) -> RetentionStart | None:
        if self.protocol_type is None:
            return super().retention_start()
        if self.state is _EMPTY:
            since_ms = self.state_since_ms
            return super().retention_start() if since_ms < 0 else lambda _committed: since_ms
        if self.state is _STABLE and self.subscribed_topics is not None:
            return super().retention_start()
        return None

    def check_deletable(self) -> ErrorClass | None:
        return None if self.state is _EMPTY else GroupNotEmpty

    def check_offsets_deletable(self) -> ErrorClass | None:
        """Only consumers say which topics they read; groups of other clients must be empty."""
        return None if self.is_consumer_group else self.check_deletable()

    def tombstones(self) -> Iterable[GroupForgotten]:
        return (GroupForgotten(group_id=self.group_id),)

    # --- joining ----------------------------------------------------------------------------------

    def join(self, command: Join, context: GroupContext) -> None:
        """Park the join, or answer it."""
        now, out = context.now, context.out
        error = self._check_join(command)
        if error is GroupFull:
            self._remove(command.member_id, out)
            out.joins.append((command.ticket, JoinAnswer(error=error)))
            self._complete_join_if_ready(now, out)
        elif error is not None:
            answer = JoinAnswer(error=error, member_id=command.member_id)
            out.joins.append((command.ticket, answer))
        elif command.member_id == NO_MEMBER_ID:
            self._join_stranger(command, now, out)
        elif command.member_id in self._pending_joins:
            self._join_add(command, command.member_id, now, out)
        else:
            self._join_again(command, now, out)

    def _check_join(self, command: Join) -> ErrorClass | None:
        if not self._accepts(command.member_id):
            return GroupFull
        if not self._supports(command.protocol_type, command.protocols):
            return InconsistentGroupProtocol
        if command.member_id == NO_MEMBER_ID:
            crowded = len(self._pending_joins) >= limits.GROUP_PENDING_JOINS_MAX
            return GroupFull if crowded else None
        if command.member_id in self._pending_joins:
            # Ids are only handed out to dynamic members.
            return None if command.instance_id is None else UnknownMember
        if error := self.roster.check(command.member_id, command.instance_id):
            return error
        return UnknownMember if self.state is _EMPTY else None

    def _accepts(self, member_id: str) -> bool:
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                # Parked joins are counted, not known members: the limit may have shrunk.
                return (
                    member_id in self._parked.joins
                    or len(self._parked.joins) < self._settings.members_max
                )
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in self.members or len(self.members) < self._settings.members_max
            case GroupState.EMPTY | GroupState.DEAD:
                return True

    def _supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is _EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.roster.supports(protocol_type, protocols)

    def _join_stranger(self, command: Join, now: Now, out: Outbox) -> None:
        if command.instance_id is not None:
            member_id = f"{command.instance_id}-{command.fresh_id}"
            old_member_id = self.roster.static_members.get(command.instance_id)
            if old_member_id is None:
                self._join_add(command, member_id, now, out)
            else:
                self._join_replace(command, member_id, old_member_id, now, out)
            return
        member_id = f"{command.client_id}-{command.fresh_id}"
        if not command.member_id_required:
            self._join_add(command, member_id, now, out)
            return
        due_ms = now.steady_ms + command.session_timeout_ms
        self._pending_joins[member_id] = due_ms
        self._wake_by(due_ms)
        answer = JoinAnswer(error=MemberIdRequired, member_id=member_id)
        out.joins.append((command.ticket, answer))

    def _join_add(self, command: Join, member_id: str, now: Now, out: Outbox) -> None:
        member = Member.joining(command, member_id)
        member.is_new = True
        if self.state is _PREPARING and self._previous_state is _EMPTY:
            self._new_member_added = True
        if not self.roster.members:
            self.roster.protocol_type = command.protocol_type
        self._pending_joins.pop(member_id, None)
        self.roster.add(member)
        self._parked.joins[member_id] = command.ticket
        self._extend_session(member, now, self._settings.new_member_join_timeout_ms)
        self._rebalance_or_complete(now, out)

    def _join_again(self, command: Join, now: Now, out: Outbox) -> None:
        member = self.members[command.member_id]
        unchanged = member.protocols == command.protocols
        leads = command.member_id == self.roster.leader
        if (self.state is _COMPLETING and unchanged) or (
            self.state is _STABLE and unchanged and not leads
        ):
            # The answer to its last join was lost, or it has nothing new to say.
            answer = self._join_answer(command.member_id)
            out.joins.append((command.ticket, answer))
            return
        # In a stable group the leader's join is how it reports that topics or partitions changed.
        self._update(member, command, out)
        self._rebalance_or_complete(now, out)

    def _join_replace(
        self, command: Join, member_id: str, old_member_id: str, now: Now, out: Outbox
    ) -> None:
        successor = self.roster.members[old_member_id].succeeded_by(command, member_id)
        next_protocol = self.roster.select_protocol(instead={old_member_id: command.protocols})
        if self.state is _STABLE and self.protocol == next_protocol:
            # Nothing changes but the id: no rebalance, but the log must know before the member does.
            self._replacement = _Replacement(command, old_member_id, successor)
            out.records.append(self._record_after(self._replacement))
            return
        self._succeed(old_member_id, successor, now, out)
        self._parked.joins[member_id] = command.ticket
        if self.state in {_STABLE, _COMPLETING}:
            # The leader may have planned for the old id: the new one would get nothing.
            self._prepare_rebalance(now, out)
        else:
            self._complete_join_if_ready(now, out)

    def _succeed(self, old_member_id: str, successor: Member, now: Now, out: Outbox) -> None:
        self._parked.refuse(old_member_id, MemberFenced, out, known_as=old_member_id)
        self._pending_syncs.discard(old_member_id)
        self.roster.succeed(old_member_id, successor)
        self._extend_session(successor, now)

    def _update(self, member: Member, command: Join, out: Outbox) -> None:
        self.roster.update(member, command)
        # A second join from the same member replaces the first, whose asker has gone away.
        superseded = JoinAnswer(error=RebalanceInProgress, member_id=member.member_id)
        self._parked.answer_join(member.member_id, superseded, out)
        self._parked.joins[member.member_id] = command.ticket

    # --- syncing ----------------------------------------------------------------------------------

    def sync(self, command: Sync, context: GroupContext) -> None:
        """Answer with the assignment, or park until the leader's plan is stored."""
        out = context.out
        if error := self._check_sync(command):
            out.syncs.append((command.ticket, SyncAnswer(error=error)))
            return
        member = self.members[command.member_id]
        self._pending_syncs.discard(command.member_id)
        if not self._pending_syncs:
            self.sync_due_ms = NEVER_MS
        if self.state is _STABLE:
            out.syncs.append((command.ticket, self._sync_answer(member)))
            return
        assert self.state is _COMPLETING
        superseded = SyncAnswer(error=RebalanceInProgress)
        self._parked.answer_sync(command.member_id, superseded, out)
        self._parked.syncs[command.member_id] = command.ticket
        if command.member_id == self.roster.leader:
            out.records.append(self._record_with(command.assignments, context.now))

    def _check_sync(self, command: Sync) -> ErrorClass | None:
        if error := self.roster.check(command.member_id, command.instance_id):
            return error
        if command.generation != self.generation:
            return IllegalGeneration
        if command.protocol_type is not None and command.protocol_type != self.protocol_type:
            return InconsistentGroupProtocol
        if command.protocol is not None and command.protocol != self.protocol:
            return InconsistentGroupProtocol
        return RebalanceInProgress if self.state is _PREPARING else None

    def _record_with(self, assignments: Mapping[str, bytes], now: Now) -> GroupStored:
        # A member that the leader left out gets an empty assignment.
        members = (
            member.stored(self.protocol, assignments.get(member.member_id, b""))
            for member in self.roster
        )
        return replace(self._record(members), state_since_ms=now.wall_ms)

    def _record_after(self, replacement: _Replacement) -> GroupStored:
        old_member_id, successor = replacement.old_member_id, replacement.successor
        leads = self.roster.leader == old_member_id
        members = (
            successor if member.member_id == old_member_id else member for member in self.roster
        )
        record = self._record(member.stored(self.protocol, member.assignment) for member in members)
        return replace(record, leader=successor.member_id) if leads else record

    # --- the log's answer -------------------------------------------------------------------------

    def stored(self, record: GroupStored, now: Now, out: Outbox) -> None:
        """Apply a record that has been written."""
        assert record.generation == self.generation or not record.members
        self.is_stored = True
        if self._replacement is not None:
            self._stored_replacement(self._replacement, now, out)
        elif record.members and self.state is _COMPLETING:
            for stored in record.members:
                self.members[stored.member_id].assignment = stored.assignment
            self._enter(_STABLE, record.state_since_ms)
            for member in self.roster:
                if self._parked.answer_sync(member.member_id, self._sync_answer(member), out):
                    # Its session may have run out unnoticed while it waited.
                    self._extend_session(member, now)

    def _stored_replacement(self, replacement: _Replacement, now: Now, out: Outbox) -> None:
        self._replacement = None
        command, member_id = replacement.command, replacement.successor.member_id
        leader_before = self.roster.leader
        self._succeed(replacement.old_member_id, replacement.successor, now, out)
        answer = self._join_answer(member_id)
        if not command.may_skip_assignment:
            # An older client that finds itself leader would assign anew; so it is told the old name.
            answer = replace(answer, leader=leader_before or "", members=())
        elif member_id == self.roster.leader:
            answer = replace(answer, skip_assignment=True)
        out.joins.append((command.ticket, answer))

    def store_failed(self, error: ErrorClass, context: GroupContext) -> None:
        """The record is not in the log: no member may be told what it would have said."""
        now, out = context.now, context.out
        if self._replacement is not None:
            ticket = self._replacement.command.ticket
            self._replacement = None
            out.joins.append((ticket, JoinAnswer(error=error)))
        elif not self.is_stored:
            for member_id in list(self._parked.joins):
                self._parked.answer_join(member_id, JoinAnswer(error=error), out)
        elif self.state is _COMPLETING:
            self._reset_assignments(error, now, out)
            self._prepare_rebalance(now, out)
        # An empty generation that was not written does no harm: it has no members.

    def disband(self, error: ErrorClass, out: Outbox) -> None:
        """Answer every parked request with an error; the group decides nothing any more."""
        self._parked.refuse_all(error, out)

    # --- living and leaving -----------------------------------------------------------------------

    def heartbeat(self, command: Heartbeat, context: GroupContext) -> ErrorClass | None:
        """Extend the member's session. Return whether it has to join again."""
        if error := self.roster.check(command.member_id, command.instance_id):
            return error
        if command.generation != self.generation:
            return IllegalGeneration
        self._extend_session(self.members[command.member_id], context.now)
        return RebalanceInProgress if self.state is _PREPARING else None

    def leave(self, command: Leave, context: GroupContext) -> tuple[ErrorClass | None, ...]:
        """Remove these members now; one rebalance for all of them."""
        now, out = context.now, context.out
        results = tuple(self._leave_one(identity, out) for identity in command.members)
        if any(error is None for error in results):
            if self.state in {_STABLE, _COMPLETING}:
                self._prepare_rebalance(now, out)
            else:
                self._complete_join_if_ready(now, out)
        return results

    def _leave_one(self, identity: LeavingMember, out: Outbox) -> ErrorClass | None:
        member_id = identity.member_id
        if member_id == NO_MEMBER_ID:
            # An administrator removes a static member by its instance id alone.
            if identity.instance_id not in self.roster.static_members:
                return UnknownMember
            member_id = self.roster.static_members[identity.instance_id]
        elif member_id not in self._pending_joins and (
            error := self.roster.check(member_id, identity.instance_id)
        ):
            return error
        self._remove(member_id, out)
        return None
