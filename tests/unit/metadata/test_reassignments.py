"""Partitions that move: new replicas first, old ones go when the new are in sync, and back on demand."""

from dataclasses import replace

import pytest

from millpond.base.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MillpondError,
    NoReassignment,
    UnknownTopic,
)
from millpond.metadata.elections import InSyncRequest, decide_in_sync, decide_stopped
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.reassignments import (
    Reassignment,
    ReassignmentDecision,
    decide_completions,
    decide_reassign,
    find_reassignments,
)
from millpond.metadata.records import NO_LEADER
from tests.support.cluster.cluster_facts import ORDERS, always, never, node, orders, partition


def first(image: Image) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def move(
    image: Image, *replicas: int, unclean: bool = False, factor_change: bool = True
) -> tuple[ReassignmentDecision, Image]:
    command = Reassignment(topic="orders", partition=0, replicas=replicas)
    decision = decide_reassign(
        image,
        [command],
        rules=always if unclean else never,
        allow_factor_change=factor_change,
    )
    return decision, apply(image, decision.records)


def cancel(image: Image, *, unclean: bool = False) -> tuple[ReassignmentDecision, Image]:
    command = Reassignment(topic="orders", partition=0, replicas=None)
    decision = decide_reassign(image, [command], rules=always if unclean else never)
    return decision, apply(image, decision.records)


def in_sync(image: Image, *isr: int) -> Image:
    """The leader reports who is in sync."""
    now = first(image)
    wish = InSyncRequest(
        topic_id=ORDERS,
        partition=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        isr=isr,
    )
    return apply(image, decide_in_sync(image, now.leader, [wish], never)[0])


def test_a_partition_moves_when_all_that_stay_are_in_sync() -> None:
    _, moving = move(orders(partition((1, 2), (1, 2), 1)), 3, 4)
    one = first(moving)
    assert (one.replicas, one.adding, one.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (one.leader, one.leader_epoch, one.isr) == (1, 5, (1, 2))
    assert [(name, index) for name, index, _ in find_reassignments(moving, None)] == [("orders", 0)]

    half = in_sync(moving, 1, 2, 3)
    assert first(half).is_reassigning
    assert decide_completions(half, never) == []
    done = first(in_sync(half, 1, 2, 3, 4))
    assert (done.replicas, done.isr, done.leader) == ((3, 4), (3, 4), 3)
    assert not done.is_reassigning
    assert done.leader_epoch == 6


def test_another_order_is_no_move() -> None:
    decision, after = move(orders(partition((1, 2, 3), (1, 2, 3), 1)), 3, 2, 1)
    assert decision.errors == (None,)
    one = first(after)
    assert (one.replicas, one.leader, one.leader_epoch) == ((3, 2, 1), 1, 5)
    assert not one.is_reassigning


def test_a_replica_that_is_given_up_goes_at_once() -> None:
    _, after = move(orders(partition((1, 2, 3), (1, 2, 3), 1)), 2, 3)
    one = first(after)
    assert (one.replicas, one.isr, one.leader, one.leader_epoch) == ((2, 3), (2, 3), 2, 6)
    assert not one.is_reassigning


def test_where_it_is_it_stays() -> None:
    decision, after = move(orders(partition((1, 2), (1, 2), 1)), 1, 2)
    assert (decision.records, decision.errors) == ((), (None,))
    assert not first(after).is_reassigning


def test_a_move_is_called_back() -> None:
    before = orders(partition((1, 2), (1, 2), 1))
    _, moving = move(before, 3, 4)
    _, back = cancel(in_sync(moving, 1, 2, 3))
    one = first(back)
    assert (one.replicas, one.isr, one.leader) == ((1, 2), (1, 2), 1)
    assert not one.is_reassigning


def test_a_move_is_not_called_back_to_where_nothing_is_in_sync() -> None:
    image = orders(partition((3, 1), (3,), 3, removing=(1,), adding=(3,)))
    decision, same = cancel(image)
    assert isinstance(decision.errors[0], InvalidReplicaAssignment)
    assert same == image
    _, back = cancel(image, unclean=True)
    assert (first(back).replicas, first(back).isr, first(back).leader) == ((1,), (1,), 1)


def test_a_move_is_changed_into_another() -> None:
    _, moving = move(orders(partition((1, 2), (1, 2), 1)), 2, 3)
    _, other = move(moving, 2, 4)
    one = first(other)
    assert (one.replicas, one.adding, one.removing) == ((2, 4, 1, 3), (4,), (1, 3))
    done = first(in_sync(other, 1, 2, 4))
    assert (done.replicas, done.isr) == ((2, 4), (2, 4))


def test_a_move_survives_the_leader_that_fails() -> None:
    _, moving = move(orders(partition((1, 2), (1, 2), 1)), 2, 3)
    failed = apply(moving, decide_stopped(moving, 1, never))
    assert (first(failed).leader, first(failed).isr) == (2, (2,))
    done = first(in_sync(failed, 2, 3))
    assert (done.replicas, done.isr, done.leader) == ((2, 3), (2, 3), 2)


def test_a_new_controller_ends_a_move_that_waits_for_nothing() -> None:
    image = orders(partition((3, 1), (3, 1), 1, removing=(1,), adding=(3,)))
    one = first(apply(image, decide_completions(image, never)))
    assert (one.replicas, one.isr, one.leader, one.is_reassigning) == ((3,), (3,), 3, False)


def test_a_move_to_nodes_that_are_down_waits_for_them() -> None:
    image = orders(partition((1,), (1,), 1), nodes=[node(1), node(2, fenced=True)])
    _, moving = move(image, 2)
    assert (first(moving).leader, first(moving).isr) == (1, (1,))
    assert first(moving).leader != NO_LEADER


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), InvalidReplicaAssignment),
        ((1, 1), InvalidReplicaAssignment),
        ((9,), InvalidReplicaAssignment),
    ],
)
def test_nonsense_is_refused(replicas: tuple[int, ...], error: type[MillpondError]) -> None:
    image = orders(partition((1, 2), (1, 2), 1))
    decision, same = move(image, *replicas)
    assert type(decision.errors[0]) is error
    assert same == image


def test_the_number_of_replicas_stays_where_that_was_asked_for() -> None:
    image = orders(partition((1, 2), (1, 2), 1))
    decision, _ = move(image, 1, 2, 3, factor_change=False)
    assert isinstance(decision.errors[0], InvalidReplicationFactor)
    decision, _ = move(image, 3, 4, factor_change=False)
    assert decision.errors == (None,)


def test_each_command_stands_alone() -> None:
    image = orders(partition((1,), (1,), 1), partition((1,), (1,), 1))
    good = Reassignment(topic="orders", partition=0, replicas=[2])
    commands = [
        replace(good, topic="nothing"),
        good,
        good,
        replace(good, partition=7),
        replace(good, partition=1, replicas=None),
    ]
    decision = decide_reassign(image, commands, rules=never)
    assert [type(one) for one in decision.errors] == [
        UnknownTopic,
        type(None),
        InvalidReplicaAssignment,
        UnknownTopic,
        NoReassignment,
    ]
    assert len(decision.records) == 1
