"""What a replica needs of its disk: a log, and a place for its vote."""

from dataclasses import dataclass
from typing import Protocol

from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.raft.messages import ReplicaKey, SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """What must survive a crash: the epoch, the vote in it, and who was found to lead it."""

    epoch: LeaderEpoch = 0
    leader: NodeId | None = None
    voted: ReplicaKey | None = None
    # It began with an empty disk and has neither voted nor caught up with a leader since. Perhaps the disk
    # was wiped: then it has forgotten what it voted, and what it had.
    is_blank: bool = False


class ElectionStore(Protocol):
    """One small durable value."""

    def load(self) -> ElectionState:
        """What was saved last; the default if nothing ever was."""
        ...

    def save(self, state: ElectionState) -> None:
        """Make it durable before returning. A replica that forgets its vote may give two."""
        ...


class RaftLog(Protocol):
    """The replicated log as the protocol sees it."""

    @property
    def start_offset(self) -> Offset:
        """The first offset that can be read; below it there is only a snapshot."""
        ...

    @property
    def end_offset(self) -> Offset:
        """Where the next record will stand."""
        ...

    @property
    def durable_end(self) -> Offset:
        """Below this everything survives a loss of power."""
        ...

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; of the snapshot if there is none; 0 if there is nothing."""
        ...

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest whole snapshot."""
        ...

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch in the log not above this one, and where it ends; (-1, -1) if there is none."""
        ...

    def wall_ms(self) -> TimestampMs:
        """The time as people see it, for the records that the protocol writes."""
        ...

    def append_as_leader(self, batch: bytearray, epoch: LeaderEpoch) -> Offset:
        """Append one batch at the end, in this epoch; answers its first offset."""
        ...

    def append_as_follower(self, records: bytes) -> None:
        """Append whole batches as they stand in the leader's log."""
        ...

    def truncate_to(self, offset: Offset) -> None:
        """Give up everything from this offset on."""
        ...

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """Bytes of a snapshot that can be read here; nothing if there is no such one."""
        ...

    def begin_snapshot(self, snapshot: SnapshotId) -> None:
        """Make room for a snapshot that comes from the leader; what an earlier try left goes."""
        ...

    def write_snapshot(self, position: int, data: bytes) -> None:
        """The next piece of it."""
        ...

    def install_snapshot(self) -> bool:
        """All of it has come: make it durable, and let the log go on behind it. False if it is damaged."""
        ...
