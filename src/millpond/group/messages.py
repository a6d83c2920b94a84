"""Commands to groups and their answers: those of the classic protocol, of offsets, and from the host.

An answer's ``error`` is the class of what went wrong, or None. Joins and syncs may have to wait for other
members: they carry a ``ticket``, a number that the host chose, and the answer with that ticket is given at
once or much later. Every other command is answered in place. The commands that only members of one kind of
group send are in the package of that kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from millpond.base.errors import MillpondError
from millpond.group.records import CommittedOffset, GroupRecord

Ticket: TypeAlias = int
ErrorClass: TypeAlias = type[MillpondError]
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]

NO_MEMBER_ID = ""
NO_GENERATION = -1
# A deadline that never comes.
NEVER_MS = 2**63 - 1


class Now(NamedTuple):
    """The time as an argument: the wall clock for records, the steady clock for deadlines."""

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


AnswerT = TypeVar("AnswerT")


# Reads one setting by its name.
Setting: TypeAlias = Callable[[str], Any]


class KindSettings:
    """The settings that hold for one group of a kind."""

    __slots__ = ()

    @classmethod
    def read(cls, broker: Setting, group: Setting) -> Self:
        """Read them from the settings of the node and those of the group."""
        raise NotImplementedError


class Command(Generic[AnswerT]):
    """A command to a group, with the type of its answer."""

    __slots__ = ()

    group_id: str

    @property
    def kept_bytes(self) -> int:
        """How many bytes the group would keep of what a member sends with this."""
        return 0


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

    @property
    def kept_bytes(self) -> int:
        return sum(len(metadata) for _name, metadata in self.protocols)


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
    """Ask for the assignment; the leader's sync carries those of all members."""

    group_id: str
    ticket: Ticket
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self.assignments.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The assignment of one member."""

    error: ErrorClass | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


# --- living and leaving ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Command[ErrorClass | None]):
    """A member is alive. The answer may be that it has to join again."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """Names a member that leaves: by its id, or by its instance id if an administrator removes it."""

    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Command[tuple[ErrorClass | None, ...]]):
    """Members leave; the answer has one result for each, in order."""

    group_id: str
    members: tuple[LeavingMember, ...]


# --- offsets --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets(Command[tuple[ErrorClass | None, ...]]):
    """Store offsets; the answer has an error for each that was refused. Raises if all are."""

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
    """Store offsets that count when this producer's transaction commits; else as ``CommitOffsets``."""

    group_id: str
    offsets: tuple[tuple[str, int, CommittedOffset], ...]
    producer_id: int
    producer_epoch: int
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOffsets(Command[tuple[ErrorClass | None, ...]]):
    """Delete offsets of topics that no member reads. Raises if the group does not allow it."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Command[None]):
    """Remove an empty group and its offsets. Raises otherwise."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopic(Command[None]):
    """A topic was deleted: delete the group's offsets in it."""

    group_id: str
    topic: str


# --- from the host --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(Command[None]):
    """Act on the deadlines of the group that have passed."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOffsets(Command[None]):
    """Delete offsets whose retention time is over; delete the group if nothing is left of it."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed(Command[None]):
    """The records of the last decision could not be written."""

    group_id: str
    error: ErrorClass


@dataclass(slots=True)
class Outbox:
    """The result of a decision: records to append, and answers that hold once they are appended."""

    records: list[GroupRecord] = field(default_factory=list)
    joins: list[tuple[Ticket, JoinAnswer]] = field(default_factory=list)
    syncs: list[tuple[Ticket, SyncAnswer]] = field(default_factory=list)
    # Patterns of groups whose topics the host shall look up and report with ``ResolvePatterns``.
    patterns: list[tuple[str, frozenset[str]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[AnswerT]):
    """The answer to a command, and what must be done for it to be true."""

    answer: AnswerT
    outbox: Outbox
