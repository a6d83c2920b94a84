"""The messages between replicas, and the effects that a replica returns to its host.

The requests are Kafka's quorum APIs as plain values; the host encodes and sends them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base.ids import LeaderEpoch, NodeId, Offset


class ReplicaKey(NamedTuple):
    """One replica: a node and the directory of its log. A wiped disk makes another replica of the node."""

    id: NodeId
    directory: UUID | None = None

    def __str__(self) -> str:
        return str(self.id)


class SnapshotId(NamedTuple):
    """A snapshot contains everything below ``end_offset``; ``epoch`` wrote the last record of it."""

    end_offset: Offset
    epoch: LeaderEpoch


class Refusal(Enum):
    """Why a replica refuses a request."""

    FENCED_EPOCH = "the epoch is over"
    UNKNOWN_EPOCH = "the epoch has not been heard of here"
    NOT_LEADER = "this replica does not lead"
    UNKNOWN_SNAPSHOT = "there is no such snapshot"
    WRONG_POSITION = "the snapshot has no such position"


# --- requests -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Ask for a vote. With ``pre_vote``: ask whether the voter would give it."""

    epoch: LeaderEpoch
    candidate: ReplicaKey
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """Announce the leader of an epoch to a voter, which then fetches from it."""

    epoch: LeaderEpoch
    leader: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpoch:
    """Announce that the leader resigns. The successors with the longest logs come first."""

    epoch: LeaderEpoch
    leader: NodeId
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Ask for records. The sender has everything below ``offset`` durably; ``last_epoch`` wrote the last
    record.

    ``high_watermark`` is what the sender knows to be committed: the leader answers at once if it knows of
    more (KIP-1166); -1 if the sender does not say.
    """

    epoch: LeaderEpoch
    replica: ReplicaKey
    offset: Offset
    last_epoch: LeaderEpoch
    high_watermark: Offset = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot:
    """Ask for a piece of the snapshot."""

    epoch: LeaderEpoch
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot


# --- answers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The fields of every response: the replica's epoch, and the leader of it if known."""

    epoch: LeaderEpoch
    leader: NodeId | None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    """The vote. ``silent_ms``: for how long, at least, this voter had backed no leader when it was asked."""

    granted: bool = False
    silent_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """Where to continue, if the follower's log is a prefix of the leader's; else where they diverge.

    ``read`` says that records from the requested offset may be sent; the host reads them into ``records``.
    """

    high_watermark: Offset = -1
    diverging: tuple[LeaderEpoch, Offset] | None = None
    snapshot: SnapshotId | None = None
    read: bool = False
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer(Answer):
    """A piece of a snapshot; the host reads it into ``data``."""

    snapshot: SnapshotId | None = None
    position: int = 0
    size: int = 0
    data: bytes = b""


# --- effects for the host -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request to that node; call back with the response or the failure."""

    to: NodeId
    request: Request


@dataclass(frozen=True, slots=True)
class Elected:
    """This replica leads the epoch. It knows what was committed before once ``start`` is committed."""

    epoch: LeaderEpoch
    start: Offset


@dataclass(frozen=True, slots=True)
class Deposed:
    """This replica led the epoch and does not lead any more."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader of the epoch changed; None if it is unknown."""

    epoch: LeaderEpoch
    leader: NodeId | None


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below this offset is committed."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log was truncated: the records of this replica from here on were never committed."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """The log was replaced by a snapshot; the host must read its state from it."""

    snapshot: SnapshotId


Effect: TypeAlias = (
    Send | Elected | Deposed | LeaderChanged | Committed | Truncated | SnapshotInstalled
)
