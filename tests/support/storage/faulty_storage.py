"""A storage in memory that fails as disks and machines do.

It passes the same conformance suite as ``FileStorage`` (tests/unit/log/test_storage.py), and adds:

* ``crash_at``: the n-th change from now raises ``Crash`` instead of happening; an append may tear,
  leaving a prefix. ``kill()`` then forgets the process but keeps the page cache: everything written
  is there.
* ``lose_power()``: only what was synced is there. Names (files made, renamed, deleted) survive only
  if their directory was synced, or all of them do, with contents that were never synced empty: file
  systems do both.
* ``capacity``: appends, writes and new directories beyond it fail as on a full disk.
* ``fail_writes``: appends, new files, new directories and renames fail; ``write_tears`` bytes of an append
  that fails stay in the file.
* ``fail_syncs``: the next syncs fail. With ``forgets`` what a failed sync did not write is never written by a
  later one (the system takes its pages for clean), unless it is written again (``rewrite``).
* ``fail_reads``: files with this in their paths cannot be read.
* ``fail_deletes``: files with this in their paths cannot be deleted.
* ``cut``, ``flip``, ``zero``: what bit rot and people do to files.
"""

from collections.abc import Callable

from millpond.base.errors import DataDirectoryInUse, StorageFailure
from millpond.log.storage import Bytes, DirectoryLock, Names, StorageFile, SyncHandle


class Crash(BaseException):
    """The process dies here. Not an ``Exception``: nothing in the code under test may catch it."""


class _Inode:
    def __init__(self) -> None:
        self.data = bytearray()  # what the page cache has
        self.durable = b""  # what the disk has
        self.forgotten: tuple[int, int] | None = None  # what no sync will write
        self.cuts = self.durable_cuts = (
            0  # how often it was cut, and how many of these the disk knows of
        )
        self.modified_ms = 0


