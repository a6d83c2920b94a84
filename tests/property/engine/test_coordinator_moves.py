"""Any life of groups and transactions, with the leadership of their partitions lost and won in between, ends
where the same life ends without that: nothing that was answered depends on which node remembers it.
"""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MillpondError
from millpond.engine.api import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from millpond.engine.coordinators.groups import (
    CommitOffsets,
    CommittedOffset,
    ConsumerHeartbeat,
    Join,
    JoinAnswer,
    Sync,
    SyncAnswer,
)
from millpond.engine.node.node import Node
from tests.support.cluster.leadership import give, take
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.kafka.txn_writer import Writer, read_committed
from tests.support.time.virtual_loop import run

PARTITIONS = 2
SETTINGS: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_assignment_interval_ms": "0",
    "offsets_topic_num_partitions": str(PARTITIONS),
    "transaction_state_log_num_partitions": str(PARTITIONS),
}
SIMPLE, CLASSIC, CONSUMERS = "simple", "classic", "consumers"
MEMBERS = ("ann", "bob", "cy")
IDS = ("red", "blue")

who, name = st.sampled_from(MEMBERS), st.sampled_from(IDS)
number = st.integers(0, PARTITIONS - 1)
STEPS = st.one_of(
    st.tuples(st.just("commit"), number, st.integers(0, 99)),
    st.tuples(st.just("generation")),
    st.tuples(st.just("join"), who),
    st.tuples(st.just("beat"), who),
    st.tuples(st.just("leave"), who),
    st.tuples(st.just("send"), name, number),
    st.tuples(st.just("offset"), name, st.integers(0, 99)),
    st.tuples(st.just("end"), name, st.booleans()),
    st.tuples(st.just("replace"), name),
)
MOVES = st.tuples(st.just("move"), st.sampled_from([OFFSETS_TOPIC, TRANSACTIONS_TOPIC]), number)


class Life:
    """One broker and everybody who talks to it."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.engine: Node = broker.engine
        self.writers: dict[str, Writer] = {}

    async def begin(self) -> None:
        await self.broker.create("t", PARTITIONS)
        await self.engine.groups.prepare()
        await self.engine.transactions.prepare()
        for one in IDS:
            await self.replace(one)

    async def take(self, step: tuple[Any, ...]) -> None:
        what, *details = step
        await getattr(self, what)(*details)

    async def commit(self, partition: int, offset: int) -> None:
        position = CommittedOffset(offset=offset)
        command = CommitOffsets(group_id=SIMPLE, offsets=(("t", partition, position),))
        self.engine.groups.commit(command)

    async def generation(self) -> None:
        """A reader with a name of its own joins alone and takes everything."""
        joined: list[JoinAnswer] = []
        self.engine.groups.join(
            Join(
                group_id=CLASSIC,
                ticket=0,
                member_id="",
                instance_id="only",
                client_id="",
                client_host="",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=(("range", b""),),
                member_id_required=True,
                may_skip_assignment=False,
            ),
            joined.append,
        )
        (answer,) = joined
        synced: list[SyncAnswer] = []
        self.engine.groups.sync(
            Sync(
                group_id=CLASSIC,
                ticket=0,
                member_id=answer.member_id,
                generation=answer.generation,
                instance_id="only",
                protocol_type="consumer",
                protocol="range",
                assignments={answer.member_id: b"all"},
            ),
            synced.append,
        )
        assert synced[0].assignment == b"all"

    async def join(self, member: str) -> None:
        self._beat(
            ConsumerHeartbeat(
                group_id=CONSUMERS,
                member_id=member,
                epoch=0,
                rebalance_timeout_ms=30_000,
                topics=("t",),
                owned={},
            )
        )

    async def beat(self, member: str) -> None:
        for one in self._consumers():
            if one.member_id == member:
                self._beat(
                    ConsumerHeartbeat(
                        group_id=CONSUMERS, member_id=member, epoch=one.epoch, owned=one.assigned
                    )
                )

    async def leave(self, member: str) -> None:
        if member in {one.member_id for one in self._consumers()}:
            self._beat(ConsumerHeartbeat(group_id=CONSUMERS, member_id=member, epoch=-1))

    def _beat(self, command: ConsumerHeartbeat) -> None:
        self.engine.groups.consumer_heartbeat(command)

    def _consumers(self) -> tuple[Any, ...]:
        try:
            return self.engine.groups.describe_consumers(CONSUMERS).members
        except MillpondError:
            return ()

    async def send(self, one: str, partition: int) -> None:
        assert await self.writers[one].send(one.encode(), partition) == 0

    async def offset(self, one: str, offset: int) -> None:
        assert await self.writers[one].commit_offset(SIMPLE, offset) == 0

    async def end(self, one: str, commit: bool) -> None:
        await self.writers[one].end(commit=commit)

    async def replace(self, one: str) -> None:
        writer = self.writers[one] = Writer(self.broker, one, second_generation=True)
        while await writer.init():
            await asyncio.sleep(0.01)

    async def move(self, topic: str, index: int) -> None:
        take(self.engine, topic, index)
        give(self.engine, topic, index)
        for _ in range(10):
            await asyncio.sleep(0)

    async def state(self) -> dict[str, Any]:
        """All that anybody could ask for."""
        groups, transactions = self.engine.groups, self.engine.transactions
        offsets = groups.committed(SIMPLE)
        return {
            "groups": sorted((one.group_id, one.kind, one.state) for one in groups.list()),
            "offsets": {
                (topic, index): position.offset
                for topic, positions in offsets.items()
                for index, position in positions.items()
            },
            "pending": [groups.is_pending(SIMPLE, "t", index) for index in range(PARTITIONS)],
            "classic": groups.describe(CLASSIC),
            "consumers": self._consumers(),
            "transactions": sorted(
                (one.transactional_id, *one.partitions, one.status, one.producer_epoch)
                for one in transactions.list()
            ),
            "read": [await read_committed(self.broker, index) for index in range(PARTITIONS)],
        }


async def live(story: list[tuple[Any, ...]], *, moves: bool) -> dict[str, Any]:
    async with memory_broker(**SETTINGS) as broker:
        life = Life(broker)
        await life.begin()
        for step in story:
            if moves or step[0] != "move":
                await life.take(step)
        return await life.state()


@given(st.lists(st.one_of(STEPS, STEPS, STEPS, MOVES), min_size=4, max_size=25))
def test_a_life_with_moves_ends_like_one_without(story: list[tuple[Any, ...]]) -> None:
    assert run(live(story, moves=True)) == run(live(story, moves=False))
