"""Hosts the groups of this node: decide, append, apply, answer.

The state machine is ``group.coordinator``; its facts live in ``__consumer_offsets``, one partition for
each group by the hash of its name. Everything a verb changes is changed before it returns: the facts are
in the log and applied, in that order, with nothing in between. With the flush policy ``group`` answers
that stand on facts wait for the flush.

Joins and syncs may be answered much later: they give a callback and get a ticket, with which a client
that goes away takes itself out.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from millpond.base.errors import (
    GroupNotFound,
    InconsistentGroupProtocol,
    MillpondError,
    NotCoordinator,
    UnknownMember,
    UnknownTopic,
    UnsupportedVersion,
)
from millpond.engine.group_alarms import GroupAlarms
from millpond.engine.group_context import consumer_settings, streams_settings, topic_view
from millpond.engine.group_log import read_back, refusal_of, report
from millpond.engine.group_views import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    GroupDescription,
    GroupListing,
    MemberDescription,
    StreamsGroupDescription,
    StreamsMemberDescription,
    consumer_description,
    description,
    listing,
    streams_description,
)
from millpond.engine.internal_topics import InternalTopics
from millpond.engine.worker import Worker
from millpond.group import pattern, records
from millpond.group.classic import ClassicGroup, GroupState
from millpond.group.consumer import ConsumerGroup
from millpond.group.coordinator import Coordinator
from millpond.group.messages import (
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
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
    ResolvePatterns,
    StoreFailed,
    Sync,
    SyncAnswer,
    Ticket,
)
from millpond.group.offset_decisions import AnyGroup
from millpond.group.offsets import partition_for
from millpond.group.records import (
    CommittedOffset,
    GroupRecord,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendingEnded,
)
from millpond.group.streams import StreamsGroup
from millpond.group.streams_messages import (
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    StreamsSettings,
)
from millpond.group.topics import TopicView
from millpond.metadata.controller import OFFSETS_TOPIC
from millpond.metadata.features import GROUP_VERSION, STREAMS_VERSION
from millpond.metadata.image import Image
from millpond.record.builder import build_batch

if TYPE_CHECKING:
    from millpond.engine.api import Engine

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

AnswerT = TypeVar("AnswerT")
Durable: TypeAlias = "asyncio.Future[None] | None"


class Groups:
    """The groups this node coordinates: all of them, as it is alone."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._coordinator = Coordinator(GroupSettings())
        self._waiting: dict[Ticket, Callable[[Any], None]] = {}
        self._next_ticket = 0
        self._alarms = GroupAlarms(engine, self._expire)
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._running = False
        # The version of the metadata in which a topic was last added.
        self._topics_created = 0
        self._resolver = Worker(engine.threads, "patterns")
        self._internal_topics = InternalTopics(engine)

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the facts back and begin to watch the clock. The engine's topics are loaded."""
        setting = self._engine.broker_setting
        self._topics_created = self._engine.metadata_offset
        self._coordinator = Coordinator(
            GroupSettings(
                session_timeout_ms_min=setting("group.min.session.timeout.ms"),
                session_timeout_ms_max=setting("group.max.session.timeout.ms"),
                initial_rebalance_delay_ms=setting("group.initial.rebalance.delay.ms"),
                members_max=setting("group.max.size"),
                offset_metadata_chars_max=setting("offset.metadata.max.bytes"),
                offsets_retention_ms=setting("offsets.retention.minutes") * 60_000,
            ),
            self._consumer_settings,
            self._topic_view(),
            self._streams_settings,
        )
        self._running = True
        read_back(self._engine, self._coordinator, self.end_transaction)
        out = self._coordinator.resume(self._now())
        assert not out.joins
        assert not out.syncs
        for group in self._coordinator.groups.values():
            self._watch(group)
        self._engine.observe(self._on_image)
        self._plan_offset_expiry()

    def stop(self) -> None:
        """Send everyone who waits away, to ask for a coordinator elsewhere or later."""
        self._running = False
        self._alarms.stop()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._resolver.stop()
        self._send_away()

    @property
    def is_ready(self) -> bool:
        """Whether ``__consumer_offsets`` is there; ``prepare`` makes it."""
        return OFFSETS_TOPIC in self._engine.image.topics

    async def prepare(self) -> None:
        """Make ``__consumer_offsets`` if this is the first time that it is needed."""
        await self._engine.ensure_topic(OFFSETS_TOPIC)

    # --- membership --------------------------------------------------------------------------------

    def join(self, command: Join, done: Callable[[JoinAnswer], None]) -> Ticket:
        """Take part in the next generation; ``done`` is called once, perhaps before this returns.

        The command's ticket and fresh id are given here.
        """
        ticket = self._issue(done)
        if self._engine.share.has_group(command.group_id):
            self._waiting.pop(ticket)(JoinAnswer(error=InconsistentGroupProtocol))
            return ticket
        fresh_id = str(self._engine.rng.uuid4())
        self._perform_parked(replace(command, ticket=ticket, fresh_id=fresh_id))
        return ticket

    def sync(self, command: Sync, done: Callable[[SyncAnswer], None]) -> Ticket:
        """Ask for an assignment; ``done`` is called once, perhaps before this returns."""
        ticket = self._issue(done)
        self._perform_parked(replace(command, ticket=ticket))
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Nobody waits for this answer any more. The member stays until its session ends."""
        self._waiting.pop(ticket, None)

    def heartbeat(self, command: Heartbeat) -> ErrorClass | None:
        """Extend a session; the error tells the member what to do."""
        self._check_running()
        if self._engine.share.has_group(command.group_id):
            return UnknownMember
        return self._perform(command)[0]

    def leave(self, command: Leave) -> tuple[ErrorClass | None, ...]:
        """Remove members, each answered alone."""
        self._check_running()
        return self._perform(command)[0]

    def consumer_heartbeat(
        self, command: ConsumerHeartbeat
    ) -> tuple[ConsumerHeartbeatAnswer, Durable]:
        """A member of a consumer group joins, is alive or leaves: its answer, and when that holds.

        Raises what the member is told instead. The command's fresh id is given here.
        """
        self._check_running()
        if not self._engine.image.features.get(GROUP_VERSION):
            raise UnsupportedVersion("consumer groups are off: group.version is 0")
        if not self.is_ready:
            raise NotCoordinator("look for the group's coordinator first")
        self._refuse_share_group(command.group_id)
        fresh_id = str(self._engine.rng.uuid4()) if not command.member_id else ""
        return self._perform(replace(command, fresh_id=fresh_id))

    def streams_heartbeat(
        self, command: StreamsHeartbeat
    ) -> tuple[StreamsHeartbeatAnswer, Durable]:
        """A member of a streams group joins, is alive or leaves; as ``consumer_heartbeat``.

        Internal topics that are missing are made meanwhile.
        """
        self._check_running()
        if not self._engine.image.features.get(STREAMS_VERSION):
            raise UnsupportedVersion("streams groups are off: streams.version is 0")
        if not self.is_ready:
            raise NotCoordinator("look for the group's coordinator first")
        if self._engine.share.has_group(command.group_id):
            raise GroupNotFound(f"Group {command.group_id} is not a streams group.")
        answer, durable = self._perform(command)
        return self._internal_topics.see_to(answer), durable

    # --- offsets -----------------------------------------------------------------------------------

    def commit(self, command: CommitOffsets) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Remember positions: an error for each that was refused, and when the rest is durable.

        Raises a ``MillpondError`` if nothing was done.
        """
        self._check_running()
        self._refuse_share_group(command.group_id)
        return self._perform(command)

    def commit_in_transaction(
        self, command: PendOffsets
    ) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Remember positions that count when the producer's transaction commits; as ``commit``.

        The transaction has been asked and has the partition of ``partition_of`` in it.
        """
        self._check_running()
        return self._perform(command)

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A producer's marker is in this partition of ``__consumer_offsets``."""
        for group_id in self._coordinator.offsets.pending_groups(producer_id):
            if self.partition_of(group_id) == partition:
                self._coordinator.end_pending(
                    PendingEnded(group_id=group_id, producer_id=producer_id, committed=committed)
                )

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed a position here."""
        return self._coordinator.offsets.is_pending(group_id, topic, partition)

    def partition_of(self, group_id: str) -> int:
        """Where in ``__consumer_offsets`` a group is kept. Raises ``UnknownTopic`` before it is made."""
        topic = self._engine.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise UnknownTopic(f"{OFFSETS_TOPIC} has not been made yet")
        return partition_for(group_id, len(topic.partitions))

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Positions by topic and partition. Empty if there is no such group."""
        self._check_running()
        return self._coordinator.committed(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorClass | None:
        """May this member, or this stranger, read the group's positions now?"""
        self._check_running()
        return self._coordinator.check_fetch(group_id, member_id, epoch)

    def forget_offsets(self, command: ForgetOffsets) -> tuple[Sequence[ErrorClass | None], Durable]:
        """Drop positions; as ``commit``."""
        self._check_running()
        return self._perform(command)

    # --- looking and deleting ----------------------------------------------------------------------

    def list(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Iterator[GroupListing]:
        """All groups, or those in one of these states and of one of these types, in any case."""
        self._check_running()
        wanted = {state.strip().lower() for state in states}
        kinds = {kind.strip().lower() for kind in types}
        for group in self._coordinator.groups.values():
            row = listing(group)
            if (not wanted or row.state.lower() in wanted) and (not kinds or row.kind in kinds):
                yield row

    def describe(self, group_id: str) -> GroupDescription:
        """One classic group as it is now. One of another kind is none."""
        self._check_running()
        group = self._coordinator.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return GroupDescription(group_id=group_id, state=GroupState.DEAD)
        return description(group)

    def describe_consumers(self, group_id: str) -> ConsumerGroupDescription:
        """One consumer group as it is now. Raises ``GroupNotFound``, also for one of another kind."""
        self._check_running()
        group = self._coordinator.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            raise GroupNotFound(f"Group {group_id} {reason}.")
        return consumer_description(group, self._consumer_settings(group_id).assignors[0])

    def describe_streams(self, group_id: str) -> StreamsGroupDescription:
        """One streams group as it is now. Raises ``GroupNotFound``, also for one of another kind."""
        self._check_running()
        group = self._coordinator.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            known = group is not None or self._engine.share.has_group(group_id)
            reason = "is not a streams group" if known else "not found"
            raise GroupNotFound(f"Group {group_id} {reason}.")
        return streams_description(group)

    def has_group(self, group_id: str) -> bool:
        """Whether there is a group of this name."""
        return group_id in self._coordinator.groups

    def delete(self, group_id: str) -> Durable:
        """Remove an empty group. Raises ``GroupNotFound``, ``GroupNotEmpty`` or why it failed."""
        self._check_running()
        return self._perform(DeleteGroup(group_id=group_id))[1]

    # --- carrying out ------------------------------------------------------------------------------

    def _perform(self, command: Command[AnswerT]) -> tuple[AnswerT, Durable]:
        decision = self._coordinator.decide(command, self._now())
        durable = self._carry_out(decision.outbox)
        group = self._coordinator.groups.get(command.group_id)
        if group is not None:
            self._watch(group)
        return decision.answer, durable

    def _perform_parked(self, command: Join | Sync) -> None:
        if not self._running or not self.is_ready:
            # Whoever has found us through FindCoordinator finds the topic made.
            self._refuse(command)
        else:
            self._perform(command)

    def _refuse(self, command: Join | Sync) -> None:
        done = self._waiting.pop(command.ticket)
        if isinstance(command, Join):
            done(JoinAnswer(error=NotCoordinator, member_id=command.member_id))
        else:
            done(SyncAnswer(error=NotCoordinator))

    def _carry_out(self, out: Outbox) -> Durable:
        durable: Durable = None
        if out.records:
            try:
                durable = self._append(out.records)
            except MillpondError as error:
                self._store_failed(out, error)
                return None
            applied = self._coordinator.apply(out.records, self._now())
            assert not applied.records
            report(out.records)
            self._answer_when(durable, applied)
        self._answer_when(durable, out)
        for group_id, patterns in out.patterns:
            self._engine.tasks.spawn(self._resolve(group_id, patterns), name="patterns")
        return durable

    def _append(self, facts: Sequence[GroupRecord]) -> Durable:
        first = facts[0]
        now_ms = self._engine.clock.now_ms()
        producer: dict[str, Any] = {}
        if isinstance(first, OffsetPended):
            producer = {
                "producer_id": first.producer_id,
                "producer_epoch": first.producer_epoch,
                "transactional": True,
            }
        batch = build_batch([(now_ms, *records.encode(fact), ()) for fact in facts], **producer)
        return self._engine.append(
            OFFSETS_TOPIC, self.partition_of(first.group_id), batch, acks=-1, internal=True
        ).durable

    def _store_failed(self, out: Outbox, error: MillpondError) -> None:
        refusal = refusal_of(error)
        group_id = out.records[0].group_id
        log.warning("group=%s: its records could not be written: %s", group_id, error)
        if all(isinstance(record, _OFFSETS) for record in out.records):
            raise refusal(str(error)) from error
        self._answer(_with_error(out, refusal))
        command = StoreFailed(group_id=group_id, error=refusal)
        self._carry_out(self._coordinator.decide(command, self._now()).outbox)
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

    def _send_away(self) -> None:
        """Answer every parked request: this coordinator is not here any more."""
        out = Outbox()
        for group in self._coordinator.groups.values():
            group.disband(NotCoordinator, out)
        self._answer(out)

    # --- time --------------------------------------------------------------------------------------

    def _now(self) -> Now:
        clock = self._engine.clock
        return Now(wall_ms=clock.now_ms(), steady_ms=clock.monotonic_ms())

    def _watch(self, group: AnyGroup) -> None:
        """See to it that the group is woken in time."""
        self._alarms.watch(group.group_id, group.wake_ms)

    def _expire(self, group_id: str) -> None:
        try:
            self._perform(Expire(group_id=group_id))
        except MillpondError as error:
            log.warning("group=%s: nobody was removed (%s); trying again", group_id, error)
            group = self._coordinator.groups.get(group_id)
            if group is not None:
                self._watch(group)

    def _plan_offset_expiry(self) -> None:
        interval_ms = self._engine.broker_setting("offsets.retention.check.interval.ms")
        loop = asyncio.get_running_loop()
        self._expiry_timer = loop.call_later(interval_ms / 1000, self._expire_offsets)

    def _expire_offsets(self) -> None:
        for group_id in tuple(self._coordinator.groups):
            try:
                self._perform(ExpireOffsets(group_id=group_id))
            except MillpondError as error:
                log.warning("group=%s: offsets not expired (%s); trying later", group_id, error)
        self._plan_offset_expiry()

    # --- consumer groups ---------------------------------------------------------------------------

    def _consumer_settings(self, group_id: str) -> ConsumerSettings:
        return consumer_settings(self._engine, group_id)

    def _streams_settings(self, group_id: str) -> StreamsSettings:
        return streams_settings(self._engine, group_id)

    def _topic_view(self) -> TopicView:
        return topic_view(self._engine, self._topics_created)

    async def _resolve(self, group_id: str, patterns: frozenset[str]) -> None:
        """Look up which topics patterns stand for, on a thread: there may be many."""
        topics, now_ms = self._coordinator.topics, self._engine.clock.now_ms()
        names = tuple(topics.names)
        found = await self._resolver.run(lambda: pattern.resolve(patterns, names))
        command = ResolvePatterns(
            group_id=group_id, found=found, version=topics.version, resolved_at_ms=now_ms
        )
        try:
            self._check_running()
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
        self._coordinator.topics = self._topic_view()
        if OFFSETS_TOPIC in before.topics and OFFSETS_TOPIC not in after.topics:
            log.warning("%s was deleted, and with it all groups", OFFSETS_TOPIC)
            self._send_away()
            self._coordinator = Coordinator(
                self._coordinator.settings,
                self._consumer_settings,
                self._topic_view(),
                self._streams_settings,
            )
            return
        for name in before.topics.keys() - after.topics.keys():
            for group_id in self._coordinator.offsets.groups_reading(name):
                try:
                    self._perform(ForgetTopic(group_id=group_id, topic=name))
                except MillpondError as error:
                    # They carry the id of the topic that is gone, so nobody will take them for others.
                    log.warning("group=%s: offsets of %s remain: %s", group_id, name, error)

    def _check_running(self) -> None:
        if not self._running:
            raise NotCoordinator("the broker is stopping")


def _with_error(out: Outbox, error: ErrorClass) -> Outbox:
    return Outbox(
        joins=[(ticket, JoinAnswer(error=error)) for ticket, _ in out.joins],
        syncs=[(ticket, SyncAnswer(error=error)) for ticket, _ in out.syncs],
    )
