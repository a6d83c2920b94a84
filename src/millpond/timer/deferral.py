"""Delayed records in their own partition: a control batch, which consumers skip, in place of the batch that
its producer sent.

It has the producer's id, epoch and sequence and as many records, so that the producer's next batch follows
it, a retry is recognised as one, and each delayed record has an offset by which it can be named. What happens
next is the leader's work: it makes timers of what it finds in such batches (``timer.facts``).

Records without a delay that came in the same batch are in the control batch, too. They are delivered at once
by a second batch, which is written with the first by one call. Its producer's epoch is one that no producer
has. A log that ends between the two (a crash) has lost it: then the leader makes timers of these, too, which
are due at once.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from millpond.base.errors import InvalidRecord
from millpond.record.batch import HEADER_BYTES, BatchHeader, read_header
from millpond.record.builder import NewRecord, build_batch
from millpond.record.records import Record
from millpond.timer import delayed
from millpond.timer.delayed import Delayed, Kind
from millpond.timer.shard import Entry

# Of a control record's key; above the types that Kafka and the queues have.
DEFERRED_TYPE: Final = 1_010
_KEY: Final = Struct(">hh").pack(0, DEFERRED_TYPE)
_COMPANION_EPOCH: Final = -2
# What a delayed record has at most, beside the bytes that are kept of it, when it is delivered in a batch of
# its own: the batch's header and two of the record's.
DELIVERED_OVERHEAD: Final = HEADER_BYTES + 100


class Deferral(NamedTuple):
    """What is written in place of a producer's batch: both batches, in one buffer, and their headers."""

    data: bytearray
    headers: tuple[BatchHeader, ...]
    # Of the largest delayed record, alone in the batch that delivers it.
    record_bytes_max: int


def defer(header: BatchHeader, records: Sequence[Record], now_ms: int) -> Deferral | None:
    """What to write in place of a batch that has these records; None if none of them is delayed.

    Raises ``InvalidRecord``.
    """
    requests: list[Delayed | None] = []
    for position, record in enumerate(records):
        try:
            requests.append(delayed.read_request(record, now_ms))
        except InvalidRecord as error:
            raise InvalidRecord(str(error), positions=(position,)) from None
    if not any(requests):
        return None
    if header.is_transactional:
        raise InvalidRecord("a record cannot be delayed in a transaction; send it outside of one")
    kept: list[NewRecord] = []
    at_once: list[NewRecord] = []
    largest = 0
    for record, request in zip(records, requests, strict=True):
        if request is None:
            at_once.append((record.timestamp, record.key, record.value, record.headers))
        one = delayed.plain(record) if request is None else request
        value = delayed.encode(one)
        kept.append((record.timestamp, _KEY, value, ()))
        if request is not None:
            largest = max(largest, len(value) + DELIVERED_OVERHEAD)
    data = build_batch(
        kept,
        offset_deltas=[record.offset - header.base_offset for record in records],
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        control=True,
    )
    headers = [read_header(data)]
    if at_once:
        companion = build_batch(
            at_once, compression=header.compression, producer_epoch=_COMPANION_EPOCH
        )
        headers.append(read_header(companion))
        data += companion
    return Deferral(data, tuple(headers), largest)


def is_deferral(header: BatchHeader, records: Sequence[Record]) -> bool:
    """Whether a batch of a log holds delayed records."""
    return header.is_control and bool(records) and records[0].key == _KEY


def entries(records: Sequence[Record], after: BatchHeader | None) -> list[Entry]:
    """The records of a control batch that become timers.

    ``after`` is the header of the batch behind it, None if the log ends there: it shows whether the records
    without a delay were delivered.
    """
    found = [Entry(one.offset, one.value or b"") for one in records]
    kinds = [delayed.due_of(one.value)[0] for one in found]
    count = kinds.count(Kind.PLAIN)
    if count and after is not None and _is_companion(after, records[-1].offset + 1, count):
        found = [one for one, kind in zip(found, kinds, strict=True) if kind is not Kind.PLAIN]
    return found


def _is_companion(header: BatchHeader, offset: int, count: int) -> bool:
    return (
        header.base_offset == offset
        and header.producer_id < 0
        and header.producer_epoch == _COMPANION_EPOCH
        and header.record_count == count
        and not header.is_control
    )
