"""The fetch session of a follower: the leader is sent what has changed, and everything after a failure."""

from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.log.config import LogConfig
from millpond.log.partition_log import PartitionLog
from millpond.record.builder import build_batch
from millpond.replication.fetch_session import (
    NO_SESSION,
    SESSION_BEGINS,
    FollowerFetchSession,
    SessionFetch,
)
from millpond.replication.partition import Partition
from tests.support.storage.faulty_storage import FaultyStorage

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=1)


def partition(index: int) -> Partition:
    # An interval of one message: what is appended is durable only after a flush.
    config = LogConfig(flush_messages=1)
    where = TopicPartition("t", index)
    log = PartitionLog.open(
        FaultyStorage(), f"t-{index}", where, config, now_ms=NOW_MS, clean=True, topic_id=TOPIC_ID
    )
    return Partition(topic="t", index=index, topic_id=TOPIC_ID, log=log, leader_epoch=0, isr=(1,))


def write(one: Partition) -> None:
    one.append(build_batch([(NOW_MS, None, b"v", ())]), now_ms=NOW_MS)


def flush(one: Partition) -> None:
    one.log.flush()
    one.on_flushed()


def fetch(session: FollowerFetchSession, *followed: Partition, bytes_max: int = 1) -> SessionFetch:
    return session.next_fetch(followed, bytes_max=bytes_max)


def indexes(fetched: SessionFetch) -> list[int]:
    return [position.partition for position in fetched.positions]


def test_the_first_fetch_has_all_positions_and_the_next_only_those_that_changed() -> None:
    session, one, two = FollowerFetchSession(), partition(0), partition(1)
    first = fetch(session, one, two)
    assert (indexes(first), first.session_id, first.session_epoch) == ([0, 1], NO_SESSION, 0)
    session.on_answer(7)
    assert indexes(fetch(session, one, two)) == []
    write(two)
    flush(two)
    session.on_change(two)
    session.on_change(one)  # it has not moved
    changed = fetch(session, one, two)
    assert (indexes(changed), changed.session_id) == ([1], 7)
    assert changed.positions[0].fetch_offset == 1


def test_each_answer_of_a_session_raises_its_epoch() -> None:
    session, one = FollowerFetchSession(), partition(0)
    epochs = []
    for _ in range(3):
        epochs.append(fetch(session, one).session_epoch)
        session.on_answer(7)
    assert epochs == [SESSION_BEGINS, 1, 2]


def test_a_position_is_not_sent_before_its_records_are_durable() -> None:
    session, one = FollowerFetchSession(), partition(0)
    fetch(session, one)
    session.on_answer(7)
    write(one)
    session.on_change(one)
    assert session.unflushed({one}) == [one]
    assert indexes(fetch(session, one)) == []
    flush(one)
    assert session.unflushed({one}) == []
    assert indexes(fetch(session, one)) == [0]


def test_a_partition_that_is_left_is_named_once() -> None:
    session, one, two = FollowerFetchSession(), partition(0), partition(1)
    fetch(session, one, two)
    session.on_answer(7)
    session.leave(two)
    assert fetch(session, one).forgotten == ((TOPIC_ID, 1),)
    assert fetch(session, one).forgotten == ()


def test_after_a_failure_a_refusal_or_another_limit_everything_is_sent_again() -> None:
    session, one, two = FollowerFetchSession(), partition(0), partition(1)
    fetch(session, one, two)
    session.on_answer(7)
    session.begin_anew()
    again = fetch(session, one, two)
    assert (indexes(again), again.session_id) == ([0, 1], NO_SESSION)
    session.on_answer(NO_SESSION)
    assert indexes(fetch(session, one, two)) == [0, 1]
    session.on_answer(8)
    assert indexes(fetch(session, one, two, bytes_max=2)) == [0, 1]
