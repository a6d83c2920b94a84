"""DescribeQuorum: who keeps the metadata. One node: it leads, it votes, and it has everything."""

from millpond.engine.api import METADATA_TOPIC
from millpond.frontend.kafka.convert import advertised
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResult,
    ReplicaState,
    TopicResult,
)


def handle(context: Context, request: Request) -> Result:
    message: DescribeQuorumRequest = decode(request)
    topics = [
        TopicResult(
            topic_name=topic.topic_name,
            partitions=[
                _partition(context, topic.topic_name, one.partition_index)
                for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    node = context.engine.node
    point = advertised(context)
    listener = Listener(name=point.name, host=point.host, port=point.port)
    return encode(
        request,
        DescribeQuorumResponse(
            error_message=None,
            topics=topics,
            nodes=[Node(node_id=node.node_id, listeners=[listener])],
        ),
    )


def _partition(context: Context, topic: str, index: int) -> PartitionResult:
    if (topic, index) != (METADATA_TOPIC, 0):
        return PartitionResult(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=None,
        )
    quorum = context.engine.describe_quorum()
    return PartitionResult(
        partition_index=index,
        error_message=None,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=quorum.leader_id,
                replica_directory_id=quorum.directory_id,
                log_end_offset=quorum.end_offset,
                last_fetch_timestamp=quorum.now_ms,
                last_caught_up_timestamp=quorum.now_ms,
            )
        ],
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_QUORUM,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(DescribeQuorumResponse),
)
