"""The header of a record batch: read it, walk from one to the next, patch it in place.

    0  base offset           i64   assigned by the leader; outside the checksum
    8  length                i32   bytes after this field
    12 partition leader epoch i32  assigned by the leader; outside the checksum
    16 magic                 i8    always 2 here
    17 crc                   u32   CRC-32C of everything from byte 21 to the end
    21 attributes            i16   0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
    23 last offset delta     i32
    27 base timestamp        i64
    35 max timestamp         i64
    43 producer id           i64
    51 producer epoch        i16
    53 base sequence         i32
    57 record count          i32
    61 records

Rules: this is the hot path, once per batch, so nothing here looks at a record, and nothing is copied. A
buffer that cannot hold a batch raises ``CorruptBatch`` and nothing else. Not known here: files, topics,
what a leader accepts (``validate``).
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from millpond.base.errors import CorruptBatch

ByteBuffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD = 12  # base offset and length, which the length field does not count
LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
LAST_OFFSET_DELTA_OFFSET = 23
MAGIC = 2

COMPRESSION_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_SEQUENCE = -1
SEQUENCE_MAX = 2**31 - 1

HEADER = Struct(">qiibIhiqqqhii")
_unpack_header = HEADER.unpack_from
_pack_i64 = Struct(">q").pack_into
_pack_i32 = Struct(">i").pack_into
_pack_u32 = Struct(">I").pack_into
_pack_i16 = Struct(">h").pack_into
_new_tuple = tuple.__new__

assert HEADER.size == HEADER_BYTES


class BatchHeader(NamedTuple):
    """The thirteen header fields as they are in the bytes, and values derived from them."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Return the size of the whole batch, including the header."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """Return the codec's number: 0 to 4 are known (``Compression``), 5 to 7 can be read but not
        decoded.
        """
        return self.attributes & COMPRESSION_MASK

    @property
    def uses_append_time(self) -> bool:
        """Whether all records carry the leader's time, which is ``max_timestamp``."""
        return self.attributes & APPEND_TIME_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records, which consumers skip."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def is_marker(self) -> bool:
        """A control batch that the log itself is told by (the end of a transaction).

        One with a sequence is a producer's own, kept out of consumers' sight: its sequence counts as that of
        any other batch does.
        """
        return self.attributes & CONTROL_FLAG != 0 and self.base_sequence == NO_SEQUENCE

    @property
    def delete_horizon_ms(self) -> int | None:
        """Return when compaction may drop this batch's tombstones (KIP-534), once that is decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of the last record; numbers wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def read_header(buffer: ByteBuffer, position: int = 0) -> BatchHeader:
    """Read the header at ``position``. The batch's body need not be in the buffer.

    Raises ``CorruptBatch`` where no v2 batch can begin: too few bytes, a length that is too small,
    another magic, a negative record count or offset range.
    """
    try:
        fields = _unpack_header(buffer, position)
    except StructError:
        raise CorruptBatch(
            f"a batch header takes {HEADER_BYTES} bytes, {len(buffer) - position} are left"
        ) from None
    if fields[1] < LENGTH_MIN or fields[3] != MAGIC or fields[12] < 0:
        raise CorruptBatch(header_fault(BatchHeader(*fields)))
    return _new_tuple(BatchHeader, fields)


def iter_batches(
    buffer: ByteBuffer, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield ``(position, header)`` of every whole batch from ``start`` up to ``end``.

    Stops quietly before a batch that is cut off at the end, as every answer to a fetch may be. Raises
    ``CorruptBatch`` where no batch can begin.
    """
    stop = len(buffer) if end is None else end
    position = start
    while stop - position >= HEADER_BYTES:
        fields = _unpack_header(buffer, position)
        length = fields[1]
        if length < LENGTH_MIN or fields[3] != MAGIC or fields[12] < 0:
            raise CorruptBatch(f"at byte {position}: {header_fault(BatchHeader(*fields))}")
        after = position + length + LOG_OVERHEAD
        if after > stop:
            return
        yield position, _new_tuple(BatchHeader, fields)
        position = after


def check_crc(buffer: ByteBuffer, position: int, header: BatchHeader) -> bool:
    """Return whether the batch is complete in the buffer and its checksum is right."""
    end = position + header.length + LOG_OVERHEAD
    if end > len(buffer):
        return False
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    return crc32c(view[position + ATTRIBUTES_OFFSET : end]) == header.crc


def assign_offset(
    buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write the leader's offset and epoch. Both fields are outside the checksum, so this is two stores."""
    _pack_i64(buffer, position, base_offset)
    _pack_i32(buffer, position + 12, leader_epoch)


def set_append_time(
    buffer: WritableBuffer, position: int, header: BatchHeader, now_ms: int
) -> BatchHeader:
    """Set the time of all records of the batch to ``now_ms`` and recompute the checksum. Return the new
    header.
    """
    attributes = header.attributes | APPEND_TIME_FLAG
    _pack_i16(buffer, position + ATTRIBUTES_OFFSET, attributes)
    _pack_i64(buffer, position + 35, now_ms)
    crc = write_crc(buffer, position, header.length + LOG_OVERHEAD)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)


def set_max_timestamp(
    buffer: WritableBuffer, position: int, header: BatchHeader, timestamp: int
) -> BatchHeader:
    """Set the batch's largest timestamp and recompute the checksum. Return the new header."""
    _pack_i64(buffer, position + 35, timestamp)
    crc = write_crc(buffer, position, header.length + LOG_OVERHEAD)
    return header._replace(max_timestamp=timestamp, crc=crc)


def write_crc(buffer: WritableBuffer, position: int, size: int) -> int:
    """Compute the checksum of the batch of ``size`` bytes at ``position`` and store it there."""
    crc: int = crc32c(memoryview(buffer)[position + ATTRIBUTES_OFFSET : position + size])
    _pack_u32(buffer, position + CRC_OFFSET, crc)
    return crc


def header_fault(header: BatchHeader) -> str:
    """Return why these fields cannot be a batch's header."""
    if header.length < LENGTH_MIN:
        return f"batch length {header.length} is less than a header's ({LENGTH_MIN})"
    if header.magic != MAGIC:
        return f"record format {header.magic}; only format {MAGIC} is stored here"
    return f"negative record count {header.record_count}"
