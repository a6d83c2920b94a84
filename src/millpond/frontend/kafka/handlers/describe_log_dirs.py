"""DescribeLogDirs: what partitions take on disk."""

from millpond.base.errors import StorageFailure
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(context: Context, request: Request) -> Result:
    message: DescribeLogDirsRequest = decode(request)
    wanted = None
    if message.topics is not None:
        wanted = [(topic.topic, index) for topic in message.topics for index in topic.partitions]
    engine = context.engine
    try:
        described = engine.describe_log_dir(wanted)
    except StorageFailure as error:
        failed = DescribeLogDirsResult(error_code=code_of(error), log_dir=engine.data_path)
        return encode(request, DescribeLogDirsResponse(results=[failed]))
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for one in described.partitions:
        topics.setdefault(one.topic, []).append(
            DescribeLogDirsPartition(partition_index=one.partition, partition_size=one.size_bytes)
        )
    result = DescribeLogDirsResult(
        log_dir=described.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
    )
    return encode(request, DescribeLogDirsResponse(results=[result]))


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_LOG_DIRS,
    min_version=1,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(DescribeLogDirsResponse),
)
