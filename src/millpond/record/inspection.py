"""Checks every record of a batch that a client sent, without creating an object for any of them.

A leader checks what it appends as Apache Kafka does: the records must match the count and the offsets in
the header, with lengths that fit, with times that the topic allows and, in a compacted topic, with a key.
Every reader can then decode what is stored. The check is a C kernel with an equivalent in Python
(``check_python``); the kernel returns how many records are valid, and the Python code reads on from there
and names the fault.

Compressed records are decompressed into a buffer that the caller owns and bounds. Not known here: threads,
topics, logs.
"""

import mmap
from typing import NamedTuple, TypeAlias

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MalformedVarint,
)
from millpond.base.limits import RECORD_ERRORS_MAX
from millpond.base.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, decode_signed
from millpond.record.batch import BatchHeader, ByteBuffer
from millpond.record.compiled import COMPILED
from millpond.record.compression import decompress_into
from millpond.record.records import Record, decode_records

if COMPILED:
    from millpond.record import _columns

NO_TIMESTAMP = -1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

# Number of valid records, where the last of them ends, the largest time, positions without a key, positions
# whose time is out of range.
Walk: TypeAlias = tuple[int, int, int, list[int], list[int]]

# The first buffer size for records whose size is unknown, and the factor for the next.
_ROOM_BYTES = 1024 * 1024
_FIRST_GROWTH = 4
_ROOM_GROWTH = 8


class Rules(NamedTuple):
    """The requirements of a topic for its records: the allowed times, and whether each needs a key."""

    earliest_ms: int = INT64_MIN
    latest_ms: int = INT64_MAX
    keys_required: bool = False


