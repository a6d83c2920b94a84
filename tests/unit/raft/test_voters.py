"""Voters: sets that replace each other in the log, and their form there."""

from uuid import UUID

import pytest

from millpond.base.errors import MalformedData
from millpond.raft.control import leader_change_batch, read_voters, voter_sets_in, voters_batch
from millpond.raft.messages import ReplicaKey
from millpond.raft.voters import Endpoint, Voter, VoterHistory, VoterSet
from millpond.record.batch import assign_offset
from millpond.record.control import MarkerType, marker_type
from millpond.record.records import decode_batch

A = UUID(int=0xA)
B = UUID(int=0xB)


def voter(node: int, directory: UUID | None = None) -> Voter:
    endpoint = Endpoint("CONTROLLER", f"node{node}.example", 9093)
    return Voter(key=ReplicaKey(node, directory), endpoints=(endpoint,))


def test_a_set_is_read_as_it_was_written() -> None:
    voters = VoterSet([voter(1, A), voter(2, B), voter(3)])
    batch = voters_batch(voters, now_ms=5)
    assign_offset(batch, 0, 40, 7)
    ((offset, read),) = voter_sets_in(bytes(batch))
    assert offset == 40
    assert read == voters
    assert [one.endpoints for one in read] == [one.endpoints for one in voters]


def test_a_set_that_is_cut_off_is_refused() -> None:
    (record,) = decode_batch(voters_batch(VoterSet([voter(1, A)]), now_ms=5), 0)
    assert record.value is not None
    for size in range(len(record.value)):
        with pytest.raises(MalformedData):
            read_voters(record.value[:size])


def test_the_first_record_of_an_epoch_is_kafkas() -> None:
    (record,) = decode_batch(leader_change_batch(1, [1, 2], [2], now_ms=5), 0)
    assert marker_type(record) == MarkerType.LEADER_CHANGE
    # version 0, leader 1, two voters, one vote, no tagged fields anywhere
    assert record.value == bytes.fromhex(
        "0000 00000001 03 00000001 00 00000002 00 02 00000002 00 00"
    )


def test_a_wiped_disk_does_not_vote_for_the_disk_it_was() -> None:
    voters = VoterSet([voter(1, A), voter(2)])
    assert voters.has(ReplicaKey(1, A))
    assert not voters.has(ReplicaKey(1, B))
    assert voters.has(ReplicaKey(2, B)), "a voter without a directory is the node itself"
    assert not voters.has(ReplicaKey(3, A))


def test_the_newest_set_counts_and_goes_with_the_log_it_stood_in() -> None:
    first, second, third = (VoterSet(voter(n) for n in range(count)) for count in (3, 4, 5))
    history = VoterHistory(first)
    history.add(10, second)
    history.add(20, third)
    assert history.latest is third
    assert history.at(20) is second
    assert history.at(10) is first
    history.truncate_to(20)
    assert (history.latest, history.latest_offset) == (second, 10)
    history.restart(third, 100)
    assert (history.latest, history.latest_offset) == (third, 99)
