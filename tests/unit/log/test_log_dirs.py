"""Several log directories of one node: which are opened, where partitions go, what counts for all of them."""

from itertools import count
from uuid import UUID

import pytest

from millpond.base.errors import DataDirectoryInUse, StorageFailure
from millpond.base.ids import TopicPartition
from millpond.log.checkpoint import NO_EPOCH, Registrations
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir, WrongDirectory
from millpond.log.log_dirs import LogDirs
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import NOW, append, batch

METADATA = TopicPartition("__cluster_metadata", 0)
A, B, C, D = (TopicPartition(name, 0) for name in "abcd")
CONFIG = LogConfig()


def made(
    *disks: FaultyStorage, metadata: FaultyStorage | None = None, names: str = "123"
) -> LogDirs:
    dirs = [
        LogDir(disk, "data", name=f"/disk{name}") for name, disk in zip(names, disks, strict=False)
    ]
    if metadata is None:
        return LogDirs(dirs)
    return LogDirs(dirs, metadata=LogDir(metadata, "data", name="/metadata"))


IDS = count(1000)


def opened(log_dirs: LogDirs, *, cluster: str = "mill", boot_id: str | None = "boot") -> LogDirs:
    log_dirs.open(
        1,
        cluster,
        now_ms=NOW,
        monotonic_ms=0,
        new_id=lambda: UUID(int=next(IDS)),
        boot_id=boot_id,
        config_for=lambda topic: CONFIG,
        first=METADATA,
    )
    return log_dirs


def closed(log_dirs: LogDirs, registrations: Registrations | None = None) -> None:
    assert log_dirs.close(now_ms=NOW, registrations=registrations or Registrations())


@pytest.fixture
def disks() -> list[FaultyStorage]:
    return [FaultyStorage(), FaultyStorage()]


def where(log_dirs: LogDirs, key: TopicPartition) -> str:
    holding = log_dirs.holding(key)
    assert holding is not None
    return holding.name


# --- what is opened -------------------------------------------------------------------------------


def test_each_directory_has_an_identity_of_its_own(disks: list[FaultyStorage]) -> None:
    log_dirs = opened(made(*disks))
    first, second = log_dirs.ids

    assert first != second
    closed(log_dirs)
    again = opened(made(*disks))
    assert again.ids == (first, second)
    assert again.was_clean


def test_partitions_of_all_directories_are_found(disks: list[FaultyStorage]) -> None:
    log_dirs = opened(made(*disks))
    for key in (A, B):
        append(log_dirs.create(key, CONFIG, now_ms=NOW), batch(b"x"))
    assert {where(log_dirs, A), where(log_dirs, B)} == {"/disk1", "/disk2"}
    log_dirs.write_high_watermarks({A: 1, B: 1})
    closed(log_dirs)

    again = opened(made(*disks))
    assert set(again.logs) == {A, B}
    assert again.high_watermarks() == {A: 1, B: 1}
    assert all(log.end_offset == 1 for log in again.logs.values())


def test_a_directory_can_be_added_to_an_old_installation(disks: list[FaultyStorage]) -> None:
    old = opened(made(disks[0]))
    old.create(A, CONFIG, now_ms=NOW)
    old.create(B, CONFIG, now_ms=NOW)
    closed(old, Registrations(broker_epoch=7))

    both = opened(made(*disks))
    assert both.was_clean
    assert both.previous_registrations.broker_epoch == 7
    both.create(C, CONFIG, now_ms=NOW)
    both.create(D, CONFIG, now_ms=NOW)
    assert where(both, C) == where(both, D) == "/disk2"


@pytest.mark.parametrize("failure", ["in use", "not mounted"])
def test_a_directory_that_cannot_be_opened_is_left_out(
    disks: list[FaultyStorage], failure: str
) -> None:
    log_dirs = opened(made(*disks))
    for key in (A, B):
        log_dirs.create(key, CONFIG, now_ms=NOW)
    in_second = next(key for key in (A, B) if where(log_dirs, key) == "/disk2")
    closed(log_dirs)
    if failure == "in use":
        disks[1].lock("data/.lock")
    else:
        disks[1] = FaultyStorage()
        disks[1].fail_writes = True

    again = opened(made(*disks))
    assert set(again.logs) == {A, B} - {in_second}
    assert [one.name for one in again.unopened] == ["/disk2"]
    assert len(again.ids) == 1
    assert not again.was_clean
    # What may lie there is not begun anew; what is new to this node is.
    with pytest.raises(StorageFailure, match=r"may lie in /disk2"):
        again.create(in_second, CONFIG, now_ms=NOW, is_first_here=False)
    again.create(C, CONFIG, now_ms=NOW)
    assert where(again, C) == "/disk1"
    closed(again)


def test_without_the_directory_of_the_metadata_log_nothing_is_opened(
    disks: list[FaultyStorage],
) -> None:
    disks[0].make_dir("data")
    lock = disks[0].lock("data/.lock")
    with pytest.raises(DataDirectoryInUse):
        opened(made(*disks))
    lock.release()
    opened(made(*disks))


