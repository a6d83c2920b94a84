"""The log directory as administrators see it: its disk, and what partitions take of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from millpond.base.errors import NotLeader, StorageFailure, UnknownTopic
from millpond.engine.topics import TopicTable
from millpond.replication.partition import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """What one partition takes on disk."""

    topic: str
    partition: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """The log directory, its disk, and the partitions asked for. -1 where it is not known."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: tuple[PartitionSize, ...]


class DiskView:
    """The log directory of this node."""

    def __init__(
        self,
        topics: TopicTable,
        path: str,
        usage: Callable[[], tuple[int, int]] | None,
        *,
        failure: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``usage`` gives (total, free) bytes of the disk, ``failure`` why the directory is offline."""
        self._failure = failure
        self._topics = topics
        self._path = path
        self._usage = usage

    def describe(self, partitions: Iterable[tuple[str, int]] | None = None) -> LogDirDescription:
        """The log directory and the partitions in it: all, or those asked for that exist.

        A replica that is shut off (its log failed, or could not be opened) is not among them: that is how
        an administrator sees that a node does not have what it should have. Raises ``StorageFailure`` while
        the directory is offline.
        """
        failure = self._failure()
        if failure is not None:
            raise StorageFailure(f"the log directory is offline: {failure}")
        found = self._topics if partitions is None else filter(None, map(self._if_here, partitions))
        total, usable = (-1, -1)
        if self._usage is not None:
            try:
                total, usable = self._usage()
            except OSError as error:
                raise StorageFailure(f"the log directory cannot be reached: {error}") from error
        return LogDirDescription(
            path=self._path,
            total_bytes=total,
            usable_bytes=usable,
            partitions=tuple(
                PartitionSize(topic=one.topic, partition=one.index, size_bytes=one.log.size_bytes)
                for one in found
                if one.log.failure is None
            ),
        )

    def _if_here(self, key: tuple[str, int]) -> Partition | None:
        try:
            return self._topics.replica(*key)
        except (UnknownTopic, NotLeader, StorageFailure):
            return None
