"""A log directory: every partition's log in it, and the files about all of them.

A node may have several (``log_dirs.py``); each has its own lock, identity, clean-shutdown marker and
checkpoints.

Rules:

* One broker at a time: the directory is locked while it is open.
* The marker of a clean shutdown is removed before anything is written, and written last of all.
* A partition's directory is ``<topic>-<number>``. A directory that is being deleted is renamed first, so that
  it can never be taken for a later topic of the same name. Other directories are left alone.
* No single partition, whatever is in it, stops the others from opening; a directory that cannot be read at
  all is reported and left out.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from uuid import NAMESPACE_URL, UUID, uuid5

from millpond.base import limits
from millpond.base.errors import CorruptLog, MillpondError, StorageFailure
from millpond.base.ids import Offset, TimestampMs, TopicPartition
from millpond.base.limits import DISK_PROBE_BYTES
from millpond.base.uuids import parse_id
from millpond.log import checkpoint
from millpond.log.checkpoint import (
    NO_REGISTRATIONS,
    CorruptCheckpoint,
    DirectoryMeta,
    Incarnation,
    Registrations,
)
from millpond.log.config import LogConfig
from millpond.log.index import IndexCache
from millpond.log.offline import DirectoryState
from millpond.log.partition_log import PartitionLog
from millpond.log.recovery import RecoveryReport
from millpond.log.storage import DirectoryLock, Storage

LOCK_FILE = ".lock"
# Created and removed again to probe a disk that failed.
PROBE_FILE = ".probe"
_DELETE_SUFFIX = "-delete"
_STRAY_SUFFIX = "-stray"
_PARTITION_DIR = re.compile(r"^([A-Za-z0-9._-]{1,249})-(\d{1,10})$")
_DELETED_DIR = re.compile(r"^.+\.[0-9a-f]{32}-delete$")
_STRAY_DIR = re.compile(r"^.+\.[0-9a-f]{32}-stray$")

# Closing this many unflushed logs syncs the file system once instead of each file.
_SYNC_ALL_FROM = 32

_log = logging.getLogger(__name__)


# The offsets that are recorded for every log, and the file of each.
_CHECKPOINTED: dict[str, Callable[[PartitionLog], Offset]] = {
    checkpoint.RECOVERY_POINTS_FILE: lambda log: log.recovery_point,
    # Kafka leaves out a start that is the first segment's own.
    checkpoint.START_OFFSETS_FILE: lambda log: (
        log.start_offset if log.start_offset > log.segments[0].base_offset else 0
    ),
    checkpoint.CLEANER_OFFSETS_FILE: lambda log: log.cleaner_offset,
}


class WrongDirectory(MillpondError):
    """A data directory that belongs to another node or another cluster."""


class LogDir:
    """All logs under one path of a storage. Open it before anything else."""

    def __init__(
        self,
        storage: Storage,
        path: str = "",
        *,
        name: str = "",
        usage: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """``name`` is the directory's name for administrators (its path in the file system); ``usage``
        returns (total, free) bytes of its disk.
        """
        self.storage = storage
        self.path = path
        self.name = name or path
        self.usage = usage
        # Whether it accepts writes; set by engine/partitions/disk_health.py.
        self.state = DirectoryState()
        # Whether it was opened, and whether that was the first time ever.
        self.is_open = False
        self.is_new = False
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # How often a log has come or gone.
        self.changes = 0
        self.reports: list[RecoveryReport] = []
        self.unreadable: dict[TopicPartition, str] = {}
        # Logs with damage that was found and not examined yet.
        self.damaged: set[TopicPartition] = set()
        # Called, with a reason, when the disk refused a write or a sync.
        self.on_failure: Callable[[str], None] = lambda reason: None
        # Called when the disk could not be read: in one place or everywhere.
        self.on_unreadable: Callable[[str], None] = lambda reason: None
        self.meta: DirectoryMeta | None = None
        self.was_clean = False
        # Those of the previous broker process here, if the disk has lost nothing since; none if it may have.
        self.previous_registrations = NO_REGISTRATIONS
        # Logs that end below the last recorded high watermark, with that offset: the records between were
        # committed, and are no longer on this disk. Kept until ``forget_shortened``.
        self.shortened: dict[TopicPartition, Offset] = {}
        self._boot_id: str | None = None
        # Whether the disk may have lost writes of this incarnation, and whether this incarnation is not
        # recorded.
        self._is_doubtful = False
        self._is_unnoted = False
        self._cache = IndexCache()
        self._lock: DirectoryLock | None = None
        self._doomed: list[tuple[TimestampMs, str]] = []
        # Partitions that were taken out of use and whose directories could not be renamed: to what, and for
        # how long the files are kept then (None: for good).
        self._unrenamed: dict[TopicPartition, tuple[str, int | None]] = {}
        self._checkpointed: set[TopicPartition] = set()
        self._saved: dict[str, dict[TopicPartition, Offset]] = {}  # what the files hold, by file
        # The checkpointed offsets of logs that are not open: not yet, or because they cannot be.
        self._written: dict[TopicPartition, dict[str, Offset]] = {}
        self._to_save: dict[str, None] | None = None  # checkpoints, in order; None: write at once

    def has_directory_of(self, topic_partition: TopicPartition) -> bool:
        """Return whether there is a directory of this partition, opened or not."""
        return self.storage.exists(self._at(str(topic_partition)))

    def topic_id_of(self, topic_partition: TopicPartition) -> UUID | None:
        """The topic of a partition that lies here, also of one that could not be opened; None if its files
        do not say.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            return log.topic_id
        path = f"{self._at(str(topic_partition))}/{checkpoint.PARTITION_METADATA_FILE}"
        try:
            return checkpoint.read_topic_id(self.storage, path)
        except (CorruptCheckpoint, StorageFailure) as failure:
            _log.warning(
                "partition=%s: the id of its topic cannot be read: %s", topic_partition, failure
            )
            return None

    def share(self, damaged: set[TopicPartition], cache: IndexCache) -> None:
        """Set, before opening, what the node's directories share."""
        self.damaged = damaged
        self._cache = cache

    @property
    def directory_id(self) -> UUID:
        """The id that distinguishes this disk from a replacement; known once it is open."""
        assert self.meta is not None
        return self.meta.directory_id

    def open(
        self,
        node_id: int,
        cluster_id: str,
        *,
        is_bound: bool = False,
        now_ms: TimestampMs,
        directory_id: UUID | None = None,
        boot_id: str | None = None,
        config_for: Callable[[str], LogConfig],
        progress: Callable[[int, int, TopicPartition], None] | None = None,
        first: TopicPartition | None = None,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        """Lock the directory and open every partition in it, recovering where needed.

        ``first`` is opened before the others if it exists, and then ``on_first`` is called, so that
        ``config_for`` can use that log for the settings of the others. ``cluster_id`` and ``directory_id``
        are for a new directory; an existing one keeps its own, and is refused if ``is_bound`` and its cluster
        is another one. Without a ``directory_id`` one is derived from the cluster, the node and the path.
        Raises ``DataDirectoryInUse``, ``WrongDirectory`` or ``StorageFailure``.
        """
        if not self.storage.exists(self.path):
            self.storage.make_dir(self.path)
            # The node's identity is in here: the file's name must survive a power loss as its contents do.
            self.storage.sync_dir(self.path.rpartition("/")[0] if self.path else "..")
        self._lock = self.storage.lock(self._at(LOCK_FILE))
        try:
            self.meta = self._load_meta(node_id, cluster_id, directory_id, is_bound=is_bound)
            self._boot_id = boot_id
            self._read_end()
            self._open_logs(now_ms, config_for, progress, first=first, on_first=on_first)
            self.is_open = True
        except BaseException:
            self.abandon()
            raise

    def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None = None,
        *,
        now_ms: TimestampMs,
    ) -> PartitionLog:
        """Create a new, empty log. Raises ``StorageFailure``."""
        assert topic_partition not in self.logs
        try:
            if topic_partition in self._unrenamed:
                # The log before it under this name, whose files must not become part of the new one.
                self._rename(topic_partition, now_ms)
            return self._create(topic_partition, config, topic_id, now_ms=now_ms)
        except CorruptLog:
            raise
        except StorageFailure as failure:
            self.on_failure(f"{topic_partition}: its log could not be made ({failure})")
            raise

    def _create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None,
        *,
        now_ms: TimestampMs,
    ) -> PartitionLog:
        if topic_partition in self._checkpointed:
            # Recorded offsets of a deleted log of this name must not apply to the new one.
            self.write_checkpoints()
        replicated = self._saved.get(checkpoint.HIGH_WATERMARKS_FILE, {})
        if topic_partition in replicated:
            self.write_high_watermarks(
                {tp: offset for tp, offset in replicated.items() if tp != topic_partition}
            )
        log = PartitionLog.open(
            self.storage,
            self._at(str(topic_partition)),
            topic_partition,
            config,
            now_ms=now_ms,
            clean=True,
            topic_id=topic_id,
            cache=self._cache,
            save_offsets=self._save_offsets,
            on_damage=self.damaged.add,
            on_failure=self._on_log_failure,
            on_unreadable=self._on_log_unreadable,
        )
        self._add(log)
        return log

    def _add(self, log: PartitionLog) -> None:
        self.logs[log.topic_partition] = log
        self.changes += 1

    def open_again(
        self, topic_partition: TopicPartition, config: LogConfig, *, now_ms: TimestampMs
    ) -> PartitionLog:
        """Open a log that could not be opened at the start: its disk may be readable again, or have space.

        Recovers the log if needed. Raises ``StorageFailure`` if it still cannot be opened.
        """
        assert topic_partition in self.unreadable
        log = self._opened(topic_partition, now_ms, config)
        del self.unreadable[topic_partition]
        return log

    def delete(self, topic_partition: TopicPartition, *, now_ms: TimestampMs = 0) -> None:
        """Delete a log at once; ``purge`` removes its files."""
        log = self.logs.get(topic_partition)
        # No reader has the files of a log that could not be opened.
        delay_ms = log.config.file_delete_delay_ms if log is not None else 0
        self._rename_out(topic_partition, _DELETE_SUFFIX, delay_ms, now_ms)

    def set_aside(self, topic_partition: TopicPartition, *, now_ms: TimestampMs = 0) -> str:
        """Close a log and keep its files under another name. Return that name."""
        return self._rename_out(topic_partition, _STRAY_SUFFIX, None, now_ms)

    def _rename_out(
        self,
        topic_partition: TopicPartition,
        ending: str,
        delay_ms: int | None,
        now_ms: TimestampMs,
    ) -> str:
        """The log is out of use when this returns or raises ``StorageFailure``; in the latter case its
        directory is renamed later (``purge``), and at the latest before one of its name is made.
        """
        topic_id = self.topic_id_of(topic_partition)
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            self.changes += 1
            log.abandon()
        else:
            del self.unreadable[topic_partition]
            self._written.pop(topic_partition, None)
        end_offset = log.end_offset if log is not None else 0
        tag = topic_id or uuid5(NAMESPACE_URL, f"{topic_partition} {end_offset} {now_ms}")
        # Kafka shortens a name that would not fit into the 255 bytes of a file name.
        suffix = f".{tag.hex}{ending}"
        path = self._at(
            f"{topic_partition.topic[: 255 - len(suffix) - 11]}-{topic_partition.partition}{suffix}"
        )
        if ending == _STRAY_SUFFIX and self.storage.exists(path):
            # An operator copied it back: both are kept.
            again = uuid5(tag, str(now_ms)).hex
            path = path.removesuffix(suffix) + f".{again}{ending}"
        self._unrenamed[topic_partition] = path, delay_ms
        self._rename(topic_partition, now_ms)
        return path

    def _rename(self, topic_partition: TopicPartition, now_ms: TimestampMs) -> None:
        path, delay_ms = self._unrenamed[topic_partition]
        if delay_ms is not None:
            self.storage.delete_tree(path)
        self.storage.rename(self._at(str(topic_partition)), path)
        del self._unrenamed[topic_partition]
        if delay_ms is not None:
            self._doomed.append((now_ms + delay_ms, path))

    def purge(self, now_ms: TimestampMs) -> int:
        """Remove the files of deleted logs that are due. Return the number of logs.

        Files that cannot be removed are due again a minute later.
        """
        self._rename_leftovers(now_ms)
        removed = 0
        left: list[tuple[TimestampMs, str]] = []
        for at_ms, path in self._doomed:
            if at_ms > now_ms:
                left.append((at_ms, path))
                continue
            try:
                self.storage.delete_tree(path)
            except StorageFailure as failure:
                _log.error("%s: deleted, and still there: %s; trying again later", path, failure)
                left.append((now_ms + limits.DELETE_AGAIN_MS, path))
            else:
                removed += 1
        self._doomed = left
        return removed

    def _rename_leftovers(self, now_ms: TimestampMs) -> None:
        if self.state.is_offline:
            return
        for topic_partition in tuple(self._unrenamed):
            try:
                self._rename(topic_partition, now_ms)
            except StorageFailure as failure:
                _log.debug(
                    "partition=%s: out of use, and its directory in %s cannot be renamed: %s; trying again",
                    topic_partition,
                    self.name,
                    failure,
                )
                return

    def write_checkpoints(self) -> None:
        """Write the flushed end, the start and the compacted end of each log."""
        try:
            for name in _CHECKPOINTED:
                self._save_offsets(name)
        except StorageFailure as failure:
            self.on_failure(f"the checkpoints could not be written ({failure})")
            raise

    # --- disk failure and recovery ------------------------------------------------------------

    def _on_log_failure(self, reason: str) -> None:
        self.on_failure(reason)

    def _on_log_unreadable(self, reason: str) -> None:
        self.on_unreadable(reason)

    @property
    def failed(self) -> list[PartitionLog]:
        """Return the logs that accept no writes because the disk refused some."""
        return [log for log in self.logs.values() if log.failure is not None]

    def restore_failed(self) -> None:
        """Restore failed logs before the shutdown: a log that only lacks disk space can be closed like any
        other. A log that cannot be restored is closed uncleanly, and checked by the next start.
        """
        for log in self.failed:
            try:
                plan = log.begin_restore()
                if plan is not None:
                    plan.run()
                    log.finish_restore(plan)
            except StorageFailure as failure:
                _log.warning("partition=%s: not restored: %s", log.topic_partition, failure)

    def probe(self) -> Callable[[], None]:
        """Return a function, for any thread, that probes whether the disk accepts writes again and raises
        ``StorageFailure`` if not.

        It writes its own file, at the position of the end of the longest file that failed, and syncs it.
        """
        path = self._at(PROBE_FILE)
        position = max((log.active.size for log in self.failed), default=0)

        def run() -> None:
            self.storage.delete(path)
            file = self.storage.open(path, create=True, private=True)
            try:
                file.truncate(position)
                file.append(bytes(DISK_PROBE_BYTES))
                file.sync()
                if len(file.read(position, DISK_PROBE_BYTES)) != DISK_PROBE_BYTES:
                    raise StorageFailure(f"{path} does not hold what was written to it")
            finally:
                file.close()
                self.storage.delete(path)

        return run

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the last recorded high watermarks; empty if they are not known."""
        offsets = self._read_offsets(checkpoint.HIGH_WATERMARKS_FILE)
        self._saved[checkpoint.HIGH_WATERMARKS_FILE] = offsets
        return dict(offsets)

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Record the high watermarks, without an fsync: after a power loss they are learnt again."""
        name = checkpoint.HIGH_WATERMARKS_FILE
        known = {**offsets, **self.shortened}
        if known != self._saved.get(name, {}):
            checkpoint.write_offsets(self.storage, self._at(name), known, durable=False)
            self._saved[name] = known

    @contextmanager
    def saving_together(self) -> Iterator[None]:
        """Collect the logs' requests for checkpoints within the block, and write each once at its end.

        A checkpoint covers all logs: writing it for each of thousands would take minutes.
        """
        assert self._to_save is None
        wanted = self._to_save = {}
        try:
            yield
        finally:
            self._to_save = None
            for name in wanted:
                self._save_offsets(name)

    def record_incarnation(self, registrations: Registrations) -> None:
        """Record that a broker with these registrations runs here.

        If its process dies and the machine does not, its writes are still there; a machine whose boot id is
        unknown counts as one that may have rebooted.
        """
        if self._boot_id is None:
            return
        if self._is_doubtful:
            registrations = NO_REGISTRATIONS
        incarnation = Incarnation(boot_id=self._boot_id, registrations=registrations)
        try:
            checkpoint.write_incarnation(
                self.storage, self._at(checkpoint.INCARNATION_FILE), incarnation
            )
        except StorageFailure as failure:
            self._is_unnoted = True
            _log.warning("the incarnation could not be recorded: %s", failure)
        else:
            self._is_unnoted = False

    def doubt(self) -> None:
        """Note a failed sync: writes may be lost, though this process has seen them.

        That holds, whatever this incarnation registers later, until all of it was written again (``trust``).
        """
        self._is_doubtful = True
        self.previous_registrations = NO_REGISTRATIONS
        self.record_incarnation(NO_REGISTRATIONS)

    def trust(self, registrations: Registrations) -> None:
        """Note that everything a failed sync had left undone is on the disk now."""
        if self._is_doubtful or self._is_unnoted:
            self._is_doubtful = False
            self.record_incarnation(registrations)

    def close(
        self, *, now_ms: TimestampMs, registrations: Registrations = NO_REGISTRATIONS
    ) -> bool:
        """Flush and close every log; mark the shutdown as clean if all of them were. Return whether it
        was.
        """
        failed = [log for log in self.logs.values() if not self._write_down(log)]
        sound = [log for log in self.logs.values() if log not in failed]
        failed += self._sync(sound)
        for log in self.logs.values():
            log.abandon()
        if failed:
            self.doubt()
        clean = not failed and not self.unreadable
        try:
            self.write_checkpoints()
            if clean:
                path = self._at(checkpoint.CLEAN_SHUTDOWN_FILE)
                checkpoint.write_clean_shutdown(self.storage, path, registrations)
        except StorageFailure as failure:
            _log.error("the stop could not be written down: %s", failure)
            clean = False
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None
        return clean

    def _write_down(self, log: PartitionLog) -> bool:
        try:
            if log.failure is not None:
                raise StorageFailure(log.failure)
            log.write_down()
        except StorageFailure as failure:
            _log.error("partition=%s: not closed cleanly: %s", log.topic_partition, failure)
            return False
        return True

    def _sync(self, logs: list[PartitionLog]) -> list[PartitionLog]:
        """Make the logs durable, all at once if there are many. Return those that could not be."""
        failed = []
        dirty = [log for log in logs if log.needs_flush]
        try:
            if len(dirty) >= _SYNC_ALL_FROM and self.storage.sync_all():
                for log in dirty:
                    log.on_synced()
                return []
        except StorageFailure as failure:
            _log.error("not closed cleanly: %s", failure)
            return dirty
        for log in dirty:
            try:
                log.flush()
            except StorageFailure as failure:
                _log.error("partition=%s: not closed cleanly: %s", log.topic_partition, failure)
                failed.append(log)
        return failed

    def abandon(self) -> None:
        """Close everything without writing: the start of the node failed. The next start checks the logs."""
        for log in self.logs.values():
            log.abandon()
        self.is_open = False
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- opening ------------------------------------------------------------------------------

    def _read_end(self) -> None:
        """Read how the previous incarnation ended."""
        path = self._at(checkpoint.CLEAN_SHUTDOWN_FILE)
        registrations = checkpoint.read_clean_shutdown(self.storage, path)
        if registrations is not None:
            # This start may be killed before it registers.
            self.record_incarnation(registrations)
            self.previous_registrations = registrations
        elif self._boot_id is not None:
            incarnation = checkpoint.read_incarnation(
                self.storage, self._at(checkpoint.INCARNATION_FILE), self._boot_id
            )
            if incarnation is not None:
                self.previous_registrations = incarnation.registrations
        self.was_clean = checkpoint.take_clean_shutdown(self.storage, path)

    def _load_meta(
        self, node_id: int, cluster_id: str, directory_id: UUID | None, *, is_bound: bool
    ) -> DirectoryMeta:
        path = self._at(checkpoint.META_PROPERTIES_FILE)
        found = checkpoint.read_meta(self.storage, path)
        self.is_new = found is None
        stored = found or {}
        stored_node = stored.get("node.id", stored.get("broker.id", str(node_id)))
        if stored_node != str(node_id):
            raise WrongDirectory(
                f"{path} says that this data belongs to node {stored_node}, not to node {node_id}; "
                "start the node with its own data directory"
            )
        stored_cluster = stored.get("cluster.id") or cluster_id
        if is_bound and stored_cluster != cluster_id:
            raise WrongDirectory(
                f"{self.name or path} belongs to cluster {stored_cluster}, and the node's other directories "
                f"to cluster {cluster_id}; leave it out of log.dirs"
            )
        try:
            directory = parse_id(stored["directory.id"])
        except (KeyError, ValueError):
            directory = directory_id or uuid5(NAMESPACE_URL, f"{cluster_id}/{node_id}/{self.path}")
        meta = DirectoryMeta(
            node_id=node_id,
            cluster_id=stored_cluster,
            directory_id=directory,
        )
        if (
            stored.get("version") != "1"
            or "cluster.id" not in stored
            or "directory.id" not in stored
        ):
            checkpoint.write_meta(self.storage, path, meta)
        return meta

    def _open_logs(
        self,
        now_ms: TimestampMs,
        config_for: Callable[[str], LogConfig],
        progress: Callable[[int, int, TopicPartition], None] | None,
        *,
        first: TopicPartition | None,
        on_first: Callable[[], None],
    ) -> None:
        checkpoints = {name: self._read_offsets(name) for name in _CHECKPOINTED}
        self._checkpointed = set(checkpoints[checkpoint.RECOVERY_POINTS_FILE])
        partitions = list(self._partition_dirs())
        self._written = {
            tp: {name: offsets.get(tp, 0) for name, offsets in checkpoints.items()}
            for tp in partitions
        }
        if first is not None and first in self._written:
            partitions.remove(first)
            self._open_log(first, now_ms, config_for(first.topic))
        on_first()
        for done, topic_partition in enumerate(partitions):
            if progress is not None:
                progress(done, len(partitions), topic_partition)
            self._open_log(topic_partition, now_ms, config_for(topic_partition.topic))
        self._find_shortened()

    def _find_shortened(self) -> None:
        for topic_partition, committed in self._read_offsets(
            checkpoint.HIGH_WATERMARKS_FILE
        ).items():
            log = self.logs.get(topic_partition)
            if log is not None and log.end_offset < committed:
                self.shortened[topic_partition] = committed
                _log.error(
                    "partition=%s: its log ends at offset %d, though everything below %d was committed: the "
                    "records between are not on this disk any more, and are copied from other replicas if "
                    "there are any",
                    topic_partition,
                    log.end_offset,
                    committed,
                )

    def forget_shortened(self) -> None:
        """Forget the shortened logs: the controller knows them, and other replicas lead until these have
        caught up.
        """
        self.shortened.clear()

    def _open_log(
        self, topic_partition: TopicPartition, now_ms: TimestampMs, config: LogConfig
    ) -> None:
        try:
            self._opened(topic_partition, now_ms, config)
        except StorageFailure as failure:
            self.unreadable[topic_partition] = str(failure)
            _log.error("partition=%s: left out, it cannot be opened: %s", topic_partition, failure)

    def _opened(
        self, topic_partition: TopicPartition, now_ms: TimestampMs, config: LogConfig
    ) -> PartitionLog:
        written = self._written[topic_partition]
        log = PartitionLog.open(
            self.storage,
            self._at(str(topic_partition)),
            topic_partition,
            config,
            now_ms=now_ms,
            clean=self.was_clean,
            recovery_point=written[checkpoint.RECOVERY_POINTS_FILE],
            start_offset=written[checkpoint.START_OFFSETS_FILE],
            cleaner_offset=written[checkpoint.CLEANER_OFFSETS_FILE],
            cache=self._cache,
            save_offsets=self._save_offsets,
            on_damage=self.damaged.add,
            on_failure=self._on_log_failure,
            on_unreadable=self._on_log_unreadable,
        )
        del self._written[topic_partition]
        self._add(log)
        if not log.recovery.clean:
            self.reports.append(log.recovery)
        if log.recovery.damage:
            self.damaged.add(topic_partition)
        return log

    def _partition_dirs(self) -> Iterable[TopicPartition]:
        for name in self.storage.list_dirs(self.path):
            if _DELETED_DIR.match(name):
                self.storage.delete_tree(self._at(name))
                continue
            if _STRAY_DIR.match(name):
                continue
            match = _PARTITION_DIR.match(name)
            if match is None or str(int(match[2])) != match[2]:
                _log.warning("%s is no partition's directory; it is left alone", self._at(name))
                continue
            yield TopicPartition(match[1], int(match[2]))

    def _read_offsets(self, name: str) -> dict[TopicPartition, Offset]:
        try:
            return checkpoint.read_offsets(self.storage, self._at(name))
        except CorruptCheckpoint as corrupt:
            _log.warning("%s; ignored, the logs are checked from their beginning", corrupt)
            # Without recovery points no log may be trusted.
            if name == checkpoint.RECOVERY_POINTS_FILE:
                self.was_clean = False
                self.previous_registrations = NO_REGISTRATIONS
            return {}

    def _save_offsets(self, name: str) -> None:
        if self._to_save is not None:
            self._to_save[name] = None
            return
        # Keep the offsets of logs that are not open now: they may be at the next start.
        offsets = {tp: written[name] for tp, written in self._written.items()}
        offsets |= {tp: _CHECKPOINTED[name](log) for tp, log in self.logs.items()}
        # Recovery points decide what is trusted after a power loss, and cleaner offsets where gaps are no
        # damage, so they must survive one. Log starts must survive the process, which a write without a sync
        # does; losing them only brings deleted records back.
        durable = name != checkpoint.START_OFFSETS_FILE
        if name != checkpoint.RECOVERY_POINTS_FILE:
            offsets = {tp: offset for tp, offset in offsets.items() if offset > 0}
        if offsets != self._saved.get(name):
            checkpoint.write_offsets(self.storage, self._at(name), offsets, durable=durable)
            self._saved[name] = offsets
        if name == checkpoint.RECOVERY_POINTS_FILE:
            self._checkpointed = set(self.logs)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name
