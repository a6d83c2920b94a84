"""Writers: idempotent, with the same sequence again until there is an answer."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from millpond.record.builder import build_batch
from millpond.record.records import Headers
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.sim.cluster.client import Client, Refused, check
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.history import Glimpse, Place
from tests.sim.cluster.node import EPOCH_MS
from tests.sim.cluster.trace import Broken, Trace

PRODUCE_VERSION = 11
_BACKOFF = 1.0

# What a client tries again, after it has looked who leads.
PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
)


class Noting(Protocol):
    """Who is told what a writer does."""

    def attempt(self, place: Place, value: bytes) -> None:
        """It sends this."""
        ...

    def acknowledge(self, place: Place, value: bytes, offset: int) -> None:
        """All replicas have it."""
        ...

    def glimpse(self, place: Place) -> Glimpse:
        """It begins to ask a leader."""
        ...

    def written(self, place: Place, before: Glimpse, node: int, epoch: int, end: int) -> None:
        """The leader has taken it."""
        ...


class Producer:
    """Writes to some partitions of one topic, one batch at a time, each until it is acknowledged."""

    def __init__(
        self,
        name: str,
        client: Client,
        history: Noting,
        trace: Trace,
        *,
        topic: str,
        partitions: list[int],
        acks: int,
        pace: float,
        key_of: Callable[[bytes], bytes] | None = None,
        headers_of: Callable[[bytes], Headers] = lambda _value: (),
    ) -> None:
        self.name = name
        self._client = client
        self._history = history
        self._trace = trace
        self._topic = topic
        self._partitions = partitions
        self._acks = acks
        self._pace = pace
        self._key_of = key_of
        self._headers_of = headers_of
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._count = 0
        self._asked = (-1, -1)
        self.stopping = False
        self.waits_for = ""

    async def run(self) -> None:
        """Until told to stop; what is in hand is brought to its end."""
        chance = self._client.chance
        while not self.stopping:
            await asyncio.sleep(chance.random() * 2 * self._pace)
            await self._write(chance.choice(self._partitions), chance.randrange(1, 4))
        self.waits_for = ""

    async def _write(self, partition: int, count: int) -> None:
        place = self._topic, partition
        values = [f"{self.name}.{self._count + n}".encode() for n in range(count)]
        headers = [self._headers_of(value) for value in values]
        self._count += count
        for value in values:
            self._history.attempt(place, value)
        while True:
            self.waits_for = f"{self.name}: {values[0]!r} to {place}"
            try:
                producer_id, epoch = await self._known_identity()
                sequence = self._sequences.get(partition, 0)
                batch = build_batch(
                    [
                        (EPOCH_MS, self._key(value), value, asked)
                        for value, asked in zip(values, headers, strict=True)
                    ],
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=sequence,
                )
                before = self._history.glimpse(place)
                offset = await self._send(partition, bytes(batch))
            except Disconnected:
                self._client.forget_leader(self._topic, partition)
                await asyncio.sleep(_BACKOFF * self._client.chance.random())
                continue
            except Refused as refused:
                self._trace.note("refused", f"{self.name} {refused}")
                if not await self._goes_on(place, refused):
                    return
                self._client.forget_leader(self._topic, partition)
                await asyncio.sleep(_BACKOFF)
                continue
            break
        self._sequences[partition] = sequence + count
        self._trace.note("acked", f"{self.name} {values[0]!r} x{count} {place} {offset}")
        end = offset + count if offset >= 0 and self._acks == -1 else -1
        self._history.written(place, before, *self._asked, end)
        if self._acks == -1:
            for number, value in enumerate(values):
                self._history.acknowledge(place, value, offset + number if offset >= 0 else -1)

    def _key(self, value: bytes) -> bytes | None:
        return self._key_of(value) if self._key_of is not None else None

    async def _goes_on(self, place: tuple[str, int], refused: Refused) -> bool:
        """Whether to try the same again. What must not happen to this writer is a broken invariant.

        A leader that was replaced and has not heard of it knows nothing of what was written since. Writes
        name no epoch, so a writer can be led there, and must not believe what it hears.
        """
        if refused.code in PASSING:
            return True
        if self._acks == -1:
            asked = self._asked
            if await self._client.newest_leader(*place) != asked:
                return True
            raise Broken(f"{self.name} is refused at {place} with {refused}: something got lost")
        # A leader that was alone with a write is gone, and the write with it: begin anew.
        self._identity = None
        self._sequences.clear()
        return False

    async def _known_identity(self) -> tuple[int, int]:
        if self._identity is None:
            response = await self._client.ask_any(
                ApiKey.INIT_PRODUCER_ID,
                4,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            )
            check(response.error_code)
            self._identity = response.producer_id, response.producer_epoch
        return self._identity

    async def _send(self, partition: int, batch: bytes) -> int:
        leader, _epoch = self._asked = await self._client.leader(self._topic, partition)
        data = PartitionProduceData(index=partition, records=batch)
        response = await self._client.ask(
            leader,
            ApiKey.PRODUCE,
            PRODUCE_VERSION,
            ProduceRequest(
                acks=self._acks,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
            ),
        )
        (topic,) = response.responses
        (produced,) = topic.partition_responses
        if produced.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return -1
        check(produced.error_code)
        return int(produced.base_offset)
