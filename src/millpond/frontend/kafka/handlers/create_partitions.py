"""CreatePartitions: let topics grow."""

from collections.abc import Sequence

from millpond.engine.api import AddPartitions, TopicResult
from millpond.engine.api.limits import MutationBudget
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.frontend.kafka.throttling import mutation_budget
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

# From this version on clients know what it means to be refused for a quota (KIP-599).
_STRICT_FROM = 3


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
    budget = mutation_budget(context, request, strict_from=_STRICT_FROM)
    late: list[TopicResult] = []
    if budget is not None:
        tried = await context.engine.topic_admin.create_partitions(commands, validate_only=True)
        commands, late = _affordable(budget, commands, tried)
    made = await context.engine.topic_admin.create_partitions(
        commands, validate_only=message.validate_only
    )
    wait_ms = 0 if budget is None else budget.throttle_ms
    results = [_result(one) for one in [*made, *late]]
    return encode(request, CreatePartitionsResponse(throttle_time_ms=wait_ms, results=results))


def _affordable(
    budget: MutationBudget, commands: Sequence[AddPartitions], tried: Sequence[TopicResult]
) -> tuple[list[AddPartitions], list[TopicResult]]:
    """Return what the client's quota allows, and refusals of the rest; what fails anyway costs nothing."""
    allowed, late = [], []
    for command, result in zip(commands, tried, strict=True):
        topic = result.topic
        error = None if topic is None else budget.charge(command.count - len(topic.partitions))
        if error is None:
            allowed.append(command)
        else:
            late.append(TopicResult(name=command.name, error=error))
    return allowed, late


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
