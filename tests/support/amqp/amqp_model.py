"""The pure model of a broker answering AMQP's methods, without a front-end, in the lines that a client
would say.

What a front-end will do with connections, channels and sockets is left out; what is decided is the model's.
"""

from millpond.base import errors
from millpond.rabbit.broker import Broker
from millpond.rabbit.commands import (
    Bind,
    Command,
    Decision,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Principal,
    Unbind,
)
from millpond.rabbit.declare import decide
from millpond.rabbit.records import Fact, VirtualHost, decode_fact, encode_fact
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
    QueueUnbind,
    QueueUnbindOk,
)
from millpond.wire.amqp.violations import ReplyCode

# Which reply code each refusal is; a front-end has the same table.
CODES: dict[type[errors.BrokerRefusal], ReplyCode] = {
    errors.UnknownResource: ReplyCode.NOT_FOUND,
    errors.AccessRefused: ReplyCode.ACCESS_REFUSED,
    errors.QueueInUse: ReplyCode.ACCESS_REFUSED,
    errors.QueueLocked: ReplyCode.RESOURCE_LOCKED,
    errors.Inequivalent: ReplyCode.PRECONDITION_FAILED,
    errors.InvalidQueueArgument: ReplyCode.PRECONDITION_FAILED,
    errors.InvalidBinding: ReplyCode.PRECONDITION_FAILED,
    errors.ResourceInUse: ReplyCode.PRECONDITION_FAILED,
    errors.UnknownDeliveryTag: ReplyCode.PRECONDITION_FAILED,
    errors.LimitReached: ReplyCode.PRECONDITION_FAILED,
    errors.UnknownExchangeType: ReplyCode.COMMAND_INVALID,
    errors.UnknownVirtualHost: ReplyCode.NOT_ALLOWED,
    errors.VirtualHostRefused: ReplyCode.NOT_ALLOWED,
}


def refusal_line(error: errors.BrokerRefusal) -> str:
    code = CODES[type(error)]
    what = "connection" if code.is_hard else "channel"
    return f"{what} closed: {code} {code.name} - {error}"


class ModelBroker:
    """A broker's furniture; every fact goes through its bytes before it is applied."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.facts: list[Fact] = []
        self.put(VirtualHost(name="/"))

    def put(self, *facts: Fact) -> None:
        for fact in facts:
            kept = decode_fact(encode_fact(fact))
            assert kept == fact
            self.facts.append(kept)
            self.broker.apply(kept)

    def ask(self, command: Command) -> Decision:
        decision = decide(self.broker, command)
        self.put(*decision.facts)
        return decision

    def answer(self, method: Method, connection: str = "c1", user: str | None = None) -> str:
        """What a client hears."""
        try:
            return repr(self._answer(method, Principal(connection=connection, user=user)))
        except errors.BrokerRefusal as error:
            return refusal_line(error)

    def _answer(self, method: Method, asker: Principal) -> Method:
        match method:
            case QueueDeclare():
                return self._declare_queue(method, asker)
            case QueueDelete():
                self.ask(
                    DeleteQueue(
                        asker=asker,
                        name=method.queue,
                        if_unused=method.if_unused,
                        if_empty=method.if_empty,
                    )
                )
                return QueueDeleteOk()
            case ExchangeDeclare():
                self.ask(
                    DeclareExchange(
                        asker=asker,
                        name=method.exchange,
                        type=method.type,
                        passive=method.passive,
                        durable=method.durable,
                        auto_delete=method.auto_delete,
                        internal=method.internal,
                        arguments=method.arguments,
                    )
                )
                return ExchangeDeclareOk()
            case ExchangeDelete():
                self.ask(
                    DeleteExchange(asker=asker, name=method.exchange, if_unused=method.if_unused)
                )
                return ExchangeDeleteOk()
            case _:
                return self._bind(method, asker)

    def _declare_queue(self, method: QueueDeclare, asker: Principal) -> Method:
        decision = self.ask(
            DeclareQueue(
                asker=asker,
                name=method.queue,
                passive=method.passive,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                arguments=method.arguments,
                fresh_name="amq.gen-fresh",
            )
        )
        assert decision.queue is not None
        return QueueDeclareOk(queue=decision.queue.name)

    def _bind(self, method: Method, asker: Principal) -> Method:
        assert isinstance(method, (QueueBind, QueueUnbind, ExchangeBind, ExchangeUnbind))
        to_queue = isinstance(method, (QueueBind, QueueUnbind))
        source = method.exchange if isinstance(method, (QueueBind, QueueUnbind)) else method.source
        destination = (
            method.queue if isinstance(method, (QueueBind, QueueUnbind)) else method.destination
        )
        if to_queue and not destination:
            raise errors.UnknownResource("no previously declared queue")
        kind = Bind if isinstance(method, (QueueBind, ExchangeBind)) else Unbind
        self.ask(
            kind(
                asker=asker,
                source=source,
                destination=destination,
                to_queue=to_queue,
                routing_key=method.routing_key,
                arguments=method.arguments,
            )
        )
        answers: dict[type[Method], type[Method]] = {
            QueueBind: QueueBindOk,
            QueueUnbind: QueueUnbindOk,
            ExchangeBind: ExchangeBindOk,
            ExchangeUnbind: ExchangeUnbindOk,
        }
        return answers[type(method)]()
