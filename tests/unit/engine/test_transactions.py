"""Transactions in a whole broker: real engine, real sessions, storage in memory, virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from millpond.engine.api import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from millpond.metadata.records import PartitionChangeRecord
from millpond.txn.coordinator import TransactionCoordinator
from millpond.txn.records import Status
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from millpond.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from millpond.wire.kafka.messages.end_txn import EndTxnRequest
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.list_transactions import ListTransactionsRequest
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from millpond.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    fetch,
    fetched,
    memory_broker,
    produce,
    values_of,
)
from tests.support.kafka.txn_writer import Writer, committed_offset, read_committed
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

SMALL: dict[str, Any] = {
    "offsets_topic_num_partitions": "3",
    "transaction_state_log_num_partitions": "3",
}
GROUP = "readers"

generations = pytest.mark.parametrize("second", [False, True], ids=["first", "second"])


async def writer(
    broker: MemoryBroker, name: str = "tx", *, second: bool = False, **fields: Any
) -> Writer:
    one = Writer(broker, name, second_generation=second, **fields)
    await one.find()
    assert await one.init() == 0
    return one


def with_broker(story: Callable[[MemoryBroker], Awaitable[None]], **settings: Any) -> None:
    async def whole() -> None:
        async with memory_broker(**(SMALL | settings)) as broker:
            await broker.create("t", 3)
            await story(broker)

    run(whole())


# --- visibility -------------------------------------------------------------------------------------


@generations
@pytest.mark.parametrize("policy", ["os", "group"])
def test_committed_is_seen_everywhere_aborted_nowhere_open_not_yet(
    second: bool, policy: str
) -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, second=second)
        for commit in (True, False, True):
            for partition in (0, 1):
                assert await one.send(b"%d" % commit, partition) == 0
                assert b"open" not in await read_committed(broker, partition)
            assert await one.end(commit=commit) == 0
            await settle(broker)
        assert await one.send(b"open") == 0
        for partition in (0, 1):
            assert await read_committed(broker, partition) == [b"1", b"1"]

    with_broker(story, log_flush_policy=policy)


async def settle(broker: MemoryBroker) -> None:
    """Until no transaction waits for a flush any more."""
    for _ in range(5_000):
        if not any(one.is_prepared for one in broker.engine.transactions.list()):
            return
        await asyncio.sleep(0.001)
    raise AssertionError("a transaction that was decided is never finished")


def test_an_open_transaction_holds_back_all_that_comes_after_it() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, "one")
        other = await writer(broker, "other")
        assert await one.send(b"open") == 0
        assert await other.send(b"later") == 0
        assert await other.end(commit=True) == 0
        await broker.client().ask(ApiKey.PRODUCE, 9, produce(batch(b"plain")))
        assert await read_committed(broker) == []
        assert await latest(broker, committed=True) == 0
        assert await latest(broker, committed=False) == 4

        assert await one.end(commit=False) == 0

        assert await read_committed(broker) == [b"later", b"plain"]
        assert await latest(broker, committed=True) == 5

    with_broker(story)


async def latest(broker: MemoryBroker, *, committed: bool) -> int:
    wanted = ListOffsetsTopic(
        name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    request = ListOffsetsRequest(isolation_level=int(committed), topics=[wanted])
    answer = await broker.client().ask(ApiKey.LIST_OFFSETS, 6, request)
    return int(answer.topics[0].partitions[0].offset)


def test_a_waiting_reader_is_woken_by_the_end_of_a_transaction_and_not_before() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker)
        reader = broker.client()
        reader.send(ApiKey.FETCH, 12, fetch(wait_ms=30_000, bytes_min=1_000, isolation_level=1))
        for _ in range(3):
            assert await one.send(b"a" * 400) == 0
            await asyncio.sleep(1)
            assert reader.answers() == []  # bytes came, but none that it may see

        assert await one.end(commit=True) == 0
        await asyncio.sleep(0)

        (answer,) = reader.answers()
        assert values_of(fetched(answer).records)[:3] == [b"a" * 400] * 3

    with_broker(story)


def test_a_reader_of_committed_data_waits_no_longer_than_it_said() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker)
        reader = broker.client()
        reader.send(ApiKey.FETCH, 12, fetch(wait_ms=3_000, isolation_level=1))
        await asyncio.sleep(2.9)
        assert await one.send(b"a") == 0
        await asyncio.sleep(0.05)
        assert reader.answers() == []
        await asyncio.sleep(0.1)
        (answer,) = reader.answers()
        assert not fetched(answer).records

    with_broker(story)


# --- fencing and refusals ---------------------------------------------------------------------------


@generations
def test_a_new_incarnation_fences_the_old_one_and_ends_its_transaction(second: bool) -> None:
    async def story(broker: MemoryBroker) -> None:
        old = await writer(broker, second=second)
        assert await old.send(b"lost") == 0

        new = await writer(broker, second=second)

        assert new.producer_id == old.producer_id
        assert new.epoch > old.epoch
        assert await read_committed(broker) == []
        assert await latest(broker, committed=True) == 2  # nothing is held back any more
        assert await old.send(b"zombie", announce=False) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await old.end(commit=True) == ErrorCode.PRODUCER_FENCED
        assert await old.init(again=True) == ErrorCode.PRODUCER_FENCED
        assert await new.send(b"kept") == 0
        assert await new.end(commit=True) == 0
        assert await read_committed(broker) == [b"kept"]

    with_broker(story)


def test_older_clients_hear_of_fencing_in_their_words() -> None:
    async def story(broker: MemoryBroker) -> None:
        old = await writer(broker)
        await writer(broker)
        request = EndTxnRequest(
            transactional_id="tx", producer_id=old.producer_id, producer_epoch=0, committed=True
        )
        answer = await old.client.ask(ApiKey.END_TXN, 1, request)
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        bump = InitProducerIdRequest(
            transactional_id="tx",
            transaction_timeout_ms=1000,
            producer_id=old.producer_id,
            producer_epoch=0,
        )
        answer = await old.client.ask(ApiKey.INIT_PRODUCER_ID, 3, bump)
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    with_broker(story)


def test_what_was_not_announced_may_not_be_written() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker)
        assert await one.send(b"a", 0) == 0

        assert await one.send(b"b", 1, announce=False) == ErrorCode.INVALID_TXN_STATE
        assert await one.end(commit=True) == 0
        assert await one.send(b"late", 0, announce=False) == ErrorCode.INVALID_TXN_STATE

        assert await read_committed(broker, 0) == [b"a"]
        assert await read_committed(broker, 1) == []

    with_broker(story)


def test_a_late_write_of_an_ended_transaction_is_fenced_by_the_marker() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, second=True)
        assert await one.send(b"a") == 0
        before = one.epoch
        assert await one.end(commit=True) == 0
        assert one.epoch == before + 1

        late = Writer(broker, "tx", second_generation=True)
        late.producer_id, late.epoch = one.producer_id, before
        assert await late.send(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await one.send(b"b") == 0
        assert await one.end(commit=True) == 0

        assert await read_committed(broker) == [b"a", b"b"]

    with_broker(story)


def test_partitions_that_are_not_there_cannot_be_added() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=one.producer_id,
            v3_and_below_producer_epoch=one.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name="t", partitions=[0, 9]),
                AddPartitionsToTxnTopic(name="nowhere", partitions=[0]),
            ],
        )
        answer = await one.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        codes = [
            result.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        assert codes == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert broker.engine.transactions.describe("tx").status is Status.EMPTY

    with_broker(story)


def test_brokers_ask_for_many_transactions_at_once() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, "one")
        assert await one.send(b"a", 0) == 0
        two = await writer(broker, "two")

        def asked(who: Writer, partition: int, *, verify: bool) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=who.name,
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                verify_only=verify,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
            )

        request = AddPartitionsToTxnRequest(
            transactions=[
                asked(one, 0, verify=True),
                asked(one, 1, verify=True),
                asked(two, 2, verify=False),
            ]
        )
        refused = await one.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, request)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        node = broker.client().prove()
        answer = await node.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, request)
        codes = [
            one.topic_results[0].results_by_partition[0].partition_error_code
            for one in answer.results_by_transaction
        ]
        assert codes == [0, ErrorCode.TRANSACTION_ABORTABLE, 0]
        assert broker.engine.transactions.describe("two").partitions == {("t", 2)}

    with_broker(story)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x" * 32_768}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_wrong_questions_for_an_identity(fields: dict[str, Any], code: ErrorCode) -> None:
    async def story(broker: MemoryBroker) -> None:
        asked: dict[str, Any] = {"transactional_id": "tx", "transaction_timeout_ms": 1000}
        request = InitProducerIdRequest(**(asked | fields))
        answer = await broker.client().ask(ApiKey.INIT_PRODUCER_ID, 5, request)
        assert (answer.error_code, answer.producer_id) == (code, -1)

    with_broker(story)


def test_who_was_never_given_the_id_is_told_so() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = Writer(broker, "unknown", second_generation=False)
        assert await one.announce("t", 0) == ErrorCode.NOT_COORDINATOR
        await one.find()
        assert await one.announce("t", 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await one.end(commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        known = await writer(broker)
        known.producer_id += 1
        assert await known.send(b"a") == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    with_broker(story)


# --- time -------------------------------------------------------------------------------------------


@generations
def test_an_abandoned_transaction_is_aborted_and_its_producer_fenced(second: bool) -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, second=second, timeout_ms=5_000)
        assert await one.send(b"a") == 0
        await asyncio.sleep(4)
        assert await latest(broker, committed=True) == 0

        await asyncio.sleep(12)

        assert await latest(broker, committed=True) == 2
        assert await read_committed(broker) == []
        assert await one.send(b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
        if not second:
            assert await one.end(commit=True) == ErrorCode.PRODUCER_FENCED
            return
        # The second generation may abort what is aborted already, and go on with the raised epoch.
        assert await one.end(commit=True) == ErrorCode.INVALID_TXN_STATE
        assert await one.end(commit=False) == 0
        assert await one.send(b"c") == 0
        assert await one.end(commit=True) == 0
        assert await read_committed(broker) == [b"c"]

    with_broker(story)


def test_a_partition_must_see_a_producer_s_first_batch_first() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, second=True)
        assert await one.send(b"a") == 0
        other = await writer(broker, second=True)
        other._sequences["t", 0] = 3
        assert await other.send(b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await other.end(commit=False) == 0
        assert await other.send(b"c") == 0
        assert await other.end(commit=True) == 0
        assert await read_committed(broker) == [b"c"]

    with_broker(story)


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker)
        await asyncio.sleep(3_600 * 2 + 1)

        assert list(broker.engine.transactions.list()) == []
        assert await one.send(b"a") == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    with_broker(story, transactional_id_expiration_ms="3600000")


# --- offsets ----------------------------------------------------------------------------------------


@generations
@pytest.mark.parametrize("commit", [True, False])
def test_positions_count_when_their_transaction_commits(second: bool, commit: bool) -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.engine.groups.prepare()
        one = await writer(broker, second=second)
        assert await one.commit_offset(GROUP, 7) == 0
        assert await one.commit_offset(GROUP, 8) == 0  # the later one counts
        assert await committed_offset(broker, GROUP) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await committed_offset(broker, GROUP, stable=False) == (-1, 0)

        assert await one.end(commit=commit) == 0

        assert await committed_offset(broker, GROUP) == (8 if commit else -1, 0)

    with_broker(story)


def test_a_plain_commit_after_a_pending_one_stays() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.engine.groups.prepare()
        one = await writer(broker)
        assert await one.commit_offset(GROUP, 7) == 0
        position = OffsetCommitRequestPartition(partition_index=0, committed_offset=99)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[position])],
        )
        await broker.client().ask(ApiKey.OFFSET_COMMIT, 8, request)
        assert await committed_offset(broker, GROUP, stable=False) == (99, 0)

        assert await one.end(commit=True) == 0

        assert await committed_offset(broker, GROUP) == (99, 0)

    with_broker(story)


def test_the_positions_of_a_deleted_group_do_not_come_back() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.engine.groups.prepare()
        one = await writer(broker)
        assert await one.commit_offset(GROUP, 7) == 0
        await broker.client().ask(
            ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP])
        )
        assert await one.end(commit=True) == 0
        assert await committed_offset(broker, GROUP) == (-1, 0)

    with_broker(story)


def test_a_commit_for_a_generation_that_is_not_there_is_refused() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.engine.groups.prepare()
        one = await writer(broker)
        code = await one.commit_offset(
            GROUP, 7, generation_id_or_member_epoch=3, member_id="member"
        )
        assert code == ErrorCode.ILLEGAL_GENERATION
        nowhere = await one.commit_offset(GROUP, 7, topic="nowhere")
        assert nowhere == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(story)


def test_positions_may_only_be_committed_where_the_transaction_has_the_group() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.engine.groups.prepare()
        one = await writer(broker)
        assert await one.send(b"a") == 0
        one.second_generation = False
        skip = Writer(broker, "tx", second_generation=True)
        skip.producer_id, skip.epoch = one.producer_id, one.epoch + 1
        assert await skip.commit_offset(GROUP, 1) == ErrorCode.INVALID_PRODUCER_EPOCH

    with_broker(story)


# --- crashes ----------------------------------------------------------------------------------------


async def twice(
    before: Callable[[MemoryBroker], Awaitable[Any]],
    after: Callable[[MemoryBroker, Any], Awaitable[None]],
    **settings: Any,
) -> None:
    """One broker is killed, another takes its files."""
    storage = FaultyStorage()
    async with memory_broker(storage, **(SMALL | settings)) as broker:
        await broker.create("t", 3)
        left = await before(broker)
        files = storage.copy()
    files.kill()
    async with memory_broker(files, **(SMALL | settings)) as again:
        await after(again, left)


@generations
def test_an_open_transaction_goes_on_after_the_broker_was_killed(second: bool) -> None:
    async def before(broker: MemoryBroker) -> Writer:
        await broker.engine.groups.prepare()
        one = await writer(broker, second=second)
        assert await one.send(b"a") == 0
        assert await one.commit_offset(GROUP, 5) == 0
        return one

    async def after(broker: MemoryBroker, one: Writer) -> None:
        assert await read_committed(broker) == []
        assert await committed_offset(broker, GROUP) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        one.client = broker.client()
        assert await one.send(b"b") == 0
        assert await one.end(commit=True) == 0
        assert await read_committed(broker) == [b"a", b"b"]
        assert await committed_offset(broker, GROUP) == (5, 0)

    run(twice(before, after))


@generations
@pytest.mark.parametrize("commit", [True, False])
def test_what_was_decided_before_the_crash_is_finished_after_it(
    second: bool, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(broker: MemoryBroker) -> Writer:
        await broker.engine.groups.prepare()
        one = await writer(broker, second=second)
        assert await one.send(b"a", 0) == 0
        assert await one.send(b"b", 1) == 0
        assert await one.commit_offset(GROUP, 5) == 0
        # The outcome is written, and then the broker dies before the first marker.
        monkeypatch.setattr(
            broker.engine.transactions._completion, "begin", lambda _known, _epoch: None
        )
        assert await one.end(commit=commit) == 0
        assert await read_committed(broker) == []
        return one

    async def after(broker: MemoryBroker, one: Writer) -> None:
        assert await read_committed(broker, 0) == ([b"a"] if commit else [])
        assert await read_committed(broker, 1) == ([b"b"] if commit else [])
        assert await latest(broker, committed=True) == 2
        assert await committed_offset(broker, GROUP) == (5 if commit else -1, 0)
        one.client = broker.client()
        assert await one.send(b"c") == 0
        assert await one.end(commit=True) == 0
        assert (await read_committed(broker))[-1:] == [b"c"]

    run(twice(before, after))


async def test_a_transaction_that_nobody_coordinates_is_aborted_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def before(broker: MemoryBroker) -> None:
        one = await writer(broker)
        assert await one.send(b"orphan") == 0

    async def after(broker: MemoryBroker, _: None) -> None:
        assert await latest(broker, committed=True) == 2
        assert await read_committed(broker) == []

    # As if the machine had lost the fact and kept the data.
    async def forget(broker: MemoryBroker) -> None:
        await before(broker)
        monkeypatch.setattr(TransactionCoordinator, "apply", lambda _self, _record: None)

    await twice(forget, after)


async def test_markers_that_a_full_disk_refuses_are_written_later() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, **SMALL) as broker:
        await broker.create("t", 3)
        one = await writer(broker)
        assert await one.send(b"a") == 0
        append = broker.engine.partitions.append

        def full(topic: str, *args: Any, **fields: Any) -> Any:
            if topic == "t":
                storage.capacity = 0
            try:
                return append(topic, *args, **fields)
            finally:
                storage.capacity = None

        broker.engine.partitions.append = full  # type: ignore[method-assign]
        assert await one.end(commit=True) == 0
        assert await read_committed(broker) == []
        assert await one.send(b"b") == ErrorCode.CONCURRENT_TRANSACTIONS
        broker.engine.partitions.append = append  # type: ignore[method-assign]
        await broker.engine.disk.online()
        await asyncio.sleep(1.1)
        assert await read_committed(broker) == [b"a"]
        assert await one.send(b"b") == 0


def test_a_topic_that_is_deleted_meanwhile_does_not_stop_the_end() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.create("u")
        one = await writer(broker)
        assert await one.send(b"a", topic="u") == 0
        assert await one.send(b"a") == 0
        await broker.engine.topic_admin.delete_topics([("u", None)])
        assert await one.end(commit=True) == 0
        assert await read_committed(broker) == [b"a"]
        assert await one.send(b"b") == 0

    with_broker(story)


# --- looking ----------------------------------------------------------------------------------------


def test_transactions_are_described_and_listed() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker, "one")
        await writer(broker, "two")
        assert await one.send(b"a", 2) == 0
        assert await one.send(b"a", 0) == 0
        client = broker.client()

        request = DescribeTransactionsRequest(transactional_ids=["one", "nobody", ""])
        answer = await client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
        known, unknown, empty = answer.transaction_states
        assert (known.transaction_state, known.producer_id) == ("Ongoing", one.producer_id)
        assert known.transaction_timeout_ms == 60_000
        assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", [0, 2])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST

        async def listed(**fields: Any) -> list[str]:
            request = ListTransactionsRequest(**fields)
            found = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, request)
            assert found.error_code == 0
            return sorted(one.transactional_id for one in found.transaction_states)

        assert await listed() == ["one", "two"]
        assert await listed(state_filters=["Ongoing"]) == ["one"]
        assert await listed(state_filters=["Empty", "Nonsense"]) == ["two"]
        assert await listed(state_filters=["Nonsense"]) == []
        assert await listed(producer_id_filters=[one.producer_id]) == ["one"]
        assert await listed(transactional_id_pattern="t.*") == ["two"]
        assert await listed(duration_filter=60_000) == ["two"]  # never open: for ever, says Kafka
        await asyncio.sleep(2)
        assert await listed(duration_filter=1_000) == ["one", "two"]
        for pattern in ("(", "x" * 10_001):
            bad = ListTransactionsRequest(transactional_id_pattern=pattern)
            answer = await client.ask(ApiKey.LIST_TRANSACTIONS, 2, bad)
            assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    with_broker(story)


def test_a_pattern_that_would_never_end_is_answered_at_once() -> None:
    async def story(broker: MemoryBroker) -> None:
        await writer(broker, "a" * 60)
        # With a matcher that goes back and tries again this takes longer than anyone lives.
        request = ListTransactionsRequest(transactional_id_pattern="(a+)+b")
        answer = await broker.client().ask(ApiKey.LIST_TRANSACTIONS, 2, request)
        assert (answer.error_code, answer.transaction_states) == (0, [])

    with_broker(story)


def test_an_administrator_ends_a_transaction_in_one_partition() -> None:
    async def story(broker: MemoryBroker) -> None:
        one = await writer(broker)
        assert await one.send(b"a") == 0
        client = broker.client()
        asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
        answer = await client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, asked)
        (producer,) = answer.topics[0].partitions[0].active_producers
        assert producer.current_txn_start_offset == 0

        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        # What would shut out its producer or its coordinator is none of an administrator's.
        for name, value, code in (
            ("transaction_result", True, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ("producer_epoch", 32_000, ErrorCode.INVALID_PRODUCER_EPOCH),
            ("coordinator_epoch", 2**31 - 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ):
            kept = getattr(marker, name)
            setattr(marker, name, value)
            answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, 1, request)
            assert answer.markers[0].topics[0].partitions[0].error_code == code
            setattr(marker, name, kept)
        # Nor an epoch that the leader of another partition of the coordinators' log has reached.
        await broker.engine.metadata.quorum.propose(
            [
                PartitionChangeRecord(
                    topic_id=broker.engine.metadata.image.topics[TRANSACTIONS_TOPIC].topic_id,
                    partition_id=0,
                    leader=1,
                )
                for _ in range(3)
            ]
        )
        coordinators = broker.engine.metadata.image.topics[TRANSACTIONS_TOPIC].partitions
        marker.coordinator_epoch = max(one.leader_epoch for one in coordinators)
        assert marker.coordinator_epoch > 0
        answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, 1, request)
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        marker.coordinator_epoch = 0
        assert await latest(broker, committed=True) == 0

        answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, 1, request)
        codes = [one.error_code for one in answer.markers[0].topics[0].partitions]
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await latest(broker, committed=True) == 2

        marker.coordinator_epoch = -1
        answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, 1, request)
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    with_broker(story)


def test_clients_are_told_that_partitions_need_not_be_announced() -> None:
    async def story(broker: MemoryBroker) -> None:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        # Older clients take a feature that begins at 0 for an error and are not told its range.
        for version, lowest in ((3, None), (4, 0)):
            answer = await broker.client().ask(ApiKey.API_VERSIONS, version, request)
            features = {one.name: one.max_version_level for one in answer.finalized_features}
            assert features["transaction.version"] == 2
            supported = {one.name: one.min_version for one in answer.supported_features}
            assert supported.get("transaction.version") == lowest

    with_broker(story)


def test_the_topics_of_coordinators_take_no_writes_of_clients() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.engine.groups.prepare()
        one = await writer(broker, second=True)
        for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
            assert await one.send(b"a", topic=topic) == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(story)
