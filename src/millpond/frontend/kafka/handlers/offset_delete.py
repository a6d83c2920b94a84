"""OffsetDelete: drop positions of topics that no member of the group reads."""

from millpond.engine.coordinators.groups import ForgetOffsets
from millpond.frontend.kafka.groups import code_for, when_durable
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: Context, request: Request) -> Result:
    message: OffsetDeleteRequest = decode(request)
    known = context.engine.image.topics
    asked = [
        (topic.name, one.partition_index) for topic in message.topics for one in topic.partitions
    ]
    there = [
        (name, index)
        for name, index in asked
        if name in known and 0 <= index < len(known[name].partitions)
    ]
    command = ForgetOffsets(group_id=message.group_id, partitions=tuple(there))
    results, durable = context.engine.groups.forget_offsets(command)
    codes = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    codes.update(zip(there, map(code_for, results), strict=True))
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=one.partition_index,
                    error_code=codes[topic.name, one.partition_index],
                )
                for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return when_durable(durable, encode(request, OffsetDeleteResponse(topics=topics)))


HANDLER = Handler(
    api_key=ApiKey.OFFSET_DELETE,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(OffsetDeleteResponse),
)
