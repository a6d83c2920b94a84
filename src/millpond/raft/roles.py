"""What a replica can be in an epoch, and what it keeps track of while it is that."""

from dataclasses import dataclass, field
from typing import TypeAlias

from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.raft.messages import ReplicaKey, SnapshotId
from millpond.raft.voters import VoterSet


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Knows of no leader: looks for one, and as a voter stands up itself when the time is over."""

    deadline_ms: TimestampMs


@dataclass(slots=True, kw_only=True)
class Ballot:
    """Votes as they come in."""

    granted: set[NodeId] = field(default_factory=set)
    rejected: set[NodeId] = field(default_factory=set)

    def is_won(self, voters: VoterSet) -> bool:
        return len(self.granted & voters.ids) >= voters.majority

    def is_lost(self, voters: VoterSet) -> bool:
        return len(self.rejected & voters.ids) > len(voters) - voters.majority


@dataclass(slots=True, kw_only=True)
class Prospective:
    """Asks whether it would be elected, before it disturbs anybody with a new epoch (KIP-996)."""

    deadline_ms: TimestampMs
    leader: NodeId | None
    ballot: Ballot = field(default_factory=Ballot)


@dataclass(slots=True, kw_only=True)
class Candidate:
    """Asks to be elected in an epoch that it opened."""

    deadline_ms: TimestampMs
    ballot: Ballot = field(default_factory=Ballot)
    # For how long at least nobody who voted for it had backed another leader, when they did.
    silent_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Download:
    """A snapshot on its way here."""

    snapshot: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower:
    """Pulls from the leader; hears nothing for too long, and it stops believing in it."""

    leader: NodeId
    deadline_ms: TimestampMs
    has_fetched: bool = False
    download: Download | None = None
    # What the leader said is agreed; this replica's own log may not have come that far.
    leader_high_watermark: Offset = -1


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far another replica has got, as its fetches say."""

    end_offset: Offset = -1
    fetched_ms: TimestampMs = -1
    caught_up_ms: TimestampMs = -1
    # Where this log ended at its last fetch: who reaches that was caught up then.
    ended_at_fetch: Offset = -1


@dataclass(slots=True, kw_only=True)
class Leader:
    """Appends. Leads as long as a majority keeps fetching."""

    epoch: LeaderEpoch
    start: Offset
    since_ms: TimestampMs
    acknowledged: set[NodeId]
    # Who led the epoch before, if that is known for sure, and until when at least nobody backed it any more,
    # counted back from ``since_ms``.
    predecessor: NodeId | None = None
    unbacked_ms: int = 0
    # Until then it leads without a majority: it was stalled itself, and others had no chance to be heard.
    excused_until_ms: TimestampMs = 0
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Resigned:
    """Led this epoch and may not lead it again."""

    deadline_ms: TimestampMs
    successors: tuple[ReplicaKey, ...]
    told: set[NodeId] = field(default_factory=set)


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned
