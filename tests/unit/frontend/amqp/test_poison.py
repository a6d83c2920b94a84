"""A Kafka producer's nonsense in a queue's topic, stored by an older release: the queue goes on behind it."""

import pytest

from millpond.base import limits
from millpond.base.fields import Table
from millpond.record.builder import build_batch
from millpond.record.compression import Compression
from millpond.wire.amqp.methods import BasicConsume, BasicQos, QueueDeclare
from tests.support.amqp.memory_amqp import memory_amqp
from tests.support.storage.poison import BROKEN_COMPRESSION, POISON, STRICTER, poisoned, sealed
from tests.support.time.virtual_loop import LoopClock
from tests.unit.frontend.amqp.test_damage import hosted
from tests.unit.frontend.amqp.test_queue_logs import rest
from tests.unit.frontend.amqp.test_stories import publish

NONSENSE = {
    **{name: poisoned(make()) for name, make in {**POISON, **STRICTER}.items()},
    **{
        f"broken {codec.name}": sealed(2, body, codec) for codec, body in BROKEN_COMPRESSION.items()
    },
}


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
async def test_messages_behind_poison_are_delivered(kind: str) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        arguments: Table = {"x-queue-type": kind}
        await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
        bodies = []
        for number, nonsense in enumerate(NONSENSE.values()):
            publish(client, b"%d" % number)
            bodies.append(b"%d" % number)
            await rest(client)
            amqp.broker.engine.partitions.append("q", 0, bytearray(nonsense), internal=True)
        publish(client, b"last")
        await client.ask(1, BasicQos(prefetch_count=500))
        start: Table = {"x-stream-offset": "first"} if kind == "stream" else {}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=start))
        assert [one for one in await rest(client) if one in {*bodies, b"last"}] == [
            *bodies,
            b"last",
        ]
        assert not client.is_closed


@pytest.mark.parametrize("kind", ["classic", "stream"])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
async def test_a_batch_of_very_many_messages_is_read_piece_by_piece(
    kind: str, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_WINDOW_RECORDS_MAX", 10)

    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        arguments: Table = {"x-queue-type": kind}
        await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
        sizes = (3, 95, 4, 10, 11, 1, 200, 7)
        expected: list[bytes] = []
        for size in sizes:
            values = [b"%d" % (len(expected) + number) for number in range(size)]
            expected += values
            many = [(LoopClock.EPOCH_MS, None, value, ()) for value in values]
            amqp.broker.engine.partitions.append("q", 0, build_batch(many, compression=codec))
        if kind == "classic":
            assert [*hosted(amqp.frontend)._lanes[0].reader._read_window(50)] == [*range(50, 60)]
        await client.ask(1, BasicQos(prefetch_count=500))
        start: Table = {"x-stream-offset": "first"} if kind == "stream" else {}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=start))
        assert await rest(client) == expected


@pytest.mark.parametrize("kind", ["classic", "stream"])
async def test_small_batches_that_grow_are_not_unpacked_all_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 100_000
    monkeypatch.setattr(limits, "QUEUE_WINDOW_BYTES_MAX", 3 * size)

    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        arguments: Table = {"x-queue-type": kind}
        await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
        for number in range(20):
            value = b"%d" % number + bytes(size)
            grows = [(LoopClock.EPOCH_MS, None, value, ())]
            data = build_batch(grows, compression=Compression.ZSTD)
            amqp.broker.engine.partitions.append("q", 0, data, internal=True)
        if kind == "classic":
            window = hosted(amqp.frontend)._lanes[0].reader._read_window(5)
            assert [*window] == [5, 6]
        await client.ask(1, BasicQos(prefetch_count=500))
        start: Table = {"x-stream-offset": "first"} if kind == "stream" else {}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=start))
        got = await rest(client)
        assert [int(one.rstrip(bytes(1))) for one in got] == list(range(20))
