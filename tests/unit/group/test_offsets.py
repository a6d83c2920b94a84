"""Stories of committed offsets: who may commit, what is kept, what is dropped and when."""

from uuid import UUID

import pytest

from millpond.base.errors import (
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.group.classic.records import GroupForgotten
from millpond.group.messages import (
    CommitOffsets,
    DeleteGroup,
    ForgetOffsets,
    ForgetTopic,
    GroupSettings,
)
from millpond.group.offsets import partition_for
from millpond.group.records import CommittedOffset, OffsetForgotten
from tests.support.kafka.group_host import GROUP, Desk, Reader, RefusedByLog

DAY_MS = 24 * 60 * 60_000


def test_a_member_commits_and_the_position_survives_a_restart() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    assert desk.commit(reader, 42, metadata="so far") is None
    desk = desk.restart()
    committed = desk.coordinator.offsets.get(GROUP, "t", 0)
    assert committed == CommittedOffset(
        offset=42,
        metadata="so far",
        committed_at_ms=desk.wall_ms,
        topic_id=UUID(int=7),
    )


def test_the_last_commit_counts() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    for offset in (10, 30, 20):  # going back is a reader's right
        desk.commit(reader, offset)
    assert desk.offset() == 20
    assert desk.restart().offset() == 20


def test_a_commit_is_visible_only_once_it_is_in_the_log() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.commit(reader, 1)
    desk.broken = True
    assert desk.commit(reader, 2) is RefusedByLog
    assert desk.offset() == 1


def test_groups_keep_their_own_positions() -> None:
    desk = Desk()
    desk.commit(None, 5)
    desk.commit(None, 9, group_id="others")
    assert desk.offset() == 5
    assert desk.offset(group_id="others") == 9


def test_a_reader_without_a_group_may_commit_to_an_empty_one() -> None:
    desk = Desk()
    assert desk.commit(None, 5) is None
    assert desk.state == "Empty"
    assert desk.commit(None, 6) is None
    assert desk.restart().state == "Empty"


def test_strangers_may_not_commit_beside_members() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    assert desk.commit(None, 5) is UnknownMember
    assert desk.commit(Reader(member_id="nobody", generation=reader.generation), 5) is UnknownMember
    assert desk.commit(Reader(member_id="nobody"), 5) is UnknownMember
    assert desk.offset() is None


def test_a_member_of_no_group_may_not_commit() -> None:
    desk = Desk()
    assert desk.commit(Reader(member_id="someone", generation=3), 5) is GroupNotFound
    assert desk.log == []


def test_a_member_of_an_empty_group_is_unknown() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.leave(reader)
    assert desk.commit(reader, 5) is UnknownMember
    assert desk.commit(None, 5) is None


def test_a_fenced_generation_may_not_commit() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    stale = Reader(member_id=reader.member_id, generation=reader.generation)
    desk.rebalance([reader])
    assert desk.commit(stale, 5) is IllegalGeneration
    assert desk.commit(reader, 6) is None


def test_commits_during_a_rebalance() -> None:
    desk = Desk()
    first, second = desk.gather(2)
    waiting = desk.join(first)
    # Members still hold their partitions until they join again: they may commit.
    assert desk.commit(second, 7) is None
    desk.learn(second, desk.join(second))
    desk.learn(first, waiting)
    # Now they do not know yet what they hold.
    assert desk.commit(second, 8) is RebalanceInProgress
    assert desk.offset() == 7


def test_a_note_beside_the_offset_has_a_limit() -> None:
    desk = Desk()
    assert desk.commit(None, 1, metadata="x" * 4_096) is None
    assert desk.commit(None, 2, metadata="x" * 4_097) is OffsetMetadataTooLarge
    assert desk.offset() == 1


def test_one_bad_note_does_not_stop_the_rest() -> None:
    desk = Desk()
    command = CommitOffsets(
        group_id=GROUP,
        offsets=(
            ("t", 0, CommittedOffset(offset=1, metadata="x" * 5_000)),
            ("t", 1, CommittedOffset(offset=2)),
        ),
    )
    assert desk.perform(command) == (OffsetMetadataTooLarge, None)
    assert desk.offset(partition=0) is None
    assert desk.offset(partition=1) == 2


# --- deleting -------------------------------------------------------------------------------------


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.commit(reader, 5)
    desk.commit(reader, 6, topic="u", partition=3)
    with pytest.raises(GroupNotEmpty):
        desk.perform(DeleteGroup(group_id=GROUP))
    desk.leave(reader)
    desk.perform(DeleteGroup(group_id=GROUP))
    assert desk.state == "Dead"
    assert desk.offset() is None
    assert isinstance(desk.stored()[-1], GroupForgotten)

    restarted = desk.restart()
    assert restarted.state == "Dead"
    assert not restarted.coordinator.committed(GROUP)


def test_a_group_that_never_was_cannot_be_deleted() -> None:
    with pytest.raises(GroupNotFound):
        Desk().perform(DeleteGroup(group_id=GROUP))
    with pytest.raises(GroupNotFound):
        Desk().perform(ForgetOffsets(group_id=GROUP, partitions=(("t", 0),)))


def test_offsets_of_a_topic_that_members_read_are_kept() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)  # subscribes to t
    desk.commit(reader, 5)
    desk.commit(reader, 6, topic="u")
    command = ForgetOffsets(group_id=GROUP, partitions=(("t", 0), ("u", 0), ("v", 9)))
    assert desk.perform(command) == (GroupSubscribedToTopic, None, None)
    assert desk.offset("t") == 5
    assert desk.offset("u") is None


