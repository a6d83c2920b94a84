"""Where share groups' facts are kept: ``__share_group_state``, written, read back and cut.

Each share partition has its place in one partition of the topic: a snapshot, updates after it, now and then
a new snapshot. What lies before the oldest snapshot that is still needed is cut.
"""

import asyncio
import base64
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from millpond.base.errors import CorruptBatch, MalformedData, MillpondError, NotCoordinator
from millpond.cursor.ack import Delta
from millpond.engine.read import delete_records
from millpond.engine.share_state import SharePartition
from millpond.group import share_records
from millpond.group.offsets import partition_for
from millpond.group.share_records import ShareKey, ShareRecord, ShareSnapshot
from millpond.metadata.controller import SHARE_STATE_TOPIC
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import decode_batch
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.api import Engine

log = logging.getLogger(__name__)

Durable: TypeAlias = "asyncio.Future[None] | None"

_REPLAY_BYTES = 4 * 1024 * 1024

# Facts in a partition of the topic, beyond one for each share partition, before it is worth cutting.
_PRUNE_RECORDS_MIN = 100


class ShareJournal:
    """The facts of all share partitions of this node."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    @property
    def is_ready(self) -> bool:
        """Whether the topic is there."""
        return SHARE_STATE_TOPIC in self._engine.image.topics

    def append(self, record: ShareRecord) -> tuple[int, Durable]:
        """Write a fact; its offset, and when it is durable."""
        key, value = share_records.encode(record)
        batch = build_batch([(self._engine.clock.now_ms(), key, value, ())])
        appended = self._engine.append(
            SHARE_STATE_TOPIC, self._home(record.key), batch, acks=-1, internal=True
        )
        return appended.info.first_offset, appended.durable

    def restart(self, one: SharePartition, start: int, *, leader_epoch: int) -> Durable:
        """Begin at an offset, with nothing known of any record."""
        record = ShareSnapshot(
            key=one.key,
            snapshot_epoch=one.snapshot_epoch + 1,
            state_epoch=one.state_epoch + 1,
            leader_epoch=leader_epoch,
            start=start,
            created_ms=one.created_ms,
            written_ms=self._engine.clock.now_ms(),
        )
        durable = self._note_snapshot(one, record)
        one.state_epoch = record.state_epoch
        one.cursor.apply(Delta(start=start, restarts=True))
        return durable

    def change(self, one: SharePartition, delta: Delta, *, leader_epoch: int) -> Durable:
        """Write what must last of a change, then make it true."""
        durable: Durable = None
        update = one.update(delta, leader_epoch=leader_epoch)
        if update is not None:
            _offset, durable = self.append(update)
            one.updates += 1
        one.cursor.apply(delta)
        limit = self._engine.broker_setting(
            "share.coordinator.snapshot.update.records.per.snapshot"
        )
        if one.updates > limit:
            durable = self._snapshot(one, leader_epoch)
        return durable

    def facts(self) -> Iterator[tuple[int, ShareRecord]]:
        """Everything that is written, with offsets; in order for each share partition."""
        topic = self._engine.image.topics.get(SHARE_STATE_TOPIC)
        for index in range(0 if topic is None else len(topic.partitions)):
            try:
                yield from self._facts_of(self._engine.partition(SHARE_STATE_TOPIC, index))
            except MillpondError as error:
                log.error(
                    "partition=%s-%d: share groups could not be read to the end: %s",
                    SHARE_STATE_TOPIC,
                    index,
                    error,
                )

    def prune(self, kept: Iterable[SharePartition]) -> None:
        """Cut what snapshots made unnecessary."""
        topic = self._engine.image.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            return
        homes: dict[int, list[SharePartition]] = {}
        for one in kept:
            homes.setdefault(self._home(one.key), []).append(one)
        for index in range(len(topic.partitions)):
            state = self._engine.partition(SHARE_STATE_TOPIC, index)
            mine = homes.get(index, [])
            if state.log.end_offset - state.log.start_offset < _PRUNE_RECORDS_MIN + len(mine):
                continue
            for one in mine:
                self._snapshot(one, -1)
            oldest = min((one.snapshot_offset for one in mine), default=state.high_watermark)
            delete_records(state, min(oldest, state.high_watermark))

    def _snapshot(self, one: SharePartition, leader_epoch: int) -> Durable:
        now_ms = self._engine.clock.now_ms()
        return self._note_snapshot(one, one.snapshot(leader_epoch=leader_epoch, now_ms=now_ms))

    def _note_snapshot(self, one: SharePartition, record: ShareSnapshot) -> Durable:
        one.snapshot_offset, durable = self.append(record)
        one.snapshot_epoch = record.snapshot_epoch
        one.updates = 0
        return durable

    def _home(self, key: ShareKey) -> int:
        """The partition of the topic that keeps a share partition, as Kafka computes it."""
        topic = self._engine.image.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            raise NotCoordinator(f"{SHARE_STATE_TOPIC} has not been made yet")
        text = base64.urlsafe_b64encode(key.topic_id.bytes).rstrip(b"=").decode()
        return partition_for(f"{key.group_id}:{text}:{key.partition}", len(topic.partitions))

    def _facts_of(self, partition: Partition) -> Iterator[tuple[int, ShareRecord]]:
        offset = partition.log.start_offset
        while offset < partition.high_watermark:
            data = self._engine.read_now(partition, offset, bytes_max=_REPLAY_BYTES).records
            after = offset
            for position, header in iter_batches(data):
                after = header.next_offset
                if not header.is_control:
                    yield from _batch_facts(partition, data, position, offset)
            if after == offset:
                raise CorruptBatch(f"no batch at offset {offset}")
            offset = after


def _batch_facts(
    partition: Partition, data: bytes | memoryview, position: int, first: int
) -> Iterator[tuple[int, ShareRecord]]:
    """The facts of one batch from an offset on. What cannot be read is reported and left out."""
    for record in decode_batch(data, position):
        if record.key is None or record.offset < first:
            continue
        try:
            fact = share_records.decode(record.key, record.value)
        except MalformedData as error:
            place = f"{partition.topic}-{partition.index}"
            log.error("partition=%s offset=%d: left out: %s", place, record.offset, error)
            continue
        if fact is not None:
            yield record.offset, fact
