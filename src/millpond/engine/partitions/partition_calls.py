"""What this node itself wants of a partition's leader, wherever that is: a position, or to write a batch."""

import asyncio
from typing import TYPE_CHECKING, TypeVar

from millpond.base.errors import (
    LongValidation,
    NotLeader,
    PeerUnreachable,
    RequestTimedOut,
    UnknownTopic,
)
from millpond.base.ids import Offset, TopicPartition
from millpond.engine.peers import AppendBatch, FindOffset, PeerRequest
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

AnswerT = TypeVar("AnswerT")

_ASK_TIMEOUT_MS = 5_000
_WRITE_TIMEOUT_MS = 10_000
# How often a leader that may have moved is asked again, and after which time first.
_ATTEMPTS = 6
_BACKOFF_MS = 100

# Of a produce request that allows the same.
_VERSION = 13

_PASSING = (NotLeader, PeerUnreachable, RequestTimedOut)


class PartitionCalls:
    """The way to leaders of partitions, and what this node answers as one."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        engine.desk.serve(FindOffset, self.on_find)
        engine.desk.serve(AppendBatch, self.on_append)

    async def find(self, partition: TopicPartition, place: int) -> Offset:
        """Where a place is. Raises what the leader refuses with."""
        question = FindOffset(partition=partition, place=place)
        return await self._ask(partition, question, timeout_ms=_ASK_TIMEOUT_MS)

    async def append(self, partition: TopicPartition, records: bytes) -> Offset:
        """Write a batch to all in-sync replicas. One whose answer is lost is written again."""
        topic = self._engine.image.topics.get(partition.topic)
        if topic is None:
            raise UnknownTopic(f"there is no topic {partition.topic}")
        question = AppendBatch(
            partition=partition,
            topic_id=topic.topic_id,
            records=records,
            timeout_ms=_WRITE_TIMEOUT_MS,
        )
        return await self._ask(partition, question, timeout_ms=2 * _WRITE_TIMEOUT_MS)

    async def _ask(
        self, partition: TopicPartition, question: PeerRequest[AnswerT], *, timeout_ms: int
    ) -> AnswerT:
        backoff_ms = _BACKOFF_MS
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms *= 2
            try:
                return await self._ask_once(partition, question, timeout_ms)
            except _PASSING as error:
                last = error
        raise last

    async def _ask_once(
        self, partition: TopicPartition, question: PeerRequest[AnswerT], timeout_ms: int
    ) -> AnswerT:
        engine = self._engine
        topic = engine.image.topics.get(partition.topic)
        if topic is None or partition.partition not in range(len(topic.partitions)):
            raise UnknownTopic(f"there is no partition {partition.topic}-{partition.partition}")
        leader = topic.partitions[partition.partition].leader
        if leader == engine.node.node_id:
            return await engine.desk.answer(question)
        if leader < 0 or engine.peers is None:
            raise NotLeader(f"nobody leads {partition.topic}-{partition.partition} now")
        return await engine.peers.call(leader, question, timeout_ms=timeout_ms)

    # --- as a leader -------------------------------------------------------------------------------

    async def on_find(self, question: FindOffset) -> Offset:
        """Where a place is in a partition that this node leads."""
        partition = self._engine.partition(*question.partition)
        return self._engine.find_offset(partition, question.place).offset

    async def on_append(self, question: AppendBatch) -> Offset:
        """Write what another node made."""
        engine = self._engine

        def find() -> Partition:
            topic = engine.topic_by_id(question.topic_id)
            return engine.partition(topic.name, question.partition.partition)

        partition = find()
        records = bytearray(question.records)
        try:
            appended = engine.append_to(partition, records, acks=-1, produce_version=_VERSION)
        except LongValidation:
            appended = await engine.append_beside(
                find, partition, records, acks=-1, produce_version=_VERSION
            )
        if appended.durable is not None:
            try:
                async with asyncio.timeout(question.timeout_ms / 1000):
                    await asyncio.shield(appended.durable)
            except TimeoutError:
                raise RequestTimedOut("the batch is not on every in-sync replica yet") from None
        return appended.info.first_offset
