"""DeleteTopics: remove topics by name, or by id since version 6."""

from uuid import UUID

from millpond.engine.api import TopicResult
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from millpond.wire.kafka.primitives import NO_ID


async def handle(context: Context, request: Request) -> Payload:
    targets = _targets(request)
    if not context.engine.broker_setting("delete.topic.enable"):
        code = (
            ErrorCode.INVALID_REQUEST
            if request.api_version < 3
            else ErrorCode.TOPIC_DELETION_DISABLED
        )
        return refuse(request, code)
    results = await context.engine.delete_topics(targets)
    return encode(request, DeleteTopicsResponse(responses=[_result(one) for one in results]))


def refuse(request: Request, code: ErrorCode) -> Payload:
    responses = [
        DeletableTopicResult(name=name, topic_id=topic_id or NO_ID, error_code=code)
        for name, topic_id in _targets(request)
    ]
    return encode(request, DeleteTopicsResponse(responses=responses))


def _targets(request: Request) -> list[tuple[str | None, UUID | None]]:
    message: DeleteTopicsRequest = decode(request)
    if request.api_version < 6:
        return [(name, None) for name in message.topic_names]
    return [(topic.name, topic.topic_id) for topic in message.topics]


def _result(result: TopicResult) -> DeletableTopicResult:
    error = result.error
    return DeletableTopicResult(
        name=result.name,
        topic_id=result.topic_id or NO_ID,
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else str(error),
    )


HANDLER = Handler(
    api_key=ApiKey.DELETE_TOPICS, min_version=1, max_version=6, handle=handle, refuse=refuse
)
