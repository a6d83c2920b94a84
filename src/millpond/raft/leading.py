"""The leader's computations: followers' progress, the committed offset, and which nodes may become voters."""

from collections.abc import Container
from dataclasses import replace
from uuid import UUID

from millpond.base.errors import (
    NotLeader,
    VoterBehind,
    VoterChangePending,
    VoterExists,
    VoterNotFound,
    VotersSilent,
)
from millpond.base.ids import Offset, TimestampMs
from millpond.raft.messages import Fetch, FetchAnswer, ReplicaKey
from millpond.raft.roles import Leader, Progress, Role
from millpond.raft.storage import RaftLog
from millpond.raft.voters import Voter, VoterHistory, VoterSet

# A leader that is the only voter never loses its quorum.
_NEVER_MS = 2**62

# An observer that was silent for this long is forgotten.
OBSERVER_SILENT_MS_MAX = 5 * 60 * 1000

# Two directories that fetched under one node id within this time are both considered alive.
_CONTESTED_MS = 10_000

# Every client that reaches the port can name replicas; a leader of a real cluster has about a hundred.
OBSERVERS_MAX = 1_000


def judge_fetch(log: RaftLog, request: Fetch) -> FetchAnswer:
    """Compare the follower's log with this one. Return whether it is a prefix, or where they diverge, or the
    snapshot to load.
    """
    offset, last_epoch = request.offset, request.last_epoch
    snapshot = log.snapshot
    answer = FetchAnswer(epoch=request.epoch, leader=None)
    if offset < log.start_offset:
        assert snapshot is not None, "a log that was shortened has a snapshot"
        return replace(answer, snapshot=snapshot)
    if offset == 0 or (snapshot is not None and (offset, last_epoch) == snapshot):
        return replace(answer, read=True)
    epoch, end = log.epoch_end(last_epoch)
    if epoch == last_epoch and end >= offset:
        return replace(answer, read=True)
    if epoch >= 0:
        return replace(answer, diverging=(epoch, end))
    # The follower's last epoch is older than every epoch in this log.
    if snapshot is not None:
        return replace(answer, snapshot=snapshot)
    return replace(answer, diverging=(0, log.start_offset))


def note_fetch(
    role: Leader, voters: VoterSet, request: Fetch, log_end: Offset, now_ms: TimestampMs
) -> None:
    """Note a fetch: the replica has everything below the offset that it asks for."""
    progress = _progress_of(role, voters, request.replica, now_ms)
    if request.offset >= log_end:
        progress.caught_up_ms = max(progress.caught_up_ms, now_ms)
    elif request.offset >= progress.ended_at_fetch >= 0:
        progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
    progress.end_offset = request.offset
    progress.fetched_ms = max(progress.fetched_ms, now_ms)
    progress.ended_at_fetch = log_end


def note_alive(role: Leader, voters: VoterSet, replica: ReplicaKey, now_ms: TimestampMs) -> None:
    """Note that a replica is alive: it loads a snapshot and has no records yet."""
    progress = _progress_of(role, voters, replica, now_ms)
    progress.fetched_ms = max(progress.fetched_ms, now_ms)


def _progress_of(
    role: Leader, voters: VoterSet, replica: ReplicaKey, now_ms: TimestampMs
) -> Progress:
    """Return the progress of a replica. A new replica evicts those that are gone: an observer that left, a
    directory that was replaced; and, if there are too many, the non-voter that was silent longest.
    """
    found = role.progress.get(replica)
    if found is not None:
        return found
    for key, other in tuple(role.progress.items()):
        if now_ms - other.fetched_ms > OBSERVER_SILENT_MS_MAX:
            del role.progress[key]
    if len(role.progress) >= OBSERVERS_MAX:
        idle = [key for key in role.progress if not voters.has(key)] or list(role.progress)
        del role.progress[min(idle, key=lambda key: role.progress[key].fetched_ms)]
    role.progress[replica] = found = Progress(fetched_ms=now_ms)
    return found


def agreed_end(role: Leader, voters: VoterSet, own: ReplicaKey, own_end: Offset) -> Offset:
    """Return the offset up to which a majority has the log durably."""
    ends = sorted((_end_of(role, voters, voter, own, own_end) for voter in voters), reverse=True)
    return ends[voters.majority - 1] if ends else -1


def _end_of(
    role: Leader, voters: VoterSet, voter: Voter, own: ReplicaKey, own_end: Offset
) -> Offset:
    """Return how much of the log a voter certainly has. While several directories fetch under its node id,
    two processes run with the same id, and only what all of them have counts.
    """
    if voter.key.id == own.id and voters.has(own):
        return own_end
    found = latest_progress(role, voters, voter)
    if found is None:
        return -1
    since_ms = found[1].fetched_ms - _CONTESTED_MS
    return min(
        progress.end_offset
        for key, progress in role.progress.items()
        if key.id == voter.key.id and voters.has(key) and progress.fetched_ms >= since_ms
    )


def latest_progress(
    role: Leader, voters: VoterSet, voter: Voter
) -> tuple[ReplicaKey, Progress] | None:
    """Return the progress of a voter. If its directory is unknown, the one that fetched last counts: records
    on a disk that was replaced are gone.
    """
    found = [
        (key, progress)
        for key, progress in role.progress.items()
        if key.id == voter.key.id and voters.has(key)
    ]
    return max(found, key=lambda item: item[1].fetched_ms, default=None)


