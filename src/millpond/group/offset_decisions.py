"""What may become of a group's positions: commits, in and out of transactions, deletion, expiry.

Functions of what is: the group, if there is one, and the table of offsets. They write the facts that shall
hold into the outbox. Who is a member, and what is read, is the group's to say.
"""

from collections.abc import Callable
from typing import TypeAlias

from millpond.base import limits
from millpond.base.errors import (
    GroupNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
)
from millpond.group.classic import ClassicGroup
from millpond.group.consumer import ConsumerGroup
from millpond.group.messages import (
    CommitOffsets,
    ErrorClass,
    ForgetOffsets,
    GroupSettings,
    Now,
    Outbox,
    PendOffsets,
)
from millpond.group.offsets import OffsetTable
from millpond.group.phases import GroupState
from millpond.group.records import (
    CommittedOffset,
    GroupForgotten,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
)
from millpond.group.streams import StreamsGroup

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup | StreamsGroup
Results: TypeAlias = tuple[ErrorClass | None, ...]


def commit(
    command: CommitOffsets, group: AnyGroup | None, settings: GroupSettings, now: Now, out: Outbox
) -> Results:
    """Remember positions; an error for each that is refused. Raises if all are."""
    if group is not None:
        _check_commit(command, group, now)
    elif command.generation >= 0:
        raise GroupNotFound(f"group {command.group_id!r} does not exist")
    elif len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
        raise InvalidGroupId(f"a group's name may have {limits.GROUP_ID_CHARS_MAX} characters")
    expires_at_ms = None if command.retention_ms is None else now.wall_ms + command.retention_ms
    results: list[ErrorClass | None] = []
    for topic, partition, asked in command.offsets:
        if len(asked.metadata) > settings.offset_metadata_chars_max:
            results.append(OffsetMetadataTooLarge)
            continue
        results.append(None)
        value = _stored(asked, now.wall_ms, expires_at_ms)
        out.records.append(
            OffsetCommitted(
                group_id=command.group_id, topic=topic, partition=partition, value=value
            )
        )
    return tuple(results)


def pend(
    command: PendOffsets, group: AnyGroup | None, settings: GroupSettings, now: Now, out: Outbox
) -> Results:
    """Remember positions of an open transaction; as ``commit``."""
    if not command.group_id:
        raise InvalidGroupId("a group needs a name")
    if group is not None:
        _check_commit(command, group, now)
    elif command.generation >= 0:
        raise IllegalGeneration(f"group {command.group_id!r} does not exist")
    results: list[ErrorClass | None] = []
    for topic, partition, asked in command.offsets:
        if len(asked.metadata) > settings.offset_metadata_chars_max:
            results.append(OffsetMetadataTooLarge)
            continue
        results.append(None)
        out.records.append(
            OffsetPended(
                group_id=command.group_id,
                topic=topic,
                partition=partition,
                value=_stored(asked, now.wall_ms, asked.expires_at_ms),
                producer_id=command.producer_id,
                producer_epoch=command.producer_epoch,
            )
        )
    return tuple(results)


def _stored(
    asked: CommittedOffset, committed_at_ms: int, expires_at_ms: int | None
) -> CommittedOffset:
    """As ``dataclasses.replace``, at a third of its cost: commits are many."""
    return CommittedOffset(
        offset=asked.offset,
        leader_epoch=asked.leader_epoch,
        metadata=asked.metadata,
        committed_at_ms=committed_at_ms,
        expires_at_ms=expires_at_ms,
        topic_id=asked.topic_id,
    )


def _check_commit(command: CommitOffsets | PendOffsets, group: AnyGroup, now: Now) -> None:
    error = group.check_commit(command)
    if error is not None:
        raise error(f"group {command.group_id!r}: commit refused")
    group.note_commit(command.member_id, now)


def forget(command: ForgetOffsets, group: AnyGroup, offsets: OffsetTable, out: Outbox) -> Results:
    """Drop positions of topics that no member reads. Raises if the group does not allow it."""
    if error := group.check_offsets_deletable():
        raise error(f"group {command.group_id!r} has members")
    results: list[ErrorClass | None] = []
    for topic, partition in command.partitions:
        if group.reads_topic(topic):
            results.append(GroupSubscribedToTopic)
            continue
        results.append(None)
        known = offsets.get(command.group_id, topic, partition) is not None
        if known or offsets.is_pending(command.group_id, topic, partition):
            out.records.append(forgotten(command.group_id, topic, partition))
    return tuple(results)


def forget_all(group_id: str, offsets: OffsetTable, out: Outbox) -> None:
    """Drop every position of a group."""
    committed = {
        (topic, partition)
        for topic, partitions in offsets.of_group(group_id).items()
        for partition in partitions
    }
    for topic, partition in sorted(committed | offsets.pending_places(group_id)):
        out.records.append(forgotten(group_id, topic, partition))


def expire(
    group: AnyGroup, offsets: OffsetTable, settings: GroupSettings, now: Now, out: Outbox
) -> None:
    """Drop what the group has not needed for the retention time; drop the group if nothing is left."""
    group_id = group.group_id
    since_ms = _retention_starts(group)
    if since_ms is not None:
        expired = offsets.expired(
            group_id,
            now_ms=now.wall_ms,
            retention_ms=settings.offsets_retention_ms,
            since_ms=since_ms,
        )
        out.records.extend(
            forgotten(group_id, topic, partition)
            for topic, partition in expired
            if not group.reads_topic(topic) and not offsets.is_pending(group_id, topic, partition)
        )
    kept = sum(map(len, offsets.of_group(group_id).values())) - len(out.records)
    if kept == 0 and group.is_deserted and not offsets.pending_places(group_id):
        forget_group(group, out)


def forget_group(group: AnyGroup, out: Outbox) -> None:
    """The facts after which there is no such group."""
    if isinstance(group, ClassicGroup):
        out.records.append(GroupForgotten(group_id=group.group_id))
    else:
        out.records.extend(group.tombstones())


def forgotten(group_id: str, topic: str, partition: int) -> OffsetForgotten:
    return OffsetForgotten(group_id=group_id, topic=topic, partition=partition)


def _retention_starts(group: AnyGroup) -> Callable[[CommittedOffset], int] | None:
    """From when an offset's retention counts, or None while nothing of the group may expire."""
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
        return lambda committed: committed.committed_at_ms
    if group.state is GroupState.EMPTY:
        since_ms = group.state_since_ms
        if since_ms >= 0:
            return lambda _committed: since_ms
        return lambda committed: committed.committed_at_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return lambda committed: committed.committed_at_ms
    return None
