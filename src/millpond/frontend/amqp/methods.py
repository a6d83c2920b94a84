"""What each method of a channel means: a command about furniture, or a verb of a queue."""

import base64
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from millpond.base import errors
from millpond.engine.hosted_queue import HostedQueue
from millpond.frontend.amqp.channel import Channel, Transaction
from millpond.frontend.amqp.delivering import hold, shown_block
from millpond.frontend.amqp.publishing import Publishing
from millpond.queue.arguments import STREAM, check_consumed
from millpond.queue.channel import Confirms
from millpond.queue.commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Unbind,
)
from millpond.queue.consumers import Consumer
from millpond.queue.decisions import check_owner, check_right
from millpond.queue.names import without_line_breaks
from millpond.queue.permissions import Right
from millpond.wire.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
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
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

_BINDINGS: dict[type[Method], type[Method]] = {
    QueueBind: QueueBindOk,
    QueueUnbind: QueueUnbindOk,
    ExchangeBind: ExchangeBindOk,
    ExchangeUnbind: ExchangeUnbindOk,
}


class Methods:
    """One session's. What has to wait comes back as a coroutine."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session

    def carry_out(
        self, channel: Channel | None, method: Method
    ) -> Coroutine[Any, Any, None] | None:
        """Raises ``BrokerRefusal`` and ``Violation``; the coroutine does, too."""
        if channel is None:
            if isinstance(method, ConnectionUpdateSecret):
                self._session.wire.send(0, ConnectionUpdateSecretOk())
            return None
        match method:
            case QueueDeclare():
                return self._declare_queue(channel, method)
            case QueueDelete():
                return self._delete_queue(channel, method)
            case QueuePurge():
                return self._purge(channel, method)
            case ExchangeDeclare():
                return self._declare_exchange(channel, method)
            case ExchangeDelete():
                return self._delete_exchange(channel, method)
            case QueueBind() | QueueUnbind() | ExchangeBind() | ExchangeUnbind():
                return self._bind(channel, method)
            case BasicGet():
                return self._get(channel, method)
            case TxCommit():
                return self._commit(channel)
            case _:
                self._at_once(channel, method)
                return None

    def _at_once(self, channel: Channel, method: Method) -> None:
        match method:
            case BasicConsume():
                self._consume(channel, method)
            case BasicCancel():
                self._cancel(channel, method)
            case BasicQos():
                self._limit(channel, method)
            case BasicNack() | BasicReject():
                multiple = isinstance(method, BasicNack) and method.multiple
                verb = "requeue" if method.requeue else "reject"
                self._session.acknowledge(channel, verb, [(method.delivery_tag, multiple)])
            case BasicRecover() | BasicRecoverAsync():
                self._session.finish(channel, "requeue", channel.deliveries.take_all())
                if isinstance(method, BasicRecover):
                    self._say(channel, BasicRecoverOk())
            case ConfirmSelect():
                if channel.transaction is not None:
                    raise errors.ResourceInUse("cannot switch from tx to confirm mode")
                channel.confirms = channel.confirms or Confirms()
                self._say(channel, ConfirmSelectOk(), nowait=method.nowait)
            case TxSelect():
                if channel.confirms is not None:
                    raise errors.ResourceInUse("cannot switch from confirm to tx mode")
                channel.transaction = channel.transaction or Transaction()
                self._say(channel, TxSelectOk())
            case TxRollback():
                self._roll_back(channel)
            case AccessRequest():
                self._say(channel, AccessRequestOk())
            case ChannelFlow():
                if not method.active:
                    raise Violation(ReplyCode.NOT_IMPLEMENTED, "active=false")
                self._say(channel, ChannelFlowOk(active=True))
            case _:
                raise AssertionError(f"the wire lets no client send {method.name}")

    # --- furniture ---------------------------------------------------------------------------------------

    async def _declare_queue(self, channel: Channel, method: QueueDeclare) -> None:
        session = self._session
        queues = session.frontend.queues
        name = method.queue
        if method.passive and not name:
            name = self._name(channel, name)
        fresh = base64.urlsafe_b64encode(session.frontend.engine.rng.uuid4().bytes)
        decision = await queues.ask(
            DeclareQueue(
                asker=session.asker,
                name=name,
                passive=method.passive,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                arguments=method.arguments,
                fresh_name=f"amq.gen-{fresh.decode().rstrip('=')}",
            )
        )
        assert decision.queue is not None
        channel.last_queue = decision.queue.name
        queue = queues.hosted(session.vhost, decision.queue.name)
        await queue.settled()
        queue.line.touch(session.frontend.engine.clock.now_ms())
        self._say(
            channel,
            QueueDeclareOk(
                queue=decision.queue.name,
                message_count=queue.line.ready,
                consumer_count=len(queue.line.consumers),
            ),
            nowait=method.nowait,
        )

    async def _delete_queue(self, channel: Channel, method: QueueDelete) -> None:
        session = self._session
        name = self._name(channel, method.queue)
        messages = consumers = 0
        if name in session.rooms.queues:
            queue = session.frontend.queues.hosted(session.vhost, name)
            await queue.settled()
            messages, consumers = queue.line.ready, len(queue.line.consumers)
        await session.frontend.queues.ask(
            DeleteQueue(
                asker=session.asker,
                name=name,
                if_unused=method.if_unused,
                if_empty=method.if_empty,
                messages=messages,
                consumers=consumers,
            )
        )
        self._say(channel, QueueDeleteOk(message_count=messages), nowait=method.nowait)

    async def _purge(self, channel: Channel, method: QueuePurge) -> None:
        queue = self._readable(channel, method.queue)
        await queue.settled()
        self._say(channel, QueuePurgeOk(message_count=queue.purge()), nowait=method.nowait)

    async def _declare_exchange(self, channel: Channel, method: ExchangeDeclare) -> None:
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
        self._say(channel, ExchangeDeclareOk(), nowait=method.nowait)

    async def _delete_exchange(self, channel: Channel, method: ExchangeDelete) -> None:
        await self._session.frontend.queues.ask(
            DeleteExchange(
                asker=self._session.asker, name=method.exchange, if_unused=method.if_unused
            )
        )
        self._say(channel, ExchangeDeleteOk(), nowait=method.nowait)

    async def _bind(
        self, channel: Channel, method: QueueBind | QueueUnbind | ExchangeBind | ExchangeUnbind
    ) -> None:
        key = method.routing_key
        if isinstance(method, (QueueBind, QueueUnbind)):
            source, destination, to_queue = method.exchange, method.queue, True
            if not destination:
                destination = self._name(channel, destination)
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
        self._say(channel, _BINDINGS[type(method)](), nowait=nowait)

    # --- messages ------------------------------------------------------------------------------------------

    async def _get(self, channel: Channel, method: BasicGet) -> None:
        queue = self._readable(channel, method.queue)
        await queue.settled()
        if channel.is_closed:
            return
        asker = Consumer(
            owner=f"{channel.name}/get", channel=channel.name, tag="", no_ack=method.no_ack
        )
        handout = queue.get(asker)
        if handout is None:
            self._say(channel, BasicGetEmpty())
            return
        message = queue.message(handout.lane, handout.first)
        answer = BasicGetOk(
            delivery_tag=hold(channel, queue, handout, handout.first),
            redelivered=handout.redelivered,
            exchange=message.exchange,
            routing_key=message.routing_key,
            message_count=queue.line.ready,
        )
        block = shown_block(queue, message, handout)
        self._session.send_content(channel, answer, block, message.body)

    def _consume(self, channel: Channel, method: BasicConsume) -> None:
        session = self._session
        queue = self._readable(channel, method.queue)
        resource = queue.queue.resource
        if method.consumer_tag in channel.consumers:
            raise Violation(
                ReplyCode.NOT_ALLOWED,
                f"attempt to reuse consumer tag '{method.consumer_tag}'",
                class_id=method.class_id,
                method_id=method.method_id,
            )
        queue.line.consumers.check(resource, exclusive=method.exclusive)
        check_consumed(resource, method.arguments)
        priority = method.arguments.get("x-priority", 0)
        owner = channel.next_owner()
        fresh = base64.urlsafe_b64encode(session.frontend.engine.rng.uuid4().bytes)
        tag = method.consumer_tag or f"amq.ctag-{fresh.decode().rstrip('=')}"
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
        channel.consumers[tag] = queue, consumer
        channel.queues[queue.key] = queue
        self._say(channel, BasicConsumeOk(consumer_tag=tag), nowait=method.nowait)
        queue.consume(consumer, channel)

    def _cancel(self, channel: Channel, method: BasicCancel) -> None:
        known = channel.consumers.pop(method.consumer_tag, None)
        if known is not None:
            queue, consumer = known
            self._session.take_back(channel, consumer.owner)
            channel.writers.pop(consumer.owner, None)
            queue.cancel(consumer.owner)
        answer = BasicCancelOk(consumer_tag=method.consumer_tag)
        self._say(channel, answer, nowait=method.nowait)

    def _limit(self, channel: Channel, method: BasicQos) -> None:
        if method.prefetch_size:
            raise Violation(
                ReplyCode.NOT_IMPLEMENTED,
                f"prefetch_size!=0 ({method.prefetch_size})",
                class_id=method.class_id,
                method_id=method.method_id,
            )
        if method.is_global:
            channel.deliveries.prefetch = method.prefetch_count
            for queue, _consumer in channel.consumers.values():
                queue.wake()
        else:
            channel.prefetch = method.prefetch_count
        self._say(channel, BasicQosOk())

    # --- transactions --------------------------------------------------------------------------------

    async def _commit(self, channel: Channel) -> None:
        session, done = self._session, self._transaction(channel)
        channel.transaction = None
        try:
            publishing = Publishing(session, channel)
            publishing.add(done.publishes)
            publishing.carry_out()
            for verb, tag, multiple in done.acks:
                session.acknowledge(channel, verb, [(tag, multiple)])
            is_kept = await publishing.settled()
        finally:
            channel.transaction = Transaction()
        if not is_kept:
            raise errors.ResourceInUse("a message of the transaction was not taken by its queue")
        self._say(channel, TxCommitOk())

    def _roll_back(self, channel: Channel) -> None:
        """Publishes and acks are forgotten: what was acknowledged is still held."""
        self._transaction(channel)
        channel.transaction = Transaction()
        self._say(channel, TxRollbackOk())

    def _transaction(self, channel: Channel) -> Transaction:
        if channel.transaction is None:
            raise errors.ResourceInUse("channel is not transactional")
        return channel.transaction

    # --- helpers -------------------------------------------------------------------------------------

    def _name(self, channel: Channel, name: str) -> str:
        """A queue by its name, or the one that the channel declared last."""
        name = without_line_breaks(name) or channel.last_queue
        if not name:
            raise errors.UnknownResource("no previously declared queue")
        return name

    def _readable(self, channel: Channel, name: str) -> HostedQueue:
        session = self._session
        name = self._name(channel, name)
        queue = session.rooms.queue(name)
        check_right(session.frontend.queues.broker, session.asker, queue.resource, Right.READ)
        check_owner(queue, session.name)
        if queue.type == STREAM:
            raise Violation(
                ReplyCode.NOT_IMPLEMENTED, f"{queue.resource} is a stream: read it as a topic"
            )
        return session.frontend.queues.hosted(session.vhost, name)

    def _say(self, channel: Channel, method: Method, *, nowait: bool = False) -> None:
        if not nowait:
            self._session.send(channel, method)
