"""pika's asyncio connection, callbacks and all: confirms, returns, prefetch, cancels, refusals."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

from tests.interop.amqp.brokers import AmqpPeer
from tests.interop.amqp.conftest import Alike

PERSISTENT = pika.BasicProperties(delivery_mode=2)
TIMEOUT_S = 60


async def called(ask: Callable[[Callable[..., None]], object]) -> Any:
    """What a callback is called with, once it is."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def on_call(*args: Any) -> None:
        if not answer.done():
            answer.set_result(args)

    ask(on_call)
    found = await answer
    return found[0] if len(found) == 1 else found


async def connected(peer: AmqpPeer) -> AsyncioConnection:
    parameters = pika.ConnectionParameters("127.0.0.1", peer.port)
    return await called(
        lambda opened: AsyncioConnection(
            parameters,
            on_open_callback=opened,
            on_open_error_callback=opened,
            custom_ioloop=asyncio.get_running_loop(),
        )
    )


async def closed(connection: AsyncioConnection) -> str:
    """How a connection ended that was asked to."""

    def ask(ended: Callable[..., None]) -> None:
        connection.add_on_close_callback(ended)
        connection.close()

    _connection, reason = await called(ask)
    return f"closed {reason.reply_code} {reason.reply_text}"


class Confirms:
    """What was confirmed, each number by itself, however the broker put it together."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.refused: set[int] = set()
        self._sent = 0
        self._changed = asyncio.Event()

    def sent(self) -> None:
        self._sent += 1
        self.open.add(self._sent)

    def on_confirm(self, frame: Any) -> None:
        method = frame.method
        tag = method.delivery_tag
        about = {one for one in self.open if one <= tag} if method.multiple else {tag}
        assert about <= self.open, f"{about} was confirmed before"
        if isinstance(method, pika.spec.Basic.Nack):
            self.refused |= about
        self.open -= about
        self._changed.set()

    async def all_done(self) -> None:
        while self.open:
            self._changed.clear()
            await self._changed.wait()


async def tell_confirms(peer: AmqpPeer) -> list[str]:
    lines: list[str] = []
    connection = await connected(peer)
    channel = await called(lambda opened: connection.channel(on_open_callback=opened))
    confirms = Confirms()

    def on_return(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
        last = max(confirms.open)
        lines.append(
            f"returned {method.reply_code} {method.reply_text} exchange={method.exchange!r} "
            f"key={method.routing_key!r} {body!r} {properties.headers} before its confirm={last}"
        )

    channel.add_on_return_callback(on_return)
    await called(lambda done: channel.confirm_delivery(confirms.on_confirm, callback=done))
    arguments = {"x-max-length": 3, "x-overflow": "reject-publish"}
    for queue, how in (("aio.work", None), ("aio.full", arguments)):
        declare = functools.partial(channel.queue_declare, queue, durable=True, arguments=how)
        await called(lambda done, declare=declare: declare(callback=done))  # type: ignore[misc]
    for number in range(200):
        channel.basic_publish("", "aio.work", b"%d" % number, PERSISTENT)
        confirms.sent()
    await confirms.all_done()
    lines.append(f"200 sent, refused {sorted(confirms.refused)}")
    named = pika.BasicProperties(delivery_mode=2, headers={"who": "me"})
    channel.basic_publish("", "aio.nowhere", b"lost", named, mandatory=True)
    confirms.sent()
    await confirms.all_done()
    for number in range(5):
        channel.basic_publish("", "aio.full", b"%d" % number, PERSISTENT)
        confirms.sent()
        await confirms.all_done()
    lines.append(f"206 sent, refused {sorted(confirms.refused)}")
    lines.append(await closed(connection))
    return lines


def pika_asyncio_confirms(peer: AmqpPeer) -> list[str]:
    return asyncio.run(asyncio.wait_for(tell_confirms(peer), TIMEOUT_S))


def test_confirms_and_returns(alike: Alike) -> None:
    lines = alike(pika_asyncio_confirms)
    assert lines[0] == "200 sent, refused []"
    assert lines[1].startswith("returned 312 NO_ROUTE exchange='' key='aio.nowhere' b'lost'")
    assert lines[2] == "206 sent, refused [205, 206]"


async def tell_consumer(peer: AmqpPeer) -> list[str]:
    lines: list[str] = []
    connection = await connected(peer)
    channel = await called(lambda opened: connection.channel(on_open_callback=opened))
    found: asyncio.Queue[Any] = asyncio.Queue()

    def declare(done: Callable[..., None]) -> None:
        channel.queue_declare("aio.read", durable=True, callback=done)

    async def ready() -> int:
        return int((await called(declare)).method.message_count)

    async def take(count: int) -> list[Any]:
        taken = [await found.get() for _ in range(count)]
        lines.append(" ".join(f"{body.decode()}{'*' * m.redelivered}" for m, body in taken))
        return taken

    await ready()
    for number in range(20):
        channel.basic_publish("", "aio.read", b"%d" % number, PERSISTENT)
    await called(lambda done: channel.basic_qos(prefetch_count=5, callback=done))
    tag = channel.basic_consume(
        "aio.read", lambda _channel, method, _properties, body: found.put_nowait((method, body))
    )
    first = await take(5)
    lines.append(f"ready {await ready()}, more {found.qsize()}")
    channel.basic_ack(first[2][0].delivery_tag, multiple=True)
    await take(3)
    channel.basic_nack(first[3][0].delivery_tag, requeue=True)
    await take(1)
    channel.basic_reject(first[4][0].delivery_tag, requeue=False)
    await take(1)
    lines.append(f"ready {await ready()}, more {found.qsize()}")
    await called(lambda done: channel.basic_cancel(tag, callback=done))
    await called(lambda done: channel.basic_recover(requeue=True, callback=done))
    channel.basic_consume(
        "aio.read", lambda _channel, method, _properties, body: found.put_nowait((method, body))
    )
    await take(5)
    # Somebody else deletes the queue: the consumer hears that it is over.
    other = await called(lambda opened: connection.channel(on_open_callback=opened))

    def delete(cancelled: Callable[..., None]) -> None:
        channel.add_on_cancel_callback(cancelled)
        other.queue_delete("aio.read")

    told = await called(delete)
    lines.append(f"cancelled by the broker: {told.method.NAME}")
    lines.append(await closed(connection))
    return lines


def pika_asyncio_consumer(peer: AmqpPeer) -> list[str]:
    return asyncio.run(asyncio.wait_for(tell_consumer(peer), TIMEOUT_S))


def test_prefetch_and_what_comes_again(alike: Alike) -> None:
    assert alike(pika_asyncio_consumer) == [
        "0 1 2 3 4",
        "ready 15, more 0",
        "5 6 7",
        "3*",
        "8",
        "ready 11, more 0",
        "3* 5* 6* 7* 8*",
        "cancelled by the broker: Basic.Cancel",
        "closed 200 Normal shutdown",
    ]


async def tell_refusals(peer: AmqpPeer) -> list[str]:
    """What a channel is closed for; the connection and its other channels go on."""
    lines: list[str] = []
    connection = await connected(peer)
    witness = await called(lambda opened: connection.channel(on_open_callback=opened))
    await called(lambda done: witness.queue_declare("aio.kept", durable=True, callback=done))

    async def refused(act: Callable[[Any], object]) -> None:
        channel = await called(lambda opened: connection.channel(on_open_callback=opened))

        def ask(ended: Callable[..., None]) -> None:
            channel.add_on_close_callback(ended)
            act(channel)

        _channel, reason = await called(ask)
        lines.append(f"{reason.reply_code} {reason.reply_text}")

    await refused(lambda c: c.basic_publish("aio.no-exchange", "k", b"x"))
    await refused(lambda c: c.queue_declare("aio.kept", durable=False))
    await refused(lambda c: c.queue_declare("aio.no-queue", passive=True))
    await refused(lambda c: c.basic_ack(7))
    await refused(lambda c: c.basic_consume("aio.no-queue", lambda *_args: None))
    await refused(lambda c: c.queue_bind("aio.kept", "aio.no-exchange", "k"))
    await refused(lambda c: c.exchange_delete("amq.direct"))
    await refused(
        lambda c: c.basic_publish("", "aio.kept", b"x", pika.BasicProperties(user_id="me"))
    )
    await refused(
        lambda c: c.basic_publish("", "aio.kept", b"x", pika.BasicProperties(expiration="soon"))
    )
    still = await called(
        lambda done: witness.queue_declare("aio.kept", passive=True, callback=done)
    )
    lines.append(f"the other channel: {still.method.NAME}")
    lines.append(await closed(connection))
    return lines


def pika_asyncio_refusals(peer: AmqpPeer) -> list[str]:
    return asyncio.run(asyncio.wait_for(tell_refusals(peer), TIMEOUT_S))


def test_refusals_cost_their_channel(alike: Alike) -> None:
    lines = alike(pika_asyncio_refusals)
    assert lines[0] == "404 NOT_FOUND - no exchange 'aio.no-exchange' in vhost '/'"
    assert [line.split()[0] for line in lines[:-2]] == [
        *("404", "406", "404", "406", "404", "404", "403", "406", "406")
    ]
    assert lines[-2] == "the other channel: Queue.DeclareOk"
