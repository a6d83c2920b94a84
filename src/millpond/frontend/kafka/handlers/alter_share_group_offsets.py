"""AlterShareGroupOffsets: a share group without members begins again, from the offsets given."""

from uuid import UUID

from millpond.base.errors import GroupNotEmpty, MillpondError, NotCoordinator
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(context: Context, request: Request) -> Payload:
    message: AlterShareGroupOffsetsRequest = decode(request)
    engine = context.engine
    if not engine.share.is_ready:
        await engine.share.prepare()
    topics = []
    for topic in message.topics:
        known = engine.metadata.image.topics.get(topic.topic_name)
        partitions = []
        for one in topic.partitions:
            answer = AlterShareGroupOffsetsResponsePartition(partition_index=one.partition_index)
            try:
                await engine.share.admin.set_offset(
                    message.group_id, topic.topic_name, one.partition_index, one.start_offset
                )
            except (GroupNotEmpty, NotCoordinator):
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
    return encode(request, AlterShareGroupOffsetsResponse(responses=topics))


HANDLER = Handler(
    api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(AlterShareGroupOffsetsResponse),
)
