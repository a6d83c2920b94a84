"""Fetch loops of followers: one for each leader, for all partitions that this node follows it in.

A fetch names the end of each log; the answer is written, and the next fetch tells the leader that it was.
Where the flush policy asks for it, that is not before the disk has it. An answer counts only for what was
asked: if the partition got another leader or another epoch meanwhile, it is dropped. A partition that cannot
go on (the leader does not know yet that it leads, the disk is full) is left out for a while, longer each
time; a leader that cannot be reached is left alone likewise.

A full answer may not always serve the same partitions: a partition that got records goes to the end of the
queue. The leader is sent only what has changed since the last request (``replication/fetch_session.py``).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from millpond.base.errors import (
    InvalidRecord,
    MillpondError,
    OffsetOutOfRange,
    PeerUnreachable,
    ShuttingDown,
    StorageFailure,
)
from millpond.base.ids import NodeId
from millpond.engine.cluster.membership import Membership
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.peers import Peers, ReplicaFetch, ReplicaRead
from millpond.engine.replication.replication_quotas import ReplicationQuota
from millpond.engine.runtime.backoff import Backoff
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.runtime import Runtime
from millpond.replication.fetch_session import FollowerFetchSession, ReplicaPosition
from millpond.replication.following import FollowStep, cut_back, start_over, take
from millpond.replication.partition import Confirmation, Partition

log = logging.getLogger(__name__)

_PAUSE_MS_MIN = 20
# So many in a row, each pause longer than the one before, are more than a second.
_FAILURES_THAT_LAST = 7
# How long a throttled partition is left out of fetches.
_HELD_BACK_MS = 500

# How long a leader may be silent before it is asked again, as a share of the time that a follower may be.
_SILENCE_PART = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherParts:
    """The services of the node that fetch loops use."""

    info: NodeInfo
    runtime: Runtime
    settings: NodeSettings
    membership: Membership
    flusher: Flusher
    peers: Peers | None
    mark_dirty: Callable[[Partition], None]


class Fetchers:
    """The fetch loops, by leader."""

    def __init__(self, parts: FetcherParts, quota: ReplicationQuota) -> None:
        self._parts = parts
        self._fetchers: dict[NodeId, _Fetcher] = {}
        self._quota = quota

    def follow(self, partition: Partition) -> None:
        """Begin to fetch from the partition's leader, if it has one."""
        self.leave(partition)
        leader = partition.leader
        if leader < 0 or self._parts.peers is None:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = _Fetcher(self._parts, leader, self._quota)
        fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        for fetcher in self._fetchers.values():
            fetcher.remove(partition)

    def on_start_moved(self, partition: Partition) -> None:
        """Tell the fetch loop that the start of a followed log has moved."""
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is not None:
            fetcher.on_start_moved(partition)

    def silent_leaders(self) -> tuple[NodeId, ...]:
        """Return the leaders that have left fetches of this node unanswered for too long."""
        now_ms = self._parts.runtime.clock.monotonic_ms()
        return tuple(
            sorted(
                node for node, fetcher in self._fetchers.items() if fetcher.is_unanswered(now_ms)
            )
        )

    def start(self) -> None:
        """Begin with what is to be followed."""
        for fetcher in self._fetchers.values():
            fetcher.start()


