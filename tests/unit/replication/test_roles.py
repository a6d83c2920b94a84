"""A partition on three nodes: who leads, who follows, what is committed, what is cut."""

import pytest

from millpond.base.errors import (
    FencedLeaderEpoch,
    InvalidRecord,
    MillpondError,
    NotEnoughReplicas,
    NotLeader,
    UnknownLeaderEpoch,
)
from millpond.log.config import LogConfig
from millpond.replication.following import FollowStep, take
from millpond.replication.partition import Change
from millpond.replication.serving import admit
from tests.support.cluster.replica_set import LAG_MS, NOW_MS, ReplicaSet


def asks(replicas: ReplicaSet, node: int, epoch: int) -> None:
    admit(
        replicas[1],
        node=node,
        broker_epoch=-1,
        leader_epoch=epoch,
        fetch_offset=0,
        last_epoch=-1,
        log_start=0,
        now_ms=replicas.now_ms,
    )


def test_committed_is_what_every_in_sync_replica_has() -> None:
    three = ReplicaSet()
    told: list[MillpondError | None] = []
    three.write(1, b"a")
    three[1].confirm_at(1, told.append)
    assert three[1].high_watermark == 0

    assert three.fetch(2) is FollowStep.APPENDED
    assert three.fetch(3) is FollowStep.APPENDED
    # The leader knows what they have when they ask for what comes next.
    assert (three[1].high_watermark, told) == (0, [])
    three.fetch(2)
    assert (three[1].high_watermark, told) == (0, [])
    three.fetch(3)
    assert (three[1].high_watermark, told) == (1, [None])


def test_a_followers_high_watermark_is_its_leaders_as_far_as_its_log_goes() -> None:
    three = ReplicaSet()
    three.write(1, b"a")
    for _ in range(2):
        three.fetch(2)
        three.fetch(3)
    assert [three[node].high_watermark for node in (1, 2, 3)] == [1, 0, 1]
    three.fetch(2)
    assert three[2].high_watermark == 1


def test_a_follower_that_stops_leaves_the_in_sync_replicas_and_comes_back_when_it_has_caught_up() -> (
    None
):
    three = ReplicaSet()
    three.fetch(2)
    three.fetch(3)
    three.write(1, b"a")
    three.now_ms += LAG_MS
    three.fetch(2)
    three.fetch(2)
    three.align(1)
    assert set(three.agreed.isr) == {1, 2, 3}  # not too late yet
    three.now_ms += 1
    three.align(1)
    assert set(three.agreed.isr) == {1, 2}
    assert three[1].high_watermark == 1

    three.fetch(3)
    three.align(1)
    assert set(three.agreed.isr) == {1, 2}  # it only asked; it has nothing yet
    three.fetch(3)
    three.align(1)
    assert set(three.agreed.isr) == {1, 2, 3}


def test_who_is_wanted_in_sync_counts_before_it_is_agreed_on() -> None:
    three = ReplicaSet()
    three.elect(1, isr=(1, 2))
    three.tell_all()
    three.fetch(3)
    three.fetch(2)
    wish = three[1].wanted_in_sync(three.now_ms)
    assert wish is not None
    assert wish.isr == (1, 2, 3)
    three.write(1, b"a")
    three.fetch(2)
    three.fetch(2)
    assert three[1].high_watermark == 0  # node 3 may be electable already
    assert three[1].wanted_in_sync(three.now_ms) is None  # one wish at a time

    three.now_ms += LAG_MS + 1
    three.fetch(2)
    three[1].on_in_sync_refused(wish)
    assert three[1].high_watermark == 1


def test_a_wish_that_came_too_late_stands_until_the_metadata_are_heard() -> None:
    three = ReplicaSet()
    three.elect(1, isr=(1, 2))
    three.tell_all()
    three.fetch(2)
    three.fetch(3)
    wish = three[1].wanted_in_sync(three.now_ms)
    assert wish is not None
    assert three.decide(1, wish) is True  # and the answer is lost
    three.write(1, b"a")
    three.fetch(2)
    three.fetch(2)
    assert three.decide(1, wish) is None
    assert three[1].high_watermark == 0
    three.hear(1)
    assert three[1].isr == (1, 2, 3)
    assert three[1].high_watermark == 0
    three.fetch(3)
    three.fetch(3)
    assert three[1].high_watermark == 1


def test_every_write_that_all_had_is_at_the_new_leader() -> None:
    three = ReplicaSet()
    for value in (b"a", b"b"):
        three.write(1, value)
    for _ in range(3):
        three.fetch(2)
        three.fetch(3)
    three.crash(1)
    three.elect(2, isr=(2, 3))
    three.tell_all()
    assert three[2].is_leader
    assert [value for _epoch, value in three.stored(2).values()] == [b"a", b"b"]
    three.write(2, b"c")
    three.fetch(3)
    three.fetch(3)
    assert three[2].high_watermark == 3


def test_a_deposed_leaders_tail_is_cut() -> None:
    three = ReplicaSet()
    three.write(1, b"a")
    for _ in range(3):
        three.fetch(2)
        three.fetch(3)
    three.write(1, b"nobody has this")
    three.write(1, b"nor this")
    three.elect(2, isr=(2, 3))
    three.hear(2)
    three.hear(3)
    three.write(2, b"b")
    three.fetch(3)

    waiting: list[MillpondError | None] = []
    three[1].confirm_at(3, waiting.append)
    three.hear(1)
    assert [type(error) for error in waiting] == [NotLeader]
    assert three.fetch(1) is FollowStep.CUT
    assert three.fetch(1) is FollowStep.APPENDED
    assert three.stored(1) == three.stored(2)
    assert three[1].high_watermark == 1


