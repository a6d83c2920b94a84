"""Decisions about a group's offsets: commits, in and out of transactions, deletion, expiry.

Functions of the group, if there is one, and the table of offsets. They write records into the outbox. Whether
a client is a member, and which topics are read, the group says.
"""

from typing import TypeAlias

from millpond.base.errors import (
    GroupNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
)
from millpond.group.kind import Group, check_group_id
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
from millpond.group.records import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
)

Results: TypeAlias = tuple[ErrorClass | None, ...]


def commit(
    command: CommitOffsets, group: Group | None, settings: GroupSettings, now: Now, out: Outbox
) -> Results:
    """Store offsets. Return an error for each that is refused; raise if all are."""
    if group is not None:
        _check_commit(command, group, now)
    elif command.generation >= 0:
        raise GroupNotFound(f"group {command.group_id!r} does not exist")
    else:
        check_group_id(command.group_id)
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
    command: PendOffsets, group: Group | None, settings: GroupSettings, now: Now, out: Outbox
) -> Results:
    """Store offsets of an open transaction; as ``commit``."""
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


def _check_commit(command: CommitOffsets | PendOffsets, group: Group, now: Now) -> None:
    error = group.check_commit(command)
    if error is not None:
        raise error(f"group {command.group_id!r}: commit refused")
    group.note_commit(command.member_id, now)


def forget(command: ForgetOffsets, group: Group, offsets: OffsetTable, out: Outbox) -> Results:
    """Delete offsets of topics that no member reads. Raises if the group does not allow it."""
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
    """Delete every offset of a group."""
    committed = {
        (topic, partition)
        for topic, partitions in offsets.of_group(group_id).items()
        for partition in partitions
    }
    for topic, partition in sorted(committed | offsets.pending_places(group_id)):
        out.records.append(forgotten(group_id, topic, partition))


def expire(
    group: Group, offsets: OffsetTable, settings: GroupSettings, now: Now, out: Outbox
) -> None:
    """Delete offsets whose retention time is over; delete the group if nothing is left of it."""
    group_id = group.group_id
    since_ms = group.retention_start()
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
        out.records.extend(group.tombstones())


def forgotten(group_id: str, topic: str, partition: int) -> OffsetForgotten:
    return OffsetForgotten(group_id=group_id, topic=topic, partition=partition)
