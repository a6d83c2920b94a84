"""One suite for every storage: what the log relies on, true of the disk and of its stand-in alike."""

import errno
import os
import pickle
import resource
from pathlib import Path

import pytest

from millpond.base.errors import DataDirectoryInUse, StorageFailure
from millpond.log.file_storage import FileStorage
from millpond.log.storage import Storage
from tests.support.storage.faulty_storage import FaultyStorage


@pytest.fixture(params=["disk", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    made: Storage = FileStorage(tmp_path) if request.param == "disk" else FaultyStorage()
    made.make_dir("d")
    return made


# --- files ------------------------------------------------------------------------------------


def test_appends_follow_each_other_and_can_be_read(storage: Storage) -> None:
    file = storage.open("d/a", create=True)

    assert file.append(b"one") == 0
    assert file.append(b"two", memoryview(b"three"), bytearray(b"!")) == 3

    assert file.size == 12
    assert file.read(3, 8) == b"twothree"
    assert storage.read_all("d/a") == b"onetwothree!"


def test_reading_past_the_end_gives_what_is_there(storage: Storage) -> None:
    file = storage.open("d/a", create=True)
    file.append(b"abc")

    assert file.read(2, 100) == b"c"
    assert file.read(3, 100) == b""
    assert file.read(99, 1) == b""


def test_a_file_opened_again_goes_on_at_its_end(storage: Storage) -> None:
    storage.open("d/a", create=True).append(b"abc")

    again = storage.open("d/a")

    assert again.size == 3
    assert again.append(b"d") == 3
    assert storage.read_all("d/a") == b"abcd"


def test_a_closed_shared_file_can_be_used_again(storage: Storage) -> None:
    file = storage.open("d/a", create=True)
    file.append(b"abc")
    file.close()

    assert file.read(0, 3) == b"abc"
    file.append(b"d")
    assert file.size == 4


def test_a_file_that_is_missing_is_refused_unless_it_may_be_made(storage: Storage) -> None:
    with pytest.raises(StorageFailure):
        storage.open("d/none")
    with pytest.raises(StorageFailure):
        storage.open("nowhere/none", create=True)
    assert storage.read_all("d/none") is None
    assert not storage.exists("d/none")


def test_truncate_cuts_and_the_next_append_follows(storage: Storage) -> None:
    file = storage.open("d/a", create=True)
    file.append(b"abcdef")

    file.truncate(2)

    assert file.size == 2
    assert file.append(b"z") == 2
    assert storage.read_all("d/a") == b"abz"


def test_private_files_see_what_shared_files_wrote(storage: Storage) -> None:
    shared = storage.open("d/a", create=True)
    shared.append(b"abc")

    private = storage.open("d/a", private=True)

    assert (private.size, private.read(0, 3)) == (3, b"abc")
    private.append(b"d")
    private.sync()
    private.close()
    assert storage.read_all("d/a") == b"abcd"


def test_a_sync_handle_outlives_the_files_name(storage: Storage) -> None:
    file = storage.open("d/a", create=True)
    file.append(b"abc")
    handle = file.sync_handle()
    file.close()
    storage.delete("d/a")

    handle.sync()
    handle.close()


def test_sync_by_name_is_harmless_for_a_file_that_is_gone(storage: Storage) -> None:
    storage.sync_file("d/none")


# --- names ------------------------------------------------------------------------------------


def test_lists_files_and_directories_apart(storage: Storage) -> None:
    storage.open("d/a", create=True)
    storage.make_dir("d/sub/deep")

    assert storage.list("d") == ["a"]
    assert storage.list_dirs("d") == ["sub"]
    assert storage.list_dirs("d/sub") == ["deep"]
    with pytest.raises(StorageFailure):
        storage.list("nowhere")


def test_rename_replaces_and_moves_directories_whole(storage: Storage) -> None:
    storage.open("d/a", create=True).append(b"new")
    storage.open("d/b", create=True).append(b"old")

    storage.rename("d/a", "d/b")
    storage.rename("d", "e")

    assert storage.read_all("e/b") == b"new"
    assert not storage.exists("d")
    with pytest.raises(StorageFailure):
        storage.rename("d", "f")


@pytest.mark.parametrize("durable", [True, False])
def test_replace_writes_the_whole_file_and_leaves_nothing_else(
    storage: Storage, durable: bool
) -> None:
    storage.replace("d/a", b"first, and longer", durable=durable)
    storage.replace("d/a", b"second", durable=durable)

    assert storage.read_all("d/a") == b"second"
    assert storage.list("d") == ["a"]


def test_delete_is_harmless_for_what_is_gone(storage: Storage) -> None:
    storage.open("d/a", create=True)
    storage.make_dir("d/sub")
    storage.open("d/sub/b", create=True)

    storage.delete("d/a")
    storage.delete("d/a")
    storage.delete_tree("d/sub")
    storage.delete_tree("d/sub")

    assert storage.list("d") == []
    assert storage.list_dirs("d") == []


def test_make_dir_is_harmless_when_it_is_there(storage: Storage) -> None:
    storage.make_dir("d")
    storage.sync_dir("d")
    assert storage.exists("d")


def test_one_holder_of_a_lock(storage: Storage) -> None:
    held = storage.lock("d/.lock")

    with pytest.raises(DataDirectoryInUse):
        storage.lock("d/.lock")

    held.release()
    storage.lock("d/.lock").release()


# --- the disk alone ---------------------------------------------------------------------------


def test_descriptors_are_bounded_and_files_do_not_notice(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path, open_files_max=3)
    files = [storage.open(f"f{number}", create=True) for number in range(10)]

    for round_number in range(3):
        for number, file in enumerate(files):
            assert file.append(b"%d" % number) == round_number
            assert storage.open_files <= 3

    assert [file.read(0, 3) for file in files] == [b"%d" % n * 3 for n in range(10)]


def test_a_file_in_use_keeps_its_descriptor_longest(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path, open_files_max=2)
    busy = storage.open("busy", create=True)
    busy.append(b"x")
    storage.open("idle", create=True)

    storage.open("third", create=True)
    (tmp_path / "busy").rename(tmp_path / "moved")

    busy.append(b"y")  # would fail if the descriptor had been given up
    assert (tmp_path / "moved").read_bytes() == b"xy"


def test_eviction_does_not_disturb_a_sync_under_way(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path, open_files_max=1)
    file = storage.open("a", create=True)
    file.append(b"abc")
    handle = file.sync_handle()
    storage.open("b", create=True).append(b"x")  # takes the only place

    handle.sync()


def test_running_out_of_descriptors_makes_room_instead_of_failing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    storage = FileStorage(tmp_path)
    descriptors = Path("/proc/self/fd")
    in_use = len(list(descriptors.iterdir())) if descriptors.exists() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 20, hard))
    try:
        files = [storage.open(f"f{number}", create=True) for number in range(60)]
        for file in files:
            file.append(b"x")
        handles = [file.sync_handle() for file in files[:12]]
        for handle in handles:
            handle.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(file.size == 1 for file in files)


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FileStorage(tmp_path).open("a", create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, data, at: real(fd, bytes(data[0])[:1], at))

    file.append(b"abcdefgh")
    file.append(b"ij", b"klm")

    assert (tmp_path / "a").read_bytes() == b"abcdefghijklm"


def test_a_full_disk_leaves_the_file_as_it_was_and_later_appends_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FileStorage(tmp_path).open("a", create=True)
    file.append(b"kept")
    real = os.pwrite
    answers = iter([3])

    def full(fd: int, data: bytes, at: int) -> int:
        for count in answers:
            return real(fd, bytes(data)[:count], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageFailure, match="No space left"):
            file.append(b"torn off")

    assert (tmp_path / "a").read_bytes() == b"kept"
    assert file.append(b"+") == 4
    assert (tmp_path / "a").read_bytes() == b"kept+"


def test_every_refusal_of_the_system_names_the_file(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    (tmp_path / "dir").mkdir()

    with pytest.raises(StorageFailure, match="dir"):
        storage.open("dir", create=True)
    with pytest.raises(StorageFailure, match="none"):
        storage.list_dirs("none")
    with pytest.raises(StorageFailure, match="none"):
        storage.modified_ms("none")
    with pytest.raises(StorageFailure, match="none"):
        storage.sync_dir("none")


def test_the_storage_can_be_sent_to_another_process(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    storage.open("a", create=True).append(b"abc")

    copy = pickle.loads(pickle.dumps(storage))

    assert copy.read_all("a") == b"abc"
    assert copy.open_files == 0
