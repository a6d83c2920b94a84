"""Sends encoded batches: one at a time for each partition, all partitions concurrently.

One batch in flight for a partition keeps the sequence numbers in order whatever is sent again, so that the
broker drops duplicates. A batch that is too large for its topic is split in half and sent again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.client._attempts import Attempts
from millpond.client._connection import Connection
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ConnectionLost
from millpond.record.batch import read_header
from millpond.spark.errors import UnknownTopic
from millpond.spark.sink_errors import RecordTooLarge, TransactionLost
from millpond.spark.transactions import Transactions, lost
from millpond.spark.transactions_model import Transaction, Verdict, verdict
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL = -1
ROUND_BYTES_MAX = 8 * 1024 * 1024

# From this version on topics are named by their id, and the broker adds partitions to transactions.
_TOPIC_IDS_FROM = 13
_FIRST_GENERATION_MAX = 11
_NO_ID = UUID(int=0)

# (first row, first sequence number, maximum of bytes) -> batches
Encode = Callable[[int, int, int], Sequence[bytearray]]


@dataclass(slots=True)
class PartitionRows:
    """Rows for one partition: their batches, and how to encode them again with other sizes."""

    place: TopicPartition
    batches: deque[bytearray]
    encode: Encode
    sent: int = 0


class Sender:
    """Sends batches as one producer, in a transaction if there is one."""

    def __init__(
        self,
        cluster: Cluster,
        transactions: Transactions,
        *,
        transaction: Transaction | None,
        delivery_s: float,
        request_s: float,
    ) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._transaction = transaction
        self._delivery_s = delivery_s
        self._request_s = request_s
        self._announced: set[TopicPartition] = set()

    async def send(self, work: Iterable[PartitionRows]) -> None:
        """Send all batches; returns when the last one is acknowledged."""
        left = [one for one in work if one.batches]
        await self._announce(left)
        while left:
            size = 0
            batches: dict[TopicPartition, bytearray] = {}
            for one in left:
                size += len(one.batches[0])
                if batches and size > ROUND_BYTES_MAX:
                    break
                batches[one.place] = one.batches[0]
            outcomes = await self._produce(batches)
            for one in left:
                if one.place in batches:
                    self._settle(one, outcomes[one.place])
            left = [one for one in left if one.batches]

    async def _announce(self, work: Sequence[PartitionRows]) -> None:
        if self._transaction is None or self._transaction.second_generation:
            return
        fresh = [one.place for one in work if one.place not in self._announced]
        if fresh:
            await self._transactions.add_partitions(self._transaction, fresh)
            self._announced.update(fresh)

    def _settle(self, one: PartitionRows, refused: BrokerRefused | None) -> None:
        batch = one.batches[0]
        header = read_header(batch)
        if refused is None:
            one.sent += header.record_count
            one.batches.popleft()
            return
        if refused.code == ErrorCode.MESSAGE_TOO_LARGE:
            if header.record_count > 1:
                cut = one.encode(one.sent, header.base_sequence, len(batch) // 2)
                one.batches = deque(cut)
                return
            raise RecordTooLarge(
                f"a record of {len(batch)} bytes is more than topic {one.place.topic} takes: raise the"
                f" topic's max.message.bytes, or choose another option kafka.compression.type ({refused})"
            )
        if refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise unknown_topic(one.place.topic, refused)
        if verdict(int(refused.code)) is Verdict.LOST:
            raise TransactionLost(lost(refused))
        raise refused

    async def _produce(
        self, batches: dict[TopicPartition, bytearray]
    ) -> dict[TopicPartition, BrokerRefused | None]:
        places = ", ".join(str(place) for place in batches)
        attempts = self._cluster.attempts(
            f"writing to {places}", self._delivery_s, request_s=self._request_s
        )
        await self._transactions.reach(attempts)

        async def ask(
            connection: Connection, places: list[TopicPartition]
        ) -> dict[TopicPartition, BrokerRefused | None]:
            return await self._ask(
                connection, {place: batches[place] for place in places}, attempts
            )

        return await self._cluster.ask_leaders(batches, ask, attempts=attempts, create=True)

    async def _ask(
        self,
        connection: Connection,
        batches: dict[TopicPartition, bytearray],
        attempts: Attempts,
    ) -> dict[TopicPartition, BrokerRefused | None]:
        ids: dict[str, UUID] = {}
        data: dict[str, list[PartitionProduceData]] = {}
        for place, batch in batches.items():
            topic = await self._cluster.topic(place.topic, create=True, attempts=attempts)
            ids[place.topic] = topic.topic_id
            data.setdefault(place.topic, []).append(
                PartitionProduceData(index=place.partition, records=batch)
            )
        at_most = None if _NO_ID not in ids.values() else _TOPIC_IDS_FROM - 1
        if self._transaction is not None and not self._transaction.second_generation:
            at_most = _FIRST_GENERATION_MAX
        answer: ProduceResponse = await connection.request(
            ApiKey.PRODUCE,
            ProduceRequest(
                transactional_id=None
                if self._transaction is None
                else self._transaction.transactional_id,
                acks=ACKS_ALL,
                timeout_ms=min(attempts.left_ms(), int(self._request_s * 1000)),
                topic_data=[
                    TopicProduceData(name=name, topic_id=ids[name], partition_data=partitions)
                    for name, partitions in data.items()
                ],
            ),
            version=connection.version_of(ApiKey.PRODUCE, at_most),
        )
        names = {topic_id: name for name, topic_id in ids.items()}
        outcomes: dict[TopicPartition, BrokerRefused | None] = {}
        for found in answer.responses:
            name = found.name or names.get(found.topic_id, "")
            for one in found.partition_responses:
                place = TopicPartition(name, one.index)
                fine = one.error_code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
                reason = one.error_message
                if one.record_errors:
                    reason = one.record_errors[0].batch_index_error_message or reason
                outcomes[place] = (
                    None if fine else BrokerRefused(one.error_code, reason, subject=str(place))
                )
        if outcomes.keys() != batches.keys():
            raise ConnectionLost(f"{connection.address} did not answer for all partitions")
        return outcomes


def unknown_topic(topic: str, refused: BrokerRefused) -> UnknownTopic:
    """Return the error that says which option names the topic, and what to do."""
    return UnknownTopic(
        f'topic {topic}, named by the option "topic" or the column "topic", cannot be written to: {refused}.'
        " Create it, or let the broker do so (auto.create.topics.enable)"
    )
