"""A coordinator's desk for tests: a host with a virtual clock and a list for a log.

It does what ``engine/coordinators/groups.py`` does with the same state machine: decide, append (through the
real record encoding), apply, answer. ``desk.broken`` makes the log refuse.
"""

from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from millpond.base import patterns
from millpond.base.errors import MillpondError, NotCoordinator
from millpond.group import kinds
from millpond.group.classic.records import GroupStored
from millpond.group.consumer.messages import ConsumerSettings, ResolvePatterns
from millpond.group.coordinator import GroupCoordinator
from millpond.group.kind import SettingsT
from millpond.group.messages import (
    Command,
    CommitOffsets,
    ErrorClass,
    Expire,
    ExpireOffsets,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeavingMember,
    Now,
    Outbox,
    StoreFailed,
    Sync,
    SyncAnswer,
)
from millpond.group.records import (
    CommittedOffset,
    ForeignRecord,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
)
from millpond.group.streams.messages import StreamsSettings
from millpond.group.topics import TopicShape, TopicView

AnswerT = TypeVar("AnswerT")

GROUP = "readers"
RANGE = (
    ("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"),
)  # subscribes to topic "t"


@dataclass(slots=True)
class Waiting:
    """A join or a sync that is not answered yet."""

    answer: Any = None

    @property
    def is_parked(self) -> bool:
        return self.answer is None


@dataclass(slots=True)
class Reader:
    """A client's view of its membership."""

    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    member_ids: tuple[str, ...] = ()
    instance_id: str | None = None
    assignment: bytes | None = None


class RefusedByLog(NotCoordinator):
    """The desk's log is broken."""


