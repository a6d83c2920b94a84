"""A leader that removed itself and was restarted before that was agreed leads until it is (Raft, 4.2.2)."""

import random
from uuid import UUID

from millpond.base.ids import Offset
from millpond.raft.control import leader_change_batch, voters_batch
from millpond.raft.messages import Effect, ReplicaKey, Send, Vote, VoteAnswer
from millpond.raft.replica import QuorumSettings, Replica
from millpond.raft.storage import ElectionState
from millpond.raft.voters import Voter, VoterHistory, VoterSet
from tests.sim.raft_disk import MemoryLog, MemoryStore
from tests.sim.raft_world import SeededRng

ALL = VoterSet(Voter(key=ReplicaKey(node)) for node in (1, 2, 3, 4))
WITHOUT_ONE = ALL.without(1)
LATER_MS = 60_000


def restarted(*, agreed: Offset = 0) -> Replica:
    """Node 1, which wrote the set without itself at offset 1 of epoch 1 and was killed."""
    log = MemoryLog(UUID(int=1), ALL)
    log.append_as_leader(leader_change_batch(1, ALL.ids, {1, 2, 3}, 0), 1)
    log.append_as_leader(voters_batch(WITHOUT_ONE, 0), 1)
    store = MemoryStore()
    store.save(ElectionState(epoch=1, voted=ReplicaKey(1)))
    history = VoterHistory(ALL)
    history.add(1, WITHOUT_ONE)
    replica = Replica(
        ReplicaKey(1, UUID(int=1)),
        log=log,
        store=store,
        voters=history,
        settings=QuorumSettings(),
        rng=SeededRng(random.Random(1)),
        now_ms=0,
    )
    replica.high_watermark = agreed
    return replica


def votes_in(effects: list[Effect]) -> dict[int, Vote]:
    return {
        one.to: one.request
        for one in effects
        if isinstance(one, Send) and isinstance(one.request, Vote)
    }


def test_it_asks_for_the_votes_of_the_others_and_does_not_count_its_own() -> None:
    replica = restarted()
    votes = votes_in(replica.tick(LATER_MS))
    assert set(votes) == {2, 3, 4}

    def grant(node: int) -> list[Effect]:
        answer = VoteAnswer(epoch=replica.epoch, leader=None, granted=True)
        return replica.on_answer(node, votes[node], answer, LATER_MS)

    assert not votes_in(grant(2))  # two of three voters decide, and node 1 is none of them
    votes = votes_in(grant(3))
    assert votes
    assert not any(vote.pre_vote for vote in votes.values())
    grant(2)
    assert not replica.is_leader
    grant(3)
    assert replica.is_leader


def test_it_asks_for_nothing_once_it_knows_that_it_left() -> None:
    assert votes_in(restarted(agreed=2).tick(LATER_MS)) == {}
