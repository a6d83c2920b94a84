"""The host of state machines over internal topics, with a machine that adds numbers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from millpond.base.errors import (
    CoordinatorNotAvailable,
    MalformedData,
    MillpondError,
    NotCoordinator,
    StorageFailure,
)
from millpond.engine.coordinators.durable import flushed
from millpond.engine.coordinators.shard_host import ShardHost, Written
from millpond.engine.coordinators.shards import Shard
from millpond.engine.partitions.partitions import Partitions
from millpond.record.batch import BatchHeader
from millpond.record.builder import build_batch
from millpond.record.records import Record
from tests.support.cluster.leadership import commit_all, give, take
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.time.virtual_loop import run

TOPIC = "sums"


@dataclass
class Sum:
    total: int = 0


@dataclass
class Added:
    """A decision of the machine: the total before, and the numbers to add."""

    answer: int
    records: Sequence[int]


@dataclass
class Adder:
    """Keeps a sum per shard and notes what the host tells it."""

    told: list[str] = field(default_factory=list)

    def new_state(self, index: int) -> Sum:
        del index
        return Sum()

    def replay(self, state: Sum, header: BatchHeader, record: Record) -> None:
        del header
        if record.value is None or not record.value.isdigit():
            raise MalformedData("no number")
        state.total += int(record.value)

    def batch(self, records: Sequence[int], now_ms: int) -> bytearray:
        return build_batch([(now_ms, b"k", str(number).encode(), ()) for number in records])

    def refusal(self, records: Sequence[int], error: MillpondError) -> MillpondError:
        return CoordinatorNotAvailable(f"{list(records)}: {error}")

    def apply(self, shard: Shard[Sum], records: Sequence[int], written: Written) -> None:
        shard.state.total += sum(records)
        self.told.append(f"applied {list(records)} at {written.first_offset}")

    def shard_loaded(self, index: int, state: Sum) -> None:
        self.told.append(f"loaded {index} with {state.total}")

    def shard_dropped(self, index: int, state: Sum) -> None:
        self.told.append(f"dropped {index} with {state.total}")


def with_host(story: Callable[[MemoryBroker, ShardHost[Sum, int], Adder], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with memory_broker() as broker:
            await broker.create(TOPIC, 1)
            machine = Adder()
            host: ShardHost[Sum, int]
            host = ShardHost(broker.engine.groups._services, TOPIC, machine, contents="sums")
            host.start()
            await story(broker, host, machine)
            host.stop()

    run(whole())


def add(*numbers: int) -> Callable[[Sum], Added]:
    return lambda state: Added(state.total, numbers)


def test_a_decision_is_appended_and_applied_before_perform_returns() -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        assert host.perform("a", add(1, 2))[0] == 0
        assert host.perform("a", add(3))[0] == 3
        assert host.get("a").state.total == 6
        assert machine.told == ["loaded 0 with 0", "applied [1, 2] at 0", "applied [3] at 2"]
        assert broker.engine.partitions.partition(TOPIC, 0).log.end_offset == 3

    with_host(story)


def test_a_shard_that_comes_back_is_loaded_from_the_log() -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        host.perform("a", add(1, 2))
        before = host.get("a")
        take(broker.engine, TOPIC, 0)
        with pytest.raises(NotCoordinator):
            host.get("a")
        assert not host.holds(before)
        give(broker.engine, TOPIC, 0)
        await asyncio.sleep(1)
        assert host.get("a").state.total == 3
        assert not host.holds(before)
        assert machine.told[2:] == ["dropped 0 with 3", "loaded 0 with 3"]

    with_host(story)


def test_a_malformed_record_does_not_hide_those_after_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        host.perform("a", add(1))
        bad = build_batch([(0, b"k", b"x", ()), (0, None, b"no key", ())])
        broker.engine.partitions.append(TOPIC, 0, bad)
        host.perform("a", add(2))
        host.resign(host.get("a"), "a test")
        await asyncio.sleep(1)
        assert host.get("a").state.total == 3
        said = [one for one in caplog.messages if "left out" in one]
        assert said == [f"partition={TOPIC}-0 offset=1: a malformed record is left out: no number"]
        del machine

    with_host(story)


def test_a_refused_append_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        del broker

        def refuse(*_args: object, **_options: object) -> None:
            raise StorageFailure("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(Partitions, "append_to", refuse)
            with pytest.raises(CoordinatorNotAvailable, match=r"\[7\]: the disk is full"):
                host.perform("a", add(7))
        assert host.get("a").state.total == 0
        assert machine.told == ["loaded 0 with 0"]

    with_host(story)


def test_a_decision_without_records_waits_for_the_records_before_it() -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        partition = give(broker.engine, TOPIC, 0, alone=False)
        await asyncio.sleep(1)
        _total, written = host.perform("a", add(5))
        total, durable = host.perform("a", add())
        assert total == 5
        assert written is not None
        assert durable is not None
        assert not written.done()
        assert not durable.done()
        commit_all(partition)
        await flushed(written)
        await flushed(durable)
        assert host.perform("a", add()) == (5, None)
        del machine

    with_host(story)


def test_records_that_are_lost_are_refused_and_the_shard_is_dropped() -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        give(broker.engine, TOPIC, 0, alone=False)
        await asyncio.sleep(1)
        _total, durable = host.perform("a", add(5))
        take(broker.engine, TOPIC, 0)
        with pytest.raises(NotCoordinator):
            await flushed(durable)
        assert machine.told[-1] == "dropped 0 with 5"
        assert list(host.states()) == []

    with_host(story)


def test_a_deleted_topic_takes_its_shards_with_it() -> None:
    async def story(broker: MemoryBroker, host: ShardHost[Sum, int], machine: Adder) -> None:
        seen: list[bool] = []
        broker.engine.metadata.observe(
            lambda before, after: seen.append(host.drop_if_deleted(before, after))
        )
        host.perform("a", add(5))
        await broker.create("other", 1)
        assert not any(seen)
        await broker.engine.topic_admin.delete_topics([(TOPIC, None)])
        assert seen.count(True) == 1
        assert machine.told[-1] == "dropped 0 with 5"
        assert not host.is_ready
        with pytest.raises(NotCoordinator):
            host.index_of("a")

    with_host(story)
