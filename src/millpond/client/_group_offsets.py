"""Committed offsets of a group: fetching them, and committing as a member."""

from collections.abc import Iterable, Mapping
from typing import Any

from millpond.base.ids import TopicPartition
from millpond.client._coordinators import CoordinatorLookup
from millpond.client.errors import BrokerRefused, CommitRefused
from millpond.client.records import GroupMetadata, OffsetAndMetadata
from millpond.wire.kafka.api import ApiKey, ErrorCode

_NO_MEMBER = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
_WAIT = frozenset(
    {ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_ID}
)


async def commit_offsets(
    coordinator: CoordinatorLookup,
    member: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    timeout_s: float,
) -> None:
    """Commit. Raises ``CommitRefused`` if this is no longer a member of the group."""
    from millpond.wire.kafka.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    if not offsets:
        return
    attempts = coordinator.cluster.attempts(f"committing for {member.group_id}", timeout_s)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), at in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(number, at.offset, at.leader_epoch, at.metadata)
        )
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=(await coordinator.cluster.topic(name, attempts=attempts)).topic_id,
                partitions=partitions,
            )
            for name, partitions in topics.items()
        ],
    )
    answer = await coordinator.ask(
        ApiKey.OFFSET_COMMIT, request, error_of=_first_error, attempts=attempts, again=_WAIT
    )
    code = _first_error(answer)
    if code in _NO_MEMBER:
        raise CommitRefused(
            f"group {member.group_id} has gone on without this member ({ErrorCode(code).name}): its"
            " partitions have a new reader. Call poll more often, give max.poll.interval.ms more time,"
            " or take fewer records at once (max.poll.records)"
        )
    if code:
        raise BrokerRefused(code, subject=f"committing for {member.group_id}")


async def committed_offsets(
    coordinator: CoordinatorLookup,
    member: GroupMetadata,
    partitions: Iterable[TopicPartition],
    *,
    require_stable: bool,
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the group's committed offsets; partitions without one are missing."""
    from millpond.client._group_protocol import by_topic
    from millpond.wire.kafka.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

    cluster = coordinator.cluster
    attempts = cluster.attempts(f"asking for the offsets of {member.group_id}", timeout_s)
    topics = by_topic(partitions)
    ids = {name: (await cluster.topic(name, attempts=attempts)).topic_id for name in topics}
    request = OffsetFetchRequest(
        group_id=member.group_id,
        topics=[OffsetFetchRequestTopic(name, numbers) for name, numbers in topics.items()],
        groups=[
            OffsetFetchRequestGroup(
                member.group_id,
                member_id=member.member_id or None,
                member_epoch=member.generation_id if member.member_id else -1,
                topics=[
                    OffsetFetchRequestTopics(name, ids[name], numbers)
                    for name, numbers in topics.items()
                ],
            )
        ],
        require_stable=require_stable,
    )
    answer = await coordinator.ask(
        ApiKey.OFFSET_FETCH, request, error_of=_fetch_error, attempts=attempts, again=_WAIT
    )
    code = _fetch_error(answer)
    if code:
        raise BrokerRefused(code, subject=f"offsets of {member.group_id}")
    return _found(answer, {topic_id: name for name, topic_id in ids.items()})


def _found(answer: Any, names: Mapping[Any, str]) -> dict[TopicPartition, OffsetAndMetadata]:
    topics = answer.groups[0].topics if answer.groups else answer.topics
    return {
        TopicPartition(
            topic.name or names[topic.topic_id], item.partition_index
        ): OffsetAndMetadata(
            item.committed_offset, item.metadata or "", item.committed_leader_epoch
        )
        for topic in topics
        for item in topic.partitions
        if item.committed_offset >= 0
    }


def _first_error(answer: Any) -> int:
    return next(
        (
            item.error_code
            for topic in answer.topics
            for item in topic.partitions
            if item.error_code
        ),
        0,
    )


def _fetch_error(answer: Any) -> int:
    group = answer.groups[0] if answer.groups else answer
    return group.error_code or _first_error(group)
