"""Produce, through a real session and a real engine: what is kept, what is answered, what is refused."""

import struct
import threading

import pytest

from millpond.engine.api import CreateTopic
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.cluster.memory_broker import (
    batch,
    fetch,
    fetched,
    memory_broker,
    produce,
    produced,
    values_of,
)
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop


async def test_an_acknowledged_batch_is_answered_at_once_and_can_be_read() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()

        client.send(ApiKey.PRODUCE, 9, produce(batch(b"a", b"b")))
        first = produced(client.answer())
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"c"), acks=1))
        second = produced(client.answer())

        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, 2)
        assert first.log_append_time_ms == -1
        client.send(ApiKey.FETCH, 12, fetch(0))
        assert values_of(fetched(client.answer()).records) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_is_answered(version: int) -> None:
    async with memory_broker() as broker:
        topic_id = await broker.create("t")
        client = broker.client()
        request = produce(batch(b"v"))
        request.topic_data[0].topic_id = topic_id
        client.send(ApiKey.PRODUCE, version, request)
        answer = client.answer()
        assert produced(answer).base_offset == 0
        if version >= 13:
            assert answer.responses[0].topic_id == topic_id
        else:
            assert answer.responses[0].name == "t"


async def test_acks_0_writes_and_says_nothing() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=0), expect_response=False)
        client.send(ApiKey.FETCH, 12, fetch(0))
        assert values_of(fetched(client.answer()).records) == [b"a"]


async def test_a_failed_write_with_acks_0_ends_the_connection() -> None:
    async with memory_broker(auto_create_topics_enable="false") as broker:
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=0), expect_response=False)
        assert client.is_closed
        assert client.answers() == []


async def test_an_acks_value_that_does_not_exist_is_refused() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=2))
        assert produced(client.answer()).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=0))
        assert values_of(fetched(client.answer()).records) == []


async def test_one_bad_partition_does_not_spoil_the_others() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        client = broker.client()
        torn = bytearray(batch(b"bad"))
        torn[-1] ^= 0xFF
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=0, records=bytes(torn)),
                        PartitionProduceData(index=1, records=batch(b"good")),
                        PartitionProduceData(index=2, records=batch(b"nowhere")),
                    ],
                )
            ],
        )
        client.send(ApiKey.PRODUCE, 9, request)
        codes = [
            (one.index, one.error_code) for one in client.answer().responses[0].partition_responses
        ]
        assert codes == [
            (0, ErrorCode.CORRUPT_MESSAGE),
            (1, 0),
            (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]


def _old_format(records: bytes) -> bytes:
    changed = bytearray(records)
    changed[16] = 1
    return bytes(changed)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (_old_format(batch(b"a")), ErrorCode.INVALID_RECORD),
        (batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"a", timestamp_ms=LoopClock.EPOCH_MS * 2), ErrorCode.INVALID_TIMESTAMP),
        (
            batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
async def test_what_a_topic_does_not_take_is_refused_with_its_reason(
    records: bytes | None, code: ErrorCode
) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(records))
        answer = produced(client.answer())
        assert answer.error_code == code
        assert answer.error_message
        assert broker.engine.partitions.partition("t", 0).log.end_offset == 0


