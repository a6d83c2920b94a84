"""Answers fetches of followers: records from the end of their logs up to the end of the leader's.

An answer leaves at once if it holds records, if something is wrong, or if the follower does not know yet how
far the high watermark has come. Otherwise it waits at the ends of all of its logs, and for the high
watermark: followers that hear of it soon can serve readers, and lead with it if they must.

Only partitions that are due are looked at (``follower_sessions.py``): a fetch costs what has changed, not
what is followed.
"""

import asyncio
import logging
from collections.abc import Callable

from millpond.base.clock import Clock
from millpond.base.errors import MillpondError, OffsetOutOfRange
from millpond.base.ids import NodeId
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.peers import ReplicaFetch, ReplicaRead, ReplicaReads
from millpond.engine.replication.follower_sessions import Followed, Session, Sessions, Wait
from millpond.engine.replication.replication_quotas import ReplicationQuota
from millpond.engine.runtime.runtime import Runtime
from millpond.replication.fetch_session import ReplicaPosition
from millpond.replication.partition import Partition
from millpond.replication.serving import admit

log = logging.getLogger(__name__)

OnFollower = Callable[[Partition, NodeId], None]


class FollowerReads:
    """The fetches of followers that this node answers."""

    def __init__(
        self,
        on_follower: OnFollower,
        *,
        runtime: Runtime,
        topics: TopicTable,
        quota: ReplicationQuota,
    ) -> None:
        self._runtime = runtime
        self._topics = topics
        self._on_follower = on_follower
        self._quota = quota
        self.sessions = Sessions(self._runtime.rng)

    async def serve(self, request: ReplicaFetch) -> ReplicaReads:
        """Return the answer to a fetch, waiting for records if there are none."""
        session = self.sessions.begin(request)
        answer = _Answer(self._runtime.clock, self._topics, request, session, self._quota)
        answer.admit_and_read(self._on_follower)
        self.sessions.keep(request, session)
        try:
            if not answer.is_due and request.wait_ms > 0:
                await _news(session, request)
                answer.read_again()
            return ReplicaReads(session_id=session.session_id, reads=answer.reads)
        finally:
            self.sessions.end(session)

    def fetched_ms(self, node: NodeId) -> int:
        """Return when a follower last fetched in its session; the smallest time if it has none."""
        return self.sessions.fetched_ms(node)

    def wake(self, partition: Partition) -> None:
        """Wake followers of a partition that this node leads in a new epoch."""
        for watcher in tuple(partition.end_watchers):
            watcher.on_committed()
        self.sessions.wake(partition.replicas)


async def _news(session: Session, request: ReplicaFetch) -> None:
    """Wait until there are records, or the follower has waited long enough."""
    wait = session.wait = Wait(request.bytes_min)
    try:
        async with asyncio.timeout(request.wait_ms / 1000):
            await wait.over
    except TimeoutError:
        pass
    finally:
        session.wait = None