class _Fetcher:
    """The partitions that this node follows one leader in, and the task that does it."""

    def __init__(self, parts: FetcherParts, leader: NodeId, quota: ReplicationQuota) -> None:
        self._parts = parts
        self._quota = quota
        self._leader = leader
        self._partitions: dict[Partition, None] = {}
        # Partitions that failed, and partitions that are left out for now (failed or throttled).
        self._pauses: dict[Partition, Backoff] = {}
        self._resting: dict[Partition, None] = {}
        self._pause = Backoff(_PAUSE_MS_MIN)
        self._session = FollowerFetchSession()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Since when the leader was asked and has not answered.
        self._unanswered_ms: int | None = None

    def is_unanswered(self, now_ms: int) -> bool:
        """Whether the leader is silent, without what this node slept through."""
        if self._unanswered_ms is None or not self._partitions:
            return False
        silent_ms = self._parts.runtime.stalls.silent_ms(self._unanswered_ms, now_ms)
        return silent_ms >= silent_link_ms(self._parts.settings)

    def add(self, partition: Partition) -> None:
        self._partitions[partition] = None
        self._session.on_change(partition)
        self._wake.set()
        self.start()

    def remove(self, partition: Partition) -> None:
        if partition in self._partitions:
            del self._partitions[partition]
            self._pauses.pop(partition, None)
            self._resting.pop(partition, None)
            self._session.leave(partition)

    def on_start_moved(self, partition: Partition) -> None:
        if partition in self._partitions and partition not in self._resting:
            self._session.on_change(partition)

    def start(self) -> None:
        """Begin, once the node serves and there is something to follow."""
        if not self._parts.runtime.running or not self._partitions:
            return
        if self._task is None or self._task.done():
            try:
                name = f"follow node {self._leader}"
                self._task = self._parts.runtime.tasks.keep(self._run, name=name)
            except ShuttingDown:
                return

    async def _run(self) -> None:
        while self._partitions:
            self._wake.clear()
            now_ms = self._parts.runtime.clock.monotonic_ms()
            self._look_at_pauses(now_ms)
            if len(self._resting) == len(self._partitions):
                soonest_ms = min(self._pauses[one].until_ms for one in self._resting)
                await self._rest(soonest_ms - now_ms)
                continue
            unflushed = self._session.unflushed(self._partitions)
            if unflushed:
                await self._flush(unflushed)
            else:
                await self._fetch()

    def _look_at_pauses(self, now_ms: int) -> None:
        """Resume partitions whose pause is over; leave out throttled ones."""
        for partition in [one for one in self._resting if self._pauses[one].until_ms <= now_ms]:
            del self._resting[partition]
            self._session.on_change(partition)
        if self._quota.is_limited:
            me = self._parts.info.node_id
            for partition in self._partitions:
                if partition not in self._resting and self._quota.holds_back(partition, me):
                    self._pauses.setdefault(partition, Backoff(_PAUSE_MS_MIN)).until_ms = (
                        now_ms + _HELD_BACK_MS
                    )
                    self._leave_out(partition)

    def _leave_out(self, partition: Partition) -> None:
        self._resting[partition] = None
        self._session.leave(partition)

    async def _fetch(self) -> None:
        assert self._parts.peers is not None
        setting = self._parts.settings.get
        wait_ms = setting("replica.fetch.wait.max.ms")
        said = self._session.next_fetch(
            (one for one in self._partitions if one not in self._resting),
            bytes_max=setting("replica.fetch.max.bytes"),
        )
        request = ReplicaFetch(
            node_id=self._parts.info.node_id,
            broker_epoch=self._parts.membership.broker_epoch,
            wait_ms=wait_ms,
            bytes_min=setting("replica.fetch.min.bytes"),
            bytes_max=setting("replica.fetch.response.max.bytes"),
            positions=said.positions,
            forgotten=said.forgotten,
            session_id=said.session_id,
            session_epoch=said.session_epoch,
        )
        silence_ms = setting("replica.lag.time.max.ms") // _SILENCE_PART
        timeout_ms = wait_ms + min(setting("replica.socket.timeout.ms"), silence_ms)
        if self._unanswered_ms is None:
            self._unanswered_ms = self._parts.runtime.clock.monotonic_ms()
        try:
            answer = await self._parts.peers.call(self._leader, request, timeout_ms=timeout_ms)
        except MillpondError as error:
            if not isinstance(error, PeerUnreachable):
                self._unanswered_ms = None
            self._session.begin_anew()
            pause_ms = self._extend(self._pause)
            level = _loudness(self._pause, error)
            log.log(
                level,
                "node=%d: cannot be followed (%s); %d partitions wait %d ms",
                self._leader,
                error,
                len(self._partitions) - len(self._resting),
                pause_ms,
            )
            await self._rest(pause_ms)
            return
        self._unanswered_ms = None
        self._pause.end()
        self._session.on_answer(answer.session_id)
        for read in answer.reads:
            found = self._session.sent.get((read.topic_id, read.partition))
            if found is not None:
                self._session.on_change(found[0])
                self._take(*found, read)

    def _take(self, partition: Partition, position: ReplicaPosition, read: ReplicaRead) -> None:
        """Apply the leader's answer for one partition, if it answers the present request."""
        if (
            partition not in self._partitions
            or partition.is_leader
            or partition.leader_epoch != position.leader_epoch
            or partition.log.end_offset != position.fetch_offset
        ):
            return
        try:
            step = self._apply(partition, read)
        except (
            Exception
        ) as error:  # one partition that cannot be followed must not hold up the others
            pause = self._pauses.setdefault(partition, Backoff(_PAUSE_MS_MIN))
            pause_ms = self._extend(pause)
            self._leave_out(partition)
            if not isinstance(error, MillpondError):
                log.exception(
                    "partition=%s-%d: a defect made its fetch fail",
                    partition.topic,
                    partition.index,
                )
            level = _loudness(pause, error)
            log.log(
                level,
                "partition=%s-%d epoch=%d: cannot follow node %d (%s); trying again in %d ms",
                partition.topic,
                partition.index,
                partition.leader_epoch,
                self._leader,
                error,
                pause_ms,
            )
            return
        self._pauses.pop(partition, None)
        self._quota.note(partition, len(read.records))
        if step is not FollowStep.NOTHING:
            self._parts.mark_dirty(partition)
            self._partitions[partition] = self._partitions.pop(partition)

    def _apply(self, partition: Partition, read: ReplicaRead) -> FollowStep:
        if isinstance(read.error, OffsetOutOfRange):
            end = read.diverging[1] if read.diverging is not None else -1
            step = start_over(partition, leader_start=read.log_start, leader_end=end)
            if step is FollowStep.NOTHING:
                raise read.error
            return step
        if read.error is not None:
            raise read.error
        if read.diverging is not None:
            step = cut_back(partition, *read.diverging)
            if step is FollowStep.NOTHING:
                # The same request would get the same answer at once.
                raise InvalidRecord("its log parts from this one where there is nothing to cut")
            return step
        return take(
            partition,
            read.records,
            high_watermark=read.high_watermark,
            log_start=read.log_start,
            now_ms=self._parts.runtime.clock.now_ms(),
        )

    async def _flush(self, partitions: list[Partition]) -> None:
        """Flush appended records before the next fetch acknowledges them."""
        waiting: list[asyncio.Future[MillpondError | None]] = []
        loop = asyncio.get_running_loop()
        for partition in partitions:
            future: asyncio.Future[MillpondError | None] = loop.create_future()
            waiting.append(future)
            partition.confirm_flushed_at(partition.log.end_offset, _resolve(future))
            self._parts.flusher.request(partition)
        for partition, future in zip(partitions, waiting, strict=True):
            error = await future
            if error is not None and partition in self._partitions:
                self._extend(self._pauses.setdefault(partition, Backoff(_PAUSE_MS_MIN)))
                self._leave_out(partition)

    def _extend(self, pause: Backoff) -> int:
        longest_ms = self._parts.settings.get("replica.fetch.backoff.ms")
        return pause.extend(self._parts.runtime.clock.monotonic_ms(), longest_ms)

    async def _rest(self, pause_ms: int) -> None:
        """Wait, or until there is something new to follow."""
        try:
            async with asyncio.timeout(max(pause_ms, 1) / 1000):
                await self._wake.wait()
        except TimeoutError:
            return


def silent_link_ms(settings: NodeSettings) -> int:
    """Return after how long a silent connection between a leader and a follower counts as cut."""
    silence_ms = int(settings.get("broker.silence.timeout.ms"))
    return max(silence_ms * 2 // 3, 2 * int(settings.get("replica.fetch.wait.max.ms")))


def _loudness(pause: Backoff, error: Exception) -> int:
    """Return the log level of a failure: a warning once it lasts, because elections take a moment."""
    said_at = 1 if isinstance(error, StorageFailure) else _FAILURES_THAT_LAST
    return logging.WARNING if pause.failures == said_at else logging.DEBUG


def _resolve(future: "asyncio.Future[MillpondError | None]") -> Confirmation:
    def confirm(error: MillpondError | None) -> None:
        if not future.done():
            future.set_result(error)

    return confirm
