"""Facts in a queue's log are read as they were written; a queue's name and its topic's lead to each other."""

import pytest

from millpond.base import limits
from millpond.base.errors import CorruptBatch, UnsupportedVersion
from millpond.cursor.runs import Run, State
from millpond.queue.gaps import PackedGaps
from millpond.queue.lane import LaneState
from millpond.queue.log_facts import (
    LaneSnapshot,
    LogFacts,
    build_facts,
    build_snapshot,
    read_facts,
    read_snapshot,
)
from millpond.rabbit.topic_names import queue_of_topic, topic_names
from millpond.record.batch import read_header
from millpond.record.control import EndTxnMarker
from millpond.record.records import decode_batch


def test_facts_come_back() -> None:
    runs = (
        Run(0, 5, State.SETTLED),
        Run(2**40, 2**40 + 1, State.AVAILABLE, deliveries=3),
        Run(7, 9, State.ARCHIVED),
    )
    batch = build_facts(LogFacts(runs, has_ttl=True), now_ms=5)
    assert read_header(batch).is_control
    assert read_facts(decode_batch(batch)) == LogFacts(runs, has_ttl=True)


@pytest.mark.parametrize("mark", [0, 1, 2**40])
def test_a_mark_comes_back(mark: int) -> None:
    runs = (Run(3, 5, State.SETTLED),)
    batch = build_facts(LogFacts(runs, mark=mark), now_ms=5)
    assert read_facts(decode_batch(batch)) == LogFacts(runs, mark=mark)

    lane = LaneState(3, 9, (Run(3, 5, State.AVAILABLE, 1),), PackedGaps(1, b"\x04\x01"))
    snapshot = LaneSnapshot(9, lane, has_ttl=True, kept_bytes=12, mark=mark)
    assert read_snapshot(decode_batch(build_snapshot(snapshot, now_ms=5))) == snapshot


def test_markers_of_transactions_say_nothing_of_a_queue() -> None:
    marker = EndTxnMarker(committed=True, coordinator_epoch=0)
    batch = marker.build(timestamp=0, producer_id=1, producer_epoch=0)
    assert read_facts(decode_batch(batch)) == LogFacts(())


def test_a_fact_that_ends_early_is_an_error() -> None:
    (record,) = decode_batch(build_facts(LogFacts((Run(0, 5, State.SETTLED),)), now_ms=5))
    assert record.value is not None
    with pytest.raises(CorruptBatch):
        read_facts([record._replace(value=record.value[:-1])])


def test_what_a_newer_program_wrote_is_not_guessed_at() -> None:
    (fact,) = decode_batch(build_facts(LogFacts((Run(0, 5, State.SETTLED),)), now_ms=5))
    taken = LaneSnapshot(taken=5, lane=LaneState(0, 5, ()))
    (snapshot,) = decode_batch(build_snapshot(taken, now_ms=5))
    assert fact.value is not None
    assert snapshot.value is not None
    with pytest.raises(UnsupportedVersion, match="a newer one wrote it"):
        read_facts([fact._replace(value=b"\1" + fact.value[1:])])
    with pytest.raises(UnsupportedVersion, match="a newer one wrote it"):
        read_snapshot([snapshot._replace(value=b"\1" + snapshot.value[1:])])
    assert read_snapshot([snapshot]) == taken


@pytest.mark.parametrize(
    ("vhost", "queue", "best"),
    [
        ("/", "orders", "orders"),
        ("/", "orders.new_ones-1", "orders.new_ones-1"),
        ("/", "a queue", "amqp--" + "-2f--a-20queue"),
        ("other", "orders", "amqp--other--orders"),
        ("/", "amqp--x", "amqp---2f--amqp-2d-2dx"),
        ("/", "__consumer_offsets", "amqp---2f---5f-5fconsumer-5foffsets"),
        ("/", "größe", "amqp---2f--gr-c3-b6-c3-9fe"),
    ],
)
def test_names(vhost: str, queue: str, best: str) -> None:
    names = list(topic_names(vhost, queue))
    assert names[0] == best
    assert {queue_of_topic(name) for name in names} == {(vhost, queue)}


def test_long_names_are_cut_and_stay_different() -> None:
    first, second = (next(topic_names("/", "ä" * 120 + end)) for end in "ab")
    assert first != second
    assert len(first) == len(second) == limits.TOPIC_NAME_CHARS_MAX
