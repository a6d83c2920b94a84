"""Measures a message's cost on one node from publish to acknowledgement, without sockets.

    python -m bench.micro_amqp_flow             CPU for each message, of all threads
    python -m bench.micro_amqp_flow --profile   where it goes

A real engine with its log on a real disk; bytes go to real sessions, one for the publisher and one for the
consumer. The figures include the clients' own work, which is small.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import process_time
from typing import Any

from millpond.engine.api import BrokerEndpoint
from millpond.engine.node.node import Node
from millpond.engine.queues.queues import Queues
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.log.file_storage import FileStorage
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.server.clock import SystemClock
from millpond.server.protocols import record_families
from millpond.server.rng import SystemRng
from millpond.wire.amqp.client import ClientConnection
from millpond.wire.amqp.content import content_frames, method_frame
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    Method,
    QueueDeclare,
)
from millpond.wire.amqp.properties import Properties, encode_properties
from millpond.wire.shape import received

_DELIVER = b"\x00\x3c\x00\x3c"
_ACK = b"\x00\x3c\x00\x50"
FRAME_MAX = 131_072
MESSAGES = 10_000


class Client:
    """A connection: methods by the codec, and then raw bytes that are only counted."""

    def __init__(self, frontend: AmqpFrontend, heard: asyncio.Event) -> None:
        self._heard = heard
        self._connection = ClientConnection()
        self._raw = False
        self.deliveries = 0
        self.confirms = 0
        self.confirmed = 0
        self.session = frontend.session(self, peer="memory:1")
        self._flush()

    def writelines(self, buffers: Sequence[bytes]) -> None:
        data = b"".join(buffers)
        if not self._raw:
            received(self._connection, data)
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self._heard.set()
        self.deliveries += data.count(_DELIVER)
        if (place := data.rfind(_ACK)) >= 0 and not self.deliveries:
            self.confirms += 1
            self.confirmed = int.from_bytes(data[place + 4 : place + 12], "big")

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def finish(self, seconds: float) -> None:
        """End the measurement."""

    def close(self) -> None:
        self.session.connection_lost()

    async def say(self, *methods: Method) -> None:
        await asyncio.sleep(0.05)
        self._connection.open_channel(1)
        self._flush()
        for method in methods:
            await asyncio.sleep(0.05)
            self._connection.send(1, method)
            self._flush()
        await asyncio.sleep(0.1)
        self._raw = True

    def send(self, data: bytes) -> None:
        self.session.data_received(data)

    def _flush(self) -> None:
        data = b"".join(self._connection.data_to_send())
        if data:
            self.session.data_received(data)


@asynccontextmanager
async def running() -> AsyncIterator[AmqpFrontend]:
    with tempfile.TemporaryDirectory() as directory:
        engine = Node(
            log_dirs=LogDirs([LogDir(FileStorage(Path(directory)), "data")]),
            node_id=1,
            cluster_id=None,
            broker=BrokerConfig({}),
            clock=SystemClock(),
            rng=SystemRng(),
            families=record_families(),
        )
        await engine.start()
        await engine.advertise([BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092)])
        queues = Queues(engine, AmqpCodec())
        await queues.start()
        frontend = AmqpFrontend(engine, queues)
        frontend.start()
        try:
            yield frontend
        finally:
            frontend.stop()
            queues.stop()
            await engine.stop()


async def flow(
    frontend: AmqpFrontend, *, size: int, batch: int, prefetch: int | None, confirmed: bool
) -> tuple[float, float]:
    """Return microseconds of CPU for a message, and confirms for each batch of messages."""
    name = f"q-{size}-{batch}-{prefetch}-{confirmed}"
    heard = asyncio.Event()
    publisher, consumer = Client(frontend, heard), Client(frontend, heard)
    await publisher.say(
        QueueDeclare(queue=name, durable=confirmed), *([ConfirmSelect()] if confirmed else [])
    )
    await consumer.say(
        BasicQos(prefetch_count=prefetch or 0),
        BasicConsume(queue=name, consumer_tag="c", no_ack=prefetch is None),
    )
    block = encode_properties(Properties(delivery_mode=2 if confirmed else 1))
    method = method_frame(1, BasicPublish(exchange="", routing_key=name))
    read = (method + content_frames(1, block, b"x" * size, FRAME_MAX)) * batch
    sent = acked = 0
    started = process_time()
    while sent < MESSAGES:
        publisher.send(read)
        sent += batch
        while (
            consumer.deliveries < sent
            or acked < sent * (prefetch is not None)
            or (confirmed and publisher.confirmed < sent)
        ):
            heard.clear()
            if prefetch is not None and (came := consumer.deliveries) > acked:
                tags = range(acked + 1, came + 1)
                acked = came
                consumer.send(
                    b"".join([method_frame(1, BasicAck(delivery_tag=tag)) for tag in tags])
                )
                continue
            await heard.wait()
    used = process_time() - started
    for client in (publisher, consumer):
        client.close()
    return 1e6 * used / sent, publisher.confirms * batch / sent


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--sort", default="tottime")
    parser.add_argument("--only", type=int, default=None, metavar="ROW")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [
        {"size": 12, "batch": 1000, "prefetch": None, "confirmed": False},
        {"size": 12, "batch": 100, "prefetch": 100, "confirmed": True},
        {"size": 1024, "batch": 100, "prefetch": 100, "confirmed": True},
        {"size": 12, "batch": 10, "prefetch": 10, "confirmed": True},
        {"size": 12, "batch": 1000, "prefetch": 1, "confirmed": True},
        {"size": 65536, "batch": 10, "prefetch": 100, "confirmed": True},
    ]
    async with running() as frontend:
        for number, row in enumerate(rows):
            if options.only is not None and number != options.only:
                continue
            profile = cProfile.Profile() if options.profile else None
            if profile:
                profile.enable()
            cost, confirms = await flow(frontend, **row)
            if profile:
                profile.disable()
                pstats.Stats(profile).sort_stats(options.sort).print_stats(45)
            words = ", ".join(f"{key} {value}" for key, value in row.items())
            print(f"{words}: {cost:.1f} us of CPU a message, {confirms:.2f} confirms a read")


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