class _Answer:
    """The answer to a fetch, read when it arrives and again when its wait is over."""

    def __init__(
        self,
        clock: Clock,
        topics: TopicTable,
        request: ReplicaFetch,
        session: Session,
        quota: ReplicationQuota,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._quota = quota
        self._request = request
        self._session = session
        self.reads: list[ReplicaRead] = []
        self.is_due = False

    def admit_and_read(self, on_follower: OnFollower) -> None:
        """Note how far the follower is, then read what follows."""
        now_ms = self._clock.monotonic_ms()
        self._read(on_follower, now_ms)
        self._session.pulse.last_ms = now_ms

    def read_again(self) -> None:
        """Read the records that were appended meanwhile."""
        self._read(None, 0)

    def _read(self, on_follower: OnFollower | None, now_ms: int) -> None:
        self.reads = []
        due = self._session.due
        room = self._request.bytes_max
        total = 0
        for followed in tuple(due):
            read = self._read_one(followed, on_follower, now_ms, room - total, first=total == 0)
            if read is not None:
                self.reads.append(read)
                if len(read.records):
                    total += len(read.records)
                    due[followed] = due.pop(followed, None)
        self.is_due = self.is_due or total >= max(self._request.bytes_min, 1)

    def _read_one(
        self,
        followed: Followed,
        on_follower: OnFollower | None,
        now_ms: int,
        room: int,
        *,
        first: bool,
    ) -> ReplicaRead | None:
        position = followed.position
        try:
            topic = self._topics.topic_by_id(position.topic_id)
            partition = self._topics.partition(topic.name, position.partition)
            followed.watch(partition)
            if on_follower is None:
                partition.check_epoch(position.leader_epoch)
            else:
                told = self._admit(followed, partition, now_ms)
                if told is not None:
                    self.is_due = True
                    return told
                on_follower(partition, self._request.node_id)
            followed.is_held_back = self._quota.holds_back(partition, self._request.node_id)
            if followed.is_held_back:
                return None
            read = self._records(partition, position, room=room, first=first)
            if read is not None:
                self._quota.note(partition, len(read.records))
            elif position.fetch_offset >= partition.log.end_offset:
                self._session.due.pop(followed, None)
            return read
        except MillpondError as error:
            self.is_due = True
            return _refusal(position, error)

    def _admit(self, followed: Followed, partition: Partition, now_ms: int) -> ReplicaRead | None:
        """Note how far the follower is; what it must be told instead of getting records."""
        position, request = followed.position, self._request
        followed.detach()
        admitted = admit(
            partition,
            node=request.node_id,
            broker_epoch=request.broker_epoch,
            leader_epoch=position.leader_epoch,
            fetch_offset=position.fetch_offset,
            last_epoch=position.last_epoch,
            log_start=position.log_start,
            now_ms=now_ms,
            pulse=self._session.pulse,
        )
        if isinstance(admitted, tuple):
            _report_claim(partition, position, request.node_id)
            return ReplicaRead(
                topic_id=position.topic_id,
                partition=position.partition,
                high_watermark=partition.high_watermark,
                log_start=partition.log.start_offset,
                diverging=admitted,
            )
        followed.follower = admitted
        return None

    def _records(
        self, partition: Partition, position: ReplicaPosition, *, room: int, first: bool
    ) -> ReplicaRead | None:
        stored = partition.log
        offset = position.fetch_offset
        high_watermark = partition.high_watermark
        records: bytes | memoryview = b""
        if offset < stored.end_offset and (room > 0 or first):
            size = min(position.bytes_max, max(room, 0))
            records = stored.read(offset, size, upto=stored.end_offset, at_least_one=first).data
        known = min(high_watermark, offset)
        # How far what is committed has come, or that the oldest records were given up.
        is_news = known > position.high_watermark >= 0 or (
            position.log_start < stored.start_offset <= known
        )
        if is_news:
            self.is_due = True
        if not records and not is_news and stored.start_offset <= position.log_start:
            return None
        return ReplicaRead(
            topic_id=position.topic_id,
            partition=position.partition,
            high_watermark=high_watermark,
            log_start=stored.start_offset,
            records=records,
        )


def _report_claim(partition: Partition, position: ReplicaPosition, node: NodeId) -> None:
    """A follower may have more than its leader, but never of the leader's own epoch."""
    end = partition.log.end_offset
    if position.last_epoch == partition.leader_epoch and position.fetch_offset > end:
        log.error(
            "partition=%s-%d epoch=%d: node %d claims everything below %d, and there are no records of this "
            "epoch behind %d; it is not believed",
            partition.topic,
            partition.index,
            partition.leader_epoch,
            node,
            position.fetch_offset,
            end,
        )


def _refusal(position: ReplicaPosition, error: MillpondError) -> ReplicaRead:
    log_start = -1
    end: tuple[int, int] | None = None
    if isinstance(error, OffsetOutOfRange):
        log_start = error.start_offset
        end = -1, error.end_offset
    return ReplicaRead(
        topic_id=position.topic_id,
        partition=position.partition,
        log_start=log_start,
        diverging=end,
        error=error,
    )