def test_a_directory_of_another_cluster_is_refused(disks: list[FaultyStorage]) -> None:
    closed(opened(made(disks[0])))
    closed(opened(made(disks[1]), cluster="other"))
    with pytest.raises(WrongDirectory, match=r"/disk2 belongs to cluster other.*cluster mill"):
        opened(made(*disks))


def test_a_copy_of_a_directory_is_refused(disks: list[FaultyStorage]) -> None:
    closed(opened(made(disks[0])))
    with pytest.raises(WrongDirectory, match=r"same directory.id"):
        opened(made(disks[0], disks[0].copy()))


def test_two_directories_with_the_same_partition_are_refused(disks: list[FaultyStorage]) -> None:
    for disk in disks:
        one = opened(made(disk))
        one.create(A, CONFIG, now_ms=NOW)
        closed(one)
    with pytest.raises(WrongDirectory, match=r"a-0 lies in both /disk1 and /disk2"):
        opened(made(*disks))
    # Nothing is held on to.
    for disk in disks:
        disk.lock("data/.lock").release()


OLD, NEW = UUID(int=77), UUID(int=78)


def left_over(log_dirs: LogDirs, key: TopicPartition) -> LogDir:
    """A topic is deleted while the directory of its partition is offline, and made again elsewhere."""
    append(log_dirs.create(key, CONFIG, OLD, now_ms=NOW), batch(b"old"))
    sick = log_dirs.holding(key)
    assert sick is not None
    assert isinstance(sick.storage, FaultyStorage)
    sick.storage.fail_writes = True
    sick.state.on_failure("input/output error", 0)
    with pytest.raises(StorageFailure):
        log_dirs.delete(key, now_ms=NOW)
    assert log_dirs.holding(key) is None, "it is out of use all the same"
    append(log_dirs.create(key, CONFIG, NEW, now_ms=NOW), batch(b"new", b"new"))
    assert log_dirs.holding(key) is not sick
    return sick


def test_partitions_of_one_name_and_two_topics_are_told_apart(disks: list[FaultyStorage]) -> None:
    log_dirs = opened(made(*disks))
    sick = left_over(log_dirs, A)
    log_dirs.abandon()
    for disk in disks:
        disk.kill()

    again = opened(made(*disks))
    found = {topic_id: one for one, key, topic_id in again.found()}
    assert {topic_id: one.name for topic_id, one in found.items()} == {
        OLD: sick.name,
        NEW: next(one.name for one in again.dirs if one.name != sick.name),
    }
    assert not again.has_lost(A, OLD)
    assert not again.has_lost(A, NEW)
    assert again.has_lost(A, UUID(int=79))
    found[OLD].delete(A, now_ms=NOW)
    assert again.logs[A].end_offset == 2
    assert again.holding(A) is found[NEW]
    closed(again)

    assert [one for _, *one in opened(made(*disks)).found()] == [[A, NEW]]


def test_a_directory_that_could_not_be_renamed_is_when_its_disk_is_back(
    disks: list[FaultyStorage],
) -> None:
    log_dirs = opened(made(*disks))
    sick = left_over(log_dirs, A)
    assert isinstance(sick.storage, FaultyStorage)
    log_dirs.purge(NOW)
    assert sick.has_directory_of(A), "its disk is offline still"
    sick.storage.fail_writes = False
    sick.state.on_returned(0)
    log_dirs.purge(NOW)
    assert not sick.has_directory_of(A)
    assert log_dirs.logs[A].topic_id == NEW
    log_dirs.purge(NOW + CONFIG.file_delete_delay_ms)
    assert not any("-delete" in path for path in sick.storage.files())
    closed(log_dirs)
    assert [one for _, *one in opened(made(*disks)).found()] == [[A, NEW]]


def test_a_log_does_not_begin_with_what_could_not_be_deleted() -> None:
    disk = FaultyStorage()
    log_dirs = opened(made(disk))
    append(log_dirs.create(A, CONFIG, OLD, now_ms=NOW), batch(b"old"))
    disk.fail_writes = True
    with pytest.raises(StorageFailure):
        log_dirs.delete(A, now_ms=NOW)
    with pytest.raises(StorageFailure):
        log_dirs.create(A, CONFIG, NEW, now_ms=NOW)
    disk.fail_writes = False
    log = log_dirs.create(A, CONFIG, NEW, now_ms=NOW)
    assert (log.end_offset, log.topic_id) == (0, NEW)


def test_one_of_two_topics_may_be_unreadable(disks: list[FaultyStorage]) -> None:
    log_dirs = opened(made(*disks))
    sick = left_over(log_dirs, A)
    log_dirs.abandon()
    for disk in disks:
        disk.kill()
    assert isinstance(sick.storage, FaultyStorage)
    sick.storage.fail_reads = ".log"

    again = opened(made(*disks))
    (old,) = (one for one, key, topic_id in again.found() if topic_id == OLD)
    assert A in old.unreadable
    assert not again.has_lost(A, NEW)
    old.delete(A, now_ms=NOW)
    assert A not in again.unreadable
    assert again.logs[A].topic_id == NEW


