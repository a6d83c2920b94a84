"""One client's channel on the pure model: furniture, queues, letters and a clock, all in memory.

It does with the model what an engine and a front-end will do, in the simplest way: each message is a row of
a list, facts are applied and thrown away. What it says is compared with what RabbitMQ says.
"""

from collections.abc import Callable
from dataclasses import dataclass

from millpond.base import errors
from millpond.base.fields import Table
from millpond.queue.consumers import UNLIMITED, Consumer
from millpond.queue.known import Meta
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import DeadLetter, DeathReason, Handout, Step
from millpond.rabbit.arguments import check_consumed
from millpond.rabbit.channel import Confirms, Deliveries, Held, grouped
from millpond.rabbit.commands import DeleteQueue, Principal
from millpond.rabbit.dead_letter_headers import is_cycle, with_death
from millpond.rabbit.exchange_types import Routed
from millpond.rabbit.names import exchange_of, queue_of, without_line_breaks
from millpond.rabbit.policies import DeadLetterTarget
from millpond.wire.amqp.events import Content, ContentReceived, Event, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from millpond.wire.amqp.properties import KINDS, Properties, encode_properties
from tests.support.amqp.amqp_model import ModelBroker, refusal_line
from tests.support.amqp.answered_queue import AnsweredQueue

CONNECTION, CHANNEL = "c1", "c1/1"