@dataclass
class Desk:
    """One coordinator and its surroundings."""

    settings: GroupSettings = field(
        default_factory=lambda: GroupSettings(initial_rebalance_delay_ms=0)
    )
    wall_ms: int = 1_700_000_000_000
    steady_ms: int = 0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    broken: bool = False
    # What holds for groups of the newer protocol, and the topics that there are.
    consumer_settings: ConsumerSettings = field(
        default_factory=lambda: ConsumerSettings(assignment_interval_ms=0)
    )
    streams_settings: StreamsSettings = field(
        default_factory=lambda: StreamsSettings(
            assignment_interval_ms=0, initial_rebalance_delay_ms=0
        )
    )
    shapes: dict[str, TopicShape] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        self.coordinator = GroupCoordinator(self.settings, self._read_settings, self._view())
        self._waiting: dict[int, Waiting] = {}
        self._tickets = 0
        self.refused_records = 0

    def _read_settings(self, settings: type[SettingsT], _group_id: str, /) -> SettingsT:
        mine = (self.consumer_settings, self.streams_settings)
        return next(one for one in mine if isinstance(one, settings))

    # --- the host's work --------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(wall_ms=self.wall_ms, steady_ms=self.steady_ms)

    def perform(self, command: Command[AnswerT]) -> AnswerT:
        decision = self.coordinator.decide(command, self.now)
        self._carry_out(decision.outbox)
        return decision.answer

    def _carry_out(self, out: Outbox) -> None:
        if out.records and self.broken:
            self._refuse(out)
            return
        for record in out.records:
            self.log.append(kinds.encode(record))
        if out.records:
            self._carry_out(self.coordinator.apply(out.records, self.now))
        self._answer(out)
        for group_id, wanted in out.patterns:
            self.perform(
                ResolvePatterns(
                    group_id=group_id,
                    found=patterns.resolve(wanted, self.shapes),
                    version=self.version,
                    resolved_at_ms=self.wall_ms,
                )
            )

    def _refuse(self, out: Outbox) -> None:
        if all(isinstance(record, (OffsetCommitted, OffsetForgotten)) for record in out.records):
            raise RefusedByLog
        self.refused_records += 1
        out.joins = [(ticket, JoinAnswer(error=RefusedByLog)) for ticket, _ in out.joins]
        out.syncs = [(ticket, SyncAnswer(error=RefusedByLog)) for ticket, _ in out.syncs]
        self._answer(out)
        command = StoreFailed(group_id=out.records[0].group_id, error=RefusedByLog)
        self._carry_out(self.coordinator.decide(command, self.now).outbox)
        if not any(isinstance(record, GroupStored) for record in out.records):
            raise RefusedByLog

    def set_topic(self, name: str, partitions: int) -> TopicShape:
        """A topic is made, or has this many partitions from now on."""
        known = self.shapes.get(name)
        topic_id = UUID(int=1000 + self.version) if known is None else known.topic_id
        self.version += 1
        self.shapes[name] = TopicShape(topic_id, partitions)
        self.coordinator.topics = self._view()
        return self.shapes[name]

    def delete_topic(self, name: str) -> None:
        self.version += 1
        del self.shapes[name]
        self.coordinator.topics = self._view()

    def _view(self) -> TopicView:
        return TopicView.of(dict(self.shapes), self.version)

    def _answer(self, out: Outbox) -> None:
        for ticket, answer in (*out.joins, *out.syncs):
            waiting = self._waiting.pop(ticket)
            assert waiting.answer is None, "answered twice"
            waiting.answer = answer

    def _ticket(self) -> tuple[int, Waiting]:
        self._tickets += 1
        waiting = Waiting()
        self._waiting[self._tickets] = waiting
        return self._tickets, waiting

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, waking the groups when they asked to be."""
        until_ms = self.steady_ms + milliseconds
        while True:
            due = [group for group in self.coordinator.groups.values() if group.wake_ms <= until_ms]
            if not due:
                break
            group = min(due, key=lambda each: each.wake_ms)
            step_ms = max(group.wake_ms - self.steady_ms, 0)
            self.steady_ms += step_ms
            self.wall_ms += step_ms
            self.perform(Expire(group_id=group.group_id))
        self.wall_ms += until_ms - self.steady_ms
        self.steady_ms = until_ms

    def expire_offsets(self) -> None:
        for group_id in list(self.coordinator.groups):
            self.perform(ExpireOffsets(group_id=group_id))

    def restart(self) -> "Desk":
        """The same log, read by a new coordinator."""
        desk = Desk(
            settings=self.settings,
            wall_ms=self.wall_ms,
            steady_ms=self.steady_ms,
            log=self.log,
            consumer_settings=self.consumer_settings,
            streams_settings=self.streams_settings,
            shapes=self.shapes,
            version=self.version,
        )
        desk._tickets = self._tickets  # ids stay unique
        desk.refused_records = self.refused_records
        for key, value in self.log:
            record = kinds.decode(key, value)
            assert not isinstance(record, ForeignRecord)
            desk.coordinator.replay(record)
        desk._carry_out(desk.coordinator.resume(desk.now))
        return desk

    # --- what clients do --------------------------------------------------------------------------

    def join(self, reader: Reader | None = None, **fields: Any) -> Waiting:
        ticket, waiting = self._ticket()
        reader = reader or Reader()
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": reader.member_id,
            "instance_id": reader.instance_id,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "protocols": RANGE,
            "fresh_id": f"{ticket:04}",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
        }
        self.perform(Join(ticket=ticket, **(defaults | fields)))
        return waiting

    def invite(self, **fields: Any) -> Reader:
        """The round in which a dynamic member learns its id."""
        waiting = self.join(**fields)
        assert not waiting.is_parked
        return Reader(member_id=waiting.answer.member_id)

    def learn(self, reader: Reader, waiting: Waiting) -> Reader:
        """Take an answered join into the reader's view."""
        assert not waiting.is_parked, "still parked"
        answer: JoinAnswer = waiting.answer
        assert answer.error is None, answer.error
        reader.member_id = answer.member_id
        reader.generation = answer.generation
        reader.is_leader = answer.leader == answer.member_id
        reader.member_ids = tuple(member.member_id for member in answer.members)
        return reader

    def sync(self, reader: Reader, plan: dict[str, bytes] | None = None, **fields: Any) -> Waiting:
        ticket, waiting = self._ticket()
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": reader.member_id,
            "instance_id": reader.instance_id,
            "generation": reader.generation,
            "assignments": plan or {},
        }
        self.perform(Sync(ticket=ticket, **(defaults | fields)))
        return waiting

    def heartbeat(self, reader: Reader, **fields: Any) -> ErrorClass | None:
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": reader.member_id,
            "instance_id": reader.instance_id,
            "generation": reader.generation,
        }
        return self.perform(Heartbeat(**(defaults | fields)))

    def leave(self, *readers: Reader) -> tuple[ErrorClass | None, ...]:
        members = tuple(
            LeavingMember(member_id=reader.member_id, instance_id=reader.instance_id)
            for reader in readers
        )
        return self.perform(Leave(group_id=GROUP, members=members))

    def commit(self, reader: Reader | None, offset: int, **fields: Any) -> ErrorClass | None:
        """Commit one position of topic t, partition 0; the error, also if all were refused."""
        reader = reader or Reader()
        metadata = fields.pop("metadata", "")
        topic_id = fields.pop("topic_id", UUID(int=7))
        topic, partition = fields.pop("topic", "t"), fields.pop("partition", 0)
        value = CommittedOffset(offset=offset, metadata=metadata, topic_id=topic_id)
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": reader.member_id,
            "instance_id": reader.instance_id,
            "generation": reader.generation,
            "offsets": ((topic, partition, value),),
        }
        try:
            return self.perform(CommitOffsets(**(defaults | fields)))[0]
        except MillpondError as error:
            return type(error)

    # --- whole scenes -----------------------------------------------------------------------------

    def gather(self, count: int, **fields: Any) -> list[Reader]:
        """A stable group of this many dynamic members, each assigned its own name."""
        readers: list[Reader] = []
        for _ in range(count):
            readers.append(self.invite(**fields))
            self.rebalance(readers)
        return readers

    def rebalance(self, readers: list[Reader]) -> list[Reader]:
        """Everyone joins, the leader plans, everyone syncs."""
        joins = [self.join(reader) for reader in readers]
        for reader, waiting in zip(readers, joins, strict=True):
            self.learn(reader, waiting)
        return self.distribute(readers)

    def distribute(self, readers: list[Reader]) -> list[Reader]:
        leader = next(reader for reader in readers if reader.is_leader)
        plan = {member_id: member_id.encode() for member_id in leader.member_ids}
        followers = [reader for reader in readers if reader is not leader]
        syncs = [self.sync(reader) for reader in followers]
        assert all(waiting.is_parked for waiting in syncs)
        syncs.append(self.sync(leader, plan))
        for reader, waiting in zip([*followers, leader], syncs, strict=True):
            assert waiting.answer.error is None
            reader.assignment = waiting.answer.assignment
        return readers

    def stored(self) -> list[GroupRecord]:
        decoded = (kinds.decode(key, value) for key, value in self.log)
        return [record for record in decoded if not isinstance(record, ForeignRecord)]

    @property
    def state(self) -> str:
        group = self.coordinator.groups.get(GROUP)
        return "Dead" if group is None else group.state

    def offset(self, topic: str = "t", partition: int = 0, group_id: str = GROUP) -> int | None:
        committed = self.coordinator.offsets.get(group_id, topic, partition)
        return None if committed is None else committed.offset