class FaultyStorage:
    """Files and directories that exist only here."""

    def __init__(self) -> None:
        self.root = "memory"
        self.capacity: int | None = None
        self.crash_at: int | None = None
        self.crash_tears = 0  # bytes of a torn append that still reach the file
        self.has_crashed = False  # whether ``Crash`` was raised in this life
        self.fail_writes = False
        self.write_tears = 0
        self.fail_syncs = False
        self.forgets = False
        self.fail_reads = ""
        self.fail_deletes = ""
        self.changes = 0
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._dirs: set[str] = {""}
        self._durable_dirs: set[str] = {""}
        self._locks: set[str] = set()
        self._life = 0

    # --- the port -----------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, private: bool = False) -> StorageFile:
        inode = self._names.get(path)
        if inode is None:
            if not create or _parent(path) not in self._dirs:
                raise StorageFailure(f"cannot open {path}: no such file or directory")
            self._check_writable(path)
            self._change()
            inode = self._names[path] = _Inode()
        return _MemoryFile(self, inode, path)

    def read_all(self, path: str) -> bytes | None:
        inode = self._names.get(path)
        return None if inode is None else bytes(inode.data)

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._dirs

    def list(self, path: str) -> Names:
        self._need_dir(path)
        return [name.rpartition("/")[2] for name in self._names if _parent(name) == path]

    def list_dirs(self, path: str) -> Names:
        self._need_dir(path)
        return sorted(
            name.rpartition("/")[2] for name in self._dirs if name and _parent(name) == path
        )

    def modified_ms(self, path: str) -> int:
        if path not in self._names:
            raise StorageFailure(f"cannot look at {path}: no such file")
        return self._names[path].modified_ms

    def make_dir(self, path: str) -> None:
        while path and path not in self._dirs:
            self._check_writable(path)
            if self.capacity is not None and self.used >= self.capacity:
                raise StorageFailure(f"cannot make {path}: no space left on device")
            self._change()
            self._dirs.add(path)
            path = _parent(path)

    def rename(self, old: str, new: str) -> None:
        self._check_writable(old)
        if old in self._names:
            self._change()
            self._names[new] = self._names.pop(old)
        elif old in self._dirs:
            self._change()
            self._dirs = {_moved(name, old, new) for name in self._dirs}
            self._names = {_moved(name, old, new): inode for name, inode in self._names.items()}
        else:
            raise StorageFailure(f"cannot rename {old}: no such file or directory")

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        try:
            self.delete(temporary)
            file = self.open(temporary, create=True)
            file.append(data)
            if durable:
                file.sync()
            self.rename(temporary, path)
        except StorageFailure:
            self.delete(temporary)
            raise
        if durable:
            self.sync_dir(_parent(path))

    def delete(self, path: str) -> None:
        if path in self._names:
            if self.fail_deletes and self.fail_deletes in path:
                raise StorageFailure(f"cannot delete {path}: input/output error")
            self._change()
            del self._names[path]

    def delete_tree(self, path: str) -> None:
        for name in [name for name in self._names if name.startswith(path + "/")]:
            self.delete(name)
        for name in [n for n in self._dirs if n == path or n.startswith(path + "/")]:
            self._change()
            self._dirs.discard(name)

    def sync_dir(self, path: str) -> None:
        self._need_dir(path)
        self._sync()
        for name in [name for name in self._durable_names if _parent(name) == path]:
            if name not in self._names:
                del self._durable_names[name]
        for name, inode in self._names.items():
            if _parent(name) == path:
                self._durable_names[name] = inode
        for name in [name for name in self._durable_dirs if name and _parent(name) == path]:
            if name not in self._dirs:
                self._durable_dirs.discard(name)
        self._durable_dirs |= {name for name in self._dirs if name and _parent(name) == path}

    def sync_file(self, path: str) -> None:
        inode = self._names.get(path)
        if inode is not None:
            self._sync_inode(inode)
            inode.durable = _written(inode, bytes(inode.data))

    def rewrite(self, path: str, start: int) -> None:
        inode = self._names.get(path)
        if inode is None:
            return
        self._check_writable(path)
        if inode.forgotten is not None and start <= inode.forgotten[0]:
            inode.forgotten = None
        self.sync_file(path)

    def sync_all(self) -> bool:
        self._sync()
        for inode in self._names.values():
            inode.durable = _written(inode, bytes(inode.data))
        self._durable_names = dict(self._names)
        self._durable_dirs = set(self._dirs)
        return True

    def lock(self, path: str) -> DirectoryLock:
        if path in self._locks:
            raise DataDirectoryInUse(f"{path} is held")
        self._names.setdefault(path, _Inode())
        self._locks.add(path)
        return _MemoryLock(lambda: self._locks.discard(path))

    # --- what goes wrong ----------------------------------------------------------------------

    def kill(self) -> None:
        """The process is gone; the machine and its page cache are not."""
        self._new_life()

    def lose_power(self, *, keep_names: bool = False, tail_bytes: int = 0) -> None:
        """The machine is gone: what was not synced is lost, but for ``tail_bytes`` of each file's tail."""
        self._new_life()
        if keep_names:
            self._durable_names = dict(self._names)
            self._durable_dirs = set(self._dirs)
        self._names = {
            name: inode
            for name, inode in self._durable_names.items()
            if _parent(name) in self._durable_dirs
        }
        self._dirs = set(self._durable_dirs)
        for inode in self._names.values():
            kept = len(inode.durable)
            if tail_bytes and inode.data[:kept] == inode.durable:
                kept += tail_bytes
                inode.data = inode.data[:kept]
            else:
                inode.data = bytearray(inode.durable)
            inode.durable = bytes(inode.data)
        self._durable_names = dict(self._names)

    def copy(self) -> "FaultyStorage":
        """The same files, as they are now, in a storage of their own."""
        other = FaultyStorage()
        other._dirs = set(self._dirs)
        other._durable_dirs = set(self._dirs)
        for name, inode in self._names.items():
            twin = other._names[name] = _Inode()
            twin.data = bytearray(inode.data)
            twin.durable = bytes(inode.data)
            twin.modified_ms = inode.modified_ms
        other._durable_names = dict(other._names)
        return other

    def copy_durable(self) -> "FaultyStorage":
        """What a power cut at this moment would leave, in a storage of its own."""
        other = FaultyStorage()
        other._dirs = set(self._durable_dirs)
        other._durable_dirs = set(self._durable_dirs)
        for name, inode in self._durable_names.items():
            if _parent(name) in self._durable_dirs:
                twin = other._names[name] = _Inode()
                twin.data = bytearray(inode.durable)
                twin.durable = inode.durable
                twin.modified_ms = inode.modified_ms
        other._durable_names = dict(other._names)
        return other

    def files(self) -> dict[str, int]:
        """Every file with its size."""
        return {name: len(inode.data) for name, inode in sorted(self._names.items())}

    def cut(self, path: str, size: int) -> None:
        del self._names[path].data[size:]

    def flip(self, path: str, position: int, mask: int = 0x01) -> None:
        self._names[path].data[position] ^= mask

    def zero(self, path: str, start: int, end: int) -> None:
        self._names[path].data[start:end] = bytes(end - start)

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whatever was there before."""
        self._names[path] = _Inode()
        self._names[path].data = bytearray(data)

    @property
    def used(self) -> int:
        return sum(len(inode.data) for inode in self._names.values())

    # --- how --------------------------------------------------------------------------------------

    def _new_life(self) -> None:
        self._life += 1
        self._locks.clear()
        self.crash_at = None
        self.crash_tears = 0
        self.has_crashed = False
        self.fail_writes = False
        self.write_tears = 0
        self.fail_syncs = False
        self.fail_reads = ""
        self.fail_deletes = ""

    def _check_writable(self, path: str) -> None:
        if self.fail_writes:
            raise StorageFailure(f"cannot write {path}: input/output error")

    def _change(self) -> None:
        """Something is about to change; this may be as far as the process comes."""
        self.changes += 1
        if self.crash_at is not None:
            if self.crash_at <= 0:
                self.has_crashed = True
                raise Crash
            self.crash_at -= 1

    def _sync(self) -> None:
        self._change()
        if self.fail_syncs:
            raise StorageFailure("cannot sync: input/output error")

    def _sync_inode(self, inode: _Inode) -> None:
        try:
            self._sync()
        except StorageFailure:
            if self.forgets:
                first = len(inode.durable)
                if inode.forgotten is not None:
                    first = min(first, inode.forgotten[0])
                inode.forgotten = (first, len(inode.data))
            raise

    def _need_dir(self, path: str) -> None:
        if path not in self._dirs:
            raise StorageFailure(f"cannot list {path}: no such directory")


class _MemoryFile:
    def __init__(self, storage: FaultyStorage, inode: _Inode, path: str) -> None:
        self._storage = storage
        self._inode = inode
        self._life = storage._life
        self.path = path
        self.size = len(inode.data)

    def append(self, *buffers: Bytes) -> int:
        assert self._life == self._storage._life, "a dead process writes"
        data = b"".join(buffers)
        storage, inode = self._storage, self._inode
        position = self.size
        try:
            storage._change()
        except Crash:
            inode.data[position:] = data[: storage.crash_tears]
            raise
        if storage.capacity is not None:
            room = storage.capacity - (storage.used - len(inode.data) + position)
            if room < len(data):
                inode.data[position:] = data[: min(room, storage.write_tears)]
                raise StorageFailure(f"cannot append to {self.path}: no space left on device")
        if storage.fail_writes:
            inode.data[position:] = data[: storage.write_tears]
            raise StorageFailure(f"cannot append to {self.path}: input/output error")
        inode.data[position:] = data
        inode.modified_ms += 1
        self.size = position + len(data)
        return position

    def read(self, position: int, size: int) -> bytes:
        failing = self._storage.fail_reads
        if failing and failing in self.path:
            raise StorageFailure(f"cannot read {self.path}: input/output error")
        return bytes(self._inode.data[position : position + size])

    def truncate(self, size: int) -> None:
        assert self._life == self._storage._life, "a dead process truncates"
        self._storage._change()
        data = self._inode.data
        self._inode.cuts += size < len(data)
        del data[size:]
        data.extend(bytes(size - len(data)))
        self.size = size

    def sync(self) -> None:
        self.sync_handle().sync()

    def sync_handle(self) -> SyncHandle:
        return _MemorySync(self._storage, self._inode)

    def close(self) -> None:
        pass


class _MemorySync:
    def __init__(self, storage: FaultyStorage, inode: _Inode) -> None:
        self._storage = storage
        self._inode = inode
        self._data = bytes(inode.data)
        self._cuts = inode.cuts

    def sync(self) -> None:
        self._storage._sync_inode(self._inode)
        inode = self._inode
        self._data = _written(inode, self._data)
        # What was there when the handle was made; a real sync may cover more. A later handle may have been
        # faster, and what that made durable stays so.
        if self._cuts > inode.durable_cuts or (
            self._cuts == inode.durable_cuts and not inode.durable.startswith(self._data)
        ):
            inode.durable, inode.durable_cuts = self._data, self._cuts

    def close(self) -> None:
        pass


class _MemoryLock:
    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release

    def release(self) -> None:
        self._release()


def _written(inode: _Inode, data: bytes) -> bytes:
    """What a sync writes of the data: not what the system has forgotten that it must."""
    if inode.forgotten is None:
        return data
    first, end = inode.forgotten
    return data[:first] + bytes(len(data[first:end])) + data[end:]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _moved(name: str, old: str, new: str) -> str:
    if name == old or name.startswith(old + "/"):
        return new + name[len(old) :]
    return name
