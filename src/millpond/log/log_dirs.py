"""The log directories of a node (Kafka's ``log.dirs``): one disk or several, each with its own partitions.

Rules:

* One of them holds the metadata log, and with it everything that is not a partition. Without that one a node
  does not start; without any other it does, and serves what lies in the rest.
* A partition lies in one directory. Two directories that both have it are an error, since which of them is
  the newer copy cannot be told.
* All directories belong to the same node of the same cluster, and no two have the same id (one would be a
  copy of the other).
* A new partition goes to the directory that has the fewest and takes writes.
* While the contents of a directory are not known, because it could not be opened, no partition is made anew
  that may lie in it.
* What the node says of its earlier life holds only if it holds for every directory.
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
    """All of them. Opened once, closed once."""

    def __init__(self, dirs: Sequence[LogDir], *, metadata: LogDir | None = None) -> None:
        """``dirs`` hold partitions; ``metadata`` is one of them (the first unless it is given), or a further
        directory that holds the metadata log and no partition.
        """
        assert dirs
        self.dirs = tuple(dirs)
        self.metadata = metadata if metadata is not None else self.dirs[0]
        self._all = self.dirs if self.metadata in self.dirs else (self.metadata, *self.dirs)
        # Logs in which damage was found and not looked into yet.
        self.damaged: set[TopicPartition] = set()
        # Where administrators want partitions that are not here yet (Kafka's preferred log directory).
        self._chosen: dict[TopicPartition, LogDir] = {}
        cache = IndexCache()
        for one in self._all:
            one.share(self.damaged, cache)
        self.logs: Mapping[TopicPartition, PartitionLog] = ChainMap(
            *(one.logs for one in self._all)
        )
        # Partitions that could not be opened, and why.
        self.unreadable: Mapping[TopicPartition, str] = ChainMap(
            *(one.unreadable for one in self._all)
        )

    def __iter__(self) -> Iterator[LogDir]:
        """Every directory, also one that is for the metadata log alone."""
        return iter(self._all)

    @property
    def opened(self) -> Iterator[LogDir]:
        """Those that could be opened."""
        return (one for one in self._all if one.is_open)

    @property
    def unopened(self) -> list[LogDir]:
        """Those that could not: what lies in them is not known."""
        return [one for one in self._all if not one.is_open]

    def holding(self, topic_partition: TopicPartition) -> LogDir | None:
        """The directory that a partition lies in, whether it can be read or not."""
        for one in self._all:
            if topic_partition in one.logs or topic_partition in one.unreadable:
                return one
        return None

    def by_id(self, directory_id: UUID) -> LogDir | None:
        """The directory of this id, if it is one of those for partitions and could be opened."""
        return next(
            (one for one in self.dirs if one.is_open and one.directory_id == directory_id), None
        )

    @property
    def ids(self) -> tuple[UUID, ...]:
        """The ids of the directories for partitions that could be opened."""
        return tuple(one.directory_id for one in self.dirs if one.is_open)

    # --- life --------------------------------------------------------------------------------------

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

        One of the others that cannot be opened is offline; it is reported and left out.
        Raises what ``LogDir.open`` does for the metadata log's, ``WrongDirectory`` for any, and
        ``StorageFailure`` if no directory for partitions could be opened.
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
        """Before anything is written: a metadata log must not be begun where one lies elsewhere."""
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
        seen: dict[TopicPartition, LogDir] = {}
        for one in self.opened:
            for key in (*one.logs, *one.unreadable):
                other = seen.setdefault(key, one)
                if other is not one:
                    raise WrongDirectory(
                        f"partition {key} lies in both {other.name} and {one.name}; keep the newer copy "
                        "and move the other one away"
                    )

    def close(
        self, *, now_ms: TimestampMs, registrations: Registrations = NO_REGISTRATIONS
    ) -> bool:
        """Close every directory, the metadata log's last; whether all were clean."""
        rest = [one for one in self.opened if one is not self.metadata]
        closed = [
            one.close(now_ms=now_ms, registrations=registrations) for one in (*rest, self.metadata)
        ]
        return all(closed)

    def abandon(self) -> None:
        """Let go of everything without writing: the next start looks closely."""
        for one in self._all:
            one.abandon()

    def restore_failed(self) -> None:
        """Before the stop: see ``LogDir.restore_failed``."""
        for one in self.opened:
            one.restore_failed()

    # --- the life before ---------------------------------------------------------------------------

    @property
    def was_clean(self) -> bool:
        """Whether the stop before was clean, everywhere."""
        return self.metadata.was_clean and all(
            one.is_open and (one.was_clean or one.is_new) for one in self._all
        )

    @property
    def previous_registrations(self) -> Registrations:
        """Those of earlier processes since which no directory has lost anything.

        A directory that is new here held nothing; whether it replaced one that did, the registered ids tell.
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
        """What the start had to recover."""
        return [report for one in self.opened for report in one.reports]

    def note_life(self, registrations: Registrations) -> None:
        """See ``LogDir.note_life``."""
        for one in self.opened:
            one.note_life(registrations)

    def doubt(self, topic_partition: TopicPartition) -> None:
        """A sync of this log has failed: its directory may have lost what was written."""
        (self.holding(topic_partition) or self.metadata).doubt()

    @property
    def shortened(self) -> Mapping[TopicPartition, Offset]:
        """See ``LogDir.shortened``."""
        return ChainMap(*(one.shortened for one in self._all))

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
        """Begin a new, empty log: in the directory that was chosen for it or ``within`` this one, if that
        takes writes, otherwise in the one with the fewest partitions. ``is_first_here`` says that this node
        cannot have had the partition before.

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
        """When this partition is made here, make it in this directory."""
        self._chosen.pop(topic_partition, None)
        self._chosen[topic_partition] = log_dir
        if len(self._chosen) > CHOSEN_DIRECTORIES_MAX:
            del self._chosen[next(iter(self._chosen))]

    def place_for(self, within: UUID | None = None) -> LogDir:
        """Where a new partition goes. Raises ``StorageFailure`` if no directory takes writes."""
        online = [one for one in self.dirs if one.is_open and not one.state.is_offline]
        for one in online:
            if one.directory_id == within:
                return one
        if not online:
            if len(self.dirs) == 1 and self.dirs[0].is_open:
                return self.dirs[0]  # a single disk is tried: it may have room for a little
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
        """Take a log out of use at once; its files go with ``purge``."""
        self._require(topic_partition).delete(topic_partition, now_ms=now_ms)

    def set_aside(self, topic_partition: TopicPartition, *, now_ms: TimestampMs = 0) -> str:
        """Take a log out of use and keep its files under another name, which is answered."""
        return self._require(topic_partition).set_aside(topic_partition, now_ms=now_ms)

    def _require(self, topic_partition: TopicPartition) -> LogDir:
        holding = self.holding(topic_partition)
        if holding is None:
            raise KeyError(topic_partition)
        return holding

    def purge(self, now_ms: TimestampMs) -> int:
        """Remove the files of deleted logs whose time has come; answers how many logs."""
        return sum(one.purge(now_ms) for one in self.opened)

    # --- checkpoints -------------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """See ``LogDir.write_checkpoints``. Raises ``StorageFailure``, after the other directories."""
        _each([one.write_checkpoints for one in self._writable()])

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """What was last written down of how far partitions are replicated, by who has each now."""
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
        """Write down how far partitions are replicated. Raises ``StorageFailure``, after the others."""
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
        """Where to write checkpoints; a single directory is always tried."""
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
    """All of them, whether one fails or not."""
    failure: StorageFailure | None = None
    for job in jobs:
        try:
            job()
        except StorageFailure as error:
            failure = failure or error
    if failure is not None:
        raise failure
