"""Hosts the groups of this node: decide, append, apply, answer.

The state machine is ``group.coordinator``; its facts live in ``__consumer_offsets``, one partition for
each group by the hash of its name. This node coordinates the groups of the partitions it leads, with one
state machine for each (``engine.shards``). Everything a verb changes is changed before it returns: the facts
are in the log and applied, in that order, with nothing in between. Answers wait until the high watermark has
passed what they stand on: their own facts, or those before them.

Joins and syncs may be answered much later: they give a callback and get a ticket, with which a client
that goes away takes itself out.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from millpond.base import limits
from millpond.base.errors import (
    CoordinatorNotAvailable,
    GroupNotFound,
    InconsistentGroupProtocol,
    MillpondError,
    NotCoordinator,
    UnknownMember,
    UnsupportedVersion,
)
from millpond.base.ids import NodeId
from millpond.engine.coordinators.group_context import settings_reader, topic_view
from millpond.engine.coordinators.group_deadlines import GroupDeadlines, OffsetExpiry
from millpond.engine.coordinators.group_log import read_partition, refusal_of, report
from millpond.engine.coordinators.internal_topics import InternalTopics
from millpond.engine.coordinators.shards import Durable, Shard, Shards
from millpond.engine.runtime.worker import Worker
from millpond.group import kinds, pattern
from millpond.group.classic.group import ClassicGroup
from millpond.group.classic.phases import GroupState
from millpond.group.classic.records import GroupStored
from millpond.group.classic.views import GroupDescription, MemberDescription, description
from millpond.group.consumer.group import ConsumerGroup
from millpond.group.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
    ResolvePatterns,
)
from millpond.group.consumer.views import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    consumer_description,
)
from millpond.group.coordinator import GroupCoordinator
from millpond.group.kind import Group
from millpond.group.memory import MemberMemory, bytes_held
from millpond.group.messages import (
    Command,
    CommitOffsets,
    DeleteGroup,
    ErrorClass,
    Expire,
    ExpireOffsets,
    ForgetOffsets,
    ForgetTopic,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    LeavingMember,
    Now,
    Outbox,
    PendOffsets,
    StoreFailed,
    Sync,
    SyncAnswer,
    Ticket,
)
from millpond.group.offsets import partition_for
from millpond.group.records import (
    CommittedOffset,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
)
from millpond.group.streams.group import StreamsGroup
from millpond.group.streams.messages import StreamsHeartbeat, StreamsHeartbeatAnswer
from millpond.group.streams.views import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    streams_description,
)
from millpond.group.topics import TopicView
from millpond.group.views import GroupListing, listing
from millpond.metadata.controller import OFFSETS_TOPIC
from millpond.metadata.features import GROUP_VERSION, STREAMS_VERSION
from millpond.metadata.image import Image
from millpond.record.builder import build_batch
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

__all__ = [
    "CommitOffsets",
    "CommittedOffset",
    "ConsumerGroupDescription",
    "ConsumerHeartbeat",
    "ConsumerHeartbeatAnswer",
    "ConsumerMemberDescription",
    "ErrorClass",
    "ForgetOffsets",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "Groups",
    "Heartbeat",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "Leave",
    "LeavingMember",
    "MemberDescription",
    "PendOffsets",
    "StreamsGroupDescription",
    "StreamsHeartbeat",
    "StreamsHeartbeatAnswer",
    "StreamsMemberDescription",
    "Sync",
    "SyncAnswer",
]

log = logging.getLogger(__name__)

# Facts that only speak of positions.
_OFFSETS = (OffsetCommitted, OffsetPended, OffsetForgotten)

# After this a group is looked at again whose silent members could not be removed.
_AGAIN_MS = 1_000

AnswerT = TypeVar("AnswerT")


class Groups:
    """The groups this node coordinates: those of the partitions of ``__consumer_offsets`` it leads."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._settings = GroupSettings()
        self._read_settings = settings_reader(engine)
        self._shards = Shards(engine, OFFSETS_TOPIC, self)
        self._waiting: dict[Ticket, Callable[[Any], None]] = {}
        self._next_ticket = 0
        self._alarms = GroupDeadlines(engine, self._expire)
        self._offset_expiry = OffsetExpiry(
            engine, lambda: [group.group_id for group in self._groups()], self._expire_offsets
        )
        self._running = False
        # The version of the metadata in which a topic was last added.
        self._topics_created = 0
        self._resolver = Worker(engine.threads, "patterns")
        self._internal_topics = InternalTopics(engine)
        self._memory = MemberMemory(lambda: bytes_held(self._groups()))

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the facts back and begin to watch the clock. The engine's topics are loaded."""
        setting = self._engine.broker_setting
        self._topics_created = self._engine.metadata_offset
        self._settings = GroupSettings(
            session_timeout_ms_min=setting("group.min.session.timeout.ms"),
            session_timeout_ms_max=setting("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=setting("group.initial.rebalance.delay.ms"),
            members_max=setting("group.max.size"),
            offset_metadata_chars_max=setting("offset.metadata.max.bytes"),
            offsets_retention_ms=setting("offsets.retention.minutes") * 60_000,
        )
        self._running = True
        self._shards.start()
        if self.is_ready and (count := sum(1 for _ in self._groups())):
            log.info("groups: %d read from %s", count, OFFSETS_TOPIC)
        self._engine.observe(self._on_image)
        self._offset_expiry.plan()

    def stop(self) -> None:
        """Send everyone who waits away, to ask for a coordinator elsewhere or later."""
        self._running = False
        self._alarms.stop()
        self._offset_expiry.stop()
        self._resolver.stop()
        self._shards.stop()

    @property
    def is_ready(self) -> bool:
        """Whether ``__consumer_offsets`` is there; ``prepare`` makes it."""
        return OFFSETS_TOPIC in self._engine.image.topics

    async def prepare(self) -> None:
        """Make ``__consumer_offsets`` if this is the first time that it is needed."""
        await self._engine.ensure_topic(OFFSETS_TOPIC)

    # --- shards ------------------------------------------------------------------------------------

    def new_state(self, index: int) -> GroupCoordinator:
        """A state machine for the groups of one partition."""
        del index
        return GroupCoordinator(self._settings, self._read_settings, self._topic_view())

    def read_shard(self, state: GroupCoordinator, partition: Partition) -> Iterator[int]:
        """Give the state machine what the log says."""
        return read_partition(partition, state, self._engine.repairs.may_come_back)

    def shard_loaded(self, index: int, state: GroupCoordinator) -> None:
        """From now on members must be heard of."""
        del index
        state.topics = self._topic_view()
        out = state.resume(self._now())
        assert not out.joins
        assert not out.syncs
        for group in state.groups.values():
            self._watch(group)

    def shard_dropped(self, index: int, state: GroupCoordinator) -> None:
        """Answer every parked request: this coordinator is not here any more."""
        self._engine.share.drop_groups(index, self._shards.count or 1)
        out = Outbox()
        for group in state.groups.values():
            group.disband(NotCoordinator, out)
        self._answer(out)

    # --- membership --------------------------------------------------------------------------------

    def join(self, command: Join, done: Callable[[JoinAnswer], None]) -> Ticket:
        """Take part in the next generation; ``done`` is called once, perhaps before this returns.

        The command's ticket and fresh id are given here.
        """
        ticket = self._issue(done)
        if self._engine.share.has_group(command.group_id):
            self._waiting.pop(ticket)(JoinAnswer(error=InconsistentGroupProtocol))
            return ticket
        if not self._has_room(command):
            refused = JoinAnswer(error=CoordinatorNotAvailable, member_id=command.member_id)
            self._waiting.pop(ticket)(refused)
            return ticket
        fresh_id = str(self._engine.rng.uuid4())
        self._perform_parked(replace(command, ticket=ticket, fresh_id=fresh_id))
        return ticket

    def sync(self, command: Sync, done: Callable[[SyncAnswer], None]) -> Ticket:
        """Ask for an assignment; ``done`` is called once, perhaps before this returns."""
        ticket = self._issue(done)
        if not self._has_room(command):
            self._waiting.pop(ticket)(SyncAnswer(error=CoordinatorNotAvailable))
            return ticket
        self._perform_parked(replace(command, ticket=ticket))
        return ticket

    def _has_room(self, command: Command[Any]) -> bool:
        """Whether groups may keep what this command carries; a refused client asks again."""
        memory = self._memory
        has_room = memory.admits(command, self._engine.clock.monotonic_ms())
        # One line for each doubling.
        if not has_room and memory.refused & (memory.refused - 1) == 0:
            log.warning(
                "group=%s: refused because members of all groups hold up to %d bytes of metadata and "
                "assignments; %d requests so far; end consumers that bring very much",
                command.group_id,
                limits.GROUP_MEMBER_BYTES_MAX,
                memory.refused,
            )
        return has_room

    def withdraw(self, ticket: Ticket) -> None:
        """Nobody waits for this answer any more. The member stays until its session ends."""
        self._waiting.pop(ticket, None)

    def heartbeat(self, command: Heartbeat) -> tuple[ErrorClass | None, Durable]:
        """Extend a session; the error tells the member what to do. And when that holds."""
        if self._engine.share.has_group(command.group_id):
            return UnknownMember, None
        return self._perform(command)

    def leave(self, command: Leave) -> tuple[tuple[ErrorClass | None, ...], Durable]:
        """Remove members, each answered alone. And when that holds."""
        return self._perform(command)

    def consumer_heartbeat(
        self, command: ConsumerHeartbeat
    ) -> tuple[ConsumerHeartbeatAnswer, Durable]:
        """A member of a consumer group joins, is alive or leaves: its answer, and when that holds.

        Raises what the member is told instead. The command's fresh id is given here.
        """
        if not self._engine.image.features.get(GROUP_VERSION):
            raise UnsupportedVersion("consumer groups are off: group.version is 0")
        self._refuse_share_group(command.group_id)
        if not self._has_room(command):
            raise CoordinatorNotAvailable("members of all groups hold as much as they may")
        fresh_id = str(self._engine.rng.uuid4()) if not command.member_id else ""
        return self._perform(replace(command, fresh_id=fresh_id))

    def streams_heartbeat(
        self, command: StreamsHeartbeat
    ) -> tuple[StreamsHeartbeatAnswer, Durable]:
        """A member of a streams group joins, is alive or leaves; as ``consumer_heartbeat``.

        Internal topics that are missing are made meanwhile.
        """
        if not self._engine.image.features.get(STREAMS_VERSION):
            raise UnsupportedVersion("streams groups are off: streams.version is 0")
        if self._engine.share.has_group(command.group_id):
            raise GroupNotFound(f"Group {command.group_id} is not a streams group.")
        answer, durable = self._perform(command)
        return self._internal_topics.see_to(answer), durable

    # --- offsets -----------------------------------------------------------------------------------

    def commit(self, command: CommitOffsets) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Remember positions: an error for each that was refused, and when the rest is durable.

        Raises a ``MillpondError`` if nothing was done.
        """
        self._refuse_share_group(command.group_id)
        return self._perform(command)

    def commit_in_transaction(
        self, command: PendOffsets
    ) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Remember positions that count when the producer's transaction commits; as ``commit``.

        The transaction has been asked and has the partition of ``partition_of`` in it.
        """
        return self._perform(command)

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A producer's marker is in this partition of ``__consumer_offsets``.

        Who is still reading the partition finds it there.
        """
        coordinator = self._shards.find(partition)
        if coordinator is not None:
            coordinator.end_transaction(producer_id, committed=committed)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed a position here."""
        return self._shard(group_id).state.offsets.is_pending(group_id, topic, partition)

    def partition_of(self, group_id: str) -> int:
        """Where in ``__consumer_offsets`` a group is kept. Raises ``NotCoordinator`` before it is made."""
        topic = self._engine.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise NotCoordinator(
                f"{OFFSETS_TOPIC} has not been made yet; look for the group's coordinator first"
            )
        return partition_for(group_id, len(topic.partitions))

    def coordinator_of(self, group_id: str) -> NodeId:
        """The node that keeps a group; -1 if there is none now."""
        return self._shards.leader(group_id)

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Positions by topic and partition. Empty if there is no such group."""
        return self._shard(group_id).state.committed(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorClass | None:
        """May this member, or this stranger, read the group's positions now?"""
        return self._shard(group_id).state.check_fetch(group_id, member_id, epoch)

    def check_coordinates(self, group_id: str) -> None:
        """Raises ``NotCoordinator`` or ``CoordinatorLoadInProgress`` unless the group is kept here."""
        self._shard(group_id)

    def settled(self, group_id: str) -> Durable:
        """When what this node says of the group now holds for good; None if it does."""
        return self._shards.settled(self._shard(group_id))

    def forget_offsets(self, command: ForgetOffsets) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Drop positions; as ``commit``."""
        return self._perform(command)

    # --- looking and deleting ----------------------------------------------------------------------

    def list(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Iterator[GroupListing]:
        """All groups, or those in one of these states and of one of these types, in any case."""
        self._check_running()
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        for group in self._groups():
            row = listing(group)
            is_in_state = not wanted_states or row.state.lower() in wanted_states
            if is_in_state and (not wanted_types or row.kind in wanted_types):
                yield row

    def describe(self, group_id: str) -> GroupDescription:
        """One classic group as it is now. One of another kind is none."""
        group = self._shard(group_id).state.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return GroupDescription(group_id=group_id, state=GroupState.DEAD)
        return description(group)

    def describe_consumers(self, group_id: str) -> ConsumerGroupDescription:
        """One consumer group as it is now. Raises ``GroupNotFound``, also for one of another kind."""
        group = self._shard(group_id).state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            raise GroupNotFound(f"Group {group_id} {reason}.")
        return consumer_description(
            group, self._read_settings(ConsumerSettings, group_id).assignors[0]
        )

    def describe_streams(self, group_id: str) -> StreamsGroupDescription:
        """One streams group as it is now. Raises ``GroupNotFound``, also for one of another kind."""
        group = self._shard(group_id).state.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            known = group is not None or self._engine.share.has_group(group_id)
            reason = "is not a streams group" if known else "not found"
            raise GroupNotFound(f"Group {group_id} {reason}.")
        return streams_description(group)

    def has_group(self, group_id: str) -> bool:
        """Whether there is a group of this name."""
        return self._find(group_id) is not None

    def delete(self, group_id: str) -> Durable:
        """Remove an empty group. Raises ``GroupNotFound``, ``GroupNotEmpty`` or why it failed."""
        return self._perform(DeleteGroup(group_id=group_id))[1]

    # --- carrying out ------------------------------------------------------------------------------

    def _perform(self, command: Command[AnswerT]) -> tuple[AnswerT, Durable]:
        shard = self._shard(command.group_id)
        decision = shard.state.decide(command, self._now())
        durable = self._carry_out(shard, decision.outbox)
        group = shard.state.groups.get(command.group_id)
        if group is not None:
            self._watch(group)
        return decision.answer, durable

    def _perform_parked(self, command: Join | Sync) -> None:
        try:
            # Whoever has found us through FindCoordinator finds the topic made.
            self._shard(command.group_id)
        except MillpondError as error:
            self._refuse(command, type(error))
        else:
            self._perform(command)

    def _refuse(self, command: Join | Sync, error: ErrorClass) -> None:
        done = self._waiting.pop(command.ticket)
        if isinstance(command, Join):
            done(JoinAnswer(error=error, member_id=command.member_id))
        else:
            done(SyncAnswer(error=error))

    def _carry_out(self, shard: Shard[GroupCoordinator], out: Outbox) -> Durable:
        if out.records:
            try:
                durable = self._append(shard, out.records)
            except MillpondError as error:
                self._store_failed(shard, out, error)
                return None
            applied = shard.state.apply(out.records, self._now())
            assert not applied.records
            report(out.records)
            self._answer_when(durable, applied)
        else:
            durable = self._shards.settled(shard)
        self._answer_when(durable, out)
        for group_id, patterns in out.patterns:
            self._engine.tasks.spawn(self._resolve(group_id, patterns), name="patterns")
        return durable

    def _append(self, shard: Shard[GroupCoordinator], facts: Sequence[GroupRecord]) -> Durable:
        first = facts[0]
        now_ms = self._engine.clock.now_ms()
        producer: dict[str, Any] = {}
        if isinstance(first, OffsetPended):
            producer = {
                "producer_id": first.producer_id,
                "producer_epoch": first.producer_epoch,
                "transactional": True,
            }
        batch = build_batch([(now_ms, *kinds.encode(fact), ()) for fact in facts], **producer)
        appended = self._engine.append_to(
            shard.partition, batch, acks=-1, produce_version=13, internal=True
        )
        return self._shards.guard(shard, appended.durable)

    def _store_failed(
        self, shard: Shard[GroupCoordinator], out: Outbox, error: MillpondError
    ) -> None:
        refusal = refusal_of(error)
        group_id = out.records[0].group_id
        log.warning("group=%s: its records could not be written: %s", group_id, error)
        if all(isinstance(record, _OFFSETS) for record in out.records):
            raise refusal(str(error)) from error
        self._answer(_with_error(out, refusal))
        command = StoreFailed(group_id=group_id, error=refusal)
        self._carry_out(shard, shard.state.decide(command, self._now()).outbox)
        if not any(isinstance(record, GroupStored) for record in out.records):
            # Nothing of what the member would be told is so.
            raise refusal(str(error)) from error

    def _answer_when(self, durable: Durable, out: Outbox) -> None:
        if not out.joins and not out.syncs:
            return
        if durable is None:
            self._answer(out)
            return

        def answer(done: "asyncio.Future[None]") -> None:
            failed = done.cancelled() or done.exception() is not None
            self._answer(_with_error(out, NotCoordinator) if failed else out)

        durable.add_done_callback(answer)

    def _answer(self, out: Outbox) -> None:
        for ticket, answer in (*out.joins, *out.syncs):
            done = self._waiting.pop(ticket, None)
            if done is not None:
                done(answer)

    def _issue(self, done: Callable[[Any], None]) -> Ticket:
        self._next_ticket += 1
        self._waiting[self._next_ticket] = done
        return self._next_ticket

    def _shard(self, group_id: str) -> Shard[GroupCoordinator]:
        """Where the group is kept. Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``."""
        self._check_running()
        return self._shards.get(self.partition_of(group_id))

    def _find(self, group_id: str) -> Group | None:
        """A group that this node coordinates."""
        count = self._shards.count
        coordinator = self._shards.find(partition_for(group_id, count)) if count else None
        return None if coordinator is None else coordinator.groups.get(group_id)

    def _groups(self) -> Iterator[Group]:
        for _index, coordinator in self._shards:
            yield from coordinator.groups.values()

    # --- time --------------------------------------------------------------------------------------

    def _now(self) -> Now:
        clock = self._engine.clock
        return Now(wall_ms=clock.now_ms(), steady_ms=clock.monotonic_ms())

    def _watch(self, group: Group) -> None:
        """See to it that the group is woken in time."""
        self._alarms.watch(group.group_id, group.wake_ms)

    def _expire(self, group_id: str) -> None:
        if self._find(group_id) is None:
            return  # somebody else's to wake now
        try:
            self._perform(Expire(group_id=group_id))
        except MillpondError as error:
            log.warning("group=%s: nobody was removed (%s); trying again", group_id, error)
            again_ms = self._engine.clock.monotonic_ms() + _AGAIN_MS
            group = self._find(group_id)
            if group is not None:
                self._alarms.watch(group_id, max(group.wake_ms, again_ms))

    def _expire_offsets(self, group_id: str) -> None:
        if self._find(group_id) is not None:
            self._perform(ExpireOffsets(group_id=group_id))

    # --- consumer groups ---------------------------------------------------------------------------

    def _topic_view(self) -> TopicView:
        return topic_view(self._engine, self._topics_created)

    async def _resolve(self, group_id: str, patterns: frozenset[str]) -> None:
        """Look up which topics patterns stand for, on a thread: there may be many."""
        topics, now_ms = self._topic_view(), self._engine.clock.now_ms()
        names = tuple(topics.names)
        found = await self._resolver.run(lambda: pattern.resolve(patterns, names))
        command = ResolvePatterns(
            group_id=group_id, found=found, version=topics.version, resolved_at_ms=now_ms
        )
        try:
            self._perform(command)
        except MillpondError as error:
            log.warning("group=%s: its patterns were not looked up (%s)", group_id, error)

    def _refuse_share_group(self, group_id: str) -> None:
        if self._engine.share.has_group(group_id):
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")

    # --- the log -----------------------------------------------------------------------------------

    def _on_image(self, before: Image, after: Image) -> None:
        if before.topics is after.topics or not self._running:
            return
        if after.topics_by_id.keys() - before.topics_by_id.keys():
            self._topics_created = self._engine.metadata_offset
        view = self._topic_view()
        for _index, coordinator in self._shards:
            coordinator.topics = view
        if OFFSETS_TOPIC in before.topics and OFFSETS_TOPIC not in after.topics:
            log.warning("%s was deleted, and with it all groups", OFFSETS_TOPIC)
            self._shards.drop_all()
            return
        for name in before.topics.keys() - after.topics.keys():
            for group_id in self._reading(name):
                try:
                    self._perform(ForgetTopic(group_id=group_id, topic=name))
                except MillpondError as error:
                    # They carry the id of the topic that is gone, so nobody will take them for others.
                    log.warning("group=%s: offsets of %s remain: %s", group_id, name, error)

    def _reading(self, topic: str) -> Sequence[str]:
        return [
            group_id
            for _index, coordinator in self._shards
            for group_id in coordinator.offsets.groups_reading(topic)
        ]

    def _check_running(self) -> None:
        if not self._running:
            raise NotCoordinator("the broker is stopping")


def _with_error(out: Outbox, error: ErrorClass) -> Outbox:
    return Outbox(
        joins=[(ticket, JoinAnswer(error=error)) for ticket, _ in out.joins],
        syncs=[(ticket, SyncAnswer(error=error)) for ticket, _ in out.syncs],
    )
