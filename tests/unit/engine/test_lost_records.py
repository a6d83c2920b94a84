"""Records that a disk has lost and no other replica has: readers hear of it, or go on behind them, as the
topic says; coordinators serve what is left."""

import asyncio
import logging
from copy import deepcopy
from typing import Any, ClassVar

import pytest

from millpond.base.errors import CorruptLog
from millpond.engine.api import OFFSETS_TOPIC, RESOURCE_TOPIC, AlterConfigs, AlterOp
from millpond.record.batch import iter_batches
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millpond.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    fetch,
    fetched,
    memory_broker,
    values_of,
)
from tests.support.kafka.share_reader import ShareReader, configure, taken
from tests.support.kafka.txn_writer import Writer
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.engine.test_groups import NO_DELAY, Reader, committed

WRITTEN = [b"%02d" % number * 20 for number in range(12)]


async def filled(broker: MemoryBroker, unreadable: str = "fail") -> None:
    # Six segments of two records each.
    await broker.create("t", segment_bytes="280", unreadable_records=unreadable)
    for value in WRITTEN:
        broker.engine.partitions.append("t", 0, bytearray(batch(value)))
    broker.engine.partitions.partition("t", 0).log.flush()


def logs_of(storage: FaultyStorage, directory: str) -> list[str]:
    where = f"data/{directory}/"
    return [path for path in storage.files() if path.startswith(where) and path.endswith(".log")]


def flip(storage: FaultyStorage, directory: str, offset: int) -> None:
    """A bit in the last record of the batch with an offset is another one now."""
    for path in logs_of(storage, directory):
        for position, header in iter_batches(storage.read_all(path) or b""):
            if header.base_offset <= offset < header.next_offset:
                storage.flip(path, position + header.size - 2)
                return
    raise AssertionError(f"no offset {offset} in {directory}")


async def read(broker: MemoryBroker, offset: int) -> tuple[ErrorCode, list[bytes | None]]:
    answer = await broker.client().ask(ApiKey.FETCH, 12, fetch(offset, wait_ms=0))
    found = fetched(answer)
    return ErrorCode(found.error_code), values_of(found.records)


async def read_to(broker: MemoryBroker, end: int) -> list[bytes | None]:
    """As a consumer does that goes on behind what it got."""
    offset, values = 0, list[bytes | None]()
    while offset < end:
        answer = await broker.client().ask(ApiKey.FETCH, 12, fetch(offset, wait_ms=0))
        found = fetched(answer)
        assert found.error_code == 0
        values += values_of(found.records)
        offset = [header.next_offset for _at, header in iter_batches(found.records)][-1]
    return values


@pytest.mark.parametrize("kind", ["a missing segment", "a flipped byte"])
def test_a_reader_is_told_that_records_are_lost_or_goes_on_behind_them(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        storage = FaultyStorage()
        async with memory_broker(storage) as broker:
            await filled(broker)
            bases = [
                one.base_offset for one in broker.engine.partitions.partition("t", 0).log.segments
            ]
        first, next_ = bases[2], bases[3]
        if kind == "a missing segment":
            for path in [one for one in storage.files() if f"{first:020}." in one]:
                storage.delete(path)
        else:
            flip(storage, "t-0", first)
            next_ = first + 1
        lost = WRITTEN[first:next_]
        async with memory_broker(storage) as broker:
            code, values = await read(broker, 0)
            assert (code, values) == (ErrorCode.NONE, WRITTEN[: len(values)])
            for _ in range(3):
                assert await read(broker, first) == (ErrorCode.CORRUPT_MESSAGE, [])
            # Once, however often it is read; and with the range.
            said = [one for one in caplog.messages if f"offsets {first} to {next_ - 1}" in one]
            assert len(said) == 1
            assert "t-0" in said[0]
            assert ".log" in said[0]
            assert (await read(broker, next_))[1][0] == WRITTEN[next_]

            operations = [("unreadable.records", AlterOp.SET, "skip")]
            command = AlterConfigs(
                resource_type=RESOURCE_TOPIC, resource_name="t", operations=operations
            )
            (result,) = await broker.engine.settings_admin.alter_configs([command])
            assert result.error is None
            assert (await read(broker, first))[1][0] == WRITTEN[next_]
            assert await read_to(broker, 12) == [one for one in WRITTEN if one not in lost]

    with caplog.at_level(logging.ERROR, "millpond.log"):
        run(story())


@pytest.mark.parametrize("version", range(1, 6))
async def test_damaged_offsets_are_told_with_the_log_directory(version: int) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await filled(broker)
        client = broker.client()

        def told() -> list[tuple[int, int, str]]:
            client.send(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=None))
            (result,) = client.answer().results
            return [
                (one.first_offset, one.next_offset, one.reason)
                for topic in result.topics
                for partition in topic.partitions
                for one in partition.damage
            ]

        flip(storage, "t-0", 2)
        assert told() == [], "nothing has read it yet"
        log = broker.engine.partitions.partition("t", 0).log
        with pytest.raises(CorruptLog):
            log.read(2, 1000, upto=log.end_offset)
        # Version 1 has no tagged fields.
        assert told() == ([(2, 3, "wrong checksum")] if version >= 2 else [])
        log.delete_records(4)
        assert told() == [], "these records are deleted"


