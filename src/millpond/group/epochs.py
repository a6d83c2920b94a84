"""What consumer groups and streams groups have in common: members that reach epochs.

Three epochs: the *group's* grows when members or topics change; the *assignment's* is the group epoch for
which the targets were made; a *member's* is the assignment epoch that it has reached.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from millpond.base import limits
from millpond.base.errors import (
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMember,
    UnsupportedVersion,
)
from millpond.group.kind import CLASSIC, Group
from millpond.group.messages import (
    NEVER_MS,
    NO_MEMBER_ID,
    CommitOffsets,
    ErrorClass,
    Now,
    PendOffsets,
)

FIRST_EPOCH = 1
NO_EPOCH = -1
# The epoch with which a member says that it joins.
JOINING = 0
# A static member that left for a while; the member that joins with its instance id takes its place.
AWAY_EPOCH = -2
GONE_EPOCH = -1


class Deadlines:
    """When members must have been heard of. They are not in the log and start again after a restart."""

    __slots__ = ("joins", "rebalances", "sessions", "syncs", "wake_ms")

    def __init__(self) -> None:
        self.sessions: dict[str, int] = {}
        # With the epoch that the member must have left by then.
        self.rebalances: dict[str, tuple[int, int]] = {}
        # Members of the classic protocol must join, and then sync, in time.
        self.joins: dict[str, int] = {}
        self.syncs: dict[str, int] = {}
        # Nothing is due before this; sessions that were extended make it early, never late.
        self.wake_ms = NEVER_MS

    def wake_by(self, due_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, due_ms)

    def extend_session(self, member_id: str, due_ms: int) -> None:
        self.sessions[member_id] = due_ms
        self.wake_by(due_ms)

    def expect_revocation(self, member_id: str, due_ms: int, epoch: int) -> None:
        self.rebalances[member_id] = due_ms, epoch
        self.wake_by(due_ms)

    def expect_join(self, member_id: str, due_ms: int) -> None:
        """Only the first deadline counts: asking again does not give more time."""
        self.wake_by(self.joins.setdefault(member_id, due_ms))

    def expect_sync(self, member_id: str, due_ms: int) -> None:
        self.syncs[member_id] = due_ms
        self.wake_by(due_ms)

    def forget(self, member_id: str) -> None:
        self.rebalances.pop(member_id, None)
        for table in (self.sessions, self.joins, self.syncs):
            table.pop(member_id, None)

    def due(self, now_ms: int) -> Iterator[tuple[str, int | None]]:
        """Return each late member once, with the epoch that it should have left if that is the reason."""
        late: dict[str, int | None] = {}
        for member_id, (due_ms, epoch) in self.rebalances.items():
            if due_ms <= now_ms:
                late[member_id] = epoch
        for table in (self.sessions, self.joins, self.syncs):
            late.update((one, None) for one, due_ms in table.items() if due_ms <= now_ms)
        yield from late.items()

    def reset_wake(self) -> None:
        rebalances = (due_ms for due_ms, _ in self.rebalances.values())
        tables = (self.sessions.values(), self.joins.values(), self.syncs.values(), rebalances)
        self.wake_ms = min((due_ms for table in tables for due_ms in table), default=NEVER_MS)


class Member(Protocol):
    """What a group with epochs asks of a member."""

    @property
    def member_id(self) -> str: ...
    @property
    def epoch(self) -> int:
        """The assignment epoch that it has reached."""
        ...

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        ...

    @property
    def must_revoke(self) -> bool:
        """Whether it still has to give up partitions or tasks."""
        ...

    @property
    def rebalance_timeout_ms(self) -> int: ...


MemberT = TypeVar("MemberT", bound=Member)


class EpochGroup(Group, Generic[MemberT]):
    """A group of members that reach epochs. Records change it; only deadlines change without them."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_made_ms = 0
        self.members: dict[str, MemberT] = {}
        self.deadlines = Deadlines()
        # The version of the topics for which the hash was last compared, and the epoch that came of it.
        self.looked_at: tuple[int, int] | None = None

    # --- what the coordinator may ask ---------------------------------------------------------------

    @property
    def has_members(self) -> bool:
        return bool(self.members)

    @property
    def wake_ms(self) -> int:
        return self.deadlines.wake_ms

    def may_be_replaced_by(self, kind: str) -> bool:
        """A group without members gives way to a classic one, as in Kafka."""
        return kind == CLASSIC and not self.members

    def must_look(self, version: int) -> bool:
        """Whether topics may have changed since their hash was last compared."""
        if self.looked_at is None:
            return True
        looked_at, epoch = self.looked_at
        # If the epoch is not what was decided, the records of that decision were not written.
        return looked_at != version or self.epoch < epoch

    def note_look(self, version: int, epoch: int) -> None:
        self.looked_at = version, epoch

    # --- offsets ------------------------------------------------------------------------------------

    def check_commit(self, command: CommitOffsets | PendOffsets) -> ErrorClass | None:
        """Return why this client may not commit these offsets now."""
        if command.generation < 0 and not self.members:
            return None
        is_transactional = isinstance(command, PendOffsets)
        if (
            is_transactional
            and command.generation == NO_EPOCH
            and command.member_id == NO_MEMBER_ID
            and command.instance_id is None
        ):
            return None
        member = self.members.get(command.member_id)
        if member is None:
            return UnknownMember
        if (
            isinstance(command, CommitOffsets)
            and not member.is_classic
            and not command.knows_epochs
        ):
            return UnsupportedVersion
        if command.generation == member.epoch or (
            command.generation < member.epoch and self._had_all_since(command, member)
        ):
            return None
        # A transactional client knows only this error.
        return IllegalGeneration if member.is_classic or is_transactional else StaleMemberEpoch

    @abstractmethod
    def _had_all_since(self, command: CommitOffsets | PendOffsets, member: MemberT) -> bool:
        """Whether the member has had these partitions since the older epoch that it names (KIP-1251)."""

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorClass | None:
        """Return why this client may not read the group's offsets now. One that names no member may."""
        if member_id is None and epoch < 0:
            return None
        member = self.members.get(member_id or "")
        if member is None:
            return UnknownMember
        if epoch != member.epoch:
            return IllegalGeneration if member.is_classic else StaleMemberEpoch
        return None

    # --- time ---------------------------------------------------------------------------------------

    def start_sessions(self, now: Now, session_timeout_ms: int) -> None:
        """Give every member one session time-out after a restart to be heard of."""
        for member in self.members.values():
            due_ms = now.steady_ms + session_timeout_ms
            self.deadlines.extend_session(member.member_id, due_ms)
            if member.must_revoke:
                due_ms = now.steady_ms + max(member.rebalance_timeout_ms, 0)
                self.deadlines.expect_revocation(member.member_id, due_ms, member.epoch)

    def take_late(self, now: Now) -> list[MemberT]:
        """Return the members that were silent, or kept what is not theirs, for too long; each once."""
        deadlines = self.deadlines
        late = []
        for member_id, epoch in tuple(deadlines.due(now.steady_ms)):
            member = self.members.get(member_id)
            if member is None:
                deadlines.forget(member_id)
            elif epoch not in {None, member.epoch}:
                del deadlines.rebalances[member_id]  # it has gone on since
            else:
                deadlines.forget(member_id)
                # Until it is written that the member is gone; and again if that fails.
                again_ms = now.steady_ms + limits.GROUP_ABSENT_WAIT_MS_MIN
                deadlines.extend_session(member_id, again_ms)
                late.append(member)
        deadlines.reset_wake()
        return late


def had_since(held: int | None, revoking: int | None, epoch: int) -> bool:
    """Whether a partition or task was held, or is being given up, at this epoch already."""
    since = revoking if held is None else held
    return since is not None and epoch >= since
