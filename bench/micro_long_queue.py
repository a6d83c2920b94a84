"""Measures a long queue: filling it, taking from it, its memory, and loading it again.

    python -m bench.micro_long_queue              a queue of 1,000,000 messages of 12 bytes, of five kinds
    python -m bench.micro_long_queue 100000

The last kind is filled one by one while others are taken and settled, so that something is written between
any two messages; it is a tenth as long. A real engine with its log on a real disk, without sockets and the
front-ends' work for each delivery.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

from millpond.base.fields import Table
from millpond.engine.api import BrokerEndpoint
from millpond.engine.node.node import Node
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.queue_handle import NEVER_READ, QueueHandle
from millpond.engine.queues.queues import Queues
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.log.file_storage import FileStorage
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.message.hub import Message
from millpond.metadata.configs import BrokerConfig
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout
from millpond.rabbit.commands import DeclareQueue, Principal
from millpond.server.clock import SystemClock
from millpond.server.protocols import record_families
from millpond.server.rng import SystemRng
from millpond.wire.amqp.properties import Properties, encode_properties

_BLOCK = encode_properties(Properties(delivery_mode=1))
_TOGETHER = 100
_TAKEN = 20_000
_LONG_MS = 1_000_000_000
_KINDS: dict[str, tuple[Table, int | None]] = {
    "no limits": ({}, None),
    "x-message-ttl": ({"x-message-ttl": _LONG_MS}, None),
    "an age of each message's own": ({}, _LONG_MS),
    "x-max-length-bytes": ({"x-max-length-bytes": 2**40}, None),
    "filled while others are taken": ({}, None),
}
_INTERLEAVED = "filled while others are taken"
_ASKER = Consumer(owner="g/1", channel="g", tag="", no_ack=True)


class Taker:
    """A consumer that settles each message at once."""

    follows = False

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self.count = 0
        self.done = asyncio.Event()

    def room(self, consumer: Consumer) -> int:
        return 1_000

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        for offset in range(handout.first, handout.next):
            queue.message(handout.lane, offset)
        self.count += handout.next - handout.first
        if self.count >= self._wanted:
            self.done.set()
        queue.settle(handout.lane, [(handout.first, handout.next)], handout.consumer.owner)

    def send_out(self) -> None:
        pass

    def cancelled(self, consumer: Consumer) -> None:
        pass

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        pass

    def unread(self, queue: QueueHandle, lane: int) -> int:
        return NEVER_READ


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[AmqpFrontend]:
    engine = Node(
        log_dirs=LogDirs([LogDir(FileStorage(directory), "data")]),
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


async def fill(queue: LocalQueue, count: int, ttl_ms: int | None, now_ms: int) -> None:
    message = Message("", "q", _BLOCK, {}, b"x" * 12, now_ms, None, ttl_ms)
    for number in range(0, count, _TOGETHER):
        queue.publish([message] * _TOGETHER)
        if number % 10_000 == 0:
            await asyncio.sleep(0)
    await queue.settled()


async def fill_slowly(queue: LocalQueue, count: int, now_ms: int) -> None:
    """Publish two and settle one, repeatedly."""
    message = Message("", "q", _BLOCK, {}, b"x" * 12, now_ms, None, None)
    for number in range(count):
        queue.publish([message])
        assert queue._polling.take(_ASKER) is not None
        queue.publish([message])
        if number % 100 == 0:
            await asyncio.sleep(0)
    await queue.settled()


async def take(queue: LocalQueue, count: int) -> float:
    """Return messages a second."""
    taker, started = Taker(count), perf_counter()
    queue.consume(Consumer(owner="c/1", channel="c", tag="t", prefetch=100), taker)
    await taker.done.wait()
    queue.cancel("c/1")
    return count / (perf_counter() - started)


async def measure(kind: str, count: int, directory: Path) -> None:
    arguments, ttl_ms = _KINDS[kind]
    async with running(directory) as frontend:
        queues = frontend.queues
        await queues.ask(
            DeclareQueue(asker=Principal(), name="q", durable=True, arguments=arguments)
        )
        queue = queues.hosted("/", "q")
        before = _memory()
        started = perf_counter()
        if kind == _INTERLEAVED:
            count //= 10
            await fill_slowly(queue, count, queues.engine.runtime.clock.now_ms())
        else:
            await fill(queue, count, ttl_ms, queues.engine.runtime.clock.now_ms())
        filled = count / (perf_counter() - started)
        grown = _memory() - before
        taken = await take(queue, min(_TAKEN, count // 2))
        await queue.settled()
    started = perf_counter()
    async with running(directory) as frontend:
        loaded = perf_counter() - started
        again = frontend.queues.hosted("/", "q")
        assert count - 2 * _TAKEN <= again.state.ready < count
        taken_again = await take(again, min(_TAKEN, count // 2) // 2)
        started = perf_counter()
        await again.purged()
        purged = perf_counter() - started
    print(
        f"{kind:30} fill {filled:9,.0f}/s  take {taken:8,.0f}/s  memory {grown / 1e6:6.1f} MB  "
        f"start {loaded:5.2f} s  take after it {taken_again:8,.0f}/s  purge {1e3 * purged:6.1f} ms",
        flush=True,
    )


def _memory() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=1_000_000)
    count: int = parser.parse_args().count
    for kind in _KINDS:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(measure(kind, count, Path(directory)))


if __name__ == "__main__":
    main()
