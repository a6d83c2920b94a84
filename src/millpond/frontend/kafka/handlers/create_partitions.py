"""CreatePartitions: let topics grow."""

from millpond.engine.api import AddPartitions, TopicResult
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(context: Context, request: Request) -> Payload:
    message: CreatePartitionsRequest = decode(request)
    commands = [
        AddPartitions(
            name=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else [one.broker_ids for one in topic.assignments],
        )
        for topic in message.topics
    ]
    results = await context.engine.create_partitions(commands, validate_only=message.validate_only)
    return encode(request, CreatePartitionsResponse(results=[_result(one) for one in results]))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: CreatePartitionsRequest = decode(request)
    results = [
        CreatePartitionsTopicResult(name=topic.name, error_code=code) for topic in message.topics
    ]
    return encode(request, CreatePartitionsResponse(results=results))


def _result(result: TopicResult) -> CreatePartitionsTopicResult:
    error = result.error
    return CreatePartitionsTopicResult(
        name=result.name or "",
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else str(error),
    )


HANDLER = Handler(
    api_key=ApiKey.CREATE_PARTITIONS, min_version=0, max_version=3, handle=handle, refuse=refuse
)
