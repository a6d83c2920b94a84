"""OffsetFetch: how far groups have read, of the partitions asked for or of all.

Until version 7 a request asks about one group, from 8 on about many; from 10 on topics go by id. A
position of a topic that was deleted and made again is no position.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from millpond.base.errors import MillpondError, NotCoordinator
from millpond.engine.api import Engine
from millpond.engine.api.groups import CommittedOffset
from millpond.frontend.kafka.groups import code_for
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    without_repeats,
)
from millpond.frontend.kafka.slices import SLICE, exhausted
from millpond.frontend.kafka.transactions import when_all_durable
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from millpond.wire.kafka.primitives import NO_ID

_MANY_FROM = 8
_TOPIC_IDS_FROM = 10
_NOWHERE = CommittedOffset(offset=-1)


# Four bytes name a partition, and its answer is made of objects: some thousand of them at once.
_AT_ONCE_BYTES_MAX = 16 * 1024


def handle(context: Context, request: Request) -> Result:
    if request.size > _AT_ONCE_BYTES_MAX:
        return _in_slices(context, request)
    message: OffsetFetchRequest = decode(request)
    by_id = request.api_version >= _TOPIC_IDS_FROM
    fetch = _Fetch(context.engine, by_id=by_id, stable=message.require_stable)
    groups = [fetch.group(one) for one in _asked(request, message)]
    return when_all_durable(fetch.unsettled, encode(request, _response(request, groups)))


async def _in_slices(context: Context, request: Request) -> Payload:
    message: OffsetFetchRequest = await asyncio.to_thread(decode, request)
    asked = await asyncio.to_thread(_asked, request, message)
    by_id = request.api_version >= _TOPIC_IDS_FROM
    fetch = _Fetch(context.engine, by_id=by_id, stable=message.require_stable)
    groups: list[OffsetFetchResponseGroup] = []
    for one in asked:
        topics, one.topics = one.topics, None if one.topics is None else []
        group = fetch.group(one)
        if topics and not group.error_code:
            await exhausted(fetch.in_steps(one.group_id, topics, group.topics))
        await asyncio.sleep(0)
        groups.append(group)
    try:
        for future in fetch.unsettled:
            await asyncio.shield(future)
    except MillpondError as error:
        raise NotCoordinator("what was read did not last") from error
    return await asyncio.to_thread(lambda: encode(request, _response(request, groups)))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: OffsetFetchRequest = decode(request)
    groups = [
        OffsetFetchResponseGroup(group_id=one.group_id, error_code=code)
        for one in _asked(request, message)
    ]
    return encode(request, _response(request, groups))


def _asked(request: Request, message: OffsetFetchRequest) -> Sequence[OffsetFetchRequestGroup]:
    if request.api_version >= _MANY_FROM:
        return without_repeats(message.groups, lambda group: group.group_id)
    topics = None
    if message.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=one.name, partition_indexes=one.partition_indexes)
            for one in message.topics
        ]
    return [OffsetFetchRequestGroup(group_id=message.group_id, topics=topics)]


class _Fetch:
    """How one request wants its answer: topics by id or by name, and only what no transaction may change."""

    __slots__ = ("_by_id", "_engine", "_stable", "unsettled")

    def __init__(self, engine: Engine, *, by_id: bool, stable: bool) -> None:
        self._engine = engine
        self._by_id = by_id
        self._stable = stable
        # The answer is sent when these are done.
        self.unsettled: set[asyncio.Future[None]] = set()

    def group(self, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        try:
            return self._group(asked)
        except MillpondError as error:
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code_of(error))

    def _group(self, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        error = self._engine.groups.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
        if error is not None:
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code_for(error))
        if asked.topics is None:
            topics = list(self._all_topics(asked.group_id))
        else:
            topics = [self._topic(asked.group_id, one) for one in asked.topics]
        settled = self._engine.groups.settled(asked.group_id)
        if settled is not None:
            self.unsettled.add(settled)
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)

    def in_steps(
        self,
        group_id: str,
        asked: Sequence[OffsetFetchRequestTopics],
        found: list[OffsetFetchResponseTopics],
    ) -> Iterator[None]:
        """Add the answers for these topics, stopping after each slice."""
        looked_at = 0
        for topic in asked:
            indexes = topic.partition_indexes
            topic.partition_indexes = indexes[:SLICE]
            found.append(answer := self._topic(group_id, topic))
            for start in range(SLICE, len(indexes), SLICE):
                yield
                topic.partition_indexes = indexes[start : start + SLICE]
                answer.partitions += self._topic(group_id, topic).partitions
            looked_at += max(1, len(topic.partition_indexes))
            if looked_at >= SLICE:
                looked_at = 0
                yield

    def _all_topics(self, group_id: str) -> Iterable[OffsetFetchResponseTopics]:
        for name, offsets in self._engine.groups.committed(group_id).items():
            image = self._engine.metadata.image.topics.get(name)
            if image is None and self._by_id:
                continue  # it has no id any more
            topic_id = NO_ID if image is None else image.topic_id
            partitions = [
                self._answer(group_id, name, index, committed)
                for index, committed in offsets.items()
                if not _is_of_another(committed, topic_id)
            ]
            if partitions:
                yield OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)

    def _topic(self, group_id: str, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        image = (
            self._engine.metadata.image.topics_by_id.get(asked.topic_id) if self._by_id else None
        )
        if self._by_id and image is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            partitions = [_partition(index, _NOWHERE, code) for index in asked.partition_indexes]
            return OffsetFetchResponseTopics(topic_id=asked.topic_id, partitions=partitions)
        name = image.name if image is not None else asked.name
        known = image if image is not None else self._engine.metadata.image.topics.get(name)
        topic_id = NO_ID if known is None else known.topic_id
        offsets = self._engine.groups.committed(group_id).get(name, {})
        partitions = []
        for index in asked.partition_indexes:
            committed = offsets.get(index, _NOWHERE)
            if _is_of_another(committed, topic_id):
                committed = _NOWHERE
            partitions.append(self._answer(group_id, name, index, committed))
        return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)

    def _answer(
        self, group_id: str, topic: str, index: int, committed: CommittedOffset
    ) -> OffsetFetchResponsePartitions:
        if self._stable and self._engine.groups.is_pending(group_id, topic, index):
            return _partition(index, _NOWHERE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _partition(index, committed)


def _is_of_another(committed: CommittedOffset, topic_id: UUID) -> bool:
    """Return whether the offset belongs to an earlier topic of the same name."""
    return NO_ID not in {committed.topic_id, topic_id} and committed.topic_id != topic_id


def _partition(
    index: int, committed: CommittedOffset, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _response(request: Request, groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    if request.api_version >= _MANY_FROM:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


HANDLER = Handler(
    api_key=ApiKey.OFFSET_FETCH, min_version=1, max_version=10, handle=handle, refuse=refuse
)
