"""Encodes deliveries: messages as they were published, with the tags of their channel."""

from typing import NamedTuple

from millpond.base.errors import MessageLost, StorageFailure
from millpond.base.fields import Long
from millpond.engine.api.queues import QueueHandle
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.codec import changed
from millpond.frontend.amqp.message_stats import DELIVER, DELIVER_NO_ACK, REDELIVER
from millpond.message.hub import Message
from millpond.queue.steps import Handout
from millpond.rabbit.channel import Held
from millpond.wire.amqp.content import LARGE_BODY_BYTES, DeliveryWriter
from millpond.wire.amqp.properties import decode_properties, encode_properties


class Written(NamedTuple):
    """Encoded deliveries, how many messages they are, and why the next one cannot be read now."""

    data: list[bytes]
    size: int
    messages: int
    failure: StorageFailure | None


def deliveries(
    channel: Channel,
    queue: QueueHandle,
    handout: Handout,
    frame_max: int,
    *,
    count_max: int,
    bytes_max: int,
) -> Written:
    """Encode the first messages of a handout; at least one that is not lost, unless it cannot be read
    now."""
    consumer, lane, first, next_, _deliveries = handout
    writer = channel.writers.get(consumer.owner)
    if writer is None:
        writer = DeliveryWriter(channel.number, consumer.tag, frame_max)
        channel.writers[consumer.owner] = writer
    take, write, add = queue.message, writer.write, channel.deliveries.add
    again = handout.redelivered
    # RabbitMQ tells a consumer how often a message came back once it did; who asks by basic.get always.
    is_plain = queue.settings.delivery_limit is None or not again
    held = None if consumer.no_ack else (queue.key, consumer.owner, lane)
    if held is not None:
        channel.queues[queue.key] = queue
    data: list[bytes] = []
    size = 0
    failure = None
    offset, stop = first, min(next_, first + count_max)
    try:
        while offset < stop and size < bytes_max:
            at, offset = offset, offset + 1
            try:
                message = take(lane, at)
            except MessageLost:
                # The queue counts the delivery; the consumer does not see it.
                queue.lose(lane, at, consumer)
                continue
            except StorageFailure as error:
                offset, failure = at, error
                break
            tag = add(None if held is None else Held(*held, at))
            block = message.properties if is_plain else shown_block(queue, message, handout)
            content = tag, message.address, message.key, block, message.body
            if len(message.body) < LARGE_BODY_BYTES:
                one = write(*content, redelivered=again)
                data.append(one)
                size += len(one)
            else:
                parts = writer.write_parts(*content, redelivered=again)
                data += parts
                size += sum(map(len, parts))
    finally:
        channel.left(handout, offset - first)
    stats = channel.session.frontend.stats
    stats.count(queue, DELIVER_NO_ACK if consumer.no_ack else DELIVER, offset - first)
    if again:
        stats.count(queue, REDELIVER, offset - first)
    return Written(data, size, offset - first, failure)


def hold(channel: Channel, queue: QueueHandle, handout: Handout, offset: int) -> int:
    """Return the delivery tag of a message that is sent now."""
    consumer = handout.consumer
    if consumer.no_ack:
        return channel.deliveries.add(None)
    channel.know(queue)
    return channel.deliveries.add(Held(queue.key, consumer.owner, handout.lane, offset))


def shown_block(queue: QueueHandle, message: Message, handout: Handout) -> bytes:
    """The property block; a consumer of a quorum queue is told how often a message came back."""
    if queue.settings.delivery_limit is None:
        return message.properties
    headers = {**message.headers, "x-delivery-count": Long(handout.deliveries - 1)}
    return encode_properties(changed(decode_properties(message.properties), headers=headers))
