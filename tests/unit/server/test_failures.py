"""What is said of a start that failed, and what to do about it."""

import errno
import os
from pathlib import Path

from millpond.base.errors import StorageFailure
from millpond.server.failures import ExitCode, start_failed


def full(path: Path) -> StorageFailure:
    """What a write to a full disk comes to."""
    error = StorageFailure("cannot append")
    error.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path / "log"))
    return error


def test_a_full_disk_under_a_broker_with_data_is_to_be_freed(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    failed = start_failed(full(tmp_path), data=tmp_path)
    assert failed.code == ExitCode.DATA
    # Another directory would be an empty broker.
    assert failed.advice == (f"free space on the disk of {tmp_path}, and start again",)


def test_a_new_broker_may_also_have_another_disk(tmp_path: Path) -> None:
    (advice,) = start_failed(full(tmp_path), data=tmp_path / "new").advice
    assert "free space" in advice
    assert "another disk with --data" in advice