@dataclass
class Stored:
    """A message as a queue's log has it."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes
    published_ms: int

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}


class ModelQueue:
    """A queue with its messages."""

    def __init__(self, settings: QueueSettings, now_ms: int) -> None:
        self.line = AnsweredQueue(settings, self, now_ms=now_ms)
        self.logs: list[list[Stored]] = [[] for _lane in self.line.lanes]

    def meta(self, lane: int, offset: int) -> Meta:
        stored = self.logs[lane][offset]
        expiration = stored.properties.expiration
        return Meta(
            len(stored.body), stored.published_ms, None if expiration is None else int(expiration)
        )


class ModelSession:
    """A connection with one channel, as a client sees it; ``said`` gathers what it hears."""

    def __init__(self) -> None:
        self.model = ModelBroker()
        self.now_ms = 1_000_000
        self.queues: dict[str, ModelQueue] = {}
        self.deliveries = Deliveries()
        self.confirms: Confirms | None = None
        self.prefetch = 0
        self.owners: dict[str, tuple[str, str]] = {}
        self.heard: list[Event | str] = []
        self._consumed = 0

    # --- what a client does ------------------------------------------------------------------------------

    def do(self, method: Method) -> None:
        try:
            self._do(method)
        except errors.BrokerRefusal as error:
            self.heard.append(refusal_line(error))

    def publish(self, method: BasicPublish, properties: Properties, body: bytes) -> None:
        try:
            self._publish(method, properties, body)
        except errors.BrokerRefusal as error:
            self.heard.append(refusal_line(error))

    def wait(self, elapsed_ms: int) -> None:
        """Time passes, and whatever is due happens when it is."""
        until_ms = self.now_ms + elapsed_ms
        while True:
            due_ms = min((queue.line.wake_ms() for queue in self.queues.values()), default=until_ms)
            self.now_ms = max(self.now_ms, min(due_ms, until_ms))
            for name, queue in list(self.queues.items()):
                self._follow(name, queue, queue.line.expire(self.now_ms))
                self._deliver(name, queue)
            if due_ms > until_ms or self.now_ms >= until_ms:
                return

    def reopen(self) -> None:
        """The channel was closed and another one is opened."""
        for name, queue in self.queues.items():
            self._follow(name, queue, queue.line.lose_channel(CHANNEL, self.now_ms))
        self.deliveries = Deliveries()
        self.confirms = None
        self.owners.clear()

    # --- methods -------------------------------------------------------------------------------------------

    def _do(self, method: Method) -> None:
        match method:
            case QueueDeclare():
                self._declare(method)
            case QueueDelete():
                self._delete(method)
            case QueuePurge():
                count, step = self._queue(method.queue).line.purge()
                assert not step.dead_letters
                self._hear(QueuePurgeOk(message_count=count))
            case BasicGet():
                self._get(method)
            case BasicConsume():
                self._consume(method)
            case BasicCancel():
                queue, owner = self.owners.pop(method.consumer_tag)
                self.queues[queue].line.cancel(owner, self.now_ms)
                self._hear(BasicCancelOk(consumer_tag=method.consumer_tag))
            case BasicQos():
                if method.is_global:
                    self.deliveries.prefetch = method.prefetch_count
                else:
                    self.prefetch = method.prefetch_count
                self._hear(BasicQosOk())
            case ConfirmSelect():
                self.confirms = self.confirms or Confirms()
                self._hear(ConfirmSelectOk())
            case BasicAck():
                held = self.deliveries.take(method.delivery_tag, multiple=method.multiple)
                self._finish(held, AnsweredQueue.settle)
            case BasicNack() | BasicReject():
                multiple = isinstance(method, BasicNack) and method.multiple
                held = self.deliveries.take(method.delivery_tag, multiple=multiple)
                self._finish(
                    held, AnsweredQueue.requeued if method.requeue else AnsweredQueue.reject
                )
            case BasicRecover():
                self._finish(self.deliveries.take_all(), AnsweredQueue.requeued)
                self._hear(BasicRecoverOk())
            case _:
                self.heard.append(self.model.answer(method, CONNECTION))

    def _declare(self, method: QueueDeclare) -> None:
        answer = self.model.answer(method, CONNECTION)
        if not answer.startswith("QueueDeclareOk"):
            self.heard.append(answer)
            return
        rooms = self.model.broker.rooms("/")
        name = without_line_breaks(method.queue)
        if name not in self.queues:
            self.queues[name] = ModelQueue(rooms.settings(name), self.now_ms)
        line = self.queues[name].line
        self._hear(
            QueueDeclareOk(queue=name, message_count=line.ready, consumer_count=len(line.consumers))
        )

    def _delete(self, method: QueueDelete) -> None:
        queue = self.queues.get(method.queue)
        if queue is None:
            self.heard.append(self.model.answer(method, CONNECTION))
            return
        line = queue.line
        self.model.ask(
            DeleteQueue(
                asker=Principal(connection=CONNECTION),
                name=method.queue,
                if_empty=method.if_empty,
                if_unused=method.if_unused,
                messages=line.ready,
                consumers=len(line.consumers),
            )
        )
        del self.queues[method.queue]
        self._hear(QueueDeleteOk(message_count=line.ready))

    def _get(self, method: BasicGet) -> None:
        queue = self._queue(method.queue)
        asker = Consumer(owner=f"{CHANNEL}/get", channel=CHANNEL, tag="", no_ack=method.no_ack)
        step = queue.line.get(asker, self.now_ms)
        self._follow(method.queue, queue, step._replace(handouts=()))
        if not step.handouts:
            self._hear(BasicGetEmpty())
            return
        (handout,) = step.handouts
        tag, stored = self._out(method.queue, queue, handout, handout.first)
        # As RabbitMQ does, look at ages once more before counting.
        self._follow(method.queue, queue, queue.line.expire(self.now_ms))
        answer = BasicGetOk(
            delivery_tag=tag,
            redelivered=handout.redelivered,
            exchange=stored.exchange,
            routing_key=stored.routing_key,
            message_count=queue.line.ready,
        )
        self._hear_content(answer, self._seen(queue, stored, handout), stored.body)

    def _consume(self, method: BasicConsume) -> None:
        queue = self._queue(method.queue)
        resource = queue_of("/", method.queue)
        queue.line.consumers.check(str(resource), exclusive=method.exclusive)
        check_consumed(resource, method.arguments)
        self._consumed += 1
        priority = method.arguments.get("x-priority", 0)
        assert isinstance(priority, int)
        consumer = Consumer(
            owner=f"{CHANNEL}/{self._consumed}",
            channel=CHANNEL,
            tag=method.consumer_tag,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
            prefetch=self.prefetch,
            priority=priority,
        )
        self.owners[method.consumer_tag] = method.queue, consumer.owner
        queue.line.consume(consumer, self.now_ms)
        self._hear(BasicConsumeOk(consumer_tag=method.consumer_tag))
        self._deliver(method.queue, queue)

    def _finish(self, held: list[Held], verb: Callable[..., Step]) -> None:
        for group in grouped(held):
            queue = self.queues[group.queue]
            step = verb(queue.line, group.lane, group.ranges, group.owner, self.now_ms)
            assert not step.refused
            self._follow(group.queue, queue, step)
        for name, queue in self.queues.items():
            self._deliver(name, queue)

    # --- messages ------------------------------------------------------------------------------------------

    def _publish(self, method: BasicPublish, properties: Properties, body: bytes) -> None:
        rooms = self.model.broker.rooms("/")
        if method.exchange and rooms.exchange(method.exchange).internal:
            resource = exchange_of("/", method.exchange)
            raise errors.AccessRefused(f"cannot publish to internal {resource}")
        if properties.expiration is not None and not properties.expiration.isdecimal():
            raise errors.InvalidQueueArgument(
                f"invalid expiration '{properties.expiration}': no_integer"
            )
        headers = dict(properties.headers or {})
        keys = [method.routing_key, *_keys(headers.get("CC")), *_keys(headers.pop("BCC", None))]
        kept = _with(properties, headers=headers if properties.headers is not None else None)
        message = Stored(method.exchange, method.routing_key, kept, body, self.now_ms)
        number = self.confirms.number() if self.confirms is not None else 0
        queues = rooms.router.route(method.exchange, Routed(tuple(keys), headers))
        if not queues and method.mandatory:
            back = BasicReturn(
                reply_code=312,
                reply_text="NO_ROUTE",
                exchange=method.exchange,
                routing_key=method.routing_key,
            )
            self._hear_content(back, properties, body)
        # Every queue gets it, whatever another says.
        refusals = [name for name in queues if not self._enqueue(name, message)]
        if self.confirms is not None:
            for answer in self.confirms.answer(number, number + 1, is_yes=not refusals):
                kind = BasicAck if answer.is_yes else BasicNack
                self._hear(kind(delivery_tag=answer.number, multiple=answer.multiple))

    def _enqueue(self, name: str, message: Stored) -> bool:
        queue = self.queues[name]
        admission = queue.line.admit([len(message.body)])
        if not admission.admitted:
            if admission.to_dead_letters:
                self._letter(name, queue, message, DeathReason.MAX_LENGTH)
            return False
        lane = queue.line.lane_of(message.properties.priority)
        log = queue.logs[lane]
        log.append(message)
        has_ttl = message.properties.expiration is not None
        queue.line.published(lane, len(log) - 1, len(log), has_ttl=has_ttl)
        self._deliver(name, queue)
        self._follow(name, queue, queue.line.trim(self.now_ms))
        return True

    def _deliver(self, name: str, queue: ModelQueue) -> None:
        step = queue.line.deliver(
            self.now_ms, lambda one: UNLIMITED if one.no_ack else self.deliveries.room
        )
        self._follow(name, queue, step)

    def _follow(self, name: str, queue: ModelQueue, step: Step) -> None:
        for letter in step.dead_letters:
            self._letters(name, queue, letter)
        for handout in step.handouts:
            for offset in range(handout.first, handout.next):
                tag, stored = self._out(name, queue, handout, offset)
                method = BasicDeliver(
                    consumer_tag=handout.consumer.tag,
                    delivery_tag=tag,
                    redelivered=handout.redelivered,
                    exchange=stored.exchange,
                    routing_key=stored.routing_key,
                )
                self._hear_content(method, self._seen(queue, stored, handout), stored.body)

    def _out(
        self, name: str, queue: ModelQueue, handout: Handout, offset: int
    ) -> tuple[int, Stored]:
        held = Held(name, handout.consumer.owner, handout.lane, offset)
        tag = self.deliveries.add(None if handout.consumer.no_ack else held)
        return tag, queue.logs[handout.lane][offset]

    def _seen(self, queue: ModelQueue, stored: Stored, handout: Handout) -> Properties:
        """What a consumer of a quorum queue is told besides."""
        if queue.line.settings.delivery_limit is None:
            return stored.properties
        headers = {**stored.headers, "x-delivery-count": handout.deliveries - 1}
        return _with(stored.properties, headers=headers)

    def _letters(self, name: str, queue: ModelQueue, letter: DeadLetter) -> None:
        for offset in range(letter.first, letter.next):
            self._letter(name, queue, queue.logs[letter.lane][offset], letter.reason)

    def _letter(self, name: str, queue: ModelQueue, dead: Stored, reason: DeathReason) -> None:
        where = queue.line.settings.dead_letter_target
        if not isinstance(where, DeadLetterTarget):
            return
        target, new_key = where
        if target and target not in self.model.broker.rooms("/").exchanges:
            return
        keys = (dead.routing_key, *_keys(dead.headers.get("CC")))
        headers = with_death(
            dead.headers,
            reason=reason,
            queue=name,
            exchange=dead.exchange,
            routing_keys=keys,
            time_s=self.now_ms // 1000,
            expiration=dead.properties.expiration,
            new_key=new_key is not None,
        )
        properties = _with(dead.properties, headers=headers, expiration=None)
        routing_keys = keys if new_key is None else (new_key,)
        message = Stored(target, routing_keys[0], properties, dead.body, self.now_ms)
        router = self.model.broker.rooms("/").router
        for found in router.route(target, Routed(routing_keys, headers)):
            if not is_cycle(headers, found, reason):
                self._enqueue(found, message)

    # --- saying --------------------------------------------------------------------------------------------

    def _queue(self, name: str) -> ModelQueue:
        if not name:
            raise errors.UnknownResource("no previously declared queue")
        self.model.broker.rooms("/").queue(name)
        return self.queues[name]

    def _hear(self, method: Method) -> None:
        self.heard.append(MethodReceived(1, method))

    def _hear_content(self, method: Method, properties: Properties, body: bytes) -> None:
        content = Content(method, encode_properties(properties), body)
        self.heard.append(ContentReceived(1, content))


def _with(properties: Properties, **changes: object) -> Properties:
    values = {name: getattr(properties, name) for name, _kind in KINDS} | changes
    return Properties(**values)


def _keys(value: object) -> list[str]:
    return [str(key) for key in value] if isinstance(value, list) else []
