"""The embedded consumer protocol of classic groups: subscriptions and assignments as bytes."""

from collections.abc import Iterable
from struct import Struct

from millpond.base.errors import RemoteProtocolError
from millpond.base.ids import TopicPartition
from millpond.client.assignors import MemberSubscription
from millpond.wire.kafka.messages import consumer_protocol_assignment as assignment_messages
from millpond.wire.kafka.messages import consumer_protocol_subscription as subscription_messages

_VERSION = Struct(">h")
_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 3


def encode_subscription(
    topics: Iterable[str], owned: Iterable[TopicPartition], generation: int, rack: str
) -> bytes:
    """Encode the metadata that a member joins with."""
    message = subscription_messages.ConsumerProtocolSubscription(
        topics=sorted(topics),
        owned_partitions=[
            subscription_messages.TopicPartition(topic, numbers)
            for topic, numbers in by_topic(owned).items()
        ],
        generation_id=generation,
        rack_id=rack or None,
    )
    body = subscription_messages.encode_consumer_protocol_subscription(
        message, _SUBSCRIPTION_VERSION
    )
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + body


def decode_subscription(data: bytes, instance_id: str | None) -> MemberSubscription:
    """Decode a member's metadata; later versions only append fields. Malformed metadata subscribe to
    nothing.
    """
    if len(data) < 2:
        return MemberSubscription(topics=())
    (version,) = _VERSION.unpack_from(data)
    version = max(0, min(version, _SUBSCRIPTION_VERSION))
    try:
        message = subscription_messages.decode_consumer_protocol_subscription(
            memoryview(data)[2:], version
        )
    except RemoteProtocolError:
        return MemberSubscription(topics=())
    return MemberSubscription(
        topics=tuple(message.topics),
        owned=tuple(
            TopicPartition(item.topic, number)
            for item in message.owned_partitions
            for number in item.partitions
        ),
        generation=message.generation_id,
        instance_id=instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the leader's assignment for a member."""
    message = assignment_messages.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment_messages.TopicPartition(topic, numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    )
    body = assignment_messages.encode_consumer_protocol_assignment(message, _ASSIGNMENT_VERSION)
    return _VERSION.pack(_ASSIGNMENT_VERSION) + body


def decode_assignment(data: bytes) -> set[TopicPartition]:
    """Decode this member's assignment."""
    if len(data) < 2:
        return set()
    message = assignment_messages.decode_consumer_protocol_assignment(memoryview(data)[2:], 0)
    return {
        TopicPartition(item.topic, number)
        for item in message.assigned_partitions
        for number in item.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic."""
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped
