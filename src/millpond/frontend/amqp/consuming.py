"""Methods about consumers: basic.consume, basic.cancel, basic.qos and basic.get."""

import asyncio
import base64
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from millpond.base import errors
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.delivering import hold, shown_block
from millpond.frontend.amqp.message_stats import GET, GET_NO_ACK
from millpond.frontend.amqp.naming import readable
from millpond.queue.consumers import Consumer
from millpond.rabbit.arguments import CLASSIC, QUORUM, check_consumed
from millpond.rabbit.names import REPLY_TO
from millpond.wire.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    Method,
)
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession


class Consuming:
    """The methods of one session."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session

    async def get(self, channel: Channel, method: BasicGet) -> None:
        queue = readable(self._session, channel, method.queue)
        if queue.queue.type == QUORUM and queue.settings.single_active_consumer:
            raise errors.QueueLocked(
                f"cannot obtain access to locked {queue.queue.resource}. basic.get operations are not "
                "supported by quorum queues with single active consumer"
            )
        asker = Consumer(
            owner=f"{channel.name}/get", channel=channel.name, tag="", no_ack=method.no_ack
        )
        # A message that was taken and could not be sent is requeued with the channel.
        channel.know(queue)
        got = await queue.got(asker)
        if got is None:
            channel.say(BasicGetEmpty())
            return
        if channel.is_closed:
            queue.lose_channel(channel.name)
            return
        handout, message, ready = got
        self._session.frontend.stats.count(queue, GET_NO_ACK if method.no_ack else GET, 1)
        channel.deliveries.asker = asker.owner
        answer = BasicGetOk(
            delivery_tag=hold(channel, queue, handout, handout.first),
            redelivered=handout.redelivered,
            exchange=message.address,
            routing_key=message.key,
            message_count=ready,
        )
        block = shown_block(queue, message, handout)
        self._session.send_content(channel, answer, block, message.body)

    def consume(self, channel: Channel, method: BasicConsume) -> Coroutine[Any, Any, None] | None:
        if method.consumer_tag in channel.consumers:
            tag = method.consumer_tag
            raise _violation(
                ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'", method
            )
        if method.queue == REPLY_TO:
            self._consume_replies(channel, method)
            return None
        queue = readable(self._session, channel, method.queue)
        resource = queue.queue.resource
        if queue.queue.type != CLASSIC and channel.deliveries.prefetch:
            text = f"{resource} does not support global qos"
            raise _violation(ReplyCode.NOT_IMPLEMENTED, text, method)
        check_consumed(resource, method.arguments)
        priority = method.arguments.get("x-priority", 0)
        owner = channel.next_owner()
        tag = method.consumer_tag or self._fresh_tag()
        consumer = Consumer(
            owner=owner,
            channel=channel.name,
            tag=tag,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
            prefetch=channel.prefetch,
            priority=priority if isinstance(priority, int) else 0,
            arguments=method.arguments,
        )
        begun = queue.consume(consumer, channel)
        channel.add_consumer(queue, consumer)
        if begun is not None:
            return self._consume_afar(channel, method, tag, begun)
        channel.say(BasicConsumeOk(consumer_tag=tag), nowait=method.nowait)
        return None

    async def _consume_afar(
        self, channel: Channel, method: BasicConsume, tag: str, begun: "asyncio.Future[None]"
    ) -> None:
        try:
            await begun
        except errors.MillpondError:
            channel.remove_consumer(tag)
            raise
        channel.say(BasicConsumeOk(consumer_tag=tag), nowait=method.nowait)

    def _consume_replies(self, channel: Channel, method: BasicConsume) -> None:
        tag = method.consumer_tag or self._fresh_tag()
        self._session.frontend.replies.consume(channel, tag, no_ack=method.no_ack)
        channel.say(BasicConsumeOk(consumer_tag=tag), nowait=method.nowait)

    def _fresh_tag(self) -> str:
        random = base64.urlsafe_b64encode(self._session.frontend.engine.runtime.rng.uuid4().bytes)
        return f"amq.ctag-{random.decode().rstrip('=')}"

    def cancel(self, channel: Channel, method: BasicCancel) -> Coroutine[Any, Any, None] | None:
        known = channel.remove_consumer(method.consumer_tag)
        if channel.replies_tag is not None and method.consumer_tag == channel.replies_tag:
            self._session.frontend.replies.cancel(channel)
        elif known is not None:
            queue, consumer = known
            self._session.outbox.take_back(channel, consumer.owner)
            ended = queue.cancel(consumer.owner)
            if ended is not None:
                return self._cancel_afar(channel, method, consumer.owner, ended)
            channel.writers.pop(consumer.owner, None)
        channel.say(BasicCancelOk(consumer_tag=method.consumer_tag), nowait=method.nowait)
        return None

    async def _cancel_afar(
        self, channel: Channel, method: BasicCancel, owner: str, ended: "asyncio.Future[None]"
    ) -> None:
        await ended
        # Messages that were in flight when the client cancelled.
        self._session.outbox.take_back(channel, owner)
        channel.writers.pop(owner, None)
        channel.say(BasicCancelOk(consumer_tag=method.consumer_tag), nowait=method.nowait)

    def limit(self, channel: Channel, method: BasicQos) -> None:
        if method.prefetch_size:
            text = f"prefetch_size!=0 ({method.prefetch_size})"
            raise _violation(ReplyCode.NOT_IMPLEMENTED, text, method)
        # A limit for each consumer also ends the one of the whole channel, as in RabbitMQ.
        channel.set_limit(method.prefetch_count if method.is_global else 0)
        if not method.is_global:
            channel.prefetch = method.prefetch_count
        channel.say(BasicQosOk())


def _violation(code: ReplyCode, text: str, method: Method) -> Violation:
    return Violation(code, text, class_id=method.class_id, method_id=method.method_id)
