"""Random lives of transactional producers against a model that is a list.

Two transactional ids, in both generations of the protocol, write to two partitions and commit positions of a
group; they commit, abort, lose answers, are replaced, are silent for too long; the broker is stopped, killed
or loses power, also between the decision about a transaction and any of its markers. After every step each
reader of committed data must see exactly what the model says: all of what was committed or written plainly
before the first open transaction, in order, and nothing else.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import event, given
from hypothesis import strategies as st

from millpond.base.errors import StorageFailure
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    memory_broker,
    produce,
    produced,
)
from tests.support.kafka.txn_writer import Writer, committed_offset, read_committed
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

PARTITIONS = 2
NAMES = ("red", "blue")
GROUP = "readers"
TIMEOUT_MS = 60_000
FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens. Which fields count depends on what it is."""

    what: str
    name: str
    partition: int
    commit: bool
    markers: int  # written before the broker dies


def steps() -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        what=st.sampled_from(
            ("send",) * 6
            + ("end",) * 3
            + ("plain", "offset", "offset", "replace", "lost end", "zombie", "silence")
            + ("stop", "kill", "die in end", "die in end")
        ),
        name=st.sampled_from(NAMES),
        partition=st.integers(0, PARTITIONS - 1),
        commit=st.booleans(),
        markers=st.integers(0, 2),
    )


@dataclass(slots=True, eq=False)
class Transaction:
    """What the model knows of one."""

    outcome: Literal["open", "committed", "aborted"] = "open"
    position: int | None = None


@dataclass(slots=True)
class Model:
    """Everything that was acknowledged, in the order in which it was."""

    logs: list[list[tuple[bytes, Transaction | None]]] = field(
        default_factory=lambda: [[] for _ in range(PARTITIONS)]
    )
    position: int = -1

    def visible(self, partition: int) -> list[bytes]:
        values: list[bytes] = []
        for value, transaction in self.logs[partition]:
            if transaction is not None and transaction.outcome == "open":
                break
            if transaction is None or transaction.outcome == "committed":
                values.append(value)
        return values


