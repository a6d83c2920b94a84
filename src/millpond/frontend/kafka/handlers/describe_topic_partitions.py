"""DescribeTopicPartitions: topics with many partitions, page by page (KIP-966)."""

from bisect import bisect_left
from collections.abc import Set as AbstractSet

from millpond.base.errors import MillpondError
from millpond.engine.api import INTERNAL_TOPICS, Engine, Image, TopicImage
from millpond.frontend.kafka.convert import TOPIC_OPERATIONS
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.metadata.controller import check_topic_name
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

NO_LEADER = -1


def handle(context: Context, request: Request) -> Result:
    message: DescribeTopicPartitionsRequest = decode(request)
    return encode(request, _page(context.engine, message))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DescribeTopicPartitionsRequest = decode(request)
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
        for topic in message.topics
    ]
    return encode(request, DescribeTopicPartitionsResponse(topics=topics))


def _page(
    engine: Engine, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Topics in order of their names, from the cursor on, until the page is full."""
    asked = {topic.name for topic in message.topics}
    names = sorted(asked or engine.metadata.image.topics)
    first_partition = 0
    cursor = message.cursor
    if cursor is not None:
        names = names[bisect_left(names, cursor.topic_name) :]
        if names and names[0] == cursor.topic_name:
            first_partition = max(cursor.partition_index, 0)
    limit = engine.settings.get("max.request.partition.size.limit")
    room = min(max(message.response_partition_limit, 1), limit)
    response = DescribeTopicPartitionsResponse()
    up = engine.membership.serving_nodes()
    for name in names:
        topic = engine.metadata.image.topics.get(name)
        if topic is None:
            if asked:
                response.topics.append(_unknown(name))
            continue
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        stop = min(first_partition + room, len(topic.partitions))
        response.topics.append(_topic(engine.metadata.image, topic, first_partition, stop, up))
        room -= max(stop - first_partition, 0)
        if stop < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=stop)
            break
        first_partition = 0
    return response


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except MillpondError as error:
        code = code_of(error)
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _topic(
    image: Image, topic: TopicImage, first: int, stop: int, up: AbstractSet[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=0 if one.leader in up else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=one.leader if one.leader in up else NO_LEADER,
                leader_epoch=one.leader_epoch,
                replica_nodes=list(one.replicas),
                isr_nodes=list(one.isr),
                eligible_leader_replicas=list(one.eligible_leaders),
                # As in Kafka, of a partition without a leader only.
                last_known_elr=list(one.last_known_leaders) if one.leader == NO_LEADER else [],
                offline_replicas=image.offline_replicas(one, up),
            )
            for index, one in enumerate(topic.partitions[first:stop], start=first)
        ],
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
)