@pytest.mark.parametrize("policy", ["fail", "skip"])
async def test_a_share_group_gives_lost_records_up_only_if_the_topic_says_so(policy: str) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await filled(broker, unreadable=policy)
        await configure(broker, share_auto_offset_reset="earliest")
        topic_id = broker.engine.metadata.image.topics["t"].topic_id
        reader = ShareReader(broker, "one", topic_id)
        await reader.join()
        flip(storage, "t-0", 0)
        answer = await reader.fetch()
        for _ in range(20):
            if answer.responses and answer.responses[0].partitions[0].error_code:
                break
            if taken(answer):
                break
            await asyncio.sleep(0.5)
            answer = await reader.fetch()
        (partition,) = answer.responses[0].partitions
        if policy == "fail":
            assert partition.error_code == ErrorCode.CORRUPT_MESSAGE
        else:
            assert partition.error_code == ErrorCode.NONE
            assert taken(answer)[0] == (1, 1)


async def test_a_group_keeps_what_can_be_read_of_its_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = FaultyStorage()
    settings = {**NO_DELAY, "offsets_topic_num_partitions": "1"}
    async with memory_broker(storage, **settings) as broker:
        reader = Reader(broker)
        await reader.settle()
        for topic, offset in (("first", 1), ("lost", 2), ("last", 3)):
            await broker.create(topic)
            assert await reader.commit(offset, topic=topic) == 0
        log = broker.engine.partitions.partition(OFFSETS_TOPIC, 0).log
        end = log.end_offset
        assert await reader.leave() == 0
    flip(storage, f"{OFFSETS_TOPIC}-0", end - 2)
    async with memory_broker(storage, **settings) as broker:
        assert [await committed(broker, one) for one in ("first", "lost", "last")] == [1, -1, 3]
        again = Reader(broker)
        await again.settle()
        assert await again.commit(7, topic="lost") == 0
        assert await committed(broker, "lost") == 7
    assert f"offsets {end - 2} to {end - 2} are lost" in caplog.text


