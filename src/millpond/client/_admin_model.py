"""Arguments and results of administrative requests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.client.errors import BrokerRefused
from millpond.wire.kafka.api import ErrorCode

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

T = TypeVar("T")


class ConfigOperation(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1  # back to the default
    APPEND = 2  # to a list
    SUBTRACT = 3  # from a list


class ResourceType(IntEnum):
    """The kinds of resources that have settings."""

    TOPIC = 2
    BROKER = 4


class ElectionType(IntEnum):
    """Which leader to elect."""

    PREFERRED = 0  # the first of the replicas, if it is in sync
    UNCLEAN = 1  # any live replica if none in sync is up; loses records that only others had


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """The created topic. Numbers are -1 where an old broker does not return them."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting, its value, and where the value comes from."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: int
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """An offset found by time; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageInfo:
    """Offsets of a partition that one replica cannot give, because their bytes on its disk are damaged."""

    first_offset: int
    next_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirInfo:
    """One data directory of one broker. A directory that is offline (its disk failed) has no details.

    ``failure`` and ``damage`` are told by Millpond's brokers only: why the directory is offline, and the
    first ranges of each partition that cannot be read.
    """

    node_id: int
    path: str
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int
    is_offline: bool = False
    failure: str | None = None
    damage: Mapping[TopicPartition, tuple[DamageInfo, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """One node's copy of the metadata log. Times are -1 where they are unknown."""

    node_id: int
    directory_id: UUID
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """The levels of one feature that a node supports, and the finalized one; 0 is off."""

    level: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumInfo:
    """The voters on the cluster's metadata, their leader, and the observers."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    def lag_of(self, replica: QuorumReplica) -> int:
        """Return how many records a replica is behind the leader."""
        ends = [item.end_offset for item in self.voters if item.node_id == self.leader_id]
        return max(0, max(ends, default=self.high_watermark) - replica.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is being moved; ``replicas`` are the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def only(outcomes: Mapping[str, T | BrokerRefused]) -> T:
    """Return the result of a call with one item; raise it if it is a ``BrokerRefused``."""
    [outcome] = outcomes.values()
    if isinstance(outcome, BrokerRefused):
        raise outcome
    return outcome


def first(codes: Iterable[int]) -> int:
    """Return the first error code."""
    return next(iter(codes), ErrorCode.NONE)


def refusal_of(code: int, message: str | None, subject: str) -> BrokerRefused | None:
    """Return an error code as an exception; None if it is no error."""
    return None if code == ErrorCode.NONE else BrokerRefused(code, message, subject=subject)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic."""
    grouped: dict[str, list[int]] = {}
    for topic, number in partitions:
        grouped.setdefault(topic, []).append(number)
    return grouped