async def test_an_unknown_topic_id_is_named_as_such() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.PRODUCE, 13, produce(batch(b"a")))
        assert produced(client.answer()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_repeated_batch_is_answered_with_its_first_offset_and_kept_once() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        one = batch(b"once", producer_id=9, producer_epoch=0, base_sequence=0)
        two = batch(b"twice", producer_id=9, producer_epoch=0, base_sequence=1)
        for records in (one, two, one, two):
            client.send(ApiKey.PRODUCE, 9, produce(records))
        offsets = [produced(answer).base_offset for answer in client.answers()]
        assert offsets == [0, 1, 0, 1]
        client.send(ApiKey.FETCH, 12, fetch(0))
        assert values_of(fetched(client.answer()).records) == [b"once", b"twice"]


async def test_a_sequence_with_a_gap_is_refused() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        for sequence in (0, 5):
            records = batch(b"v", producer_id=9, producer_epoch=0, base_sequence=sequence)
            client.send(ApiKey.PRODUCE, 9, produce(records))
        codes = [produced(answer).error_code for answer in client.answers()]
        assert codes == [0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


async def test_log_append_time_is_the_brokers() -> None:
    async with memory_broker() as broker:
        await broker.create("t", message_timestamp_type="LogAppendTime")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v", timestamp_ms=5)))
        assert produced(client.answer()).log_append_time_ms == broker.clock.now_ms()


async def test_no_more_replicas_are_asked_for_than_a_topic_has() -> None:
    async with memory_broker() as broker:
        await broker.create("t", min_insync_replicas="2")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v"), acks=-1))
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v"), acks=1))
        codes = [produced(answer).error_code for answer in client.answers()]
        assert codes == [0, 0]


async def test_group_flush_answers_after_the_fsync_and_shows_nothing_before() -> None:
    async with memory_broker() as broker:
        await broker.create("t", flush_policy="group")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v")))
        assert client.answers() == []
        partition = broker.engine.partitions.partition("t", 0)
        assert (partition.high_watermark, partition.log.end_offset) == (0, 1)

        assert produced(await client.receive()).base_offset == 0
        assert partition.high_watermark == 1
        assert partition.log.recovery_point == 1


async def test_answers_leave_in_order_though_a_later_one_is_ready_first() -> None:
    async with memory_broker() as broker:
        await broker.create("slow", flush_policy="group")
        await broker.create("fast")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v"), topic="slow"))
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v"), topic="fast"))
        assert client.answers() == []
        names = [(await client.receive()).responses[0].name for _ in range(2)]
        assert names == ["slow", "fast"]


async def test_a_flush_that_fails_is_answered_as_a_storage_error() -> None:
    async with memory_broker() as broker:
        await broker.create("t", flush_policy="group")
        client = broker.client()
        broker.storage.fail_syncs = True
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v")))
        answer = produced(await client.receive())
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.storage.fail_syncs = False


class SlowDisk(FaultyStorage):
    """A disk whose syncs take as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = threading.Event()
        self.may_sync.set()

    def _sync(self) -> None:
        assert self.may_sync.wait(20)
        super()._sync()


async def test_a_flush_that_takes_too_long_is_answered_in_the_time_the_producer_gave() -> None:
    disk = SlowDisk()
    async with memory_broker(disk) as broker:
        await broker.create("t", flush_policy="group")
        client = broker.client()
        disk.may_sync.clear()
        virtual_loop().busy = lambda: False  # time passes although the flusher is at work
        before = virtual_loop().now

        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v"), timeout_ms=3000))
        answer = produced(await client.receive())

        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert virtual_loop().now - before == pytest.approx(3.0, abs=0.01)
        disk.may_sync.set()


async def test_a_full_disk_refuses_the_partition_and_heals_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"before")))
        broker.storage.capacity = broker.storage.used + 10
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"x" * 100)))
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"x" * 100)))
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=0))
        broker.storage.capacity = None
        # What is sent behind a refused batch is refused with it, though there is room again.
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"between")))
        await broker.engine.disk.online()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"after")))
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=0))

        first, full, again, during, between, second, after = client.answers()
        assert produced(between).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produced(first).error_code == 0
        assert produced(full).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produced(again).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert caplog.text.count("a write is refused: cannot append to") == 1
        assert values_of(fetched(during).records) == [b"before"]
        assert produced(second).base_offset == 1
        assert values_of(fetched(after).records) == [b"before", b"after"]


async def test_bytes_that_are_no_produce_request_end_the_connection() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, struct.pack(">bhi", 0, -1, 1000) + b"\xff\xff\xff\xff")
        assert client.is_closed


async def test_a_batch_that_no_segment_can_hold_is_refused_by_its_own_name() -> None:
    async with memory_broker() as broker:
        config = {"segment.bytes": str(1024 * 1024), "max.message.bytes": str(3 * 1024 * 1024)}
        command = CreateTopic(name="small", partitions=1, configs=config)
        (made,) = await broker.engine.topic_admin.create_topics([command])
        assert made.error is None
        request = produce(batch(b"x" * 2 * 1024 * 1024), topic="small")
        answer = await broker.client().ask(ApiKey.PRODUCE, 9, request)
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert partition.record_errors == []


async def test_each_record_without_a_key_is_named_where_keys_are_needed() -> None:
    async with memory_broker() as broker:
        command = CreateTopic(name="keyed", partitions=1, configs={"cleanup.policy": "compact"})
        await broker.engine.topic_admin.create_topics([command])
        answer = await broker.client().ask(
            ApiKey.PRODUCE, 9, produce(batch(b"a", b"b"), topic="keyed")
        )
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in partition.record_errors] == [0, 1]