def test_a_metadata_log_is_not_begun_where_another_lies(disks: list[FaultyStorage]) -> None:
    one = opened(made(disks[0]))
    one.metadata.create(METADATA, CONFIG, now_ms=NOW)
    closed(one)
    before = disks[1].files()
    with pytest.raises(WrongDirectory, match=r"set metadata.log.dir to /disk1"):
        opened(made(disks[1], disks[0], names="21"))
    assert disks[1].files() == before


def test_a_directory_for_the_metadata_log_alone_gets_no_partitions(
    disks: list[FaultyStorage],
) -> None:
    log_dirs = opened(made(disks[0], metadata=disks[1]))
    log_dirs.create(A, CONFIG, now_ms=NOW)
    assert where(log_dirs, A) == "/disk1"
    assert len(log_dirs.ids) == 1
    assert log_dirs.metadata.directory_id not in log_dirs.ids


# --- where a new partition goes -------------------------------------------------------------------


def test_a_partition_goes_where_there_are_fewest(disks: list[FaultyStorage]) -> None:
    log_dirs = opened(made(*disks, FaultyStorage()))
    keys = [TopicPartition("t", n) for n in range(9)]
    for key in keys:
        log_dirs.create(key, CONFIG, now_ms=NOW)
    assert [len(one.logs) for one in log_dirs.dirs] == [3, 3, 3]


def test_a_partition_goes_where_it_is_asked_for_unless_that_is_offline(
    disks: list[FaultyStorage],
) -> None:
    log_dirs = opened(made(*disks))
    second = log_dirs.dirs[1]
    for key in (A, B):
        log_dirs.create(key, CONFIG, now_ms=NOW, within=second.directory_id)
    assert len(second.logs) == 2
    second.state.on_failure("it broke", 0)
    log_dirs.create(C, CONFIG, now_ms=NOW, within=second.directory_id)
    assert where(log_dirs, C) == "/disk1"
    log_dirs.dirs[0].state.on_failure("it broke, too", 0)
    with pytest.raises(StorageFailure, match="every log directory is offline"):
        log_dirs.create(D, CONFIG, now_ms=NOW)


# --- the life before ------------------------------------------------------------------------------


def test_what_was_kept_must_have_been_kept_by_every_directory(disks: list[FaultyStorage]) -> None:
    asked = UUID(int=5)
    log_dirs = opened(made(*disks))
    log_dirs.record_incarnation(Registrations(broker_epoch=3).asked_by(asked))
    log_dirs.abandon()
    kept = opened(made(*disks))
    assert kept.previous_registrations == Registrations(broker_epoch=3).asked_by(asked)

    # Only one of them has heard of the answer: both know who asked.
    kept.dirs[0].record_incarnation(Registrations(broker_epoch=9, incarnation_ids=(asked,)))
    kept.abandon()
    again = opened(made(*disks))
    assert again.previous_registrations == Registrations(
        broker_epoch=NO_EPOCH, incarnation_ids=(asked,)
    )


def test_a_failed_sync_is_the_matter_of_its_directory_and_of_the_node(
    disks: list[FaultyStorage],
) -> None:
    log_dirs = opened(made(*disks))
    log_dirs.create(A, CONFIG, now_ms=NOW)
    log_dirs.create(B, CONFIG, now_ms=NOW)
    log_dirs.record_incarnation(Registrations(broker_epoch=3))
    log_dirs.doubt(B)
    log_dirs.abandon()
    again = opened(made(*disks))
    assert again.dirs[0].previous_registrations.broker_epoch == 3
    assert again.dirs[1].previous_registrations.broker_epoch == NO_EPOCH
    assert again.previous_registrations.broker_epoch == NO_EPOCH


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_directory_that_fails_does_not_keep_others_from_their_checkpoints(
    disks: list[FaultyStorage],
) -> None:
    log_dirs = opened(made(*disks))
    for key in (A, B):
        append(log_dirs.create(key, CONFIG, now_ms=NOW), batch(b"x"))
        log_dirs.logs[key].flush()
    log_dirs.dirs[1].state.on_failure("it broke", 0)
    disks[1].fail_writes = True
    log_dirs.write_checkpoints()
    log_dirs.write_high_watermarks({A: 1, B: 1})
    assert b"a 0 1" in (disks[0].read_all("data/recovery-point-offset-checkpoint") or b"")
    assert disks[1].read_all("data/recovery-point-offset-checkpoint") is None
    log_dirs.dirs[1].state.on_returned(0)
    with pytest.raises(StorageFailure):
        log_dirs.write_high_watermarks({A: 2, B: 2})
    assert b"a 0 2" in (disks[0].read_all("data/replication-offset-checkpoint") or b"")
