"""Deletes queues that this node hosts: by command, or unused, without consumers or without a topic."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.errors import BrokerRefusal, MillpondError, ShuttingDown
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.rabbit.commands import Command, DeleteQueue, LoseLastConsumer, Principal
from millpond.rabbit.declare import decide

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)

# Before the controller is asked again whether a queue is deleted.
_RETRY_PAUSE_S = 1.0


class Deletions:
    """While a queue is being deleted no client can begin to use it, until it is gone or was not deleted."""

    def __init__(self, queues: "Queues") -> None:
        self._queues = queues
        self._is_forgiving = False

    def lose(self, queue: LocalQueue) -> None:
        """Delete a queue that was unused for too long, or whose topic is gone."""
        asker = Principal(vhost=queue.queue.vhost, connection=queue.queue.owner)
        self._begin(queue, DeleteQueue(asker=asker, name=queue.queue.name, key=queue.key))

    def lose_without_topic(self, queue: LocalQueue) -> None:
        """Delete a queue whose topic was deleted, unless the queue was, and perhaps declared again since."""
        rooms = self._queues.broker.vhosts.get(queue.queue.vhost)
        known = None if rooms is None else rooms.queues.get(queue.queue.name)
        is_same = known is not None and known.topic == queue.queue.topic
        if is_same and queue.queue.topic not in self._queues.engine.metadata.image.topics:
            self.lose(queue)

    def lost_last_consumer(self, queue: LocalQueue) -> None:
        """Delete an auto-delete queue; not before a consumer whose connection broke may be back."""
        if not queue.queue.auto_delete:
            return
        gone = LoseLastConsumer(vhost=queue.queue.vhost, queue=queue.queue.name, key=queue.key)
        if not self._is_forgiving:
            self._begin(queue, gone)
            return

        def look_again() -> None:
            if not queue.is_gone and not queue.state.consumers:
                self._begin(queue, gone)

        delay_s = limits.QUEUE_REMOTE_SILENCE_MS_MAX / 1000
        asyncio.get_running_loop().call_later(delay_s, look_again)

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Consumers that are lost in here may come again."""
        self._is_forgiving = True
        try:
            yield
        finally:
            self._is_forgiving = False

    async def delete(self, queue: LocalQueue, command: DeleteQueue) -> None:
        """Delete a queue for a client that waits for it. Raises a ``BrokerRefusal``.

        What is not known to be decided is asked again until it is: until then nothing may come into the
        queue, since it may go.
        """
        decide(self._queues.broker, command)
        queue.ending.begin()
        try:
            while True:
                try:
                    await self._queues.ask(command)
                except (BrokerRefusal, ShuttingDown):
                    raise
                except MillpondError as error:
                    log.warning("%s: whether it goes is not known: %s", queue.queue.resource, error)
                    if queue.is_gone or not self._queues.engine.runtime.running:
                        raise
                    await asyncio.sleep(_RETRY_PAUSE_S)
                else:
                    return
        finally:
            queue.ending.finish()

    def _begin(self, queue: LocalQueue, command: Command) -> None:
        if not queue.ending.has_begun and self._queues.is_running:
            queue.ending.begin()
            self._queues.spawn(self._carry_out(queue, command), type(command).__name__)

    async def _carry_out(self, queue: LocalQueue, command: Command) -> None:
        try:
            await self._queues.carry_out(command)
        finally:
            queue.ending.finish()
