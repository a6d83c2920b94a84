"""Share groups' membership and assignor, without a broker."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MemberEpochFenced, UnknownMember
from millpond.group.share.group import (
    LEAVING,
    ShareGroup,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareSettings,
    assign,
)
from millpond.group.topics import TopicShape

A, B = TopicShape(UUID(int=1), 4), TopicShape(UUID(int=2), 1)
TOPICS = {"a": A, "b": B}
SETTINGS = ShareSettings()


def hear(
    group: ShareGroup,
    member: str,
    epoch: int,
    topics: tuple[str, ...] | None = None,
    now_ms: int = 0,
) -> ShareHeartbeatAnswer:
    command = ShareHeartbeat(group_id="g", member_id=member, epoch=epoch, topics=topics)
    return group.heartbeat(command, TOPICS.get, SETTINGS, now_ms)


def test_few_members_have_each_partition_once() -> None:
    assigned = assign({"ann": ("a",), "bob": ("a",)}, TOPICS)
    assert assigned == {"ann": {A.topic_id: (0, 2)}, "bob": {A.topic_id: (1, 3)}}


def test_many_members_share_partitions() -> None:
    assigned = assign(dict.fromkeys(("ann", "bob", "cy"), ("b",)), TOPICS)
    assert all(one == {B.topic_id: (0,)} for one in assigned.values())


@given(
    members=st.dictionaries(
        st.text("mnop", min_size=1, max_size=3),
        st.sets(st.sampled_from("xyz")).map(lambda names: tuple(sorted(names))),
        max_size=9,
    ),
    counts=st.dictionaries(st.sampled_from("xyz"), st.integers(1, 7)),
)
def test_everyone_has_work_and_all_work_has_someone(
    members: dict[str, tuple[str, ...]], counts: dict[str, int]
) -> None:
    shapes = {name: TopicShape(UUID(int=ord(name)), count) for name, count in counts.items()}
    assigned = assign(members, shapes)
    assert assigned == assign(dict(reversed(members.items())), shapes)
    for name, (topic_id, count) in shapes.items():
        readers = [member for member, topics in members.items() if name in topics]
        shares = [assigned[member].get(topic_id, ()) for member in readers]
        given_out = [partition for share in shares for partition in share]
        if readers:
            assert set(given_out) == set(range(count))
            assert len(given_out) == max(count, len(readers))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
        for member in members.keys() - set(readers):
            assert topic_id not in assigned[member]


def test_a_member_hears_its_part_when_it_changes_or_when_it_asks() -> None:
    group = ShareGroup("g")
    assert hear(group, "ann", 0, ("a",)).assignment == {A.topic_id: (0, 1, 2, 3)}
    assert hear(group, "ann", 1).assignment is None
    assert hear(group, "ann", 1, ("a",)).assignment is not None

    hear(group, "bob", 0, ("a",))
    answer = hear(group, "ann", 1)
    assert (answer.epoch, answer.assignment) == (2, {A.topic_id: (0, 2)})


def test_an_answer_that_got_lost_does_not_fence_a_member() -> None:
    group = ShareGroup("g")
    hear(group, "ann", 0, ("a",))
    hear(group, "bob", 0, ("a",))
    assert hear(group, "ann", 1).epoch == 2

    assert hear(group, "ann", 1).epoch == 2
    hear(group, "bob", LEAVING)
    assert hear(group, "ann", 2).epoch == 3
    with pytest.raises(MemberEpochFenced):
        hear(group, "ann", 1)


def test_who_was_silent_too_long_is_gone() -> None:
    group = ShareGroup("g")
    hear(group, "ann", 0, ("a",), now_ms=0)
    hear(group, "bob", 0, ("a",), now_ms=10_000)
    assert group.wake_ms == SETTINGS.session_timeout_ms

    assert group.expire(TOPICS.get, SETTINGS.session_timeout_ms) == ["ann"]
    assert hear(group, "bob", 2).assignment == {A.topic_id: (0, 1, 2, 3)}
    with pytest.raises(UnknownMember):
        hear(group, "ann", 1)


def test_a_subscription_that_changes_changes_the_group() -> None:
    group = ShareGroup("g")
    hear(group, "ann", 0, ("a",))
    answer = hear(group, "ann", 1, ("b", "unknown"))
    assert (answer.epoch, answer.assignment) == (2, {B.topic_id: (0,)})
