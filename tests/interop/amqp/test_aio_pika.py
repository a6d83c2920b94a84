"""aio-pika: connections that mend themselves, remote calls, transactions, work that is shared, delays."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aio_pika
import aiormq
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.patterns import RPC, Master, NackMessage, RejectMessage

from tests.interop.amqp.brokers import AmqpPeer
from tests.interop.amqp.cable import Cable
from tests.interop.amqp.conftest import Alike

TIMEOUT_S = 60


def told(story: Callable[[], Awaitable[list[str]]]) -> list[str]:
    async def bounded() -> list[str]:
        async with asyncio.timeout(TIMEOUT_S):
            return await story()

    return asyncio.run(bounded())


def lasting(body: bytes, **properties: Any) -> aio_pika.Message:
    return aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, **properties)


def shown(message: AbstractIncomingMessage) -> str:
    return f"{message.body.decode()}{'*' * bool(message.redelivered)}"


def aio_pika_mends_itself(peer: AmqpPeer) -> list[str]:
    """The cable is pulled twice: what was declared, bound and consumed on the connection is there again."""

    async def story() -> list[str]:
        lines: list[str] = []
        found: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        async with Cable(peer.port) as cable:
            url = f"amqp://guest:guest@127.0.0.1:{cable.port}/"
            connection = await aio_pika.connect_robust(url, reconnect_interval=0.1)
            async with connection:
                mended = asyncio.Event()
                connection.reconnect_callbacks.add(lambda *_args: mended.set())
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=10)
                exchange = await channel.declare_exchange("robust", "topic", durable=True)
                queue = await channel.declare_queue(exclusive=True)
                await queue.bind(exchange, "a.*")
                kept = await channel.declare_queue("robust.kept", durable=True)
                await kept.bind(exchange, "#")
                await queue.consume(found.put)
                for life in range(3):
                    await exchange.publish(lasting(b"life %d" % life), "a.b")
                    message = await found.get()
                    await message.ack()
                    lines.append(shown(message))
                    if life < 2:
                        mended.clear()
                        cable.cut()
                        await mended.wait()
                async with kept.iterator() as messages:
                    async for message in messages:
                        await message.ack()
                        lines.append(f"kept {shown(message)}")
                        if message.body == b"life 2":
                            break
        return lines

    return told(story)


def test_a_connection_that_mends_itself(alike: Alike) -> None:
    assert alike(aio_pika_mends_itself) == [
        *("life 0", "life 1", "life 2"),
        *("kept life 0", "kept life 1", "kept life 2"),
    ]


def aio_pika_remote_calls(peer: AmqpPeer) -> list[str]:
    """Calls and answers, among them an exception, and a method that nobody has."""

    async def story() -> list[str]:
        lines: list[str] = []

        async def divide(*, by: int) -> int:
            return 84 // by

        async with await aio_pika.connect(peer.url) as connection:
            channel = await connection.channel()
            rpc = await RPC.create(channel)
            await rpc.register("divide", divide, auto_delete=True)
            answers = [rpc.call("divide", {"by": by}) for by in (1, 2, 3, 4)]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_as_coroutine(answer)) for answer in answers]
            lines.append(f"answers {[task.result() for task in tasks]}")
            try:
                await rpc.call("divide", {"by": 0})
            except ZeroDivisionError as error:
                lines.append(f"raised {error}")
            try:
                await rpc.call("no such method")
            except aio_pika.exceptions.MessageProcessError as error:
                lines.append(f"nobody has it: {error.args[0]}")
            await rpc.close()
        return lines

    return told(story)


async def _as_coroutine(answer: Awaitable[Any]) -> Any:
    return await answer


def test_remote_calls(alike: Alike) -> None:
    lines = alike(aio_pika_remote_calls)
    assert lines[0] == "answers [84, 42, 28, 21]"
    assert lines[1].startswith("raised ")
    assert lines[2].startswith("nobody has it")


def aio_pika_transactions(peer: AmqpPeer) -> list[str]:
    """What is published inside is seen when it is committed, and not at all when it is rolled back."""

    async def story() -> list[str]:
        lines: list[str] = []
        async with await aio_pika.connect(peer.url) as connection:
            watch = await connection.channel()
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue("aio.tx", durable=True)

            async def ready() -> int:
                seen = await watch.declare_queue("aio.tx", durable=True, passive=True)
                return int(seen.declaration_result.message_count)

            async with channel.transaction():
                for number in range(5):
                    await channel.default_exchange.publish(lasting(b"%d" % number), "aio.tx")
                lines.append(f"inside {await ready()}")
            lines.append(f"committed {await ready()}")
            try:
                async with channel.transaction():
                    await channel.default_exchange.publish(lasting(b"never"), "aio.tx")
                    raise RuntimeError("changed my mind")
            except RuntimeError as error:
                lines.append(f"{error}: {await ready()}")
            # An ack is part of it, too.
            work = channel.transaction()
            await work.select()
            message = await queue.get(timeout=TIMEOUT_S)
            await message.ack()
            await work.rollback()
            await channel.close()
            lines.append(f"an ack that is rolled back: {await ready()}")
            again = await watch.get_queue("aio.tx")
            lines.append(shown(await again.get(timeout=TIMEOUT_S, no_ack=True)))
        return lines

    return told(story)


def test_transactions(alike: Alike) -> None:
    assert alike(aio_pika_transactions) == [
        "inside 0",
        "committed 5",
        "changed my mind: 5",
        "an ack that is rolled back: 5",
        "0*",
    ]


def aio_pika_shared_work(peer: AmqpPeer) -> list[str]:
    """Two workers with a prefetch of one; a task that is refused once, one that is dropped."""

    async def story() -> list[str]:
        done: dict[int, int] = {}
        finished = asyncio.Event()
        refused: set[int] = set()

        async def work(*, number: int) -> None:
            if number == 3 and number not in refused:
                refused.add(number)
                raise NackMessage(requeue=True)
            if number == 5:
                raise RejectMessage(requeue=False)
            done[number] = done.get(number, 0) + 1
            if len(done) == 19:
                finished.set()

        async with await aio_pika.connect(peer.url) as connection:
            channels = [await connection.channel() for _ in range(3)]
            for channel in channels[1:]:
                await channel.set_qos(prefetch_count=1)
                await Master(channel).create_worker("aio.tasks", work, auto_delete=True)
            master = Master(channels[0])
            for number in range(20):
                await master.create_task("aio.tasks", {"number": number})
            await finished.wait()
        return [f"done {sorted(done.items())}"]

    return told(story)


def test_shared_work(alike: Alike) -> None:
    (line,) = alike(aio_pika_shared_work)
    assert line == f"done {[(number, 1) for number in range(20) if number != 5]}"


def aio_pika_late_messages(peer: AmqpPeer) -> list[str]:
    """Delay by expiry and dead letters, the way that needs no plug-in: short ones do not pass long ones."""

    async def story() -> list[str]:
        lines: list[str] = []
        async with await aio_pika.connect(peer.url) as connection:
            channel = await connection.channel()
            due = await channel.declare_queue("aio.due", exclusive=True)
            await channel.declare_queue(
                "aio.waiting",
                exclusive=True,
                arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "aio.due"},
            )
            for body, expiration_s in ((b"first", 0.3), (b"second", 0.1)):
                message = lasting(body, expiration=expiration_s)
                await channel.default_exchange.publish(message, "aio.waiting")
            async with due.iterator(no_ack=True) as messages:
                async for message in messages:
                    death = message.headers["x-death"][0]
                    told = {name: death[name] for name in sorted(death) if name != "time"}
                    lines.append(f"{shown(message)} {told}")
                    if message.body == b"second":
                        break
        return lines

    return told(story)


def test_late_messages(alike: Alike) -> None:
    lines = alike(aio_pika_late_messages)
    assert [line.split()[0] for line in lines] == ["first", "second"]


def aio_pika_errors(peer: AmqpPeer) -> list[str]:
    """What aio-pika's users catch."""

    async def story() -> list[str]:
        lines: list[str] = []
        async with await aio_pika.connect(peer.url) as connection:
            channel = await connection.channel(on_return_raises=True)
            try:
                await channel.default_exchange.publish(lasting(b"x"), "aio.nobody", mandatory=True)
            except aiormq.exceptions.PublishError as error:
                lines.append(f"{type(error).__name__} {error.message.delivery.reply_text}")
            await channel.declare_queue("aio.short", exclusive=True, arguments={"x-max-length": 1})
            for act in (
                lambda one: one.declare_queue("aio.short", exclusive=True),
                lambda one: one.get_queue("aio.none", ensure=True),
                lambda one: one.declare_exchange("amq.mine", "direct"),
            ):
                spare = await connection.channel()
                try:
                    await act(spare)
                except aiormq.exceptions.AMQPError as error:
                    lines.append(f"{type(error).__name__} {error}")
            queue = await channel.get_queue("aio.short")
            try:
                await queue.get(timeout=TIMEOUT_S)
            except aio_pika.exceptions.QueueEmpty as error:
                lines.append(type(error).__name__)
        return lines

    return told(story)


def test_errors(alike: Alike) -> None:
    lines = alike(aio_pika_errors)
    assert [line.split()[0] for line in lines] == [
        "PublishError",
        "ChannelPreconditionFailed",
        "ChannelNotFoundEntity",
        "ChannelAccessRefused",
        "QueueEmpty",
    ]
