"""Methods that declare, delete and bind exchanges and queues.

Each becomes a command to the controller; the client is answered when its decision is committed.
"""

import asyncio
import base64
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from millpond.base import errors
from millpond.engine.api.queues import Counts
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.naming import queue_name, readable
from millpond.rabbit.commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Unbind,
)
from millpond.rabbit.declare import decide
from millpond.rabbit.names import REPLY_TO, queue_of, without_line_breaks
from millpond.wire.amqp.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

_BINDINGS: dict[type[Method], type[Method]] = {
    QueueBind: QueueBindOk,
    QueueUnbind: QueueUnbindOk,
    ExchangeBind: ExchangeBindOk,
    ExchangeUnbind: ExchangeUnbindOk,
}


class Declarations:
    """The methods of one session."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session

    async def declare_queue(self, channel: Channel, method: QueueDeclare) -> None:
        session = self._session
        name = method.queue
        if name.startswith(REPLY_TO):
            self._find_replies(channel, method)
            return
        if method.passive and not name:
            name = queue_name(channel, name)
        fresh = base64.urlsafe_b64encode(session.frontend.engine.runtime.rng.uuid4().bytes)
        command = DeclareQueue(
            asker=session.asker,
            name=name,
            passive=method.passive,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
            fresh_name=f"amq.gen-{fresh.decode().rstrip('=')}",
        )
        declared = await self._decided(command)
        try:
            counts = await self._counted(declared)
        except errors.UnknownResource:
            # The queue was about to be deleted as unused: this declares the next one.
            declared = await self._decided(command)
            counts = await self._counted_if_there(declared)
        channel.last_queue = declared
        channel.say(
            QueueDeclareOk(
                queue=declared,
                message_count=counts.ready,
                consumer_count=counts.consumers,
            ),
            nowait=method.nowait,
        )

    async def _decided(self, command: DeclareQueue) -> str:
        decision = await self._session.frontend.queues.ask(command)
        assert decision.queue is not None
        return decision.queue.name

    async def _counted(self, name: str) -> Counts:
        return await self._session.frontend.queues.find(self._session.vhost, name).counted()

    async def _counted_if_there(self, name: str) -> Counts:
        """Count the messages of a queue that was just declared; one whose ``x-expires`` is a millisecond
        may be deleted already, and was empty.
        """
        try:
            return await self._counted(name)
        except errors.UnknownResource:
            return Counts(ready=0, consumers=0)

    def _find_replies(self, channel: Channel, method: QueueDeclare) -> None:
        """Answer a passive declaration of a reply address: it has one consumer or does not exist."""
        name = without_line_breaks(method.queue)
        if not self._session.frontend.replies.exists(name):
            raise errors.UnknownResource(f"no {queue_of(self._session.vhost, name)}")
        channel.last_queue = name
        answer = QueueDeclareOk(queue=name, message_count=0, consumer_count=1)
        channel.say(answer, nowait=method.nowait)

    async def delete_queue(self, channel: Channel, method: QueueDelete) -> None:
        # As in RabbitMQ, a client that deletes the queue of its own consumer hears that it is deleted, then
        # that the consumer is cancelled.
        with channel.telling_later():
            messages = await self._delete_queue(channel, method)
            channel.say(QueueDeleteOk(message_count=messages), nowait=method.nowait)

    async def _delete_queue(self, channel: Channel, method: QueueDelete) -> int:
        session = self._session
        queues = session.frontend.queues
        command = DeleteQueue(asker=session.asker, name=queue_name(channel, method.queue))
        messages = 0
        if method.if_unused or method.if_empty:
            command = replace(command, if_unused=method.if_unused, if_empty=method.if_empty)
            messages = await self._delete_if(command)
        else:
            if command.name in session.rooms.queues:
                # A queue that no node can host must be deletable all the same.
                with suppress(errors.MillpondError):
                    messages = (await queues.find(session.vhost, command.name).counted()).ready
            await queues.ask(command)
        return messages

    async def _delete_if(self, command: DeleteQueue) -> int:
        """Delete a queue if its host finds it unused or empty; no message is admitted meanwhile."""
        session = self._session
        queues = session.frontend.queues
        decide(queues.broker, command)
        messages, key = 0, ""
        while command.name in session.rooms.queues:
            queue = queues.find(session.vhost, command.name)
            if key not in {"", queue.key}:
                break  # another client has declared the next one
            key = queue.key
            try:
                messages = await queue.delete_if(command)
                break
            except errors.UnknownResource:
                # It was deleted at the same time, or moved to another host.
                await asyncio.sleep(0)
        # Answered when this node has applied it; if the queue still exists it counts as in use.
        await queues.ask(replace(command, messages=1, consumers=1, key=key))
        return messages

    async def purge(self, channel: Channel, method: QueuePurge) -> None:
        queue = readable(self._session, channel, method.queue)
        channel.say(QueuePurgeOk(message_count=await queue.purged()), nowait=method.nowait)

    async def declare_exchange(self, channel: Channel, method: ExchangeDeclare) -> None:
        await self._session.frontend.queues.ask(
            DeclareExchange(
                asker=self._session.asker,
                name=method.exchange,
                type=method.type,
                passive=method.passive,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=method.arguments,
            )
        )
        channel.say(ExchangeDeclareOk(), nowait=method.nowait)

    async def delete_exchange(self, channel: Channel, method: ExchangeDelete) -> None:
        await self._session.frontend.queues.ask(
            DeleteExchange(
                asker=self._session.asker, name=method.exchange, if_unused=method.if_unused
            )
        )
        channel.say(ExchangeDeleteOk(), nowait=method.nowait)

    async def bind(
        self, channel: Channel, method: QueueBind | QueueUnbind | ExchangeBind | ExchangeUnbind
    ) -> None:
        key = method.routing_key
        if isinstance(method, (QueueBind, QueueUnbind)):
            source, destination, to_queue = method.exchange, method.queue, True
            if not destination:
                destination = queue_name(channel, destination)
                key = key or destination
        else:
            source, destination, to_queue = method.source, method.destination, False
        kind = Bind if isinstance(method, (QueueBind, ExchangeBind)) else Unbind
        await self._session.frontend.queues.ask(
            kind(
                asker=self._session.asker,
                source=source,
                destination=destination,
                to_queue=to_queue,
                routing_key=key,
                arguments=method.arguments,
            )
        )
        nowait = False if isinstance(method, QueueUnbind) else method.nowait
        channel.say(_BINDINGS[type(method)](), nowait=nowait)