def test_a_follower_looks_back_epoch_by_epoch() -> None:
    three = ReplicaSet()
    three.write(1, b"a")
    for _ in range(3):
        three.fetch(2)
        three.fetch(3)
    three.write(1, b"one-sided 0")
    # Node 2 leads epoch 1 and writes what nobody takes; node 3 leads epoch 2.
    three.elect(2)
    three.hear(2)
    three.write(2, b"one-sided 1")
    three.elect(3, isr=(3,))
    three.tell_all()
    three.write(3, b"b")
    for node in (1, 2):
        steps = [three.fetch(node) for _ in range(3)]
        assert FollowStep.CUT in steps
        assert three.stored(node) == three.stored(3)


def test_a_new_leader_counts_nobody_before_it_has_asked_in_its_epoch() -> None:
    three = ReplicaSet()
    three.write(1, b"a")
    for _ in range(2):
        three.fetch(2)
        three.fetch(3)
    three.elect(2)
    three.tell_all()
    assert three[2].high_watermark == 0  # committed, but node 2 has not heard so
    three.fetch(1)
    assert three[2].high_watermark == 0
    three.fetch(3)
    assert three[2].high_watermark == 1


def test_a_leader_that_missed_an_epoch_of_another_does_not_count_what_it_knew_of_its_followers() -> (
    None
):
    three = ReplicaSet()
    told: list[MillpondError | None] = []
    three.write(1, b"a")
    three[1].confirm_at(1, told.append)
    three.fetch(3)
    three.fetch(3)  # node 1 knows that node 3 has it
    three.elect(2)
    for node in (2, 3):
        three.hear(node)
    assert FollowStep.CUT in [
        three.fetch(3) for _ in range(2)
    ]  # node 3 gives it up for the new leader's log

    three.elect(1, isr=(1, 3))
    three.hear(1)
    assert (three[1].high_watermark, told) == (0, [])
    three.hear(3)
    three.fetch(3)
    three.fetch(3)
    assert (three[1].high_watermark, told) == (1, [None])


def test_fetches_of_other_epochs_are_refused() -> None:
    three = ReplicaSet()
    three.elect(1)
    three.tell_all()
    with pytest.raises(FencedLeaderEpoch):
        asks(three, 2, 0)
    with pytest.raises(UnknownLeaderEpoch):
        asks(three, 2, 2)
    with pytest.raises(NotLeader, match="no replica"):
        asks(three, 9, 1)
    three.elect(2)
    three.hear(1)
    with pytest.raises(NotLeader, match="node 2 leads"):
        asks(three, 3, 2)


def test_a_follower_takes_no_batch_of_an_epoch_that_it_does_not_know() -> None:
    three = ReplicaSet()
    three.elect(3)
    three.hear(3)
    three.write(3, b"from epoch 1")
    data = three[3].log.read(0, 4096, upto=1).data
    with pytest.raises(InvalidRecord):
        take(three[2], data, high_watermark=1, log_start=0, now_ms=NOW_MS)
    assert three[2].log.end_offset == 0


def test_an_unclean_election_takes_committed_records_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    three = ReplicaSet()
    three.elect(1, isr=(1, 2))
    three.tell_all()
    three.write(1, b"acknowledged")
    three.fetch(2)
    three.fetch(2)
    three.fetch(2)
    assert three[2].high_watermark == 1
    three.elect(3, isr=(3,))
    three.tell_all()
    three.write(3, b"other")
    three.fetch(2)
    three.fetch(2)
    assert three.stored(2) == three.stored(3)
    assert "everything below 1 was committed" in caplog.text


def test_a_replica_that_is_far_behind_begins_where_the_leader_does() -> None:
    three = ReplicaSet(config=LogConfig(segment_bytes=200))
    three.elect(1, isr=(1, 2))
    three.tell_all()
    for number in range(5):
        three.write(1, b"%d" % number)
        three.fetch(2)
        three.fetch(2)
    three[1].log.delete_records(4)
    assert three.fetch(3) is FollowStep.CUT
    three.fetch(3)
    assert (three[3].log.start_offset, three[3].log.end_offset) == (4, 5)
    three.fetch(2)
    assert three[2].log.start_offset == 4  # who follows closely moves its start with the leader's


def test_with_flushes_a_replica_counts_what_it_has_flushed() -> None:
    two = ReplicaSet(2, LogConfig(flush_policy="group"))
    two.write(1, b"a")
    two.fetch(2)
    two.flush(2)
    two.fetch(2)
    assert two[1].high_watermark == 0  # the leader itself has not
    two.flush(1)
    assert two[1].high_watermark == 1


def test_a_leader_under_min_insync_replicas_takes_no_write_for_all_and_commits_nothing() -> None:
    three = ReplicaSet(config=LogConfig(min_insync_replicas=2))
    three.elect(1, isr=(1,))
    three.tell_all()
    with pytest.raises(NotEnoughReplicas, match="requirement of 2"):
        three[1].check_in_sync()
    three.write(1, b"acks=1")
    assert three[1].high_watermark == 0


def test_an_old_state_of_the_partition_changes_nothing() -> None:
    three = ReplicaSet()
    three.elect(1, isr=(1, 2))
    old = three.agreed
    three.elect(1, isr=(1, 2, 3))
    three.hear(1)
    assert three[1].assume(old, now_ms=three.now_ms) is Change.NOTHING
    assert three[1].isr == (1, 2, 3)
