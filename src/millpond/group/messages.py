"""What is asked of groups and what they answer.

Commands are imperative, answers are values; an answer's ``error`` is the class of what went wrong, or
None. Joins and syncs may have to wait for others: they carry a ``ticket``, a number that the host made
up, and are answered by it, at once or much later. Everything else is answered in place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from millpond.base.errors import MillpondError
from millpond.group.consumer_records import Target
from millpond.group.records import CommittedOffset, GroupRecord

Ticket: TypeAlias = int
ErrorClass: TypeAlias = type[MillpondError]
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]

NO_MEMBER_ID = ""
NO_GENERATION = -1


class Now(NamedTuple):
    """The time, as an argument: what people see, and what deadlines are measured with."""

    wall_ms: int
    steady_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Kafka's names are in the comments; so are its defaults."""

    session_timeout_ms_min: int = 6_000  # group.min.session.timeout.ms
    session_timeout_ms_max: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    members_max: int = 2**31 - 1  # group.max.size
    offset_metadata_chars_max: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000  # offsets.retention.minutes
    # A member that has just joined cannot send heartbeats yet. If it disappears while its first join
    # is parked, this is how long the group waits for it. Not configurable in Kafka either.
    new_member_join_timeout_ms: int = 5 * 60_000


class MigrationPolicy(StrEnum):
    """Between which protocols a group with members may go over."""

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
class ConsumerSettings:
    """What holds for one consumer group; Kafka's names and defaults as above."""

    session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    members_max: int = 2**31 - 1  # group.consumer.max.size
    assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL  # group.consumer.migration.policy


AnswerT = TypeVar("AnswerT")


class Command(Generic[AnswerT]):
    """Something asked of a group, with the type of its answer."""

    __slots__ = ()

    group_id: str


# --- joining and syncing --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Command[None]):
    """Become a member, or take part in the next generation."""

    group_id: str
    ticket: Ticket
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str = "consumer"
    protocols: Protocols = ()
    # Randomness is an argument: the part of a new member's id that no one can guess.
    fresh_id: str = ""
    # KIP-394: a dynamic member must come back with the id it is given before it counts.
    member_id_required: bool = True
    # KIP-814: the joiner understands that a leader may be told to keep the assignment.
    may_skip_assignment: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The generation that a member is now part of; all members if it leads."""

    error: ErrorClass | None = None
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Command[None]):
    """Ask for the assignment; the leader brings everyone's."""

    group_id: str
    ticket: Ticket
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """What a member shall do."""

    error: ErrorClass | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


# --- consumer groups (KIP-848) --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """The member's epoch, and what it may have now if that is news."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat(Command[ConsumerHeartbeatAnswer]):
    """A member joins (epoch 0), is alive, or leaves (-1; -2 if it is static and comes back).

    What is None is as before. Raises what the member is told instead of an answer.
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
    # Randomness is an argument: the id of a member that has not made up its own.
    fresh_id: str = ""
    # From version 1 on members make up their ids.
    member_id_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvePatterns(Command[None]):
    """The topics that patterns stand for, looked up as asked in ``Outbox.patterns``."""

    group_id: str
    found: Mapping[str, frozenset[str]]
    version: int
    resolved_at_ms: int


# --- living and leaving ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Command[ErrorClass | None]):
    """I am alive. The answer may be that a new generation is forming."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """Who leaves: by member id, or an administrator's word about an instance id."""

    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Command[tuple[ErrorClass | None, ...]]):
    """Members go; answered one by one, in order."""

    group_id: str
    members: tuple[LeavingMember, ...]


# --- offsets --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets(Command[tuple[ErrorClass | None, ...]]):
    """Remember positions; all of them or, where one cannot be, the rest. Raises if none may be."""

    group_id: str
    offsets: tuple[tuple[str, int, CommittedOffset], ...]
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    instance_id: str | None = None
    retention_ms: int | None = None
    # Whether the client's version of the request can say a member's epoch.
    knows_epochs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PendOffsets(Command[tuple[ErrorClass | None, ...]]):
    """Positions that count when this producer's transaction commits. Otherwise as ``CommitOffsets``."""

    group_id: str
    offsets: tuple[tuple[str, int, CommittedOffset], ...]
    producer_id: int
    producer_epoch: int
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOffsets(Command[tuple[ErrorClass | None, ...]]):
    """Drop positions of topics that no member reads. Raises if the group does not allow it."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Command[None]):
    """Remove an empty group and its offsets. Raises otherwise."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopic(Command[None]):
    """A topic is gone, and with it one group's positions in it."""

    group_id: str
    topic: str


# --- from the host --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(Command[None]):
    """Time has passed: act on what is due in this group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOffsets(Command[None]):
    """Drop what this group has not needed for the retention time; drop the group if nothing is left."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed(Command[None]):
    """The group's record could not be written."""

    group_id: str
    error: ErrorClass


@dataclass(slots=True)
class Outbox:
    """What a decision wants done: facts to append, and answers that hold once they are appended."""

    records: list[GroupRecord] = field(default_factory=list)
    joins: list[tuple[Ticket, JoinAnswer]] = field(default_factory=list)
    syncs: list[tuple[Ticket, SyncAnswer]] = field(default_factory=list)
    # Patterns of groups whose topics someone shall look up and tell with ``ResolvePatterns``.
    patterns: list[tuple[str, frozenset[str]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[AnswerT]):
    """The answer to a command, and what must be done for it to be true."""

    answer: AnswerT
    outbox: Outbox
