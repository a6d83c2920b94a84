"""The checks of a leader before it appends a client's batch: the same as Apache Kafka's.

There are two steps. ``validate_header`` checks the header, its checksum and the topic's rules for it: once
per batch on the event loop, at little cost. ``validate_records`` checks every record (see ``inspection``):
at once for small batches, on a thread for those that take longer. Every reader can decode a batch that
passed, and the largest timestamp in its header is that of its records.

Not known here: the log, sequence numbers (``log/producer_state``), threads.
"""

from typing import NamedTuple

from crc32c import crc32c

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompression,
)
from millpond.base.limits import (
    APPENDED_DECOMPRESSED_BYTES_MAX,
    APPENDED_GROWTH_MAX,
    DECOMPRESSED_BYTES_MAX,
    LOOKED_AT_RECORDS_MAX,
    LOOP_COMPRESSED_BYTES_MAX,
    LOOP_RECOMPRESSED_BYTES_MAX,
    LOOP_RECORD_BYTES_MAX,
)
from millpond.record.batch import (
    APPEND_TIME_FLAG,
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    ByteBuffer,
    WritableBuffer,
    header_fault,
    set_max_timestamp,
)
from millpond.record.builder import assemble
from millpond.record.compression import Compression
from millpond.record.inspection import (
    INT64_MAX,
    INT64_MIN,
    Rules,
    ScratchBuffer,
    check_records,
    decompress_bounded,
)
from millpond.record.records import RECORD_BYTES_MIN

_ATTRIBUTES_REFUSED = CONTROL_FLAG | APPEND_TIME_FLAG
_new_tuple = tuple.__new__


class TopicRules(NamedTuple):
    """The requirements of a topic for the batches that clients send to it.

    ``before_max_ms`` and ``after_max_ms`` bound how far a record's timestamp may be from the broker's time;
    the largest value means no bound, and neither applies when the topic uses ``append_time``.
    ``keys_required`` is for compacted topics. ``codec`` is the topic's own, None if producers choose.
    ``has_delays``: records may ask to be appended later; that is not checked here.
    """

    message_bytes_max: int
    before_max_ms: int = INT64_MAX
    after_max_ms: int = INT64_MAX
    append_time: bool = False
    keys_required: bool = False
    codec: Compression | None = None
    level: int | None = None
    has_delays: bool = False

    @property
    def decompressed_bytes_max(self) -> int:
        """Return the largest decompressed size of a batch."""
        return min(
            max(APPENDED_DECOMPRESSED_BYTES_MAX, self.message_bytes_max * APPENDED_GROWTH_MAX),
            DECOMPRESSED_BYTES_MAX,
        )

    def for_records(self, now_ms: int) -> Rules:
        """Return the rules for each record of a batch that arrives now."""
        if self.append_time:
            return Rules(keys_required=self.keys_required)
        return Rules(
            now_ms - self.before_max_ms if self.before_max_ms < INT64_MAX else INT64_MIN,
            min(now_ms + self.after_max_ms, INT64_MAX),
            self.keys_required,
        )


class Validated(NamedTuple):
    """A batch that may be appended: the client's, or a copy of it with the topic's codec."""

    data: WritableBuffer
    header: BatchHeader


def validate_header(
    buffer: ByteBuffer,
    *,
    message_bytes_max: int,
    allows_zstd: bool = True,
) -> BatchHeader:
    """Check the records of one partition in one produce request without reading a record.

    A produce request carries exactly one batch for a partition (since version 3). Raises ``CorruptBatch``,
    ``UnsupportedCompression``, ``BatchTooLarge``, ``InvalidRecord`` or ``InvalidTimestamp``; then none of
    the partition's records may be appended.
    """
    size = len(buffer)
    if size < HEADER_BYTES or buffer[MAGIC_OFFSET] != MAGIC:
        raise _not_a_batch(buffer)
    fields = HEADER.unpack_from(buffer)
    (
        base_offset,
        length,
        _,
        _,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        _,
        base_sequence,
        record_count,
    ) = fields
    if length + LOG_OVERHEAD != size:
        raise _wrong_size(BatchHeader(*fields), size)
    if size > message_bytes_max:
        raise BatchTooLarge(
            f"batch of {size} bytes; the topic accepts up to {message_bytes_max} (max.message.bytes)"
        )
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    if crc32c(view[ATTRIBUTES_OFFSET:]) != crc:
        raise CorruptBatch(f"batch of {size} bytes has the wrong checksum")
    if (
        record_count < 1
        or last_offset_delta != record_count - 1
        or base_offset != 0
        or attributes & _ATTRIBUTES_REFUSED
        or (producer_id >= 0 and base_sequence < 0)
    ):
        raise _refused(BatchHeader(*fields))

    codec = attributes & COMPRESSION_MASK
    if codec:
        if codec > Compression.ZSTD:
            raise UnsupportedCompression(f"unknown compression codec {codec}")
        if codec == Compression.ZSTD and not allows_zstd:
            raise UnsupportedCompression(
                "zstd needs a newer version of the producer's protocol than this batch came with"
            )
    elif record_count * RECORD_BYTES_MIN > length - LENGTH_MIN:
        raise InvalidRecord(f"{record_count} records cannot fit into {length - LENGTH_MIN} bytes")
    return _new_tuple(BatchHeader, fields)


