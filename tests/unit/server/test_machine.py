"""What the machine says of itself."""

from pathlib import Path

import pytest

from millpond.server.machine import LocalMachine, total_memory


def test_memory_that_is_used_is_seen_and_given_back(tmp_path: Path) -> None:
    machine = LocalMachine(tmp_path)
    machine.give_back()  # what earlier tests of this process have freed would be used again, unseen
    before = machine.read().resident_bytes
    held = bytearray(64 * 1024 * 1024)
    held[::4096] = bytes(len(held[::4096])).replace(b"\0", b"x")
    assert machine.read().resident_bytes - before > 48 * 1024 * 1024
    del held
    machine.give_back()
    assert machine.read().resident_bytes - before < 32 * 1024 * 1024
    assert machine.read().disk_free_bytes > 0


def test_the_disk_that_has_least_counts_and_one_that_is_gone_does_not(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert LocalMachine(gone, tmp_path).read().disk_free_bytes > 0
    with pytest.raises(OSError, match="gone"):
        LocalMachine(gone).read()


def test_a_container_may_have_less_than_its_machine(tmp_path: Path) -> None:
    whole = total_memory(())
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert total_memory((limit, tmp_path / "nothing")) == whole
    limit.write_text("1048576\n")
    assert total_memory((limit,)) == 1_048_576
