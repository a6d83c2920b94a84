"""A broker full of queues is killed again and again; nothing that it confirmed may be lost.

Three publishers with confirms and four consumers with manual acks go on through every kill. After it all
every confirmed message was delivered at least once; what was seen before is flagged as redelivered, and what
is new is not; what was acknowledged for sure does not come back; what a quorum queue's consumer gave up is a
letter or comes again. ``MILLPOND_CRASH_SEED`` and ``MILLPOND_CRASH_KILLS`` as in ``test_kill.py``.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from millpond.record.batch import iter_batches
from millpond.record.records import decode_batch
from tests.crash.amqp_crew import PREFETCH, Book, LetterReader, Publisher, Reader
from tests.crash.damage import active_segment
from tests.crash.test_kill import running, verify_files
from tests.interop.amqp.brokers import Broker

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("MILLPOND_CRASH_KILLS", "32"))
POWER_LOSSES = max(1, KILLS // 6)
TIMEOUT_S = 60
RUN_TIMEOUT_S = 780
# Confirms of each publisher that a life has at least.
ENOUGH = 40
LETTERS = "crash.letters"
QUEUES: dict[str, dict[str, object]] = {
    "crash.a": {},
    "crash.b": {"x-max-priority": 1},
    "crash.c": {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": LETTERS,
        "x-dead-letter-strategy": "at-least-once",
    },
}


@pytest.fixture
def chance() -> random.Random:
    """The dice of a run; the seed is printed with any failure."""
    seed = int(os.environ.get("MILLPOND_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CRASH_SEED={seed}")
    return random.Random(seed)


class Crew:
    """The clients of a run."""

    def __init__(self, broker: Broker, chance: random.Random) -> None:
        self.book = Book()
        self._broker = broker
        self._stop_publishing = asyncio.Event()
        self._stop_reading = asyncio.Event()
        self.publishers = [
            Publisher(self.book, "one", "", "crash.a", ["crash.a"]),
            Publisher(self.book, "all", "crash.all", "", ["crash.a", "crash.b"]),
            Publisher(self.book, "sure", "", "crash.c", ["crash.c"]),
        ]
        self.readers = [
            Reader(self.book, "crash.a", chance),
            Reader(self.book, "crash.a", chance),
            Reader(self.book, "crash.b", chance),
            Reader(self.book, "crash.c", chance, rejects=True),
            LetterReader(self.book, LETTERS, of="crash.c", chance=chance),
        ]

    async def live(self, story: Callable[[], Awaitable[None]]) -> None:
        """All of them work while the story is told; then everything that is left is read."""

        def port() -> int:
            return self._broker.amqp_port

        async with asyncio.TaskGroup() as group:
            publishing = [
                group.create_task(one.live(port, self._stop_publishing)) for one in self.publishers
            ]
            for reader in self.readers:
                group.create_task(reader.live(port, self._stop_reading))
            await story()
            self._stop_publishing.set()
            _done, busy = await asyncio.wait(publishing, timeout=TIMEOUT_S)
            assert not busy, "publishers wait for confirms that do not come"
            for reader in self.readers:
                reader.is_tidying = True
            await self.drained()
            self._stop_reading.set()

    async def confirmed_more(self, count: int) -> None:
        """Wait until every publisher has had so many more confirms."""
        before = self._confirms()
        deadline = time.perf_counter() + TIMEOUT_S
        while any(now - had < count for now, had in zip(self._confirms(), before, strict=True)):
            assert time.perf_counter() < deadline, f"nothing is confirmed: {self.book.report()}"
            assert not self.book.wrong, self.book.wrong[:5]
            await asyncio.sleep(0.005)

    async def nobody_connected(self) -> None:
        """Wait until every client knows that the broker is gone: what it was told is in the book then."""
        links = [one.link for one in self.publishers] + [one.link for one in self.readers]
        for link in links:
            if link is not None:
                await asyncio.wait_for(link.over.wait(), TIMEOUT_S)

    async def drained(self) -> None:
        """Wait until everything that was confirmed has been seen, and every letter."""
        deadline = time.perf_counter() + TIMEOUT_S
        while self.book.missing() or self.book.lost_letters():
            if time.perf_counter() > deadline:
                return
            await asyncio.sleep(0.02)

    def _confirms(self) -> list[int]:
        return [one.confirms for one in self.publishers]


def declare(broker: Broker) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("crash.all", "fanout", durable=True)
        channel.queue_declare(LETTERS, durable=True)
        for queue, arguments in QUEUES.items():
            channel.queue_declare(queue, durable=True, arguments=arguments)
        for queue in ("crash.a", "crash.b"):
            channel.queue_bind(queue, "crash.all")


def left_over(broker: Broker) -> dict[str, int]:
    """Messages that are in the queues when nobody consumes."""
    with broker.connect() as connection:
        channel = connection.channel()
        return {
            queue: channel.queue_declare(queue, passive=True).method.message_count
            for queue in QUEUES
        }


@pytest.mark.timeout(840)
def test_nothing_confirmed_is_lost(tmp_path: Path, chance: random.Random) -> None:
    broker = Broker(tmp_path)
    broker.process.start()

    async def story() -> Book:
        crew = Crew(broker, chance)
        book = crew.book

        async def kill_often() -> None:
            for number in range(1, KILLS + 1):
                await crew.confirmed_more(ENOUGH)
                await asyncio.sleep(chance.uniform(0, 0.2))  # the random moment is what is tested
                how = await asyncio.to_thread(kill_somehow, broker, chance)
                print(f"kill {number}: {how}; {book.report()}")
                book.life += 1
                await asyncio.to_thread(broker.process.start)
            await crew.confirmed_more(ENOUGH)

        await asyncio.wait_for(crew.live(kill_often), RUN_TIMEOUT_S)
        return book

    with running(broker.process):
        declare(broker)
        book = asyncio.run(story())
        print(f"{KILLS} kills: {book.report()}; left {left_over(broker)}")
        assert book.wrong == []
        assert book.missing() == set()
        assert book.lost_letters() == set()
        assert book.refused == set()
        # Nobody saw those that were on their way to a consumer at a kill, so no more than were under way.
        assert book.flagged_unseen <= KILLS * PREFETCH * (1 + len(QUEUES))
        assert book.deliveries > len(book.seen), "nothing came twice: nothing was tested"
        assert broker.process.stop() == 0
    verify_files(broker.process.data)


@pytest.mark.timeout(840)
def test_a_confirmed_message_survives_a_lost_page_cache(
    tmp_path: Path, chance: random.Random
) -> None:
    """The power fails: whatever was written after the last confirmed message is gone, acks among it."""
    broker = Broker(tmp_path)
    broker.process.start()

    async def story() -> Book:
        crew = Crew(broker, chance)
        book = crew.book

        async def fail_often() -> None:
            for number in range(1, POWER_LOSSES + 1):
                await crew.confirmed_more(ENOUGH)
                await asyncio.sleep(chance.uniform(0, 0.2))  # the random moment is what is tested
                await asyncio.to_thread(broker.process.kill)
                await crew.nobody_connected()
                for directory in sorted(broker.process.data.glob("crash.?-*")):
                    print(f"loss {number}: {lose_unconfirmed_tail(directory, book, chance)}")
                # Flags and acks are not waited for: what the disk lost may come again, and as if new.
                book.forget_flags()
                book.life += 1
                await asyncio.to_thread(broker.process.start)
            await crew.confirmed_more(ENOUGH)

        await asyncio.wait_for(crew.live(fail_often), RUN_TIMEOUT_S)
        return book

    with running(broker.process):
        declare(broker)
        book = asyncio.run(story())
        print(f"{POWER_LOSSES} losses of power: {book.report()}; left {left_over(broker)}")
        assert book.wrong == []
        assert book.missing() == set()
        assert broker.process.stop() == 0
    verify_files(broker.process.data)


# Small words that the stories above use


def kill_somehow(broker: Broker, chance: random.Random) -> str:
    """Kill the process: mostly while it works, sometimes while it starts or stops."""
    process = broker.process
    dice = chance.random()
    if dice < 0.7:
        process.kill()
        return "while it worked"
    wait_s = chance.uniform(0, 0.4)
    if dice < 0.85:
        process.kill()
        process.launch()
        time.sleep(wait_s)
        process.kill()
        return f"while it worked, and again {wait_s:.3f} s after its start"
    os.kill(process.pid, signal.SIGTERM)
    time.sleep(wait_s / 4)
    process.kill()
    return f"{wait_s / 4:.3f} s after it was asked to stop"


def lose_unconfirmed_tail(directory: Path, book: Book, chance: random.Random) -> str:
    """Cut a queue's log anywhere after its last confirmed message."""
    queue = directory.name.rpartition("-")[0]
    segment = active_segment(directory)
    data = segment.read_bytes()
    keep = 0
    for position, header in iter_batches(data):
        if not header.is_control and any(
            (queue, bytes(record.value or b"")) in book.confirmed
            for record in decode_batch(data, position)
        ):
            keep = position + header.size
    cut = chance.randrange(keep, len(data) + 1)
    with segment.open("r+b") as file:
        file.truncate(cut)
    return f"{directory.name}/{segment.name} cut from {len(data)} to {cut} (confirmed up to {keep})"
