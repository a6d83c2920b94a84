"""DeleteRecords: move the start of partitions up."""

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.frontend.kafka.errors import code_of
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
from millpond.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(context: Context, request: Request) -> Result:
    message: DeleteRecordsRequest = decode(request)
    with context.engine.deleting_records():
        topics = [
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(context.engine, topic.name, one)
                    for one in without_repeats(topic.partitions, lambda one: one.partition_index)
                ],
            )
            for topic in without_repeats(message.topics, lambda topic: topic.name)
        ]
    return encode(request, DeleteRecordsResponse(topics=topics))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DeleteRecordsRequest = decode(request)
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_failed(one, code) for one in topic.partitions],
        )
        for topic in message.topics
    ]
    return encode(request, DeleteRecordsResponse(topics=topics))


def _delete(
    engine: Engine, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        start = engine.delete_records(topic, wanted.partition_index, wanted.offset)
    except MillpondError as error:
        return _failed(wanted, code_of(error))
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=start)


def _failed(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=-1, error_code=code
    )


HANDLER = Handler(
    api_key=ApiKey.DELETE_RECORDS, min_version=0, max_version=2, handle=handle, refuse=refuse
)
