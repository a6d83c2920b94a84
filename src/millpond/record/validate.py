"""What a leader checks before it appends what a client sent.

The same checks as Apache Kafka's, with one difference on purpose: Kafka decompresses every batch and
reads every record; we trust a batch whose checksum is right to be what its producer meant, and look inside
only where the topic's rules cannot be kept otherwise (keys of compacted topics). A client that writes
nonsense *inside* a sound batch harms its own readers, not the log.

Once per batch on the hot path. Not known here: the log, sequence numbers (``log/producer_state``).
"""

from crc32c import crc32c

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompression,
)
from millpond.base.limits import APPENDED_DECOMPRESSED_BYTES_MAX, LOOKED_AT_RECORDS_MAX
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
    header_fault,
    read_header,
)
from millpond.record.compression import Compression
from millpond.record.records import RECORD_BYTES_MIN, decode_batch

# Produce requests know zstd since version 7 (KIP-110).
ZSTD_PRODUCE_VERSION_MIN = 7

_ATTRIBUTES_REFUSED = CONTROL_FLAG | APPEND_TIME_FLAG
_INT64_MAX = 2**63 - 1
_new_tuple = tuple.__new__


def validate_produce(
    buffer: ByteBuffer,
    *,
    message_bytes_max: int,
    produce_version: int = ZSTD_PRODUCE_VERSION_MIN,
    now_ms: int = 0,
    before_max_ms: int = _INT64_MAX,
    after_max_ms: int = _INT64_MAX,
    append_time: bool = False,
    keys_required: bool = False,
) -> list[BatchHeader]:
    """Check the records of one partition in one produce request; return the headers to append.

    A produce request carries exactly one batch for a partition (since version 3), so the list has one
    element. ``before_max_ms`` and ``after_max_ms`` bound how far from ``now_ms`` the batch's first and
    largest times may be, as its header gives them; they do not apply when the topic uses
    ``append_time``. ``keys_required`` is for compacted topics.

    Raises ``CorruptBatch``, ``UnsupportedCompression``, ``BatchTooLarge``, ``InvalidRecord`` or
    ``InvalidTimestamp``; then nothing of the partition's records may be appended.
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
        base_timestamp,
        max_timestamp,
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
        if codec == Compression.ZSTD and produce_version < ZSTD_PRODUCE_VERSION_MIN:
            raise UnsupportedCompression(
                f"zstd needs produce version {ZSTD_PRODUCE_VERSION_MIN}, not {produce_version}"
            )
    elif record_count * RECORD_BYTES_MIN > length - LENGTH_MIN:
        raise InvalidRecord(f"{record_count} records cannot fit into {length - LENGTH_MIN} bytes")

    if not append_time and (
        max_timestamp - now_ms > after_max_ms
        or (base_timestamp >= 0 and now_ms - base_timestamp > before_max_ms)
    ):
        raise InvalidTimestamp(
            f"times {base_timestamp} to {max_timestamp} ms are too far from the broker's {now_ms}:"
            f" the topic allows {before_max_ms} ms before and {after_max_ms} ms after"
        )
    if keys_required:
        _check_keys(buffer)
    return [_new_tuple(BatchHeader, fields)]


def _check_keys(buffer: ByteBuffer) -> None:
    count = read_header(buffer).record_count
    if count > LOOKED_AT_RECORDS_MAX:
        raise BatchTooLarge(
            f"batch of {count} records; a compacted topic accepts up to {LOOKED_AT_RECORDS_MAX}"
        )
    records = decode_batch(buffer, limit=APPENDED_DECOMPRESSED_BYTES_MAX)
    keyless = tuple(at for at, record in enumerate(records) if record.key is None)
    if keyless:
        raise InvalidRecord("a compacted topic takes no records without a key", positions=keyless)


def _not_a_batch(buffer: ByteBuffer) -> InvalidRecord:
    # As in Kafka, bytes in which no whole batch of this format is found are a request without one.
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
        return InvalidTimestamp("clients may not set the timestamp type to append time")
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
