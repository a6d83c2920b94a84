"""What a leader notes of those who follow it: bounded, whoever they say they are."""

from uuid import UUID

import pytest

from millpond.base.errors import VoterBehind, VotersSilent
from millpond.raft.leading import (
    OBSERVER_SILENT_MS_MAX,
    OBSERVERS_MAX,
    agreed_end,
    check_heard,
    check_newcomer,
    latest_progress,
    note_alive,
    note_fetch,
    with_directories,
)
from millpond.raft.messages import Fetch, ReplicaKey
from millpond.raft.roles import Leader
from millpond.raft.voters import Voter, VoterSet

VOTERS = VoterSet(Voter(key=ReplicaKey(node)) for node in (1, 2, 3))
TWO = ReplicaKey(2, UUID(int=2))


def leading() -> Leader:
    return Leader(epoch=1, start=0, since_ms=0, acknowledged=set())


def fetch(replica: ReplicaKey, offset: int = 5) -> Fetch:
    return Fetch(epoch=1, replica=replica, offset=offset, last_epoch=1)


def test_strangers_cannot_fill_a_leaders_memory_nor_push_a_voter_out() -> None:
    role = leading()
    note_fetch(role, VOTERS, fetch(TWO), 5, 0)
    for number in range(3 * OBSERVERS_MAX):
        stranger = ReplicaKey(100 + number % 7, UUID(int=number))
        note_fetch(role, VOTERS, fetch(stranger), 5, 1 + number)
    assert len(role.progress) == OBSERVERS_MAX
    found = latest_progress(role, VOTERS, Voter(key=ReplicaKey(2)))
    assert found is not None
    assert found[0] == TWO


def test_disks_that_are_claimed_for_a_voter_are_bounded_too_and_the_last_one_counts() -> None:
    role = leading()
    for number in range(3 * OBSERVERS_MAX):
        note_alive(role, VOTERS, ReplicaKey(2, UUID(int=1000 + number)), number)
    note_fetch(role, VOTERS, fetch(TWO), 5, 10_000)
    assert len(role.progress) == OBSERVERS_MAX
    found = latest_progress(role, VOTERS, Voter(key=ReplicaKey(2)))
    assert found is not None
    assert (found[0], found[1].end_offset) == (TWO, 5)


def test_an_observer_that_left_is_forgotten_when_the_next_one_comes() -> None:
    role = leading()
    note_fetch(role, VOTERS, fetch(ReplicaKey(7, UUID(int=7))), 5, 0)
    note_fetch(role, VOTERS, fetch(ReplicaKey(8, UUID(int=8))), 5, OBSERVER_SILENT_MS_MAX + 1)
    assert [key.id for key in role.progress] == [8]


def test_a_node_with_a_voters_id_does_not_speak_for_the_voters_disk() -> None:
    role = leading()
    own = ReplicaKey(1, UUID(int=1))
    other = ReplicaKey(2, UUID(int=22))
    note_fetch(role, VOTERS, fetch(TWO, offset=3), 9, 1_000)
    note_fetch(role, VOTERS, fetch(other, offset=9), 9, 1_001)
    assert agreed_end(role, VOTERS, own, 9) == 3
    # The first one was replaced by it, after all: it is not heard of any more.
    note_fetch(role, VOTERS, fetch(other, offset=9), 9, 12_000)
    assert agreed_end(role, VOTERS, own, 9) == 9


OWN = ReplicaKey(1, UUID(int=1))
NEW_TWO = ReplicaKey(2, UUID(int=22))


def test_the_disk_that_was_heard_of_before_a_change_was_asked_for_is_not_written_down() -> None:
    role = leading()
    left = VoterSet(Voter(key=ReplicaKey(node)) for node in (1, 2))
    note_fetch(role, VOTERS, fetch(TWO), 5, 1_000)
    with pytest.raises(VotersSilent, match=r"\[2\] of them do not follow"):
        check_heard(role, left, OWN, needed=2, since_ms=2_000)
    assert {one.key for one in with_directories(role, left, OWN, since_ms=2_000)} == {
        OWN,
        ReplicaKey(2),
    }

    note_fetch(role, VOTERS, fetch(TWO), 5, 2_000)
    check_heard(role, left, OWN, needed=2, since_ms=2_000)
    assert {one.key for one in with_directories(role, left, OWN, since_ms=2_000)} == {OWN, TWO}


