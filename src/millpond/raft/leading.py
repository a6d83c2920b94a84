"""What a leader works out: whose log is a prefix of its own, what is agreed, who follows, who may vote."""

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

# An observer that was silent for this long is gone.
OBSERVER_SILENT_MS_MAX = 5 * 60 * 1000

# Disks that spoke under one number this close to each other are both there.
_CONTESTED_MS = 10_000

# Anybody who reaches the port can name replicas; a leader of a real cluster has some hundred.
OBSERVERS_MAX = 1_000


def judge_fetch(log: RaftLog, request: Fetch) -> FetchAnswer:
    """Whether the asker's log, as far as it goes, is this one; else where they part, or what to load."""
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
    # Its last epoch is older than everything here.
    if snapshot is not None:
        return replace(answer, snapshot=snapshot)
    return replace(answer, diverging=(0, log.start_offset))


def note_fetch(
    role: Leader, voters: VoterSet, request: Fetch, log_end: Offset, now_ms: TimestampMs
) -> None:
    """A replica has everything below the offset it asks for."""
    progress = _progress_of(role, voters, request.replica, now_ms)
    if request.offset >= log_end:
        progress.caught_up_ms = max(progress.caught_up_ms, now_ms)
    elif request.offset >= progress.ended_at_fetch >= 0:
        progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
    progress.end_offset = request.offset
    progress.fetched_ms = max(progress.fetched_ms, now_ms)
    progress.ended_at_fetch = log_end


def note_alive(role: Leader, voters: VoterSet, replica: ReplicaKey, now_ms: TimestampMs) -> None:
    """A replica loads a snapshot: it has nothing yet, but it is there."""
    progress = _progress_of(role, voters, replica, now_ms)
    progress.fetched_ms = max(progress.fetched_ms, now_ms)


def _progress_of(
    role: Leader, voters: VoterSet, replica: ReplicaKey, now_ms: TimestampMs
) -> Progress:
    """What is noted of a replica. When a new one comes, those that are gone are forgotten: an observer that
    left, a disk that was replaced; and if there are too many, whoever does not vote and was silent longest.
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
    """Up to where a majority has the log durably."""
    ends = sorted((_end_of(role, voters, voter, own, own_end) for voter in voters), reverse=True)
    return ends[voters.majority - 1] if ends else -1


def _end_of(
    role: Leader, voters: VoterSet, voter: Voter, own: ReplicaKey, own_end: Offset
) -> Offset:
    """How much of the log a voter has for sure. While several disks speak under its number, a node has
    somebody else's id, and only what all of them have counts.
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
    """How far a voter has come. Where its directory is not known, the one that spoke last counts: what was on
    a disk that is gone is gone.
    """
    found = [
        (key, progress)
        for key, progress in role.progress.items()
        if key.id == voter.key.id and voters.has(key)
    ]
    return max(found, key=lambda item: item[1].fetched_ms, default=None)


def quorum_deadline(role: Leader, voters: VoterSet, own: ReplicaKey, limit_ms: int) -> TimestampMs:
    """When a majority will have been silent for too long, if nobody fetches until then."""
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
    """The other voters, those with the longest logs first."""
    others = [voter for voter in voters if voter.key.id != own.id]
    others.sort(key=lambda voter: (-_end_of(role, voters, voter, own, -1), voter.key.id))
    return tuple(voter.key for voter in others)


def check_change(role: Role, history: VoterHistory, high_watermark: Offset) -> Leader:
    """Whether voters can be changed now."""
    if not isinstance(role, Leader):
        raise NotLeader("only the leader of the quorum changes its voters")
    if high_watermark <= role.start:
        raise VoterChangePending(
            "the leader is new and does not know yet what is agreed; try again"
        )
    if history.latest_offset >= high_watermark:
        raise VoterChangePending("another change of voters is not agreed yet; try again")
    return role


def check_newcomer(
    role: Leader,
    voters: VoterSet,
    voter: Voter,
    *,
    since_ms: TimestampMs,
    registered: Container[UUID] = (),
) -> None:
    """Whether this replica may begin to vote: it has been at the end of the log since then. A replica that
    was there before may be on a disk that is gone, and a vote of that one would be lost for ever.

    ``registered`` are the directories that its node has registered. While two directories follow under one
    node id, two processes run with it, and only a registered one is known to be the node's own.
    """
    if voters.get(voter.key.id) is not None:
        raise VoterExists(f"node {voter.key} votes already; remove it first if its disk is new")
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
    """Whether this replica votes."""
    if not voters.has(key) or voters.get(key.id) is None:
        raise VoterNotFound(f"node {key} does not vote; these do: {sorted(voters.ids)}")


def check_leaver(voters: VoterSet, key: ReplicaKey) -> None:
    """Whether this replica may stop voting."""
    check_voter(voters, key)
    if len(voters) == 1:
        raise VoterNotFound(f"node {key} is the only voter; add another one first")


def check_heard(
    role: Leader, voters: VoterSet, own: ReplicaKey, *, needed: int, since_ms: TimestampMs
) -> None:
    """Whether so many of those who would vote have been at the end of the log since then. A set that lacks
    them is never agreed, and cannot be changed any more: a voter that is away may have lost its disk, and one
    whose disk is new votes for nobody before it has caught up.
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
    """The replica of a voter that has been at the end of the log since then."""
    found = latest_progress(role, voters, voter)
    return found[0] if found is not None and found[1].caught_up_ms >= since_ms else None


def with_directories(
    role: Leader, voters: VoterSet, own: ReplicaKey, *, since_ms: TimestampMs
) -> VoterSet:
    """Voters that came from settings have no directories; the log names those that they fetch from, so that
    a wiped disk cannot vote in the name of the one that it replaced. Who has not been heard of since then
    stays without: the disk that it had may be the one that was replaced, and nobody votes with that.
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
    """Whether another disk spoke under the same number a moment ago."""
    since_ms = role.progress[replica].fetched_ms - _CONTESTED_MS
    return any(
        key.id == replica.id and key != replica and progress.fetched_ms >= since_ms
        for key, progress in role.progress.items()
    )
