"""One classic group: its members agree on generations, its leader assigns the work.

    Empty ──join──▶ PreparingRebalance ──all joined or time is up──▶ CompletingRebalance
      ▲                 ▲     │                                            │
      │                 │     └─ nobody is left ─▶ Empty                   │ the leader's plan is stored
      │                 └── member joins, leaves, expires, changes ◀── Stable

A join waits until everyone has joined (or the rebalance time-out removes those who have not), a sync
waits until the leader's plan is in the log. Only two things are facts for the log: a stable generation
with its assignments, and an empty one. Everything else here is presence: it is rebuilt by the members
themselves after a restart, as in Kafka.

Rules: time comes in as ``Now``; parked requests are tickets; what must be stored or answered goes into
an ``Outbox``. Between the decision to store a generation and ``stored`` or ``store_failed`` the host
lets nothing else in. May not know: the log, the wire, other groups, committed offsets.
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
from millpond.group import subscription
from millpond.group.messages import (
    NO_MEMBER_ID,
    CommitOffsets,
    ErrorClass,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    LeavingMember,
    Now,
    Outbox,
    PendOffsets,
    Protocols,
    Sync,
    SyncAnswer,
)
from millpond.group.parked import Parked
from millpond.group.phases import TRANSITIONS, GroupState
from millpond.group.records import GroupStored, StoredMember
from millpond.group.roster import NEVER_MS, Member, Roster

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


class ClassicGroup:
    """The state of one group. All changes happen through the verbs below."""

    __slots__ = (
        "_initial_remaining_ms",
        "_new_member_added",
        "_parked",
        "_pending_joins",
        "_pending_syncs",
        "_previous_state",
        "_replacement",
        "_settings",
        "generation",
        "group_id",
        "is_stored",
        "join_due_ms",
        "protocol",
        "roster",
        "state",
        "state_since_ms",
        "subscribed_topics",
        "sync_due_ms",
        "wake_ms",
    )

    def __init__(self, group_id: str, settings: GroupSettings, *, since_ms: int) -> None:
        self.group_id = group_id
        self._settings = settings
        self.state = _EMPTY
        self._previous_state = GroupState.DEAD
        self.state_since_ms = since_ms
        self.generation = 0
        self.roster = Roster()
        self.protocol: str | None = None
        # What the members read, if that can be known: None when it cannot.
        self.subscribed_topics: frozenset[str] | None = None
        self.is_stored = False
        self._parked = Parked()
        # Ids given out but not yet used, with the time until which they may be.
        self._pending_joins: dict[str, int] = {}
        # Members of this generation that have not asked for their assignment.
        self._pending_syncs: set[str] = set()
        self._new_member_added = False
        self._replacement: _Replacement | None = None
        self.join_due_ms = NEVER_MS
        # During a group's first rebalance: how much longer late joiners may delay it. Else None.
        self._initial_remaining_ms: int | None = None
        self.sync_due_ms = NEVER_MS
        # Nothing is due before this; sessions that were extended make it early, never late.
        self.wake_ms = NEVER_MS

    # --- restoring --------------------------------------------------------------------------------

    @classmethod
    def restore(cls, record: GroupStored, settings: GroupSettings) -> "ClassicGroup":
        """The group that a stored generation describes, before anyone has spoken."""
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
        """Its members were a consumer group until now and have their assignments from there."""
        self.generation = generation
        self.roster.protocol_type = subscription.PROTOCOL_TYPE
        self.protocol = self.roster.select_protocol()
        self.subscribed_topics = self.roster.subscribed_topics(self.protocol)
        self.state = _STABLE
        self.is_stored = True

    def take_over(self, now: Now, out: Outbox, *, rebalance: bool) -> None:
        """What ``adopt`` says is in the log: members must be heard of and, perhaps, join again."""
        for member in self.roster:
            self._extend_session(member, now)
        if rebalance:
            self._prepare_rebalance(now, out)

    def resume(self, now: Now, out: Outbox) -> None:
        """After a restart every member has one session time-out to be heard of."""
        for member in self.roster:
            self._extend_session(member, now)
        if len(self.members) > self._settings.members_max:
            self._prepare_rebalance(now, out)

    def record(self) -> GroupStored:
        """What the log shall say of this generation."""
        return self._record(
            member.stored(self.protocol, member.assignment) for member in self.roster
        )

    def _record(self, members: Iterable[StoredMember]) -> GroupStored:
        return GroupStored(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.roster.leader,
            state_since_ms=self.state_since_ms,
            members=tuple(members),
        )

    # --- what others may ask ----------------------------------------------------------------------

    @property
    def members(self) -> Mapping[str, Member]:
        """By id, in the order in which they came."""
        return self.roster.members

    @property
    def protocol_type(self) -> str | None:
        """ "consumer" for consumers; None for offsets without members."""
        return self.roster.protocol_type

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == subscription.PROTOCOL_TYPE

    @property
    def is_deserted(self) -> bool:
        """Nobody is here and nobody was invited."""
        return self.state is _EMPTY and not self._pending_joins

    def reads_topic(self, topic: str) -> bool:
        """Does a member read this topic? When that cannot be known, assume that consumers do."""
        if self.subscribed_topics is None:
            return self.is_consumer_group
        return topic in self.subscribed_topics

    def check_commit(self, command: CommitOffsets | PendOffsets) -> ErrorClass | None:
        """May this member, or this stranger, commit offsets now?"""
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
        """Anyone may read a classic group's offsets."""
        return None

    def note_commit(self, member_id: str, now: Now) -> None:
        """A commit is as good as a heartbeat."""
        member = self.members.get(member_id)
        if member is not None and self.state in {_STABLE, _PREPARING}:
            self._extend_session(member, now)

    def check_deletable(self) -> ErrorClass | None:
        return None if self.state is _EMPTY else GroupNotEmpty

    def check_offsets_deletable(self) -> ErrorClass | None:
        """Who reads what is only known of consumers; of others nobody may be there."""
        return None if self.is_consumer_group else self.check_deletable()

    # --- joining ----------------------------------------------------------------------------------

    def join(self, command: Join, now: Now, out: Outbox) -> None:
        """Park the join, or answer it."""
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
                # Those who wait are counted, not those who are known: the limit may have shrunk.
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

    def sync(self, command: Sync, now: Now, out: Outbox) -> None:
        """Answer with the assignment, or park until the leader's plan is stored."""
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
            out.records.append(self._record_with(command.assignments, now))

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
        # Whom the leader forgot gets nothing to do.
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
        """The record is in the log: what it says is now so."""
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

    def store_failed(self, error: ErrorClass, now: Now, out: Outbox) -> None:
        """The record is not in the log: nobody may act on what it would have said."""
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
        # An empty generation that was not written harms nobody: it has no members.

    def disband(self, error: ErrorClass, out: Outbox) -> None:
        """The coordinator goes away: whoever waits is told. Nothing is decided here any more."""
        self._parked.refuse_all(error, out)

    # --- living and leaving -----------------------------------------------------------------------

    def heartbeat(self, command: Heartbeat, now: Now) -> ErrorClass | None:
        """Extend the member's session; say if it has to join again."""
        if error := self.roster.check(command.member_id, command.instance_id):
            return error
        if command.generation != self.generation:
            return IllegalGeneration
        self._extend_session(self.members[command.member_id], now)
        return RebalanceInProgress if self.state is _PREPARING else None

    def leave(
        self, leaving: Iterable[LeavingMember], now: Now, out: Outbox
    ) -> tuple[ErrorClass | None, ...]:
        """Remove these members now; one rebalance for all of them."""
        results = tuple(self._leave_one(identity, out) for identity in leaving)
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

    # --- time -------------------------------------------------------------------------------------

    def expire(self, now: Now, out: Outbox) -> None:
        """Act on every deadline that has passed, in the order in which they passed."""
        while (due := self._earliest_due()) is not None and due[0] <= now.steady_ms:
            due_ms, member_id = due
            if member_id is not None:
                self._expire_member(member_id, now, out)
            elif due_ms == self.join_due_ms:
                self._expire_join_phase(now, out)
            else:
                self._expire_sync_phase(now, out)
        self.wake_ms = NEVER_MS if due is None else due[0]

    def _earliest_due(self) -> tuple[int, str | None] | None:
        earliest: tuple[int, str | None] = (min(self.join_due_ms, self.sync_due_ms), None)
        for member_id, due_ms in self._pending_joins.items():
            if due_ms < earliest[0]:
                earliest = (due_ms, member_id)
        for member_id, member in self.members.items():
            if member.session_due_ms < earliest[0]:
                earliest = (member.session_due_ms, member_id)
        return None if earliest[0] == NEVER_MS else earliest

    def _expire_member(self, member_id: str, now: Now, out: Outbox) -> None:
        member = self.members.get(member_id)
        if member is None:
            self._remove(member_id, out)
        elif not member.is_new and member_id in self._parked:
            # Who waits for us owes us no heartbeat; the answer will start a new session.
            member.session_due_ms = NEVER_MS
            return
        else:
            self._remove(member_id, out)
            if self.state in {_STABLE, _COMPLETING}:
                self._prepare_rebalance(now, out)
                return
        if self.state is _PREPARING and self._all_joined():
            self._complete_join(now, out)

    def _expire_join_phase(self, now: Now, out: Outbox) -> None:
        remaining_ms = self._initial_remaining_ms
        if remaining_ms is not None and self._new_member_added and remaining_ms > 0:
            # More members keep coming to a new group: give them a little longer.
            self._new_member_added = False
            delay_ms = self._settings.initial_rebalance_delay_ms
            next_ms = min(delay_ms, remaining_ms)
            self._initial_remaining_ms = remaining_ms - next_ms
            self._set_join_due(now.steady_ms + next_ms)
            return
        self._complete_join(now, out)

    def _expire_sync_phase(self, now: Now, out: Outbox) -> None:
        self.sync_due_ms = NEVER_MS
        assert self.state in {_COMPLETING, _STABLE}
        late = [member_id for member_id in self.members if member_id in self._pending_syncs]
        assert late
        for member_id in late:
            self._remove(member_id, out)
        self._prepare_rebalance(now, out)

    # --- the rebalance itself ---------------------------------------------------------------------

    def _rebalance_or_complete(self, now: Now, out: Outbox) -> None:
        if self.state is _PREPARING:
            self._complete_join_if_ready(now, out)
        else:
            self._prepare_rebalance(now, out)

    def _prepare_rebalance(self, now: Now, out: Outbox) -> None:
        if self.state is _COMPLETING:
            self._reset_assignments(RebalanceInProgress, now, out)
        self._pending_syncs.clear()
        self.sync_due_ms = NEVER_MS
        initial = self.state is _EMPTY
        self._enter(_PREPARING, now.wall_ms)
        if not initial:
            self._initial_remaining_ms = None
            if self._all_joined():
                self._complete_join(now, out)
            else:
                self._set_join_due(now.steady_ms + self.roster.rebalance_timeout_ms())
            return
        delay_ms = self._settings.initial_rebalance_delay_ms
        if delay_ms == 0:
            self._complete_join(now, out)
            return
        self._new_member_added = False
        self._initial_remaining_ms = max(self.roster.rebalance_timeout_ms() - delay_ms, 0)
        self._set_join_due(now.steady_ms + delay_ms)

    def _complete_join_if_ready(self, now: Now, out: Outbox) -> None:
        # A first rebalance waits for its delay even if all who are known have joined.
        if self.state is _PREPARING and self._previous_state is not _EMPTY and self._all_joined():
            self._complete_join(now, out)

    def _complete_join(self, now: Now, out: Outbox) -> None:
        assert self.state is _PREPARING
        self.join_due_ms = NEVER_MS
        self._initial_remaining_ms = None
        for member in list(self.roster):
            # Static members are given until their session ends.
            if member.member_id not in self._parked.joins and member.instance_id is None:
                self._remove(member.member_id, out)
        if self.roster.members and not self.roster.elect_leader(self._parked.joins):
            # Only absent static members are left. Wait for them, or for their sessions to end.
            wait_ms = max(self.roster.rebalance_timeout_ms(), limits.GROUP_ABSENT_WAIT_MS_MIN)
            self._set_join_due(now.steady_ms + wait_ms)
            return
        self.generation += 1
        self._pending_syncs.clear()
        if not self.members:
            self.protocol = None
            self._enter(_EMPTY, now.wall_ms)
            self.subscribed_topics = self.roster.subscribed_topics(self.protocol)
            out.records.append(self.record())
            return
        self.protocol = self.roster.select_protocol()
        self._enter(_COMPLETING, now.wall_ms)
        self.subscribed_topics = self.roster.subscribed_topics(self.protocol)
        for member in self.roster:
            self._parked.answer_join(member.member_id, self._join_answer(member.member_id), out)
            member.is_new = False
            self._extend_session(member, now)
            self._pending_syncs.add(member.member_id)
        self.sync_due_ms = now.steady_ms + self.roster.rebalance_timeout_ms()
        self._wake_by(self.sync_due_ms)

    def _reset_assignments(self, error: ErrorClass, now: Now, out: Outbox) -> None:
        for member in self.roster:
            member.assignment = b""
            if self._parked.answer_sync(member.member_id, SyncAnswer(error=error), out):
                # It waited without heartbeats; it needs the time to join again.
                self._extend_session(member, now)

    # --- small parts ------------------------------------------------------------------------------

    def _remove(self, member_id: str, out: Outbox) -> None:
        """Take the member out; what it waits for ends with an error."""
        self._pending_joins.pop(member_id, None)
        self._pending_syncs.discard(member_id)
        if self.roster.remove(member_id) is not None:
            self._parked.refuse(member_id, UnknownMember, out)

    def _all_joined(self) -> bool:
        return len(self._parked.joins) == len(self.members) and not self._pending_joins

    def _join_answer(self, member_id: str) -> JoinAnswer:
        leader = self.roster.leader or ""
        return JoinAnswer(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=leader,
            members=self.roster.joined(self.protocol) if member_id == leader else (),
        )

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    def _enter(self, state: GroupState, since_ms: int) -> None:
        assert self.state in TRANSITIONS[state], f"{self.state} -> {state}"
        self._previous_state = self.state
        self.state = state
        self.state_since_ms = since_ms

    def _extend_session(self, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_due_ms = now.steady_ms + timeout_ms
        self._wake_by(member.session_due_ms)

    def _set_join_due(self, due_ms: int) -> None:
        self.join_due_ms = due_ms
        self._wake_by(due_ms)

    def _wake_by(self, due_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, due_ms)
