"""What administrators ask for and are told: plain facts."""

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
    """What has settings."""

    TOPIC = 2
    BROKER = 4


class ElectionType(IntEnum):
    """Which leader is wanted."""

    PREFERRED = 0  # the first of the replicas, if it is in sync
    UNCLEAN = 1  # any replica that lives, where nobody in sync does; loses what only others had


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """What the broker made of it. Numbers are -1 where an old broker does not tell."""

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
class LogDirInfo:
    """One data directory of one broker. One that is offline (its disk failed) tells nothing of itself."""

    node_id: int
    path: str
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int
    is_offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """One node's copy of the metadata log. Times are -1 where nobody can tell."""

    node_id: int
    directory_id: UUID
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """The levels of one feature that a node can work at, and the one in force; 0 is off."""

    level: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumInfo:
    """The voters on the cluster's metadata, their leader, and the nodes that only follow."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    def lag_of(self, replica: QuorumReplica) -> int:
        """How many records a replica is behind the leader."""
        ends = [item.end_offset for item in self.voters if item.node_id == self.leader_id]
        return max(0, max(ends, default=self.high_watermark) - replica.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on its way to other replicas; ``replicas`` are the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def only(outcomes: Mapping[str, T | BrokerRefused]) -> T:
    """The outcome of a call about one thing; raises it if it is a refusal."""
    [outcome] = outcomes.values()
    if isinstance(outcome, BrokerRefused):
        raise outcome
    return outcome


def first(codes: Iterable[int]) -> int:
    """The first error code."""
    return next(iter(codes), ErrorCode.NONE)


def refusal_of(code: int, message: str | None, subject: str) -> BrokerRefused | None:
    """An error code as an error; None if it is none."""
    return None if code == ErrorCode.NONE else BrokerRefused(code, message, subject=subject)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers of each topic."""
    grouped: dict[str, list[int]] = {}
    for topic, number in partitions:
        grouped.setdefault(topic, []).append(number)
    return grouped
