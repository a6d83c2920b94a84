"""What a replica needs of its disk: a log, and a store for its vote."""

from dataclasses import dataclass
from typing import Protocol

from millpond.base.ids import LeaderEpoch, NodeId, Offset, TimestampMs
from millpond.raft.messages import ReplicaKey, SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The state that must survive a crash: the epoch, the vote in it, and its leader if known."""

    epoch: LeaderEpoch = 0
    leader: NodeId | None = None
    voted: ReplicaKey | None = None
    # It began with an empty disk and has neither voted nor caught up with a leader since. If the disk was
    # wiped, it has lost its vote and its records.
    is_blank: bool = False


class ElectionStore(Protocol):
    """A store for one small durable value."""

    def load(self) -> ElectionState:
        """Return the last saved state; the default if there is none."""
        ...

    def save(self, state: ElectionState) -> None:
        """Make the state durable before returning. A replica that forgets its vote may vote twice."""
        ...


class RaftLog(Protocol):
    """The replicated log as the protocol sees it."""

    @property
    def start_offset(self) -> Offset:
        """The first offset that can be read; everything below is only in a snapshot."""
        ...

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record."""
        ...

    @property
    def durable_end(self) -> Offset:
        """Everything below this offset survives a loss of power."""
        ...

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; of the snapshot if there is none; 0 if there is nothing."""
        ...

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot."""
        ...

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch in the log up to this one, and where it ends; (-1, -1) if there is
        none.
        """
        ...

    def wall_ms(self) -> TimestampMs:
        """Return the wall-clock time, for the records that the protocol writes."""
        ...

    def append_as_leader(self, batch: bytearray, epoch: LeaderEpoch) -> Offset:
        """Append one batch at the end, in this epoch; return its first offset."""
        ...

    def append_as_follower(self, records: bytes) -> None:
        """Append whole batches as they are in the leader's log."""
        ...

    def truncate_to(self, offset: Offset) -> None:
        """Remove everything from this offset on."""
        ...

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """Return the size of a snapshot in bytes; None if this node does not have it."""
        ...

    def begin_snapshot(self, snapshot: SnapshotId) -> None:
        """Prepare to receive a snapshot from the leader, removing an earlier incomplete one."""
        ...

    def write_snapshot(self, position: int, data: bytes) -> None:
        """Write the next piece of the snapshot."""
        ...

    def install_snapshot(self) -> bool:
        """Make the received snapshot durable and continue the log after it. Return False if it is damaged."""
        ...
