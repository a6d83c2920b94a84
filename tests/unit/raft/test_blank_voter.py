"""A voter with an empty disk: at the birth of a cluster it votes, after a wipe it catches up first."""

import random
from uuid import UUID

import pytest

from millpond.base.ids import NodeId, Offset
from millpond.raft.control import leader_change_batch
from millpond.raft.messages import (
    BeginEpoch,
    Effect,
    EndEpoch,
    Fetch,
    FetchAnswer,
    ReplicaKey,
    Send,
    Vote,
)
from millpond.raft.replica import QuorumSettings, Replica
from millpond.raft.roles import Follower, Unattached
from millpond.raft.storage import ElectionState
from millpond.raft.voters import Voter, VoterHistory, VoterSet
from tests.sim.raft_disk import MemoryLog, MemoryStore
from tests.sim.raft_world import SeededRng

VOTERS = VoterSet(Voter(key=ReplicaKey(node)) for node in (1, 2, 3))


class Two:
    """Node 2 and its disk."""

    def __init__(self) -> None:
        self.log = MemoryLog(UUID(int=2), VOTERS)
        self.store = MemoryStore()
        self.start()

    def start(self) -> None:
        self.replica = Replica(
            ReplicaKey(2, UUID(int=2)),
            log=self.log,
            store=self.store,
            voters=VoterHistory(VOTERS),
            settings=QuorumSettings(),
            rng=SeededRng(random.Random(1)),
            now_ms=0,
        )

    def is_asked(self, epoch: int, *, end_offset: Offset, pre_vote: bool = False) -> bool:
        """Whether it votes for node 3, whose log ends there."""
        request = Vote(
            epoch=epoch,
            candidate=ReplicaKey(3),
            last_epoch=min(end_offset, epoch - 1),
            end_offset=end_offset,
            pre_vote=pre_vote,
        )
        answer, _effects = self.replica.on_vote(request, 0)
        return answer.granted

    def follow(self, leader: NodeId, epoch: int) -> Fetch:
        """It hears of a leader, and what it asks that."""
        _answer, effects = self.replica.on_begin_epoch(BeginEpoch(epoch=epoch, leader=leader), 0)
        return fetch_in(effects)

    def take(self, fetch: Fetch, *, epoch: int, upto: Offset, high_watermark: Offset) -> Fetch:
        """The leader sends batches of this epoch; they are flushed, and it asks for more."""
        leaders = MemoryLog(UUID(int=1), VOTERS)
        leaders.batches = list(self.log.batches)
        while leaders.end_offset < upto:
            leaders.append_as_leader(leader_change_batch(1, VOTERS.ids, {1}, 0), epoch)
        records = leaders.read(self.log.end_offset, upto)
        answer = FetchAnswer(
            epoch=self.replica.epoch,
            leader=1,
            read=True,
            records=records,
            high_watermark=high_watermark,
        )
        effects = self.replica.on_answer(1, fetch, answer, 1)
        self.log.durable_end = self.log.end_offset
        return fetch_in([*effects, *self.replica.on_durable(1)])


def fetch_in(effects: list[Effect]) -> Fetch:
    (found,) = (
        one.request for one in effects if isinstance(one, Send) and isinstance(one.request, Fetch)
    )
    return found


@pytest.mark.parametrize("pre_vote", [True, False])
def test_those_who_have_nothing_elect_one_of_them(pre_vote: bool) -> None:
    assert Two().is_asked(1, end_offset=0, pre_vote=pre_vote)


@pytest.mark.parametrize("pre_vote", [True, False])
def test_an_empty_disk_does_not_elect_who_may_lack_what_a_wiped_one_had(pre_vote: bool) -> None:
    two = Two()
    assert not two.is_asked(6, end_offset=5, pre_vote=pre_vote)
    assert two.replica.epoch == 6, "but it has heard of the epoch"
    two.start()
    assert not two.is_asked(6, end_offset=5, pre_vote=pre_vote)


def test_who_voted_among_the_empty_is_one_of_them_from_then_on() -> None:
    two = Two()
    assert two.is_asked(1, end_offset=0)
    two.start()
    assert two.store.state == ElectionState(epoch=1, voted=ReplicaKey(3))
    assert two.is_asked(2, end_offset=1)


def test_it_votes_again_when_it_has_all_that_its_leader_knows_to_be_agreed() -> None:
    two = Two()
    fetch = two.follow(1, epoch=5)
    fetch = two.take(fetch, epoch=4, upto=2, high_watermark=4)
    assert two.store.state.is_blank, "half of it is missing"
    fetch = two.take(fetch, epoch=4, upto=4, high_watermark=4)
    assert two.store.state.is_blank, "the leader itself does not know yet what was agreed before it"
    fetch = two.take(fetch, epoch=5, upto=5, high_watermark=4)
    assert two.store.state.is_blank
    two.take(fetch, epoch=5, upto=5, high_watermark=5)
    assert not two.store.state.is_blank
    assert two.is_asked(6, end_offset=9)


def test_it_does_not_stand_up_with_half_of_the_log_not_even_after_a_restart() -> None:
    two = Two()
    two.take(two.follow(1, epoch=5), epoch=4, upto=2, high_watermark=4)
    two.start()
    assert isinstance(two.replica.role, Follower)
    end = EndEpoch(epoch=5, leader=1, successors=(two.replica.key,))
    two.replica.on_end_epoch(end, 1)
    for now_ms in range(2, 20_000, 50):
        for effect in two.replica.tick(now_ms):
            assert not (isinstance(effect, Send) and isinstance(effect.request, Vote))
    assert isinstance(two.replica.role, Unattached | Follower)
    assert not two.is_asked(6, end_offset=9)
    assert two.replica.state.is_blank
