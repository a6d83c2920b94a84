"""The rebalance of a classic group: phases, the members that are waited for, and deadlines.

    Empty ──join──▶ PreparingRebalance ──all joined or time is up──▶ CompletingRebalance
      ▲                 ▲     │                                            │
      │                 │     └─ no member is left ─▶ Empty                │ the leader's plan is stored
      │                 └── member joins, leaves, expires, changes ◀── Stable

A join waits until every member has joined (or the rebalance time-out removes those that have not), a sync
waits until the leader's plan is in the log.

Rules: time comes in as ``Now``; parked requests are tickets; what must be stored or answered goes into an
``Outbox``.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from millpond.base import limits
from millpond.base.errors import RebalanceInProgress, UnknownMember
from millpond.group.classic.parked import Parked
from millpond.group.classic.phases import TRANSITIONS, GroupState
from millpond.group.classic.records import GroupStored, StoredMember
from millpond.group.classic.roster import Member, Roster
from millpond.group.kind import CLASSIC, Group, GroupContext
from millpond.group.messages import (
    NEVER_MS,
    ErrorClass,
    GroupSettings,
    JoinAnswer,
    Now,
    Outbox,
    SyncAnswer,
)

_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE


class RebalancingGroup(Group):
    """The members of a classic group, its phase, and how it gets from one generation to the next."""

    kind: ClassVar[str] = CLASSIC

    __slots__ = (
        "_initial_remaining_ms",
        "_new_member_added",
        "_parked",
        "_pending_joins",
        "_pending_syncs",
        "_previous_state",
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
    state: GroupState
    is_stored: bool
    wake_ms: int

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
        self.join_due_ms = NEVER_MS
        # During a group's first rebalance: how much longer late joiners may delay it. Else None.
        self._initial_remaining_ms: int | None = None
        self.sync_due_ms = NEVER_MS
        # Nothing is due before this; sessions that were extended make it early, never late.
        self.wake_ms = NEVER_MS

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by id, in the order in which they joined."""
        return self.roster.members

    @property
    def has_members(self) -> bool:
        return bool(self.roster.members)

    @property
    def protocol_type(self) -> str | None:
        """ "consumer" for consumers; None for offsets without members."""
        return self.roster.protocol_type

    def record(self) -> GroupStored:
        """Return the record of this generation."""
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

    # --- time -------------------------------------------------------------------------------------

    def expire(self, context: GroupContext) -> None:
        """Act on every deadline that has passed, in the order in which they passed."""
        now, out = context.now, context.out
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
            # A member whose request is parked sends no heartbeats; the answer will start a new session.
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
        # A first rebalance waits for its delay even if all known members have joined.
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
