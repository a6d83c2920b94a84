"""The quorum's log and vote on a disk that fails: what was claimed is there after any crash."""

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.base.ids import LeaderEpoch, Offset, TopicPartition
from millpond.engine.quorum.metadata_log import METADATA_LOG_CONFIG
from millpond.engine.quorum.metadata_snapshot import snapshot_path, write_snapshot
from millpond.engine.quorum.raft_log import DiskRaftLog, FileElectionStore
from millpond.log.log_dir import LogDir
from millpond.metadata.families import NO_FAMILIES
from millpond.metadata.image import Image
from millpond.raft.messages import ReplicaKey, SnapshotId
from millpond.raft.storage import ElectionState
from millpond.raft.voters import Endpoint, Voter, VoterSet
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import decode_batch
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.storage.log_kit import restore

KEY = TopicPartition("__cluster_metadata", 0)
DIRECTORY = "data/__cluster_metadata-0"
VOTERS = VoterSet(
    Voter(key=ReplicaKey(node, UUID(int=node)), endpoints=(Endpoint("C", f"node{node}", 9092),))
    for node in (1, 2, 3)
)


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return 0


def opened(storage: FaultyStorage) -> DiskRaftLog:
    directory = LogDir(storage, "data")
    directory.open(1, "cluster", now_ms=0, config_for=lambda _topic: METADATA_LOG_CONFIG)
    found = directory.logs.get(KEY) or directory.create(KEY, METADATA_LOG_CONFIG, now_ms=0)
    return DiskRaftLog(found, FixedClock(), NO_FAMILIES)


def batch(*values: int) -> bytearray:
    return build_batch([(0, None, b"%d" % value, ()) for value in values])


def append(log: DiskRaftLog, epoch: LeaderEpoch, *values: int) -> None:
    for value in values:
        log.append_as_leader(batch(value), epoch)


def values_in(log: DiskRaftLog) -> list[int]:
    data = log.read(log.start_offset, upto=log.end_offset)
    return [
        int(record.value or b"")
        for position, _header in iter_batches(data)
        for record in decode_batch(data, position)
    ]


def snapshot_bytes(end_offset: Offset, epoch: LeaderEpoch) -> bytes:
    storage = FaultyStorage()
    storage.make_dir("d")
    write_snapshot(
        storage, "d", Image(), end_offset=end_offset, epoch=epoch, now_ms=0, voters=VOTERS
    )
    return storage.read_all(snapshot_path("d", SnapshotId(end_offset, epoch))) or b""


def install(log: DiskRaftLog, end_offset: Offset, epoch: LeaderEpoch) -> bool:
    data = snapshot_bytes(end_offset, epoch)
    log.begin_snapshot(SnapshotId(end_offset, epoch))
    for position in range(0, len(data), 70):
        log.write_snapshot(position, data[position : position + 70])
    return log.install_snapshot()


# --- what the log says of itself ------------------------------------------------------------------


def test_epochs_and_where_they_end() -> None:
    log = opened(FaultyStorage())
    assert (log.last_epoch, log.epoch_end(5)) == (0, (-1, -1))
    append(log, 2, 0, 1, 2)
    append(log, 5, 3)
    assert log.last_epoch == 5
    assert log.epoch_end(1) == (-1, -1)
    assert log.epoch_end(2) == log.epoch_end(4) == (2, 3)
    assert log.epoch_end(5) == log.epoch_end(9) == (5, 4)


def test_only_what_was_flushed_is_durable() -> None:
    log = opened(FaultyStorage())
    append(log, 1, 0, 1)
    assert log.durable_end == 0
    log.log.flush()
    assert log.durable_end == 2
    append(log, 1, 2)
    assert log.durable_end == 2


def test_a_cut_takes_the_end_and_its_epochs() -> None:
    log = opened(FaultyStorage())
    append(log, 1, 0, 1)
    append(log, 2, 2, 3)
    log.log.flush()
    log.truncate_to(2)
    assert (log.end_offset, log.durable_end, log.last_epoch) == (2, 2, 1)
    append(log, 3, 9)
    assert values_in(log) == [0, 1, 9]
    assert log.epoch_end(2) == (1, 2)


