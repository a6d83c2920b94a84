"""A log whose disk refused something comes back as it was, and durable."""

import pytest

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.log.offline import DirectoryState
from millpond.log.partition_log import PartitionLog
from millpond.log.restore import RestoreImpossible
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import (
    TP,
    append,
    batch,
    compact,
    fill,
    offsets,
    open_log,
    restore,
    values,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


@pytest.fixture
def log(storage: FaultyStorage) -> PartitionLog:
    return open_log(storage, SMALL)


def fail_to_sync(log: PartitionLog, storage: FaultyStorage) -> None:
    plan = log.begin_flush()
    assert plan is not None
    storage.fail_syncs = True
    with pytest.raises(StorageFailure):
        plan.run()
    log.finish_flush(plan)
    storage.fail_syncs = False


@pytest.mark.parametrize("tears", [0, 1, 40, 90])
def test_a_torn_write_is_cut_off(log: PartitionLog, storage: FaultyStorage, tears: int) -> None:
    fill(log, 3)
    storage.fail_writes, storage.write_tears = True, tears
    with pytest.raises(StorageFailure):
        append(log, batch(b"torn" * 20))
    storage.fail_writes = False
    restore(log)
    assert log.active.log.size == len(storage.read_all(log.active.log_path) or b"")
    append(log, batch(b"whole"))
    assert values(log)[-1] == b"whole"
    log.flush()
    storage.kill()
    again = open_log(storage, SMALL)
    assert again.recovery.bytes_truncated == 0
    assert offsets(again) == [0, 1, 2, 3]


def test_it_stays_shut_while_the_disk_fails(log: PartitionLog, storage: FaultyStorage) -> None:
    fill(log, 3)
    storage.fail_writes, storage.write_tears = True, 10
    with pytest.raises(StorageFailure):
        fill(log, 1)
    plan = log.begin_restore()
    assert plan is not None
    storage.fail_syncs = True
    with pytest.raises(StorageFailure):
        plan.run()
    assert log.failure is not None
    with pytest.raises(StorageFailure):
        log.roll(0)
    with pytest.raises(StorageFailure):
        log.truncate_to(1)
    assert not log.roll_if_due(10**15)
    assert log.apply_retention(10**15) == 0
    assert offsets(log) == [0, 1, 2]  # it can be read


@pytest.mark.parametrize("count", [3, 20])
def test_what_a_failed_sync_left_undone_is_written_again(
    log: PartitionLog, storage: FaultyStorage, count: int
) -> None:
    """A second sync would succeed and write nothing: the system takes the pages for clean."""
    fill(log, 2)
    log.flush()
    storage.forgets = True
    fill(log, count)
    fail_to_sync(log, storage)
    restore(log)
    log.flush()
    assert log.recovery_point == log.end_offset == 2 + count
    storage.lose_power()
    assert offsets(open_log(storage, SMALL, recovery_point=2 + count)) == list(range(2 + count))


@pytest.mark.parametrize("synced", [0, 2])
@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("tears", [0, 40])
def test_a_restore_after_a_failed_write_outlives_its_own_failed_syncs(
    log: PartitionLog, storage: FaultyStorage, tears: int, tries: int, synced: int
) -> None:
    """The system takes for clean what the first try could not sync, so the next one writes it again."""
    fill(log, synced)
    log.flush()
    storage.forgets = True
    fill(log, 3)
    storage.fail_writes, storage.write_tears = True, tears
    with pytest.raises(StorageFailure):
        fill(log, 1)
    storage.fail_writes, storage.fail_syncs = False, True
    for _ in range(tries):
        with pytest.raises(StorageFailure):
            restore(log)
    storage.fail_syncs = False
    restore(log)
    log.flush()
    assert log.recovery_point == log.end_offset == synced + 3
    storage.lose_power()
    again = open_log(storage, SMALL, recovery_point=synced + 3)
    assert offsets(again) == list(range(synced + 3))


@pytest.mark.parametrize("fails", ["write", "sync"])
def test_damage_that_is_known_does_not_keep_a_log_shut(storage: FaultyStorage, fails: str) -> None:
    """It was synced before it was damaged, and a repair deals with it."""
    log = open_log(storage, LogConfig())
    fill(log, 5)
    log.flush()
    size = log.active.size // 5
    storage.zero(log.active.log_path, 2 * size, 3 * size)
    with pytest.raises(CorruptLog):
        log.read(2, size, upto=5)
    assert [one.next_offset for one in log.damage] == [3]
    storage.forgets = True
    fill(log, 3)
    if fails == "write":
        storage.fail_writes, storage.write_tears = True, 40
        with pytest.raises(StorageFailure):
            fill(log, 1)
        storage.fail_writes = False
    else:
        fail_to_sync(log, storage)
    restore(log)
    log.flush()
    assert log.recovery_point == log.end_offset == 8
    storage.lose_power()
    again = open_log(storage, LogConfig(), recovery_point=8)
    assert again.end_offset == 8
    assert len(again.read(5, 3 * size, upto=8).data) == 3 * size


def test_a_sync_alone_would_lose_it(log: PartitionLog, storage: FaultyStorage) -> None:
    """The disk of these tests does what disks do: without writing again the records are gone."""
    storage.forgets = True
    fill(log, 3)
    fail_to_sync(log, storage)
    log.failure = None
    log.flush()
    storage.lose_power()
    assert offsets(open_log(storage, SMALL)) == []


def test_what_the_system_has_dropped_is_noticed(log: PartitionLog, storage: FaultyStorage) -> None:
    fill(log, 3)
    fail_to_sync(log, storage)
    storage.zero(log.active.log_path, 60, 200)
    plan = log.begin_restore()
    assert plan is not None
    with pytest.raises(CorruptLog, match="not there any more"):
        plan.run()


def test_only_a_start_finishes_a_swap(log: PartitionLog, storage: FaultyStorage) -> None:
    log.reconfigure(
        LogConfig(
            segment_bytes=300, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
        )
    )
    for number in range(12):
        append(log, batch((b"k", b"%d" % number * 60)))
    plan = log.plan_compaction(10**15)
    assert plan is not None
    result = plan.run()
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        log.install_compaction(result)
    storage.fail_writes = False
    with pytest.raises(RestoreImpossible, match="restarted"):
        log.begin_restore()
    storage.kill()
    assert open_log(storage, log.config).end_offset == 12


def test_a_log_being_rewritten_waits(log: PartitionLog, storage: FaultyStorage) -> None:
    log.reconfigure(
        LogConfig(
            segment_bytes=300, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
        )
    )
    for number in range(12):
        append(log, batch((b"k", b"%d" % number * 60)))
    plan = log.plan_compaction(10**15)
    assert plan is not None
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        append(log, batch((b"k", b"x")))
    storage.fail_writes = False
    with pytest.raises(StorageFailure, match="being rewritten"):
        log.begin_restore()
    log.abandon_compaction(plan)
    restore(log)
    append(log, batch((b"k", b"y")))
    assert compact(log, now_ms=10**15)


# --- the directory --------------------------------------------------------------------------------


def test_a_probe_tells_whether_the_disk_takes_writes(storage: FaultyStorage) -> None:
    directory = LogDir(storage, "data")
    directory.open(1, "c", now_ms=0, config_for=lambda topic: SMALL)
    directory.probe()()
    for name in ("fail_writes", "fail_syncs"):
        setattr(storage, name, True)
        with pytest.raises(StorageFailure):
            directory.probe()()
        setattr(storage, name, False)
    storage.capacity = storage.used + 4096
    with pytest.raises(StorageFailure):
        directory.probe()()
    storage.capacity = None
    directory.probe()()
    assert not [name for name in storage.files() if "probe" in name]


def test_a_log_that_only_lacks_room_is_closed_cleanly(storage: FaultyStorage) -> None:
    directory = LogDir(storage, "data")
    directory.open(1, "c", now_ms=0, config_for=lambda topic: SMALL)
    log = directory.create(TP, SMALL, now_ms=0)
    fill(log, 3)
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        fill(log, 1)
    storage.fail_writes = False
    directory.restore_failed()
    assert directory.failed == []
    assert directory.close(now_ms=0)


def test_a_directory_is_tried_less_and_less_often() -> None:
    state = DirectoryState()
    assert state.on_failure("full", 1000)
    assert not state.on_failure("full again", 1001)
    pauses = []
    now_ms = 1000
    for _ in range(8):
        pauses.append(state.next_try_ms - now_ms)
        now_ms = state.next_try_ms
        state.on_try_failed("still full", now_ms)
    assert pauses == [250, 500, 1000, 2000, 4000, 5000, 5000, 5000]
    state.on_returned(now_ms)
    assert not state.is_offline


def test_a_directory_that_fails_again_soon_waits_longer() -> None:
    state = DirectoryState()
    state.on_failure("full", 0)
    state.on_returned(250)
    state.on_failure("full", 300)
    assert state.next_try_ms == 800
    state.on_returned(800)
    state.on_failure("full", 800 + 60_000)
    assert state.next_try_ms == 800 + 60_000 + 250
