"""Queues are the engine's: a node serves them with any codec of messages, without a front-end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from millpond.base.fields import Table
from millpond.engine.queues.queue_handle import NEVER_READ, QueueHandle
from millpond.engine.queues.queues import Queues
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout
from millpond.rabbit.commands import DeclareQueue, Principal
from millpond.record.builder import NewRecord
from millpond.record.records import Record
from tests.support.cluster.memory_broker import memory_broker

TTL = "ttl"


class PlainCodec:
    """A message is its routing key and its body."""

    protocol = "plain"

    def to_record(self, message: Message) -> NewRecord:
        ttl: list[tuple[str, bytes | None]] = []
        if message.ttl_ms is not None:
            ttl.append((TTL, b"%d" % message.ttl_ms))
        return message.received_ms, message.key.encode(), message.body, ttl

    def to_records(self, messages: Sequence[Message]) -> list[NewRecord]:
        return [self.to_record(message) for message in messages]

    def from_record(self, record: Record) -> Message | None:
        ttl = dict(record.headers).get(TTL)
        return Message(
            address="",
            key=(record.key or b"").decode(),
            properties=b"",
            headers={},
            body=record.value or b"",
            received_ms=record.timestamp,
            ttl_ms=None if ttl is None else int(ttl),
        )

    def convert(self, message: Message) -> Message:
        return message

    def chosen_by(self, message: Message) -> Table:
        return {}

    def with_headers(self, message: Message, *, headers: Table, now_ms: int) -> Message:
        return message._replace(headers=headers, received_ms=now_ms)

    def readdressed(
        self, message: Message, *, address: str, key: str, headers: Table, now_ms: int
    ) -> Message:
        return message._replace(address=address, key=key, received_ms=now_ms, ttl_ms=None)


class Inbox:
    """A consumer's sink that keeps what it gets."""

    follows = False

    def __init__(self) -> None:
        self.got: list[tuple[bytes, Handout]] = []

    def room(self, consumer: Consumer) -> int:
        return 100

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        for offset in range(handout.first, handout.next):
            self.got.append((queue.message(handout.lane, offset).body, handout))

    def send_out(self) -> None: ...

    def cancelled(self, consumer: Consumer) -> None: ...

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None: ...

    def unread(self, queue: QueueHandle, lane: int) -> int:
        return NEVER_READ

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _handout in self.got]


@asynccontextmanager
async def node() -> AsyncIterator[Queues]:
    async with memory_broker() as broker:
        queues = Queues(broker.engine, PlainCodec())
        await queues.start()
        try:
            yield queues
        finally:
            queues.stop()


async def declared(queues: Queues, name: str, arguments: Table | None = None) -> QueueHandle:
    asker = Principal(connection="tests")
    await queues.ask(DeclareQueue(asker=asker, name=name, arguments=arguments or {}))
    return queues.find("/", name)


def message(queues: Queues, body: bytes, ttl_ms: int | None = None) -> Message:
    now_ms = queues.engine.runtime.clock.now_ms()
    return Message("", "q", b"", {}, body, now_ms, ttl_ms=ttl_ms)


async def published(queue: QueueHandle, *messages: Message) -> None:
    taken = queue.publish(messages)
    assert taken.admitted == len(messages)
    for kept in taken.durable:
        await kept


async def test_what_is_published_is_delivered_and_acknowledged() -> None:
    async with node() as queues:
        queue, inbox = await declared(queues, "q"), Inbox()
        queue.consume(Consumer(owner="c/1", channel="c", tag="t"), inbox)
        await published(queue, message(queues, b"one"), message(queues, b"two"))
        await asyncio.sleep(1)
        assert inbox.bodies == [b"one", b"two"]
        counts = await queue.counted()
        assert (counts.ready, counts.held, counts.consumers) == (0, 2, 1)
        for _body, handout in inbox.got:
            queue.settle(handout.lane, [(handout.first, handout.next)], "c/1")
        assert (await queue.counted()).held == 0


async def test_what_a_closed_channel_held_is_delivered_again() -> None:
    async with node() as queues:
        queue, first, second = await declared(queues, "q"), Inbox(), Inbox()
        queue.consume(Consumer(owner="a/1", channel="a", tag="t", prefetch=1), first)
        await published(queue, message(queues, b"one"), message(queues, b"two"))
        await asyncio.sleep(1)
        assert first.bodies == [b"one"]
        queue.lose_channel("a")
        queue.consume(Consumer(owner="b/1", channel="b", tag="t"), second)
        await asyncio.sleep(1)
        assert [(body, one.redelivered) for body, one in second.got] == [
            (b"one", True),
            (b"two", False),
        ]


async def test_what_expires_or_is_rejected_is_dead_lettered() -> None:
    async with node() as queues:
        dead = await declared(queues, "dead")
        arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        queue, inbox = await declared(queues, "q", arguments), Inbox()
        await published(queue, message(queues, b"old", 50), message(queues, b"bad"))
        await asyncio.sleep(1)
        assert (await queue.counted()).ready == 1
        queue.consume(Consumer(owner="c/1", channel="c", tag="t"), inbox)
        await asyncio.sleep(1)
        ((body, handout),) = inbox.got
        queue.reject(handout.lane, [(handout.first, handout.next)], "c/1")
        letters = Inbox()
        dead.consume(Consumer(owner="d/1", channel="d", tag="t", no_ack=True), letters)
        await asyncio.sleep(1)
        assert body == b"bad"
        assert letters.bodies == [b"old", b"bad"]


async def test_a_full_queue_drops_by_size() -> None:
    async with node() as queues:
        queue, inbox = await declared(queues, "q", {"x-max-length-bytes": 6}), Inbox()
        await published(queue, *(message(queues, b"%03d" % one) for one in range(5)))
        await asyncio.sleep(1)
        assert (await queue.counted()).ready == 2
        got = await queue.got(Consumer(owner="c/1", channel="c", tag="t", no_ack=True))
        assert got is not None
        assert (got.message.body, got.ready) == (b"003", 1)
        queue.consume(Consumer(owner="d/1", channel="d", tag="t", no_ack=True), inbox)
        await asyncio.sleep(1)
        assert inbox.bodies == [b"004"]
