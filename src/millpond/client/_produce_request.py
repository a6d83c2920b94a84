"""Builds a produce request from batches, and reads the results in its response, by name or by id."""

from collections.abc import Iterable
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Batch
from millpond.client._transaction import Transaction
from millpond.client.aio import Cluster
from millpond.client.config import ProducerConfig
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

# Since this version topics are named by their id, which an old broker may not have sent.
_TOPIC_IDS_FROM = 13
_FIRST_GENERATION_MAX = (
    11  # with a later version the broker adds partitions to transactions by itself
)
_NO_ID = UUID(int=0)


def produce_request(
    batches: Iterable[Batch],
    cluster: Cluster,
    config: ProducerConfig,
    transaction: Transaction | None,
) -> tuple[ProduceRequest, int | None]:
    """Return the request, and the newest version that it may be sent in (None: any)."""
    topics: dict[str, TopicProduceData] = {}
    at_most: int | None = None
    for batch in batches:
        name, number = batch.partition
        topic = topics.get(name)
        if topic is None:
            info = cluster.known_topic(name)
            topic_id = _NO_ID if info is None else info.topic_id
            if topic_id == _NO_ID:
                at_most = _TOPIC_IDS_FROM - 1
            topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
        topic.partition_data.append(PartitionProduceData(index=number, records=batch.data))
    if transaction is not None and not transaction.second_generation:
        at_most = _FIRST_GENERATION_MAX
    request = ProduceRequest(
        transactional_id=None if transaction is None else transaction.transactional_id,
        acks=config.acks,
        timeout_ms=config.request_timeout_ms,
        topic_data=list(topics.values()),
    )
    return request, at_most


def results_of(
    request: ProduceRequest, response: ProduceResponse
) -> dict[TopicPartition, PartitionProduceResponse]:
    """Return the results by partition. Newer versions name topics by id: the ids are those of the request,
    whatever topic has the name by now.
    """
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), item.index): item
        for topic in response.responses
        for item in topic.partition_responses
    }