class Life:
    """A broker with its files, the producers, and the model."""

    def __init__(self, *, second: dict[str, bool], loses_power: bool) -> None:
        self.second = second
        self.loses_power = loses_power
        self.settings: dict[str, Any] = {
            "offsets_topic_num_partitions": "2",
            "transaction_state_log_num_partitions": "2",
            "log_flush_policy": "group" if loses_power else "os",
        }
        self.storage = FaultyStorage()
        self.broker: MemoryBroker
        self.writers: dict[str, Writer] = {}
        self.zombies: list[Writer] = []
        self.open: dict[str, Transaction] = {}
        self.fenced: set[str] = set()
        self.model = Model()
        self.values = 0

    async def live(self, story: list[Step]) -> None:
        async with memory_broker(self.storage, **self.settings) as broker:
            self.broker = broker
            await broker.create("t", PARTITIONS)
            await broker.engine.groups.prepare()
            for name in NAMES:
                await self.replace(name)
        await self.reopen(self.storage)
        try:
            for step in story:
                await self.take(step)
                await self.settle()
                await self.check()
        finally:
            await self._context.__aexit__(None, None, None)

    # --- the world ----------------------------------------------------------------------------------

    async def reopen(self, storage: FaultyStorage) -> None:
        self.storage = storage
        # Kept: a context that nobody holds is left, and its broker stopped.
        self._context = memory_broker(storage, **self.settings)
        self.broker = await self._context.__aenter__()
        for writer in (*self.writers.values(), *self.zombies):
            writer.client = self.broker.client()

    async def crash(self) -> None:
        files = self.storage.copy()
        await self._context.__aexit__(None, None, None)
        if self.loses_power:
            files.lose_power()
        else:
            files.kill()
        await self.reopen(files)

    async def settle(self) -> None:
        for _ in range(5_000):
            if not any(one.is_prepared for one in self.broker.engine.transactions.list()):
                return
            await asyncio.sleep(0.001)
        raise AssertionError("a transaction that was decided is never finished")

    async def check(self) -> None:
        for partition in range(PARTITIONS):
            seen = await read_committed(self.broker, partition, bytes_max=200)
            assert seen == self.model.visible(partition)
        pending = any(one.position is not None for one in self.open.values())
        expected = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT) if pending else (self.model.position, 0)
        assert await committed_offset(self.broker, GROUP) == expected
        assert await committed_offset(self.broker, GROUP, stable=False) == (self.model.position, 0)

    def next_value(self) -> bytes:
        self.values += 1
        return b"%d" % self.values

    def close(self, name: str, *, commit: bool) -> None:
        transaction = self.open.pop(name, None)
        if transaction is None:
            return
        transaction.outcome = "committed" if commit else "aborted"
        if commit and transaction.position is not None:
            self.model.position = transaction.position

    # --- what happens -------------------------------------------------------------------------------

    async def take(self, step: Step) -> None:
        event(step.what)
        match step.what:
            case "send":
                await self.send(step)
            case "plain":
                value = self.next_value()
                request = produce(batch(value), partition=step.partition)
                answer = await self.broker.client().ask(ApiKey.PRODUCE, 9, request)
                assert produced(answer).error_code == 0
                self.model.logs[step.partition].append((value, None))
            case "offset":
                await self.offset(step)
            case "end" | "lost end" | "die in end":
                await self.end(step)
            case "replace":
                await self.replace(step.name)
            case "zombie":
                for zombie in self.zombies:
                    assert await zombie.send(b"zombie", step.partition) in FENCED
                    assert await zombie.end(commit=True) in FENCED
            case "silence":
                await asyncio.sleep(TIMEOUT_MS / 1000 + 15)
                for name in tuple(self.open):
                    self.close(name, commit=False)
                    self.fenced.add(name)
            case "stop":
                await self._context.__aexit__(None, None, None)
                await self.reopen(self.storage)
            case "kill":
                await self.crash()
            case _:
                raise AssertionError(step.what)

    async def replace(self, name: str) -> None:
        if name in self.writers:
            self.zombies = [*self.zombies[-3:], self.writers[name]]
        writer = Writer(
            self.broker, name, second_generation=self.second[name], timeout_ms=TIMEOUT_MS
        )
        await writer.find()
        code = await writer.init()
        while code == ErrorCode.CONCURRENT_TRANSACTIONS:
            await self.settle()
            code = await writer.init()
        assert code == 0
        self.writers[name] = writer
        self.close(name, commit=False)
        self.fenced.discard(name)

    async def send(self, step: Step) -> None:
        value = self.next_value()
        code = await self.writers[step.name].send(value, step.partition)
        if step.name in self.fenced:
            assert code in FENCED
            return
        assert code == 0
        transaction = self.open.setdefault(step.name, Transaction())
        self.model.logs[step.partition].append((value, transaction))

    async def offset(self, step: Step) -> None:
        if any(one.position is not None for name, one in self.open.items() if name != step.name):
            return  # which of two pending positions comes last is up to the order of their ends
        position = self.values
        code = await self.writers[step.name].commit_offset(GROUP, position)
        if step.name in self.fenced:
            assert code in FENCED
            return
        assert code == 0
        self.open.setdefault(step.name, Transaction()).position = position

    async def end(self, step: Step) -> None:
        writer = self.writers[step.name]
        before = writer.producer_id, writer.epoch
        if step.what == "die in end":
            self.stop_markers_after(step.markers)
        code = await writer.end(commit=step.commit)
        if step.name in self.fenced and writer.second_generation:
            # What took too long is aborted: to say so again is fine, and the producer goes on.
            assert code == (ErrorCode.INVALID_TXN_STATE if step.commit else 0)
            if not step.commit:
                self.fenced.discard(step.name)
        elif step.name in self.fenced:
            assert code in FENCED
        elif step.name in self.open:
            assert code == 0
            self.close(step.name, commit=step.commit)
            if step.what == "lost end" and writer.second_generation:
                await self.settle()
                after = writer.producer_id, writer.epoch
                writer.producer_id, writer.epoch = before
                assert await writer.end(commit=step.commit) == 0
                assert (writer.producer_id, writer.epoch) == after
        if step.what == "die in end":
            await self.crash()

    def stop_markers_after(self, count: int) -> None:
        transactions: Any = self.broker.engine.transactions
        write = transactions.write_marker
        left = [count]

        def write_some(*args: Any, **fields: Any) -> Any:
            if left[0] == 0:
                raise StorageFailure("the broker dies here")
            left[0] -= 1
            return write(*args, **fields)

        transactions.write_marker = write_some


@given(
    story=st.lists(steps(), max_size=30),
    red_is_second=st.booleans(),
    blue_is_second=st.booleans(),
    loses_power=st.booleans(),
)
def test_readers_of_committed_data_see_what_the_model_says(
    story: list[Step], red_is_second: bool, blue_is_second: bool, loses_power: bool
) -> None:
    second = {"red": red_is_second, "blue": blue_is_second}
    run(Life(second=second, loses_power=loses_power).live(story))
