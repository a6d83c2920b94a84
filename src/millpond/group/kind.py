"""The interface between the coordinator and a kind of group.

A kind is a package of its own: ``classic``, ``consumer``, ``streams``, ``share``. It has a ``Group``, the
state of one group, and a ``GroupKind``, which says which commands and records belong to the kind and makes
its groups. ``kinds`` lists them; the coordinator knows no other difference between them.

The commands of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and those of offsets can be
sent to a group of any kind, so every ``Group`` answers them. By default it refuses members of that protocol.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

from millpond.base import limits
from millpond.base.errors import (
    GroupNotEmpty,
    InconsistentGroupProtocol,
    InvalidGroupId,
    UnknownMember,
)
from millpond.base.kafka_encoding import Reader
from millpond.group.messages import (
    Command,
    CommitOffsets,
    ErrorClass,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    KindSettings,
    Leave,
    Now,
    Outbox,
    PendOffsets,
    Sync,
    SyncAnswer,
)
from millpond.group.records import CommittedOffset, GroupRecord
from millpond.group.topics import TopicView

SettingsT = TypeVar("SettingsT", bound=KindSettings)
RecordT = TypeVar("RecordT", bound=GroupRecord)
# The kind of groups of the classic protocol, to which an empty group of another kind may give way.
CLASSIC = "classic"

RetentionStart: TypeAlias = Callable[[CommittedOffset], int]


class ReadSettings(Protocol):
    """Returns the settings of a kind that hold for a group now."""

    def __call__(self, settings: type[SettingsT], group_id: str, /) -> SettingsT: ...


@dataclass(frozen=True, slots=True)
class Staged:
    """A group that the records of a decision will make. The host writes them before it lets others in."""

    group: "Group"
    # Whether its members shall join again once the records are written.
    rebalance: bool = False
    # Whether it takes its place at once, because requests are parked in it, and not with its records.
    is_present: bool = False
    # The group that was in that place, to be put back if the records cannot be written.
    instead_of: "Group | None" = None


@dataclass(slots=True)
class GroupContext:
    """One command to one group: the settings and topics that hold now, the time, and the result."""

    settings: GroupSettings
    read_settings: ReadSettings
    topics: TopicView
    now: Now
    out: Outbox
    staged: Staged | None = None


class Group(ABC):
    """One group of any kind. Records change what the log keeps of it; its verbs return records."""

    __slots__ = ()

    # Kafka's name of the kind, as lists of groups show it.
    kind: ClassVar[str]
    group_id: str

    # --- its state ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def state(self) -> str:
        """The name of the state, as clients and tools see it."""

    @property
    @abstractmethod
    def protocol_type(self) -> str | None:
        """The type of the members' protocol; None for offsets without members."""

    @property
    @abstractmethod
    def has_members(self) -> bool: ...

    @property
    @abstractmethod
    def wake_ms(self) -> int:
        """The time before which no deadline of the group passes."""

    @property
    def is_stored(self) -> bool:
        """Whether the log has a record of the group."""
        return True

    @property
    def is_deserted(self) -> bool:
        """Whether the group has no members and expects none."""
        return not self.has_members

    def may_be_replaced_by(self, kind: str) -> bool:
        """Whether a group of this other kind may take the place of this one."""
        del kind
        return False

    def kept_bytes(self) -> int:
        """How many bytes the group keeps of what its members sent."""
        return 0

    # --- offsets ------------------------------------------------------------------------------------

    @abstractmethod
    def reads_topic(self, topic: str) -> bool:
        """Whether a member reads this topic."""

    @abstractmethod
    def check_commit(self, command: CommitOffsets | PendOffsets) -> ErrorClass | None:
        """Return why these offsets may not be committed now."""

    def note_commit(self, member_id: str, now: Now) -> None:
        """A member has committed offsets. In most kinds that does not extend its session."""
        del member_id, now

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorClass | None:
        """Return why this client may not read the group's offsets now."""

    def retention_start(self) -> RetentionStart | None:
        """Return when the retention of an offset begins; None while no offset may expire."""
        return lambda committed: committed.committed_at_ms

    def check_offsets_deletable(self) -> ErrorClass | None:
        """Return why no offset may be deleted now, of whatever topic."""
        return None

    # --- its end ------------------------------------------------------------------------------------

    def check_deletable(self) -> ErrorClass | None:
        """Return why the group may not be deleted now."""
        return GroupNotEmpty if self.has_members else None

    @abstractmethod
    def tombstones(self) -> Iterable[GroupRecord]:
        """Return the records after which the group does not exist."""

    def disband(self, error: ErrorClass, out: Outbox) -> None:
        """Answer every parked request with an error: the group is coordinated elsewhere, or ends."""
        del error, out

    # --- members of the classic protocol ------------------------------------------------------------

    def join(self, command: Join, context: GroupContext) -> None:
        """Answer the join, or park it until the answer is known."""
        answer = JoinAnswer(error=InconsistentGroupProtocol)
        context.out.joins.append((command.ticket, answer))

    def sync(self, command: Sync, context: GroupContext) -> None:
        """Answer the sync, or park it until the assignment is known."""
        context.out.syncs.append((command.ticket, SyncAnswer(error=UnknownMember)))

    def heartbeat(self, command: Heartbeat, context: GroupContext) -> ErrorClass | None:
        """Extend the member's session. Return what it is told to do."""
        del command, context
        return UnknownMember

    def leave(self, command: Leave, context: GroupContext) -> tuple[ErrorClass | None, ...]:
        """Remove members. Return a result for each."""
        del context
        return (UnknownMember,) * len(command.members)

    # --- time and the log ---------------------------------------------------------------------------

    @abstractmethod
    def resume(self, context: GroupContext) -> None:
        """Start the members' sessions after the group was read from the log."""

    @abstractmethod
    def expire(self, context: GroupContext) -> None:
        """Act on every deadline that has passed."""

    def store_failed(self, error: ErrorClass, context: GroupContext) -> None:
        """The records of the last decision were not written."""
        del error, context

    def lookup_cancelled(self) -> None:
        """The host will not look up the patterns that the last decision asked for."""
        return

    def inherit(self, staged: Self) -> None:
        """Take over what is not in the log from the group in which this one was decided on."""
        del staged


