"""The sink's protocol against a real broker: what a reader of committed data sees after each step."""

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

import millpond
from millpond.base.murmur2 import partition_for_key
from millpond.spark.errors import UnknownTopic, WrongOption
from millpond.spark.sink_errors import RecordTooLarge, ReplayDiffers, TransactionLost, WrongRow
from millpond.spark.sink_task import TaskName, Written
from tests.support.kafka.committed import read_committed, read_uncommitted, values
from tests.unit.spark.conftest import MakeSink

_numbers = itertools.count()


@pytest.fixture
def topic(broker: millpond.Broker) -> str:
    name = f"out-{next(_numbers)}"
    broker.create_topic(name, partitions=3)
    return name


@pytest.fixture
def query() -> str:
    return f"query-{uuid.uuid4()}"


def rows(*texts: str, **more: Any) -> Any:
    columns = {"key": [f"key of {text}" for text in texts], "value": list(texts), **more}
    return pa.RecordBatch.from_pydict(columns)


def task(query: str, number: int = 0, batch: int | None = 0) -> TaskName:
    return TaskName(query=query, task=number, batch=batch)


def committed(broker: millpond.Broker, topic: str) -> list[bytes]:
    return sorted(values(read_committed(broker.bootstrap, topic)))


# --- the plain course ---


