"""A consumer group (KIP-848) as its records describe it, and the deadlines of its members.

Epochs are explained in ``epochs``. Everything but deadlines is in the log: decisions (``decisions``) return
records, ``apply`` applies them, and after a restart the same records give the same group.

May not know: the log, the wire, other groups, committed offsets.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self
from uuid import UUID

from millpond.group.classic.subscription import PROTOCOL_TYPE
from millpond.group.consumer.reconcile import is_reconciled
from millpond.group.consumer.records import (
    ConsumerGroupStored,
    ConsumerRecord,
    CurrentStored,
    FactForgotten,
    FactKind,
    Holding,
    MemberState,
    MemberStored,
    PartitionsStored,
    PatternStored,
    Target,
    TargetEpochStored,
    TargetStored,
)
from millpond.group.epochs import GONE_EPOCH, NO_EPOCH, EpochGroup, had_since
from millpond.group.messages import CommitOffsets, PendOffsets
from millpond.group.topics import ResolvedPattern

CONSUMER = "consumer"


class ConsumerState(StrEnum):
    """The states of a group, by the names that clients and tools see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember(NamedTuple):
    """A member's subscription, and its present assignment."""

    metadata: MemberStored
    current: CurrentStored

    @property
    def member_id(self) -> str:
        return self.metadata.member_id

    @property
    def epoch(self) -> int:
        """The assignment epoch that it has reached."""
        return self.current.epoch

    @property
    def must_revoke(self) -> bool:
        """Whether it still has to give up partitions."""
        return self.current.state is MemberState.UNREVOKED

    @property
    def rebalance_timeout_ms(self) -> int:
        return self.metadata.rebalance_timeout_ms

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic is not None

    @classmethod
    def new(cls, group_id: str, member_id: str) -> "ConsumerMember":
        """Return a member with no history."""
        return cls(
            MemberStored(group_id=group_id, member_id=member_id, pattern=""),
            CurrentStored(group_id=group_id, member_id=member_id, epoch=0, previous_epoch=-1),
        )


