"""AlterShareGroupOffsets: a share group without members begins again, from the offsets given."""

import asyncio
from uuid import UUID

from millpond.base.errors import GroupNotEmpty, MillpondError
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.groups import when_durable
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.frontend.kafka.share import when_ready
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


def handle(context: Context, request: Request) -> Result:
    if not context.engine.share.is_ready:
        return when_ready(context, request, lambda *both: _alter(*both)[0])
    payload, durable = _alter(context, request)
    return when_durable(durable, payload)


def _alter(context: Context, request: Request) -> tuple[Payload, "asyncio.Future[None] | None"]:
    message: AlterShareGroupOffsetsRequest = decode(request)
    engine = context.engine
    last: asyncio.Future[None] | None = None
    topics = []
    for topic in message.topics:
        known = engine.image.topics.get(topic.topic_name)
        partitions = []
        for one in topic.partitions:
            answer = AlterShareGroupOffsetsResponsePartition(partition_index=one.partition_index)
            try:
                durable = engine.share.set_offset(
                    message.group_id, topic.topic_name, one.partition_index, one.start_offset
                )
                last = durable or last
            except GroupNotEmpty:
                raise
            except MillpondError as error:
                answer.error_code = code_of(error)
                answer.error_message = str(error)
            partitions.append(answer)
        topics.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=UUID(int=0) if known is None else known.topic_id,
                partitions=partitions,
            )
        )
    return encode(request, AlterShareGroupOffsetsResponse(responses=topics)), last


HANDLER = Handler(
    api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(AlterShareGroupOffsetsResponse),
)
