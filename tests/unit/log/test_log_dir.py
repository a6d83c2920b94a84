"""A data directory: identity, lock, what is opened, what is left alone, how it is closed."""

import logging
from pathlib import Path
from uuid import UUID

import pytest

from millpond.base.errors import DataDirectoryInUse, StorageFailure
from millpond.base.ids import TopicPartition
from millpond.base.uuids import parse_id, text_id
from millpond.log import log_dir
from millpond.log.checkpoint import INCARNATION_FILE, NO_REGISTRATIONS, Registrations
from millpond.log.config import LogConfig
from millpond.log.file_storage import FileStorage
from millpond.log.log_dir import LogDir, WrongDirectory
from millpond.log.storage import Names, Storage
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.storage.log_kit import NOW, append, batch, compact, fill, offsets

ORDERS = TopicPartition("orders", 0)
ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
SMALL = LogConfig(segment_bytes=600)


def opened(
    storage: Storage, *, node_id: int = 1, config: LogConfig = SMALL, boot_id: str | None = None
) -> LogDir:
    directory = LogDir(storage, "data")
    directory.open(
        node_id,
        "mill",
        now_ms=NOW,
        directory_id=ID,
        boot_id=boot_id,
        config_for=lambda topic: config,
    )
    return directory


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


# --- identity ---------------------------------------------------------------------------------


def test_a_new_directory_says_whose_it_is(storage: FaultyStorage) -> None:
    directory = opened(storage)

    assert directory.meta is not None
    assert (directory.meta.node_id, directory.meta.cluster_id) == (1, "mill")
    properties = (storage.read_all("data/meta.properties") or b"").decode().split("\n")
    assert "version=1" in properties
    assert "node.id=1" in properties
    assert "cluster.id=mill" in properties
    assert "directory.id=ABEiM0RVZneImaq7zN3u_w" in properties


def test_an_old_directory_keeps_its_own_ids(storage: FaultyStorage) -> None:
    opened(storage).close(now_ms=NOW)
    directory = LogDir(storage, "data")

    directory.open(1, "another", now_ms=NOW, config_for=lambda topic: SMALL)

    assert directory.meta is not None
    assert (directory.meta.cluster_id, directory.meta.directory_id) == ("mill", ID)


def test_who_a_node_is_outlives_a_power_cut(storage: FaultyStorage) -> None:
    opened(storage)
    storage.lose_power()
    directory = LogDir(storage, "data")

    directory.open(
        1, "another", now_ms=NOW, directory_id=UUID(int=5), config_for=lambda topic: SMALL
    )

    assert directory.meta is not None
    assert (directory.meta.cluster_id, directory.meta.directory_id) == ("mill", ID)


def test_another_nodes_directory_is_refused_and_let_go(storage: FaultyStorage) -> None:
    opened(storage).close(now_ms=NOW)

    with pytest.raises(WrongDirectory, match="belongs to node 1"):
        opened(storage, node_id=2)

    opened(storage, node_id=1)  # the lock was given back


def test_kafkas_older_identity_is_understood(storage: FaultyStorage) -> None:
    storage.make_dir("data")
    storage.write("data/meta.properties", b"#comment\nversion=0\nbroker.id=1\ncluster.id=theirs\n")

    directory = opened(storage)

    assert directory.meta is not None
    assert directory.meta.cluster_id == "theirs"
    text = (storage.read_all("data/meta.properties") or b"").decode()
    assert "version=1" in text
    assert parse_id(text.partition("directory.id=")[2].split()[0]) == ID


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"version", b"node.id"])
def test_a_torn_identity_is_written_anew(storage: FaultyStorage, content: bytes) -> None:
    storage.make_dir("data")
    storage.write("data/meta.properties", content)
    assert opened(storage).meta is not None


def test_one_broker_at_a_time(tmp_path: Path) -> None:
    directory = opened(FileStorage(tmp_path))

    with pytest.raises(DataDirectoryInUse, match="holds"):
        opened(FileStorage(tmp_path))

    directory.close(now_ms=NOW)
    opened(FileStorage(tmp_path)).close(now_ms=NOW)


