"""Finds the queue of a method and checks that its sender may read it."""

from typing import TYPE_CHECKING

from millpond.auth.permissions import Right
from millpond.base import errors
from millpond.engine.api.queues import QueueHandle
from millpond.frontend.amqp.channel import Channel
from millpond.rabbit.declare import check_owner, check_right
from millpond.rabbit.names import without_line_breaks

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession


def queue_name(channel: Channel, name: str) -> str:
    """Return a queue by its name, or the one that the channel declared last."""
    name = without_line_breaks(name) or channel.last_queue
    if not name:
        raise errors.UnknownResource("no previously declared queue")
    return name


def readable(session: "AmqpSession", channel: Channel, name: str) -> QueueHandle:
    """Return a queue that the client may read."""
    name = queue_name(channel, name)
    queue = session.rooms.queue(name)
    check_right(session.frontend.queues.broker, session.asker, queue.resource, Right.READ)
    check_owner(queue, session.name)
    return session.frontend.queues.find(session.vhost, name)