def test_a_new_disk_does_not_carry_a_change_before_it_has_caught_up() -> None:
    role = leading()
    left = VoterSet(Voter(key=ReplicaKey(node)) for node in (1, 2))
    note_fetch(role, VOTERS, fetch(NEW_TWO, offset=0), 5, 2_000)
    with pytest.raises(VotersSilent):
        check_heard(role, left, OWN, needed=2, since_ms=2_000)
    note_fetch(role, VOTERS, fetch(NEW_TWO, offset=5), 5, 2_001)
    check_heard(role, left, OWN, needed=2, since_ms=2_000)


def test_a_disk_that_is_named_is_not_heard_of_when_another_one_speaks_in_its_place() -> None:
    role = leading()
    left = VoterSet([Voter(key=OWN), Voter(key=TWO)])
    note_fetch(role, left, fetch(NEW_TWO), 5, 2_000)
    with pytest.raises(VotersSilent, match="remove first the vote of one that is lost"):
        check_heard(role, left, OWN, needed=2, since_ms=2_000)


def test_of_two_disks_that_spoke_a_moment_ago_neither_is_written_down() -> None:
    role = leading()
    note_fetch(role, VOTERS, fetch(TWO), 5, 2_000)
    note_fetch(role, VOTERS, fetch(NEW_TWO), 5, 2_001)
    named = with_directories(role, VOTERS, OWN, since_ms=2_000)
    assert named.get(2) == Voter(key=ReplicaKey(2))
    note_fetch(role, VOTERS, fetch(NEW_TWO), 5, 13_000)
    named = with_directories(role, VOTERS, OWN, since_ms=13_000)
    assert named.get(2) == Voter(key=NEW_TWO)


class TestNewcomers:
    """Whether an observer may begin to vote."""

    OLD = Voter(key=ReplicaKey(4, UUID(int=40)))
    NEW = Voter(key=ReplicaKey(4, UUID(int=41)))

    def test_one_that_follows_the_log_may_vote(self) -> None:
        role = leading()
        note_fetch(role, VOTERS, fetch(self.NEW.key), 5, 1_000)
        check_newcomer(role, VOTERS, self.NEW, since_ms=1_000)

    def test_one_that_has_not_been_at_the_end_since_then_may_not(self) -> None:
        role = leading()
        note_fetch(role, VOTERS, fetch(self.NEW.key), 5, 999)
        note_fetch(role, VOTERS, fetch(self.NEW.key), 6, 2_000)
        with pytest.raises(VoterBehind):
            check_newcomer(role, VOTERS, self.NEW, since_ms=1_000)

    def test_one_that_the_leader_has_never_heard_of_may_not(self) -> None:
        with pytest.raises(VoterBehind):
            check_newcomer(leading(), VOTERS, self.NEW, since_ms=-1_000)

    def test_of_two_disks_that_follow_at_once_only_the_registered_one_may_vote(self) -> None:
        """Two processes have the same node id; the cluster knows one of them."""
        role = leading()
        note_fetch(role, VOTERS, fetch(self.OLD.key), 5, 1_000)
        note_fetch(role, VOTERS, fetch(self.NEW.key), 5, 1_001)
        for wrong in (self.OLD, self.NEW):
            with pytest.raises(VoterBehind, match="two directories"):
                check_newcomer(role, VOTERS, wrong, since_ms=1_000)
        own = frozenset([UUID(int=40)])
        check_newcomer(role, VOTERS, self.OLD, since_ms=1_000, registered=own)
        with pytest.raises(VoterBehind, match="two directories"):
            check_newcomer(role, VOTERS, self.NEW, since_ms=1_000, registered=own)

    def test_a_disk_that_fell_silent_before_does_not_stand_in_the_way(self) -> None:
        role = leading()
        note_fetch(role, VOTERS, fetch(self.OLD.key), 5, 1_000)
        note_fetch(role, VOTERS, fetch(self.NEW.key), 5, 12_000)
        check_newcomer(role, VOTERS, self.NEW, since_ms=11_000)
