"""Hosts the groups of the partitions of ``__consumer_offsets`` that this node leads.

The state machine is ``group.coordinator``; its records are in ``__consumer_offsets``, in the partition that
the hash of the group id names. All that a command changes is changed before ``perform`` returns: the records
are in the log and applied, with nothing in between. Answers wait until the records are committed
(``shard_host.py``). This module also wakes groups when their deadlines are due, tells them of changed topics,
and resolves the patterns of their subscriptions.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from millpond.base import patterns
from millpond.base.errors import MillpondError, NotCoordinator
from millpond.engine.coordinators.durable import Durable
from millpond.engine.coordinators.group_context import settings_reader, topic_view
from millpond.engine.coordinators.group_deadlines import GroupDeadlines, OffsetExpiry
from millpond.engine.coordinators.group_log import encode_batch, refusal_of, replay_record, report
from millpond.engine.coordinators.parked_requests import ParkedRequests
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.coordinators.shard_host import ShardHost, Written
from millpond.engine.coordinators.shards import Shard
from millpond.engine.runtime.worker import Worker
from millpond.group.classic.records import GroupStored
from millpond.group.consumer.messages import ResolvePatterns
from millpond.group.coordinator import GroupCoordinator
from millpond.group.kind import Group
from millpond.group.messages import (
    Command,
    Expire,
    ExpireOffsets,
    ForgetTopic,
    GroupSettings,
    Join,
    Now,
    Outbox,
    StoreFailed,
    Sync,
)
from millpond.group.records import GroupRecord, OffsetCommitted, OffsetForgotten, OffsetPended
from millpond.group.topics import TopicView
from millpond.metadata.controller import OFFSETS_TOPIC
from millpond.metadata.image import Image
from millpond.record.batch import BatchHeader
from millpond.record.records import Record

log = logging.getLogger(__name__)

# Records that change offsets only.
_OFFSETS = (OffsetCommitted, OffsetPended, OffsetForgotten)

# The delay before a group is woken again whose expired members could not be removed.
_AGAIN_MS = 1_000

AnswerT = TypeVar("AnswerT")


class GroupHost:
    """Decides, writes and answers for the groups that this node coordinates.

    ``on_dropped`` is called with the partition whose groups this node does not coordinate any more, and with
    the number of partitions.
    """

    def __init__(
        self, services: CoordinatorServices, on_dropped: Callable[[int, int], None]
    ) -> None:
        self._services = services
        self._on_dropped = on_dropped
        self._settings = GroupSettings()
        self.read_settings = settings_reader(services)
        self.parked = ParkedRequests()
        self.shards: ShardHost[GroupCoordinator, GroupRecord]
        self.shards = ShardHost(services, OFFSETS_TOPIC, self, contents="groups")
        self._deadlines = GroupDeadlines(services, self._expire)
        self._offset_expiry = OffsetExpiry(
            services, lambda: [group.group_id for group in self.groups()], self._expire_offsets
        )
        # The version of the metadata in which a topic was last added.
        self._topics_created = 0
        self._resolver = Worker(services.runtime.threads, "patterns")

    def start(self) -> None:
        """Load the groups and begin to watch their deadlines. The node's topics are loaded."""
        setting = self._services.settings.get
        self._topics_created = self._services.metadata.end_offset
        self._settings = GroupSettings(
            session_timeout_ms_min=setting("group.min.session.timeout.ms"),
            session_timeout_ms_max=setting("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=setting("group.initial.rebalance.delay.ms"),
            members_max=setting("group.max.size"),
            offset_metadata_chars_max=setting("offset.metadata.max.bytes"),
            offsets_retention_ms=setting("offsets.retention.minutes") * 60_000,
        )
        self.shards.start()
        if self.shards.is_ready and (count := sum(1 for _ in self.groups())):
            log.info("groups: %d read from %s", count, OFFSETS_TOPIC)
        self._services.metadata.observe(self._on_image)
        self._offset_expiry.plan()

    def stop(self) -> None:
        """Refuse every parked request, so that its client finds another coordinator or retries later."""
        self._deadlines.stop()
        self._offset_expiry.stop()
        self._resolver.stop()
        self.shards.stop()

    # --- looking up -------------------------------------------------------------------------------

    def coordinator(self, group_id: str) -> GroupCoordinator:
        """Return the state machine of a group.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        return self.shards.get(group_id).state

    def find(self, group_id: str) -> Group | None:
        """Return a group that this node coordinates."""
        coordinator = self.shards.find(group_id)
        return None if coordinator is None else coordinator.groups.get(group_id)

    def groups(self) -> Iterator[Group]:
        """Yield every group that this node coordinates."""
        for coordinator in self.shards.states():
            yield from coordinator.groups.values()

    # --- shards -----------------------------------------------------------------------------------

    def new_state(self, index: int) -> GroupCoordinator:
        """Return a state machine for the groups of one partition."""
        del index
        return GroupCoordinator(self._settings, self.read_settings, self._topic_view())

    def replay(self, state: GroupCoordinator, header: BatchHeader, record: Record) -> None:
        """Apply a record of the log."""
        replay_record(state, header, record)

    def batch(self, records: Sequence[GroupRecord], now_ms: int) -> bytearray:
        """Encode records as one batch."""
        return encode_batch(records, now_ms)

    def refusal(self, records: Sequence[GroupRecord], error: MillpondError) -> MillpondError:
        """Return the error as it is: ``_store_failed`` translates it."""
        del records
        return error

    def apply(
        self, shard: Shard[GroupCoordinator], records: Sequence[GroupRecord], written: Written
    ) -> None:
        """Apply appended records; the answers that hold then wait until the records are committed."""
        applied = shard.state.apply(records, self._now())
        assert not applied.records
        report(records)
        self.parked.answer_when(written.durable, applied)

    def shard_loaded(self, index: int, state: GroupCoordinator) -> None:
        """Start the sessions of all members."""
        if state.foreign_records:
            log.warning(
                "partition=%s-%d: holds %d records of other kinds of groups; they are kept but not used",
                OFFSETS_TOPIC,
                index,
                state.foreign_records,
            )
        state.topics = self._topic_view()
        out = state.resume(self._now())
        assert not out.joins
        assert not out.syncs
        for group in state.groups.values():
            self._watch(group)

    def shard_dropped(self, index: int, state: GroupCoordinator) -> None:
        """Refuse every parked request of a shard that this node does not coordinate any more."""
        self._on_dropped(index, self.shards.count or 1)
        out = Outbox()
        for group in state.groups.values():
            group.disband(NotCoordinator, out)
        self.parked.answer(out)

    # --- commands ---------------------------------------------------------------------------------

    def perform(self, command: Command[AnswerT]) -> tuple[AnswerT, Durable]:
        """Decide a command and carry the decision out; return the answer and when it is durable.

        Raises why the command is refused, or why its records could not be written.
        """
        shard = self.shards.get(command.group_id)
        decision = shard.state.decide(command, self._now())
        durable = self._carry_out(shard, decision.outbox)
        group = shard.state.groups.get(command.group_id)
        if group is not None:
            self._watch(group)
        return decision.answer, durable

    def perform_parked(self, command: Join | Sync) -> None:
        """Perform a command whose answer goes to its ticket, also if it is refused."""
        try:
            # A client that found this node by FindCoordinator finds the topic made.
            self.shards.get(command.group_id)
        except MillpondError as error:
            self.parked.refuse(command, type(error))
        else:
            self.perform(command)

    def _carry_out(self, shard: Shard[GroupCoordinator], out: Outbox) -> Durable:
        if out.records:
            try:
                written = self.shards.append(shard, out.records)
            except MillpondError as error:
                self._store_failed(shard, out, error)
                return None
            self.apply(shard, out.records, written)
            durable = written.durable
        else:
            durable = self.shards.settled(shard)
        self.parked.answer_when(durable, out)
        for group_id, wanted in out.patterns:
            self._services.runtime.tasks.spawn(self._resolve(group_id, wanted), name="patterns")
        return durable

    def _store_failed(
        self, shard: Shard[GroupCoordinator], out: Outbox, error: MillpondError
    ) -> None:
        refusal = refusal_of(error)
        group_id = out.records[0].group_id
        log.warning("group=%s: its records could not be written: %s", group_id, error)
        if all(isinstance(record, _OFFSETS) for record in out.records):
            raise refusal(str(error)) from error
        self.parked.answer_with_error(out, refusal)
        command = StoreFailed(group_id=group_id, error=refusal)
        self._carry_out(shard, shard.state.decide(command, self._now()).outbox)
        if not any(isinstance(record, GroupStored) for record in out.records):
            # The member must not be told of a state that was not stored.
            raise refusal(str(error)) from error

    # --- time -------------------------------------------------------------------------------------

    def _now(self) -> Now:
        clock = self._services.runtime.clock
        return Now(wall_ms=clock.now_ms(), steady_ms=clock.monotonic_ms())

    def _watch(self, group: Group) -> None:
        """Have the group woken when its next deadline is due."""
        self._deadlines.watch(group.group_id, group.wake_ms)

    def _expire(self, group_id: str) -> None:
        if self.find(group_id) is None:
            return  # its new coordinator wakes it
        try:
            self.perform(Expire(group_id=group_id))
        except MillpondError as error:
            log.warning("group=%s: no member was removed (%s); trying again", group_id, error)
            again_ms = self._services.runtime.clock.monotonic_ms() + _AGAIN_MS
            group = self.find(group_id)
            if group is not None:
                self._deadlines.watch(group_id, max(group.wake_ms, again_ms))

    def _expire_offsets(self, group_id: str) -> None:
        if self.find(group_id) is not None:
            self.perform(ExpireOffsets(group_id=group_id))

    # --- topics -----------------------------------------------------------------------------------

    def _topic_view(self) -> TopicView:
        return topic_view(self._services, self._topics_created)

    async def _resolve(self, group_id: str, wanted: frozenset[str]) -> None:
        """Match patterns against the names of all topics, on a thread: there may be many."""
        topics, now_ms = self._topic_view(), self._services.runtime.clock.now_ms()
        names = tuple(topics.names)
        found = await self._resolver.run(lambda: patterns.resolve(wanted, names))
        command = ResolvePatterns(
            group_id=group_id, found=found, version=topics.version, resolved_at_ms=now_ms
        )
        try:
            self.perform(command)
        except MillpondError as error:
            log.warning("group=%s: its patterns were not resolved (%s)", group_id, error)

    def _on_image(self, before: Image, after: Image) -> None:
        if before.topics is after.topics or not self.shards.is_running:
            return
        if after.topics_by_id.keys() - before.topics_by_id.keys():
            self._topics_created = self._services.metadata.end_offset
        view = self._topic_view()
        for coordinator in self.shards.states():
            coordinator.topics = view
        if self.shards.drop_if_deleted(before, after):
            return
        for name in before.topics.keys() - after.topics.keys():
            for group_id in self._reading(name):
                try:
                    self.perform(ForgetTopic(group_id=group_id, topic=name))
                except MillpondError as error:
                    # They carry the id of the deleted topic, so a new topic of that name does not get them.
                    log.warning("group=%s: offsets of %s remain: %s", group_id, name, error)

    def _reading(self, topic: str) -> Sequence[str]:
        return [
            group_id
            for coordinator in self.shards.states()
            for group_id in coordinator.offsets.groups_reading(topic)
        ]
