"""What a consumer reads, and where it is in it."""

import re

import pytest

from millpond.base.ids import TopicPartition
from millpond.client import OffsetAndMetadata, WrongState
from millpond.client._subscription import Subscription, plain_offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def reading(*places: TopicPartition) -> Subscription:
    subscription = Subscription()
    subscription.assign_by_hand(places)
    return subscription


def test_the_group_or_the_hand_but_not_both() -> None:
    by_hand = reading(A)
    with pytest.raises(WrongState, match="unsubscribe"):
        by_hand.subscribe(["t"], None)
    by_group = Subscription()
    by_group.subscribe(["t"], None)
    with pytest.raises(WrongState, match="unsubscribe"):
        by_group.assign_by_hand([A])
    by_group.clear()
    by_group.assign_by_hand([A])
    assert by_group.is_manual


def test_partitions_wait_for_a_position() -> None:
    subscription = reading(A, B)
    assert subscription.without_position == {A, B}
    assert subscription.to_fetch() == {}
    subscription.seek(A, 5)
    assert subscription.to_fetch() == {A: 5}
    assert subscription.to_commit() == {A: OffsetAndMetadata(5)}


def test_what_stays_keeps_its_position_and_what_goes_is_forgotten() -> None:
    subscription = reading(A, B)
    subscription.advance(A, 7, leader_epoch=3)
    subscription.advance(B, 9)
    subscription.pause([B])
    subscription.assign([A])
    assert subscription.to_commit() == {A: OffsetAndMetadata(7, "", 3)}
    assert subscription.paused == set()
    subscription.advance(B, 100)  # an answer that came too late
    assert subscription.assigned == {A}


def test_a_paused_partition_is_committed_but_not_fetched() -> None:
    subscription = reading(A)
    subscription.seek(A, 1)
    subscription.pause([A])
    assert subscription.to_fetch() == {}
    assert subscription.to_commit() == {A: OffsetAndMetadata(1)}
    subscription.resume([A])
    assert subscription.to_fetch() == {A: 1}


def test_every_change_of_what_is_fetched_is_seen() -> None:
    subscription = reading(A)
    versions = [subscription.version]
    subscription.seek(A, 1)
    versions.append(subscription.version)
    subscription.pause([A])
    versions.append(subscription.version)
    subscription.resume([A])
    versions.append(subscription.version)
    assert len(set(versions)) == 4
    subscription.advance(A, 2)  # reading on is no change
    assert subscription.version == versions[-1]


def test_a_pattern_is_for_the_whole_name() -> None:
    subscription = Subscription()
    subscription.subscribe((), re.compile(r"a\..*"))
    assert subscription.match(["a.1", "ba.1", "a", "a.2"])
    assert subscription.topics == {"a.1", "a.2"}
    assert not subscription.match(["a.2", "a.1"])


def test_what_is_not_assigned_cannot_be_moved() -> None:
    with pytest.raises(WrongState, match="t-1 is not assigned"):
        reading(A).seek(B, 0)


def test_offsets_as_people_write_them() -> None:
    assert plain_offsets({A: 5, ("t", 1): OffsetAndMetadata(6, "note")}) == {  # type: ignore[dict-item]
        A: OffsetAndMetadata(5),
        B: OffsetAndMetadata(6, "note"),
    }
