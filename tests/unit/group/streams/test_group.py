"""Stories of streams groups (KIP-1071): an application's topics and tasks, joining, handing over, failing."""

from dataclasses import replace
from typing import Any

import pytest

from millpond.base.errors import (
    GroupError,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidTopology,
    MemberEpochFenced,
    StaleMemberEpoch,
    UnknownMember,
    UnsupportedVersion,
)
from millpond.group.classic.group import ClassicGroup
from millpond.group.consumer.messages import ConsumerHeartbeat
from millpond.group.messages import DeleteGroup, ForgetOffsets, PendOffsets
from millpond.group.records import CommittedOffset
from millpond.group.streams.group import StreamsGroup
from millpond.group.streams.image import StreamsState
from millpond.group.streams.messages import StreamsSettings
from millpond.group.streams.records import TaskSet
from millpond.group.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    StreamsStatus,
    Subtopology,
    Topology,
)
from tests.support.kafka.group_host import GROUP, Desk, Reader, RefusedByLog
from tests.support.kafka.streamers import (
    COUNTS,
    SOURCE,
    WORD_COUNT,
    WORDS,
    Streamer,
    make_topics,
    settle,
)

ONE_PART = Topology.of(0, [Subtopology(subtopology_id="0", sources=(SOURCE,))])