class ScratchBuffer:
    """A reusable buffer that batches are decompressed into, one at a time; never larger than
    ``bytes_max``.
    """

    __slots__ = ("_memory", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._memory: bytearray | mmap.mmap | None = None

    def decompressed(self, header: BatchHeader, body: memoryview) -> memoryview | None:
        """Decompress a batch. Return a view, valid until the next call; None if the buffer is too small.

        Raises ``InvalidRecord`` for data that cannot be decompressed, ``UnsupportedCompression`` for an
        unknown codec.
        """
        if self._memory is None:
            self._memory = bytearray(self.bytes_max)
        return _decompressed(header, body, self._memory)


def decompress_bounded(header: BatchHeader, body: memoryview, bytes_max: int) -> memoryview:
    """Decompress a batch into newly mapped memory.

    The mapping grows until the data fits; allocating it does not hold the interpreter's lock, and it is
    returned to the system with the last view of it. Raises ``BatchTooLarge`` beyond ``bytes_max``.
    """
    size = min(max(_ROOM_BYTES, len(body) * _FIRST_GROWTH), bytes_max)
    while True:
        found = _decompressed(header, body, mmap.mmap(-1, size))
        if found is not None:
            return found
        if size >= bytes_max:
            raise BatchTooLarge(
                f"the batch has more than {bytes_max} bytes of records when it is decompressed"
            )
        size = min(size * _ROOM_GROWTH, bytes_max)


def _decompressed(
    header: BatchHeader, body: memoryview, memory: bytearray | mmap.mmap
) -> memoryview | None:
    try:
        size = decompress_into(header.compression, body, memory)
    except CorruptBatch as error:
        raise InvalidRecord(f"the records cannot be decompressed: {error}") from None
    return None if size is None else memoryview(memory)[:size]


def check_records(payload: ByteBuffer, header: BatchHeader, rules: Rules) -> int:
    """Check the decompressed records of a batch. Return their largest time, -1 if none has one.

    Raises ``InvalidRecord`` or ``InvalidTimestamp``, with the positions of the records where single ones
    are refused, as Kafka does.
    """
    walk = check if COMPILED else check_python
    count, position, newest, keyless, untimely = walk(
        payload,
        header.base_timestamp,
        header.record_count,
        rules.earliest_ms,
        rules.latest_ms,
        RECORD_ERRORS_MAX,
    )
    if count != header.record_count or position != len(payload):
        raise _unsound(payload, header, count, position)
    if untimely:
        positions = sorted({*untimely, *keyless} if rules.keys_required else untimely)
        raise InvalidTimestamp(
            f"{len(untimely)} of {count} records have times that the topic does not allow:"
            f" from {rules.earliest_ms} to {rules.latest_ms} ms",
            positions=tuple(positions),
        )
    if keyless and rules.keys_required:
        raise InvalidRecord(
            "a compacted topic takes no records without a key", positions=tuple(keyless)
        )
    return newest


def decode_slice(payload: bytes, header: BatchHeader, first: int, count: int) -> list[Record]:
    """Decode ``count`` records of a batch from index ``first`` on, and create no other objects.

    Decodes all of them if offsets are missing (compaction), because an index is no offset then. Raises
    ``CorruptBatch``.
    """
    total = header.record_count
    if total <= count or total != header.last_offset_delta + 1:
        return decode_records(payload, header)
    walk = check if COMPILED else check_python
    ends = [
        walk(payload, header.base_timestamp, number, INT64_MIN, INT64_MAX, 0)[:2]
        for number in (first, min(first + count, total))
    ]
    (before, start), (after, stop) = ends
    if (before, after) != (first, min(first + count, total)):
        return decode_records(payload, header)
    return decode_records(payload[start:stop], header._replace(record_count=after - before))


def check(
    payload: ByteBuffer,
    base_timestamp: int,
    record_count: int,
    earliest_ms: int,
    latest_ms: int,
    positions_max: int,
) -> Walk:
    """Run ``check_python`` as a C kernel."""
    return _columns.check(
        payload, base_timestamp, record_count, earliest_ms, latest_ms, positions_max
    )


def check_python(
    payload: ByteBuffer,
    base_timestamp: int,
    record_count: int,
    earliest_ms: int,
    latest_ms: int,
    positions_max: int,
) -> Walk:
    """Walk over records while they are valid: complete, well formed, with the offsets 0, 1, 2 and so on.

    At most ``positions_max`` positions are listed of each kind.
    """
    data = bytes(payload)
    position = index = 0
    newest = NO_TIMESTAMP
    keyless: list[int] = []
    untimely: list[int] = []
    while index < record_count:
        try:
            position, timestamp, has_key = _read(data, position, base_timestamp, index)
        except (CorruptBatch, MalformedVarint, IndexError):
            break
        if not has_key and len(keyless) < positions_max:
            keyless.append(index)
        newest = max(newest, timestamp)
        if (
            not earliest_ms <= timestamp <= latest_ms
            and timestamp != NO_TIMESTAMP
            and len(untimely) < positions_max
        ):
            untimely.append(index)
        index += 1
    return index, position, newest, keyless, untimely


def _unsound(payload: ByteBuffer, header: BatchHeader, index: int, position: int) -> InvalidRecord:
    """Return what is wrong with the record at ``position``, or with the bytes after the last record."""
    count, size = header.record_count, len(payload)
    if index == count:
        return InvalidRecord(f"{size - position} bytes follow the last of {count} records")
    if position == size:
        return InvalidRecord(f"the batch has {index} records, not {count} as it says")
    try:
        _read(payload, position, header.base_timestamp, index)
    except (CorruptBatch, MalformedVarint) as error:
        return InvalidRecord(f"record {index} of {count} cannot be read: {error}")
    except IndexError:
        return InvalidRecord(f"record {index} of {count} runs past the end of its batch")
    raise AssertionError(f"the kernels differ: record {index} at byte {position} is sound")


def _read(
    data: ByteBuffer, position: int, base_timestamp: int, index: int
) -> tuple[int, int, bool]:
    """Read the record at ``position``. Return where it ends, its time, and whether it has a key.

    Raises ``IndexError``, ``MalformedVarint`` or ``CorruptBatch`` if it is malformed or not number
    ``index``.
    """
    total = len(data)
    size, position = _length(data, position)
    end = position + size
    if size < 1 or end > total:
        raise CorruptBatch(f"record of {size} bytes, {total - position} are left")
    position += 1  # attributes: none are defined for records
    delta, position = decode_signed(data, position, VARLONG_BYTES_MAX)
    timestamp = base_timestamp + delta
    if not INT64_MIN <= delta <= INT64_MAX or not INT64_MIN <= timestamp <= INT64_MAX:
        raise CorruptBatch(f"timestamp delta {delta} leaves the 64-bit range")
    delta, position = _length(data, position)
    if delta != index:
        raise CorruptBatch(f"offset delta {delta} where {index} must follow")
    key, position = _length(data, position)
    if key < -1:
        raise CorruptBatch(f"key length {key}")
    position += max(key, 0)
    value, position = _length(data, position)
    if value < -1:
        raise CorruptBatch(f"value length {value}")
    position += max(value, 0)
    headers, position = _length(data, position)
    if headers:
        position = _skip_headers(data, position, end, headers)
    if position != end:
        raise CorruptBatch(f"it says that it ends at byte {end}, not at {position}")
    return end, timestamp, key >= 0


def _skip_headers(data: ByteBuffer, position: int, end: int, count: int) -> int:
    if count < 0 or count * 2 > end - position:
        raise CorruptBatch(f"{count} record headers in {end - position} bytes")
    for _ in range(count):
        size, position = _length(data, position)
        if size < 0 or size > end - position:
            raise CorruptBatch(f"header name of {size} bytes, {end - position} are left")
        position += size
        size, position = _length(data, position)
        if size < -1 or size > end - position:
            raise CorruptBatch(f"header value of {size} bytes, {end - position} are left")
        position += max(size, 0)
    return position


def _length(data: ByteBuffer, position: int) -> tuple[int, int]:
    number = data[position]
    if number < 0x80:
        return (number >> 1) ^ -(number & 1), position + 1
    return decode_signed(data, position, VARINT_BYTES_MAX)
