"""The consumer: alone or in a group, record by record, in lists, or batch by batch.

Everything that changes what is read (rebalances, resets, automatic commits) happens inside ``poll`` and the
iterators that call it, in the application's own task; only heartbeats and fetches run in between.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, TypeAlias

from millpond.base.ids import TopicPartition
from millpond.client._classic_member import ClassicMember
from millpond.client._coordinators import CoordinatorLookup, CoordinatorType
from millpond.client._group_offsets import commit_offsets, committed_offsets
from millpond.client._heartbeat_member import HeartbeatMember
from millpond.client._reading import Reading
from millpond.client._subscription import Subscription, plain_offsets
from millpond.client._where import Where, cluster_for, settings_of
from millpond.client.admin import EARLIEST, LATEST, Admin
from millpond.client.assignors import assignors_of
from millpond.client.config import consumer_config
from millpond.client.errors import BrokerRefused, ClientError, NoOffset, WrongState
from millpond.client.fetcher import FetchedBatch, Isolation
from millpond.client.interceptors import Chain
from millpond.client.rebalance import RebalanceListener
from millpond.client.records import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from millpond.wire.kafka.api import ErrorCode

_log = logging.getLogger("millpond.client.consumer")

Offsets: TypeAlias = Mapping[TopicPartition, int | OffsetAndMetadata]
OnCommit: TypeAlias = Callable[
    [Mapping[TopicPartition, OffsetAndMetadata], BaseException | None], None
]

# The group has another epoch for this member, or no longer knows it.
_GONE_ON = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
    }
)

_POLL_S = 0.1  # how long an iterator waits before it calls the group's ``tick`` again


class Consumer:
    """Reads records. ``async with Consumer("topic", bootstrap_servers=..., group_id=...) as consumer:``.

    Topics to subscribe to come first; settings by Kafka's names in ``config``, or as keywords. ``cluster`` is
    one to share. One consumer belongs to one task.
    """

    def __init__(
        self,
        *topics: str,
        config: Mapping[str, Any] | None = None,
        cluster: Where = None,
        **settings: Any,
    ) -> None:
        given = dict(settings_of(cluster) or {}) | dict(config or {})
        self.config = consumer_config(given, settings)
        self._cluster, self._owns_cluster = cluster_for(
            cluster, self.config, timeout_ms=self.config.default_api_timeout_ms
        )
        self._admin = Admin(self._cluster)
        self._subscription = Subscription()
        named = {name.replace("_", "."): value for name, value in asdict(self.config).items()}
        self._chain = Chain(self.config.interceptor_classes, named)
        self._reading = Reading(self._cluster, self.config, self._subscription)
        self._listener = RebalanceListener()
        self._member: ClassicMember | HeartbeatMember | None = None
        self._coordinator: CoordinatorLookup | None = None
        if self.config.group_id is not None:
            self._coordinator = CoordinatorLookup(
                self._cluster, CoordinatorType.GROUP, self.config.group_id, lane=f"group {id(self)}"
            )
        self._commits: set[asyncio.Task[None]] = set()
        self._next_commit_s = 0.0
        self._next_look_s = 0.0
        self._closed = False
        if topics:
            self.subscribe(topics)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit if automatic commits are enabled, leave the group, close connections."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._member is not None:
                await self._member.leave()
            else:
                await self._commit_quietly()
            if self._commits:
                await asyncio.wait(self._commits)
        finally:
            await self._reading.close()
            self._chain.close()
            if self._coordinator is not None:
                self._cluster.close_lane(f"group {id(self)}")
            if self._owns_cluster:
                await self._cluster.close()

    # --- subscription ---

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to these topics, or to those whose whole name matches ``pattern``, as a member of the
        group.
        """
        if self.config.group_id is None:
            raise WrongState("subscribing needs a group_id; without one, assign() partitions")
        if isinstance(topics, str):
            topics = [topics]
        wanted = list(topics)
        if bool(wanted) == (pattern is not None):
            raise WrongState("subscribe to topics or to a pattern")
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._subscription.subscribe(wanted, compiled)
        self._listener = listener or self._listener
        self._next_look_s = 0.0
        if self._member is None:
            self._member = self._new_member()
        else:
            self._member.request_rejoin("the subscription changed")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group management."""
        self._subscription.assign_by_hand(TopicPartition(*place) for place in partitions)

    async def unsubscribe(self) -> None:
        """Leave the group and read nothing."""
        if self._member is not None:
            await self._member.leave()
            self._member = None
        self._subscription.clear()

    def subscription(self) -> set[str]:
        """Return the subscribed topics, or those that match the pattern."""
        return set(self._subscription.topics)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return self._subscription.assigned

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop returning records of these partitions; they stay assigned."""
        self._subscription.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._subscription.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._subscription.paused

    # --- reading ---

    async def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records, up to ``max.poll.records``; waits up to ``timeout_ms`` for the first."""
        count = self.config.max_poll_records if max_records is None else max_records
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        if not await self._ready(deadline_s):
            return {}
        records = self._reading.take_records(count)
        return self._chain.on_consume(records) if self._chain.consumes else records

    async def poll_batches(self, timeout_ms: float = 0) -> list[FetchedBatch]:
        """Return the next whole batches as they are in the log; decode them with ``batch.records()``."""
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        return self._reading.take_batches() if await self._ready(deadline_s) else []

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._records()

    async def _records(self) -> AsyncIterator[ConsumerRecord]:
        """Yield record by record, for ever. A record counts as read when the next one is requested."""
        while True:
            deadline_s = asyncio.get_running_loop().time() + _POLL_S
            if not await self._ready(deadline_s):
                continue
            for record in self._reading.first_records(self._chain):
                self.hand_out(record)
                yield record
                if not self.passed(record) or self._is_due():
                    break

    async def batches(self) -> AsyncIterator[FetchedBatch]:
        """Yield batch by batch, for ever: each is decoded once, when its ``records()`` are requested.

        A batch counts as read when the next one is requested.
        """
        while True:
            batch = await self.peek_batch(_POLL_S * 1000)
            if batch is not None:
                self.hand_out(batch)
                yield batch
                self.batch_passed(batch)

    async def peek(self, timeout_ms: float = 0) -> list[ConsumerRecord]:
        """Return the next records of one batch, up to ``max.poll.records``; call ``passed`` for each one
        read.
        """
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        if not await self._ready(deadline_s):
            return []
        return self._reading.first_records(self._chain)[: self.config.max_poll_records]

    def hand_out(self, item: ConsumerRecord | FetchedBatch) -> None:
        """Note the item that a loop body gets."""
        self._reading.hand_out(item)

    def passed(self, record: ConsumerRecord) -> bool:
        """Count a record of ``peek`` as read. Return False if the next record is not the one after it any
        more.
        """
        return self._reading.passed(record)

    async def peek_batch(self, timeout_ms: float = 0) -> FetchedBatch | None:
        """Return the next batch, if one comes in time; call ``batch_passed`` when it is read."""
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        return self._reading.first_batch() if await self._ready(deadline_s) else None

    def batch_passed(self, batch: FetchedBatch) -> None:
        """Count a batch of ``peek_batch`` as read."""
        self._reading.batch_passed(batch)

    async def _ready(self, deadline_s: float) -> bool:
        """Process the group, positions and commits, then wait for records. Return whether there are any."""
        if self._closed:
            raise ClientError("the consumer is closed")
        if not self._subscription.uses_group and not self._subscription.is_manual:
            raise WrongState("nothing to read: subscribe() to topics or assign() partitions first")
        loop = asyncio.get_running_loop()
        while True:
            left_s = max(0.0, deadline_s - loop.time())
            await self._look_at_topics()
            if self._member is not None:
                await self._member.tick(left_s)
            await self._find_positions()
            self._commit_if_due()
            if self._reading.has_records():
                return True
            left_s = deadline_s - loop.time()
            await self._reading.fetch(max(0.0, left_s))
            if self._reading.has_records():
                return True
            if left_s <= 0:
                return False

    def _is_due(self) -> bool:
        """Return whether the group or a commit must be processed before the next record."""
        now_s = asyncio.get_running_loop().time()
        if self._member is None:
            return now_s >= self._next_commit_s
        self._member.polled(now_s)
        return not self._member.is_stable or now_s >= self._next_commit_s

    async def _look_at_topics(self) -> None:
        """Refresh, at intervals, the topics that match the pattern and the partition counts."""
        now_s = asyncio.get_running_loop().time()
        if not self._subscription.uses_group or now_s < self._next_look_s:
            return
        self._next_look_s = now_s + self.config.metadata_max_age_ms / 1000
        topics = [
            topic
            for topic in await self._cluster.topics()
            if not (topic.is_internal and self.config.exclude_internal_topics)
        ]
        assert self._member is not None
        if self._subscription.pattern is not None:
            if self._subscription.match(topic.name for topic in topics):
                self._member.request_rejoin("the pattern finds other topics")
        elif self.config.allow_auto_create_topics:
            known = {topic.name for topic in topics}
            for name in self._subscription.topics - known:
                await self._create(name)
        self._member.partitions_changed({topic.name: len(topic.partitions) for topic in topics})

    async def _create(self, topic: str) -> None:
        try:
            await self._cluster.topic(topic, create=True)
        except BrokerRefused as refusal:
            _log.warning("topic=%s: subscribed, but not there (%s)", topic, refusal)
            self._next_look_s = asyncio.get_running_loop().time() + 5.0

    async def _find_positions(self) -> None:
        """Start at the committed offsets, or where ``auto.offset.reset`` says."""
        missing = self._subscription.without_position
        if not missing:
            return
        known: dict[TopicPartition, OffsetAndMetadata] = {}
        if self.config.group_id is not None:
            try:
                known = await self.committed(*missing)
            except BrokerRefused as refusal:
                if self._member is None or refusal.code not in _GONE_ON:
                    raise
                return  # the next heartbeat updates the epoch, and then this is tried again
        lost = missing - set(known)
        if lost and self.config.auto_offset_reset == "none":
            names = ", ".join(map(str, sorted(lost)))
            raise NoOffset(
                f"{names}: the group has no offset there and auto.offset.reset is none; seek(), or"
                " choose earliest or latest"
            )
        when = EARLIEST if self.config.auto_offset_reset == "earliest" else LATEST
        found = await self._offsets_at(dict.fromkeys(lost, when))
        for place in missing & self._subscription.without_position:
            self._subscription.seek(place, known[place].offset if place in known else found[place])

    # --- positions ---

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at this offset."""
        at = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if at < 0:
            raise WrongState(f"{at} is no offset; use seek_to_beginning() or seek_to_end()")
        self._subscription.seek(TopicPartition(*partition), at)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first offset of the log; all partitions by default."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of the log; all partitions by default."""
        await self._seek_to(partitions, LATEST)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        if self._subscription.position(partition) is None:
            await self._find_positions()
        found = self._subscription.position(partition)
        assert found is not None
        return found

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log."""
        return await self._offsets_at(dict.fromkeys(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each log: the next offset, or the last stable one with ``read_committed``."""
        return await self._offsets_at(dict.fromkeys(partitions, LATEST))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time in milliseconds; None where there is none."""
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for place, at in (await self._admin.list_offsets(times)).items():
            if isinstance(at, BrokerRefused):
                raise at
            found[place] = (
                OffsetAndTimestamp(at.offset, at.timestamp, at.leader_epoch)
                if at.offset >= 0
                else None
            )
        return found

    # --- committing ---

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or every returned record, including the one in a loop body.

        Raises ``CommitRefused`` if this is no longer a member of the group.
        """
        await self._commit(self._read_by_now() if offsets is None else plain_offsets(offsets))

    def commit_async(
        self, offsets: Offsets | None = None, callback: OnCommit | None = None
    ) -> None:
        """Commit without waiting; ``callback(offsets, error)`` gets the result."""
        wanted = self._read_by_now() if offsets is None else plain_offsets(offsets)

        async def work() -> None:
            error: BaseException | None = None
            try:
                await self._commit(wanted)
            except ClientError as problem:
                error = problem
                if callback is None:
                    _log.warning("group=%s: commit failed: %s", self.config.group_id, problem)
            if callback is not None:
                callback(wanted, error)

        task = asyncio.get_running_loop().create_task(work(), name="commit")
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    def _read_by_now(self) -> dict[TopicPartition, OffsetAndMetadata]:
        self._reading.put_down()
        return self._subscription.to_commit()

    async def committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; partitions without one are missing."""
        return await committed_offsets(
            self._group(),
            self.group_metadata(),
            partitions,
            require_stable=self.config.isolation_level == "read_committed",
            timeout_s=self.config.default_api_timeout_ms / 1000,
        )

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group, for ``send_offsets_to_transaction``."""
        if self._member is not None:
            return self._member.metadata
        return GroupMetadata(group_id=self.config.group_id or "")

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        await commit_offsets(
            self._group(),
            self.group_metadata(),
            offsets,
            timeout_s=self.config.default_api_timeout_ms / 1000,
        )
        self._chain.on_commit(offsets)

    def _commit_if_due(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._next_commit_s:
            return
        first = self._next_commit_s == 0.0
        self._next_commit_s = now_s + self.config.auto_commit_interval_ms / 1000
        automatic = self.config.enable_auto_commit and self._coordinator is not None
        if automatic and not first and not self._commits:
            self.commit_async(self._subscription.to_commit())

    async def _commit_quietly(self) -> None:
        """Commit automatically before a revocation; on failure other members read the records again."""
        if self.config.enable_auto_commit and self._coordinator is not None:
            try:
                await self._commit(self._subscription.to_commit())
            except ClientError as error:
                _log.warning("group=%s: commit failed: %s", self.config.group_id, error)

    def _group(self) -> CoordinatorLookup:
        if self._coordinator is None:
            raise WrongState("committed offsets belong to a group; give a group_id")
        return self._coordinator

    def _new_member(self) -> ClassicMember | HeartbeatMember:
        assert self._coordinator is not None
        if self.config.group_protocol == "consumer":
            return HeartbeatMember(
                self._coordinator,
                self.config,
                self._subscription,
                lambda: self._listener,
                self._commit_quietly,
            )
        return ClassicMember(
            self._coordinator,
            self.config,
            self._subscription,
            assignors_of(self.config.partition_assignment_strategy),
            lambda: self._listener,
            self._commit_quietly,
        )

    async def _seek_to(self, partitions: Collection[TopicPartition], when: int) -> None:
        places = partitions or self._subscription.assigned
        for place, offset in (await self._offsets_at(dict.fromkeys(places, when))).items():
            self._subscription.seek(place, offset)

    async def _offsets_at(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        level = Isolation[self.config.isolation_level.upper()]
        found: dict[TopicPartition, int] = {}
        for place, at in (await self._admin.list_offsets(asked, isolation_level=level)).items():
            if isinstance(at, BrokerRefused):
                raise at
            found[place] = at.offset
        return found
