"""Repairs damaged records from other replicas, without an operator.

A read that meets damaged bytes (of a consumer, of a follower's fetch, of the recovery after a crash) notes
the damage, and from then on the bytes are not served. The damaged ranges are fetched from other replicas,
those in sync first, and the segment is rewritten with them (``log/repair.py``). Only committed records are
asked for, and only records of the same epoch are taken, so any replica will do.

Ranges for which no replica can be reached now are tried again, later each time. Ranges that no other replica
has are lost: ``may_come_back`` returns false, and readers that waited go on without them.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial

from millpond.base.errors import (
    CorruptBatch,
    CorruptLog,
    MillpondError,
    NotLeader,
    OffsetOutOfRange,
    PeerUnreachable,
    ShuttingDown,
    StorageFailure,
)
from millpond.base.ids import NodeId, Offset, TopicPartition
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.read import PartitionRead, read_behind
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.peers import PeerHandlers, Peers, ReadReplica
from millpond.engine.runtime.backoff import Backoff
from millpond.engine.runtime.runtime import Runtime
from millpond.engine.runtime.worker import Worker
from millpond.log.log_dirs import LogDirs
from millpond.log.repair import RepairPlan, RepairResult, SegmentRewrite
from millpond.log.segment import Damage
from millpond.record.batch import ByteBuffer
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

TICK_MS = 200
_PAUSE_MS_MIN = 1_000
_PAUSE_MS_MAX = 5 * 60_000
_ASK_TIMEOUT_MS = 10_000
# Bytes of one request; at least one batch, however large.
_PIECE_BYTES = 1024 * 1024

# How often all other replicas must answer that they do not have records, because a disk may recover.
_ASKED_IN_VAIN = 3

# What a replica answers that has been asked and does not have the records either.
_HAS_NOT = (CorruptBatch, CorruptLog, OffsetOutOfRange, StorageFailure)


class _Trouble:
    """A log that could not be repaired at once, or whose reported damage was not found."""

    __slots__ = ("pause", "refused", "times_sound")

    def __init__(self) -> None:
        self.pause = Backoff(_PAUSE_MS_MIN)
        # How often all others have answered that they do not have these offsets.
        self.refused: Counter[range] = Counter()
        # How often nothing was found to be wrong.
        self.times_sound = 0

    def is_lost(self, offset: Offset) -> bool:
        """Whether no repair will bring the offset back."""
        return self.times_sound >= _ASKED_IN_VAIN or any(
            offset in offsets and times >= _ASKED_IN_VAIN for offsets, times in self.refused.items()
        )


class Repairs:
    """Repairs the damaged logs of one node."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        log_dirs: LogDirs,
        topics: TopicTable,
        partitions: Partitions,
        peer_handlers: PeerHandlers,
        peers: Peers | None,
    ) -> None:
        self._runtime = runtime
        self._log_dirs = log_dirs
        self._topics = topics
        self._partitions = partitions
        self._peer_handlers = peer_handlers
        self._peers = peers
        self._worker = Worker(self._runtime.threads, "millpond-repair")
        self._troubles: dict[TopicPartition, _Trouble] = {}
        self._peer_handlers.serve(ReadReplica, self.on_read)

    async def run(self) -> None:
        """Repair until cancelled."""
        try:
            while True:
                await asyncio.sleep(TICK_MS / 1000)
                if self._log_dirs.damaged:
                    await self.repair()
        finally:
            self._worker.stop()

    @property
    def is_busy(self) -> bool:
        """Whether a thread is at work."""
        return self._worker.is_busy

    def may_come_back(self, partition: Partition, offset: Offset) -> bool:
        """Whether a damaged record is worth waiting for: another replica may have it."""
        if not _others(partition) or self._peers is None:
            return False
        trouble = self._troubles.get(TopicPartition(partition.topic, partition.index))
        return trouble is None or not trouble.is_lost(offset)

    def read_behind(
        self,
        partition: Partition,
        offset: Offset,
        error: CorruptLog,
        *,
        bytes_max: int,
        committed: bool = False,
        at_least_one: bool = True,
    ) -> PartitionRead:
        """Read the records behind damage that ``read_now`` met, if no other replica may have the damaged
        ones and the topic's settings say so.

        Raises ``CorruptLog`` while other replicas may have them, and ``RecordsLost``.
        """
        if self.may_come_back(partition, offset):
            raise error
        return read_behind(
            partition,
            offset,
            error,
            bytes_max=bytes_max,
            committed=committed,
            at_least_one=at_least_one,
        )

    async def repair(self) -> None:
        """Repair the damaged logs that can be, one after the other."""
        now_ms = self._runtime.clock.monotonic_ms()
        for key in sorted(self._log_dirs.damaged):
            trouble = self._troubles.get(key)
            if trouble is not None and trouble.pause.until_ms > now_ms:
                continue
            try:
                partition = self._topics.replica(*key)
            except MillpondError:
                self._forget(key)
                continue
            try:
                await self._repair_log(key, partition)
            except Exception:  # one log that cannot be repaired must not keep others from it
                log.exception("partition=%s: a defect made the repair fail", key)
                self._trouble(key).pause.extend(now_ms, _PAUSE_MS_MAX)

    # --- one log ---------------------------------------------------------------------------------

    async def _repair_log(self, key: TopicPartition, partition: Partition) -> None:
        now_ms = self._runtime.clock.monotonic_ms
        if self._peers is None or not _others(partition):
            # Another replica may come.
            self._trouble(key).pause.until_ms = now_ms() + _PAUSE_MS_MAX
            return
        is_better = False
        for base_offset in partition.log.damaged_segments():
            is_better |= await self._repair_segment(key, partition, base_offset)
            if not self._topics.has(partition):
                self._forget(key)
                return
        if partition.log.damaged_segments():
            self._trouble(key).pause.extend(now_ms(), _PAUSE_MS_MAX)
        elif is_better:
            self._forget(key)
        else:
            # The reader will report it again: the whole log need not be checked each time.
            self._log_dirs.damaged.discard(key)
            trouble = self._trouble(key)
            trouble.times_sound += 1
            trouble.pause.extend(now_ms(), _PAUSE_MS_MAX)

    async def _repair_segment(
        self, key: TopicPartition, partition: Partition, base_offset: Offset
    ) -> bool:
        """Whether something was repaired."""
        stored = partition.log
        try:
            plan = stored.plan_repair(base_offset, self._runtime.clock.now_ms())
        except StorageFailure as failure:
            log.error("partition=%s: the repair must wait: %s", key, failure)
            return False
        if plan is None:
            return False
        try:
            result = await self._rewrite(key, partition, plan)
        except BaseException as error:
            plan.stopped = True
            if self._topics.has(partition):
                stored.abandon_repair(plan)
            if not isinstance(error, MillpondError):
                raise
            log.error("partition=%s: the repair failed (%s); the log is as it was", key, error)
            return False
        if not self._topics.has(partition) or not stored.install_repair(result):
            return False
        for damage in result.repaired:
            log.warning(
                "partition=%s: offsets %d to %d, damaged on this disk (%s), are repaired",
                key,
                damage.first_offset,
                damage.next_offset - 1,
                damage.reason,
            )
        return bool(result.repaired)

    async def _rewrite(
        self, key: TopicPartition, partition: Partition, plan: RepairPlan
    ) -> RepairResult:
        damages = await self._worker.run(plan.survey)
        if not damages:
            return RepairResult(plan=plan)
        rewrite = await self._worker.run(partial(SegmentRewrite, plan))
        silent: set[NodeId] = set()
        try:
            for damage in damages:
                await self._worker.run(partial(rewrite.begin_range, damage))
                # Records below the log's start were deleted.
                is_wanted = damage.next_offset > plan.start_offset
                if is_wanted and await self._fill(key, partition, rewrite, damage, silent):
                    await self._worker.run(rewrite.end_range)
                else:
                    await self._worker.run(rewrite.keep_range)
            if not self._topics.has(partition):
                raise ShuttingDown(f"{key} is gone")
            return await self._worker.run(rewrite.finish)
        finally:
            self._worker.post(rewrite.close)

    async def _fill(
        self,
        key: TopicPartition,
        partition: Partition,
        rewrite: SegmentRewrite,
        damage: Damage,
        silent: set[NodeId],
    ) -> bool:
        """Whether other replicas gave all of a damaged range; who does not answer is not asked once more."""
        answers: dict[NodeId, MillpondError] = {}
        for node in _others(partition):
            if node in silent:
                answers[node] = PeerUnreachable("it does not answer")
                continue
            try:
                await self._bring(partition, node, rewrite, damage)
            except _Refused as refused:
                answers[node] = refused.reason
                if isinstance(refused.reason, PeerUnreachable):
                    silent.add(node)
                continue
            return True
        self._on_refused(key, damage, answers)
        return False

    def _on_refused(
        self, key: TopicPartition, damage: Damage, answers: Mapping[NodeId, MillpondError]
    ) -> None:
        """Note that no replica gave a damaged range."""
        trouble = self._trouble(key)
        offsets = range(damage.first_offset, damage.next_offset)
        if all(isinstance(answer, _HAS_NOT) for answer in answers.values()):
            trouble.refused[offsets] += 1
        if trouble.refused[offsets] == _ASKED_IN_VAIN:
            outcome = "they are lost"
        elif trouble.pause.failures == 0:
            outcome = "they are asked for again later"
        else:
            return
        log.warning(
            "partition=%s: offsets %d to %d are damaged (%s), and no other replica can give them now: %s; %s",
            key,
            offsets[0],
            offsets[-1],
            damage.reason,
            outcome,
            "; ".join(f"node {node}: {answer}" for node, answer in answers.items()),
        )

    async def _bring(
        self, partition: Partition, node: NodeId, rewrite: SegmentRewrite, damage: Damage
    ) -> None:
        """Fill the range with what a replica has. Raises ``_Refused`` if it cannot be."""
        assert self._peers is not None
        while (offset := rewrite.expected) < damage.next_offset:
            question = ReadReplica(
                topic_id=partition.topic_id,
                partition=TopicPartition(partition.topic, partition.index),
                leader_epoch=partition.leader_epoch,
                offset=offset,
                bytes_max=_PIECE_BYTES,
            )
            try:
                data = await self._peers.call(node, question, timeout_ms=_ASK_TIMEOUT_MS)
            except MillpondError as error:
                raise _Refused(error) from error
            try:
                await self._worker.run(partial(rewrite.add, data))
            except CorruptLog as error:
                raise _Refused(error) from error
            if rewrite.expected == offset:
                raise _Refused(NotLeader(f"it does not know that offset {offset} is committed"))

    def _trouble(self, key: TopicPartition) -> _Trouble:
        return self._troubles.setdefault(key, _Trouble())

    def _forget(self, key: TopicPartition) -> None:
        self._log_dirs.damaged.discard(key)
        self._troubles.pop(key, None)

    # --- for others --------------------------------------------------------------------------------

    async def on_read(self, question: ReadReplica) -> ByteBuffer:
        """Return committed records for a node whose disk has lost them."""
        partition = self._partitions.replica(*question.partition)
        read = self._partitions.read_now(
            partition,
            question.offset,
            bytes_max=question.bytes_max,
            leader_epoch=question.leader_epoch,
        )
        return read.records


class _Refused(Exception):
    """A replica cannot give what it was asked for."""

    def __init__(self, reason: MillpondError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _others(partition: Partition) -> list[NodeId]:
    """Return the replicas to ask: the leader first, then those in sync, then the others."""
    order = [partition.leader, *partition.isr, *partition.replicas]
    return [node for node in dict.fromkeys(order) if node >= 0 and node != partition.node_id]
