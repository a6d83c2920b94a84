"""A transactional producer by hand, in both generations of the protocol, and a reader of committed data.

They speak bytes to a ``MemoryBroker``. A writer does what Kafka's producers do: it counts sequences for each
partition, starts again at 0 when its epoch changes, and (first generation) announces partitions before it
writes to them.
"""

from typing import Any

from millpond.record.batch import iter_batches
from millpond.record.control import EndTxnMarker
from millpond.record.records import decode_batch
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from millpond.wire.kafka.messages.end_txn import EndTxnRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from millpond.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    fetch,
    fetched,
    produce,
    produced,
)


class Writer:
    """One incarnation of a transactional id."""

    def __init__(
        self, broker: MemoryBroker, name: str, *, second_generation: bool, timeout_ms: int = 60_000
    ) -> None:
        self.client = broker.client()
        self.name = name
        self.second_generation = second_generation
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}
        self._announced: set[tuple[str, int]] = set()

    async def find(self) -> None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
        answer = await self.client.ask(ApiKey.FIND_COORDINATOR, 4, request)
        assert answer.coordinators[0].error_code == 0

    async def init(self, *, again: bool = False) -> int:
        """Take the transactional id, or (``again``) bump the own epoch; the error code."""
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=self.timeout_ms
        )
        if again:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        answer = await self.client.ask(ApiKey.INIT_PRODUCER_ID, 5, request)
        if answer.error_code == 0:
            self._go_on_as(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def announce(self, topic: str, partition: int) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        answer = await self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        (found,) = answer.results_by_topic_v3_and_below
        code = int(found.results_by_partition[0].partition_error_code)
        if code == 0:
            self._announced.add((topic, partition))
        return code

    async def send(
        self, value: bytes, partition: int = 0, *, topic: str = "t", announce: bool = True
    ) -> int:
        """Write one record in the transaction; the error code of the first request that failed."""
        place = topic, partition
        if not self.second_generation and announce and place not in self._announced:
            code = await self.announce(topic, partition)
            if code:
                return code
        sequence = self._sequences.get(place, 0)
        records = batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce(records, topic=topic, partition=partition)
        request.transactional_id = self.name
        version = 12 if self.second_generation else 10
        code = int(produced(await self.client.ask(ApiKey.PRODUCE, version, request)).error_code)
        if code == 0:
            self._sequences[place] = sequence + 1
        return code

    async def commit_offset(
        self, group: str, offset: int, *, topic: str = "t", partition: int = 0, **fields: Any
    ) -> int:
        """Commit a position in the transaction; the error code of the first request that failed."""
        if not self.second_generation:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group,
            )
            answer = await self.client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, add)
            if answer.error_code:
                return int(answer.error_code)
        position = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[position])],
            **fields,
        )
        version = 5 if self.second_generation else 3
        answer = await self.client.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
        return int(answer.topics[0].partitions[0].error_code)

    async def end(self, *, commit: bool) -> int:
        """Commit or abort; the error code."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = 5 if self.second_generation else 3
        answer = await self.client.ask(ApiKey.END_TXN, version, request)
        if answer.error_code == 0:
            self._announced.clear()
            if self.second_generation:
                self._go_on_as(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def _go_on_as(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch
        self._announced.clear()


async def read_committed(
    broker: MemoryBroker, partition: int = 0, *, topic: str = "t", bytes_max: int = 1 << 20
) -> list[bytes]:
    """Every value that a reader of committed data sees, in order, as Kafka's consumer works it out."""
    client = broker.client()
    values: list[bytes] = []
    offset = 0
    while True:
        request = fetch(
            offset,
            topic=topic,
            partition=partition,
            wait_ms=0,
            partition_bytes_max=bytes_max,
            isolation_level=1,
        )
        answer = fetched(await client.ask(ApiKey.FETCH, 12, request))
        assert answer.error_code == 0, answer
        assert answer.last_stable_offset <= answer.high_watermark
        if offset >= answer.last_stable_offset:
            assert not answer.records
            return values
        aborted = sorted(
            (one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()
        )
        before = offset
        offset = _take(answer.records, offset, aborted, values)
        assert offset > before, "a reader of committed data makes no progress"


def _take(data: Any, offset: int, aborted: list[tuple[int, int]], values: list[bytes]) -> int:
    skipped: set[int] = set()
    for position, header in iter_batches(data):
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            (record,) = decode_batch(data, position)
            if not EndTxnMarker.parse(record).committed:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            values += [
                record.value or b""
                for record in decode_batch(data, position)
                if record.offset >= offset
            ]
        offset = header.next_offset
    return offset


async def committed_offset(
    broker: MemoryBroker, group: str, *, topic: str = "t", partition: int = 0, stable: bool = True
) -> tuple[int, int]:
    """A group's position and the error code, as a consumer that waits for transactions asks for it."""
    asked = OffsetFetchRequestGroup(
        group_id=group,
        topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
    )
    request = OffsetFetchRequest(groups=[asked], require_stable=stable)
    answer = await broker.client().ask(ApiKey.OFFSET_FETCH, 8, request)
    found = answer.groups[0].topics[0].partitions[0]
    return int(found.committed_offset), int(found.error_code)
