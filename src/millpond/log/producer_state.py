"""The state of a partition's producers: idempotence and open transactions.

Rules (KIP-98, as brokers apply them today):

* A producer's batch must continue its sequence; numbers wrap from 2^31 - 1 to 0. A new epoch starts at 0.
* The last five batches of a producer are remembered: a duplicate gets the first result again.
* A producer that is unknown here, because it is new or was forgotten, may start at any number.
* An older epoch than the last seen one is fenced.
* Decisions (``check``) change nothing; ``apply`` records what was written, also when replaying a log.
* State is written to ``<offset>.snapshot`` in Kafka's format. The snapshot holds each producer's last batch.

Time is an argument. It knows batch headers, not segments.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from millpond.base.errors import (
    InvalidTransactionState,
    MarkerFenced,
    MillpondError,
    OutOfOrderSequence,
    ProducerFenced,
)
from millpond.base.ids import NO_OFFSET, NO_TIMESTAMP, Offset, ProducerId, TimestampMs
from millpond.base.limits import PRODUCER_BATCHES_REMEMBERED
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import NO_SEQUENCE, SEQUENCE_MAX, BatchHeader
from millpond.record.control import EndTxnMarker

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hIi")  # version, CRC-32C of what follows it, number of entries
_SNAPSHOT_CRC_FROM = 6
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_NO_PRODUCER_EPOCH = -1


class CorruptSnapshot(MillpondError):
    """A malformed snapshot file; an older one and the log itself replace it."""


class RememberedBatch(NamedTuple):
    """The fields of a batch that are needed to recognise a duplicate and to answer it."""

    first_sequence: int
    last_sequence: int
    first_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs


class Producer:
    """The state of one producer in this partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: ProducerId) -> None:
        self.producer_id = producer_id
        self.epoch = _NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp: TimestampMs = NO_TIMESTAMP
        self.txn_first_offset: Offset = NO_OFFSET
        self.batches: list[RememberedBatch] = []  # oldest first

    @property
    def last_sequence(self) -> int:
        """The last sequence number in this epoch; -1 for none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        """The last offset written; -1 for none."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


