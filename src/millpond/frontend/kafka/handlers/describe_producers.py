"""DescribeProducers: who writes to a partition, as far as the partition remembers (KIP-664)."""

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    without_repeats,
)
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: DescribeProducersRequest = decode(request)
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                _describe(context.engine, topic.name, index)
                for index in dict.fromkeys(topic.partition_indexes)
            ],
        )
        for topic in without_repeats(message.topics, lambda topic: topic.name)
    ]
    return encode(request, DescribeProducersResponse(topics=topics))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DescribeProducersRequest = decode(request)
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in message.topics
    ]
    return encode(request, DescribeProducersResponse(topics=topics))


def _describe(engine: Engine, topic: str, index: int) -> PartitionResponse:
    try:
        partition = engine.partitions.partition(topic, index)
    except MillpondError as error:
        return PartitionResponse(
            partition_index=index, error_code=code_of(error), error_message=str(error)
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=one.txn_first_offset,
            )
            for one in partition.log.active_producers()
        ],
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_PRODUCERS, min_version=0, max_version=0, handle=handle, refuse=refuse
)
