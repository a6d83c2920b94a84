"""OffsetForLeaderEpoch: where an epoch ended, so that a reader can find out whether its records
still stand.
"""

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(context: Context, request: Request) -> Result:
    message: OffsetForLeaderEpochRequest = decode(request)
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_find(context.engine, topic.topic, one) for one in topic.partitions],
        )
        for topic in message.topics
    ]
    return encode(request, OffsetForLeaderEpochResponse(topics=topics))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: OffsetForLeaderEpochRequest = decode(request)
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(partition=one.partition, error_code=code) for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return encode(request, OffsetForLeaderEpochResponse(topics=topics))


def _find(engine: Engine, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        epoch, end = engine.partitions.epoch_end_offset(
            engine.partitions.partition(topic, wanted.partition),
            wanted.leader_epoch,
            leader_epoch=wanted.current_leader_epoch,
        )
    except MillpondError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=code_of(error))
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end)


HANDLER = Handler(
    api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    min_version=2,
    max_version=4,
    handle=handle,
    refuse=refuse,
)
