"""The log directories of a node (Kafka's ``log.dirs``): one disk or several, each with its own partitions.

Rules:

* One of them holds the metadata log, and with it everything that is not a partition. Without that one a node
  does not start; without any other it does, and serves what lies in the rest.
* A partition lies in one directory. Two directories that both have it are an error, since which of them is
  the newer copy cannot be told. Two that have partitions of the same name of two topics are none: one topic
  was deleted while its directory was offline, and the metadata tell which (``found``).
* All directories belong to the same node of the same cluster, and no two have the same id (one would be a
  copy of the other).
* A new partition goes to the directory that has the fewest and accepts writes.
* While the contents of a directory are unknown, because it could not be opened, no partition is created that
  may be in it.
* A statement about the node's earlier incarnation holds only if it holds for every directory.
"""

import logging
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from uuid import UUID

from millpond.base.errors import DataDirectoryInUse, StorageFailure
from millpond.base.ids import Offset, TimestampMs, TopicPartition
from millpond.base.limits import CHOSEN_DIRECTORIES_MAX
from millpond.log.checkpoint import NO_EPOCH, NO_REGISTRATIONS, Registrations
from millpond.log.config import LogConfig
from millpond.log.index import IndexCache
from millpond.log.log_dir import LogDir, WrongDirectory
from millpond.log.partition_log import PartitionLog
from millpond.log.recovery import RecoveryReport

_log = logging.getLogger(__name__)


