"""ShareAcknowledge (KIP-932, KIP-1222): a member says what became of records, without asking for more."""

import asyncio

from millpond.frontend.kafka.groups import when_durable
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.frontend.kafka.share import acknowledge, member_key
from millpond.frontend.kafka.share_sessions import FINAL_EPOCH
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: ShareAcknowledgeRequest = decode(request)
    key = member_key(message.group_id, message.member_id)
    context.frontend.share_sessions.acknowledge(
        key, message.share_session_epoch, connection=context.session
    )
    last: asyncio.Future[None] | None = None
    topics = []
    for topic in message.topics:
        partitions = []
        for one in topic.partitions:
            error, durable = acknowledge(
                context, key, topic.topic_id, one.partition_index, one.acknowledgement_batches
            )
            last = durable or last
            partitions.append(
                PartitionData(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.NONE if error is None else code_of(error),
                    error_message=None if error is None else str(error),
                )
            )
        topics.append(ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=partitions))
    if message.share_session_epoch == FINAL_EPOCH:
        last = context.engine.share.delivery.release_member(key.group_id, key.member_id) or last
    answer = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=context.engine.share.delivery.lock_ms(key.group_id),
        responses=topics,
    )
    return when_durable(last, encode(request, answer))


HANDLER = Handler(
    api_key=ApiKey.SHARE_ACKNOWLEDGE,
    min_version=1,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(ShareAcknowledgeResponse),
)
