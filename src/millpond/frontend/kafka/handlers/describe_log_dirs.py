"""DescribeLogDirs: what partitions take on disk.

Two tagged fields, which Kafka's clients skip, say what Kafka has no field for: why a directory is offline,
and which offsets of a partition cannot be read because their bytes are damaged.
"""

from millpond.engine.api import LogDirDescription
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.describe_log_dirs import (
    DamagedRange,
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
    results = [_result(one) for one in context.engine.disk_view.describe(wanted)]
    return encode(request, DescribeLogDirsResponse(results=results))


def _result(described: LogDirDescription) -> DescribeLogDirsResult:
    if described.failure is not None:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR,
            log_dir=described.path,
            failure=described.failure,
        )
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for one in described.partitions:
        topics.setdefault(one.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=one.partition,
                partition_size=one.size_bytes,
                damage=[
                    DamagedRange(
                        first_offset=found.first_offset,
                        next_offset=found.next_offset,
                        reason=found.reason,
                    )
                    for found in one.damage
                ],
            )
        )
    return DescribeLogDirsResult(
        log_dir=described.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_LOG_DIRS,
    min_version=1,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(DescribeLogDirsResponse),
)
