"""Stories of consumer groups (KIP-848): joining, handing over, leaving, failing, changing protocols."""

from typing import Any
from uuid import UUID

import pytest

from millpond.base.errors import (
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InstanceIdInUse,
    InvalidPattern,
    MemberEpochFenced,
    MemberFenced,
    MemberIdRequired,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMember,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.subscription import read_assignment, write_assignment
from millpond.group.consumer.group import ConsumerGroup
from millpond.group.consumer.messages import ConsumerSettings, MigrationPolicy
from millpond.group.consumer.records import FactForgotten
from millpond.group.messages import DeleteGroup, ForgetOffsets, PendOffsets
from millpond.group.records import CommittedOffset
from tests.support.kafka.consumers import Consumer, settle
from tests.support.kafka.group_host import GROUP, Desk, Reader, RefusedByLog

# Subscribes to topic "t", version 0; the same, owning partitions 0 and 1, version 1.
SAID = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
OWNING = (
    b"\x00\x01"
    + SAID[2:]
    + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02"
    + bytes(4)
    + bytes(3)
    + b"\x01"
)


def desk_with(partitions: int = 4, **settings: Any) -> Desk:
    desk = Desk(consumer_settings=ConsumerSettings(**({"assignment_interval_ms": 0} | settings)))
    desk.set_topic("t", partitions)
    return desk


def group_of(desk: Desk) -> ConsumerGroup:
    group = desk.coordinator.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    return group


# --- joining and handing over -----------------------------------------------------------------------


def test_the_first_member_has_everything_at_once() -> None:
    desk = desk_with()
    one = Consumer("one")
    answer = one.join(desk)
    assert answer.epoch == 2
    assert one.partitions == [0, 1, 2, 3]
    assert desk.state == "Stable"


def test_a_second_member_gets_its_part_only_when_the_first_gave_it_up() -> None:
    desk = desk_with()
    one, two = Consumer("one"), Consumer("two")
    one.join(desk)
    two.join(desk)
    assert two.partitions == []
    assert desk.state == "Reconciling"

    one.send(desk)  # is told, but still owns all
    two.beat(desk)
    assert two.partitions == []

    one.beat(desk)  # has revoked
    two.beat(desk)
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    assert len(two.partitions) == 2
    assert desk.state == "Stable"


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    desk = desk_with()
    one, two = Consumer("one"), Consumer("two")
    one.join(desk)
    two.join(desk)
    one.send(desk)
    for _ in range(31):
        desk.pass_time(1_000)
        two.beat(desk)
        if "one" in group_of(desk).members:
            one.send(desk)  # alive, but it keeps what it must give up
    with pytest.raises(UnknownMember):
        one.send(desk)
    two.beat(desk)
    assert two.partitions == [0, 1, 2, 3]


def test_a_silent_member_is_removed_and_the_others_take_over() -> None:
    desk = desk_with()
    one, two = Consumer("one"), Consumer("two")
    settle(desk, one, two)
    settle(desk, two, rounds=50)
    assert two.partitions == [0, 1, 2, 3]
    with pytest.raises(UnknownMember):
        one.beat(desk)


def test_new_partitions_and_new_topics_are_picked_up() -> None:
    desk = desk_with(partitions=2)
    one = Consumer("one", topics=("t", "later"))
    one.join(desk)
    assert one.partitions == [0, 1]
    desk.set_topic("t", 3)
    one.beat(desk)
    assert one.partitions == [0, 1, 2]
    later = desk.set_topic("later", 1)
    one.beat(desk)
    assert (later.topic_id, 0) in one.owned


def test_targets_are_made_at_most_once_a_second() -> None:
    desk = desk_with(assignment_interval_ms=1_000)
    one, two = Consumer("one"), Consumer("two")
    one.join(desk)
    two.join(desk)
    assert desk.state == "Assigning"
    desk.pass_time(1_000)
    two.beat(desk)
    assert desk.state == "Reconciling"


def test_a_clock_that_was_set_back_does_not_stop_the_group() -> None:
    desk = desk_with(assignment_interval_ms=1_000)
    Consumer("one").join(desk)
    desk.wall_ms -= 3_600_000
    Consumer("two").join(desk)
    assert desk.state == "Reconciling"


def test_two_hundred_members_settle_in_three_rounds() -> None:
    # K41: one round to join, one to hear of the targets, one to take what others gave up.
    desk = desk_with(partitions=1_000, assignment_interval_ms=1_000)
    consumers = [Consumer(f"m{number:03}") for number in range(200)]
    settle(desk, *consumers, rounds=3)
    assert desk.state == "Stable"
    assert {len(consumer.owned) for consumer in consumers} == {5}
    # Each member costs a few facts, however many there are.
    assert len(desk.log) < 7 * len(consumers)


# --- epochs -----------------------------------------------------------------------------------------


def test_epochs_that_a_member_never_had_are_fenced() -> None:
    desk = desk_with()
    one = Consumer("one")
    one.join(desk)
    for epoch in (one.epoch + 1, one.epoch - 1):
        with pytest.raises(MemberEpochFenced):
            one.send(desk, epoch=epoch)
    assert one.send(desk).epoch == 2


def test_a_member_that_missed_an_answer_goes_on() -> None:
    desk = desk_with()
    one, two = Consumer("one"), Consumer("two")
    settle(desk, one)
    before = one.epoch
    two.join(desk)
    one.send(desk)
    one.beat(desk)
    assert one.epoch > before
    # It did not hear that it reached this epoch, and says again what it owns.
    kept = {
        topic: frozenset(group_of(desk).members["one"].current.assigned[topic])
        for topic, _ in one.owned
    }
    assert one.send(desk, epoch=before, owned=kept).epoch > before
    with pytest.raises(MemberEpochFenced):
        one.send(desk, epoch=before, owned={UUID(int=9): frozenset({0})})


def test_members_must_be_members() -> None:
    desk = desk_with()
    with pytest.raises(GroupNotFound):
        Consumer("one").send(desk, epoch=3)
    with pytest.raises(GroupNotFound):
        Consumer("one").leave(desk)
    Consumer("one").join(desk)
    with pytest.raises(UnknownMember):
        Consumer("two").send(desk, epoch=2)
    with pytest.raises(UnknownMember):
        Consumer("two").leave(desk)


def test_a_full_group_takes_nobody_in() -> None:
    desk = desk_with(members_max=1)
    one = Consumer("one")
    one.join(desk)
    with pytest.raises(GroupFull):
        Consumer("two").join(desk)
    one.beat(desk)


def test_only_assignors_that_the_broker_has_may_be_asked_for() -> None:
    desk = desk_with()
    with pytest.raises(UnsupportedAssignor):
        Consumer("one", assignor="sticky").join(desk)
    assert GROUP not in desk.coordinator.groups


# --- static members ---------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_has_what_it_had() -> None:
    desk = desk_with()
    one, other = Consumer("one", instance_id="mill"), Consumer("other")
    settle(desk, one, other)
    had = one.partitions
    epoch = group_of(desk).epoch
    one.leave(desk, epoch=-2)
    back = Consumer("back", instance_id="mill")
    back.join(desk)
    assert back.partitions == had
    assert group_of(desk).epoch == epoch  # nobody else notices
    with pytest.raises(MemberFenced):
        one.send(desk, epoch=2)


def test_an_instance_id_in_use_is_not_given_to_another() -> None:
    desk = desk_with()
    Consumer("one", instance_id="mill").join(desk)
    with pytest.raises(InstanceIdInUse):
        Consumer("two", instance_id="mill").join(desk)


def test_a_static_member_that_stays_away_is_removed() -> None:
    desk = desk_with()
    one, other = Consumer("one", instance_id="mill"), Consumer("other")
    settle(desk, one, other)
    one.leave(desk, epoch=-2)
    settle(desk, other, rounds=50)
    assert other.partitions == [0, 1, 2, 3]


# --- patterns ---------------------------------------------------------------------------------------


def test_a_pattern_stands_for_the_topics_that_match_it_as_a_whole() -> None:
    desk = desk_with()
    desk.set_topic("orders-1", 2)
    desk.set_topic("my-orders-1", 1)
    one = Consumer("one", topics=None, pattern="orders-.*")
    settle(desk, one, rounds=2)
    assert {topic for topic, _ in one.owned} == {desk.shapes["orders-1"].topic_id}
    desk.set_topic("orders-2", 1)
    settle(desk, one, rounds=15)
    assert len(one.owned) == 3


@pytest.mark.parametrize("pattern", ["a(b", "[", r"(a)\1", "(?=a)", "a" * 20_000, "(a{900}){900}"])
def test_patterns_that_cannot_be_evaluated_safely_are_refused(pattern: str) -> None:
    desk = desk_with()
    with pytest.raises(InvalidPattern):
        Consumer("one", topics=None, pattern=pattern).join(desk)


def test_a_pattern_that_would_keep_others_busy_for_ages_does_not() -> None:
    desk = desk_with()
    desk.set_topic("a" * 249, 1)
    one = Consumer("one", topics=None, pattern="(a+)+b|(a|a)*c")
    settle(desk, one, rounds=2)
    assert one.owned == set()


def test_a_pattern_is_forgotten_with_its_last_reader() -> None:
    desk = desk_with()
    one, two = Consumer("one", topics=None, pattern="t"), Consumer("two", topics=None, pattern="t")
    settle(desk, one, two)
    one.leave(desk)
    assert set(group_of(desk).patterns) == {"t"}
    two.leave(desk)
    assert not group_of(desk).patterns
    assert not set(group_of(desk).topic_names)


# --- offsets ----------------------------------------------------------------------------------------


def reader_of(consumer: Consumer, epoch: int | None = None) -> Reader:
    return Reader(
        member_id=consumer.member_id, generation=consumer.epoch if epoch is None else epoch
    )


def test_commits_are_checked_against_the_member_s_epoch() -> None:
    desk = desk_with()
    one = Consumer("one")
    one.join(desk)
    topic_id = desk.shapes["t"].topic_id
    assert desk.commit(reader_of(one), 5, topic_id=topic_id) is None
    assert desk.commit(reader_of(one, one.epoch + 1), 6) is StaleMemberEpoch
    assert desk.commit(reader_of(one, one.epoch - 1), 6, topic_id=topic_id) is StaleMemberEpoch
    assert desk.commit(reader_of(Consumer("two"), 2), 6) is UnknownMember
    assert desk.commit(None, 6) is UnknownMember
    assert desk.commit(reader_of(one), 6, knows_epochs=False) is UnsupportedVersion
    assert desk.offset() == 5


def test_the_epoch_before_will_do_for_what_the_member_has_had_since() -> None:
    desk = desk_with()
    one, two = Consumer("one"), Consumer("two")
    one.join(desk)
    before = one.epoch
    settle(desk, one, two)
    assert one.epoch > before
    topic_id = desk.shapes["t"].topic_id
    kept, lost = one.partitions[0], two.partitions[0]
    old = reader_of(one, before)
    assert desk.commit(old, 5, topic_id=topic_id, partition=kept) is None
    assert desk.commit(old, 5, topic_id=topic_id, partition=lost) is StaleMemberEpoch


def test_a_transaction_is_told_of_a_wrong_generation() -> None:
    desk = desk_with()
    one = Consumer("one")
    one.join(desk)
    position = ("t", 0, CommittedOffset(offset=5, topic_id=desk.shapes["t"].topic_id))
    producer: dict[str, Any] = {
        "group_id": GROUP,
        "offsets": (position,),
        "producer_id": 1,
        "producer_epoch": 0,
    }
    desk.perform(PendOffsets(**producer))  # who says nothing is not asked
    desk.perform(PendOffsets(**producer, member_id="one", generation=one.epoch))
    with pytest.raises(IllegalGeneration):
        desk.perform(PendOffsets(**producer, member_id="one", generation=one.epoch + 1))
    with pytest.raises(UnknownMember):
        desk.perform(PendOffsets(**producer, member_id="two", generation=one.epoch))


def test_fetches_are_checked_if_they_say_who_asks() -> None:
    desk = desk_with()
    one = Consumer("one")
    one.join(desk)
    check = desk.coordinator.check_fetch
    assert check(GROUP, "one", one.epoch) is None
    assert check(GROUP, None, -1) is None
    assert check(GROUP, "one", one.epoch - 1) is StaleMemberEpoch
    assert check(GROUP, "two", one.epoch) is UnknownMember


# --- the log ----------------------------------------------------------------------------------------


def test_a_restart_keeps_the_group_and_everyone_in_it() -> None:
    desk = desk_with()
    one, two = Consumer("one"), Consumer("two", instance_id="mill", topics=("t",))
    settle(desk, one, two)
    before = one.partitions, two.partitions
    desk = desk.restart()
    assert desk.state == "Stable"
    settle(desk, one, two)
    assert (one.partitions, two.partitions) == before


def test_a_restart_does_not_wait_for_the_dead_forever() -> None:
    desk = desk_with()
    Consumer("one").join(desk)
    desk = desk.restart()
    desk.pass_time(45_000)
    assert desk.state == "Empty"


def test_nothing_is_true_that_could_not_be_written() -> None:
    desk = desk_with()
    desk.broken = True
    one = Consumer("one")
    with pytest.raises(RefusedByLog):
        one.join(desk)
    assert GROUP not in desk.coordinator.groups
    desk.broken = False
    one.join(desk)
    assert one.partitions == [0, 1, 2, 3]


def test_an_empty_group_can_be_deleted_and_leaves_nothing() -> None:
    desk = desk_with()
    one = Consumer("one")
    one.join(desk)
    with pytest.raises(GroupNotEmpty):
        desk.perform(DeleteGroup(group_id=GROUP))
    one.leave(desk)
    desk.perform(DeleteGroup(group_id=GROUP))
    assert GROUP not in desk.coordinator.groups
    assert GROUP not in desk.restart().coordinator.groups
    assert any(isinstance(fact, FactForgotten) for fact in desk.stored())


def test_offsets_of_topics_that_are_read_stay() -> None:
    desk = desk_with()
    one = Consumer("one")
    one.join(desk)
    desk.commit(reader_of(one), 5)
    forget = ForgetOffsets(group_id=GROUP, partitions=(("t", 0), ("u", 0)))
    assert [error is None for error in desk.perform(forget)] == [False, True]


# --- two protocols ----------------------------------------------------------------------------------


def classic_member(desk: Desk) -> Reader:
    """One member of the classic protocol that has all four partitions of t."""
    protocols = (("range", SAID),)
    reader = desk.invite(protocols=protocols)
    desk.learn(reader, desk.join(reader, protocols=protocols))
    plan = {reader.member_id: write_assignment({"t": range(4)}, 0)}
    reader.assignment = desk.sync(reader, plan).answer.assignment
    return reader


def test_a_classic_group_goes_over_with_its_members() -> None:
    desk = desk_with()
    old, new = classic_member(desk), Consumer("new")
    new.join(desk)
    assert desk.state == "Reconciling"
    assert new.partitions == []  # the old member has not given up anything yet
    assert desk.heartbeat(old) is RebalanceInProgress

    owning = (("range", OWNING),)
    desk.learn(old, desk.join(old, protocols=owning))
    part, _ = read_assignment(desk.sync(old).answer.assignment)
    new.beat(desk)
    assert sorted([*part["t"], *new.partitions]) == [0, 1, 2, 3]
    assert desk.heartbeat(old) is None
    assert desk.commit(old, 5, topic_id=desk.shapes["t"].topic_id) is None
    assert desk.commit(Reader(member_id=old.member_id, generation=99), 5) is IllegalGeneration


def test_whoever_waits_in_a_classic_group_that_goes_over_joins_again() -> None:
    desk = desk_with()
    old = classic_member(desk)
    other = desk.invite(protocols=(("range", SAID),))
    waiting = desk.join(other, protocols=(("range", SAID),))
    assert waiting.is_parked
    Consumer("new").join(desk)
    assert waiting.answer.error is RebalanceInProgress
    assert old.member_id in group_of(desk).members


def test_the_last_member_of_the_new_protocol_takes_it_along() -> None:
    desk = desk_with()
    old, new = classic_member(desk), Consumer("new")
    new.join(desk)
    desk.learn(old, desk.join(old, protocols=(("range", OWNING),)))
    new.leave(desk)
    group = desk.coordinator.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert desk.state == "PreparingRebalance"
    old.generation = group.generation
    desk.rebalance([old])
    assert desk.state == "Stable"
    assert isinstance(desk.restart().coordinator.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_without_leave_to_upgrade_a_classic_group_stays_one(policy: MigrationPolicy) -> None:
    desk = desk_with(migration=policy)
    old = classic_member(desk)
    with pytest.raises(GroupNotFound):
        Consumer("new").join(desk)
    assert desk.heartbeat(old) is None


def test_without_leave_to_downgrade_the_group_stays_a_consumer_group() -> None:
    desk = desk_with(migration=MigrationPolicy.UPGRADE)
    old, new = classic_member(desk), Consumer("new")
    new.join(desk)
    desk.learn(old, desk.join(old, protocols=(("range", OWNING),)))
    new.leave(desk)
    assert set(group_of(desk).members) == {old.member_id}


def test_members_of_the_classic_protocol_come_and_go_in_a_consumer_group() -> None:
    desk = desk_with()
    new = Consumer("new")
    new.join(desk)
    told = desk.join(protocols=(("range", SAID),))
    assert told.answer.error is MemberIdRequired
    old = Reader(member_id=told.answer.member_id)
    desk.learn(old, desk.join(old, protocols=(("range", SAID),)))
    settle(desk, new, rounds=2)
    assert desk.heartbeat(old) is RebalanceInProgress  # there is something to get
    desk.learn(old, desk.join(old, protocols=(("range", SAID),)))
    part, _ = read_assignment(desk.sync(old).answer.assignment)
    assert len(part["t"]) == 2
    refused = desk.join(protocols=(("sticky", SAID),))
    assert refused.answer.error is InconsistentGroupProtocol
    assert desk.leave(old, Reader(member_id="nobody")) == (None, UnknownMember)
    settle(desk, new, rounds=2)
    assert new.partitions == [0, 1, 2, 3]


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    desk = desk_with()
    old, new = classic_member(desk), Consumer("new")
    new.join(desk)
    for _ in range(61):
        if desk.heartbeat(old) is UnknownMember:
            break
        new.beat(desk)
        desk.pass_time(1_000)
    new.beat(desk)
    assert new.partitions == [0, 1, 2, 3]


def test_empty_groups_change_their_kind_freely() -> None:
    desk = desk_with(migration=MigrationPolicy.DISABLED)
    one = Consumer("one")
    one.join(desk)
    one.leave(desk)
    classic_member(desk)
    assert isinstance(desk.coordinator.groups[GROUP], ClassicGroup)
    desk = desk.restart()
    desk.pass_time(10_000)
    assert desk.state == "Empty"
    one.join(desk)
    assert one.partitions == [0, 1, 2, 3]
