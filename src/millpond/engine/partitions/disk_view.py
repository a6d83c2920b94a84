"""The log directories as administrators see them: their disks, and what partitions take of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from millpond.base import limits
from millpond.base.errors import (
    LogDirNotFound,
    NotLeader,
    StorageFailure,
    UnknownTopic,
    UnsupportedVersion,
)
from millpond.base.ids import TopicPartition
from millpond.engine.partitions.topic_table import TopicTable
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.log.partition_log import PartitionLog
from millpond.log.segment import Damage
from millpond.replication.partition import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """What one partition takes on disk, and the first of its ranges that are known to be damaged."""

    topic: str
    partition: int
    size_bytes: int
    damage: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """A log directory, its disk, and the partitions asked for. -1 where it is not known.

    Of one that is offline only the reason (``failure``) is told.
    """

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    partitions: tuple[PartitionSize, ...] = ()
    failure: str | None = None


class DiskView:
    """The log directories of this node."""

    def __init__(self, topics: TopicTable, log_dirs: LogDirs) -> None:
        self._topics = topics
        self._log_dirs = log_dirs

    def describe(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[LogDirDescription]:
        """Every directory and the partitions in it: all, or those asked for that exist.

        A replica that is shut off (its log failed, or could not be opened) is not among them: that is how
        an administrator sees that a node does not have what it should have.
        """
        found = self._topics if partitions is None else filter(None, map(self._if_here, partitions))
        sizes: dict[LogDir, list[PartitionSize]] = {one: [] for one in self._log_dirs.dirs}
        for one in found:
            place = self._log_dirs.holding(TopicPartition(one.topic, one.index))
            if one.log.failure is None and place in sizes:
                sizes[place].append(
                    PartitionSize(
                        topic=one.topic,
                        partition=one.index,
                        size_bytes=one.log.size_bytes,
                        damage=_damage_of(one.log),
                    )
                )
        return [_described(place, tuple(held)) for place, held in sizes.items()]

    def move(self, topic: str, index: int, path: str) -> None:
        """Have a replica in this directory: one that is not here yet is made there.

        Raises ``LogDirNotFound``; ``StorageFailure`` if the directory is offline; ``UnknownTopic`` and
        ``NotLeader`` if the replica is not here yet, after the choice was noted; ``UnsupportedVersion`` if it
        lies in another directory, since replicas cannot be moved between directories.
        """
        place = next((one for one in self._log_dirs.dirs if one.name == path), None)
        if place is None:
            raise LogDirNotFound(f"{path} is not one of this node's log.dirs")
        if place.state.reason is not None:
            raise StorageFailure(f"log directory {path} is offline: {place.state.reason}")
        key = TopicPartition(topic, index)
        holding = self._log_dirs.holding(key)
        if holding is None:
            self._log_dirs.choose(key, place)
            self._topics.check_here(topic, index)
        elif holding is not place:
            raise UnsupportedVersion(
                f"{key} lies in {holding.name}, and replicas are not moved between the directories of a "
                f"node; to have it in {path}, name that directory before the replica comes to this node"
            )

    def _if_here(self, key: tuple[str, int]) -> Partition | None:
        try:
            return self._topics.replica(*key)
        except (UnknownTopic, NotLeader, StorageFailure):
            return None


def _damage_of(log: PartitionLog) -> tuple[Damage, ...]:
    """Damage below the start of the log is not told: no consumer can ask for those records."""
    found = sorted(
        (one for one in log.damage if one.next_offset > log.start_offset),
        key=lambda one: one.first_offset,
    )
    return tuple(found[: limits.DAMAGED_RANGES_TOLD_MAX])


def _described(place: LogDir, partitions: tuple[PartitionSize, ...]) -> LogDirDescription:
    failure = place.state.reason
    total, usable = -1, -1
    if failure is None and place.usage is not None:
        try:
            total, usable = place.usage()
        except OSError as error:
            failure = str(error)
    if failure is not None:
        return LogDirDescription(path=place.name, failure=failure)
    return LogDirDescription(
        path=place.name, total_bytes=total, usable_bytes=usable, partitions=partitions
    )
