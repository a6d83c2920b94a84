"""Elections: who was acknowledged to leads; who may lack something does not, unless that is allowed."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotLeader,
)
from millpond.metadata.elections import (
    decide_in_sync,
    decide_preferred,
    decide_started,
    decide_stopped,
    elect,
    without,
)
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.records import NO_LEADER, PartitionRecord, TopicRecord

ORDERS = UUID(int=1234)


def partition(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, epoch: int = 5
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas, isr=isr, leader=leader, leader_epoch=epoch, partition_epoch=7
    )


def image(*partitions: PartitionImage) -> Image:
    return apply(
        Image(),
        [
            TopicRecord(name="orders", topic_id=ORDERS),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=ORDERS,
                    replicas=one.replicas,
                    isr=one.isr,
                    leader=one.leader,
                    leader_epoch=one.leader_epoch,
                    partition_epoch=one.partition_epoch,
                )
                for index, one in enumerate(partitions)
            ),
        ],
    )


def up(*nodes: int) -> "frozenset[int]":
    return frozenset(nodes)


def never(_topic: str) -> bool:
    return False


def test_the_first_in_sync_replica_follows_a_leader_that_fails() -> None:
    before = image(partition((1, 2, 3), (1, 2, 3), 1))
    (record,) = decide_stopped(before, 1, up(2, 3).__contains__, never)
    after = apply(before, [record]).topics["orders"].partitions[0]
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 6)


def test_who_is_not_in_sync_does_not_lead() -> None:
    outcome = without(partition((1, 2, 3), (1, 3), 1), 1, up(2, 3).__contains__)
    assert outcome.leader == 3


def test_the_last_in_sync_replica_is_waited_for() -> None:
    before = image(partition((1, 2), (1,), 1))
    (record,) = decide_stopped(before, 1, up(2).__contains__, never)
    waiting = apply(before, [record])
    one = waiting.topics["orders"].partitions[0]
    assert (one.leader, one.isr) == (NO_LEADER, (1,))
    assert decide_started(waiting, 2, up(2).__contains__, never) == []
    (record,) = decide_started(waiting, 1, up(1, 2).__contains__, never)
    assert apply(waiting, [record]).topics["orders"].partitions[0].leader == 1


def test_an_old_copy_leads_where_that_is_allowed() -> None:
    outcome = without(partition((1, 2), (1,), 1), 1, up(2).__contains__, unclean=True)
    assert (outcome.leader, outcome.isr, outcome.is_unclean) == (2, (2,), True)


def test_a_follower_that_stops_is_struck_off_in_a_new_epoch() -> None:
    before = image(partition((1, 2), (1, 2), 1))
    (record,) = decide_stopped(before, 2, up(1).__contains__, never)
    after = apply(before, [record]).topics["orders"].partitions[0]
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), 6)


def test_partitions_go_back_to_their_first_replica() -> None:
    before = image(
        partition((1, 2), (1, 2), 2), partition((1, 2), (2,), 2), partition((2, 1), (1, 2), 2)
    )
    changed = {
        record.partition_id: record.leader
        for record in decide_preferred(before, {1, 2}.__contains__)
    }
    assert changed == {0: 1}


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"sender": 2}, NotLeader),
        ({"leader_epoch": 4}, FencedLeaderEpoch),
        ({"leader_epoch": 6}, InvalidRequest),
        ({"partition_epoch": 6}, InvalidUpdateVersion),
        ({"isr": (2,)}, InvalidRequest),
        ({"isr": (1, 9)}, InvalidRequest),
        ({"isr": (1, 1)}, InvalidRequest),
        ({"isr": (1, 3)}, IneligibleReplica),
    ],
)
def test_only_the_leader_of_now_changes_who_is_in_sync(
    what: dict[str, object], error: type[Exception]
) -> None:
    topic = image(partition((1, 2, 3), (1, 2), 1)).topics["orders"]
    asked = {"sender": 1, "leader_epoch": 5, "partition_epoch": 7, "isr": (1, 2)}
    arguments = asked | what
    with pytest.raises(error):
        decide_in_sync(topic, 0, is_up={1, 2}.__contains__, **arguments)  # type: ignore[arg-type]


def test_a_leader_adds_and_removes_replicas_without_a_new_epoch() -> None:
    before = image(partition((1, 2, 3), (1, 2), 1))
    record = decide_in_sync(
        before.topics["orders"],
        0,
        sender=1,
        leader_epoch=5,
        partition_epoch=7,
        isr=(1, 3),
        is_up={1, 2, 3}.__contains__,
    )
    assert record is not None
    after = apply(before, [record]).topics["orders"].partitions[0]
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 3), 5, 8)


@given(
    isr=st.sets(st.sampled_from([1, 2, 3, 4]), min_size=1),
    alive=st.sets(st.sampled_from([1, 2, 3, 4])),
    leader=st.sampled_from([NO_LEADER, 1, 2, 3, 4]),
    unclean=st.booleans(),
)
def test_a_clean_leader_is_up_and_was_in_sync(
    isr: set[int], alive: set[int], leader: int, unclean: bool
) -> None:
    one = partition((1, 2, 3, 4), tuple(sorted(isr)), leader)
    outcome = elect(one, alive.__contains__, unclean=unclean)
    if outcome.leader == NO_LEADER:
        assert not (isr & alive)
        assert not (unclean and alive)
    else:
        assert outcome.leader in alive
        assert outcome.is_unclean == (outcome.leader not in isr)
        assert outcome.leader in outcome.isr
        assert unclean or outcome.leader in isr
