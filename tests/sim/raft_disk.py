"""A replica's disk in memory: what was not flushed is gone after a crash."""

from uuid import UUID

from millpond.base.ids import LeaderEpoch, Offset
from millpond.raft.control import voter_sets_in, voters_batch
from millpond.raft.messages import SnapshotId
from millpond.raft.storage import ElectionState
from millpond.raft.voters import VoterSet
from millpond.record.batch import assign_offset, iter_batches, read_header


class Batch:
    """One batch as it stands in a log."""

    __slots__ = ("base", "data", "epoch", "next")

    def __init__(self, data: bytes) -> None:
        header = read_header(data)
        self.base = header.base_offset
        self.next = header.next_offset
        self.epoch = header.leader_epoch
        self.data = data


class MemoryStore:
    """A vote that survives crashes."""

    def __init__(self) -> None:
        self.state = ElectionState()

    def load(self) -> ElectionState:
        return self.state

    def save(self, state: ElectionState) -> None:
        self.state = state


class MemoryLog:
    """A log with a durable and a volatile part, and snapshots that are voters and a count."""

    def __init__(self, directory: UUID, initial: VoterSet) -> None:
        self.directory = directory
        self.initial = initial
        self.batches: list[Batch] = []
        self.snapshot: SnapshotId | None = None
        self.snapshot_data = b""
        self.snapshot_voters: VoterSet | None = None
        self.start_offset: Offset = 0
        self.durable_end: Offset = 0
        self.now_ms = 0
        self._incoming: SnapshotId | None = None
        self._incoming_data = bytearray()

    @property
    def end_offset(self) -> Offset:
        if self.batches:
            return self.batches[-1].next
        return self.snapshot.end_offset if self.snapshot else 0

    @property
    def last_epoch(self) -> LeaderEpoch:
        if self.batches:
            return self.batches[-1].epoch
        return self.snapshot.epoch if self.snapshot else 0

    def wall_ms(self) -> int:
        return self.now_ms

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        found: tuple[LeaderEpoch, Offset] = (-1, -1)
        if self.snapshot is not None and self.snapshot.epoch <= epoch:
            found = self.snapshot.epoch, self.snapshot.end_offset
        for batch in self.batches:
            if batch.epoch > epoch:
                break
            found = batch.epoch, batch.next
        return found

    def append_as_leader(self, batch: bytearray, epoch: LeaderEpoch) -> Offset:
        offset = self.end_offset
        assign_offset(batch, 0, offset, epoch)
        self.batches.append(Batch(bytes(batch)))
        return offset

    def append_as_follower(self, records: bytes) -> None:
        for position, header in iter_batches(records):
            assert header.base_offset == self.end_offset
            assert header.leader_epoch >= self.last_epoch
            self.batches.append(Batch(records[position : position + header.size]))

    def truncate_to(self, offset: Offset) -> None:
        while self.batches and self.batches[-1].base >= offset:
            self.batches.pop()
        assert self.end_offset <= offset or not self.batches
        self.durable_end = min(self.durable_end, self.end_offset)

    def read(self, offset: Offset, count: int) -> bytes:
        """Up to so many batches from the one that begins at this offset."""
        found = [batch for batch in self.batches if batch.base >= offset][:count]
        return b"".join(batch.data for batch in found)

    # --- snapshots --------------------------------------------------------------------------------

    def take_snapshot(self, end_offset: Offset, voters: VoterSet) -> None:
        """Replace everything below by a snapshot; ``end_offset`` is where a batch ends."""
        epoch = self.epoch_at(end_offset - 1)
        self.snapshot = SnapshotId(end_offset, epoch)
        self.snapshot_voters = voters
        self.snapshot_data = bytes(voters_batch(voters, 0))
        self.batches = [batch for batch in self.batches if batch.base >= end_offset]
        self.start_offset = end_offset

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        return next(batch.epoch for batch in self.batches if batch.base <= offset < batch.next)

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        return len(self.snapshot_data) if snapshot == self.snapshot else None

    def begin_snapshot(self, snapshot: SnapshotId) -> None:
        self._incoming = snapshot
        self._incoming_data.clear()

    def write_snapshot(self, position: int, data: bytes) -> None:
        assert position == len(self._incoming_data)
        self._incoming_data += data

    def install_snapshot(self) -> bool:
        assert self._incoming is not None
        self.snapshot, self._incoming = self._incoming, None
        self.snapshot_data = bytes(self._incoming_data)
        ((_offset, self.snapshot_voters),) = voter_sets_in(self.snapshot_data)
        self.batches = []
        self.start_offset = self.durable_end = self.snapshot.end_offset
        return True

    # --- faults -----------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """What was not flushed is gone."""
        self.batches = [batch for batch in self.batches if batch.next <= self.durable_end]
        self._incoming = None
