"""Classic groups for the coordinator: the commands of their protocol, and their records.

A group with offsets and no members, of clients that assign partitions to themselves, is a classic group too.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from millpond.base import limits
from millpond.base.errors import (
    InvalidGroupId,
    InvalidSessionTimeout,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.base.kafka_encoding import Reader
from millpond.group.classic import records
from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.records import (
    GROUP_KEY_VERSION,
    ClassicRecord,
    GroupForgotten,
    GroupStored,
)
from millpond.group.kind import CLASSIC, Group, GroupContext, GroupKind, Handler, Staged
from millpond.group.messages import (
    NO_MEMBER_ID,
    Command,
    ErrorClass,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Sync,
    SyncAnswer,
)
from millpond.group.records import GroupRecord, OffsetCommitted, OffsetPended


class ClassicGroupKind(GroupKind[ClassicRecord]):
    """Decides the commands of the classic protocol. A group of another kind answers them for itself."""

    name: ClassVar[str] = CLASSIC
    record_types: ClassVar[tuple[type[GroupRecord], ...]] = (GroupStored, GroupForgotten)
    key_versions: ClassVar[frozenset[int]] = frozenset({GROUP_KEY_VERSION})

    def __init__(self) -> None:
        self.commands: Mapping[type[Command[Any]], Handler] = {
            Join: _join,
            Sync: _sync,
            Heartbeat: _heartbeat,
            Leave: _leave,
        }

    def encode(self, record: ClassicRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, version: int, key: Reader, value: bytes | None) -> ClassicRecord:
        return records.decode(version, key, value)

    def replay(
        self, record: ClassicRecord, group: Group | None, settings: GroupSettings
    ) -> Group | None:
        if isinstance(record, GroupStored):
            return ClassicGroup.restore(record, settings)
        return None if isinstance(group, ClassicGroup) else group

    def apply(
        self,
        record: ClassicRecord,
        group: Group | None,
        staged: Staged | None,
        context: GroupContext,
    ) -> Group | None:
        if isinstance(record, GroupForgotten):
            if isinstance(group, ClassicGroup):
                # The members that wait in a group of which the kind changes have to join again.
                group.disband(RebalanceInProgress, context.out)
            return self.replay(record, group, context.settings)
        if isinstance(group, ClassicGroup):
            group.stored(record, context.now, context.out)
            return group
        if staged is not None and isinstance(staged.group, ClassicGroup):
            staged.group.take_over(context.now, context.out, rebalance=staged.rebalance)
            return staged.group
        return self.replay(record, group, context.settings)


def offsets_only(record: OffsetCommitted | OffsetPended, settings: GroupSettings) -> ClassicGroup:
    """Return the group of a client that commits offsets without being a member."""
    group = ClassicGroup(record.group_id, settings, since_ms=record.value.committed_at_ms)
    group.is_stored = True
    return group


# --- commands ---------------------------------------------------------------------------------------


def _join(command: Join, group: Group | None, context: GroupContext) -> None:
    if error := _check_join(command, group, context.settings):
        _refuse_join(command, error, context)
    elif group is None:
        _join_new(command, None, context)
    elif not group.may_be_replaced_by(CLASSIC):
        group.join(command, context)
    elif command.member_id != NO_MEMBER_ID:
        _refuse_join(command, UnknownMember, context)
    else:
        _join_new(command, group, context)


def _check_join(command: Join, group: Group | None, settings: GroupSettings) -> ErrorClass | None:
    if not command.group_id or len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
        return InvalidGroupId
    lowest, highest = settings.session_timeout_ms_min, settings.session_timeout_ms_max
    if not lowest <= command.session_timeout_ms <= highest:
        return InvalidSessionTimeout
    if command.member_id != NO_MEMBER_ID and group is None:
        return UnknownMember
    return None


def _refuse_join(command: Join, error: ErrorClass, context: GroupContext) -> None:
    answer = JoinAnswer(error=error, member_id=command.member_id)
    context.out.joins.append((command.ticket, answer))


def _join_new(command: Join, empty: Group | None, context: GroupContext) -> None:
    """Make a group with its first member, in the place of an empty one of another kind if there is one."""
    now, out = context.now, context.out
    group = ClassicGroup(command.group_id, context.settings, since_ms=now.wall_ms)
    group.join(command, context)
    if group.is_deserted:
        return  # refused; there is nothing to keep
    if not out.records:
        # Kafka too writes a new group down before its first generation is complete.
        out.records.append(
            GroupStored(
                group_id=command.group_id,
                protocol_type="",
                generation=0,
                protocol=None,
                leader=None,
                state_since_ms=now.wall_ms,
            )
        )
    if empty is not None:
        out.records[:0] = empty.tombstones()
    # Joins are parked in it already, so it is there before its record is written.
    context.staged = Staged(group, instead_of=empty, is_present=True)


def _sync(command: Sync, group: Group | None, context: GroupContext) -> None:
    if group is None:
        answer = SyncAnswer(error=_no_group(command.group_id))
        context.out.syncs.append((command.ticket, answer))
    else:
        group.sync(command, context)


def _heartbeat(command: Heartbeat, group: Group | None, context: GroupContext) -> ErrorClass | None:
    return _no_group(command.group_id) if group is None else group.heartbeat(command, context)


def _leave(
    command: Leave, group: Group | None, context: GroupContext
) -> tuple[ErrorClass | None, ...]:
    if not command.group_id:
        raise InvalidGroupId("a group needs a name")
    if group is None:
        return (UnknownMember,) * len(command.members)
    return group.leave(command, context)


def _no_group(group_id: str) -> ErrorClass:
    return UnknownMember if group_id else InvalidGroupId
