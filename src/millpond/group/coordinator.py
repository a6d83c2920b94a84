"""All groups of one coordinator: commands in, records and answers out.

``decide`` never changes what the log is the truth of (committed offsets, which groups exist, stable
assignments); it returns the records that would. The host appends them and then calls ``apply`` or, if that
failed, decides ``StoreFailed``. After a restart ``replay`` of the same records, in order, gives the same
state; ``resume`` then starts the members' sessions.

The host lets no other command in between a decision and its ``apply`` or ``StoreFailed``. So a group that is
decided on but not written yet can be kept aside (``_staged``) until then.

What a group is, its kind says (``kind``, ``kinds``); nothing here depends on it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from millpond.base.errors import GroupNotFound, MillpondError
from millpond.group import offset_decisions
from millpond.group.classic.kind import offsets_only
from millpond.group.kind import Group, GroupContext, ReadSettings, Staged, default_settings
from millpond.group.kinds import KINDS, GroupKinds
from millpond.group.messages import (
    Command,
    CommitOffsets,
    Decision,
    DeleteGroup,
    ErrorClass,
    Expire,
    ExpireOffsets,
    ForgetOffsets,
    ForgetTopic,
    GroupSettings,
    Now,
    Outbox,
    PendOffsets,
    StoreFailed,
)
from millpond.group.offsets import OffsetTable
from millpond.group.records import (
    CommittedOffset,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendingEnded,
)
from millpond.group.topics import TopicView

AnswerT = TypeVar("AnswerT")
_Decide: TypeAlias = Callable[[Any, GroupContext], object]


class GroupCoordinator:
    """Groups by name, and their offsets."""

    def __init__(
        self,
        settings: GroupSettings,
        read_settings: ReadSettings = default_settings,
        topics: TopicView | None = None,
        kinds: GroupKinds = KINDS,
    ) -> None:
        self.settings = settings
        # Reads the settings of one group, which a kind has beside those of all groups.
        self.read_settings = read_settings
        # The topics that there are; the host replaces it when they change.
        self.topics = topics or TopicView()
        self.groups: dict[str, Group] = {}
        self._kinds = kinds
        self.offsets = OffsetTable()
        # Records in the log of kinds of groups that this release does not know.
        self.foreign_records = 0
        # The group that the records of the last decision make.
        self._staged: Staged | None = None
        # The commands that are the same for groups of every kind.
        self._common: Mapping[type[Command[Any]], _Decide] = {
            CommitOffsets: self._commit,
            PendOffsets: self._pend,
            ForgetOffsets: self._forget_offsets,
            ForgetTopic: self._forget_topic,
            ExpireOffsets: self._expire_offsets,
            DeleteGroup: self._delete_group,
            Expire: self._expire,
            StoreFailed: self._store_failed,
        }

    # --- deciding ---------------------------------------------------------------------------------

    def decide(self, command: Command[AnswerT], now: Now) -> Decision[AnswerT]:
        """Decide a command. Raises a ``MillpondError`` if it is refused as a whole."""
        context = self._context(now)
        try:
            answer = self._dispatch(command, context)
        except MillpondError:
            self._staged = None
            # The host looks up no patterns for a command that is refused.
            for group_id, _patterns in context.out.patterns:
                if (group := self.groups.get(group_id)) is not None:
                    group.lookup_cancelled()
            raise
        self._staged = staged = context.staged
        if staged is not None and staged.is_present:
            self.groups[command.group_id] = staged.group
        return Decision(answer=cast("AnswerT", answer), outbox=context.out)

    def _dispatch(self, command: Command[AnswerT], context: GroupContext) -> object:
        decide = self._common.get(type(command))
        if decide is not None:
            return decide(command, context)
        handler = self._kinds.by_command[type(command)]
        return handler(command, self.groups.get(command.group_id), context)

    def _context(self, now: Now) -> GroupContext:
        return GroupContext(self.settings, self.read_settings, self.topics, now, Outbox())

    # --- offsets ----------------------------------------------------------------------------------

    def _commit(self, command: CommitOffsets, context: GroupContext) -> offset_decisions.Results:
        group = self.groups.get(command.group_id)
        return offset_decisions.commit(command, group, self.settings, context.now, context.out)

    def _pend(self, command: PendOffsets, context: GroupContext) -> offset_decisions.Results:
        group = self.groups.get(command.group_id)
        return offset_decisions.pend(command, group, self.settings, context.now, context.out)

    def _forget_offsets(
        self, command: ForgetOffsets, context: GroupContext
    ) -> offset_decisions.Results:
        group = self._existing(command.group_id)
        return offset_decisions.forget(command, group, self.offsets, context.out)

    def _forget_topic(self, command: ForgetTopic, context: GroupContext) -> None:
        partitions = self.offsets.of_group(command.group_id).get(command.topic, {})
        context.out.records.extend(
            offset_decisions.forgotten(command.group_id, command.topic, partition)
            for partition in partitions
        )

    def _expire_offsets(self, command: ExpireOffsets, context: GroupContext) -> None:
        group = self.groups.get(command.group_id)
        if group is not None:
            now, out = context.now, context.out
            offset_decisions.expire(group, self.offsets, self.settings, now, out)

    # --- groups -----------------------------------------------------------------------------------

    def _delete_group(self, command: DeleteGroup, context: GroupContext) -> None:
        group = self._existing(command.group_id)
        if error := group.check_deletable():
            raise error(f"group {command.group_id!r} has members")
        offset_decisions.forget_all(command.group_id, self.offsets, context.out)
        context.out.records.extend(group.tombstones())

    def _expire(self, command: Expire, context: GroupContext) -> None:
        group = self.groups.get(command.group_id)
        if group is not None:
            group.expire(context)

    def _store_failed(self, command: StoreFailed, context: GroupContext) -> None:
        staged, self._staged = self._staged, None
        group = self.groups.get(command.group_id)
        if group is None:
            return
        group.store_failed(command.error, context)
        if not group.is_stored:
            del self.groups[command.group_id]
            if staged is not None and staged.instead_of is not None:
                self.groups[command.group_id] = staged.instead_of

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, facts: Iterable[GroupRecord], now: Now) -> Outbox:
        """Apply records that are in the log. Return the answers that hold now."""
        context = self._context(now)
        staged, self._staged = self._staged, None
        for fact in facts:
            kind = self._kinds.by_record.get(type(fact))
            if kind is None:
                self.replay(fact)
                continue
            group = self.groups.get(fact.group_id)
            self._put(fact.group_id, group, kind.apply(fact, group, staged, context))
        if staged is not None:
            made = self.groups.get(staged.group.group_id)
            is_same_kind = type(made) is type(staged.group)
            if made is not None and made is not staged.group and is_same_kind:
                made.inherit(staged.group)
        return context.out

    def replay(self, record: GroupRecord) -> None:
        """Apply a record that was read from the log."""
        if isinstance(record, (OffsetCommitted, OffsetPended)):
            if record.group_id not in self.groups:
                self.groups[record.group_id] = offsets_only(record, self.settings)
            self.offsets.apply(record)
        elif isinstance(record, OffsetForgotten):
            self.offsets.apply(record)
        else:
            group = self.groups.get(record.group_id)
            kind = self._kinds.by_record[type(record)]
            self._put(record.group_id, group, kind.replay(record, group, self.settings))

    def _put(self, group_id: str, before: Group | None, after: Group | None) -> None:
        if after is not None:
            self.groups[group_id] = after
        elif before is not None:
            del self.groups[group_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker is in the log, now or since before the start."""
        for group_id in self.offsets.pending_groups(producer_id):
            self.offsets.apply(
                PendingEnded(group_id=group_id, producer_id=producer_id, committed=committed)
            )

    def resume(self, now: Now) -> Outbox:
        """All records are read: from now on members must be heard of."""
        context = self._context(now)
        for group in self.groups.values():
            group.resume(context)
        return context.out

    # --- reading ----------------------------------------------------------------------------------

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self.offsets.of_group(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorClass | None:
        """Return why this client may not read the group's offsets now."""
        group = self.groups.get(group_id)
        return None if group is None else group.check_fetch(member_id, epoch)

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupNotFound(f"group {group_id!r} does not exist")
        return group