def validate_at_once(
    buffer: WritableBuffer, header: BatchHeader, rules: TopicRules, now_ms: int, room: ScratchBuffer
) -> Validated | None:
    """Run ``validate_records`` for a batch that takes little time; return None for one that takes longer.

    ``room`` bounds the decompressed size, and so the time that is spent to find out.
    """
    codec = header.attributes & COMPRESSION_MASK
    body = memoryview(buffer)[HEADER_BYTES:]
    payload: memoryview | None = body
    if codec:
        if len(body) > LOOP_COMPRESSED_BYTES_MAX:
            return None
        payload = room.decompressed(header, body)
    elif len(body) > LOOP_RECORD_BYTES_MAX:
        return None
    if payload is None:
        return None
    if (
        rules.codec is not None
        and rules.codec != codec
        and len(payload) > LOOP_RECOMPRESSED_BYTES_MAX
    ):
        return None
    return _validated(buffer, header, payload, rules, now_ms)


def validate_records(
    buffer: WritableBuffer,
    header: BatchHeader,
    rules: TopicRules,
    now_ms: int,
    room: ScratchBuffer | None = None,
) -> Validated:
    """Check every record of a batch whose header is checked, and recompress it with the topic's codec.

    Corrects the header's largest timestamp in the buffer if it is not that of the records. Raises
    ``InvalidRecord``, ``InvalidTimestamp`` and ``BatchTooLarge``. May take a fraction of a second and
    ``rules.decompressed_bytes_max`` of memory; with ``room`` most batches need no new memory.
    """
    body = memoryview(buffer)[HEADER_BYTES:]
    if not header.attributes & COMPRESSION_MASK:
        return _validated(buffer, header, body, rules, now_ms)
    payload = None
    if room is not None and len(body) <= room.bytes_max // 2:
        payload = room.decompressed(header, body)
    if payload is None:
        payload = decompress_bounded(header, body, rules.decompressed_bytes_max)
    return _validated(buffer, header, payload, rules, now_ms)


def validate_produce(
    buffer: WritableBuffer,
    *,
    message_bytes_max: int,
    allows_zstd: bool = True,
    now_ms: int = 0,
    before_max_ms: int = INT64_MAX,
    after_max_ms: int = INT64_MAX,
    append_time: bool = False,
    keys_required: bool = False,
) -> list[BatchHeader]:
    """Run all checks, however long they take. Return the headers of the valid batches: one."""
    header = validate_header(buffer, message_bytes_max=message_bytes_max, allows_zstd=allows_zstd)
    rules = TopicRules(message_bytes_max, before_max_ms, after_max_ms, append_time, keys_required)
    return [validate_records(buffer, header, rules, now_ms).header]


def _validated(
    buffer: WritableBuffer,
    header: BatchHeader,
    payload: memoryview,
    rules: TopicRules,
    now_ms: int,
) -> Validated:
    if rules.keys_required and header.record_count > LOOKED_AT_RECORDS_MAX:
        raise BatchTooLarge(
            f"batch of {header.record_count} records; a compacted topic accepts up to "
            f"{LOOKED_AT_RECORDS_MAX}"
        )
    newest_ms = check_records(payload, header, rules.for_records(now_ms))
    codec = rules.codec
    if codec is not None and codec != header.attributes & COMPRESSION_MASK:
        attributes = header.attributes & ~COMPRESSION_MASK | codec
        changed = header._replace(attributes=attributes, max_timestamp=newest_ms)
        data = assemble(payload, changed, rules.level)
        return Validated(data, _new_tuple(BatchHeader, HEADER.unpack_from(data)))
    if newest_ms != header.max_timestamp and not rules.append_time:
        header = set_max_timestamp(buffer, 0, header, newest_ms)
    return Validated(buffer, header)


def _not_a_batch(buffer: ByteBuffer) -> InvalidRecord:
    # As in Kafka, bytes that hold no complete batch of this format count as a request without a batch.
    if len(buffer) == 0:
        return InvalidRecord("no record batch for the partition; a produce request carries one")
    if len(buffer) > MAGIC_OFFSET and buffer[MAGIC_OFFSET] != MAGIC:
        return InvalidRecord(
            f"record format {buffer[MAGIC_OFFSET]}; only format {MAGIC} is accepted"
        )
    return InvalidRecord(f"{len(buffer)} bytes are less than a batch's header")


def _wrong_size(header: BatchHeader, size: int) -> InvalidRecord | CorruptBatch:
    if header.length < LENGTH_MIN:
        return CorruptBatch(header_fault(header))
    if header.size > size:
        return InvalidRecord(f"batch of {header.size} bytes is cut off after {size}")
    if size - header.size >= HEADER_BYTES:
        return InvalidRecord("more than one record batch for the partition")
    return CorruptBatch(f"{size - header.size} bytes follow the batch")


def _refused(header: BatchHeader) -> InvalidRecord | InvalidTimestamp:
    if header.is_control:
        return InvalidRecord("clients may not write control records")
    if header.uses_append_time:
        return InvalidTimestamp(
            "clients may not set the timestamp type to append time", positions=(0,)
        )
    if header.base_offset != 0:
        return InvalidRecord(f"the batch's base offset is {header.base_offset}, not 0")
    if header.record_count < 1:
        return InvalidRecord(f"batch with {header.record_count} records")
    if header.last_offset_delta != header.record_count - 1:
        return InvalidRecord(
            f"{header.record_count} records cannot have the last offset {header.last_offset_delta}"
        )
    return InvalidRecord(
        f"producer {header.producer_id} sent a batch with sequence {header.base_sequence}"
    )
