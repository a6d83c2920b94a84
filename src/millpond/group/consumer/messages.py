"""Commands of consumer groups (KIP-848), their answers, and the settings of one group."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from millpond.group.consumer.records import Target
from millpond.group.messages import Command, KindSettings, Setting


class MigrationPolicy(StrEnum):
    """In which directions a group with members may change between the classic and the consumer protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def may_upgrade(self) -> bool:
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE}

    @property
    def may_downgrade(self) -> bool:
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(KindSettings):
    """The settings of one consumer group; Kafka's names are in the comments, so are its defaults."""

    session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    members_max: int = 2**31 - 1  # group.consumer.max.size
    assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL  # group.consumer.migration.policy

    @classmethod
    def read(cls, broker: Setting, group: Setting) -> Self:
        return cls(
            session_timeout_ms=group("consumer.session.timeout.ms"),
            heartbeat_interval_ms=group("consumer.heartbeat.interval.ms"),
            assignment_interval_ms=group("consumer.assignment.interval.ms"),
            regex_refresh_interval_ms=broker("group.consumer.regex.refresh.interval.ms"),
            members_max=broker("group.consumer.max.size"),
            assignors=tuple(broker("group.consumer.assignors")),
            migration=MigrationPolicy(broker("group.consumer.migration.policy").lower()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """The member's epoch, and its present assignment if that has changed."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat(Command[ConsumerHeartbeatAnswer]):
    """A member joins (epoch 0), is alive, or leaves (-1; -2 if it is static and comes back).

    A field that is None has not changed. Raises the error that the member is told instead of an answer.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Target | None = None
    client_id: str = ""
    client_host: str = ""
    # Randomness is an argument: the id of a member that has not chosen its own.
    fresh_id: str = ""
    # From version 1 on members choose their ids.
    member_id_required: bool = True

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self.topics or ())) + len(self.pattern or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvePatterns(Command[None]):
    """The topics that patterns match, looked up as ``Outbox.patterns`` asked for."""

    group_id: str
    found: Mapping[str, frozenset[str]]
    version: int
    resolved_at_ms: int