def quorum_deadline(role: Leader, voters: VoterSet, own: ReplicaKey, limit_ms: int) -> TimestampMs:
    """Return when the leader will have heard nothing from a majority for too long, if no voter fetches until
    then.
    """
    needed = voters.majority - (1 if voters.has(own) else 0)
    if needed <= 0:
        return _NEVER_MS
    heard = {voter.key.id: role.since_ms for voter in voters if voter.key.id != own.id}
    for key, progress in role.progress.items():
        if key.id in heard and voters.has(key):
            heard[key.id] = max(heard[key.id], progress.fetched_ms)
    if len(heard) < needed:
        return _NEVER_MS
    return sorted(heard.values(), reverse=True)[needed - 1] + limit_ms


def successors(role: Leader, voters: VoterSet, own: ReplicaKey) -> tuple[ReplicaKey, ...]:
    """Return the other voters, those with the longest logs first."""
    others = [voter for voter in voters if voter.key.id != own.id]
    others.sort(key=lambda voter: (-_end_of(role, voters, voter, own, -1), voter.key.id))
    return tuple(voter.key for voter in others)


def check_change(role: Role, history: VoterHistory, high_watermark: Offset) -> Leader:
    """Check that voters can be changed now. Return the leader's role. Raises otherwise."""
    if not isinstance(role, Leader):
        raise NotLeader("only the leader of the quorum changes its voters")
    if high_watermark <= role.start:
        raise VoterChangePending(
            "the leader is new and does not know yet what is committed; try again"
        )
    if history.latest_offset >= high_watermark:
        raise VoterChangePending("another change of voters is not committed yet; try again")
    return role


def check_newcomer(
    role: Leader,
    voters: VoterSet,
    voter: Voter,
    *,
    since_ms: TimestampMs,
    registered: Container[UUID] = (),
) -> None:
    """Check that this replica may become a voter: it has been at the end of the log since ``since_ms``. A
    replica that was there before may be on a disk that is gone, and its vote would be lost for ever.

    ``registered`` are the directories that its node has registered. While two directories follow under one
    node id, two processes run with it, and only a registered one is known to belong to the node.
    """
    if voters.get(voter.key.id) is not None:
        raise VoterExists(
            f"node {voter.key} is a voter already; remove it first if its disk is new"
        )
    progress = role.progress.get(voter.key)
    if progress is None or progress.caught_up_ms < max(0, since_ms):
        raise VoterBehind(
            f"node {voter.key} does not follow the quorum's log now, or is behind; start the node with that "
            "directory as an observer and let it catch up first"
        )
    if voter.key.directory not in registered and _is_contested(role, voter.key):
        raise VoterBehind(
            f"two directories follow the quorum's log as node {voter.key.id}, and {voter.key.directory} is "
            "not one that the node has registered: two processes were started with that node.id, or a disk "
            "was replaced a moment ago; stop the wrong process, or try again in a few seconds"
        )


def check_voter(voters: VoterSet, key: ReplicaKey) -> None:
    """Check that this replica is a voter."""
    if not voters.has(key) or voters.get(key.id) is None:
        raise VoterNotFound(f"node {key} does not vote; these do: {sorted(voters.ids)}")


def check_leaver(voters: VoterSet, key: ReplicaKey) -> None:
    """Check that this replica may stop being a voter."""
    check_voter(voters, key)
    if len(voters) == 1:
        raise VoterNotFound(f"node {key} is the only voter; add another one first")


def check_heard(
    role: Leader, voters: VoterSet, own: ReplicaKey, *, needed: int, since_ms: TimestampMs
) -> None:
    """Check that ``needed`` of the future voters have been at the end of the log since ``since_ms``. A voter
    set without them is never committed and cannot be changed any more: an absent voter may have lost its
    disk, and one with a new disk does not vote before it has caught up.
    """
    silent = sorted(
        voter.key.id
        for voter in voters
        if not (voter.key.id == own.id and voters.has(own))
        and _heard_since(role, voters, voter, since_ms) is None
    )
    if len(voters) - len(silent) < needed:
        raise VotersSilent(
            f"these nodes would vote: {sorted(voters.ids)}, and {silent} of them do not follow the quorum's "
            "log now with the disk that has the vote; start them and let them catch up, or remove first the "
            "vote of one that is lost"
        )


def _heard_since(
    role: Leader, voters: VoterSet, voter: Voter, since_ms: TimestampMs
) -> ReplicaKey | None:
    """Return the replica of a voter that has been at the end of the log since ``since_ms``."""
    found = latest_progress(role, voters, voter)
    return found[0] if found is not None and found[1].caught_up_ms >= since_ms else None


def with_directories(
    role: Leader, voters: VoterSet, own: ReplicaKey, *, since_ms: TimestampMs
) -> VoterSet:
    """Return the voters with the directories that they fetch from. Voters from settings have no directories;
    the log names them, so that a wiped disk cannot vote in the name of the disk that it replaced. A voter
    that has not fetched since ``since_ms`` stays without one: its last directory may be the one that was
    replaced.
    """

    def named(voter: Voter) -> Voter:
        if voter.key.directory is not None:
            return voter
        if voter.key.id == own.id:
            return Voter(key=own, endpoints=voter.endpoints)
        found = _heard_since(role, voters, voter, since_ms)
        if found is None or _is_contested(role, found):
            return voter
        return Voter(key=found, endpoints=voter.endpoints)

    return VoterSet(named(voter) for voter in voters)


def _is_contested(role: Leader, replica: ReplicaKey) -> bool:
    """Return whether another directory fetched under the same node id a moment ago."""
    since_ms = role.progress[replica].fetched_ms - _CONTESTED_MS
    return any(
        key.id == replica.id and key != replica and progress.fetched_ms >= since_ms
        for key, progress in role.progress.items()
    )
