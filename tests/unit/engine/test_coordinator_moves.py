"""Coordinators follow the leaders of their partitions: leadership is given and taken by hand on one node.

What was answered is there after every move; what was not may be gone; nobody who waits is forgotten.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from millpond.base.errors import CoordinatorLoadInProgress, NotCoordinator, StorageFailure
from millpond.engine.api import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from millpond.engine.coordinators import shard_host
from millpond.engine.coordinators.groups import CommitOffsets, CommittedOffset, ConsumerHeartbeat
from millpond.engine.coordinators.record_replay import MayComeBack, stored_batches
from millpond.engine.coordinators.transactions import Status
from millpond.group.share.records import ShareKey
from millpond.group.streams.messages import StreamsHeartbeat
from millpond.record.batch import BatchHeader
from millpond.record.records import Record
from millpond.replication.partition import Partition
from millpond.wire.kafka.api import ErrorCode
from tests.support.cluster.leadership import commit_all, give, take
from tests.support.cluster.memory_broker import MemoryBroker, batch, memory_broker
from tests.support.kafka.share_reader import ACCEPT, ShareReader, configure
from tests.support.kafka.share_reader import GROUP as POOL
from tests.support.kafka.streamers import WORD_COUNT
from tests.support.kafka.txn_writer import Writer, committed_offset, read_committed
from tests.support.time.virtual_loop import run
from tests.unit.engine.test_groups import GROUP, Reader, committed, described

SMALL: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "3",
    "transaction_state_log_num_partitions": "3",
    "share_coordinator_state_topic_num_partitions": "3",
}


def with_broker(story: Callable[[MemoryBroker], Awaitable[None]], **settings: Any) -> None:
    async def whole() -> None:
        async with memory_broker(**(SMALL | settings)) as broker:
            await broker.create("t", 2)
            await broker.engine.groups.prepare()
            await broker.engine.transactions.prepare()
            await story(broker)

    run(whole())


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def move_group(broker: MemoryBroker, group_id: str = GROUP) -> None:
    """Away and back: everything is read anew."""
    index = broker.engine.groups.partition_of(group_id)
    take(broker.engine, OFFSETS_TOPIC, index)
    await turns()
    give(broker.engine, OFFSETS_TOPIC, index)
    await turns()


def transaction_place(broker: MemoryBroker, name: str) -> int:
    return broker.engine.transactions._host.index_of(name)


# --- groups -----------------------------------------------------------------------------------------


def test_a_classic_group_is_the_same_after_its_coordinator_moved() -> None:
    async def story(broker: MemoryBroker) -> None:
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(42) == 0
        before = await described(broker)

        await move_group(broker)

        after = await described(broker)
        assert (after.group_state, after.protocol_data) == (
            before.group_state,
            before.protocol_data,
        )
        assert [one.member_assignment for one in after.members] == [
            one.member_assignment for one in before.members
        ]
        assert await committed(broker) == 42
        assert await reader.heartbeat() == 0  # the generation is the same
        assert await reader.commit(43) == 0

    with_broker(story)


def test_who_asks_the_old_coordinator_is_sent_away_and_who_asks_early_is_told_to_wait() -> None:
    async def story(broker: MemoryBroker) -> None:
        reader = Reader(broker)
        await reader.settle()
        index = broker.engine.groups.partition_of(GROUP)

        take(broker.engine, OFFSETS_TOPIC, index)
        assert await reader.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert await reader.commit(1) == ErrorCode.NOT_COORDINATOR
        assert not list(broker.engine.groups.list())

        give(broker.engine, OFFSETS_TOPIC, index)
        reader.send_commit(2)
        answer = reader.client.answer()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await turns()
        assert await reader.commit(3) == 0

    with_broker(story)


def test_a_partition_that_cannot_be_read_to_the_end_answers_nobody_and_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(broker: MemoryBroker) -> None:
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(42) == 0
        assert await reader.commit(43) == 0

        def broken(
            partition: Partition, may_come_back: MayComeBack
        ) -> Iterator[tuple[BatchHeader, Sequence[Record]]]:
            batches = list(stored_batches(partition, may_come_back))
            yield from batches[:-1]
            raise StorageFailure("the disk does not answer")

        monkeypatch.setattr(shard_host, "stored_batches", broken)
        await move_group(broker)
        assert await reader.commit(44) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(CoordinatorLoadInProgress):
            broker.engine.groups.check_coordinates(GROUP)

        monkeypatch.undo()
        await asyncio.sleep(6)
        assert await committed(broker) == 43
        assert await reader.commit(45) == 0

    with_broker(story)


def test_joins_and_syncs_that_wait_are_answered_when_the_coordinator_goes() -> None:
    async def story(broker: MemoryBroker) -> None:
        first, second = Reader(broker), Reader(broker)
        await first.settle()
        second.send_join()
        second.member_id = second.client.answer().member_id
        second.send_join()
        assert second.client.answers() == []  # parked until the first joins again

        take(broker.engine, OFFSETS_TOPIC, broker.engine.groups.partition_of(GROUP))

        assert second.client.answer().error_code == ErrorCode.NOT_COORDINATOR

    with_broker(story)


def test_a_consumer_group_goes_on_at_its_epoch() -> None:
    async def story(broker: MemoryBroker) -> None:
        groups = broker.engine.groups
        join = ConsumerHeartbeat(
            group_id=GROUP,
            member_id="ann",
            epoch=0,
            rebalance_timeout_ms=30_000,
            topics=("t",),
            owned={},
        )
        answer, _ = groups.consumer_heartbeat(join)
        before = groups.describe_consumers(GROUP)

        await move_group(broker)

        assert groups.describe_consumers(GROUP) == before
        beat = ConsumerHeartbeat(group_id=GROUP, member_id="ann", epoch=answer.epoch)
        assert groups.consumer_heartbeat(beat)[0].epoch == answer.epoch

    with_broker(story)


def test_a_streams_group_goes_on_at_its_epoch() -> None:
    async def story(broker: MemoryBroker) -> None:
        groups = broker.engine.groups
        await broker.create("lines", 2)
        join = StreamsHeartbeat(
            group_id="app",
            member_id="ann",
            epoch=0,
            rebalance_timeout_ms=30_000,
            topology=WORD_COUNT,
            process_id="p",
            active={},
            standby={},
            warmup={},
        )
        answer, _ = groups.streams_heartbeat(join)
        await turns()
        before = groups.describe_streams("app")

        await move_group(broker, "app")

        after = groups.describe_streams("app")
        assert (after.epoch, after.topology_epoch) == (before.epoch, before.topology_epoch)
        assert [one.about for one in after.members] == [one.about for one in before.members]
        beat = StreamsHeartbeat(group_id="app", member_id="ann", epoch=answer.epoch)
        assert groups.streams_heartbeat(beat)[0].epoch >= answer.epoch

    with_broker(story)


def test_leadership_that_comes_and_goes_while_the_log_is_read_mixes_nothing() -> None:
    async def story(broker: MemoryBroker) -> None:
        engine = broker.engine
        for number in range(2_000):  # more than one turn's work
            position = CommittedOffset(offset=number)
            engine.groups.commit(
                CommitOffsets(group_id=f"g{number % 7}", offsets=(("t", number % 2, position),))
            )
        index = engine.groups.partition_of("g1")
        before = {one.group_id: engine.groups.committed(one.group_id) for one in _listed(engine)}
        take(engine, OFFSETS_TOPIC, index)
        for _ in range(3):
            give(engine, OFFSETS_TOPIC, index)
            await asyncio.sleep(0)
            take(engine, OFFSETS_TOPIC, index)
        with pytest.raises(NotCoordinator):
            engine.groups.committed("g1")

        give(engine, OFFSETS_TOPIC, index)
        await asyncio.sleep(0)
        with pytest.raises(CoordinatorLoadInProgress):
            engine.groups.committed("g1")
        await turns(100)

        after = {one.group_id: engine.groups.committed(one.group_id) for one in _listed(engine)}
        assert after == before

    with_broker(story)


def _listed(engine: Any) -> list[Any]:
    return sorted(engine.groups.list(), key=lambda one: one.group_id)


def test_a_commit_that_was_not_answered_may_be_lost_and_is_not_read_before() -> None:
    async def story(broker: MemoryBroker) -> None:
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(1) == 0
        index = broker.engine.groups.partition_of(GROUP)
        partition = give(broker.engine, OFFSETS_TOPIC, index, alone=False)
        await turns()
        end = partition.log.end_offset
        reader.send_commit(2)
        reading = asyncio.ensure_future(committed(broker))
        await turns()
        assert reader.client.answers() == []
        assert not reading.done()  # 2 is in the log, but may yet be lost

        take(broker.engine, OFFSETS_TOPIC, index)
        partition.log.truncate_to(end)
        partition.on_truncated()
        await turns()
        answer = reader.client.answer()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        reading.cancel()

        give(broker.engine, OFFSETS_TOPIC, index)
        await turns()
        assert await committed(broker) == 1

    with_broker(story)


def test_a_commit_is_answered_when_the_other_replica_has_it() -> None:
    async def story(broker: MemoryBroker) -> None:
        reader = Reader(broker)
        await reader.settle()
        index = broker.engine.groups.partition_of(GROUP)
        partition = give(broker.engine, OFFSETS_TOPIC, index, alone=False)
        await turns()
        reader.send_commit(2)
        assert reader.client.answers() == []

        commit_all(partition)
        await turns()

        assert reader.client.answer().topics[0].partitions[0].error_code == 0

    with_broker(story)


# --- transactions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
def test_a_transaction_survives_the_move_of_its_coordinator(second: bool) -> None:
    async def story(broker: MemoryBroker) -> None:
        one = Writer(broker, "tx", second_generation=second)
        await one.find()
        assert await one.init() == 0
        assert await one.send(b"a", 0) == 0
        assert await one.commit_offset(GROUP, 7) == 0
        index = transaction_place(broker, "tx")
        before = broker.engine.transactions.describe("tx")

        take(broker.engine, TRANSACTIONS_TOPIC, index)
        assert await one.end(commit=True) == ErrorCode.NOT_COORDINATOR
        await move_group(broker)
        give(broker.engine, TRANSACTIONS_TOPIC, index)
        await turns()

        assert broker.engine.transactions.describe("tx") == before
        assert await one.end(commit=True) == 0
        assert await read_committed(broker) == [b"a"]
        assert await committed_offset(broker, GROUP) == (7, 0)

    with_broker(story)


def test_who_takes_over_ends_what_was_decided() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = Writer(broker, "tx", second_generation=True)
        await one.find()
        assert await one.init() == 0
        assert await one.send(b"a", 0) == 0
        index = transaction_place(broker, "tx")
        # The partition of the data has nobody who leads it: the marker cannot be written.
        take(broker.engine, "t", 0)
        assert await one.end(commit=True) == 0
        assert broker.engine.transactions.describe("tx").status is Status.PREPARE_COMMIT

        take(broker.engine, TRANSACTIONS_TOPIC, index)
        assert broker.engine.transactions._completion._transactions == {}
        give(broker.engine, "t", 0)
        assert await read_committed(broker) == []
        give(broker.engine, TRANSACTIONS_TOPIC, index)
        await turns()

        assert await read_committed(broker) == [b"a"]
        assert broker.engine.transactions.describe("tx").status is Status.COMPLETE_COMMIT

    with_broker(story)


def test_markers_are_not_written_before_the_outcome_is_safe() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = Writer(broker, "tx", second_generation=True)
        await one.find()
        assert await one.init() == 0
        assert await one.send(b"a", 0) == 0
        index = transaction_place(broker, "tx")
        partition = give(broker.engine, TRANSACTIONS_TOPIC, index, alone=False)
        await turns()
        ending = asyncio.ensure_future(one.end(commit=True))
        await turns()
        assert not ending.done()
        assert await read_committed(broker) == []

        commit_all(partition)

        assert await ending == 0
        commit_all(partition)
        assert await read_committed(broker) == [b"a"]

    with_broker(story)


# --- share groups -----------------------------------------------------------------------------------


def test_what_a_share_group_accepted_is_not_handed_out_again_after_its_state_moved() -> None:
    async def story(broker: MemoryBroker) -> None:
        engine = broker.engine
        topic_id = engine.metadata.image.topics["t"].topic_id
        await configure(broker, share_auto_offset_reset="earliest")
        engine.partitions.append("t", 0, bytearray(batch(b"a", b"b", b"c")))
        reader = ShareReader(broker, "ann", topic_id)
        await reader.join()
        assert [offset for offset, _ in await reader.take(records_max=2, share_acquire_mode=1)] == [
            0,
            1,
        ]
        assert await reader.say((0, 0, [ACCEPT])) == 0
        index = engine.share.delivery.keeper._shard(ShareKey(POOL, topic_id, 0)).partition.index

        take(engine, SHARE_STATE_TOPIC, index)
        give(engine, SHARE_STATE_TOPIC, index)
        await turns()

        # Locks are not written: what was held comes again, at the same delivery.
        got = await reader.take(records_max=5, share_acquire_mode=1)
        assert got == [(1, 1), (2, 1)]

    with_broker(story)


def test_members_of_a_share_group_join_its_new_coordinator() -> None:
    async def story(broker: MemoryBroker) -> None:
        reader = ShareReader(broker, "ann", broker.engine.metadata.image.topics["t"].topic_id)
        await reader.join()
        await move_group(broker, POOL)
        assert (await reader.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await reader.join()

    with_broker(story)


def test_who_leads_a_partition_no_more_hands_nothing_of_it_out() -> None:
    async def story(broker: MemoryBroker) -> None:
        engine = broker.engine
        topic_id = engine.metadata.image.topics["t"].topic_id
        await configure(broker, share_auto_offset_reset="earliest")
        engine.partitions.append("t", 0, bytearray(batch(b"a")))
        reader = ShareReader(broker, "ann", topic_id)
        await reader.join()
        assert await reader.take() == [(0, 1)]

        take(engine, "t", 0)
        give(engine, "t", 0)

        assert await reader.take() == [(0, 1)]  # nobody holds it, and nobody has failed with it

    with_broker(story)
