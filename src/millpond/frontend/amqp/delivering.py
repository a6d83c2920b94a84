"""One delivery's bytes: the message as it came, with the tag that its channel gives it."""

from millpond.base.errors import MessageLost
from millpond.engine.queue_face import QueueFace
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.envelope import changed
from millpond.queue.channel import Held
from millpond.queue.line import Handout
from millpond.queue.message import Message
from millpond.wire.amqp.content import DeliveryWriter
from millpond.wire.amqp.properties import decode_properties, encode_properties


def delivery(
    channel: Channel, queue: QueueFace, handout: Handout, offset: int, frame_max: int
) -> bytes:
    """Method, header and body; nothing if the message is not in the log any more."""
    consumer = handout.consumer
    try:
        message = queue.message(handout.lane, offset)
    except MessageLost:
        # The queue has counted it; for the consumer it is as if it had never been handed out.
        channel.left(handout)
        return b""
    writer = channel.writers.get(consumer.owner)
    if writer is None:
        writer = DeliveryWriter(channel.number, consumer.tag, frame_max)
        channel.writers[consumer.owner] = writer
    tag = hold(channel, queue, handout, offset)
    channel.left(handout)
    return writer.write(
        tag,
        message.exchange,
        message.routing_key,
        shown_block(queue, message, handout),
        message.body,
        redelivered=handout.redelivered,
    )


def hold(channel: Channel, queue: QueueFace, handout: Handout, offset: int) -> int:
    """The tag of a message that goes out now."""
    consumer = handout.consumer
    if consumer.no_ack:
        return channel.deliveries.add(None)
    channel.queues[queue.key] = queue
    return channel.deliveries.add(Held(queue.key, consumer.owner, handout.lane, offset))


def shown_block(queue: QueueFace, message: Message, handout: Handout) -> bytes:
    """The property block; a consumer of a quorum queue is told how often a message came back."""
    if queue.settings.delivery_limit is None:
        return message.properties
    headers = {**message.headers, "x-delivery-count": handout.deliveries - 1}
    return encode_properties(changed(decode_properties(message.properties), headers=headers))
