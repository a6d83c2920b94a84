"""OffsetCommit: remember how far a group has read. Each position is answered alone."""

from collections.abc import Sequence

from millpond.base.errors import GroupNotFound, MillpondError
from millpond.engine.api import Engine, TopicImage
from millpond.engine.api.groups import CommitOffsets, CommittedOffset
from millpond.frontend.kafka.groups import code_for, when_durable
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

# From here on a group that is not there is called that; before, clients knew only wrong generations.
_GROUP_NOT_FOUND_FROM = 9
_EPOCHS_FROM = 9
_TOPIC_IDS_FROM = 10


class _Wanted:
    """The request sorted out: what can be committed, and codes for what cannot."""

    __slots__ = ("codes", "offsets")

    def __init__(self) -> None:
        self.offsets: list[tuple[str, int, CommittedOffset]] = []
        # By place in the request (topic, partition); None for those in ``offsets``, in order.
        self.codes: list[list[ErrorCode | None]] = []


def handle(context: Context, request: Request) -> Result:
    message: OffsetCommitRequest = decode(request)
    wanted = _sort_out(context.engine, request, message)
    if not wanted.offsets:
        return encode(request, _response(message, wanted, ()))
    command = CommitOffsets(
        group_id=message.group_id,
        offsets=tuple(wanted.offsets),
        member_id=message.member_id,
        generation=message.generation_id_or_member_epoch,
        instance_id=message.group_instance_id,
        knows_epochs=request.api_version >= _EPOCHS_FROM,
        retention_ms=None if message.retention_time_ms == -1 else message.retention_time_ms,
    )
    try:
        results, durable = context.engine.groups.commit(command)
    except MillpondError as error:
        codes = [_code_of(error, request)] * len(wanted.offsets)
        return encode(request, _response(message, wanted, codes))
    codes = [code_for(error) for error in results]
    return when_durable(durable, encode(request, _response(message, wanted, codes)))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: OffsetCommitRequest = decode(request)
    wanted = _Wanted()
    wanted.codes = [[code] * len(topic.partitions) for topic in message.topics]
    return encode(request, _response(message, wanted, ()))


def _sort_out(engine: Engine, request: Request, message: OffsetCommitRequest) -> _Wanted:
    wanted = _Wanted()
    for topic in message.topics:
        image, missing = _topic(engine, request, topic)
        codes: list[ErrorCode | None] = []
        for one in topic.partitions:
            if image is None or not 0 <= one.partition_index < len(image.partitions):
                codes.append(missing)
                continue
            codes.append(None)
            wanted.offsets.append((image.name, one.partition_index, _committed(one, image)))
        wanted.codes.append(codes)
    return wanted


def _topic(
    engine: Engine, request: Request, topic: OffsetCommitRequestTopic
) -> tuple[TopicImage | None, ErrorCode]:
    """The topic that is meant, and what to say of it or its partitions if they are not there."""
    if request.api_version < _TOPIC_IDS_FROM:
        return engine.metadata.image.topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    image = engine.metadata.image.topics_by_id.get(topic.topic_id)
    if image is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID
    return image, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _committed(one: OffsetCommitRequestPartition, image: TopicImage) -> CommittedOffset:
    return CommittedOffset(
        offset=one.committed_offset,
        leader_epoch=one.committed_leader_epoch,
        metadata=one.committed_metadata or "",
        topic_id=image.topic_id,
    )


def _code_of(error: MillpondError, request: Request) -> ErrorCode:
    if isinstance(error, GroupNotFound) and request.api_version < _GROUP_NOT_FOUND_FROM:
        return ErrorCode.ILLEGAL_GENERATION
    return code_of(error)


def _response(
    message: OffsetCommitRequest, wanted: _Wanted, results: Sequence[ErrorCode]
) -> OffsetCommitResponse:
    """``results`` has one for each of ``wanted.offsets``."""
    next_result = iter(results)
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(
                    partition_index=one.partition_index,
                    error_code=next(next_result) if code is None else code,
                )
                for one, code in zip(topic.partitions, codes, strict=True)
            ],
        )
        for topic, codes in zip(message.topics, wanted.codes, strict=True)
    ]
    return OffsetCommitResponse(topics=topics)


HANDLER = Handler(
    api_key=ApiKey.OFFSET_COMMIT, min_version=2, max_version=10, handle=handle, refuse=refuse
)
