"""All groups of one coordinator: commands in, facts and answers out.

``decide`` never changes what the log is the truth of (committed offsets, which groups exist, stable
assignments); it says which facts would. The host appends them and then calls ``apply``, or,
if that failed, decides ``StoreFailed``. After a restart ``replay`` of the same facts, in order, gives
the same state; ``resume`` then starts the members' sessions.

The host lets no other command in between a decision and its ``apply`` or ``StoreFailed``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from millpond.base import limits
from millpond.base.errors import (
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidSessionTimeout,
    OffsetMetadataTooLarge,
    UnknownMember,
)
from millpond.group.classic import ClassicGroup, GroupState
from millpond.group.messages import (
    NO_MEMBER_ID,
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
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Now,
    Outbox,
    PendOffsets,
    StoreFailed,
    Sync,
    SyncAnswer,
)
from millpond.group.offsets import OffsetTable
from millpond.group.records import (
    CommittedOffset,
    GroupForgotten,
    GroupRecord,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendingEnded,
)

AnswerT = TypeVar("AnswerT")


class Coordinator:
    """Groups by name, and their offsets."""

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetTable()

    # --- deciding ---------------------------------------------------------------------------------

    def decide(self, command: Command[AnswerT], now: Now) -> Decision[AnswerT]:
        """What shall happen. Raises a MillpondError for commands that are refused as a whole."""
        out = Outbox()
        answer = self._dispatch(command, now, out)
        return Decision(answer=cast("AnswerT", answer), outbox=out)

    def _dispatch(self, command: Command[AnswerT], now: Now, out: Outbox) -> object:
        match command:
            case Join():
                self._join(command, now, out)
            case Sync():
                self._sync(command, now, out)
            case Heartbeat():
                return self._heartbeat(command, now)
            case Leave():
                return self._leave(command, now, out)
            case CommitOffsets():
                return self._commit(command, now, out)
            case PendOffsets():
                return self._pend(command, now, out)
            case ForgetOffsets():
                return self._forget_offsets(command, out)
            case DeleteGroup():
                self._delete_group(command, out)
            case ForgetTopic():
                self._forget_topic(command, out)
            case Expire():
                self._expire(command, now, out)
            case ExpireOffsets():
                self._expire_offsets(command, now, out)
            case StoreFailed():
                self._store_failed(command, now, out)
            case _:
                raise AssertionError(f"nobody decides {type(command).__name__}")
        return None

    def _join(self, command: Join, now: Now, out: Outbox) -> None:
        if error := self._check_join(command):
            answer = JoinAnswer(error=error, member_id=command.member_id)
            out.joins.append((command.ticket, answer))
            return
        group = self.groups.get(command.group_id)
        if group is not None:
            group.join(command, now, out)
            return
        group = ClassicGroup(command.group_id, self.settings, since_ms=now.wall_ms)
        group.join(command, now, out)
        if group.is_deserted:
            return  # refused; there is nothing to remember
        self.groups[command.group_id] = group
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

    def _check_join(self, command: Join) -> ErrorClass | None:
        if not command.group_id or len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
            return InvalidGroupId
        lowest, highest = self.settings.session_timeout_ms_min, self.settings.session_timeout_ms_max
        if not lowest <= command.session_timeout_ms <= highest:
            return InvalidSessionTimeout
        if command.member_id != NO_MEMBER_ID and command.group_id not in self.groups:
            return UnknownMember
        return None

    def _sync(self, command: Sync, now: Now, out: Outbox) -> None:
        group = self.groups.get(command.group_id)
        if group is not None:
            group.sync(command, now, out)
            return
        error = UnknownMember if command.group_id else InvalidGroupId
        out.syncs.append((command.ticket, SyncAnswer(error=error)))

    def _heartbeat(self, command: Heartbeat, now: Now) -> ErrorClass | None:
        group = self.groups.get(command.group_id)
        if group is None:
            return UnknownMember if command.group_id else InvalidGroupId
        return group.heartbeat(command, now)

    def _leave(self, command: Leave, now: Now, out: Outbox) -> tuple[ErrorClass | None, ...]:
        if not command.group_id:
            raise InvalidGroupId("a group needs a name")
        group = self.groups.get(command.group_id)
        if group is None:
            return (UnknownMember,) * len(command.members)
        return group.leave(command.members, now, out)

    def _commit(
        self, command: CommitOffsets, now: Now, out: Outbox
    ) -> tuple[ErrorClass | None, ...]:
        group = self.groups.get(command.group_id)
        if group is not None:
            error = group.check_commit(
                member_id=command.member_id,
                instance_id=command.instance_id,
                generation=command.generation,
            )
            if error is not None:
                raise error(f"group {command.group_id!r}: commit refused")
            group.note_commit(command.member_id, now)
        elif command.generation >= 0:
            raise GroupNotFound(f"group {command.group_id!r} does not exist")
        elif len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
            raise InvalidGroupId(f"a group's name may have {limits.GROUP_ID_CHARS_MAX} characters")
        expires_at_ms = None if command.retention_ms is None else now.wall_ms + command.retention_ms
        results: list[ErrorClass | None] = []
        for topic, partition, asked in command.offsets:
            if len(asked.metadata) > self.settings.offset_metadata_chars_max:
                results.append(OffsetMetadataTooLarge)
                continue
            results.append(None)
            value = CommittedOffset(
                offset=asked.offset,
                leader_epoch=asked.leader_epoch,
                metadata=asked.metadata,
                committed_at_ms=now.wall_ms,
                expires_at_ms=expires_at_ms,
                topic_id=asked.topic_id,
            )
            out.records.append(
                OffsetCommitted(
                    group_id=command.group_id, topic=topic, partition=partition, value=value
                )
            )
        return tuple(results)

    def _pend(self, command: PendOffsets, now: Now, out: Outbox) -> tuple[ErrorClass | None, ...]:
        if not command.group_id:
            raise InvalidGroupId("a group needs a name")
        group = self.groups.get(command.group_id)
        names_member = (
            command.generation >= 0 or command.member_id or command.instance_id is not None
        )
        if group is not None and names_member:
            # Before KIP-447 producers did not say for which member they commit.
            error = group.check_commit(
                member_id=command.member_id,
                instance_id=command.instance_id,
                generation=command.generation,
            )
            if error is not None:
                raise error(f"group {command.group_id!r}: commit refused")
            group.note_commit(command.member_id, now)
        elif group is None and command.generation >= 0:
            raise IllegalGeneration(f"group {command.group_id!r} does not exist")
        results: list[ErrorClass | None] = []
        for topic, partition, asked in command.offsets:
            if len(asked.metadata) > self.settings.offset_metadata_chars_max:
                results.append(OffsetMetadataTooLarge)
                continue
            results.append(None)
            out.records.append(
                OffsetPended(
                    group_id=command.group_id,
                    topic=topic,
                    partition=partition,
                    value=replace(asked, committed_at_ms=now.wall_ms),
                    producer_id=command.producer_id,
                    producer_epoch=command.producer_epoch,
                )
            )
        return tuple(results)

    def _forget_offsets(self, command: ForgetOffsets, out: Outbox) -> tuple[ErrorClass | None, ...]:
        group = self._existing(command.group_id)
        if group.check_deletable() is not None and not group.is_consumer_group:
            # Who reads what is only known of consumers.
            raise GroupNotEmpty(f"group {command.group_id!r} has members")
        results: list[ErrorClass | None] = []
        for topic, partition in command.partitions:
            if group.reads_topic(topic):
                results.append(GroupSubscribedToTopic)
                continue
            results.append(None)
            if self.offsets.get(
                command.group_id, topic, partition
            ) is not None or self.offsets.is_pending(command.group_id, topic, partition):
                out.records.append(_forgotten(command.group_id, topic, partition))
        return tuple(results)

    def _delete_group(self, command: DeleteGroup, out: Outbox) -> None:
        group = self._existing(command.group_id)
        if error := group.check_deletable():
            raise error(f"group {command.group_id!r} has members")
        out.records.extend(self._forget_all(command.group_id))
        out.records.append(GroupForgotten(group_id=command.group_id))

    def _forget_topic(self, command: ForgetTopic, out: Outbox) -> None:
        partitions = self.offsets.of_group(command.group_id).get(command.topic, {})
        out.records.extend(
            _forgotten(command.group_id, command.topic, partition) for partition in partitions
        )

    def _expire(self, command: Expire, now: Now, out: Outbox) -> None:
        group = self.groups.get(command.group_id)
        if group is not None:
            group.expire(now, out)

    def _expire_offsets(self, command: ExpireOffsets, now: Now, out: Outbox) -> None:
        group_id = command.group_id
        group = self.groups.get(group_id)
        if group is None:
            return
        since_ms = _retention_starts(group)
        if since_ms is not None:
            expired = self.offsets.expired(
                group_id,
                now_ms=now.wall_ms,
                retention_ms=self.settings.offsets_retention_ms,
                since_ms=since_ms,
            )
            out.records.extend(
                _forgotten(group_id, topic, partition)
                for topic, partition in expired
                if not group.reads_topic(topic)
                and not self.offsets.is_pending(group_id, topic, partition)
            )
        kept = sum(map(len, self.offsets.of_group(group_id).values())) - len(out.records)
        if kept == 0 and group.is_deserted and not self.offsets.pending_places(group_id):
            out.records.append(GroupForgotten(group_id=group_id))

    def _store_failed(self, command: StoreFailed, now: Now, out: Outbox) -> None:
        group = self.groups.get(command.group_id)
        if group is None:
            return
        group.store_failed(command.error, now, out)
        if not group.is_stored:
            del self.groups[command.group_id]

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, facts: Iterable[GroupRecord], now: Now) -> Outbox:
        """Facts are in the log: make them so, and say whom that answers."""
        out = Outbox()
        for fact in facts:
            group = self.groups.get(fact.group_id) if isinstance(fact, GroupStored) else None
            if group is not None:
                assert isinstance(fact, GroupStored)
                group.stored(fact, now, out)
            else:
                self.replay(fact)
        return out

    def replay(self, record: GroupRecord) -> None:
        """A fact read back from the log."""
        match record:
            case OffsetCommitted() | OffsetPended():
                if record.group_id not in self.groups:
                    # Offsets without members: a simple group, used by readers that assign themselves.
                    group = ClassicGroup(
                        record.group_id, self.settings, since_ms=record.value.committed_at_ms
                    )
                    group.is_stored = True
                    self.groups[record.group_id] = group
                self.offsets.apply(record)
            case OffsetForgotten():
                self.offsets.apply(record)
            case GroupStored():
                self.groups[record.group_id] = ClassicGroup.restore(record, self.settings)
            case GroupForgotten():
                self.groups.pop(record.group_id, None)

    def end_pending(self, record: PendingEnded) -> None:
        """A transaction's marker is in the log, now or since before the start."""
        self.offsets.apply(record)

    def resume(self, now: Now) -> Outbox:
        """All facts are read: from now on members must be heard of."""
        out = Outbox()
        for group in self.groups.values():
            group.resume(now, out)
        return out

    # --- reading ----------------------------------------------------------------------------------

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self.offsets.of_group(group_id)

    def _existing(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupNotFound(f"group {group_id!r} does not exist")
        return group

    def _forget_all(self, group_id: str) -> Iterable[OffsetForgotten]:
        committed = {
            (topic, partition)
            for topic, partitions in self.offsets.of_group(group_id).items()
            for partition in partitions
        }
        for topic, partition in sorted(committed | self.offsets.pending_places(group_id)):
            yield _forgotten(group_id, topic, partition)


def _forgotten(group_id: str, topic: str, partition: int) -> OffsetForgotten:
    return OffsetForgotten(group_id=group_id, topic=topic, partition=partition)


def _retention_starts(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """From when an offset's retention counts, or None while nothing of the group may expire."""
    if group.protocol_type is None:
        return lambda committed: committed.committed_at_ms
    if group.state is GroupState.EMPTY:
        if group.state_since_ms >= 0:
            return lambda _committed: group.state_since_ms
        return lambda committed: committed.committed_at_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return lambda committed: committed.committed_at_ms
    return None