class Coordinated:
    """A broker's life that writes to every coordinator's log, and the same clients again after a restart."""

    SETTINGS: ClassVar[dict[str, Any]] = {
        **NO_DELAY,
        "offsets_topic_num_partitions": "1",
        "transaction_state_log_num_partitions": "1",
        "share_coordinator_state_topic_num_partitions": "1",
    }
    LOGS = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state")

    async def first(self, broker: MemoryBroker) -> None:
        await filled(broker)
        await configure(broker, share_auto_offset_reset="earliest")
        self.topic_id = broker.engine.metadata.image.topics["t"].topic_id
        await self.serve(broker)

    async def beat(self, broker: MemoryBroker) -> None:
        """A member of the newer protocol joins and commits; it does not leave."""
        client = broker.client()
        request = ConsumerGroupHeartbeatRequest(
            group_id="epochs",
            member_id="ann",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        answer = await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        assert answer.error_code == 0, answer
        assert answer.assignment is not None
        positions = [OffsetCommitRequestPartition(0, 3)]
        commit = OffsetCommitRequest(
            group_id="epochs",
            generation_id_or_member_epoch=answer.member_epoch,
            member_id="ann",
            topics=[OffsetCommitRequestTopic("t", partitions=positions)],
        )
        answer = await client.ask(ApiKey.OFFSET_COMMIT, 9, commit)
        assert answer.topics[0].partitions[0].error_code == 0

    async def serve(self, broker: MemoryBroker) -> None:
        """Every kind of client gets what it asks for."""
        classic = Reader(broker)
        await classic.settle()
        assert await classic.commit(7) == 0
        assert await committed(broker, "t") == 7
        assert await classic.leave() == 0
        await self.beat(broker)
        writer = Writer(broker, "tx", second_generation=True)
        await writer.find()
        assert await writer.init() == 0
        assert await writer.send(b"v") == 0
        assert await writer.end(commit=True) == 0
        share = ShareReader(broker, "one", self.topic_id)
        await share.join()
        async with asyncio.timeout(120):
            while not (got := taken(await share.fetch(records_max=2))):
                await asyncio.sleep(0.5)
        assert await share.say((got[0][0], got[-1][0], [1])) == ErrorCode.NONE


def test_any_damaged_batch_of_a_coordinators_log_leaves_it_serving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each batch by itself, whatever it says: the log of a coordinator is never a reason to stand still."""

    async def lived() -> tuple[FaultyStorage, Coordinated, list[tuple[str, int]]]:
        storage, life = FaultyStorage(), Coordinated()
        async with memory_broker(storage, **life.SETTINGS) as broker:
            await life.first(broker)
        places = [
            (name, header.base_offset)
            for name in life.LOGS
            for path in logs_of(storage, f"{name}-0")
            for _position, header in iter_batches(storage.read_all(path) or b"")
        ]
        assert {name for name, _offset in places} == set(life.LOGS)
        return storage, life, places

    async def again(storage: FaultyStorage, life: Coordinated, name: str, offset: int) -> None:
        flip(storage, f"{name}-0", offset)
        async with memory_broker(storage, **life.SETTINGS) as broker:
            await life.serve(broker)

    sound, life, places = run(lived())
    for name, offset in places:
        caplog.clear()
        try:
            run(again(deepcopy(sound), life, name, offset))
        except BaseException as error:
            error.add_note(f"the batch at offset {offset} of {name} is damaged")
            raise
        assert f"{name}-0" in caplog.text
        assert "are lost" in caplog.text


async def test_transactions_go_on_with_what_can_be_read_of_their_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = FaultyStorage()
    settings = {"transaction_state_log_num_partitions": "1"}
    async with memory_broker(storage, **settings) as broker:
        await broker.create("t")
        for name in ("lost", "kept"):
            writer = Writer(broker, name, second_generation=True)
            await writer.find()
            assert await writer.init() == 0
    flip(storage, "__transaction_state-0", 0)
    async with memory_broker(storage, **settings) as broker:
        known = {one.transactional_id for one in broker.engine.transactions._known()}
        assert known == {"kept"}
        writer = Writer(broker, "lost", second_generation=True)
        await writer.find()
        assert await writer.init() == 0
        assert await writer.send(b"v") == 0
        assert await writer.end(commit=True) == 0
    assert "offsets 0 to 0 are lost" in caplog.text


async def test_share_groups_go_on_with_what_can_be_read_of_their_state() -> None:
    storage = FaultyStorage()
    settings = {"share_coordinator_state_topic_num_partitions": "1"}
    async with memory_broker(storage, **settings) as broker:
        await filled(broker)
        await configure(broker, share_auto_offset_reset="earliest")
        topic_id = broker.engine.metadata.image.topics["t"].topic_id
        reader = ShareReader(broker, "one", topic_id)
        await reader.join()
        while not (got := taken(await reader.fetch(records_max=2))):
            await asyncio.sleep(0.5)
        assert await reader.say((got[0][0], got[-1][0], [1])) == ErrorCode.NONE
        end = broker.engine.partitions.partition("__share_group_state", 0).log.end_offset
    flip(storage, "__share_group_state-0", end - 1)
    async with memory_broker(storage, **settings) as broker:
        reader = ShareReader(broker, "two", topic_id)
        await reader.join()
        async with asyncio.timeout(60):
            while not taken(await reader.fetch(records_max=2)):
                await asyncio.sleep(0.5)
