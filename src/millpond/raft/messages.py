"""What replicas say to each other, and what a replica tells its host.

The requests are Kafka's quorum APIs as plain values; whoever owns the sockets puts them into frames.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base.ids import LeaderEpoch, NodeId, Offset


class ReplicaKey(NamedTuple):
    """One replica: a node and the directory its log is in. A wiped disk makes another replica of a node."""

    id: NodeId
    directory: UUID | None = None

    def __str__(self) -> str:
        return str(self.id)


class SnapshotId(NamedTuple):
    """A snapshot stands for everything below ``end_offset``; ``epoch`` wrote the last of it."""

    end_offset: Offset
    epoch: LeaderEpoch


class Refusal(Enum):
    """Why a replica does not do what another asks."""

    FENCED_EPOCH = "the epoch is over"
    UNKNOWN_EPOCH = "the epoch has not been heard of here"
    NOT_LEADER = "this replica does not lead"
    UNKNOWN_SNAPSHOT = "there is no such snapshot"
    WRONG_POSITION = "the snapshot has no such position"


# --- requests -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Will you have me as the leader? With ``pre_vote``: would you, if I asked?"""

    epoch: LeaderEpoch
    candidate: ReplicaKey
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """I lead this epoch: fetch from me."""

    epoch: LeaderEpoch
    leader: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpoch:
    """I lead no longer. Those whose logs are longest come first among the successors."""

    epoch: LeaderEpoch
    leader: NodeId
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Give me what follows. All below ``offset`` is durable here; ``last_epoch`` wrote the last of it.

    ``high_watermark`` is what the asker knows to be agreed: the leader answers at once if it knows of more
    (KIP-1166); -1 if it does not say.
    """

    epoch: LeaderEpoch
    replica: ReplicaKey
    offset: Offset
    last_epoch: LeaderEpoch
    high_watermark: Offset = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot:
    """Give me a piece of the snapshot."""

    epoch: LeaderEpoch
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot


# --- answers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What every answer says: the epoch here, and who leads it if that is known."""

    epoch: LeaderEpoch
    leader: NodeId | None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    """Yes or no. ``silent_ms``: for how long, at least, this voter had backed no leader when it was asked."""

    granted: bool = False
    silent_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """Where to go on, if the asker's log is a prefix of the leader's; else what to do about that.

    ``read`` says that records from the asked offset may be sent; the host reads them into ``records``.
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


# --- what the host is told ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this to that node; bring the answer, or word that there will be none."""

    to: NodeId
    request: Request


@dataclass(frozen=True, slots=True)
class Elected:
    """This replica leads the epoch. What was committed before is known once ``start`` is committed."""

    epoch: LeaderEpoch
    start: Offset


@dataclass(frozen=True, slots=True)
class Deposed:
    """This replica led the epoch and does so no longer."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Somebody leads the epoch, or nobody that is known here."""

    epoch: LeaderEpoch
    leader: NodeId | None


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below this offset is agreed for good."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log was cut: what this replica had from here on was never agreed."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """The log was replaced by a snapshot; state is to be read from it."""

    snapshot: SnapshotId


Effect: TypeAlias = (
    Send | Elected | Deposed | LeaderChanged | Committed | Truncated | SnapshotInstalled
)
