"""Begin the quorum's epochs again: the way back for a quorum that was led to the end of them.

Epochs are 32-bit numbers that only grow, and after the last one no leader can be elected. No quorum gets
there by elections; a release before this one could be sent there by one message. What is agreed is kept: the
metadata that this node has become a snapshot of epoch 1 at the offset where its log ends, the log goes on
behind it, and its vote is forgotten. This is safe while every node of the cluster is stopped, if every node
goes on with the same copy: then no replica remembers the epochs that are used again. A node that was left out
stays out: the others do not follow it to the end of the epochs (``raft/epochs.py``).
"""

from dataclasses import dataclass
from typing import Final

from millpond.base.clock import Clock
from millpond.base.errors import StorageFailure
from millpond.base.ids import LeaderEpoch, Offset
from millpond.engine.quorum.metadata_log import METADATA_KEY, METADATA_LOG_CONFIG, read_batches
from millpond.engine.quorum.metadata_snapshot import SUFFIX, snapshot_path, write_snapshot
from millpond.engine.quorum.raft_log import ELECTION_FILE, DiskRaftLog, FileElectionStore
from millpond.log.log_dir import LOCK_FILE
from millpond.log.partition_log import PartitionLog
from millpond.log.storage import Storage
from millpond.metadata.families import Families
from millpond.metadata.image import Image, apply
from millpond.metadata.records import MetadataRecord
from millpond.raft.messages import SnapshotId
from millpond.raft.voters import VoterHistory, VoterSet

DIRECTORY: Final = str(METADATA_KEY)
_FIRST_EPOCH: Final[LeaderEpoch] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """How far a node's copy of the metadata goes, and which epoch it has heard of."""

    end_offset: Offset
    last_epoch: LeaderEpoch
    epoch: LeaderEpoch


def quorum_state(storage: Storage, clock: Clock, families: Families, root: str = "") -> QuorumState:
    """What a stopped node has in its data directory.

    Raises ``DataDirectoryInUse``, ``StorageFailure``, ``CorruptLog``.
    """
    lock = storage.lock(_at(root, LOCK_FILE))
    try:
        log = _open(storage, clock, _at(root, DIRECTORY))
        try:
            return _state(storage, DiskRaftLog(log, clock, families))
        finally:
            log.abandon()
    finally:
        lock.release()


def reset_epochs(storage: Storage, clock: Clock, families: Families, root: str = "") -> QuorumState:
    """Begin again; what was there before. Raises as ``quorum_state`` does. May be run again after a crash."""
    lock = storage.lock(_at(root, LOCK_FILE))
    try:
        log = _open(storage, clock, _at(root, DIRECTORY))
        try:
            return _reset(storage, log, clock, families)
        finally:
            log.close()
    finally:
        lock.release()


def _reset(storage: Storage, log: PartitionLog, clock: Clock, families: Families) -> QuorumState:
    raft_log = DiskRaftLog(log, clock, families)
    before = _state(storage, raft_log)
    history = VoterHistory(VoterSet(()))
    image, start = Image(), 0
    snapshot = raft_log.take_loaded()
    if snapshot is not None:
        image, start = apply(image, snapshot.records), snapshot.id.end_offset
        history.restart(snapshot.voters, start)
    facts: list[MetadataRecord] = []
    for batch in read_batches(raft_log, start, raft_log.end_offset):
        facts += batch.records
        for offset, voters in batch.voters:
            history.add(offset, voters)
    written = SnapshotId(before.end_offset, _FIRST_EPOCH)
    write_snapshot(
        storage,
        log.directory,
        apply(image, facts),
        end_offset=written.end_offset,
        epoch=written.epoch,
        now_ms=clock.now_ms(),
        voters=history.written_at(written.end_offset),
    )
    for name in tuple(storage.list(log.directory)):
        path = f"{log.directory}/{name}"
        if name.endswith(SUFFIX) and path != snapshot_path(log.directory, written):
            storage.delete(path)
    # The log holds nothing of the snapshot's epoch: it goes on behind it.
    DiskRaftLog(log, clock, families)
    storage.delete(f"{log.directory}/{ELECTION_FILE}")
    storage.sync_dir(log.directory)
    return before


def _at(root: str, name: str) -> str:
    return f"{root}/{name}" if root else name


def _open(storage: Storage, clock: Clock, directory: str) -> PartitionLog:
    if not storage.exists(directory):
        raise StorageFailure(f"there is no {DIRECTORY} here: this is no data directory of a node")
    return PartitionLog.open(
        storage, directory, METADATA_KEY, METADATA_LOG_CONFIG, now_ms=clock.now_ms(), clean=False
    )


def _state(storage: Storage, raft_log: DiskRaftLog) -> QuorumState:
    vote = FileElectionStore(storage, raft_log.log.directory).load()
    return QuorumState(
        end_offset=raft_log.end_offset,
        last_epoch=raft_log.last_epoch,
        epoch=max(vote.epoch, raft_log.last_epoch),
    )
