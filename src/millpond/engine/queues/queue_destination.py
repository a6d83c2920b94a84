"""A queue as a destination of forwarded messages, whichever node hosts it."""

from collections.abc import Sequence
from typing import Protocol

from millpond.engine.forwarding.kept import Taken
from millpond.engine.queues.queue_handle import QueueHandle
from millpond.message.hub import Message


class QueueFinder(Protocol):
    def find(self, vhost: str, name: str) -> QueueHandle:
        """Raises ``UnknownResource``."""
        ...


class QueueDestination:
    """One queue, looked up when messages come."""

    def __init__(self, queues: QueueFinder, vhost: str, name: str) -> None:
        self._queues = queues
        self._vhost = vhost
        self._name = name

    def __str__(self) -> str:
        return f"queue {self._name!r} in vhost {self._vhost!r}"

    def put(self, messages: Sequence[Message]) -> Taken:
        """Publish messages. Raises ``UnknownResource``, and what the queue does."""
        return self._queues.find(self._vhost, self._name).publish(messages)
