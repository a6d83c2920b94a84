"""AlterReplicaLogDirs: in which directory a replica is to lie.

One that the node does not have yet is made there when it comes. One that it has is not moved: the answer is
UNSUPPORTED_VERSION, and the log says what can be done.
"""

import logging

from millpond.base.errors import MillpondError, NotLeader, UnsupportedVersion
from millpond.engine.api import Engine
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = logging.getLogger(__name__)


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
    try:
        engine.disk_view.move(topic, partition, path)
    except NotLeader:
        # As Kafka, for tools that ask again until the replica is there.
        return ErrorCode.REPLICA_NOT_AVAILABLE
    except MillpondError as error:
        if isinstance(error, UnsupportedVersion):
            log.warning("%s", error)
        return code_of(error)
    return ErrorCode.NONE


HANDLER = Handler(
    api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, min_version=1, max_version=2, handle=handle
)
