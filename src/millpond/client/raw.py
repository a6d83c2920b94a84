"""Record batches as bytes, without a Python object for each record.

For code that moves batches without decoding them (the Spark connector, the broker's own bus). One call is one
round of requests; leaders are found again when they have moved.
"""

from collections.abc import Mapping
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.client._admin_model import by_topic
from millpond.client._connection import Connection
from millpond.client._delivery import Appended
from millpond.client._fetch_loop import FetchLimits, RawFetch, ask_leader
from millpond.client.aio import Cluster
from millpond.client.config import ACKS_ALL, ACKS_NONE
from millpond.client.errors import BrokerRefused
from millpond.record import ByteBuffer, read_header
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

# From this version of Produce on, topics are named by id.
_TOPIC_IDS_FROM = 13
_FIRST_GENERATION_MAX = 11
_NO_ID = UUID(int=0)


async def fetch_raw(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    *,
    isolation_level: int = 0,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 * 1024 * 1024,
    partition_bytes: int = 1024 * 1024,
    timeout_s: float | None = None,
    what: str = "fetching",
) -> dict[TopicPartition, RawFetch | BrokerRefused]:
    """Send one fetch to each leader. Checksums are not checked; ``record.check_crc`` does that."""
    attempts = cluster.attempts(what, timeout_s)
    limits = FetchLimits(
        isolation_level=isolation_level,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        partition_bytes=partition_bytes,
    )

    async def ask(
        connection: Connection, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, RawFetch | BrokerRefused]:
        wanted = {place: positions[place] for place in partitions}
        return (await ask_leader(cluster, connection, wanted, limits, attempts=attempts)).partitions

    return await cluster.ask_leaders(positions, ask, attempts=attempts)


async def produce_raw(
    cluster: Cluster,
    batches: Mapping[TopicPartition, ByteBuffer],
    *,
    acks: int = ACKS_ALL,
    transactional_id: str | None = None,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Appended | BrokerRefused]:
    """Write one batch to each partition, as ``record.build_batch`` makes them.

    Retriable errors are retried: give the batches a producer id and sequences, or they may be written twice.
    """
    attempts = cluster.attempts("writing", timeout_s)

    async def ask(
        connection: Connection, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Appended | BrokerRefused]:
        topics, names = [], {}
        for name, numbers in by_topic(partitions).items():
            info = await cluster.topic(name, attempts=attempts)
            names[info.topic_id] = name
            topics.append(
                TopicProduceData(
                    name=name,
                    topic_id=info.topic_id,
                    partition_data=[
                        PartitionProduceData(
                            index=number, records=batches[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
            )
        at_most = _TOPIC_IDS_FROM - 1 if _NO_ID in names else None
        second_generation = connection.features.get("transaction.version", 0) >= 2
        if transactional_id is not None and not second_generation:
            at_most = _FIRST_GENERATION_MAX
        answer = await connection.request(
            ApiKey.PRODUCE,
            ProduceRequest(
                transactional_id=transactional_id,
                acks=acks,
                timeout_ms=attempts.left_ms(),
                topic_data=topics,
            ),
            version=connection.version_of(ApiKey.PRODUCE, at_most),
            expect_response=acks != ACKS_NONE,
        )
        if answer is None:
            return {place: _appended(place, batches[place], -1, -1) for place in partitions}
        found: dict[TopicPartition, Appended | BrokerRefused] = {}
        for topic in answer.responses:
            for item in topic.partition_responses:
                place = TopicPartition(topic.name or names[topic.topic_id], item.index)
                if item.error_code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                    found[place] = _appended(
                        place, batches[place], item.base_offset, item.log_append_time_ms
                    )
                else:
                    found[place] = BrokerRefused(
                        item.error_code, item.error_message, subject=str(place)
                    )
        return found

    return await cluster.ask_leaders(batches, ask, attempts=attempts, create=True)


def _appended(place: TopicPartition, batch: ByteBuffer, offset: int, time_ms: int) -> Appended:
    return Appended(
        partition=place,
        base_offset=offset,
        record_count=read_header(batch).record_count,
        append_time_ms=time_ms,
    )
