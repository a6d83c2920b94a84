"""Random lives of a share group on a broker that is killed now and then, beside a model of its records.

No record that a member was told is accepted comes again; none is given to two members at once; each comes
with the right delivery count; and in the end every record was accepted, given up, or is given out.
"""

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.wire.kafka.api import ErrorCode
from tests.support.cluster.memory_broker import MemoryBroker, batch, memory_broker
from tests.support.kafka.share_reader import ACCEPT, REJECT, RELEASE, RENEW, ShareReader, configure
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

STATE = {
    "share_coordinator_state_topic_num_partitions": "2",
    # Snapshots are taken and the rest is cut while the story goes on.
    "share_coordinator_snapshot_update_records_per_snapshot": "4",
}
NAMES = ("ann", "bob", "cy")
LIMIT = 3
LOCK_MS = 30_000

WHO = st.sampled_from(NAMES)
TAKE = st.tuples(st.just("take"), WHO, st.integers(1, 8))
SAY = st.tuples(
    st.just("say"), WHO, st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW]), st.integers(1, 4)
)
WRITE = st.tuples(st.just("write"), st.integers(1, 6))
WAIT = st.tuples(st.just("wait"), st.integers(1, 40))
LEAVE = st.tuples(st.just("leave"), WHO)
PRUNE = st.tuples(st.just("prune"))
# Each chapter ends with a kill.
CHAPTER = st.lists(
    st.one_of(TAKE, SAY, SAY, SAY, WRITE, WAIT, LEAVE, PRUNE), min_size=8, max_size=20
)
LIVES = st.lists(CHAPTER, min_size=2, max_size=4)


@dataclass(slots=True)
class Record:
    """One record as the model sees it."""

    count: int = 0  # deliveries that are written down
    owner: str = ""
    until_ms: int = 0
    done: bool = False

    def give_back(self) -> None:
        self.count += 1
        self.owner = ""
        self.done = self.count >= LIMIT


class Life:
    """The story of one group; ``broker`` changes when the process is killed."""

    def __init__(self, broker: MemoryBroker, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.records: list[Record] = []
        self.begin(broker)

    def begin(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.readers = {name: ShareReader(broker, name, self.topic_id) for name in NAMES}

    def pass_time(self) -> None:
        now_ms = self.broker.clock.monotonic_ms()
        for record in self.records:
            if record.owner and record.until_ms <= now_ms:
                record.give_back()

    async def act(self, act: tuple[Any, ...]) -> None:
        match act:
            case ("write", count):
                data = batch(*[b"x"] * count)
                self.broker.engine.partitions.append("t", 0, bytearray(data))
                self.records += [Record() for _ in range(count)]
            case ("wait", seconds):
                await asyncio.sleep(seconds)
            case ("prune",):
                self.broker.engine.share.prune()
            case ("take", who, count):
                await self.take(who, count)
            case ("say", who, kind, count):
                await self.say(who, kind, count)
            case ("leave", who):
                await self.leave(who)
            case _:
                raise AssertionError(act)
        self.pass_time()

    async def take(self, who: str, count: int) -> None:
        got = await self.readers[who].take(records_max=count, share_acquire_mode=1)
        self.pass_time()
        free = [at for at, one in enumerate(self.records) if not one.done and not one.owner]
        # One read is one stretch of the log, which may end before the limit is reached.
        assert [offset for offset, _count in got] == free[: len(got)]
        assert bool(got) == bool(free)
        for offset, delivery in got:
            record = self.records[offset]
            assert delivery == record.count + 1
            record.owner = who
            record.until_ms = self.broker.clock.monotonic_ms() + LOCK_MS

    async def say(self, who: str, kind: int, count: int) -> None:
        holders = sorted({one.owner for one in self.records if one.owner})
        if not holders:
            return
        if who not in holders:
            who = holders[0]
        held = [at for at, one in enumerate(self.records) if one.owner == who][:count]
        words = [(offset, offset, [kind]) for offset in held]
        assert await self.readers[who].say(*words) == ErrorCode.NONE
        for offset in held:
            record = self.records[offset]
            if kind == RENEW:
                record.until_ms = self.broker.clock.monotonic_ms() + LOCK_MS
            elif kind == RELEASE:
                record.give_back()
            else:
                record.owner = ""
                record.done = True

    async def leave(self, who: str) -> None:
        self.readers[who].client.session.connection_lost()
        self.readers[who] = ShareReader(self.broker, who, self.topic_id)
        for record in self.records:
            if record.owner == who:
                record.give_back()

    def killed(self) -> None:
        for record in self.records:
            record.owner = ""

    async def drain(self) -> None:
        await asyncio.sleep(LOCK_MS / 1000 + 1)
        self.pass_time()
        left = [at for at, one in enumerate(self.records) if not one.done]
        while left:
            before = len(left)
            await self.take("ann", 100)
            await self.say("ann", ACCEPT, 100)
            left = [at for at, one in enumerate(self.records) if not one.done]
            assert len(left) < before


@settings(max_examples=40, deadline=None)
@given(lives=LIVES)
def test_every_record_is_accepted_given_up_or_given_out(lives: list[list[tuple[Any, ...]]]) -> None:
    async def story() -> None:
        storage = FaultyStorage()
        life: Life | None = None
        for number, chapter in enumerate(lives):
            async with memory_broker(storage, **STATE) as broker:
                if life is None:
                    topic_id = await broker.create("t")
                    # Now, because chance begins anew with each life and would give the same ids again.
                    await broker.engine.share.prepare()
                    await configure(
                        broker,
                        share_auto_offset_reset="earliest",
                        share_delivery_count_limit=str(LIMIT),
                    )
                    life = Life(broker, topic_id)
                    await life.act(("write", 6))
                else:
                    life.begin(broker)
                for act in chapter:
                    await life.act(act)
                if number == len(lives) - 1:
                    await life.drain()
                # What a killed process leaves behind: everything it wrote, and nothing of its end.
                life.pass_time()
                storage = storage.copy()
                life.killed()

    run(story())
