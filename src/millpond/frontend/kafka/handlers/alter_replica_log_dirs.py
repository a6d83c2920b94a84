"""AlterReplicaLogDirs: there is one log directory, and every replica is in it already."""

from millpond.base.errors import UnknownTopic
from millpond.engine.api import Engine
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(context: Context, request: Request) -> Result:
    message: AlterReplicaLogDirsRequest = decode(request)
    # A replica asked for twice goes where it was last asked to.
    wanted = {
        (topic.name, partition): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, partition), path in wanted.items():
        results.setdefault(topic, []).append(
            AlterReplicaLogDirPartitionResult(
                partition_index=partition,
                error_code=_code(context.engine, topic, partition, path),
            )
        )
    return encode(
        request,
        AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(topic_name=topic, partitions=partitions)
                for topic, partitions in results.items()
            ]
        ),
    )


def _code(engine: Engine, topic: str, partition: int, path: str) -> ErrorCode:
    if all(path != one.name for one in engine.log_dirs.dirs):
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        engine.partition(topic, partition)
    except UnknownTopic:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


HANDLER = Handler(
    api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, min_version=1, max_version=2, handle=handle
)
