"""DescribeShareGroupOffsets: where share groups start in each partition, and how much is left."""

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.engine.api.share import ShareOffset
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


async def handle(context: Context, request: Request) -> Payload:
    message: DescribeShareGroupOffsetsRequest = decode(request)
    groups = [await _describe(context.engine, group) for group in message.groups]
    return encode(request, DescribeShareGroupOffsetsResponse(groups=groups))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DescribeShareGroupOffsetsRequest = decode(request)
    groups = [
        DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id, error_code=code)
        for one in message.groups
    ]
    return encode(request, DescribeShareGroupOffsetsResponse(groups=groups))


async def _describe(
    engine: Engine, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
    try:
        wanted: dict[str, list[int]] | None = None
        if asked.topics is not None:
            wanted = {}
            for topic in asked.topics:
                wanted.setdefault(topic.topic_name, []).extend(topic.partitions)
        for offset in await engine.share.admin.offsets(asked.group_id, wanted):
            _add(group, offset.topic, offset.partition, offset)
    except MillpondError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, error_code=code_of(error), error_message=str(error)
        )
    return group


def _add(
    group: DescribeShareGroupOffsetsResponseGroup, name: str, index: int, offset: ShareOffset
) -> None:
    topic = next((one for one in group.topics if one.topic_name == name), None)
    if topic is None:
        topic = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=offset.topic_id)
        group.topics.append(topic)
    topic.partitions.append(
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            start_offset=offset.start,
            leader_epoch=max(offset.leader_epoch, 0),
            lag=offset.lag,
        )
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
)
