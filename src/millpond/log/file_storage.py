"""The real disk behind the port of ``storage.py``: a directory of the operating system.

Shared files give up their descriptors when too many are open, those not used lately first, and open them
again when needed. Private files and sync handles own theirs. Every error of the operating system becomes
``StorageFailure``.
"""

# Paths are plain strings here: building a ``Path`` costs more than most of the calls below.
# ruff: noqa: PTH103, PTH105, PTH108, PTH110, PTH116, PTH120

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
from typing import NoReturn

from millpond.base.errors import DataDirectoryInUse, StorageFailure
from millpond.base.limits import OPEN_FILES_MAX
from millpond.log.storage import Bytes, DirectoryLock, Names, StorageFile, SyncHandle

_TEMPORARY_SUFFIX = ".tmp"
# The size of each read and write when a file is rewritten.
_REWRITE_BYTES = 1024 * 1024
_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)


class FileStorage:
    """A directory of the operating system, with a bounded number of open descriptors."""

    def __init__(
        self, root: str | os.PathLike[str], *, open_files_max: int = OPEN_FILES_MAX
    ) -> None:
        assert open_files_max > 0
        self.root = os.fspath(root)
        self._prefix = self.root.rstrip("/") + "/"
        self._open_files_max = open_files_max
        # In order of opening. A file that was used since the last check gets a second chance, so that the hot
        # path costs one attribute store instead of a move in a list.
        self._open_files: dict[_SharedFile, None] = {}

    def __reduce__(self) -> "tuple[type[FileStorage], tuple[str]]":
        """Pickle it as the same directory, with no descriptors open."""
        return FileStorage, (self.root,)

    @property
    def open_files(self) -> int:
        """The number of descriptors that shared files hold now."""
        return len(self._open_files)

    def open(self, path: str, *, create: bool = False, private: bool = False) -> StorageFile:
        full = self._prefix + path
        if private:
            return _PrivateFile(full, _open_descriptor(full, create=create))
        if create:
            file = _SharedFile(self, full, 0)
            file.size = os.fstat(self.descriptor(file, create=True)).st_size
            return file
        try:
            return _SharedFile(self, full, os.stat(full).st_size)
        except OSError as error:
            _refuse("open", full, error)

    def read_all(self, path: str) -> bytes | None:
        full = self._prefix + path
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            _refuse("open", full, error)
        try:
            return _read_to_end(descriptor)
        except OSError as error:
            _refuse("read", full, error)
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._prefix + path)

    def list(self, path: str) -> Names:
        full = self._prefix + path
        try:
            with os.scandir(full) as entries:
                return [entry.name for entry in entries if entry.is_file()]
        except OSError as error:
            _refuse("list", full, error)

    def list_dirs(self, path: str) -> Names:
        full = self._prefix + path
        try:
            with os.scandir(full) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            _refuse("list", full, error)

    def modified_ms(self, path: str) -> int:
        full = self._prefix + path
        try:
            return os.stat(full).st_mtime_ns // 1_000_000
        except OSError as error:
            _refuse("look at", full, error)

    def make_dir(self, path: str) -> None:
        full = self._prefix + path
        try:
            os.makedirs(full, exist_ok=True)
        except OSError as error:
            _refuse("make directory", full, error)

    def rename(self, old: str, new: str) -> None:
        full = self._prefix + old
        try:
            os.replace(full, self._prefix + new)
        except OSError as error:
            _refuse("rename", full, error)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        full = self._prefix + path
        temporary = full + _TEMPORARY_SUFFIX
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o644)
            try:
                _write_at(descriptor, data, 0)
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, full)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            _refuse("write", full, error)
        if durable:
            self.sync_dir(os.path.dirname(path))

    def delete(self, path: str) -> None:
        full = self._prefix + path
        try:
            os.unlink(full)
        except FileNotFoundError:
            pass
        except OSError as error:
            _refuse("delete", full, error)

    def delete_tree(self, path: str) -> None:
        full = self._prefix + path
        try:
            shutil.rmtree(full)
        except FileNotFoundError:
            pass
        except OSError as error:
            _refuse("delete", full, error)

    def sync_dir(self, path: str) -> None:
        full = self._prefix + path
        try:
            _sync_path(full, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError as error:
            _refuse("sync", full, error)

    def sync_file(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            _sync_path(self._prefix + path, os.O_RDONLY)

    def rewrite(self, path: str, start: int) -> None:
        full = self._prefix + path
        try:
            descriptor = os.open(full, os.O_RDWR | os.O_CLOEXEC)
            try:
                while chunk := os.pread(descriptor, _REWRITE_BYTES, start):
                    _write_at(descriptor, chunk, start)
                    start += len(chunk)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            _refuse("write again", full, error)

    def sync_all(self) -> bool:
        # Not in ``os``: one call for the whole file system instead of several for each of thousands of files.
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            return False
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if syncfs(descriptor) != 0:
                code = ctypes.get_errno()
                _refuse("sync", self.root, OSError(code, os.strerror(code)))
        finally:
            os.close(descriptor)
        return True

    def lock(self, path: str) -> DirectoryLock:
        full = self._prefix + path
        try:
            descriptor = os.open(full, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            _refuse("open", full, error)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                process = f"process {holder}" if holder.isdecimal() else "another process"
                raise DataDirectoryInUse(f"{process} holds {full}") from None
            _refuse("lock", full, error)
        # For the error of a second process: which process holds the directory. On a full disk this may fail.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return _FileLock(descriptor)

    def descriptor(self, file: "_SharedFile", *, create: bool = False) -> int:
        """Open the file's descriptor, closing one that was not used lately if there are too many."""
        if len(self._open_files) >= self._open_files_max:
            self._evict(1)
        try:
            descriptor = _open_descriptor(file.path, create=create)
        except StorageFailure as failure:
            cause = failure.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _TOO_MANY_OPEN:
                raise
            self.make_room()
            descriptor = _open_descriptor(file.path, create=create)
        file.opened(descriptor)
        self._open_files[file] = None
        return descriptor

    def make_room(self) -> None:
        """Close half of the descriptors: the process may allow fewer than we do."""
        self._evict(max(1, len(self._open_files) // 2))

    def forget(self, file: "_SharedFile") -> None:
        """Note that the file has closed its descriptor."""
        self._open_files.pop(file, None)

    def _evict(self, count: int) -> None:
        while count > 0 and self._open_files:
            file = next(iter(self._open_files))
            del self._open_files[file]
            if file.used:
                file.used = False
                self._open_files[file] = None
            else:
                file.close()
                count -= 1


class _SharedFile:
    """A file whose descriptor is opened and closed on demand."""

    __slots__ = ("_descriptor", "_storage", "path", "size", "used")

    def __init__(self, storage: FileStorage, path: str, size: int) -> None:
        self._storage = storage
        self._descriptor = -1
        self.path = path
        self.size = size
        self.used = False

    def append(self, *buffers: Bytes) -> int:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._storage.descriptor(self)
        self.used = True
        position = self.size
        self.size = position + _append(descriptor, self.path, position, buffers)
        return position

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._storage.descriptor(self)
        self.used = True
        try:
            return os.pread(descriptor, size, position)
        except OSError as error:
            _refuse("read", self.path, error)

    def truncate(self, size: int) -> None:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._storage.descriptor(self)
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            _refuse("truncate", self.path, error)
        self.size = size

    def sync(self) -> None:
        self.sync_handle().sync()

    def sync_handle(self) -> SyncHandle:
        try:
            try:
                return self._duplicate()
            except OSError as error:
                if error.errno not in _TOO_MANY_OPEN:
                    raise
            self._storage.make_room()
            return self._duplicate()
        except OSError as error:
            _refuse("duplicate", self.path, error)

    def _duplicate(self) -> SyncHandle:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._storage.descriptor(self)
        return _FileSyncHandle(self.path, os.dup(descriptor))

    def close(self) -> None:
        descriptor = self._descriptor
        if descriptor >= 0:
            self._descriptor = -1
            self._storage.forget(self)
            os.close(descriptor)

    def opened(self, descriptor: int) -> None:
        """Called by the storage when it has opened the file."""
        assert self._descriptor < 0
        self._descriptor = descriptor


class _PrivateFile:
    """A file with its own descriptor, for one user on any thread."""

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def append(self, *buffers: Bytes) -> int:
        position = self.size
        self.size = position + _append(self._descriptor, self.path, position, buffers)
        return position

    def read(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            _refuse("read", self.path, error)

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            _refuse("truncate", self.path, error)
        self.size = size

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            _refuse("sync", self.path, error)

    def sync_handle(self) -> SyncHandle:
        return _FileSyncHandle(self.path, os.dup(self._descriptor))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _FileSyncHandle:
    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            _refuse("sync", self._path, error)
        finally:
            self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class _FileLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _append(descriptor: int, path: str, position: int, buffers: tuple[Bytes, ...]) -> int:
    """Write the buffers at the position; on an error truncate the file back and raise.

    The position is explicit, so that bytes which could not be truncated after a failure are overwritten by
    the next append instead of standing before it.
    """
    total = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
    try:
        if len(buffers) == 1:
            written = os.pwrite(descriptor, buffers[0], position)
        else:
            written = os.pwritev(descriptor, buffers, position)
        if written != total:
            _write_at(descriptor, b"".join(buffers)[written:], position + written)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, position)
        _refuse("append to", path, error)
    return total


def _write_at(descriptor: int, data: Bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view = view[written:]
        position += written


def _read_to_end(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    chunks = [data]
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def _open_descriptor(path: str, *, create: bool) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        _refuse("open", path, error)


def _sync_path(path: str, flags: int) -> None:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        _refuse("sync", path, error)


def _refuse(action: str, path: str, error: OSError) -> NoReturn:
    raise StorageFailure(f"cannot {action} {path}: {error.strerror or error}") from error
