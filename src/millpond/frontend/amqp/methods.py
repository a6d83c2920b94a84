"""Dispatches each method of a channel to the part of the front-end that carries it out."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from millpond.base import errors
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.consuming import Consuming
from millpond.frontend.amqp.declarations import Declarations
from millpond.frontend.amqp.handshake import renew
from millpond.rabbit.channel import Confirms
from millpond.wire.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionUpdateSecret,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession


class Methods:
    """The methods of one session. A method that has to wait returns a coroutine."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session
        self._declarations = Declarations(session)
        self._consuming = Consuming(session)
        self._transactions = session.transactions

    def carry_out(
        self, channel: Channel | None, method: Method
    ) -> Coroutine[Any, Any, None] | None:
        """Raises ``BrokerRefusal`` and ``Violation``; the coroutine does, too."""
        if channel is None:
            if isinstance(method, ConnectionUpdateSecret):
                return renew(self._session, method)
            return None
        declarations = self._declarations
        match method:
            case QueueDeclare():
                return declarations.declare_queue(channel, method)
            case QueueDelete():
                return declarations.delete_queue(channel, method)
            case QueuePurge():
                return declarations.purge(channel, method)
            case ExchangeDeclare():
                return declarations.declare_exchange(channel, method)
            case ExchangeDelete():
                return declarations.delete_exchange(channel, method)
            case QueueBind() | QueueUnbind() | ExchangeBind() | ExchangeUnbind():
                return declarations.bind(channel, method)
            case BasicGet():
                return self._consuming.get(channel, method)
            case BasicConsume():
                return self._consuming.consume(channel, method)
            case BasicCancel():
                return self._consuming.cancel(channel, method)
            case TxCommit():
                return self._transactions.commit(channel)
            case _:
                self._at_once(channel, method)
                return None

    def _at_once(self, channel: Channel, method: Method) -> None:
        match method:
            case BasicQos():
                self._consuming.limit(channel, method)
            case BasicNack() | BasicReject():
                multiple = isinstance(method, BasicNack) and method.multiple
                verb = "requeue" if method.requeue else "reject"
                self._session.acknowledge(channel, verb, [(method.delivery_tag, multiple)])
            case BasicRecover() | BasicRecoverAsync():
                self._recover(channel, method)
            case ConfirmSelect():
                if channel.transaction is not None:
                    raise errors.ResourceInUse("cannot switch from tx to confirm mode")
                channel.confirms = channel.confirms or Confirms()
                channel.say(ConfirmSelectOk(), nowait=method.nowait)
            case TxSelect():
                self._transactions.select(channel)
            case TxRollback():
                self._transactions.roll_back(channel)
            case AccessRequest():
                channel.say(AccessRequestOk())
            case ChannelFlow():
                if not method.active:
                    raise _not_implemented("active=false", method)
                channel.say(ChannelFlowOk(active=True))
            case _:
                raise AssertionError(f"the wire lets no client send {method.name}")

    def _recover(self, channel: Channel, method: BasicRecover | BasicRecoverAsync) -> None:
        if not method.requeue:
            raise _not_implemented("requeue=false", method)
        self._session.finish(channel, "requeue", channel.deliveries.take_all())
        if isinstance(method, BasicRecover):
            channel.say(BasicRecoverOk())


def _not_implemented(text: str, method: Method) -> Violation:
    return Violation(
        ReplyCode.NOT_IMPLEMENTED, text, class_id=method.class_id, method_id=method.method_id
    )
