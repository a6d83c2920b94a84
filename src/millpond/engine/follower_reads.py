"""Fetches of followers, as their leader answers them: from the end of their logs up to the end of this one.

An answer leaves at once if it holds records, if something is wrong, or if the follower does not know yet how
far the high watermark has come. Otherwise it waits at the ends of all of its logs, and for the high
watermark: followers that hear of it soon can serve readers, and lead with it if they must.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from millpond.base.errors import MillpondError, OffsetOutOfRange
from millpond.base.ids import NodeId
from millpond.engine.peers import ReplicaFetch, ReplicaPosition, ReplicaRead
from millpond.engine.replication_quotas import ReplicationQuota
from millpond.replication.partition import Partition
from millpond.replication.serving import admit

if TYPE_CHECKING:
    from millpond.engine.api import Engine

log = logging.getLogger(__name__)

OnFollower = Callable[[Partition, NodeId], None]


class FollowerReads:
    """The fetches of followers that this node has in hand."""

    def __init__(self, engine: "Engine", on_follower: OnFollower) -> None:
        self._engine = engine
        self._on_follower = on_follower
        self._quota = ReplicationQuota(engine, "leader")
        self._waits: dict[NodeId, dict[_Wait, None]] = {}

    async def serve(self, request: ReplicaFetch) -> Sequence[ReplicaRead]:
        """The answer, when it is time for it."""
        answer = _Answer(self._engine, request, self._quota)
        answer.read(self._admit(request))
        if answer.is_due or request.wait_ms <= 0:
            return answer.reads
        wait = _Wait(answer.watched, request.bytes_min)
        waits = self._waits.setdefault(request.node_id, {})
        waits[wait] = None
        try:
            async with asyncio.timeout(request.wait_ms / 1000):
                await wait.over
        except TimeoutError:
            pass
        finally:
            del waits[wait]
            if not waits:
                # Whoever asks says who it is: numbers that never come again must not be kept.
                self._waits.pop(request.node_id, None)
            wait.leave()
        answer.read(None)
        return answer.reads

    def wake(self, nodes: Iterable[NodeId]) -> None:
        """These followers may have more to ask now: what they wait for is answered with what there is."""
        for node in nodes:
            for wait in self._waits.get(node, ()):
                wait.on_gone()

    def _admit(
        self, request: ReplicaFetch
    ) -> Callable[[Partition, ReplicaPosition], ReplicaRead | None]:
        """Note how far the follower is; what it must be told instead of getting records."""
        now_ms = self._engine.clock.monotonic_ms()

        def note(partition: Partition, position: ReplicaPosition) -> ReplicaRead | None:
            parting = admit(
                partition,
                node=request.node_id,
                broker_epoch=request.broker_epoch,
                leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_epoch=position.last_epoch,
                log_start=position.log_start,
                now_ms=now_ms,
            )
            if parting is not None:
                _report_claim(partition, position, request.node_id)
                return ReplicaRead(
                    topic_id=position.topic_id,
                    partition=position.partition,
                    high_watermark=partition.high_watermark,
                    log_start=partition.log.start_offset,
                    diverging=parting,
                )
            self._on_follower(partition, request.node_id)
            return None

        return note


class _Answer:
    """What a fetch is answered with. Read once when it comes, and again when its wait is over."""

    def __init__(self, engine: "Engine", request: ReplicaFetch, quota: ReplicationQuota) -> None:
        self._engine = engine
        self._quota = quota
        self._request = request
        self.reads: list[ReplicaRead] = []
        self.watched: list[Partition] = []
        self.is_due = False

    def read(
        self, admit_one: Callable[[Partition, ReplicaPosition], ReplicaRead | None] | None
    ) -> None:
        self.reads = []
        self.watched = []
        room = self._request.bytes_max
        total = 0
        for position in self._request.positions:
            read = self._read_one(position, admit_one, room=room - total, first=total == 0)
            if read is not None:
                total += len(read.records)
                self.reads.append(read)
        self.is_due = self.is_due or total >= max(self._request.bytes_min, 1)

    def _read_one(
        self,
        position: ReplicaPosition,
        admit_one: Callable[[Partition, ReplicaPosition], ReplicaRead | None] | None,
        *,
        room: int,
        first: bool,
    ) -> ReplicaRead | None:
        try:
            topic = self._engine.topics.topic_by_id(position.topic_id)
            partition = self._engine.topics.partition(topic.name, position.partition)
            if admit_one is None:
                partition.check_epoch(position.leader_epoch)
            else:
                told = admit_one(partition, position)
                if told is not None:
                    self.is_due = True
                    return told
            if self._quota.holds_back(partition, self._request.node_id):
                return None
            self.watched.append(partition)
            read = self._records(partition, position, room=room, first=first)
            if read is not None:
                self._quota.note(partition, len(read.records))
            return read
        except MillpondError as error:
            self.is_due = True
            return _refusal(position, error)

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


class _Wait:
    """One fetch that waits at the ends of its logs."""

    __slots__ = ("_missing_bytes", "_partitions", "over")

    def __init__(self, partitions: Sequence[Partition], bytes_min: int) -> None:
        self._partitions = partitions
        self._missing_bytes = bytes_min
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for partition in partitions:
            partition.end_watchers[self] = None

    def on_append(self, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0:
            self.on_gone()

    def on_committed(self) -> None:
        self.on_gone()

    def on_gone(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def leave(self) -> None:
        for partition in self._partitions:
            partition.end_watchers.pop(self, None)
