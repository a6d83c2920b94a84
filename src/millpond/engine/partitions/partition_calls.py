"""Calls of this node to the leader of a partition, local or remote: find a position, append a batch."""

import asyncio
from typing import TypeVar

from millpond.base.errors import (
    LongValidation,
    NotLeader,
    PeerUnreachable,
    RequestTimedOut,
    UnknownTopic,
)
from millpond.base.ids import Offset, TopicPartition
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.peers import AppendBatch, FindOffset, PeerHandlers, PeerRequest, Peers
from millpond.engine.runtime.futures import failure_of
from millpond.replication.partition import Partition

AnswerT = TypeVar("AnswerT")

_ASK_TIMEOUT_MS = 5_000
_WRITE_TIMEOUT_MS = 10_000
# How often a leader that may have moved is asked again, and after which time first.
_ATTEMPTS = 6
_BACKOFF_MS = 100

_PASSING = (NotLeader, PeerUnreachable, RequestTimedOut)


class PartitionCalls:
    """Calls leaders of partitions, and answers other nodes as a leader."""

    def __init__(
        self,
        *,
        info: NodeInfo,
        metadata: MetadataView,
        partitions: Partitions,
        peer_handlers: PeerHandlers,
        peers: Peers | None,
    ) -> None:
        self._info = info
        self._metadata = metadata
        self._partitions = partitions
        self._peer_handlers = peer_handlers
        self._peers = peers
        self._peer_handlers.serve(FindOffset, self.on_find)
        self._peer_handlers.serve(AppendBatch, self.on_append)

    async def find(self, partition: TopicPartition, place: int) -> Offset:
        """Return the offset of a place (``LATEST``, ``EARLIEST``). Raises the leader's error."""
        question = FindOffset(partition=partition, place=place)
        return await self._ask(partition, question, timeout_ms=_ASK_TIMEOUT_MS)

    async def append(self, partition: TopicPartition, records: bytes) -> Offset:
        """Write a batch to all in-sync replicas. One whose answer is lost is written again."""
        topic = self._metadata.image.topics.get(partition.topic)
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
        topic = self._metadata.image.topics.get(partition.topic)
        if topic is None or partition.partition not in range(len(topic.partitions)):
            raise UnknownTopic(f"there is no partition {partition.topic}-{partition.partition}")
        leader = topic.partitions[partition.partition].leader
        if leader == self._info.node_id:
            return await self._peer_handlers.answer(question)
        if leader < 0 or self._peers is None:
            raise NotLeader(f"nobody leads {partition.topic}-{partition.partition} now")
        return await self._peers.call(leader, question, timeout_ms=timeout_ms)

    # --- as a leader -------------------------------------------------------------------------------

    async def on_find(self, question: FindOffset) -> Offset:
        """Return the offset of a place in a partition that this node leads."""
        partition = self._partitions.partition(*question.partition)
        return self._partitions.find_offset(partition, question.place).offset

    async def on_append(self, question: AppendBatch) -> Offset:
        """Write what another node made."""

        def find() -> Partition:
            topic = self._partitions.topic_by_id(question.topic_id)
            return self._partitions.partition(topic.name, question.partition.partition)

        partition = find()
        records = bytearray(question.records)
        try:
            appended = self._partitions.append_to(partition, records, acks=-1)
        except LongValidation:
            appended = await self._partitions.append_in_thread(find, partition, records, acks=-1)
        if appended.durable is not None:
            # A shield does not look at a failure that comes when its waiter has given up.
            appended.durable.add_done_callback(failure_of)
            try:
                async with asyncio.timeout(question.timeout_ms / 1000):
                    await asyncio.shield(appended.durable)
            except TimeoutError:
                raise RequestTimedOut("the batch is not on every in-sync replica yet") from None
        return appended.info.first_offset