class LogDirs:
    """All log directories. Opened once, closed once."""

    def __init__(self, dirs: Sequence[LogDir], *, metadata: LogDir | None = None) -> None:
        """``dirs`` hold partitions; ``metadata`` is one of them (the first by default), or a further
        directory that holds the metadata log and no partition.
        """
        assert dirs
        self.dirs = tuple(dirs)
        self.metadata = metadata if metadata is not None else self.dirs[0]
        self._all = self.dirs if self.metadata in self.dirs else (self.metadata, *self.dirs)
        # Logs with damage that was found and not examined yet.
        self.damaged: set[TopicPartition] = set()
        # The directories that administrators chose for future partitions (Kafka's preferred log directory).
        self._chosen: dict[TopicPartition, LogDir] = {}
        # Names that lay in several directories at the start, each of another topic.
        self._doubled: set[TopicPartition] = set()
        cache = IndexCache()
        for one in self._all:
            one.share(self.damaged, cache)
        self.logs: Mapping[TopicPartition, PartitionLog] = ChainMap(
            *(one.logs for one in self._all)
        )
        # Partitions that could not be opened, with the reason.
        self.unreadable: Mapping[TopicPartition, str] = ChainMap(
            *(one.unreadable for one in self._all)
        )

    def __iter__(self) -> Iterator[LogDir]:
        """Yield every directory, including one for the metadata log alone."""
        return iter(self._all)

    @property
    def opened(self) -> Iterator[LogDir]:
        """Yield the directories that could be opened."""
        return (one for one in self._all if one.is_open)

    @property
    def unopened(self) -> list[LogDir]:
        """Return the directories that could not be opened: their contents are unknown."""
        return [one for one in self._all if not one.is_open]

    def holding(self, topic_partition: TopicPartition) -> LogDir | None:
        """Return the directory of a partition, whether it can be read or not."""
        for one in self._all:
            if topic_partition in one.logs or topic_partition in one.unreadable:
                return one
        return None

    def found(self) -> list[tuple[LogDir, TopicPartition, UUID | None]]:
        """Every partition that lies here, with its directory and its topic. One name may be there more than
        once until those of deleted topics have been taken out of use, which is the first thing to do.

        A partition that could not be opened is named only if its name is there more than once.
        """
        found = [(one, key, log.topic_id) for one in self.opened for key, log in one.logs.items()]
        found += [
            (one, key, one.topic_id_of(key))
            for one in self.opened
            for key in one.unreadable
            if key in self._doubled
        ]
        return found

    def has_lost(self, topic_partition: TopicPartition, topic_id: UUID) -> bool:
        """Whether a replica of this topic that lay here has lost committed records: it is gone, or its log
        ends too early. False if it may lie in a directory that could not be opened.
        """
        for one in self._all:
            if topic_partition in one.unreadable:
                return False
            log = one.logs.get(topic_partition)
            if log is not None and log.topic_id in {None, topic_id}:
                return topic_partition in one.shortened
        return not self.unopened

    def by_id(self, directory_id: UUID) -> LogDir | None:
        """Return the directory with this id, if it is for partitions and could be opened."""
        return next(
            (one for one in self.dirs if one.is_open and one.directory_id == directory_id), None
        )

    @property
    def ids(self) -> tuple[UUID, ...]:
        """Return the ids of the directories for partitions that could be opened."""
        return tuple(one.directory_id for one in self.dirs if one.is_open)

    # --- open and close ----------------------------------------------------------------------------

    def open(
        self,
        node_id: int,
        cluster_id: str,
        *,
        now_ms: TimestampMs,
        monotonic_ms: int,
        new_id: Callable[[], UUID],
        boot_id: str | None = None,
        config_for: Callable[[str], LogConfig],
        progress: Callable[[int, int, TopicPartition], None] | None = None,
        first: TopicPartition | None = None,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the directory of the metadata log as ``LogDir.open`` does, then the others.

        One of the others that cannot be opened is offline; it is reported and left out. Raises the errors of
        ``LogDir.open`` for the metadata log's, ``WrongDirectory`` for any, and ``StorageFailure`` if no
        directory for partitions could be opened.
        """
        self._check_metadata_log(first)
        try:
            self.metadata.open(
                node_id,
                cluster_id,
                now_ms=now_ms,
                directory_id=new_id(),
                boot_id=boot_id,
                config_for=config_for,
                progress=progress,
                first=first,
                on_first=on_first,
            )
            assert self.metadata.meta is not None
            for one in self._all:
                if one is self.metadata:
                    continue
                try:
                    one.open(
                        node_id,
                        self.metadata.meta.cluster_id,
                        is_bound=True,
                        now_ms=now_ms,
                        directory_id=new_id(),
                        boot_id=boot_id,
                        config_for=config_for,
                        progress=progress,
                    )
                except (DataDirectoryInUse, StorageFailure) as error:
                    _leave_out(one, str(error), monotonic_ms)
            self._check_any_open()
            self._check_ids()
            self._check_partitions()
        except BaseException:
            self.abandon()
            raise

    def _check_metadata_log(self, key: TopicPartition | None) -> None:
        """Check, before anything is written, that no other directory has a metadata log."""
        for one in self._all:
            if key is not None and one is not self.metadata and one.has_directory_of(key):
                raise WrongDirectory(
                    f"the metadata log lies in {one.name}, and is looked for in {self.metadata.name}; "
                    f"set metadata.log.dir to {one.name}"
                )

    def _check_any_open(self) -> None:
        """A node that has only its metadata log could neither serve its partitions nor say where they lie."""
        if not any(one.is_open for one in self.dirs):
            names = ", ".join(f"{one.name} ({one.state.reason})" for one in self.dirs)
            raise StorageFailure(f"no log directory could be opened: {names}")

    def _check_ids(self) -> None:
        seen: dict[UUID, LogDir] = {}
        for one in self.opened:
            other = seen.setdefault(one.directory_id, one)
            if other is not one:
                raise WrongDirectory(
                    f"{one.name} and {other.name} have the same directory.id in meta.properties: one is a "
                    "copy of the other; leave it out of log.dirs"
                )

    def _check_partitions(self) -> None:
        holding: dict[TopicPartition, LogDir] = {}
        topic_ids: dict[TopicPartition, dict[UUID | None, LogDir]] = {}
        for one in self.opened:
            for key in (*one.logs, *one.unreadable):
                other = holding.setdefault(key, one)
                if other is one:
                    continue
                known = topic_ids.setdefault(key, {other.topic_id_of(key): other})
                topic_id = one.topic_id_of(key)
                if topic_id is None or None in known or topic_id in known:
                    other = known.get(topic_id, other)
                    raise WrongDirectory(
                        f"partition {key} lies in both {other.name} and {one.name}; keep the newer copy "
                        "and move the other one away"
                    )
                known[topic_id] = one
        self._doubled = set(topic_ids)

    def close(
        self, *, now_ms: TimestampMs, registrations: Registrations = NO_REGISTRATIONS
    ) -> bool:
        """Close every directory, the metadata log's last. Return whether all were clean."""
        rest = [one for one in self.opened if one is not self.metadata]
        closed = [
            one.close(now_ms=now_ms, registrations=registrations) for one in (*rest, self.metadata)
        ]
        return all(closed)

    def abandon(self) -> None:
        """Close everything without writing: the next start checks the logs."""
        for one in self._all:
            one.abandon()

    def restore_failed(self) -> None:
        """See ``LogDir.restore_failed``."""
        for one in self.opened:
            one.restore_failed()

    # --- the previous incarnation ------------------------------------------------------------------

    @property
    def was_clean(self) -> bool:
        """Whether the last shutdown was clean, in every directory."""
        return self.metadata.was_clean and all(
            one.is_open and (one.was_clean or one.is_new) for one in self._all
        )

    @property
    def previous_registrations(self) -> Registrations:
        """The registrations of earlier processes since which no directory has lost anything.

        A new directory held nothing; the registered ids show whether it replaced another one.
        """
        first, *rest = [one.previous_registrations for one in self.opened if not one.is_new] or [
            NO_REGISTRATIONS
        ]
        return Registrations(
            broker_epoch=first.broker_epoch
            if all(one.broker_epoch == first.broker_epoch for one in rest)
            else NO_EPOCH,
            incarnation_ids=tuple(
                incarnation
                for incarnation in first.incarnation_ids
                if all(incarnation in one.incarnation_ids for one in rest)
            ),
        )

    @property
    def reports(self) -> list[RecoveryReport]:
        """The recovery reports of the start."""
        return [report for one in self.opened for report in one.reports]

    def record_incarnation(self, registrations: Registrations) -> None:
        """See ``LogDir.record_incarnation``."""
        for one in self.opened:
            one.record_incarnation(registrations)

    def doubt(self, topic_partition: TopicPartition) -> None:
        """Note a failed sync of this log: its directory may have lost writes."""
        (self.holding(topic_partition) or self.metadata).doubt()

    def forget_shortened(self) -> None:
        """See ``LogDir.forget_shortened``."""
        for one in self._all:
            one.forget_shortened()

    # --- partitions --------------------------------------------------------------------------------

    def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None = None,
        *,
        now_ms: TimestampMs,
        within: UUID | None = None,
        is_first_here: bool = True,
    ) -> PartitionLog:
        """Create a new, empty log: in the directory chosen for it or ``within`` this one, if that accepts
        writes, otherwise in the one with the fewest partitions. ``is_first_here`` says that this node cannot
        have had the partition before.

        Raises ``StorageFailure``.
        """
        if not is_first_here and self.unopened:
            missing = ", ".join(one.name for one in self.unopened)
            raise StorageFailure(
                f"{topic_partition} may lie in {missing}, which could not be opened when the node started"
            )
        chosen = self._chosen.get(topic_partition)
        if chosen is not None and chosen.is_open:
            within = chosen.directory_id
        log = self.place_for(within).create(topic_partition, config, topic_id, now_ms=now_ms)
        self._chosen.pop(topic_partition, None)
        return log

    def choose(self, topic_partition: TopicPartition, log_dir: LogDir) -> None:
        """Create this partition in this directory when it is created here."""
        self._chosen.pop(topic_partition, None)
        self._chosen[topic_partition] = log_dir
        if len(self._chosen) > CHOSEN_DIRECTORIES_MAX:
            del self._chosen[next(iter(self._chosen))]

    def place_for(self, within: UUID | None = None) -> LogDir:
        """Return the directory for a new partition. Raises ``StorageFailure`` if none accepts writes."""
        online = [one for one in self.dirs if one.is_open and not one.state.is_offline]
        for one in online:
            if one.directory_id == within:
                return one
        if not online:
            if len(self.dirs) == 1 and self.dirs[0].is_open:
                return self.dirs[0]  # a single disk is tried: it may have a little space
            raise StorageFailure("every log directory is offline")
        return min(online, key=lambda one: len(one.logs) + len(one.unreadable))

    def open_again(
        self, topic_partition: TopicPartition, config: LogConfig, *, now_ms: TimestampMs
    ) -> PartitionLog:
        """See ``LogDir.open_again``."""
        holding = self.holding(topic_partition)
        assert holding is not None
        return holding.open_again(topic_partition, config, now_ms=now_ms)

    def delete(self, topic_partition: TopicPartition, *, now_ms: TimestampMs = 0) -> None:
        """Delete a log at once; ``purge`` removes its files."""
        holding = self.holding(topic_partition)
        if holding is None:
            raise KeyError(topic_partition)
        holding.delete(topic_partition, now_ms=now_ms)

    def purge(self, now_ms: TimestampMs) -> int:
        """Remove the files of deleted logs that are due. Return the number of logs."""
        return sum(one.purge(now_ms) for one in self.opened)

    # --- checkpoints -------------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """See ``LogDir.write_checkpoints``. Raises ``StorageFailure``, after writing the other
        directories.
        """
        _each([one.write_checkpoints for one in self._writable()])

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the last recorded high watermarks, each from the directory that has the partition now."""
        found: dict[TopicPartition, Offset] = {}
        for one in self.opened:
            stored = one.high_watermarks()
            if len(self._all) > 1:
                stored = {
                    key: offset
                    for key, offset in stored.items()
                    if key in one.logs or key in one.unreadable
                }
            found |= stored
        return found

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Record the high watermarks. Raises ``StorageFailure``, after writing the other directories."""
        jobs = []
        for one in self._writable():
            mine = {key: offset for key, offset in offsets.items() if key in one.logs}
            jobs.append(_job(one, mine))
        _each(jobs)

    @contextmanager
    def saving_together(self) -> Iterator[None]:
        """See ``LogDir.saving_together``."""
        with ExitStack() as stack:
            for one in self.opened:
                stack.enter_context(one.saving_together())
            yield

    def _writable(self) -> list[LogDir]:
        """Return where to write checkpoints; a single directory is always tried."""
        opened = list(self.opened)
        return opened if len(opened) == 1 else [one for one in opened if not one.state.is_offline]


def _leave_out(one: LogDir, reason: str, monotonic_ms: int) -> None:
    one.abandon()
    one.logs.clear()
    one.unreadable.clear()
    one.reports.clear()
    one.state.on_failure(reason, monotonic_ms)
    _log.error(
        "log directory %s is offline, it cannot be opened: %s; the node serves what lies in the others, and "
        "looks at this one when it is started again",
        one.name,
        reason,
    )


def _job(one: LogDir, offsets: Mapping[TopicPartition, Offset]) -> Callable[[], None]:
    return lambda: one.write_high_watermarks(offsets)


def _each(jobs: Iterable[Callable[[], None]]) -> None:
    """Run all jobs, then raise the first failure."""
    failure: StorageFailure | None = None
    for job in jobs:
        try:
            job()
        except StorageFailure as error:
            failure = failure or error
    if failure is not None:
        raise failure
