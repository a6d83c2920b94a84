"""Elections: who was acknowledged to leads; who may lack something does not, unless that is allowed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    MillpondError,
    NewLeaderElected,
    NotController,
    PreferredLeaderNotAvailable,
    UnknownTopic,
)
from millpond.metadata.elections import (
    InSyncRequest,
    decide_elections,
    decide_in_sync,
    decide_preferred,
    decide_started,
    decide_stopped,
    decide_unclean,
)
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.nodes import decide_fence
from millpond.metadata.partition_change import (
    Election,
    PartitionTarget,
    active_in,
    partition_change,
)
from millpond.metadata.records import NO_LEADER
from tests.support.cluster.cluster_facts import ORDERS, always, never, node, orders, partition


def first(image: Image) -> PartitionImage:
    return image.topics["orders"].partitions[0]


# --- nodes come and go ------------------------------------------------------------------------------


def test_the_first_in_sync_replica_follows_a_leader_that_fails() -> None:
    before = orders(partition((1, 2, 3), (1, 3, 2), 1))
    after = first(apply(before, decide_stopped(before, 1, never)))
    assert (after.leader, after.isr) == (2, (3, 2))
    assert (after.leader_epoch, after.partition_epoch) == (6, 8)


def test_who_is_not_in_sync_does_not_lead() -> None:
    before = orders(partition((1, 2, 3), (1, 3), 1))
    assert first(apply(before, decide_stopped(before, 1, never))).leader == 3


def test_who_is_down_or_about_to_stop_does_not_lead() -> None:
    nodes = [node(1), node(2, fenced=True), node(3, stopping=True), node(4)]
    before = orders(partition((1, 2, 3, 4), (1, 2, 3, 4), 1), nodes=nodes)
    assert first(apply(before, decide_stopped(before, 1, never))).leader == 4


def test_the_last_in_sync_replica_is_waited_for() -> None:
    before = orders(partition((1, 2), (1,), 1), nodes=[node(1), node(2)])
    waiting = apply(before, decide_fence(before, before.brokers[1], never))
    assert (first(waiting).leader, first(waiting).isr) == (NO_LEADER, (1,))
    assert decide_started(waiting, 2, never) == []
    led = apply(waiting, decide_started(waiting, 1, never))
    assert (first(led).leader, first(led).isr, first(led).leader_epoch) == (1, (1,), 7)


def test_an_old_copy_leads_where_that_is_allowed() -> None:
    before = orders(partition((1, 2), (1,), 1), nodes=[node(1), node(2)])
    after = first(apply(before, decide_stopped(before, 1, always)))
    assert (after.leader, after.isr, after.recovering) == (2, (2,), True)


def test_an_old_copy_leads_once_that_is_allowed() -> None:
    before = orders(partition((1, 2), (1,), NO_LEADER), nodes=[node(1, fenced=True), node(2)])
    assert decide_unclean(before, never, at_most=9) == []
    after = first(apply(before, decide_unclean(before, always, at_most=9)))
    assert (after.leader, after.isr, after.recovering) == (2, (2,), True)


def test_a_follower_that_stops_is_struck_off_and_its_leader_goes_on_in_the_same_epoch() -> None:
    before = orders(partition((1, 2), (1, 2), 1))
    after = first(apply(before, decide_stopped(before, 2, never)))
    assert (after.leader, after.isr) == (1, (1,))
    assert (after.leader_epoch, after.partition_epoch) == (5, 8)


# --- elections that are asked for --------------------------------------------------------------------


def test_partitions_go_back_to_their_first_replica() -> None:
    before = orders(
        partition((1, 2), (1, 2), 2), partition((1, 2), (2,), 2), partition((2, 1), (1, 2), 2)
    )
    assert {one.partition_id: one.leader for one in decide_preferred(before, never, at_most=9)} == {
        0: 1
    }
    assert decide_preferred(before, never, at_most=0) == []


@pytest.mark.parametrize(
    ("election", "what", "error"),
    [
        (Election.PREFERRED, partition((1, 2), (1, 2), 2), None),
        (Election.PREFERRED, partition((1, 2), (1, 2), 1), ElectionNotNeeded),
        (Election.PREFERRED, partition((1, 2), (2,), 2), PreferredLeaderNotAvailable),
        (Election.UNCLEAN, partition((1, 2), (2,), 2), ElectionNotNeeded),
        (Election.UNCLEAN, partition((1, 3), (3,), NO_LEADER), None),
        (Election.UNCLEAN, partition((3,), (3,), NO_LEADER), EligibleLeadersNotAvailable),
    ],
)
def test_an_election_takes_place_where_it_is_needed_and_can_be(
    election: Election, what: PartitionImage, error: type[MillpondError] | None
) -> None:
    image = orders(what, nodes=[node(1), node(2), node(3, fenced=True)])
    records, (result,) = decide_elections(image, election, [("orders", 0)], never)
    assert (type(result.error) if result.error is not None else None) == error
    assert len(records) == (error is None)


def test_asked_for_all_only_what_happened_is_told() -> None:
    image = orders(partition((1, 2), (1, 2), 2), partition((1, 2), (1, 2), 1))
    _, results = decide_elections(image, Election.PREFERRED, None, never)
    assert [one.partition for one in results] == [0]


@pytest.mark.parametrize("target", [("nothing", 0), ("orders", 1), ("orders", -1)])
def test_nobody_is_elected_for_what_does_not_exist(target: tuple[str, int]) -> None:
    image = orders(partition((1,), (1,), 1))
    records, (result,) = decide_elections(image, Election.PREFERRED, [target], never)
    assert isinstance(result.error, UnknownTopic)
    assert records == []


# --- what leaders say ------------------------------------------------------------------------------

WISH = InSyncRequest(topic_id=ORDERS, partition=0, leader_epoch=5, partition_epoch=7, isr=(1, 2))


@pytest.mark.parametrize(
    ("sender", "wish", "error"),
    [
        (2, WISH, InvalidRequest),
        (1, replace(WISH, leader_epoch=4), FencedLeaderEpoch),
        (1, replace(WISH, leader_epoch=6), NotController),
        (1, replace(WISH, partition_epoch=6), InvalidUpdateVersion),
        (1, replace(WISH, partition_epoch=8), NotController),
        (1, replace(WISH, isr=(2,)), InvalidRequest),
        (1, replace(WISH, isr=()), InvalidRequest),
        (1, replace(WISH, isr=(1, 9)), InvalidRequest),
        (1, replace(WISH, isr=(1, 1)), InvalidRequest),
        (1, replace(WISH, isr=(1, 3)), IneligibleReplica),
        (1, replace(WISH, isr=(1, 4)), IneligibleReplica),
        (1, replace(WISH, isr=(1, 2), broker_epochs=(10, 19)), IneligibleReplica),
        (1, replace(WISH, partition=1), UnknownTopic),
    ],
)
def test_only_the_leader_of_now_changes_who_is_in_sync(
    sender: int, wish: InSyncRequest, error: type[MillpondError]
) -> None:
    nodes = [node(1), node(2), node(3, fenced=True), node(4, stopping=True)]
    image = orders(partition((1, 2, 3, 4), (1,), 1), nodes=nodes)
    records, (result,) = decide_in_sync(image, sender, [wish], never)
    assert type(result) is error
    assert records == []


def test_a_leader_adds_and_removes_replicas_without_a_new_epoch() -> None:
    before = orders(partition((1, 2, 3), (1, 2), 1))
    wish = replace(WISH, isr=(1, 3), broker_epochs=(10, 30))
    records, (result,) = decide_in_sync(before, 1, [wish], never)
    after = first(apply(before, records))
    assert result == after
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 3), 5, 8)


def test_what_is_so_already_is_no_change() -> None:
    before = orders(partition((1, 2), (2, 1), 1))
    records, (result,) = decide_in_sync(before, 1, [WISH], never)
    assert records == []
    assert result == first(before)


def test_the_replica_that_completes_a_move_may_end_the_leader_that_reports_it() -> None:
    before = orders(partition((2, 3, 1), (1, 2), 1, removing=(1,), adding=(2, 3)))
    records, (result,) = decide_in_sync(before, 1, [replace(WISH, isr=(1, 2, 3))], never)
    assert isinstance(result, NewLeaderElected)
    after = first(apply(before, records))
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (2, 3), 2)
    assert (after.removing, after.adding) == ((), ())
    assert (after.leader_epoch, after.partition_epoch) == (6, 8)


@given(
    isr=st.sets(st.sampled_from([1, 2, 3, 4]), min_size=1),
    alive=st.sets(st.sampled_from([1, 2, 3, 4])),
    leader=st.sampled_from([NO_LEADER, 1, 2, 3, 4]),
    election=st.sampled_from(Election),
)
def test_a_clean_leader_is_up_and_was_in_sync(
    isr: set[int], alive: set[int], leader: int, election: Election
) -> None:
    before = orders(partition((1, 2, 3, 4), tuple(sorted(isr)), leader))
    available = active_in(before, added=alive, removed={1, 2, 3, 4} - alive)
    change = partition_change(
        ORDERS, 0, first(before), PartitionTarget(election=election), available
    )
    after = first(apply(before, [change] if change is not None else []))
    if after.leader == NO_LEADER:
        assert not (isr & alive)
        assert election is not Election.UNCLEAN or not alive
    else:
        assert after.leader in alive
        assert after.leader in after.isr
        assert after.recovering == (after.leader not in isr)
        assert election is Election.UNCLEAN or after.leader in isr
