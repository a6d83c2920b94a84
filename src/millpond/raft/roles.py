"""The roles of a replica in an epoch, with the state of each."""

from dataclasses import dataclass, field
from typing import TypeAlias

from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.raft.messages import ReplicaKey, SnapshotId
from millpond.raft.voters import VoterSet


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Knows no leader: looks for one, and as a voter becomes a candidate at its deadline."""

    deadline_ms: TimestampMs


@dataclass(slots=True, kw_only=True)
class Ballot:
    """The votes received so far."""

    granted: set[NodeId] = field(default_factory=set)
    rejected: set[NodeId] = field(default_factory=set)

    def is_won(self, voters: VoterSet) -> bool:
        return len(self.granted & voters.ids) >= voters.majority

    def is_lost(self, voters: VoterSet) -> bool:
        return len(self.rejected & voters.ids) > len(voters) - voters.majority


@dataclass(slots=True, kw_only=True)
class Prospective:
    """Asks for pre-votes before it opens a new epoch, which would disturb a working leader (KIP-996)."""

    deadline_ms: TimestampMs
    leader: NodeId | None
    ballot: Ballot = field(default_factory=Ballot)


@dataclass(slots=True, kw_only=True)
class Candidate:
    """Asks to be elected in an epoch that it opened."""

    deadline_ms: TimestampMs
    ballot: Ballot = field(default_factory=Ballot)
    # For how long, at least, the voters for this candidate had backed no other leader when they voted.
    silent_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Download:
    """A snapshot that is being downloaded."""

    snapshot: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower:
    """Fetches from the leader, and gives it up after ``fetch_timeout_ms`` without a response."""

    leader: NodeId
    deadline_ms: TimestampMs
    has_fetched: bool = False
    download: Download | None = None
    # The leader's high watermark; this replica's log may be shorter.
    leader_high_watermark: Offset = -1


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far another replica has got, according to its fetches."""

    end_offset: Offset = -1
    fetched_ms: TimestampMs = -1
    caught_up_ms: TimestampMs = -1
    # Where this log ended at the replica's last fetch: a replica that reaches it was caught up then.
    ended_at_fetch: Offset = -1


@dataclass(slots=True, kw_only=True)
class Leader:
    """Appends records. Leads as long as a majority keeps fetching."""

    epoch: LeaderEpoch
    start: Offset
    since_ms: TimestampMs
    acknowledged: set[NodeId]
    # The leader of the previous epoch, if certain, and the time at which every voter had ceased to back it,
    # counted back from ``since_ms``.
    predecessor: NodeId | None = None
    unbacked_ms: int = 0
    # Until then it leads without a majority: it was stalled itself, and could not hear from the others.
    excused_until_ms: TimestampMs = 0
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Resigned:
    """Led this epoch and may not lead it again."""

    deadline_ms: TimestampMs
    successors: tuple[ReplicaKey, ...]
    told: set[NodeId] = field(default_factory=set)


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned
