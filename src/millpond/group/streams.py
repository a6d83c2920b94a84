"""One streams group (KIP-1071): instances of a Kafka Streams application share its tasks.

Epochs and facts are as in consumer groups (``consumer``): the group's epoch grows with members and topics,
the targets have the epoch for which they were made, each member the one it has reached. Not in the log are
deadlines, how the topology stands with the topics (found anew when someone speaks), who asked the whole
application to stop, and the epoch of the endpoints.

May not know: the log, the wire, other groups, committed offsets.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from millpond.base.errors import (
    GroupNotEmpty,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMember,
    UnsupportedVersion,
)
from millpond.group.consumer import FIRST_EPOCH, GONE_EPOCH, Deadlines
from millpond.group.messages import (
    NO_MEMBER_ID,
    CommitOffsets,
    ErrorClass,
    Now,
    Outbox,
    PendOffsets,
)
from millpond.group.roster import NEVER_MS
from millpond.group.streams_records import (
    StreamsCurrentStored,
    StreamsForgotten,
    StreamsGroupStored,
    StreamsKind,
    StreamsMemberStored,
    StreamsRecord,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    TaskSet,
    TaskState,
    TopologyStored,
)
from millpond.group.task_reconcile import is_reconciled
from millpond.group.topology import ConfiguredTopology, Topology

PROTOCOL_TYPE = "streams"


class StreamsState(StrEnum):
    """Where a group is; the words that clients and tools see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsMember(NamedTuple):
    """What a member says of itself, and what it has."""

    about: StreamsMemberStored
    current: StreamsCurrentStored

    @property
    def member_id(self) -> str:
        return self.about.member_id

    @classmethod
    def new(cls, group_id: str, member_id: str) -> "StreamsMember":
        """Somebody of whom nothing is known."""
        return cls(
            StreamsMemberStored(group_id=group_id, member_id=member_id),
            StreamsCurrentStored(group_id=group_id, member_id=member_id, epoch=0, previous_epoch=0),
        )


