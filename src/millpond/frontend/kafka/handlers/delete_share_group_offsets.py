"""DeleteShareGroupOffsets: a share group without members gives up its place in whole topics."""

from uuid import UUID

from millpond.base.errors import MillpondError, UnknownTopic
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
from millpond.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(context: Context, request: Request) -> Payload:
    message: DeleteShareGroupOffsetsRequest = decode(request)
    engine = context.engine
    topics = []
    for topic in message.topics:
        known = engine.metadata.image.topics.get(topic.topic_name)
        answer = DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=UUID(int=0) if known is None else known.topic_id
        )
        try:
            await engine.share.admin.forget_topic(message.group_id, topic.topic_name)
        except UnknownTopic as error:
            answer.error_code = code_of(error)
            answer.error_message = str(error)
        except MillpondError as error:
            whole = DeleteShareGroupOffsetsResponse(
                error_code=code_of(error), error_message=str(error)
            )
            return encode(request, whole)
        topics.append(answer)
    return encode(request, DeleteShareGroupOffsetsResponse(responses=topics))


HANDLER = Handler(
    api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(DeleteShareGroupOffsetsResponse),
)
