"""Lag in messages, bytes and seconds: what is counted, what is estimated, what nobody can say."""

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millpond import Broker
from millpond.cli.lag import GLANCE_BYTES, Bounds, Glance, Lag, look_at, measure
from millpond.cli.output import human_seconds
from millpond.record.builder import build_batch
from tests.support.storage.poison import POISON, poisoned
from tests.unit.cli.conftest import Run

NOW_MS = 1_000_000


def test_nothing_is_known_of_a_partition_that_nobody_leads() -> None:
    assert measure(None, 7, None, now_ms=NOW_MS) == Lag(end=None)


def test_a_partition_without_a_committed_offset_has_only_an_end() -> None:
    assert measure(Bounds(start=0, end=9), None, None, now_ms=NOW_MS) == Lag(end=9)


def test_a_group_that_has_read_everything_is_not_behind() -> None:
    lag = measure(Bounds(start=0, end=9, size_bytes=900), 9, None, now_ms=NOW_MS)
    assert lag == Lag(end=9, messages=0, size_bytes=0, seconds=0.0)


def test_a_group_beyond_the_end_is_neither_behind_nor_up_to_date() -> None:
    """The end was lost, or the log was made anew: a lag of 0 would say that all is well."""
    lag = measure(Bounds(start=0, end=9, size_bytes=900), 12, None, now_ms=NOW_MS)
    assert lag == Lag(end=9, is_beyond=True)


def test_what_one_look_saw_to_the_end_is_counted() -> None:
    bounds = Bounds(start=0, end=9, size_bytes=900)
    glance = Glance(timestamp_ms=NOW_MS - 2_500, size_bytes=123, next_offset=9)
    lag = measure(bounds, 5, glance, now_ms=NOW_MS)
    assert lag == Lag(end=9, messages=4, size_bytes=123, seconds=2.5)


def test_what_is_more_is_estimated_by_its_share_of_the_size() -> None:
    bounds = Bounds(start=100, end=300, size_bytes=4_000)
    glance = Glance(timestamp_ms=NOW_MS - 10_000, size_bytes=64, next_offset=160)
    lag = measure(bounds, 150, glance, now_ms=NOW_MS)
    assert lag == Lag(end=300, messages=150, size_bytes=3_000, is_counted=False, seconds=10.0)


def test_records_that_retention_took_are_behind_but_weigh_nothing() -> None:
    lag = measure(Bounds(start=100, end=300, size_bytes=4_000), 20, None, now_ms=NOW_MS)
    assert (lag.messages, lag.size_bytes, lag.is_counted, lag.seconds) == (280, 4_000, False, None)


def test_a_clock_that_is_ahead_makes_nobody_early() -> None:
    glance = Glance(timestamp_ms=NOW_MS + 5_000, size_bytes=1, next_offset=9)
    assert measure(Bounds(start=0, end=9), 5, glance, now_ms=NOW_MS).seconds == 0


def test_a_batch_that_was_read_in_part_counts_in_part() -> None:
    batch = build_batch([(1_000 + number, None, b"x" * 100, ()) for number in range(10)])
    glance = look_at(bytes(batch), 6)
    assert glance == Glance(timestamp_ms=1_006, size_bytes=len(batch) * 4 // 10, next_offset=10)


def test_a_cut_batch_shows_nothing() -> None:
    batch = build_batch([(1_000, None, b"x" * 100, ())])
    assert look_at(bytes(batch)[:80], 0) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.21, "3.2 s"), (200, "3 min 20 s"), (4_000.4, "1 h 6 min"), (200_000, "2 days 7 h")],
)
def test_times_are_shown_as_people_say_them(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


def test_the_estimate_is_near_the_truth(broker: Broker, run: Run) -> None:
    run("topic", "create", "heavy", "--partitions", "1")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 10_000})
    count, size = 2_000, 200
    for _ in range(count):
        producer.produce("heavy", b"x" * size, timestamp=1_000_000_000_000)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "slow"})
    consumer.commit(offsets=[TopicPartition("heavy", 0, count // 2)], asynchronous=False)
    consumer.close()
    (document,) = json.loads(run("group", "describe", "slow", "--json").stdout)
    assert document["lag"] == count // 2
    assert not document["lag_bytes_counted"]
    assert count * size // 2 > GLANCE_BYTES
    assert 0.9 < document["lag_bytes"] / (count // 2 * (size + 10)) < 1.1
    assert document["lag_seconds"] > 500_000_000


def test_a_batch_that_cannot_be_read_has_the_time_that_its_header_says() -> None:
    glance = look_at(poisoned(POISON["garbage"](), timestamp=1_000), 0)
    assert glance is not None
    assert (glance.timestamp_ms, glance.next_offset) == (1_000, 3)