class StreamsGroup:
    """The state of one group. Facts change it; only presence changes without."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        # The topology whose topics were found right; -1 if they are not.
        self.validated_epoch = 0
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        self.target_epoch = FIRST_EPOCH
        self.target_made_ms = 0
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, TaskSet] = {}
        # Task → the process that runs it, the processes that follow it.
        self._run_by: dict[tuple[str, int], str] = {}
        self._followed_by: dict[tuple[str, int], set[str]] = {}
        self.deadlines = Deadlines()
        # When a new group that waits for more members makes its first targets.
        self.first_targets_ms: int | None = None
        self.configured: ConfiguredTopology | None = None
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        # The version of the topics that was last looked at, and the epoch that came of it.
        self._looked_at: tuple[int, int] | None = None

    # --- facts --------------------------------------------------------------------------------------

    def apply(self, record: StreamsRecord) -> None:
        """A fact is in the log."""
        match record:
            case StreamsGroupStored():
                self.epoch, self.metadata_hash = record.epoch, record.metadata_hash
                self.validated_epoch = record.validated_epoch
                self.assignment_configs = record.assignment_configs
            case TopologyStored():
                self.topology = record.topology
            case StreamsMemberStored():
                before = self._member(record.member_id)
                self._put(StreamsMember(record, before.current))
            case StreamsTargetEpochStored():
                self.target_epoch, self.target_made_ms = record.epoch, record.made_at_ms
            case StreamsTargetStored():
                self.targets[record.member_id] = record.tasks
            case StreamsCurrentStored():
                before = self._member(record.member_id)
                self._put(StreamsMember(before.about, record))
            case StreamsForgotten():
                self._forget(record)

    def _forget(self, record: StreamsForgotten) -> None:
        match record.kind:
            case StreamsKind.MEMBER:
                self._remove(record.name)
            case StreamsKind.CURRENT:
                before = self.members.get(record.name)
                if before is not None:
                    gone = StreamsCurrentStored(
                        group_id=self.group_id,
                        member_id=record.name,
                        epoch=GONE_EPOCH,
                        previous_epoch=GONE_EPOCH,
                    )
                    self._put(StreamsMember(before.about, gone))
            case StreamsKind.TARGET:
                self.targets.pop(record.name, None)
            case StreamsKind.TARGET_EPOCH:
                self.target_epoch, self.target_made_ms = GONE_EPOCH, 0
            case StreamsKind.TOPOLOGY:
                self.topology = None
            case StreamsKind.GROUP:
                pass  # the coordinator forgets the whole

    def _member(self, member_id: str) -> StreamsMember:
        return self.members.get(member_id) or StreamsMember.new(self.group_id, member_id)

    def _put(self, after: StreamsMember) -> None:
        before = self.members.get(after.member_id)
        if before is not None:
            self._release(before)
        process_id = after.about.process_id
        for held in (after.current.assigned, after.current.revoking):
            self._run_by.update(dict.fromkeys(_places(held.active), process_id))
            for place in (*_places(held.standby), *_places(held.warmup)):
                self._followed_by.setdefault(place, set()).add(process_id)
        self.members[after.member_id] = after

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self.deadlines.forget(member_id)
        if not self.members:
            self.shutdown_by = None

    def _release(self, member: StreamsMember) -> None:
        process_id = member.about.process_id
        for held in (member.current.assigned, member.current.revoking):
            for place in _places(held.active):
                # Unless another process has it since.
                if self._run_by.get(place) == process_id:
                    del self._run_by[place]
            for place in (*_places(held.standby), *_places(held.warmup)):
                processes = self._followed_by.get(place, set())
                processes.discard(process_id)
                if not processes:
                    self._followed_by.pop(place, None)

    # --- what others may ask ------------------------------------------------------------------------

    @property
    def state(self) -> StreamsState:
        if not self.members:
            return StreamsState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsState.ASSIGNING
        if all(is_reconciled(one.current, self.target_epoch) for one in self.members.values()):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_stored(self) -> bool:
        return True

    @property
    def is_deserted(self) -> bool:
        """Nobody is here."""
        return not self.members

    @property
    def wake_ms(self) -> int:
        """Nothing is due before this."""
        first_ms = NEVER_MS if self.first_targets_ms is None else self.first_targets_ms
        return min(self.deadlines.wake_ms, first_ms)

    def reads_topic(self, topic: str) -> bool:
        """Do tasks of the present members read this topic?"""
        if not self.members or self.topology is None:
            return False
        return self.topology.reader_of(topic) is not None

    def runner(self, part: str, number: int) -> str | None:
        """The process that runs a task."""
        return self._run_by.get((part, number))

    def is_followed_by(self, part: str, number: int, process_id: str) -> bool:
        """Whether a process keeps the state of a task that it does not run."""
        return process_id in self._followed_by.get((part, number), ())

    def must_look(self, version: int) -> bool:
        """Whether topics may have changed since they were last looked at."""
        if self._looked_at is None or self.configured is None:
            return True
        looked_at, epoch = self._looked_at
        # If the epoch did not grow as decided, what was decided did not happen.
        return looked_at != version or self.epoch < epoch

    def note_look(self, version: int, epoch: int) -> None:
        self._looked_at = version, epoch

    # --- offsets ------------------------------------------------------------------------------------

    def check_commit(self, command: CommitOffsets | PendOffsets) -> ErrorClass | None:
        """May this member, or this stranger, commit these offsets now?"""
        if command.generation < 0 and not self.members:
            return None
        is_transactional = isinstance(command, PendOffsets)
        if (
            is_transactional
            and command.generation == -1
            and command.member_id == NO_MEMBER_ID
            and command.instance_id is None
        ):
            return None
        member = self.members.get(command.member_id)
        if member is None:
            return UnknownMember
        if isinstance(command, CommitOffsets) and not command.knows_epochs:
            return UnsupportedVersion
        if self._is_current(command, member.current):
            return None
        # A transaction's client knows only one word for it.
        return IllegalGeneration if is_transactional else StaleMemberEpoch

    def _is_current(
        self, command: CommitOffsets | PendOffsets, current: StreamsCurrentStored
    ) -> bool:
        if command.generation == current.epoch:
            return True
        if command.generation > current.epoch or self.topology is None:
            return False
        # An older epoch will do for tasks that the member has had since then (KIP-1251).
        for topic, partition, _asked in command.offsets:
            part = self.topology.reader_of(topic) or ""
            since = current.assigned.active.get(part, {}).get(partition)
            if since is None:
                since = current.revoking.active.get(part, {}).get(partition)
            if since is None or command.generation < since:
                return False
        return True

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorClass | None:
        """May this member read the group's offsets now? Strangers that say nothing may."""
        if member_id is None and epoch < 0:
            return None
        member = self.members.get(member_id or "")
        if member is None:
            return UnknownMember
        return None if epoch == member.current.epoch else StaleMemberEpoch

    def note_commit(self, member_id: str, now: Now) -> None:
        """A commit is no heartbeat here."""

    def check_deletable(self) -> ErrorClass | None:
        return GroupNotEmpty if self.members else None

    def check_offsets_deletable(self) -> ErrorClass | None:
        return None

    # --- life ---------------------------------------------------------------------------------------

    def inherit(self, staged: "StreamsGroup") -> None:
        """Take over the deadlines of the group in which this one was decided on."""
        self.deadlines = staged.deadlines
        self.first_targets_ms = staged.first_targets_ms

    def resume(self, now: Now, session_timeout_ms: int) -> None:
        """After a restart every member has one session time-out to be heard of."""
        for member in self.members.values():
            due_ms = now.steady_ms + session_timeout_ms
            self.deadlines.extend_session(member.member_id, due_ms)
            if member.current.state is TaskState.UNREVOKED:
                self.deadlines.expect_revocation(
                    member.member_id,
                    now.steady_ms + max(member.about.rebalance_timeout_ms, 0),
                    member.current.epoch,
                )

    def disband(self, error: ErrorClass, out: Outbox) -> None:
        """Nobody is kept waiting here, so nobody has to be told."""

    def tombstones(self) -> Iterator[StreamsRecord]:
        """The facts after which there is no such group."""
        for kind in (StreamsKind.CURRENT, StreamsKind.TARGET):
            for member_id in self.members:
                yield StreamsForgotten(group_id=self.group_id, kind=kind, name=member_id)
        yield StreamsForgotten(group_id=self.group_id, kind=StreamsKind.TARGET_EPOCH)
        for member_id in self.members:
            yield StreamsForgotten(group_id=self.group_id, kind=StreamsKind.MEMBER, name=member_id)
        yield StreamsForgotten(group_id=self.group_id, kind=StreamsKind.GROUP)
        yield StreamsForgotten(group_id=self.group_id, kind=StreamsKind.TOPOLOGY)


def _places(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
    for part, numbers in tasks.items():
        for number in numbers:
            yield part, number