def test_offsets_of_members_that_say_nothing_of_topics_are_kept() -> None:
    desk = Desk()
    reader = desk.invite(protocol_type="connect")
    desk.learn(reader, desk.join(reader, protocol_type="connect"))
    desk.distribute([reader])
    desk.commit(reader, 5)
    with pytest.raises(GroupNotEmpty):
        desk.perform(ForgetOffsets(group_id=GROUP, partitions=(("t", 0),)))


def test_offsets_of_consumers_whose_metadata_is_opaque_are_kept() -> None:
    desk = Desk()
    opaque = (("range", b"?"),)
    reader = desk.invite(protocols=opaque)
    desk.learn(reader, desk.join(reader, protocols=opaque))
    desk.distribute([reader])
    desk.commit(reader, 5)
    command = ForgetOffsets(group_id=GROUP, partitions=(("t", 0),))
    assert desk.perform(command) == (GroupSubscribedToTopic,)


def test_a_deleted_topic_takes_the_offsets_with_it() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.commit(reader, 5)
    desk.commit(reader, 6, topic="u")
    assert desk.coordinator.offsets.groups_reading("t") == [GROUP]
    desk.perform(ForgetTopic(group_id=GROUP, topic="t"))
    assert desk.offset("t") is None
    assert desk.offset("u") == 6
    assert desk.stored()[-1] == OffsetForgotten(group_id=GROUP, topic="t", partition=0)


# --- expiry ---------------------------------------------------------------------------------------


def test_offsets_expire_seven_days_after_the_last_member_left() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.commit(reader, 5)
    desk.wall_ms += 30 * DAY_MS  # however old the commit is
    desk.expire_offsets()
    assert desk.offset() == 5

    desk.leave(reader)
    desk.wall_ms += 7 * DAY_MS - 1
    desk.expire_offsets()
    assert desk.offset() == 5
    desk.wall_ms += 1
    desk.expire_offsets()
    assert desk.offset() is None
    assert desk.state == "Dead"
    assert not desk.restart().coordinator.groups


def test_offsets_without_a_group_expire_seven_days_after_their_commit() -> None:
    desk = Desk()
    desk.commit(None, 5)
    desk.wall_ms += 4 * DAY_MS
    desk.commit(None, 6, partition=1)
    desk.wall_ms += 4 * DAY_MS
    desk.expire_offsets()
    assert desk.offset(partition=0) is None
    assert desk.offset(partition=1) == 6
    assert desk.state == "Empty"


def test_a_living_group_loses_offsets_of_topics_it_no_longer_reads() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.commit(reader, 5)
    desk.commit(reader, 6, topic="old")
    desk.wall_ms += 7 * DAY_MS
    desk.expire_offsets()
    assert desk.offset("t") == 5
    assert desk.offset("old") is None


def test_nothing_expires_during_a_rebalance() -> None:
    desk = Desk()
    first, _second = desk.gather(2)
    desk.commit(first, 6, topic="old")
    desk.join(first)
    desk.wall_ms += 8 * DAY_MS
    desk.expire_offsets()
    assert desk.offset("old") == 6


def test_an_old_client_says_how_long() -> None:
    desk = Desk()
    desk.commit(None, 5, retention_ms=60_000)
    desk.commit(None, 6, partition=1)
    desk = desk.restart()
    desk.wall_ms += 60_000
    desk.expire_offsets()
    assert desk.offset(partition=0) is None
    assert desk.offset(partition=1) == 6


def test_an_empty_group_without_offsets_is_forgotten() -> None:
    desk = Desk()
    (reader,) = desk.gather(1)
    desk.leave(reader)
    desk.expire_offsets()
    assert desk.state == "Dead"


def test_a_group_with_an_invited_member_is_not_forgotten() -> None:
    desk = Desk()
    invited = desk.invite()
    desk.expire_offsets()
    desk.learn(invited, desk.join(invited))


def test_retention_is_a_setting() -> None:
    desk = Desk(settings=GroupSettings(offsets_retention_ms=1_000, initial_rebalance_delay_ms=0))
    desk.commit(None, 5)
    desk.wall_ms += 1_000
    desk.expire_offsets()
    assert desk.offset() is None


# --- where a group lives --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("readers", 1080410128),
        ("console-consumer-12345", 158455506),
        ("größe", 98762257),
        ("😀-group", -1198440043),
        ("polygenelubricants", -(2**31)),  # the one hash that has no absolute value
    ],
)
def test_a_group_lives_where_kafka_would_put_it(group_id: str, java_hash: int) -> None:
    expected = 0 if java_hash == -(2**31) else abs(java_hash) % 50
    assert partition_for(group_id, 50) == expected