def test_rows_are_seen_when_the_driver_commits_and_not_before(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    written = [one.write(task(query, n), [rows(f"a{n}", f"b{n}")]) for n in range(2)]
    assert committed(broker, topic) == []
    one.commit(written, 0)
    assert committed(broker, topic) == [b"a0", b"a1", b"b0", b"b1"]


def test_batch_follows_batch(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    for batch in range(3):
        written = [one.write(task(query, n, batch), [rows(f"{batch}-{n}")]) for n in range(2)]
        one.commit(written, batch)
    assert committed(broker, topic) == [b"0-0", b"0-1", b"1-0", b"1-1", b"2-0", b"2-1"]


def test_keys_go_where_javas_producer_puts_them(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    texts = [f"row {number}" for number in range(50)]
    one.commit([one.write(task(query), [rows(*texts)])], 0)
    messages = read_committed(broker.bootstrap, topic)
    assert len(messages) == len(texts)
    for message in messages:
        assert message.partition() == partition_for_key(message.key(), 3)


def test_rows_without_a_key_stay_together_and_move_on(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    parts = [
        pa.RecordBatch.from_pydict({"value": [f"{n}-{i}" for i in range(20)]}) for n in range(2)
    ]
    one.commit([one.write(task(query), parts)], 0)
    where = {
        message.value()[:1]: message.partition()
        for message in read_committed(broker.bootstrap, topic)
    }
    assert len(read_committed(broker.bootstrap, topic)) == 40
    assert where[b"0"] != where[b"1"]


def test_columns_choose_topic_partition_time_and_headers(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    other = f"{topic}-other"
    broker.create_topic(other, partitions=2)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["k", None, None]),
            pa.array([b"one", b"two", None], pa.binary()),
            pa.array([topic, other, topic]),
            pa.array([2, None, 0], pa.int32()),
            pa.array([1_000_000, None, 3_000_000], pa.timestamp("us", tz="UTC")),
            pa.array([[{"key": "a", "value": b"1"}], None, []], header),
        ],
        names=["key", "value", "topic", "partition", "timestamp", "headers"],
    )
    one = sink(topic="")
    one.commit([one.write(task(query), [batch])], 0)
    first, last = sorted(read_committed(broker.bootstrap, topic), key=lambda m: m.timestamp()[1])
    assert (first.key(), first.value(), first.partition()) == (b"k", b"one", 2)
    assert first.timestamp()[1] == 1000
    assert first.headers() == [("a", b"1")]
    assert (last.key(), last.value(), last.partition()) == (None, None, 0)
    (only,) = read_committed(broker.bootstrap, other)
    assert only.value() == b"two"
    assert only.timestamp()[1] > 1_600_000_000_000


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_may_be_compressed(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str, codec: str
) -> None:
    one = sink(topic=topic, kafka__compression__type=codec)
    texts = [f"row {number}" for number in range(100)]
    one.commit([one.write(task(query), [rows(*texts)])], 0)
    assert committed(broker, topic) == sorted(text.encode() for text in texts)


# --- replay ---


def test_a_batch_that_was_committed_is_not_written_again(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    one.commit([one.write(task(query), [rows("a")])], 0)
    again = sink(topic=topic)
    written = again.write(task(query), [rows("a")])
    assert written.skipped
    again.commit([written], 0)
    assert len(read_uncommitted(broker.bootstrap, topic)) == 1


def test_a_driver_that_dies_between_two_commits_is_made_good_by_the_replay(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    def write(attempt: Any) -> list[Written]:
        return [attempt.write(task(query, n), [rows(f"row {n}")]) for n in range(3)]

    dead = sink(topic=topic)
    before = write(dead)
    commit_only(dead, before, 1)
    assert len(committed(broker, topic)) == 1
    alive = sink(topic=topic)
    after = write(alive)
    assert [one.skipped for one in after] == [True, False, False]
    alive.commit(after, 0)
    assert committed(broker, topic) == [b"row 0", b"row 1", b"row 2"]


def test_a_later_attempt_fences_the_earlier_one(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    zombie, heir = sink(topic=topic), sink(topic=topic)
    late = zombie.write(task(query), [rows("a")])
    written = heir.write(task(query), [rows("a")])
    with pytest.raises(TransactionLost, match="writes the batch again"):
        zombie.commit([late], 0)
    zombie.abort([late])
    heir.commit([written], 0)
    assert committed(broker, topic) == [b"a"]


def test_a_zombie_that_comes_last_costs_a_replay_and_no_record(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    first, zombie = sink(topic=topic), sink(topic=topic)
    written = first.write(task(query), [rows("a")])
    zombie.write(task(query), [rows("a")])  # an attempt that Spark has given up
    with pytest.raises(TransactionLost):
        first.commit([written], 0)
    first.abort([written])
    assert committed(broker, topic) == []
    replay = sink(topic=topic)
    replay.commit([replay.write(task(query), [rows("a")])], 0)
    assert committed(broker, topic) == [b"a"]


def test_one_lost_transaction_holds_back_the_whole_batch(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    written = [one.write(task(query, n), [rows(f"row {n}")]) for n in range(3)]
    sink(topic=topic).write(task(query, 2), [rows("row 2")])
    with pytest.raises(TransactionLost):
        one.commit(written, 0)
    one.abort(written)
    assert committed(broker, topic) == []


def test_a_batch_that_is_given_up_leaves_nothing_behind(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    one.abort([one.write(task(query), [rows("a")]), None])
    one.commit([one.write(task(query), [rows("b")])], 0)
    assert committed(broker, topic) == [b"b"]


def test_a_task_that_failed_without_a_word_holds_no_reader_back(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    killed, driver = sink(topic=topic), sink(topic=topic)
    killed.write(task(query, 1), [rows("a", "b", "c", "d", "e", "f")])  # its answer never arrives
    other = driver.write(task(query, 0), [rows("x")])
    driver.abort([other, None])
    once = sink(topic=topic)
    once.commit([once.write(task(f"{query}-more", 0, None), [rows("y", "z")])], None)
    assert committed(broker, topic) == [b"y", b"z"]


def test_abort_after_commit_changes_nothing(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    written = [one.write(task(query), [rows("a")])]
    one.commit(written, 0)
    one.abort(written)
    assert committed(broker, topic) == [b"a"]


def test_a_transaction_that_timed_out_is_written_again(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    slow = sink(topic=topic, kafka__transaction__timeout__ms="500")
    with pytest.raises(TransactionLost, match=r"kafka\.transaction\.timeout\.ms"):
        commit_when_timed_out(broker, topic, slow, [slow.write(task(query), [rows("a")])])
    one = sink(topic=topic)
    one.commit([one.write(task(query), [rows("a")])], 0)
    assert committed(broker, topic) == [b"a"]


def commit_only(sink: Any, written: list[Written], count: int) -> None:
    """The driver's commit, which dies after ``count`` transactions."""
    ended = itertools.count()
    end = sink._transactions.end

    class Died(Exception):
        pass

    async def end_some(transaction: Any, *, commit: bool) -> None:
        if next(ended) >= count:
            raise Died
        await end(transaction, commit=commit)

    sink._transactions.end = end_some
    with pytest.raises((Died, ExceptionGroup)):
        sink.commit(written, 0)


def commit_when_timed_out(
    broker: millpond.Broker, topic: str, sink: Any, written: list[Written]
) -> None:
    while True:
        if is_ended(broker, topic):
            sink.commit(written, 0)
            return


def is_ended(broker: millpond.Broker, topic: str) -> bool:
    """Whether an end marker stands behind the only record."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    try:
        ends = [
            reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            for number in range(3)
        ]
    finally:
        reader.close()
    return bool(sum(ends) == 2)


# --- replays that differ ---


def test_another_number_of_tasks_is_refused_while_a_batch_is_half_committed(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    dead = sink(topic=topic)
    before = [dead.write(task(query, n), [rows(f"row {n}")]) for n in range(3)]
    commit_only(dead, before[1:] + before[:1], 1)  # task 1 is committed, of three
    replay = sink(topic=topic)
    after = [replay.write(task(query, 0), [rows("row 0", "row 1", "row 2")])]
    with pytest.raises(ReplayDiffers, match="some of 3 tasks, and is replayed with 1"):
        replay.commit(after, 0)
    replay.abort(after)
    assert committed(broker, topic) == [b"row 1"]


def test_a_task_with_other_rows_is_refused(sink: MakeSink, topic: str, query: str) -> None:
    one = sink(topic=topic)
    one.commit([one.write(task(query), [rows("a", "b")])], 0)
    with pytest.raises(ReplayDiffers, match="2 rows of this task and is replayed with 1"):
        sink(topic=topic).write(task(query), [rows("a")])


def test_applications_whose_names_begin_alike_do_not_take_each_others_markers(
    sink: MakeSink, broker: millpond.Broker, topic: str, query: str
) -> None:
    long_named = f"{query}-1"
    write = sink(topic=topic)
    write.commit([write.write(task(long_named), [rows("theirs")])], 0)

    written = [write.write(task(query, number), [rows(f"ours {number}")]) for number in range(2)]
    write.commit(written, 0)

    assert sorted(committed(broker, topic)) == [b"ours 0", b"ours 1", b"theirs"]


def test_a_checkpoint_that_is_too_old_is_refused(sink: MakeSink, topic: str, query: str) -> None:
    one = sink(topic=topic)
    one.commit([one.write(task(query, 0, 7), [rows("a")])], 7)
    with pytest.raises(ReplayDiffers, match="batch 7 is committed, but Spark writes batch 3"):
        sink(topic=topic).write(task(query, 0, 3), [rows("a")])


def test_the_number_of_tasks_may_change_from_batch_to_batch(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic)
    for batch, tasks in enumerate([3, 1, 2]):
        one.commit(
            [one.write(task(query, n, batch), [rows(f"{batch}-{n}")]) for n in range(tasks)], batch
        )
    assert len(committed(broker, topic)) == 6


def test_an_empty_task_asks_nothing_of_the_broker(sink: MakeSink, query: str) -> None:
    one = sink(topic="no-such-topic", kafka__bootstrap__servers="127.0.0.1:1")
    written = one.write(task(query), iter([rows()]))
    assert written.transaction is None
    one.commit([written], 0)


# --- once only, and at least once ---


def test_a_write_that_happens_once_has_no_marker(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    for _ in range(2):
        one = sink(topic=topic)
        name = task(f"{query}-{uuid.uuid4()}", 0, None)
        one.commit([one.write(name, [rows("a")])], None)
    assert committed(broker, topic) == [b"a", b"a"]


def test_at_least_once_is_seen_at_once_and_needs_no_commit(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    one = sink(topic=topic, delivery="at-least-once")
    written = one.write(task(query), [rows("a")])
    assert written.transaction is None
    assert committed(broker, topic) == [b"a"]
    one.commit([written], 0)
    one.abort([written])
    assert committed(broker, topic) == [b"a"]


# --- what cannot be written ---


def test_an_unknown_topic_is_named_with_its_option(sink: MakeSink, query: str) -> None:
    with pytest.raises(UnknownTopic, match='topic nowhere, named by the option "topic"'):
        sink(topic="nowhere").write(task(query), [rows("a")])


def test_a_row_without_a_topic_is_named(sink: MakeSink, topic: str, query: str) -> None:
    for topics in ([None, topic], [topic, None]):
        with pytest.raises(WrongRow, match='column "topic" is null'):
            sink(topic="").write(task(query), [rows("a", "b", topic=pa.array(topics, pa.string()))])


@pytest.mark.parametrize(
    ("number", "words"), [(3, "has the partitions 0 to 2"), (-2, "begin at 0")]
)
def test_a_partition_that_does_not_exist_is_named(
    sink: MakeSink, topic: str, query: str, number: int, words: str
) -> None:
    with pytest.raises(WrongRow, match=words):
        sink(topic=topic).write(
            task(query), [rows("a", "b", partition=pa.array([None, number], pa.int32()))]
        )


def test_a_record_that_is_too_large_is_named_and_the_transaction_is_gone(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    small = f"{topic}-small"
    broker.create_topic(small, config={"max.message.bytes": "2000"})
    with pytest.raises(
        RecordTooLarge, match=f"topic {small} takes: raise the topic's max.message.bytes"
    ):
        sink(topic=small).write(task(query), [rows("a", "b" * 3000)])
    one = sink(topic=small)
    one.commit([one.write(task(query, 1), [rows("c")])], 0)
    assert committed(broker, small) == [b"c"]


def test_batches_that_are_too_large_are_cut_smaller(
    broker: millpond.Broker, sink: MakeSink, topic: str, query: str
) -> None:
    small = f"{topic}-small"
    broker.create_topic(small, config={"max.message.bytes": "2000"})
    texts = [f"{number:04}" * 100 for number in range(50)]
    one = sink(topic=small)
    parts: Iterator[Any] = iter([rows(*texts[:30]), rows(*texts[30:])])
    one.commit([one.write(task(query), parts)], 0)
    assert values(read_committed(broker.bootstrap, small)) == [text.encode() for text in texts]


def test_a_timeout_that_the_broker_does_not_allow_is_named(
    sink: MakeSink, topic: str, query: str
) -> None:
    with pytest.raises(WrongOption, match=r"kafka\.transaction\.timeout\.ms=99000000"):
        sink(topic=topic, kafka__transaction__timeout__ms="99000000").write(
            task(query), [rows("a")]
        )