def test_an_append_that_fails_claims_no_epoch() -> None:
    storage = FaultyStorage()
    log = opened(storage)
    append(log, 1, 0)
    storage.capacity = storage.used
    with pytest.raises(StorageFailure):
        append(log, 7, 1)
    storage.capacity = None
    restore(log.log)
    assert (log.last_epoch, log.end_offset) == (1, 1)
    append(log, 2, 5)
    assert log.last_epoch == 2


def test_a_follower_writes_what_its_leader_wrote() -> None:
    leader, follower = opened(FaultyStorage()), opened(FaultyStorage())
    append(leader, 1, 0, 1)
    append(leader, 4, 2)
    follower.append_as_follower(leader.read(0, upto=3))
    assert values_in(follower) == [0, 1, 2]
    assert follower.epoch_end(3) == leader.epoch_end(3) == (1, 2)


# --- snapshots ------------------------------------------------------------------------------------


def test_a_snapshot_in_pieces_takes_the_place_of_the_log() -> None:
    storage = FaultyStorage()
    log = opened(storage)
    append(log, 7, 0, 1, 2)
    log.log.flush()
    assert install(log, 10, 6)
    assert (log.start_offset, log.end_offset, log.durable_end) == (10, 10, 10)
    # What the log had of epoch 7 was never agreed and is not claimed any more.
    assert (log.last_epoch, log.snapshot) == (6, SnapshotId(10, 6))
    loaded = log.take_loaded()
    assert loaded is not None
    assert loaded.voters == VOTERS
    append(log, 6, 10)
    log.log.flush()
    storage.lose_power()
    again = opened(storage)
    assert (again.start_offset, again.end_offset) == (10, 11)
    assert (again.last_epoch, again.epoch_end(9)) == (6, (6, 11))


