"""Direct reply-to: replies that go to the requesting channel without a queue.

A channel consumes from ``amq.rabbitmq.reply-to``, which is no queue, and gives that name as the address for
answers; the broker makes it ``amq.rabbitmq.reply-to.<node>.<key>``. Who publishes to that name through the
default exchange reaches the channel, whichever node of a cluster it is at. Nothing is kept: an answer for a
channel that is gone, or that does not read, is lost, as in RabbitMQ.
"""

import base64
import logging
from typing import TYPE_CHECKING

from millpond.base import errors
from millpond.frontend.amqp.channel import Channel
from millpond.message.hub import Message
from millpond.rabbit.names import REPLY_TO
from millpond.wire.amqp.methods import BasicDeliver

if TYPE_CHECKING:
    from millpond.frontend.amqp.frontend import AmqpFrontend

log = logging.getLogger(__name__)

ADDRESS_PREFIX = f"{REPLY_TO}."


class Replies:
    """The channels of this node that wait for answers, by the keys of their addresses."""

    def __init__(self, frontend: "AmqpFrontend") -> None:
        self._frontend = frontend
        self._node = frontend.engine.info.node_id
        self._waiting: dict[str, Channel] = {}
        frontend.queues.replies.on_reply = self.deliver

    def consume(self, channel: Channel, tag: str, *, no_ack: bool) -> None:
        """Register a channel for replies. Raises ``ResourceInUse`` as RabbitMQ refuses it."""
        if not no_ack:
            raise errors.ResourceInUse("reply consumer cannot acknowledge")
        if channel.replies_tag is not None:
            raise errors.ResourceInUse("reply consumer already set")
        random = base64.urlsafe_b64encode(self._frontend.engine.runtime.rng.uuid4().bytes)
        key = random.decode().rstrip("=")
        channel.replies_tag = tag
        channel.replies_key = key
        self._waiting[key] = channel

    def cancel(self, channel: Channel) -> None:
        """Remove a channel."""
        self._waiting.pop(channel.replies_key, None)
        channel.replies_tag = None
        channel.replies_key = ""

    def address(self, channel: Channel) -> str:
        """Return the reply address of a channel. Raises ``ResourceInUse``."""
        if channel.replies_tag is None:
            raise errors.ResourceInUse("fast reply consumer does not exist")
        return f"{ADDRESS_PREFIX}{self._node}.{channel.replies_key}"

    def exists(self, name: str) -> bool:
        """Whether a channel waits for replies at this address, or may at another node."""
        if name == REPLY_TO:
            return True
        found = _parse(name)
        if found is None:
            return False
        node, key = found
        return node != self._node or key in self._waiting

    def send(self, address: str, message: Message) -> None:
        """Send a reply to its address."""
        found = _parse(address)
        if found is None:
            return
        node, key = found
        if node == self._node:
            self.deliver(key, message)
        else:
            self._frontend.queues.replies.send(node, key, message)

    def deliver(self, key: str, message: Message) -> None:
        """Deliver a reply to a channel of this node, if it still exists and its client reads."""
        channel = self._waiting.get(key)
        if channel is None or channel.replies_tag is None:
            return
        if channel.session.outbox.is_overfull:
            log.info("peer=%s: an answer is lost: the client does not read", channel.session.peer)
            return
        method = BasicDeliver(
            consumer_tag=channel.replies_tag,
            delivery_tag=channel.deliveries.next_tag,
            exchange=message.address,
            routing_key=message.key,
        )
        channel.session.send_content(channel, method, message.properties, message.body)


def _parse(address: str) -> tuple[int, str] | None:
    """Return the node and the key of an address; None if it is no reply address."""
    if not address.startswith(ADDRESS_PREFIX):
        return None
    node, dot, key = address.removeprefix(ADDRESS_PREFIX).partition(".")
    if not dot or not key or not (node.isascii() and node.isdecimal()):
        return None
    return int(node), key
