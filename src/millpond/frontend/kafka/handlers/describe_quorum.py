"""DescribeQuorum: who keeps the metadata and how far each replica is. Only the leader knows."""

from millpond.base.errors import NotLeader
from millpond.engine.api import METADATA_TOPIC, QuorumDescription, ReplicaProgress
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
    quorum: QuorumDescription | None = None
    refusal: NotLeader | None = None
    try:
        quorum = context.engine.metadata.describe_quorum()
    except NotLeader as error:
        refusal = error
    topics = [
        TopicResult(
            topic_name=topic.topic_name,
            partitions=[
                _partition(quorum, refusal, topic.topic_name, one.partition_index)
                for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return encode(
        request,
        DescribeQuorumResponse(
            error_message=None,
            topics=topics,
            nodes=_nodes(context, quorum) if quorum is not None else [],
        ),
    )


def _partition(
    quorum: QuorumDescription | None, refusal: NotLeader | None, topic: str, index: int
) -> PartitionResult:
    if (topic, index) != (METADATA_TOPIC, 0):
        code, reason = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    elif quorum is None:
        code, reason = ErrorCode.NOT_LEADER_OR_FOLLOWER, str(refusal)
    else:
        return PartitionResult(
            partition_index=index,
            error_message=None,
            leader_id=quorum.leader_id,
            leader_epoch=quorum.leader_epoch,
            high_watermark=quorum.high_watermark,
            current_voters=[_state(one) for one in quorum.voters],
            observers=[_state(one) for one in quorum.observers],
        )
    return PartitionResult(partition_index=index, error_code=code, error_message=reason)


def _state(one: ReplicaProgress) -> ReplicaState:
    state = ReplicaState(
        replica_id=one.key.id,
        log_end_offset=one.end_offset,
        last_fetch_timestamp=one.fetched_ms,
        last_caught_up_timestamp=one.caught_up_ms,
    )
    if one.key.directory is not None:
        state.replica_directory_id = one.key.directory
    return state


def _nodes(context: Context, quorum: QuorumDescription) -> list[Node]:
    """Return the voters' endpoints; a node that is alone knows only its own."""
    nodes = []
    for voter in quorum.nodes:
        listeners = [
            Listener(name=one.listener, host=one.host, port=one.port) for one in voter.endpoints
        ]
        if not listeners and voter.key.id == context.engine.info.node_id:
            listeners = [
                Listener(name=point.name, host=point.host, port=point.port)
                for point in context.engine.info.end_points.values()
            ]
        nodes.append(Node(node_id=voter.key.id, listeners=listeners))
    return nodes


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_QUORUM,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(DescribeQuorumResponse),
)
