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

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from millpond.base import limits
from millpond.base.errors import (
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MalformedData,
    MemberFenced,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.group import subscription
from millpond.group.messages import (
    NO_MEMBER_ID,
    ErrorClass,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    LeavingMember,
    Now,
    Outbox,
    Protocols,
    Sync,
    SyncAnswer,
    Ticket,
)
from millpond.group.records import GroupStored, StoredMember

NEVER_MS = 2**63 - 1


class GroupState(StrEnum):
    """Where a group is; the words that clients and tools see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE

# From where each state can be reached. A dead group is only ever the absence of one.
TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    _EMPTY: frozenset({_PREPARING}),
    _PREPARING: frozenset({_STABLE, _COMPLETING, _EMPTY}),
    _COMPLETING: frozenset({_PREPARING}),
    _STABLE: frozenset({_COMPLETING}),
    GroupState.DEAD: frozenset(GroupState),
}


class Member:
    """One reader of the group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_due_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # A member that has joined but never been part of a generation.
        self.is_new = False
        self.session_due_ms = NEVER_MS

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not have protocol {protocol}")


class _Replacement:
    """A static member that came back under a new id while its group is stable; not yet stored."""

    __slots__ = ("command", "member_id", "old_member_id")

    def __init__(self, command: Join, member_id: str, old_member_id: str) -> None:
        self.command = command
        self.member_id = member_id
        self.old_member_id = old_member_id


class ClassicGroup:
    """The state of one group. All changes happen through the verbs below."""

    __slots__ = (
        "_initial_remaining_ms",
        "_joins",
        "_new_member_added",
        "_pending_joins",
        "_pending_syncs",
        "_previous_state",
        "_protocol_counts",
        "_replacement",
        "_settings",
        "_syncs",
        "generation",
        "group_id",
        "is_stored",
        "join_due_ms",
        "leader",
        "members",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
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
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        # What the members read, if that can be known: None when it cannot.
        self.subscribed_topics: frozenset[str] | None = None
        self.is_stored = False
        # Who waits for an answer, by member id.
        self._joins: dict[str, Ticket] = {}
        self._syncs: dict[str, Ticket] = {}
        # Ids given out but not yet used, with the time until which they may be.
        self._pending_joins: dict[str, int] = {}
        # Members of this generation that have not asked for their assignment.
        self._pending_syncs: set[str] = set()
        self._protocol_counts: Counter[str] = Counter()
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
        group.protocol_type = record.protocol_type or None
        group.protocol = record.protocol
        group.is_stored = True
        for stored in record.members:
            member = Member(
                member_id=stored.member_id,
                instance_id=stored.instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.rebalance_timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=((record.protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
            group._add(member)
        group.leader = record.leader
        if group.members:
            group.state = _STABLE
        group._learn_subscriptions()
        return group

    def resume(self, now: Now, out: Outbox) -> None:
        """After a restart every member has one session time-out to be heard of."""
        for member in self.members.values():
            self._extend_session(member, now)
        if len(self.members) > self._settings.members_max:
            self._prepare_rebalance(now, out)

    def record(self) -> GroupStored:
        """What the log shall say of this generation."""
        return GroupStored(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_since_ms=self.state_since_ms,
            members=tuple(
                _stored(member, self.protocol, member.assignment)
                for member in self.members.values()
            ),
        )

    # --- what others may ask ----------------------------------------------------------------------

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

    def check_commit(
        self, *, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorClass | None:
        """May this member, or this stranger, commit offsets now?"""
        if generation < 0 and self.state is _EMPTY:
            return None
        if generation < 0 and not member_id and instance_id is None:
            return UnknownMember
        if error := self._check_member(member_id, instance_id):
            return error
        if generation != self.generation:
            return IllegalGeneration
        if self.state is _COMPLETING:
            # It knows the generation, so it has joined; but the plan is not out yet.
            return RebalanceInProgress
        return None

    def note_commit(self, member_id: str, now: Now) -> None:
        """A commit is as good as a heartbeat."""
        member = self.members.get(member_id)
        if member is not None and self.state in {_STABLE, _PREPARING}:
            self._extend_session(member, now)

    def check_deletable(self) -> ErrorClass | None:
        return None if self.state is _EMPTY else GroupNotEmpty

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
        if error := self._check_member(command.member_id, command.instance_id):
            return error
        return UnknownMember if self.state is _EMPTY else None

    def _accepts(self, member_id: str) -> bool:
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                # Those who wait are counted, not those who are known: the limit may have shrunk.
                return member_id in self._joins or len(self._joins) < self._settings.members_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in self.members or len(self.members) < self._settings.members_max
            case GroupState.EMPTY | GroupState.DEAD:
                return True

    def _supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is _EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts[name] == everyone for name, _ in protocols
        )

    def _join_stranger(self, command: Join, now: Now, out: Outbox) -> None:
        if command.instance_id is not None:
            member_id = f"{command.instance_id}-{command.fresh_id}"
            old_member_id = self.static_members.get(command.instance_id)
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
        member = Member(
            member_id=member_id,
            instance_id=command.instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            session_timeout_ms=command.session_timeout_ms,
            protocols=command.protocols,
        )
        member.is_new = True
        if self.state is _PREPARING and self._previous_state is _EMPTY:
            self._new_member_added = True
        if not self.members:
            self.protocol_type = command.protocol_type
        self._pending_joins.pop(member_id, None)
        self._add(member)
        self._joins[member_id] = command.ticket
        self._extend_session(member, now, self._settings.new_member_join_timeout_ms)
        self._rebalance_or_complete(now, out)

    def _join_again(self, command: Join, now: Now, out: Outbox) -> None:
        member = self.members[command.member_id]
        unchanged = member.protocols == command.protocols
        leads = command.member_id == self.leader
        if (self.state is _COMPLETING and unchanged) or (
            self.state is _STABLE and unchanged and not leads
        ):
            # The answer to its last join was lost, or it has nothing new to say.
            members = self._joined_members() if leads else ()
            answer = self._join_answer(command.member_id, members)
            out.joins.append((command.ticket, answer))
            return
        # In a stable group the leader's join is how it reports that topics or partitions changed.
        self._update(member, command, out)
        self._rebalance_or_complete(now, out)

    def _join_replace(
        self, command: Join, member_id: str, old_member_id: str, now: Now, out: Outbox
    ) -> None:
        if self.state is _STABLE and self.protocol == self._protocol_after(command, old_member_id):
            # Nothing changes but the id: no rebalance, but the log must know before the member does.
            self._replacement = _Replacement(command, member_id, old_member_id)
            out.records.append(self._record_after(self._replacement))
            return
        self._replace_static(command, member_id, old_member_id, now, out)
        if self.state in {_STABLE, _COMPLETING}:
            # The leader may have planned for the old id: the new one would get nothing.
            self._prepare_rebalance(now, out)
        else:
            self._complete_join_if_ready(now, out)

    def _replace_static(
        self, command: Join, member_id: str, old_member_id: str, now: Now, out: Outbox
    ) -> Member:
        assert command.instance_id is not None
        old = self.members[old_member_id]
        fenced = JoinAnswer(error=MemberFenced, member_id=old_member_id)
        self._answer_join(old_member_id, fenced, out)
        self._answer_sync(old_member_id, SyncAnswer(error=MemberFenced), out)
        member = Member(
            member_id=member_id,
            instance_id=old.instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        # The same place in the order of members: it is the same member.
        self.members = {
            member.member_id if existing == old_member_id else existing: (
                member if existing == old_member_id else other
            )
            for existing, other in self.members.items()
        }
        self.static_members[command.instance_id] = member_id
        if self.leader == old_member_id:
            self.leader = member_id
        self._pending_syncs.discard(old_member_id)
        self._update(member, command, out)
        self._extend_session(member, now)
        return member

    def _update(self, member: Member, command: Join, out: Outbox) -> None:
        self._count_protocols(member, -1)
        member.protocols = command.protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = command.rebalance_timeout_ms
        member.session_timeout_ms = command.session_timeout_ms
        # A second join from the same member replaces the first, whose asker has gone away.
        superseded = JoinAnswer(error=RebalanceInProgress, member_id=member.member_id)
        self._answer_join(member.member_id, superseded, out)
        self._joins[member.member_id] = command.ticket

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
        self._answer_sync(command.member_id, superseded, out)
        self._syncs[command.member_id] = command.ticket
        if command.member_id == self.leader:
            out.records.append(self._record_with(command.assignments, now))

    def _check_sync(self, command: Sync) -> ErrorClass | None:
        if error := self._check_member(command.member_id, command.instance_id):
            return error
        if command.generation != self.generation:
            return IllegalGeneration
        if command.protocol_type is not None and command.protocol_type != self.protocol_type:
            return InconsistentGroupProtocol
        if command.protocol is not None and command.protocol != self.protocol:
            return InconsistentGroupProtocol
        return RebalanceInProgress if self.state is _PREPARING else None

    def _record_with(self, assignments: Mapping[str, bytes], now: Now) -> GroupStored:
        return GroupStored(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_since_ms=now.wall_ms,
            members=tuple(
                # Whom the leader forgot gets nothing to do.
                _stored(member, self.protocol, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

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
            for member in self.members.values():
                if self._answer_sync(member.member_id, self._sync_answer(member), out):
                    # Its session may have run out unnoticed while it waited.
                    self._extend_session(member, now)

    def _stored_replacement(self, replacement: _Replacement, now: Now, out: Outbox) -> None:
        self._replacement = None
        command = replacement.command
        leader_before = self.leader
        member = self._replace_static(
            command, replacement.member_id, replacement.old_member_id, now, out
        )
        leads = self.leader == member.member_id
        if command.may_skip_assignment:
            members = self._joined_members() if leads else ()
            answer = self._join_answer(member.member_id, members, skip_assignment=leads)
        else:
            # An older client that finds itself leader would assign anew; so it is told the old name.
            answer = self._join_answer(member.member_id, (), leader=leader_before)
        self._answer_join(member.member_id, answer, out)

    def store_failed(self, error: ErrorClass, now: Now, out: Outbox) -> None:
        """The record is not in the log: nobody may act on what it would have said."""
        if self._replacement is not None:
            ticket = self._replacement.command.ticket
            self._replacement = None
            out.joins.append((ticket, JoinAnswer(error=error)))
        elif not self.is_stored:
            for member_id in list(self._joins):
                self._answer_join(member_id, JoinAnswer(error=error), out)
        elif self.state is _COMPLETING:
            self._reset_assignments(error, now, out)
            self._prepare_rebalance(now, out)
        # An empty generation that was not written harms nobody: it has no members.

    def disband(self, error: ErrorClass, out: Outbox) -> None:
        """The coordinator goes away: whoever waits is told. Nothing is decided here any more."""
        for member_id in list(self._joins):
            self._answer_join(member_id, JoinAnswer(error=error, member_id=member_id), out)
        for member_id in list(self._syncs):
            self._answer_sync(member_id, SyncAnswer(error=error), out)

    # --- living and leaving -----------------------------------------------------------------------

    def heartbeat(self, command: Heartbeat, now: Now) -> ErrorClass | None:
        """Extend the member's session; say if it has to join again."""
        if error := self._check_member(command.member_id, command.instance_id):
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
            if identity.instance_id not in self.static_members:
                return UnknownMember
            member_id = self.static_members[identity.instance_id]
        elif member_id not in self._pending_joins and (
            error := self._check_member(member_id, identity.instance_id)
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
        elif not member.is_new and (member_id in self._joins or member_id in self._syncs):
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
                self._set_join_due(now.steady_ms + self._rebalance_timeout_ms())
            return
        delay_ms = self._settings.initial_rebalance_delay_ms
        if delay_ms == 0:
            self._complete_join(now, out)
            return
        self._new_member_added = False
        self._initial_remaining_ms = max(self._rebalance_timeout_ms() - delay_ms, 0)
        self._set_join_due(now.steady_ms + delay_ms)

    def _complete_join_if_ready(self, now: Now, out: Outbox) -> None:
        # A first rebalance waits for its delay even if all who are known have joined.
        if self.state is _PREPARING and self._previous_state is not _EMPTY and self._all_joined():
            self._complete_join(now, out)

    def _complete_join(self, now: Now, out: Outbox) -> None:
        assert self.state is _PREPARING
        self.join_due_ms = NEVER_MS
        self._initial_remaining_ms = None
        for member in list(self.members.values()):
            # Static members are given until their session ends.
            if member.member_id not in self._joins and member.instance_id is None:
                self._remove(member.member_id, out)
        if self.members and not self._elect_leader():
            # Only absent static members are left. Wait for them, or for their sessions to end.
            self._set_join_due(now.steady_ms + self._rebalance_timeout_ms())
            return
        self.generation += 1
        self._pending_syncs.clear()
        if not self.members:
            self.protocol = None
            self.leader = None
            self._enter(_EMPTY, now.wall_ms)
            self._learn_subscriptions()
            out.records.append(self.record())
            return
        self.protocol = _select_protocol(member.protocols for member in self.members.values())
        self._enter(_COMPLETING, now.wall_ms)
        self._learn_subscriptions()
        for member in self.members.values():
            members = self._joined_members() if member.member_id == self.leader else ()
            self._answer_join(member.member_id, self._join_answer(member.member_id, members), out)
            member.is_new = False
            self._extend_session(member, now)
            self._pending_syncs.add(member.member_id)
        self.sync_due_ms = now.steady_ms + self._rebalance_timeout_ms()
        self._wake_by(self.sync_due_ms)

    def _elect_leader(self) -> bool:
        if self.leader is not None and self.leader in self._joins:
            return True
        for member_id in self.members:
            if member_id in self._joins:
                self.leader = member_id
                return True
        return False

    def _reset_assignments(self, error: ErrorClass, now: Now, out: Outbox) -> None:
        for member in self.members.values():
            member.assignment = b""
            if self._answer_sync(member.member_id, SyncAnswer(error=error), out):
                # It waited without heartbeats; it needs the time to join again.
                self._extend_session(member, now)

    # --- small parts ------------------------------------------------------------------------------

    def _check_member(self, member_id: str, instance_id: str | None) -> ErrorClass | None:
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return UnknownMember
            if current != member_id:
                return MemberFenced
        return None if member_id in self.members else UnknownMember

    def _add(self, member: Member) -> None:
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        if self.leader is None:
            self.leader = member.member_id

    def _remove(self, member_id: str, out: Outbox) -> None:
        """Take the member out; what it waits for ends with an error."""
        self._pending_joins.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._answer_join(member_id, JoinAnswer(error=UnknownMember), out)
        self._answer_sync(member_id, SyncAnswer(error=UnknownMember), out)
        self._count_protocols(member, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._pending_syncs.discard(member_id)

    def _count_protocols(self, member: Member, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._protocol_counts[name] += step
            if not self._protocol_counts[name]:
                del self._protocol_counts[name]

    def _all_joined(self) -> bool:
        return len(self._joins) == len(self.members) and not self._pending_joins

    def _answer_join(self, member_id: str, answer: JoinAnswer, out: Outbox) -> None:
        ticket = self._joins.pop(member_id, None)
        if ticket is not None:
            out.joins.append((ticket, answer))

    def _answer_sync(self, member_id: str, answer: SyncAnswer, out: Outbox) -> bool:
        ticket = self._syncs.pop(member_id, None)
        if ticket is not None:
            out.syncs.append((ticket, answer))
        return ticket is not None

    def _join_answer(
        self,
        member_id: str,
        members: tuple[JoinedMember, ...],
        *,
        leader: str | None = None,
        skip_assignment: bool = False,
    ) -> JoinAnswer:
        return JoinAnswer(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=leader or self.leader or "",
            skip_assignment=skip_assignment,
            members=members,
        )

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.members.values()
        )

    def _protocol_after(self, command: Join, old_member_id: str) -> str:
        return _select_protocol(
            command.protocols if member.member_id == old_member_id else member.protocols
            for member in self.members.values()
        )

    def _record_after(self, replacement: _Replacement) -> GroupStored:
        command, old_member_id = replacement.command, replacement.old_member_id
        members = []
        for member in self.members.values():
            stored = _stored(member, self.protocol, member.assignment)
            if member.member_id == old_member_id:
                stored = StoredMember(
                    member_id=replacement.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=command.rebalance_timeout_ms,
                    session_timeout_ms=command.session_timeout_ms,
                    subscription=dict(command.protocols)[self.protocol or ""],
                    assignment=member.assignment,
                )
            members.append(stored)
        return GroupStored(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=replacement.member_id if self.leader == old_member_id else self.leader,
            state_since_ms=self.state_since_ms,
            members=tuple(members),
        )

    def _learn_subscriptions(self) -> None:
        self.subscribed_topics = None
        if not self.is_consumer_group:
            return
        if self.members and self.protocol is None:
            return
        try:
            self.subscribed_topics = frozenset().union(
                *(
                    subscription.subscribed_topics(member.metadata(self.protocol))
                    for member in self.members.values()
                )
            )
        except MalformedData:
            # The members understand each other; we need not.
            self.subscribed_topics = None

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

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


def _stored(member: Member, protocol: str | None, assignment: bytes) -> StoredMember:
    return StoredMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def _select_protocol(ballots: Iterable[Protocols]) -> str:
    """Each member votes for the first of its protocols that all members have.

    A join is only let in with a protocol that all others have, so there is always one.
    """
    preferences = [[name for name, _ in protocols] for protocols in ballots]
    common = set(preferences[0]).intersection(*preferences[1:])
    votes = Counter(next(name for name in names if name in common) for names in preferences)
    return votes.most_common(1)[0][0]
