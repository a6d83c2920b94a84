"""DeleteRecords: move the start of partitions up, on every replica that is there to do so."""

import asyncio
from collections.abc import Sequence

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine, Partition
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
from millpond.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(context: Context, request: Request) -> Result:
    message: DeleteRecordsRequest = decode(request)
    engine = context.engine
    waiting: list[_Wait] = []
    with engine.partitions.deleting_records():
        topics = [
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(engine, topic.name, one, waiting)
                    for one in without_repeats(topic.partitions, lambda one: one.partition_index)
                ],
            )
            for topic in without_repeats(message.topics, lambda topic: topic.name)
        ]
    response = DeleteRecordsResponse(topics=topics)
    if waiting:
        return _when_moved(engine, request, response, waiting, message.timeout_ms)
    return encode(request, response)


async def _when_moved(
    engine: Engine,
    request: Request,
    response: DeleteRecordsResponse,
    waiting: Sequence["_Wait"],
    timeout_ms: int,
) -> Payload:
    """The answer once every replica that is up has moved its start, or the client's time is over."""
    deletions = engine.deletions

    async def wait(result: DeleteRecordsPartitionResult, partition: Partition, upto: int) -> None:
        try:
            result.low_watermark = await deletions.done(partition, upto, timeout_ms=timeout_ms)
        except MillpondError as error:
            result.error_code = code_of(error)
            result.low_watermark = deletions.low_watermark(partition)

    async with asyncio.TaskGroup() as waits:
        for one in waiting:
            waits.create_task(wait(*one))
    return encode(request, response)


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


# An answer that waits, for which partition, and for which start.
_Wait = tuple[DeleteRecordsPartitionResult, Partition, int]


def _delete(
    engine: Engine, topic: str, wanted: DeleteRecordsPartition, waiting: list[_Wait]
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        start = engine.partitions.delete_records(topic, index, wanted.offset)
    except MillpondError as error:
        return _failed(wanted, code_of(error))
    partition = engine.partitions.partition(topic, index)
    upto = wanted.offset if wanted.offset >= 0 else start
    low = engine.deletions.low_watermark(partition)
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=low)
    if low < upto:
        waiting.append((result, partition, upto))
    return result


def _failed(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=-1, error_code=code
    )


HANDLER = Handler(
    api_key=ApiKey.DELETE_RECORDS, min_version=0, max_version=2, handle=handle, refuse=refuse
)
