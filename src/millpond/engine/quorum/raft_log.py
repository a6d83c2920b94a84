"""The quorum's log and vote on the node's disk: ``__cluster_metadata-0``, its snapshots, ``quorum-state``.

Rules:

* What is claimed durable was synced: ``durable_end`` follows the log's recovery point, which a flush moves.
* A vote is on the disk before it is given; a file that holds one and cannot be read stops the start, because
  a replica that forgets its vote may give two.
* A snapshot from the leader is checked from end to end before it takes the log's place. It becomes durable
  first and the log begins anew behind it second; a crash in between is found at the next start, because the
  log does not hold what the snapshot ends with.
* What is read for another replica is checked first: a disk that has damaged something must not be copied.
* A cut is synced before anything is written behind it, so that no disk can bring back what was cut and put it
  behind what came later.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from millpond.base.clock import Clock
from millpond.base.errors import CorruptLog, StorageFailure
from millpond.base.ids import LeaderEpoch, Offset, TimestampMs
from millpond.base.uuids import parse_id, text_id
from millpond.engine.quorum.metadata_snapshot import (
    Snapshot,
    check_snapshot,
    parse_snapshot,
    read_snapshot,
    remove_old_snapshots,
    snapshot_path,
)
from millpond.log.partition_log import PartitionLog
from millpond.log.storage import Storage, StorageFile
from millpond.metadata.families import Families
from millpond.raft.messages import ReplicaKey, SnapshotId
from millpond.raft.storage import ElectionState

log = logging.getLogger(__name__)

ELECTION_FILE = "quorum-state"
_DATA_VERSION = 1
_PART_SUFFIX = ".part"
_NO_CANDIDATE = -1
# Not in Kafka's file, and only there until a node that began with an empty disk has caught up.
_BLANK = "isBlank"

# What one answer to a fetch of the log, or of a snapshot, carries at most.
READ_BYTES = 8 * 1024 * 1024
SNAPSHOT_PIECE_BYTES = 1024 * 1024


class FileElectionStore:
    """The vote in Kafka's ``quorum-state`` file."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._path = f"{directory}/{ELECTION_FILE}"
        self._later: Callable[[str], None] | None = None

    @contextmanager
    def durable_later(self, flush_also: Callable[[str], None]) -> Iterator[None]:
        """Within the block a vote is written, and becomes durable with the next flush of the log.

        For the only voter, which votes for itself: no other replica hears of the vote before that flush.
        """
        self._later = flush_also
        try:
            yield
        finally:
            self._later = None

    def load(self) -> ElectionState:
        data = self._storage.read_all(self._path)
        if data is None or not data.strip(b"\0"):
            # A power cut leaves an empty file of a vote that was not sent to any replica.
            return ElectionState()
        try:
            return _read_state(json.loads(data))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLog(
                f"{self._path} cannot be read ({error}): it holds this node's vote, and a node that forgets "
                "its vote may give two; restore it from a copy, or wipe the node and let it join anew"
            ) from error

    def save(self, state: ElectionState) -> None:
        voted = state.voted or ReplicaKey(_NO_CANDIDATE)
        directory = voted.directory or UUID(int=0)
        document: dict[str, object] = {
            "leaderId": _NO_CANDIDATE if state.leader is None else state.leader,
            "leaderEpoch": state.epoch,
            "votedId": voted.id,
            "votedDirectoryId": text_id(directory),
            "data_version": _DATA_VERSION,
        }
        if state.is_blank:
            document[_BLANK] = True
        data = json.dumps(document, separators=(",", ":")).encode()
        self._storage.replace(self._path, data, durable=self._later is None)
        if self._later is not None:
            self._later(self._path)


def _read_state(document: dict[str, object]) -> ElectionState:
    version = _number(document, "data_version")
    if not 0 <= version <= _DATA_VERSION:
        raise ValueError(f"version {version}; this program reads up to {_DATA_VERSION}")
    leader, voted = _number(document, "leaderId"), _number(document, "votedId")
    directory = UUID(int=0)
    if "votedDirectoryId" in document:
        directory = parse_id(str(document["votedDirectoryId"]))
    return ElectionState(
        epoch=_number(document, "leaderEpoch"),
        leader=None if leader == _NO_CANDIDATE else leader,
        voted=None
        if voted == _NO_CANDIDATE
        else ReplicaKey(voted, directory if directory.int else None),
        is_blank=document.get(_BLANK) is True,
    )