class ConsumerGroupImage(EpochGroup[ConsumerMember]):
    """The state of one group. Records change it; only deadlines and lookups change without them."""

    kind: ClassVar[str] = CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Target] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        # Written by Kafka before 4.1; taken back at the next change.
        self.has_partitions_fact = False
        # How many members, and patterns, name each topic; how many members have each pattern.
        self._names: Counter[str] = Counter()
        self._pattern_readers: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self._protocols: Counter[str] = Counter()
        self._classic_count = 0
        # Topic → partition → in which epoch its holder has it.
        self._holders: dict[UUID, dict[int, int]] = {}
        self.is_resolving = False

    # --- records ------------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Apply a record."""
        match record:
            case ConsumerGroupStored():
                self.epoch, self.metadata_hash = record.epoch, record.metadata_hash
            case PartitionsStored():
                self.has_partitions_fact = True
            case MemberStored():
                before = self.members.get(record.member_id)
                fresh = before or ConsumerMember.new(self.group_id, record.member_id)
                self._put(before, ConsumerMember(record, fresh.current))
            case TargetEpochStored():
                self.target_epoch, self.target_made_ms = record.epoch, record.made_at_ms
            case TargetStored():
                self.targets[record.member_id] = record.partitions
            case CurrentStored():
                before = self.members.get(record.member_id)
                fresh = before or ConsumerMember.new(self.group_id, record.member_id)
                self._put(before, ConsumerMember(fresh.metadata, record))
            case PatternStored():
                self._forget_pattern(record.pattern)
                self._names.update(record.topics)
                self.patterns[record.pattern] = ResolvedPattern(
                    topics=record.topics,
                    version=record.version,
                    resolved_at_ms=record.resolved_at_ms,
                )
            case FactForgotten():
                self._forget(record)

    def _forget(self, record: FactForgotten) -> None:
        match record.kind:
            case FactKind.MEMBER:
                self._remove(record.name)
            case FactKind.CURRENT:
                before = self.members.get(record.name)
                if before is not None:
                    gone = CurrentStored(
                        group_id=self.group_id,
                        member_id=record.name,
                        epoch=GONE_EPOCH,
                        previous_epoch=GONE_EPOCH,
                    )
                    self._put(before, ConsumerMember(before.metadata, gone))
            case FactKind.TARGET:
                self.targets.pop(record.name, None)
            case FactKind.TARGET_EPOCH:
                self.target_epoch, self.target_made_ms = GONE_EPOCH, 0
            case FactKind.PATTERN:
                self._forget_pattern(record.name)
            case FactKind.PARTITIONS:
                self.has_partitions_fact = False
            case FactKind.GROUP:
                pass  # the coordinator removes the whole group

    def _put(self, before: ConsumerMember | None, after: ConsumerMember) -> None:
        if before is None or before.metadata is not after.metadata:
            if before is not None:
                self._count(before.metadata, -1)
            self._count(after.metadata, 1)
            if after.metadata.instance_id is not None:
                self.static_members[after.metadata.instance_id] = after.member_id
        if before is not None:
            self._release(before.current)
        self._hold(after.current.assigned, after.current.epoch)
        self._hold(after.current.revoking, after.current.epoch)
        self.members[after.member_id] = after

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member.metadata, -1)
        self._release(member.current)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        self.deadlines.forget(member_id)

    def _count(self, metadata: MemberStored, step: int) -> None:
        for name in metadata.topics:
            _add(self._names, name, step)
        if metadata.pattern:
            _add(self._pattern_readers, metadata.pattern, step)
        if metadata.assignor is not None:
            _add(self._assignors, metadata.assignor, step)
        if metadata.classic is not None:
            self._classic_count += step
            for name in {name for name, _ in metadata.classic.protocols}:
                _add(self._protocols, name, step)

    def _forget_pattern(self, pattern: str) -> None:
        resolved = self.patterns.pop(pattern, None)
        if resolved is not None:
            for name in resolved.topics:
                _add(self._names, name, -1)

    def _hold(self, holding: Holding, epoch: int) -> None:
        for topic_id, partitions in holding.items():
            holders = self._holders.setdefault(topic_id, {})
            for partition in partitions:
                if holders.get(partition, NO_EPOCH - 2) < epoch:
                    holders[partition] = epoch

    def _release(self, current: CurrentStored) -> None:
        for holding in (current.assigned, current.revoking):
            for topic_id, partitions in holding.items():
                holders = self._holders.get(topic_id, {})
                for partition in partitions:
                    # Unless another member has it since, at a later epoch.
                    if holders.get(partition) == current.epoch:
                        del holders[partition]
                if not holders:
                    self._holders.pop(topic_id, None)

    # --- what the coordinator and decisions may ask -------------------------------------------------

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(is_reconciled(one.current, self.target_epoch) for one in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def topic_names(self) -> Iterable[str]:
        """The topics that members read, by name or by pattern."""
        return self._names.keys()

    def reads_topic(self, topic: str) -> bool:
        return topic in self._names

    def names_without(self, gone: Iterable[MemberStored], patterns: Iterable[str]) -> set[str]:
        """Return the topics that are read without these members and these patterns."""
        counts = Counter(self._names)
        for metadata in gone:
            counts.subtract(metadata.topics)
        for pattern in patterns:
            if pattern in self.patterns:
                counts.subtract(self.patterns[pattern].topics)
        return {name for name, count in counts.items() if count > 0}

    def pattern_readers(self, pattern: str) -> int:
        """Return how many members have this pattern."""
        return self._pattern_readers[pattern]

    @property
    def has_patterns(self) -> bool:
        """Whether any member has one."""
        return bool(self._pattern_readers)

    @property
    def read_patterns(self) -> Counter[str]:
        """How many members have each pattern."""
        return Counter(self._pattern_readers)

    def assignor_after(self, before: MemberStored, after: MemberStored) -> str | None:
        """Return the assignor that most members want if one of them changes; None if none names one."""
        counts = Counter(self._assignors)
        if before.assignor is not None:
            counts[before.assignor] -= 1
        if after.assignor is not None:
            counts[after.assignor] += 1
        ranked = [(count, name) for name, count in counts.items() if count > 0]
        return max(ranked)[1] if ranked else None

    @property
    def assignor(self) -> str | None:
        """The assignor that most members want; None if none names one."""
        ranked = [(count, name) for name, count in self._assignors.items()]
        return max(ranked)[1] if ranked else None

    @property
    def classic_count(self) -> int:
        """How many members speak the classic protocol."""
        return self._classic_count

    def supports_classic(self, names: Iterable[str]) -> bool:
        """Whether all members of the classic protocol have one of these."""
        return any(self._protocols[name] == self._classic_count for name in names)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has this instance id."""
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def holder_epoch(self, topic_id: UUID, partition: int) -> int:
        """Return the epoch in which a member has a partition; -1 if none has it."""
        return self._holders.get(topic_id, {}).get(partition, NO_EPOCH)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has a part of this member's target."""
        if member.current.state is not MemberState.UNRELEASED:
            return False
        return any(
            partition not in member.current.assigned.get(topic_id, {})
            and self.holder_epoch(topic_id, partition) != NO_EPOCH
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def _had_all_since(self, command: CommitOffsets | PendOffsets, member: ConsumerMember) -> bool:
        assigned, revoking = member.current.assigned, member.current.revoking
        return all(
            had_since(
                assigned.get(asked.topic_id, {}).get(partition),
                revoking.get(asked.topic_id, {}).get(partition),
                command.generation,
            )
            for _topic, partition, asked in command.offsets
        )

    # --- beginning and end --------------------------------------------------------------------------

    def kept_bytes(self) -> int:
        subscriptions = (member.metadata for member in self.members.values())
        return sum(sum(map(len, one.topics)) + len(one.pattern or "") for one in subscriptions)

    def inherit(self, staged: Self) -> None:
        self.deadlines = staged.deadlines
        self.looked_at = staged.looked_at
        self.is_resolving = staged.is_resolving

    def tombstones(self) -> Iterator[ConsumerRecord]:
        for kind in (FactKind.CURRENT, FactKind.TARGET):
            for member_id in self.members:
                yield FactForgotten(group_id=self.group_id, kind=kind, name=member_id)
        yield FactForgotten(group_id=self.group_id, kind=FactKind.TARGET_EPOCH)
        for member_id in self.members:
            yield FactForgotten(group_id=self.group_id, kind=FactKind.MEMBER, name=member_id)
        for pattern in self.patterns:
            yield FactForgotten(group_id=self.group_id, kind=FactKind.PATTERN, name=pattern)
        yield FactForgotten(group_id=self.group_id, kind=FactKind.PARTITIONS)
        yield FactForgotten(group_id=self.group_id, kind=FactKind.GROUP)


def _add(counts: Counter[str], name: str, step: int) -> None:
    counts[name] += step
    if not counts[name]:
        del counts[name]
