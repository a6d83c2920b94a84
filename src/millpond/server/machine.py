"""How much memory and disk space the process may use, and how much it uses."""

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from millpond.base.pressure import Readings

_STATM = Path("/proc/self/statm")
_CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class LocalMachine:
    """This one, with the disks where the data is."""

    def __init__(self, *log_dirs: Path) -> None:
        self._log_dirs = log_dirs
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.total_bytes = total_memory(_CGROUPS)
        self._trim = _malloc_trim()

    def read(self) -> Readings:
        return Readings(
            resident_bytes=self._resident_bytes(),
            disk_free_bytes=self._disk_free_bytes(),
        )

    def _disk_free_bytes(self) -> int:
        """Of the disk that has least, of those that can be reached. Raises ``OSError`` if none can."""
        free: list[int] = []
        failure: OSError | None = None
        for path in self._log_dirs:
            try:
                free.append(shutil.disk_usage(path).free)
            except OSError as error:
                failure = error
        if not free and failure is not None:
            raise failure
        return min(free)

    def give_back(self) -> None:
        """Let the kernel have memory that is free and was kept."""
        if self._trim is not None:
            self._trim(0)

    def _resident_bytes(self) -> int:
        """Without pages of files, which the kernel takes back when it needs them.

        Return 0 where the system does not tell: then memory never runs low.
        """
        try:
            _size, resident, shared = _STATM.read_text().split()[:3]
            return (int(resident) - int(shared)) * self._page_bytes
        except (OSError, ValueError):
            return 0


def _malloc_trim() -> Callable[[int], int] | None:
    """The C library's, where it has one (not musl, not macOS)."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


def total_memory(limit_files: tuple[Path, ...]) -> int:
    """Of the machine, or of the container if that may have less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in limit_files:
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):
            continue
    return total