class ProducerState:
    """All producers of one partition, up to ``end_offset``."""

    __slots__ = ("_completed", "_open_txns", "end_offset", "producers")

    def __init__(self) -> None:
        self.producers: dict[ProducerId, Producer] = {}
        self.end_offset: Offset = 0
        self._open_txns: dict[Offset, ProducerId] = {}  # by first offset, ascending
        self._completed: dict[Offset, Offset] = {}  # first offset → marker, until replicated

    # --- deciding -----------------------------------------------------------------------------

    def check(
        self, header: BatchHeader, previous: BatchHeader | None = None
    ) -> RememberedBatch | None:
        """Check that this batch of a client may be appended. Return the first result if it is a duplicate.

        ``previous`` is the batch before it in the same append, which is not applied yet.
        """
        producer = self.producers.get(header.producer_id)
        if producer is None or producer.epoch == _NO_PRODUCER_EPOCH:
            return None
        if header.producer_epoch != producer.epoch:
            if header.producer_epoch < producer.epoch:
                raise ProducerFenced(
                    f"producer {header.producer_id} writes with epoch {header.producer_epoch}, "
                    f"but epoch {producer.epoch} was seen already"
                )
            last_sequence = NO_SEQUENCE
        else:
            found = self.remembered(header)
            if found is not None:
                return found
            last_sequence = producer.last_sequence
        if previous is not None and (
            (previous.producer_id, previous.producer_epoch)
            == (header.producer_id, header.producer_epoch)
        ):
            last_sequence = previous.last_sequence
        if header.base_sequence != NO_SEQUENCE and header.base_sequence != next_sequence(
            last_sequence
        ):
            raise OutOfOrderSequence(
                f"producer {header.producer_id} epoch {header.producer_epoch} sends sequence "
                f"{header.base_sequence}, expected {next_sequence(last_sequence)}"
            )
        if producer.txn_first_offset >= 0 and not header.is_transactional:
            raise InvalidTransactionState(
                f"producer {header.producer_id} sends a plain batch into its open transaction"
            )
        return None

    def remembered(self, header: BatchHeader) -> RememberedBatch | None:
        """Return the same batch, if it is one of the last that its producer wrote in this epoch."""
        producer = self.producers.get(header.producer_id)
        # A coordinator's batches have no sequence number, so they cannot be duplicates.
        if (
            producer is None
            or producer.epoch != header.producer_epoch
            or header.base_sequence == NO_SEQUENCE
        ):
            return None
        for batch in producer.batches:
            if (
                batch.first_sequence == header.base_sequence
                and batch.last_sequence == header.last_sequence
            ):
                return batch
        return None

    def expected(self, header: BatchHeader) -> int | None:
        """Return the sequence number with which the batch's producer must continue in its epoch; None:
        any.
        """
        producer = self.producers.get(header.producer_id)
        if producer is None or producer.epoch == _NO_PRODUCER_EPOCH:
            return None
        if producer.epoch != header.producer_epoch:
            return next_sequence(NO_SEQUENCE)
        return next_sequence(producer.last_sequence)

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker) -> None:
        """Check that this transaction marker may be written."""
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return
        if header.producer_epoch < producer.epoch:
            raise ProducerFenced(
                f"marker of producer {header.producer_id} has epoch {header.producer_epoch}, "
                f"but epoch {producer.epoch} was seen already"
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise MarkerFenced(
                f"marker of producer {header.producer_id} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, but {producer.coordinator_epoch} was seen already"
            )

    # --- applying -----------------------------------------------------------------------------

    def apply(self, header: BatchHeader, base_offset: Offset) -> None:
        """Apply a written batch of records."""
        last_offset = base_offset + header.last_offset_delta
        producer = self.apply_epoch(header)
        batches = producer.batches
        batches.append(
            RememberedBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                last_offset,
                header.max_timestamp,
            )
        )
        if len(batches) > PRODUCER_BATCHES_REMEMBERED:
            del batches[0]
        if header.is_transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self._open_txns[base_offset] = header.producer_id
        self.end_offset = last_offset + 1

    def apply_marker(
        self, header: BatchHeader, offset: Offset, marker: EndTxnMarker
    ) -> AbortedTransaction | None:
        """Apply a written transaction marker. Return the entry for the index of aborted transactions,
        if any.
        """
        producer = self.apply_epoch(header)
        producer.coordinator_epoch = marker.coordinator_epoch
        first_offset = producer.txn_first_offset
        producer.txn_first_offset = NO_OFFSET
        self.end_offset = offset + 1
        if first_offset < 0:
            return None
        self._open_txns.pop(first_offset, None)
        self._completed[first_offset] = offset
        if marker.committed:
            return None
        return AbortedTransaction(
            header.producer_id, first_offset, offset, next(iter(self._open_txns), offset + 1)
        )

    def apply_epoch(self, header: BatchHeader) -> Producer:
        """Apply a producer's epoch; batches of an older one are forgotten."""
        producer = self.producers.get(header.producer_id)
        if producer is None:
            producer = self.producers[header.producer_id] = Producer(header.producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches = []
        producer.last_timestamp = header.max_timestamp
        return producer

    def advance(self, end_offset: Offset) -> None:
        """Note that batches without a producer were written up to here."""
        self.end_offset = end_offset

    def expire(self, now_ms: TimestampMs, idle_ms_max: int) -> list[ProducerId]:
        """Forget producers that were idle for too long and have no open transaction."""
        expired = [
            producer.producer_id
            for producer in self.producers.values()
            if producer.txn_first_offset < 0 and now_ms - producer.last_timestamp >= idle_ms_max
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return expired

    def clear(self, end_offset: Offset) -> None:
        """Forget all producers."""
        self.producers.clear()
        self._open_txns.clear()
        self._completed.clear()
        self.end_offset = end_offset

    # --- reading ------------------------------------------------------------------------------

    def first_open_offset(self) -> Offset:
        """Return where the oldest open transaction began; -1 if there is none."""
        return next(iter(self._open_txns), NO_OFFSET)

    def first_unstable_offset(self, high_watermark: Offset) -> Offset:
        """Return the same, counting transactions whose end is not yet replicated; -1 if there is none."""
        for first_offset, marker in list(self._completed.items()):
            if marker < high_watermark:
                del self._completed[first_offset]
        undecided = [*self._completed, *self._open_txns]
        return min(undecided) if undecided else NO_OFFSET

    def last_offsets(self) -> dict[ProducerId, tuple[int, Offset]]:
        """Return epoch and last written offset of each producer, which compaction must leave in the log."""
        return {
            producer.producer_id: (producer.epoch, producer.last_offset)
            for producer in self.producers.values()
        }

    def __iter__(self) -> Iterator[Producer]:
        return iter(self.producers.values())

    # --- snapshots ----------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the bytes of a snapshot file."""
        entries = b"".join(map(_encode_producer, self.producers.values()))
        covered = struct.pack(">i", len(self.producers)) + entries
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(covered)) + covered

    def load(self, data: bytes, end_offset: Offset) -> None:
        """Load a snapshot. Raises ``CorruptSnapshot``."""
        producers = sorted(decode_snapshot(data), key=lambda producer: producer.txn_first_offset)
        self.clear(end_offset)
        for producer in producers:
            self.producers[producer.producer_id] = producer
            if producer.txn_first_offset >= 0:
                self._open_txns[producer.txn_first_offset] = producer.producer_id


def next_sequence(sequence: int) -> int:
    """Return the next sequence number: 0 after the largest one, and after none."""
    return (sequence + 1) & SEQUENCE_MAX


def decode_snapshot(data: bytes) -> list[Producer]:
    """Decode the producers in a snapshot file."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are no snapshot")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version} is unknown")
    if crc32c(memoryview(data)[_SNAPSHOT_CRC_FROM:]) != crc:
        raise CorruptSnapshot("the checksum is wrong")
    if len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{count} entries announced in {len(data)} bytes")
    return list(_decode_producers(data))


def _decode_producers(data: bytes) -> Iterable[Producer]:
    for fields in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn = (
            fields
        )
        producer = Producer(producer_id)
        producer.epoch = epoch
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.txn_first_offset = txn if txn >= 0 else NO_OFFSET
        if last_offset >= 0:
            first_sequence = (
                NO_SEQUENCE
                if last_sequence == NO_SEQUENCE
                else (last_sequence - delta) & SEQUENCE_MAX
            )
            producer.batches.append(
                RememberedBatch(
                    first_sequence, last_sequence, last_offset - delta, last_offset, timestamp
                )
            )
        yield producer


def _encode_producer(producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    return _SNAPSHOT_ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_offset,
        last.last_offset - last.first_offset if last else 0,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
    )
