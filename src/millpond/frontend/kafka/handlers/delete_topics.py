"""DeleteTopics: remove topics by name, or by id since version 6."""

from typing import TypeAlias
from uuid import UUID

from millpond.engine.api import TopicResult
from millpond.engine.api.limits import MutationBudget
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.frontend.kafka.throttling import mutation_budget
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from millpond.wire.kafka.primitives import NO_ID

_Targets: TypeAlias = list[tuple[str | None, UUID | None]]

# From this version on clients know what it means to be refused for a quota (KIP-599).
_STRICT_FROM = 5


async def handle(context: Context, request: Request) -> Payload:
    targets = _targets(request)
    if not context.engine.settings.get("delete.topic.enable"):
        code = (
            ErrorCode.INVALID_REQUEST
            if request.api_version < 3
            else ErrorCode.TOPIC_DELETION_DISABLED
        )
        return refuse(request, code)
    budget = mutation_budget(context, request, strict_from=_STRICT_FROM)
    late: list[TopicResult] = []
    if budget is not None:
        targets, late = _affordable(context, budget, targets)
    results = [*await context.engine.topic_admin.delete_topics(targets), *late]
    wait_ms = 0 if budget is None else budget.throttle_ms
    responses = [_result(one) for one in results]
    return encode(request, DeleteTopicsResponse(throttle_time_ms=wait_ms, responses=responses))


def _affordable(
    context: Context, budget: MutationBudget, targets: _Targets
) -> tuple[_Targets, list[TopicResult]]:
    """Return what the client's quota allows, and the refusals of the rest; unknown topics cost nothing."""
    image = context.engine.metadata.image
    allowed: _Targets = []
    late = []
    for name, topic_id in targets:
        topic = (
            image.topics.get(name)
            if name is not None
            else image.topics_by_id.get(topic_id or NO_ID)
        )
        error = None if topic is None else budget.charge(len(topic.partitions))
        if error is None:
            allowed.append((name, topic_id))
        else:
            late.append(TopicResult(name=name, topic_id=topic_id, error=error))
    return allowed, late


def refuse(request: Request, code: ErrorCode) -> Payload:
    responses = [
        DeletableTopicResult(name=name, topic_id=topic_id or NO_ID, error_code=code)
        for name, topic_id in _targets(request)
    ]
    return encode(request, DeleteTopicsResponse(responses=responses))


def _targets(request: Request) -> _Targets:
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
