"""CreateTopics: make topics, each of which succeeds or fails alone."""

from collections.abc import Sequence

from millpond.base.errors import MillpondError
from millpond.engine.api import CreateTopic, Engine, TopicResult
from millpond.engine.api.limits import MutationBudget
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    decode,
    encode,
    without_repeats,
)
from millpond.frontend.kafka.throttling import mutation_budget
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millpond.wire.kafka.primitives import NO_ID

# From this version on clients know what it means to be refused for a quota (KIP-599).
_STRICT_FROM = 6


async def handle(context: Context, request: Request) -> Payload:
    message: CreateTopicsRequest = decode(request)
    commands = [_command(topic) for topic in message.topics]
    budget = mutation_budget(context, request, strict_from=_STRICT_FROM)
    late: list[TopicResult] = []
    if budget is not None:
        tried = await context.engine.topic_admin.create_topics(commands, validate_only=True)
        commands, late = _affordable(budget, commands, tried)
    results = await context.engine.topic_admin.create_topics(
        commands, validate_only=message.validate_only
    )
    topics = without_repeats([_result(context.engine, one) for one in [*results, *late]], _name)
    wait_ms = 0 if budget is None else budget.throttle_ms
    return encode(request, CreateTopicsResponse(throttle_time_ms=wait_ms, topics=topics))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: CreateTopicsRequest = decode(request)
    topics = [
        CreatableTopicResult(name=topic.name, error_code=code, error_message=None, configs=[])
        for topic in message.topics
    ]
    return encode(request, CreateTopicsResponse(topics=without_repeats(topics, _name)))


def _affordable(
    budget: MutationBudget, commands: Sequence[CreateTopic], tried: Sequence[TopicResult]
) -> tuple[list[CreateTopic], list[TopicResult]]:
    """Return what the client's quota allows, and refusals of the rest; what fails anyway costs nothing."""
    allowed, late = [], []
    for command, result in zip(commands, tried, strict=True):
        made = result.topic
        error = None if made is None else budget.charge(len(made.partitions))
        if error is None:
            allowed.append(command)
        else:
            late.append(TopicResult(name=command.name, error=error))
    return allowed, late


def _command(topic: CreatableTopic) -> CreateTopic:
    return CreateTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={one.partition_index: one.broker_ids for one in topic.assignments},
        configs={one.name: one.value for one in topic.configs},
    )


def _result(engine: Engine, result: TopicResult) -> CreatableTopicResult:
    error: MillpondError | None = result.error
    name = result.name or ""
    if error is not None:
        return CreatableTopicResult(
            name=name,
            error_code=code_of(error),
            error_message=str(error),
            num_partitions=-1,
            replication_factor=-1,
            configs=[],
        )
    assert result.topic is not None
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic_id or NO_ID,
        error_message=None,
        num_partitions=len(result.topic.partitions),
        replication_factor=len(result.topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.definition.sensitive,
            )
            for entry in engine.settings_admin.preview_topic(result.configs)
        ],
    )


def _name(topic: CreatableTopicResult) -> str:
    return topic.name


HANDLER = Handler(
    api_key=ApiKey.CREATE_TOPICS, min_version=2, max_version=7, handle=handle, refuse=refuse
)
