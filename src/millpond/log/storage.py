"""The port through which the log accesses a disk; ``file_storage.py`` is the real disk behind it.

Rules:

* Paths are ``/``-separated and relative to the storage's root.
* A shared file (``open``) belongs to the thread that runs the log. The storage may close its descriptor when
  too many are open, and opens it again when needed.
* A private file (``open(..., private=True)``) keeps its own descriptor until it is closed, is not shared, and
  may therefore be used from another thread. So may a ``SyncHandle``: it owns a duplicate of the descriptor,
  which no eviction, truncation or deletion can take away. That is why no lock is needed here.
* An append happens as a whole or not at all: after an error the file is unchanged.
* Every error of the operating system becomes ``StorageFailure``.

It knows nothing of records, segments or offsets.
"""

from typing import Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
Names: TypeAlias = list[str]


class SyncHandle(Protocol):
    """A handle with which any thread can make a file durable."""

    def sync(self) -> None:
        """Make everything written before the handle was made durable; the handle can be used once."""
        ...

    def close(self) -> None:
        """Release an unused handle. Harmless after ``sync``."""
        ...


class StorageFile(Protocol):
    """One file, read anywhere and written at its end."""

    @property
    def size(self) -> int:
        """The bytes in the file, as far as appends through this object know."""
        ...

    def append(self, *buffers: Bytes) -> int:
        """Write all of the buffers at the end, or nothing. Return the position of the first byte."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to ``size`` bytes; fewer at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes."""
        ...

    def sync(self) -> None:
        """Make everything written durable."""
        ...

    def sync_handle(self) -> SyncHandle:
        """Return a handle with which another thread can do the same."""
        ...

    def close(self) -> None:
        """Close the descriptor. A shared file may be used again afterwards."""
        ...


class DirectoryLock(Protocol):
    """An exclusive lock of a directory."""

    def release(self) -> None:
        """Release the lock."""
        ...


class Storage(Protocol):
    """Files and directories under one root."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> StorageFile:
        """Open a file for reading and appending."""
        ...

    def read_all(self, path: str) -> bytes | None:
        """Return the contents of a small file; None if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        ...

    def list(self, path: str) -> Names:
        """Return the regular files of a directory, unsorted."""
        ...

    def list_dirs(self, path: str) -> Names:
        """Return the directories in a directory."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return when the file was last written, in milliseconds since the Unix epoch."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its missing parents."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing an existing file."""
        ...

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a whole small file atomically: a reader sees the old one or the new one."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; harmless when there is none."""
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a directory and everything in it; harmless when there is none."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def sync_file(self, path: str) -> None:
        """Make one file durable by name, from any thread; harmless when it is gone."""
        ...

    def rewrite(self, path: str, start: int) -> None:
        """Rewrite a file's contents from this position on in place, and sync it, from any thread; harmless
        when the file is gone. After a failed sync the system marks the pages as clean, and a second sync
        alone would not write them.
        """
        ...

    def sync_all(self) -> bool:
        """Make everything written so far durable with one call. Return False if the system cannot."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Take a lock that ends with the process. Raises ``DataDirectoryInUse`` if another process has it."""
        ...
