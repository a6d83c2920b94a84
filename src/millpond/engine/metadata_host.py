"""The host of the controller's decisions: appends facts, makes them durable, applies them, then
answers.

Two images: ``head`` is what has been decided, and the next decision starts from it; ``image`` is
what is durable, and everyone else reads that. So decisions can follow each other without waiting
for the disk, one fsync serves all that wait, and nobody ever sees a topic that a power cut could
take away.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias
from uuid import UUID

from millpond.base.clock import Clock
from millpond.base.errors import MillpondError
from millpond.base.ids import Offset
from millpond.engine.flusher import Flusher
from millpond.engine.metadata_snapshot import read_snapshot, write_snapshot
from millpond.log.config import LogConfig
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_records
from millpond.metadata.records import (
    MetadataRecord,
    RemoveTopicRecord,
    decode_record,
    encode_record,
)
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import decode_batch
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

Committed: TypeAlias = Callable[[Sequence[MetadataRecord], Image, Image], None]

# The metadata log keeps everything until snapshots exist, is flushed before every answer, and must take the
# facts of the largest request in one batch, which makes that request happen as a whole or not at all.
METADATA_LOG_CONFIG = LogConfig(
    retention_ms=-1,
    retention_bytes=-1,
    flush_policy="group",
    max_message_bytes=64 * 1024 * 1024,
    message_timestamp_after_max_ms=2**63 - 1,
)

_REPLAY_BYTES = 1024 * 1024

# A log shorter than this is read in no time; beyond it, one that is mostly history is replaced.
_SNAPSHOT_FACTS_MIN = 10_000
_SNAPSHOT_RATIO = 4


class MetadataHost:
    """The metadata log with the images folded from it."""

    def __init__(self, partition: Partition, flusher: Flusher, clock: Clock) -> None:
        self.partition = partition
        self._flusher = flusher
        self._clock = clock
        self._on_commit: Committed | None = None
        self._pending: deque[tuple[Offset, Sequence[MetadataRecord], asyncio.Future[None]]] = (
            deque()
        )
        self.image = Image()
        self.head = self.image
        self.removed_topics: frozenset[UUID] = frozenset()

    def replay(self) -> int:
        """Read the newest snapshot and the log behind it; answers how many facts they hold."""
        log_ = self.partition.log
        snapshot = read_snapshot(log_.storage, log_.directory, log_start=log_.start_offset)
        if snapshot.end_offset > log_.end_offset:
            # The log lost what the snapshot holds anyway; offsets go on behind it.
            log_.truncate_fully_and_start_at(snapshot.end_offset)
        records = [*snapshot.records, *_read_from(self.partition, snapshot.end_offset)]
        self.removed_topics = frozenset(
            record.topic_id for record in records if isinstance(record, RemoveTopicRecord)
        )
        self.image = self.head = apply(Image(), records)
        return len(records)

    def shorten(self, facts: int) -> None:
        """Replace a log that says little at great length by a snapshot; called at the start.

        Every unclean stop adds a fact for each partition, every topic that came and went adds several.
        """
        if facts < _SNAPSHOT_FACTS_MIN or self._pending:
            return
        log_ = self.partition.log
        now_ms = self._clock.now_ms()
        end_offset = log_.end_offset
        kept = len(image_records(self.image))
        if facts < _SNAPSHOT_RATIO * kept:
            return
        write_snapshot(
            log_.storage,
            log_.directory,
            self.image,
            end_offset=end_offset,
            epoch=self.partition.leader_epoch,
            now_ms=now_ms,
        )
        log_.roll(now_ms)
        log_.delete_records(end_offset)
        log_.apply_retention(now_ms, upto=end_offset)
        log.info("metadata: %d facts were replaced by a snapshot of %d", facts, kept)

    def on_commit(self, call: Committed) -> None:
        """Whom to tell (records, image before, image after) before the waiting are answered."""
        self._on_commit = call

    @property
    def end_offset(self) -> Offset:
        """Where the next fact will stand."""
        return self.partition.log.end_offset

    async def propose(self, records: Sequence[MetadataRecord]) -> None:
        """Make these facts true. Returns when they are durable and applied; raises if they could not be.

        The decision that made the records must have been taken from ``head`` in the same step.
        Cancelling the caller does not undo them.
        """
        if not records:
            return
        future = self._append(records)
        await asyncio.shield(future)

    async def settled(self) -> None:
        """Wait until everything decided so far is durable and applied, or was given up."""
        if self._pending:
            await asyncio.wait([self._pending[-1][2]])

    def _append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        now_ms = self._clock.now_ms()
        head = apply(self.head, records)
        batch = build_batch([(now_ms, None, encode_record(record), ()) for record in records])
        info = self.partition.append(batch, now_ms=now_ms)
        self.head = head
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((info.last_offset + 1, records, future))
        self.partition.confirm_at(info.last_offset + 1, self._confirmed)
        self._flusher.request(self.partition)
        return future

    def _confirmed(self, error: MillpondError | None) -> None:
        if not self._pending:
            return
        if error is not None:
            # The facts stand in the log, durable or not, and the image does not have them: whatever were
            # written behind them might contradict them. So the log takes nothing more until the node
            # starts again and reads what it has.
            log.error("metadata: %d decisions were not made durable: %s", len(self._pending), error)
            log_ = self.partition.log
            log_.failure = (
                log_.failure or f"metadata were not made durable ({error}); restart the node"
            )
            self.head = self.image
            failed, self._pending = self._pending, deque()
            for _offset, _records, future in failed:
                if not future.done():
                    future.set_exception(error)
            return
        _offset, records, future = self._pending.popleft()
        before = self.image
        self.image = apply(before, records)
        if not self._pending:
            self.head = self.image
        if self._on_commit is not None:
            try:
                self._on_commit(records, before, self.image)
            except Exception as unexpected:
                log.exception("metadata: facts are durable but could not be acted upon")
                if not future.done():
                    future.set_exception(unexpected)
                return
        if not future.done():
            future.set_result(None)


def _read_from(partition: Partition, offset: Offset) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    end = partition.log.end_offset
    while offset < end:
        data = partition.log.read(offset, _REPLAY_BYTES, upto=end, at_least_one=True).data
        before = offset
        for position, header in iter_batches(data):
            if not header.is_control:
                records += [
                    decode_record(record.value)
                    for record in decode_batch(data, position)
                    if record.offset >= offset and record.value is not None
                ]
            offset = header.next_offset
        assert offset > before, "a read that must give one batch gave none"
    return records