# --- stopping and starting --------------------------------------------------------------------


def test_a_clean_stop_is_believed_once(storage: FaultyStorage) -> None:
    directory = opened(storage)
    assert not directory.was_clean
    fill(directory.create(ORDERS, SMALL, ID, now_ms=NOW), 10)
    assert directory.close(now_ms=NOW)

    directory = opened(storage)
    assert directory.was_clean
    assert directory.reports == []
    assert offsets(directory.logs[ORDERS]) == list(range(10))
    assert directory.logs[ORDERS].recovery_point == 10
    assert directory.logs[ORDERS].topic_id == ID

    storage.kill()
    directory = opened(storage)
    assert not directory.was_clean
    assert [report.topic_partition for report in directory.reports] == [ORDERS]
    assert offsets(directory.logs[ORDERS]) == list(range(10))


def test_what_is_written_down_is_kafkas_text(storage: FaultyStorage) -> None:
    directory = opened(storage)
    log = directory.create(ORDERS, SMALL, now_ms=NOW)
    fill(log, 10)
    log.delete_records(4)
    log.flush()

    directory.write_checkpoints()

    assert storage.read_all("data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 10\n"
    assert storage.read_all("data/log-start-offset-checkpoint") == b"0\n1\norders 0 4\n"
    assert storage.read_all("data/cleaner-offset-checkpoint") == b"0\n0\n"


def test_deleted_records_stay_deleted_without_waiting_for_a_checkpoint(
    storage: FaultyStorage,
) -> None:
    log = opened(storage).create(ORDERS, SMALL, now_ms=NOW)
    fill(log, 10)
    log.delete_records(4)
    storage.kill()

    assert opened(storage).logs[ORDERS].start_offset == 4


def test_how_far_compaction_came_is_remembered(storage: FaultyStorage) -> None:
    table = LogConfig(segment_bytes=600, cleanup_policy=frozenset({"compact"}))
    log = opened(storage, config=table).create(ORDERS, table, now_ms=NOW)
    for number in range(12):
        append(log, batch((b"k%d" % (number % 2), b"v" * 90)))
    assert compact(log)
    cleaned = log.cleaner_offset
    storage.kill()

    log = opened(storage, config=SMALL).logs[ORDERS]  # the topic no longer compacts

    assert log.cleaner_offset == cleaned
    assert log.recovery.damage == []
    assert offsets(log)[-1] == 11


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "meta.properties",
        ".kafka_cleanshutdown",
    ],
)
@pytest.mark.parametrize("how", ["gone", "empty", "torn"])
def test_no_small_file_stops_the_start(storage: FaultyStorage, name: str, how: str) -> None:
    directory = opened(storage)
    fill(directory.create(ORDERS, SMALL, now_ms=NOW), 10)
    directory.close(now_ms=NOW)
    path = f"data/{name}"
    if how == "gone":
        storage.delete(path)
    else:
        storage.cut(path, 0 if how == "empty" else storage.files()[path] // 2)

    directory = opened(storage)

    assert offsets(directory.logs[ORDERS]) == list(range(10))
    fill(directory.logs[ORDERS], 1)


def test_many_logs_are_made_durable_at_once(
    storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_dir, "_SYNC_ALL_FROM", 3)
    directory = opened(storage)
    for number in range(5):
        fill(directory.create(TopicPartition("t", number), SMALL, now_ms=NOW), 3)
    before = storage.changes

    assert directory.close(now_ms=NOW)

    assert storage.changes - before < 5 * 12
    storage.lose_power()
    directory = opened(storage)
    assert directory.was_clean
    assert directory.reports == []
    assert all(offsets(log) == [0, 1, 2] for log in directory.logs.values())
    assert len(directory.logs) == 5


def test_the_disk_can_be_synced_at_once(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    storage.open("a", create=True).append(b"x")
    assert storage.sync_all() in (True, False)


def test_a_life_that_ended_without_a_word_is_known_in_the_same_boot(storage: FaultyStorage) -> None:
    directory = opened(storage, boot_id="today")
    known = Registrations(broker_epoch=7, incarnation_ids=(ID,))
    directory.record_incarnation(known)
    directory.abandon()

    directory = opened(storage, boot_id="today")
    assert directory.previous_registrations == known
    directory.abandon()
    assert opened(storage, boot_id="tomorrow").previous_registrations == NO_REGISTRATIONS


def test_registrations_of_which_no_process_heard_are_known_after_a_clean_stop(
    storage: FaultyStorage,
) -> None:
    asked = Registrations(broker_epoch=7).asked_by(ID).asked_by(UUID(int=8)).asked_by(ID)
    assert asked.incarnation_ids == (UUID(int=8), ID)
    opened(storage, boot_id="today").close(now_ms=0, registrations=asked)

    assert opened(storage, boot_id="tomorrow").previous_registrations == asked


def test_a_life_that_an_earlier_build_noted_is_known(storage: FaultyStorage) -> None:
    opened(storage, boot_id="today").abandon()
    noted = b'{"version": 0, "brokerEpoch": 7, "incarnationId": "%s", "bootId": "today"}'
    storage.replace(f"data/{INCARNATION_FILE}", noted % text_id(ID).encode())

    expected = Registrations(broker_epoch=7, incarnation_ids=(ID,))
    assert opened(storage, boot_id="today").previous_registrations == expected


def test_what_a_failed_sync_may_have_lost_is_in_doubt_for_a_whole_life(
    storage: FaultyStorage,
) -> None:
    directory = opened(storage, boot_id="today")
    directory.record_incarnation(Registrations(broker_epoch=7, incarnation_ids=(ID,)))
    directory.doubt()
    directory.record_incarnation(
        Registrations(broker_epoch=8, incarnation_ids=(ID,))
    )  # it registers again
    directory.abandon()

    directory = opened(storage, boot_id="today")

    assert directory.previous_registrations == NO_REGISTRATIONS


@pytest.mark.parametrize("many", [False, True])
def test_a_stop_that_cannot_sync_is_not_clean(
    storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    monkeypatch.setattr(log_dir, "_SYNC_ALL_FROM", 1 if many else 99)
    directory = opened(storage)
    fill(directory.create(ORDERS, SMALL, now_ms=NOW), 3)
    storage.fail_syncs = True

    assert not directory.close(now_ms=NOW)

    storage.kill()
    directory = opened(storage)
    assert not directory.was_clean
    assert offsets(directory.logs[ORDERS]) == [0, 1, 2]


# --- partitions -------------------------------------------------------------------------------


def test_directories_are_told_apart(
    storage: FaultyStorage, caplog: pytest.LogCaptureFixture
) -> None:
    directory = opened(storage)
    for name in ("a-b", "a.b_c"):
        directory.create(TopicPartition(name, 12), SMALL, now_ms=NOW)
    directory.close(now_ms=NOW)
    for name in ("notes", "x-01", "lost+found", "-3", "x-"):
        storage.make_dir(f"data/{name}")

    with caplog.at_level(logging.WARNING):
        directory = opened(storage)

    assert set(directory.logs) == {TopicPartition("a-b", 12), TopicPartition("a.b_c", 12)}
    assert storage.exists("data/notes")
    assert sum("left alone" in message for message in caplog.messages) == 5


def test_progress_is_told(storage: FaultyStorage) -> None:
    directory = opened(storage)
    for number in range(3):
        directory.create(TopicPartition("t", number), SMALL, now_ms=NOW)
    directory.close(now_ms=NOW)
    seen: list[tuple[int, int, str]] = []

    LogDir(storage, "data").open(
        1,
        "mill",
        now_ms=NOW,
        config_for=lambda topic: SMALL,
        progress=lambda done, total, tp: seen.append((done, total, str(tp))),
    )

    assert seen == [(0, 3, "t-0"), (1, 3, "t-1"), (2, 3, "t-2")]


def test_a_deleted_log_is_gone_at_once_and_its_files_later(storage: FaultyStorage) -> None:
    directory = opened(storage)
    fill(directory.create(ORDERS, SMALL, ID, now_ms=NOW), 10)

    directory.delete(ORDERS, now_ms=NOW)

    assert ORDERS not in directory.logs
    assert not storage.exists("data/orders-0")
    assert storage.exists(f"data/orders-0.{ID.hex}-delete")
    assert directory.purge(NOW + SMALL.file_delete_delay_ms - 1) == 0
    assert directory.purge(NOW + SMALL.file_delete_delay_ms) == 1
    assert storage.list_dirs("data") == []


def test_an_interrupted_deletion_is_finished_by_the_next_start(storage: FaultyStorage) -> None:
    directory = opened(storage)
    fill(directory.create(ORDERS, SMALL, ID, now_ms=NOW), 10)
    directory.delete(ORDERS, now_ms=NOW)
    storage.kill()

    directory = opened(storage)

    assert directory.logs == {}
    assert storage.list_dirs("data") == []


def test_a_name_that_comes_again_begins_at_zero_even_after_a_crash(storage: FaultyStorage) -> None:
    """What was written down about the deleted log must not be applied to the new one."""
    directory = opened(storage)
    log = directory.create(ORDERS, SMALL, now_ms=NOW)
    fill(log, 10)
    log.flush()
    directory.write_checkpoints()
    directory.delete(ORDERS, now_ms=NOW)
    fill(directory.create(ORDERS, SMALL, now_ms=NOW), 2)
    storage.kill()

    log = opened(storage).logs[ORDERS]

    assert (log.start_offset, log.end_offset) == (0, 2)
    assert log.recovery.damage == []


def test_a_long_name_can_be_deleted(tmp_path: Path) -> None:
    directory = opened(FileStorage(tmp_path))
    long_name = TopicPartition("x" * 249, 1)
    directory.create(long_name, SMALL, ID, now_ms=NOW)

    directory.delete(long_name, now_ms=NOW)

    assert directory.purge(NOW + SMALL.file_delete_delay_ms) == 1


class _Unreadable(FaultyStorage):
    """A storage on which one directory cannot be read."""

    def list(self, path: str) -> Names:
        if path == "data/orders-0" and self.broken:
            raise StorageFailure("cannot list data/orders-0: input/output error")
        return super().list(path)

    def make_dir(self, path: str) -> None:
        if path == "data/orders-0" and self.broken:
            raise StorageFailure("cannot make directory data/orders-0: input/output error")
        super().make_dir(path)

    broken = False


def test_a_partition_that_cannot_be_read_is_left_out_and_the_others_are_not() -> None:
    storage = _Unreadable()
    directory = opened(storage)
    other = TopicPartition("other", 0)
    for topic_partition in (ORDERS, other):
        fill(directory.create(topic_partition, SMALL, now_ms=NOW), 3)
    directory.close(now_ms=NOW)
    storage.broken = True

    directory = opened(storage)

    assert list(directory.logs) == [other]
    assert "input/output error" in directory.unreadable[ORDERS]
    # Nobody may believe that this one is closed cleanly.
    assert not directory.close(now_ms=NOW)
    storage.broken = False
    assert not opened(storage).was_clean


def test_a_start_that_dies_leaves_everything_for_the_next(storage: FaultyStorage) -> None:
    directory = opened(storage)
    fill(directory.create(ORDERS, SMALL, now_ms=NOW), 10)
    directory.close(now_ms=NOW)
    change = 0
    while True:
        attempt = storage.copy()
        attempt.crash_at = change
        try:
            opened(attempt)
            break
        except Crash:
            change += 1
        attempt.kill()
        assert offsets(opened(attempt).logs[ORDERS]) == list(range(10))
    assert change > 0