def test_a_damaged_snapshot_is_refused_and_the_log_stays(caplog: pytest.LogCaptureFixture) -> None:
    log = opened(FaultyStorage())
    append(log, 1, 0, 1)
    data = bytearray(snapshot_bytes(10, 1))
    data[len(data) // 2] ^= 1
    log.begin_snapshot(SnapshotId(10, 1))
    log.write_snapshot(0, bytes(data))
    assert not log.install_snapshot()
    assert "is damaged" in caplog.text
    assert (log.snapshot, values_in(log)) == (None, [0, 1])
    assert install(log, 10, 1)


def test_a_snapshot_of_the_node_itself_keeps_the_log_since_the_one_before() -> None:
    storage = FaultyStorage()
    log = opened(storage)
    ends = []
    for round_ in range(3):
        append(log, 1, *range(round_ * 5, round_ * 5 + 5))
        log.log.flush()
        end = log.end_offset
        ends.append(end)
        write_snapshot(storage, DIRECTORY, Image(), end_offset=end, epoch=1, now_ms=0)
        log.shorten(SnapshotId(end, 1), 0)
    assert log.start_offset == ends[1]
    assert log.snapshot_size(SnapshotId(ends[0], 1)) is None
    assert log.snapshot_size(SnapshotId(ends[1], 1)) == log.snapshot_size(SnapshotId(ends[2], 1))
    again = opened(storage.copy())
    assert (again.snapshot, again.start_offset, again.last_epoch) == (
        SnapshotId(ends[2], 1),
        ends[1],
        1,
    )


def test_a_log_that_parts_from_the_snapshot_below_it_is_given_up() -> None:
    """A crash between the snapshot's arrival and the log's new beginning."""
    storage = FaultyStorage()
    log = opened(storage)
    append(log, 5, *range(20))
    log.log.flush()
    storage.write(snapshot_path(DIRECTORY, SnapshotId(10, 9)), snapshot_bytes(10, 9))
    again = opened(storage.copy())
    assert (again.start_offset, again.end_offset, again.last_epoch) == (10, 10, 9)


# --- crashes --------------------------------------------------------------------------------------


def crashes(act: Callable[[DiskRaftLog], object], *, leaves: tuple[list[int], ...]) -> int:
    """Crash at every change that ``act`` makes to a log of four, with names that were not synced and without.

    It leaves one of these lists, or the snapshot; and the log goes on from there.
    """
    number = 0
    while True:
        for keep_names in (False, True):
            storage = FaultyStorage()
            log = opened(storage)
            append(log, 1, 0, 1)
            append(log, 2, 2, 3)
            log.log.flush()
            storage.crash_at = number
            try:
                act(log)
            except Crash:
                pass
            else:
                return number
            storage.lose_power(keep_names=keep_names)
            again = opened(storage)
            if again.snapshot is None:
                assert values_in(again) in leaves
                assert again.last_epoch == _epoch_of(values_in(again)[-1])
            else:
                assert (again.end_offset, again.last_epoch) == again.snapshot
            # The log can be written to, and what is written is there.
            append(again, 30, 77)
            again.log.flush()
            end = again.end_offset
            storage.lose_power()
            third = opened(storage)
            assert (third.end_offset, third.last_epoch) == (end, 30)
            assert values_in(third)[-1] == 77
        number += 1


def _epoch_of(value: int) -> LeaderEpoch:
    return {0: 1, 1: 1, 2: 2, 3: 2, 4: 2, 9: 3}[value]


def test_a_crash_while_appending_keeps_what_was_durable() -> None:
    def act(log: DiskRaftLog) -> None:
        append(log, 2, 4)
        log.log.flush()

    assert crashes(act, leaves=([0, 1, 2, 3], [0, 1, 2, 3, 4])) >= 2


def test_a_crash_while_cutting_keeps_what_is_not_cut() -> None:
    def act(log: DiskRaftLog) -> None:
        log.truncate_to(2)
        append(log, 3, 9)
        log.log.flush()

    assert crashes(act, leaves=([0, 1, 2, 3], [0, 1], [0, 1, 9])) > 3


def test_a_crash_while_a_snapshot_is_installed_leaves_the_old_log_or_the_snapshot() -> None:
    assert crashes(lambda log: install(log, 10, 20), leaves=([0, 1, 2, 3],)) > 5


def test_a_crash_while_a_shorter_snapshot_is_installed() -> None:
    """It ends below this log's end: only the epoch at its end tells that the log parts from it."""
    assert crashes(lambda log: install(log, 3, 20), leaves=([0, 1, 2, 3],)) > 5


# --- the vote -------------------------------------------------------------------------------------


def test_a_vote_is_there_after_a_crash_at_any_point() -> None:
    before = ElectionState(epoch=3, voted=ReplicaKey(1, UUID(int=9)))
    after = ElectionState(epoch=4, leader=2, voted=ReplicaKey(2))
    number = 0
    while True:
        storage = FaultyStorage()
        storage.make_dir("d")
        storage.sync_dir("")
        store = FileElectionStore(storage, "d")
        store.save(before)
        storage.crash_at = number
        try:
            store.save(after)
        except Crash:
            storage.lose_power(keep_names=number % 2 == 0)
            assert FileElectionStore(storage, "d").load() in (before, after)
            number += 1
        else:
            storage.lose_power()
            assert FileElectionStore(storage, "d").load() == after
            break
    assert number > 2


def test_the_vote_is_kafkas_file() -> None:
    storage = FaultyStorage()
    storage.make_dir("d")
    store = FileElectionStore(storage, "d")
    assert store.load() == ElectionState()
    store.save(ElectionState(epoch=7, leader=3))
    assert json.loads(storage.read_all("d/quorum-state") or b"") == {
        "leaderId": 3,
        "leaderEpoch": 7,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }
    storage.write(
        "d/quorum-state",
        b'{"clusterId":"c","leaderId":-1,"leaderEpoch":2,"votedId":5,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":5}],"data_version":0}',
    )
    assert store.load() == ElectionState(epoch=2, voted=ReplicaKey(5))


def test_that_a_disk_was_empty_is_remembered_until_it_has_caught_up() -> None:
    storage = FaultyStorage()
    storage.make_dir("d")
    store = FileElectionStore(storage, "d")
    for state in (
        ElectionState(epoch=7, leader=3, is_blank=True),
        ElectionState(epoch=7, leader=3),
    ):
        store.save(state)
        assert FileElectionStore(storage, "d").load() == state


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"leaderId":1}', b'{"data_version":9}'])
def test_a_vote_that_cannot_be_read_stops_the_start(data: bytes) -> None:
    storage = FaultyStorage()
    storage.make_dir("d")
    storage.write("d/quorum-state", data)
    with pytest.raises(CorruptLog, match="may give two"):
        FileElectionStore(storage, "d").load()
