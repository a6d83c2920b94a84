"""Publishers and consumers of AMQP that go on through any number of crashes, and the book of what they saw.

All of them live on one event loop, so the book needs no locks. A message is known by its queue and its body,
which is its number at its publisher; a message to an exchange with two queues is two.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

# Lost connections are what these tests are about; pika tells of each at length.
logging.getLogger("pika").setLevel(logging.CRITICAL)

PREFETCH = 20
# Publishes that wait for their confirm at most, and those that are sent in one go.
WINDOW = 60
BURST = 10
RECONNECT_S = 0.02
BREATH_S = 0.015
ASK_EACH_S = 0.03
PERSISTENT = pika.BasicProperties(delivery_mode=2)

# Queue and body.
Key = tuple[str, bytes]


@dataclass(slots=True)
class Book:
    """What was promised, and what came. ``life`` counts the starts of the broker."""

    life: int = 0
    published: dict[Key, int] = field(default_factory=dict)  # in which life
    confirmed: set[Key] = field(default_factory=set)
    refused: set[Key] = field(default_factory=set)
    seen: set[Key] = field(default_factory=set)
    settled: set[Key] = field(default_factory=set)  # acknowledged
    surely_settled: set[Key] = field(
        default_factory=set
    )  # and the broker answered something after it
    rejected: set[Key] = field(default_factory=set)
    letters: set[Key] = field(default_factory=set)  # rejected, and seen where letters go
    deliveries: int = 0
    redeliveries: int = 0
    returned: int = 0  # acknowledged, and came again
    flagged_unseen: int = 0  # said to be redelivered, though nobody saw it
    lenient: bool = False  # flags and acks may be lost
    wrong: list[str] = field(default_factory=list)

    def on_delivery(self, key: Key, *, redelivered: bool) -> None:
        self.deliveries += 1
        self.redeliveries += redelivered
        if key not in self.published:
            self.wrong.append(f"life {self.life}: {key} was never published")
        elif key in self.seen:
            if not redelivered and not self.lenient:
                self.wrong.append(f"life {self.life}: {key} was seen before and is not flagged")
        elif redelivered:
            self.flagged_unseen += 1
            if self.published[key] == self.life:
                self.wrong.append(f"life {self.life}: {key} is new and is flagged")
        if key in self.surely_settled:
            self.wrong.append(f"life {self.life}: {key} was settled for sure and is back")
        if key in self.settled:
            self.returned += 1
        self.seen.add(key)

    def forget_flags(self) -> None:
        """What was handed out and settled before is not held against anybody."""
        self.surely_settled.clear()
        self.settled.clear()
        self.rejected.clear()
        self.lenient = True

    def missing(self) -> set[Key]:
        """What was confirmed and nobody has seen."""
        return self.confirmed - self.seen

    def lost_letters(self) -> set[Key]:
        """What was rejected, and neither became a letter nor came again and was acknowledged."""
        return self.rejected - self.letters - self.settled

    def report(self) -> str:
        return (
            f"{len(self.published)} published, {len(self.confirmed)} confirmed, "
            f"{len(self.refused)} refused, {len(self.seen)} seen in {self.deliveries} deliveries "
            f"({self.redeliveries} flagged as redelivered, {self.flagged_unseen} of them unseen), "
            f"{len(self.settled)} settled ({len(self.surely_settled)} for sure, "
            f"{self.returned} returned), {len(self.rejected)} rejected ({len(self.letters)} letters), "
            f"{len(self.missing())} missing"
        )


class Link:
    """A connection and a channel, until one of them ends."""

    def __init__(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        self.channel: Any = None
        self.over = asyncio.Event()
        self._gone = asyncio.Event()
        self._opened = asyncio.Event()
        self._connection = AsyncioConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0, stack_timeout=5),
            on_open_callback=lambda one: one.channel(on_open_callback=self._on_open),
            on_open_error_callback=self._on_end,
            on_close_callback=self._on_end,
            custom_ioloop=loop,
        )

    @classmethod
    async def open(cls, port: int) -> "Link | None":
        """None if nobody answers, or not to the end."""
        try:
            # pika is not asked to try in vain: it leaves a socket behind each time.
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return None
        writer.transport.abort()
        link = cls(port)
        await link._opened.wait()
        return None if link.over.is_set() else link

    def _on_open(self, channel: Any) -> None:
        self.channel = channel
        channel.add_on_close_callback(lambda *_args: self.over.set())
        self._opened.set()

    def _on_end(self, *_args: object) -> None:
        for event in (self._gone, self.over, self._opened):
            event.set()

    async def call(self, ask: Callable[[Callable[..., None]], object]) -> Any:
        """What the broker answers; None if the link ends first."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_answer(frame: Any) -> None:
            if not answer.done():
                answer.set_result(frame)

        if self.over.is_set():
            return None
        ask(on_answer)
        await self.first_of(answer)
        return answer.result() if answer.done() else None

    async def first_of(self, future: "asyncio.Future[Any]") -> None:
        """Wait for this, or for the end of the link."""
        ending = asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait({future, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()

    async def close(self) -> None:
        if not self._gone.is_set():
            with contextlib.suppress(pika.exceptions.AMQPError):
                self._connection.close()
            await self._gone.wait()


class Publisher:
    """Publishes persistent messages with confirms. What was not confirmed when a link ended is left alone."""

    def __init__(self, book: Book, name: str, exchange: str, key: str, queues: list[str]) -> None:
        self.name = name
        self._book = book
        self._exchange = exchange
        self._key = key
        self._queues = queues
        self._sent = 0
        self.link: Link | None = None
        self.confirms = 0
        self._open: dict[int, bytes] = {}
        self._moved = asyncio.Event()

    async def live(self, port: Callable[[], int], stop: asyncio.Event) -> None:
        while not stop.is_set():
            link = self.link = await Link.open(port())
            if link is not None:
                self._open.clear()
                await link.call(
                    lambda done, link=link: link.channel.confirm_delivery(  # type: ignore[misc]
                        self._on_confirm, callback=done
                    )
                )
                await self._publish(link, stop)
                await link.close()
            await asyncio.sleep(RECONNECT_S)

    async def _publish(self, link: Link, stop: asyncio.Event) -> None:
        tag = 0
        while not link.over.is_set() and not (stop.is_set() and not self._open):
            if not stop.is_set() and len(self._open) <= WINDOW - BURST:
                for _ in range(BURST):
                    body = b"%s.%d" % (self.name.encode(), self._sent)
                    self._sent += 1
                    tag += 1
                    self._open[tag] = body
                    for queue in self._queues:
                        self._book.published[queue, body] = self._book.life
                    link.channel.basic_publish(self._exchange, self._key, body, PERSISTENT)
                await asyncio.sleep(BREATH_S)
            else:
                self._moved.clear()
                moved = asyncio.ensure_future(self._moved.wait())
                await link.first_of(moved)
                moved.cancel()

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._open if tag <= method.delivery_tag]
        into = self._book.confirmed
        if isinstance(method, pika.spec.Basic.Nack):
            into = self._book.refused
        for tag in tags:
            body = self._open.pop(tag)
            into.update((queue, body) for queue in self._queues)
            self.confirms += 1
        self._moved.set()


class Reader:
    """Consumes a queue with manual acks: most are acknowledged, some go back, some are just kept."""

    def __init__(
        self, book: Book, queue: str, chance: random.Random, *, rejects: bool = False
    ) -> None:
        self._book = book
        self._queue = queue
        self._rejects = rejects  # some are given up, and become letters
        self._chance = chance
        self.link: Link | None = None
        self._acked: list[Key] = []  # since the broker last answered something
        self.is_tidying = False  # from now on everything is acknowledged

    async def live(self, port: Callable[[], int], stop: asyncio.Event) -> None:
        while not stop.is_set():
            link = self.link = await Link.open(port())
            if link is not None:
                self._acked.clear()
                link.channel.basic_qos(prefetch_count=PREFETCH)
                link.channel.basic_consume(self._queue, self._on_message)
                await self._look_after(link, stop)
                await link.close()
            await asyncio.sleep(RECONNECT_S)

    async def _look_after(self, link: Link, stop: asyncio.Event) -> None:
        """Ask something now and then: with the answer all acks before the question have arrived."""
        while not link.over.is_set() and not stop.is_set():
            acked, self._acked = self._acked, []
            answer = await link.call(
                lambda done: link.channel.queue_declare(self._queue, passive=True, callback=done)
            )
            if answer is not None:
                self._book.surely_settled.update(acked)
            await asyncio.sleep(ASK_EACH_S)

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        key = (self._queue, body)
        self._book.on_delivery(key, redelivered=method.redelivered)
        dice = 0.0 if self.is_tidying else self._chance.random()
        # What is kept takes its place in the prefetch until the next crash: more than a few would stop it.
        if dice < 0.9:
            channel.basic_ack(method.delivery_tag)
            self._acked.append(key)
            self._book.settled.add(key)
        elif dice < 0.95 and self._rejects:
            channel.basic_reject(method.delivery_tag, requeue=False)
            self._book.rejected.add(key)
        elif dice < 0.995:
            channel.basic_nack(method.delivery_tag, requeue=True)


class LetterReader(Reader):
    """Reads the queue where the letters of another one go."""

    def __init__(self, book: Book, queue: str, *, of: str, chance: random.Random) -> None:
        super().__init__(book, queue, chance)
        self._of = of

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self._book.letters.add((self._of, body))
        channel.basic_ack(method.delivery_tag)
