"""A streams group (KIP-1071) as its records describe it, and what is only in memory.

Epochs and records are as in consumer groups: the group's epoch grows with members and topics, the targets
have the epoch for which they were made, each member the one it has reached. Not in the log are deadlines,
whether the topology fits the topics (checked again with the next heartbeat), which member asked the whole
application to stop, and the epoch of the endpoints.

May not know: the log, the wire, other groups, committed offsets.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self

from millpond.group.epochs import GONE_EPOCH, EpochGroup, had_since
from millpond.group.messages import NEVER_MS, CommitOffsets, PendOffsets
from millpond.group.streams.records import (
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
from millpond.group.streams.task_reconcile import is_reconciled
from millpond.group.streams.topology import ConfiguredTopology, Topology

STREAMS = "streams"
PROTOCOL_TYPE = "streams"


class StreamsState(StrEnum):
    """The states of a group, by the names that clients and tools see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsMember(NamedTuple):
    """What a member says of itself, and its present tasks."""

    about: StreamsMemberStored
    current: StreamsCurrentStored

    @property
    def member_id(self) -> str:
        return self.about.member_id

    @property
    def epoch(self) -> int:
        """The assignment epoch that it has reached."""
        return self.current.epoch

    @property
    def is_classic(self) -> bool:
        """No member of a streams group speaks the classic protocol."""
        return False

    @property
    def must_revoke(self) -> bool:
        """Whether it still has to give up tasks."""
        return self.current.state is TaskState.UNREVOKED

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.about.rebalance_timeout_ms

    @classmethod
    def new(cls, group_id: str, member_id: str) -> "StreamsMember":
        """Return a member with no history."""
        return cls(
            StreamsMemberStored(group_id=group_id, member_id=member_id),
            StreamsCurrentStored(group_id=group_id, member_id=member_id, epoch=0, previous_epoch=0),
        )


class StreamsGroupImage(EpochGroup[StreamsMember]):
    """The state of one group. Records change it; only deadlines and lookups change without them."""

    kind: ClassVar[str] = STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        # The topology whose topics were found right; -1 if they are not.
        self.validated_epoch = 0
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        self.topology: Topology | None = None
        self.targets: dict[str, TaskSet] = {}
        # Task → the process that runs it, the processes that follow it.
        self._run_by: dict[tuple[str, int], str] = {}
        self._followed_by: dict[tuple[str, int], set[str]] = {}
        # When a new group that waits for more members makes its first targets.
        self.first_targets_ms: int | None = None
        self.configured: ConfiguredTopology | None = None
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0

    # --- records ------------------------------------------------------------------------------------

    def apply(self, record: StreamsRecord) -> None:
        """Apply a record."""
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
                pass  # the coordinator removes the whole group

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

    # --- what the coordinator and decisions may ask -------------------------------------------------

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
    def wake_ms(self) -> int:
        first_ms = NEVER_MS if self.first_targets_ms is None else self.first_targets_ms
        return min(super().wake_ms, first_ms)

    def reads_topic(self, topic: str) -> bool:
        """Whether tasks of the present members read this topic."""
        if not self.members or self.topology is None:
            return False
        return self.topology.reader_of(topic) is not None

    def runner(self, part: str, number: int) -> str | None:
        """Return the process that runs a task."""
        return self._run_by.get((part, number))

    def is_followed_by(self, part: str, number: int, process_id: str) -> bool:
        """Whether a process keeps the state of a task that it does not run."""
        return process_id in self._followed_by.get((part, number), ())

    def must_look(self, version: int) -> bool:
        return self.configured is None or super().must_look(version)

    # --- offsets ------------------------------------------------------------------------------------

    def _had_all_since(self, command: CommitOffsets | PendOffsets, member: StreamsMember) -> bool:
        topology = self.topology
        if topology is None:
            return False
        assigned, revoking = member.current.assigned.active, member.current.revoking.active
        return all(
            had_since(
                assigned.get(part, {}).get(partition),
                revoking.get(part, {}).get(partition),
                command.generation,
            )
            for part, partition in (
                (topology.reader_of(topic) or "", partition)
                for topic, partition, _asked in command.offsets
            )
        )

    # --- beginning and end --------------------------------------------------------------------------

    def inherit(self, staged: Self) -> None:
        self.deadlines = staged.deadlines
        self.first_targets_ms = staged.first_targets_ms

    def tombstones(self) -> Iterator[StreamsRecord]:
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