def desk_with(partitions: int = 4, **settings: Any) -> Desk:
    quick = {"assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0}
    desk = Desk(streams_settings=StreamsSettings(**(quick | settings)))
    desk.set_topic(SOURCE, partitions)
    return desk


def group_of(desk: Desk) -> StreamsGroup:
    group = desk.coordinator.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    return group


def reader(streamer: Streamer) -> Reader:
    return Reader(member_id=streamer.member_id, generation=streamer.epoch)


# --- the application and its topics -----------------------------------------------------------------


def test_the_first_member_runs_everything_once_the_internal_topics_are_made() -> None:
    desk = desk_with()
    one = Streamer("one")
    answer = one.join(desk)
    assert answer.statuses == (
        (
            StreamsStatus.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {COUNTS}, {WORDS}",
        ),
    )
    assert {topic.name: topic.partitions for topic in answer.missing_topics} == {
        WORDS: 4,
        COUNTS: 4,
    }
    assert answer.tasks == TaskSet()
    assert desk.state == StreamsState.NOT_READY
    answer = one.beat(desk)
    assert answer.statuses == ()
    assert len(one.active) == 8
    assert desk.state == StreamsState.STABLE


def test_a_group_waits_for_its_source_topics() -> None:
    desk = desk_with()
    desk.delete_topic(SOURCE)
    one = Streamer("one")
    answer = one.join(desk)
    assert answer.statuses == (
        (StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {SOURCE} are missing."),
    )
    desk.set_topic(SOURCE, 2)
    settle(desk, one)
    assert len(one.active) == 4
    assert desk.shapes[COUNTS].partitions == 2


def test_a_source_that_grows_no_longer_fits_its_repartition_topic() -> None:
    desk = desk_with()
    one = Streamer("one")
    settle(desk, one)
    desk.set_topic(SOURCE, 6)
    answer = one.beat(desk)
    assert [status for status, _ in answer.statuses] == [
        StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    ]
    settle(desk, one)
    assert one.active == set()
    assert desk.state == StreamsState.NOT_READY


def test_topics_that_are_joined_must_have_as_many_partitions() -> None:
    desk = desk_with(2)
    desk.set_topic("right", 3)
    joined = Subtopology(
        subtopology_id="0",
        sources=(SOURCE, "right"),
        copartition_groups=(CopartitionGroup(sources=(0, 1)),),
    )
    answer = Streamer("one", topology=Topology.of(0, [joined])).join(desk)
    assert answer.statuses == (
        (
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{lines=2, right=3}]",
        ),
    )


def test_a_repartition_topic_follows_the_topic_that_it_is_joined_with() -> None:
    desk = desk_with(2)
    desk.set_topic("right", 5)
    topology = Topology.of(
        0,
        [
            Subtopology(subtopology_id="0", sources=(SOURCE,), repartition_sinks=("again",)),
            Subtopology(
                subtopology_id="1",
                sources=("right",),
                repartition_sources=(InternalTopic(name="again"),),
                copartition_groups=(CopartitionGroup(sources=(0,), repartition_sources=(0,)),),
            ),
        ],
    )
    answer = Streamer("one", topology=topology).join(desk)
    assert [(topic.name, topic.partitions) for topic in answer.missing_topics] == [("again", 5)]


@pytest.mark.parametrize(
    "part",
    [
        Subtopology(subtopology_id="0"),
        Subtopology(
            subtopology_id="0",
            repartition_sources=(InternalTopic(name="loop"),),
            repartition_sinks=("loop",),
        ),
        Subtopology(
            subtopology_id="0",
            sources=(SOURCE,),
            repartition_sources=(InternalTopic(name="unwritten"),),
        ),
        Subtopology(
            subtopology_id="0",
            sources=(SOURCE,),
            changelogs=(InternalTopic(name="fixed", partitions=3),),
        ),
    ],
    ids=["reads nothing", "loops", "reads what nobody writes", "has a changelog of fixed size"],
)
def test_applications_that_cannot_work_are_refused(part: Subtopology) -> None:
    desk = desk_with()
    with pytest.raises(InvalidTopology):
        Streamer("one", topology=Topology.of(0, [part])).join(desk)
    assert GROUP not in desk.coordinator.groups
    assert desk.log == []


def test_a_topology_is_what_the_first_member_says() -> None:
    desk = desk_with()
    settle(desk, Streamer("one"))
    with pytest.raises(InvalidRequest, match="not supported yet"):
        Streamer("two", topology=ONE_PART).join(desk)
    with pytest.raises(InvalidRequest, match="not supported yet"):
        Streamer("two", topology=replace(WORD_COUNT, epoch=1)).join(desk)
    with pytest.raises(GroupError):
        Topology.of(-1, [])


def test_a_member_of_an_older_topology_is_told_so() -> None:
    desk = desk_with()
    settle(desk, Streamer("one", topology=replace(WORD_COUNT, epoch=3)))
    answer = Streamer("two", topology=ONE_PART).join(desk)
    assert answer.statuses == (
        (
            StreamsStatus.STALE_TOPOLOGY,
            "The member's topology epoch 0 is behind the group's topology epoch 3.",
        ),
    )


# --- tasks ------------------------------------------------------------------------------------------


def test_a_second_member_gets_its_tasks_only_when_the_first_gave_them_up() -> None:
    desk = desk_with()
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    one.join(desk)
    two.join(desk)
    assert two.active == set()
    assert desk.state == StreamsState.RECONCILING
    one.send(desk)
    two.beat(desk)
    assert two.active == set()
    one.beat(desk)
    two.beat(desk)
    assert one.active == {("0", 0), ("0", 1)}
    assert two.active == {("0", 2), ("0", 3)}
    assert desk.state == StreamsState.STABLE


def test_tasks_stay_where_they_are() -> None:
    desk = desk_with(6)
    members = [Streamer(name, topology=ONE_PART) for name in "abc"]
    for member in members:
        settle(desk, *members[: members.index(member) + 1])
    before = {member.member_id: member.active for member in members}
    assert [len(tasks) for tasks in before.values()] == [2, 2, 2]
    members[1].leave(desk)
    settle(desk, members[0], members[2])
    assert before["a"] < members[0].active
    assert before["c"] < members[2].active


def test_standby_tasks_are_in_other_processes() -> None:
    desk = desk_with(standby_replicas=1)
    members = [Streamer("a1", "a"), Streamer("a2", "a"), Streamer("b1", "b")]
    settle(desk, *members, rounds=20)
    running = {
        process: {task for one in members if one.process_id == process for task in one.active}
        for process in "ab"
    }
    following = {
        process: {task for one in members if one.process_id == process for task in one.standby}
        for process in "ab"
    }
    # Only what has state is followed.
    assert following["a"] == {task for task in running["b"] if task[0] == "1"}
    assert following["b"] == {task for task in running["a"] if task[0] == "1"}


def test_who_followed_a_task_runs_it_when_its_runner_is_gone() -> None:
    desk = desk_with(standby_replicas=1)
    one, two = Streamer("one"), Streamer("two")
    settle(desk, one, two, rounds=20)
    followed = two.standby
    assert followed
    one.leave(desk)
    settle(desk, two)
    assert followed <= two.active
    assert two.standby == set()


def test_a_standby_replica_more_is_a_rebalance() -> None:
    desk = desk_with()
    one, two = Streamer("one"), Streamer("two")
    settle(desk, one, two, rounds=20)
    assert not one.standby
    desk.streams_settings = replace(desk.streams_settings, standby_replicas=1)
    settle(desk, one, two)
    assert len(one.standby | two.standby) == 4


def test_a_new_group_waits_for_more_members() -> None:
    desk = desk_with(initial_rebalance_delay_ms=3_000)
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    delayed = (
        StreamsStatus.ASSIGNMENT_DELAYED,
        "Assignment delayed due to the configured initial rebalance delay.",
    )
    assert one.join(desk).statuses == (delayed,)
    desk.pass_time(2_000)
    assert two.join(desk).statuses == (delayed,)
    assert one.beat(desk).statuses == (delayed,)
    assert group_of(desk).targets == {}
    desk.pass_time(1_000)
    assert {name: len(tasks.active["0"]) for name, tasks in group_of(desk).targets.items()} == {
        "one": 2,
        "two": 2,
    }
    one.beat(desk)
    two.beat(desk)
    assert desk.state == StreamsState.STABLE


def test_targets_are_made_once_in_an_interval() -> None:
    desk = desk_with(assignment_interval_ms=1_000)
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    one.join(desk)
    answer = two.join(desk)
    assert [status for status, _ in answer.statuses] == [StreamsStatus.ASSIGNMENT_DELAYED]
    assert desk.state == StreamsState.ASSIGNING
    desk.pass_time(1_000)
    settle(desk, one, two)
    assert desk.state == StreamsState.STABLE


# --- who speaks -------------------------------------------------------------------------------------


def test_epochs_that_are_not_the_member_s_are_fenced() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    one.join(desk)
    epoch = one.epoch
    for wrong in (epoch + 1, epoch - 1):
        with pytest.raises(MemberEpochFenced):
            one.send(desk, epoch=wrong)
    # The answer that told the new epoch may have been lost.
    two = Streamer("two", topology=ONE_PART)
    two.join(desk)
    one.send(desk)
    one.beat(desk)
    one.send(desk, epoch=epoch, active=one.owned.active, standby={}, warmup={})
    with pytest.raises(MemberEpochFenced):
        one.send(desk, epoch=epoch, active={"0": frozenset(range(4))}, standby={}, warmup={})
    with pytest.raises(UnknownMember):
        Streamer("nobody", epoch=3).send(desk)


@pytest.mark.parametrize(
    "fields",
    [
        {"instance_id": "me"},
        {"rack_id": " "},
        {"rebalance_timeout_ms": None},
        {"active": {"0": frozenset([0])}},
        {"warmup": {"0": frozenset([0])}},
        {"standby": None},
        {"topology": None},
        {"member_id": ""},
        {"group_id": ""},
        {"epoch": -3},
        {"epoch": -2},
        {"epoch": 5},
        {"topology": Topology.of(0, [Subtopology(subtopology_id="0", source_patterns=("l.*",))])},
    ],
)
def test_heartbeats_that_make_no_sense(fields: dict[str, Any]) -> None:
    desk = desk_with()
    with pytest.raises(InvalidRequest):
        Streamer("one").join(desk, **fields)
    assert desk.log == []


def test_tasks_that_there_are_not_are_refused() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    one.join(desk)
    for tasks in ({"0": frozenset([4])}, {"7": frozenset([0])}):
        with pytest.raises(InvalidRequest):
            one.send(desk, active=tasks, standby={}, warmup={})


def test_a_full_group_takes_nobody() -> None:
    desk = desk_with(members_max=1)
    Streamer("one").join(desk)
    with pytest.raises(GroupFull):
        Streamer("two").join(desk)


def test_one_member_stops_them_all() -> None:
    desk = desk_with()
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    settle(desk, one, two)
    one.send(desk, shutdown=True)
    ((status, detail),) = two.send(desk).statuses
    assert status is StreamsStatus.SHUTDOWN_APPLICATION
    assert "member one" in detail
    one.leave(desk)
    two.leave(desk)
    assert one.join(desk).statuses == ()


def test_members_learn_where_the_others_answer() -> None:
    desk = desk_with()
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    one.join(desk, endpoint=("host-1", 80))
    two.join(desk, endpoint=("host-2", 80))
    settle(desk, one, two)
    answer = one.send(desk, endpoint_epoch=0)
    assert answer.endpoints is not None
    assert {end.host: end.active for end in answer.endpoints} == {
        "host-1": ((SOURCE, (0, 1)),),
        "host-2": ((SOURCE, (2, 3)),),
    }
    assert one.send(desk, endpoint_epoch=answer.endpoint_epoch).endpoints is None


# --- time and failures ------------------------------------------------------------------------------


def test_the_silent_are_gone_after_their_session() -> None:
    desk = desk_with()
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    settle(desk, one, two)
    desk.pass_time(40_000)
    one.live(desk)
    desk.pass_time(6_000)
    assert set(group_of(desk).members) == {"one"}
    settle(desk, one)
    assert len(one.active) == 4


def test_who_keeps_what_it_should_give_up_is_gone() -> None:
    desk = desk_with()
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    one.join(desk)
    two.join(desk)
    one.send(desk)
    desk.pass_time(20_000)
    one.send(desk)
    two.live(desk)
    desk.pass_time(11_000)
    assert set(group_of(desk).members) == {"two"}


def test_a_group_survives_a_restart() -> None:
    desk = desk_with()
    one, two = Streamer("one"), Streamer("two")
    settle(desk, one, two, rounds=20)
    before = group_of(desk)
    desk = desk.restart()
    after = group_of(desk)
    for name in ("epoch", "metadata_hash", "validated_epoch", "assignment_configs", "topology"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.members, after.targets) == (before.members, before.targets)
    owned = one.active, two.active
    settle(desk, one, two)
    assert (one.active, two.active) == owned
    assert group_of(desk).epoch == before.epoch
    desk.restart().pass_time(46_000)


def test_nothing_has_happened_if_the_log_refuses() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    desk.broken = True
    with pytest.raises(RefusedByLog):
        one.join(desk)
    assert GROUP not in desk.coordinator.groups
    desk.broken = False
    settle(desk, one)
    desk.broken = True
    desk.set_topic(SOURCE, 6)
    with pytest.raises(RefusedByLog):
        one.beat(desk)
    desk.broken = False
    settle(desk, one)
    assert len(one.active) == 6


# --- offsets and other kinds of groups --------------------------------------------------------------


def test_commits_of_members_and_strangers() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    one.join(desk)
    mine = reader(one)
    assert desk.commit(mine, 1, topic=SOURCE) is None
    assert desk.commit(mine, 2, topic=SOURCE, knows_epochs=False) is UnsupportedVersion
    assert desk.commit(mine, 3, topic=SOURCE, generation=one.epoch + 1) is StaleMemberEpoch
    assert desk.commit(mine, 4, topic=SOURCE, generation=one.epoch - 1) is StaleMemberEpoch
    assert desk.commit(Reader("nobody", one.epoch), 5, topic=SOURCE) is UnknownMember
    assert desk.offset(SOURCE) == 1


def test_an_older_epoch_will_do_for_tasks_that_the_member_kept() -> None:
    desk = desk_with()
    one, two = Streamer("one", topology=ONE_PART), Streamer("two", topology=ONE_PART)
    one.join(desk)
    before = reader(one)
    settle(desk, one, two)
    assert desk.commit(before, 7, topic=SOURCE, partition=0) is None
    assert desk.commit(before, 7, topic=SOURCE, partition=3) is StaleMemberEpoch
    assert desk.commit(before, 7, topic="other", partition=0) is StaleMemberEpoch
    value = CommittedOffset(offset=1)
    with pytest.raises(IllegalGeneration):
        desk.perform(
            PendOffsets(
                group_id=GROUP,
                member_id="one",
                generation=before.generation,
                offsets=((SOURCE, 3, value),),
                producer_id=1,
                producer_epoch=0,
            )
        )


def test_who_may_read_offsets() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    one.join(desk)
    check = desk.coordinator.check_fetch
    assert check(GROUP, "one", one.epoch) is None
    assert check(GROUP, None, -1) is None
    assert check(GROUP, "one", one.epoch - 1) is StaleMemberEpoch
    assert check(GROUP, "nobody", one.epoch) is UnknownMember


def test_a_group_is_deleted_when_nobody_is_in_it() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    one.join(desk)
    desk.commit(reader(one), 1, topic=SOURCE)
    with pytest.raises(GroupNotEmpty):
        desk.perform(DeleteGroup(group_id=GROUP))
    (result,) = desk.perform(ForgetOffsets(group_id=GROUP, partitions=((SOURCE, 0),)))
    assert result is not None
    one.leave(desk)
    desk.perform(DeleteGroup(group_id=GROUP))
    assert desk.restart().coordinator.groups == {}


def test_kinds_do_not_mix_while_someone_is_there() -> None:
    desk = desk_with()
    one = Streamer("one", topology=ONE_PART)
    one.join(desk)
    assert desk.join().answer.error is InconsistentGroupProtocol
    assert desk.heartbeat(Reader("one", 1)) is UnknownMember
    assert desk.sync(Reader("one", 1)).answer.error is UnknownMember
    assert desk.leave(Reader("one", 1)) == (UnknownMember,)
    consumer = ConsumerHeartbeat(
        group_id=GROUP,
        member_id="c",
        epoch=0,
        rebalance_timeout_ms=1,
        topics=(SOURCE,),
        owned={},
    )
    with pytest.raises(GroupNotFound):
        desk.perform(consumer)
    one.leave(desk)
    desk.gather(1)
    assert isinstance(desk.coordinator.groups[GROUP], ClassicGroup)
    with pytest.raises(GroupNotFound):
        one.join(desk)
    assert isinstance(desk.restart().coordinator.groups[GROUP], ClassicGroup)


def test_an_empty_classic_group_becomes_one_of_streams() -> None:
    desk = desk_with()
    (member,) = desk.gather(1)
    desk.leave(member)
    one = Streamer("one", topology=ONE_PART)
    make_topics(desk, one.join(desk))
    assert desk.state == StreamsState.STABLE
    assert isinstance(desk.restart().coordinator.groups[GROUP], StreamsGroup)