# Decides a command that belongs to a kind: the command, the group of that name if there is one, the context.
Handler: TypeAlias = Callable[[Any, Group | None, GroupContext], object]


class GroupKind(ABC, Generic[RecordT]):
    """A kind of group: its commands and records, and how its groups come to be."""

    name: ClassVar[str]
    # The commands that only this kind decides.
    commands: Mapping[type[Command[Any]], Handler]
    # The records of this kind, and the versions of their keys.
    record_types: ClassVar[tuple[type[GroupRecord], ...]]
    key_versions: ClassVar[frozenset[int]]

    @abstractmethod
    def encode(self, record: RecordT) -> tuple[bytes, bytes | None]:
        """Return the record's key and its value, None for a tombstone."""

    @abstractmethod
    def decode(self, version: int, key: Reader, value: bytes | None) -> RecordT:
        """Read a record back; ``key`` is behind its version. Raises ``MalformedData``."""

    @abstractmethod
    def replay(self, record: RecordT, group: Group | None, settings: GroupSettings) -> Group | None:
        """Apply a record that was read from the log. Return the group of its name afterwards."""

    def apply(
        self, record: RecordT, group: Group | None, staged: Staged | None, context: GroupContext
    ) -> Group | None:
        """Apply a record that was written just now. Return the group of its name afterwards."""
        del staged
        return self.replay(record, group, context.settings)


def check_group_id(group_id: str) -> None:
    """Raises ``InvalidGroupId`` if the name is too long."""
    if len(group_id) > limits.GROUP_ID_CHARS_MAX:
        raise InvalidGroupId(f"a group's name may have {limits.GROUP_ID_CHARS_MAX} characters")


def default_settings(settings: type[SettingsT], _group_id: str, /) -> SettingsT:
    """Every setting has its default."""
    return settings()