def _number(document: dict[str, object], name: str) -> int:
    value = document[name]
    if not isinstance(value, int):
        raise TypeError(f"{name} is no number")
    return value


class DiskRaftLog:
    """The replicated log over a partition's log. Opened with what its newest snapshot says."""

    def __init__(self, partition_log: PartitionLog, clock: Clock, families: Families) -> None:
        """``families`` are those of the records that it may hold, beside Kafka's."""
        self.log = partition_log
        self.families = families
        self._clock = clock
        self._storage = partition_log.storage
        self._directory = partition_log.directory
        self._incoming: tuple[SnapshotId, StorageFile] | None = None
        # The snapshot that was read at the start or came from the leader, until it is taken.
        self._loaded: Snapshot | None = read_snapshot(
            self._storage,
            self._directory,
            log_start=partition_log.start_offset,
            families=families,
        )
        self.snapshot: SnapshotId | None = self._loaded.id if self._loaded else None
        self._join()

    def _join(self) -> None:
        """Let the log go on behind the snapshot, if it does not hold what the snapshot ends with."""
        for name in self._storage.list(self._directory):
            if name.endswith(_PART_SUFFIX):
                self._storage.delete(f"{self._directory}/{name}")
        if self.snapshot is None:
            return
        end = self.snapshot.end_offset
        if self.log.start_offset == end <= self.log.end_offset:
            if self.log.end_offset == end:
                self.log.epochs.clear()
            return
        if end > self.log.end_offset or self.log.epochs.epoch_at(end - 1) != self.snapshot.epoch:
            self._restart_at(end)

    def take_loaded(self) -> Snapshot | None:
        """The snapshot that was read, once."""
        loaded, self._loaded = self._loaded, None
        return loaded

    # --- what is there ----------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        return self.log.start_offset

    @property
    def end_offset(self) -> Offset:
        return self.log.end_offset

    @property
    def durable_end(self) -> Offset:
        return min(self.log.recovery_point, self.log.end_offset)

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self.epoch_at(self.log.end_offset - 1)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch that wrote an offset at or behind the snapshot's last one; 0 if nothing is there."""
        if offset >= self.log.start_offset:
            return max(self.log.epochs.epoch_at(offset), 0)
        return self.snapshot.epoch if self.snapshot is not None else 0

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        end = self.log.end_offset
        for found, start in reversed(self.log.epochs.entries):
            # An entry that begins at the end has no record.
            if found <= epoch and start < self.log.end_offset:
                return found, end
            end = min(start, end)
        if self.snapshot is not None and self.snapshot.epoch <= epoch:
            return self.snapshot.epoch, self.snapshot.end_offset
        return -1, -1

    def wall_ms(self) -> TimestampMs:
        return self._clock.now_ms()

    def read(self, offset: Offset, *, upto: Offset, bytes_max: int = READ_BYTES) -> bytes:
        """Whole batches from this offset on, at least one if there is one."""
        return bytes(self.log.read(offset, bytes_max, upto=upto, at_least_one=True).data)

    # --- writing ----------------------------------------------------------------------------------

    def append_as_leader(self, batch: bytearray, epoch: LeaderEpoch) -> Offset:
        try:
            info = self.log.append_as_leader(batch, leader_epoch=epoch, now_ms=self._clock.now_ms())
        except StorageFailure:
            # Nothing was written; an epoch without a record must not be claimed.
            self.log.epochs.truncate_end(self.log.end_offset)
            raise
        return info.first_offset

    def append_as_follower(self, records: bytes) -> None:
        try:
            self.log.append_as_follower(records, now_ms=self._clock.now_ms())
        except StorageFailure:
            self.log.epochs.truncate_end(self.log.end_offset)
            raise

    def truncate_to(self, offset: Offset) -> None:
        self.log.truncate_to(offset)
        self.log.active.log.sync()

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        path = snapshot_path(self._directory, snapshot)
        if not self._storage.exists(path):
            return None
        file = self._storage.open(path, private=True)
        try:
            return file.size
        finally:
            file.close()

    def read_piece(self, snapshot: SnapshotId, position: int, bytes_max: int) -> bytes:
        """A piece of a snapshot that is here."""
        file = self._storage.open(snapshot_path(self._directory, snapshot), private=True)
        try:
            return file.read(position, min(bytes_max, SNAPSHOT_PIECE_BYTES))
        finally:
            file.close()

    def damage_of(self, snapshot: SnapshotId) -> str | None:
        """What is wrong with the file of a snapshot; nothing if it is whole."""
        try:
            data = self._storage.read_all(snapshot_path(self._directory, snapshot))
            if data is None:
                return "its file is gone"
            check_snapshot(data)
        except (CorruptLog, StorageFailure) as error:
            return str(error)
        return None

    def begin_snapshot(self, snapshot: SnapshotId) -> None:
        self._give_up_incoming()
        path = snapshot_path(self._directory, snapshot) + _PART_SUFFIX
        self._storage.delete(path)
        self._incoming = snapshot, self._storage.open(path, create=True, private=True)

    def write_snapshot(self, position: int, data: bytes) -> None:
        assert self._incoming is not None
        _snapshot, file = self._incoming
        assert position == file.size
        file.append(data)

    def install_snapshot(self) -> bool:
        assert self._incoming is not None
        snapshot, file = self._incoming
        path = snapshot_path(self._directory, snapshot)
        try:
            loaded = parse_snapshot(snapshot, file.read(0, file.size), self.families)
        except CorruptLog as error:
            log.error(
                "metadata: the snapshot at offset %d that the leader sent is damaged (%s); it is not used "
                "and will be fetched again",
                snapshot.end_offset,
                error,
            )
            self._give_up_incoming()
            return False
        file.sync()
        file.close()
        self._incoming = None
        self._storage.rename(path + _PART_SUFFIX, path)
        self._storage.sync_dir(self._directory)
        self._loaded, self.snapshot = loaded, snapshot
        self._restart_at(snapshot.end_offset)
        remove_old_snapshots(self._storage, self._directory)
        return True

    def shorten(self, snapshot: SnapshotId, now_ms: TimestampMs) -> None:
        """A snapshot of this node's own is durable. The log goes below the one before it, so that replicas
        which are a little behind need no snapshot."""
        before, self.snapshot = self.snapshot, snapshot
        self.log.roll(now_ms)
        if before is not None and before.end_offset > self.log.start_offset:
            self.log.delete_records(before.end_offset)
            self.log.apply_retention(now_ms, upto=before.end_offset)
        remove_old_snapshots(self._storage, self._directory)

    def begin_behind(self, snapshot: SnapshotId, now_ms: TimestampMs) -> None:
        """A snapshot of this node's own is durable and takes the place of all that was agreed before it:
        no replica is served from damaged records."""
        damaged, self.snapshot = self.snapshot, snapshot
        self.log.roll(now_ms)
        if snapshot.end_offset > self.log.start_offset:
            self.log.delete_records(snapshot.end_offset)
            self.log.apply_retention(now_ms, upto=snapshot.end_offset)
        if damaged is not None and damaged != snapshot:
            self._storage.delete(snapshot_path(self._directory, damaged))
        remove_old_snapshots(self._storage, self._directory)

    def _restart_at(self, offset: Offset) -> None:
        # The epochs go first: a log without them does not hold what the snapshot ends with, and is found out.
        self.log.epochs.clear()
        self.log.truncate_fully_and_start_at(offset)
        self._storage.sync_dir(self._directory)

    def _give_up_incoming(self) -> None:
        if self._incoming is not None:
            snapshot, file = self._incoming
            self._incoming = None
            file.close()
            self._storage.delete(snapshot_path(self._directory, snapshot) + _PART_SUFFIX)
