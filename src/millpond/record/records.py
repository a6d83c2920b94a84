"""Decodes the records inside a batch.

The broker's append and read paths never call this; compaction, tools, other protocols and the client do.
The C kernels (``compiled``) read the records if they are built, and the Python code then only names the
fault in records that cannot be read; without the kernels the Python code reads all records.

  length varint | attributes i8 | timestamp delta varlong | offset delta varint
  key length varint, key | value length varint, value | header count varint
  each header: name length varint, name | value length varint, value

Varints are zigzag-coded; a length of -1 is null. Whatever the bytes hold, only ``CorruptBatch``,
``BatchTooLarge`` and ``UnsupportedCompression`` are raised.
"""

from typing import NamedTuple, TypeAlias

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    MalformedVarint,
    UnreadableBatch,
    UnsupportedCompression,
)
from millpond.base.limits import DECOMPRESSED_BYTES_MAX
from millpond.base.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, decode_signed, decode_unsigned
from millpond.record.batch import HEADER_BYTES, BatchHeader, ByteBuffer, read_header
from millpond.record.compiled import COMPILED
from millpond.record.compression import decompress

if COMPILED:
    from millpond.record import _columns

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

# The smallest record: its length, attributes, two deltas, two nulls and no headers.
RECORD_BYTES_MIN = 7

_TIMESTAMP_MIN = -(2**63)
_TIMESTAMP_MAX = 2**63 - 1
_OFFSET_MAX = 2**63 - 1
_UNSIGNED_MAX = 2**64 - 1


# The errors that decoding a batch raises.
UNREADABLE = (CorruptBatch, BatchTooLarge, UnsupportedCompression)


class Record(NamedTuple):
    """One message. Header names that are not UTF-8 keep their bytes as surrogate escapes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode_batch(
    buffer: ByteBuffer, position: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """Decode the records of the batch at ``position``, decompressing it if needed.

    The checksum is not checked: the code that received the bytes has done that (``check_crc``).
    """
    header = read_header(buffer, position)
    return decode_records(batch_payload(buffer, position, header, limit=limit), header)


def decode_stored(
    buffer: ByteBuffer, position: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """As ``decode_batch``, for readers that can continue after a batch whose records do not decode.

    Raises ``UnreadableBatch``, which names the batch's offsets, and ``CorruptBatch`` where there is no
    batch.
    """
    header = read_header(buffer, position)
    try:
        return decode_records(batch_payload(buffer, position, header, limit=limit), header)
    except UNREADABLE as error:
        raise unreadable(header, error) from None


def unreadable(header: BatchHeader, error: Exception) -> UnreadableBatch:
    """Return the error that names the offsets of a batch that does not decode."""
    first, last = header.base_offset, header.last_offset
    return UnreadableBatch(
        f"the records at offsets {first} to {last} cannot be read: {error}",
        first_offset=first,
        next_offset=max(last, first) + 1,
    )


def batch_payload(
    buffer: ByteBuffer,
    position: int,
    header: BatchHeader,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """Return the decompressed records of a batch as bytes."""
    end = position + header.size
    if end > len(buffer):
        raise CorruptBatch(f"batch of {header.size} bytes, {len(buffer) - position} are left")
    body = memoryview(buffer)[position + HEADER_BYTES : end]
    return decompress(header.compression, body, limit)


def decode_records(payload: bytes, header: BatchHeader) -> list[Record]:
    """Decode the decompressed records of the batch that ``header`` describes."""
    if COMPILED:
        records = _columns.records(
            payload,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.uses_append_time,
            header.record_count,
            Record,
        )
        if records is not None:
            return records
    return decode_records_python(payload, header)


def decode_records_python(payload: bytes, header: BatchHeader) -> list[Record]:
    """Decode records without the C kernels."""
    count = header.record_count
    if count * RECORD_BYTES_MIN > len(payload):
        raise CorruptBatch(f"{count} records cannot fit into {len(payload)} bytes")
    records: list[Record] = []
    try:
        position = _decode_into(records, payload, header)
    except IndexError:
        raise CorruptBatch("a record runs past the end of its batch") from None
    except MalformedVarint as error:
        raise CorruptBatch(str(error)) from None
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes follow the last of {count} records")
    return records


def _decode_into(records: list[Record], data: bytes, header: BatchHeader) -> int:
    """Append every record; return where the last one ends.

    Nearly every number takes one byte or two, so those cases are written out, five times: a call would cost
    as much as the rest. Reading past the end of ``data`` raises ``IndexError``; slices do not, so they are
    checked by the sum of the lengths of a record's parts.
    """
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    last_offset_delta = header.last_offset_delta
    append_time = header.max_timestamp
    fixed_time = header.uses_append_time
    total = len(data)
    position = 0
    for _ in range(header.record_count):
        number = data[position]
        position += 1
        if number >= 0x80:
            following = data[position]
            if following < 0x80:
                number = number & 0x7F | following << 7
                position += 1
            else:
                number, position = decode_unsigned(data, position - 1, VARINT_BYTES_MAX)
        size = (number >> 1) ^ -(number & 1)
        end = position + size
        if size < 0 or end > total:
            raise CorruptBatch(f"record of {size} bytes, {total - position} are left")

        position += 1  # attributes: none are defined for records
        number = data[position]
        position += 1
        if number >= 0x80:
            following = data[position]
            if following < 0x80:
                number = number & 0x7F | following << 7
                position += 1
            else:
                number, position = decode_unsigned(data, position - 1, VARLONG_BYTES_MAX)
                if number > _UNSIGNED_MAX:
                    raise CorruptBatch("a timestamp delta leaves the 64-bit range")
        delta = (number >> 1) ^ -(number & 1)
        timestamp = append_time if fixed_time else base_timestamp + delta
        if timestamp < _TIMESTAMP_MIN or timestamp > _TIMESTAMP_MAX:
            raise CorruptBatch(f"timestamp delta {delta} leaves the 64-bit range")

        number = data[position]
        position += 1
        if number >= 0x80:
            following = data[position]
            if following < 0x80:
                number = number & 0x7F | following << 7
                position += 1
            else:
                number, position = decode_unsigned(data, position - 1, VARINT_BYTES_MAX)
        delta = (number >> 1) ^ -(number & 1)
        if delta < 0 or delta > last_offset_delta:
            raise CorruptBatch(f"offset delta {delta} in a batch that ends at {last_offset_delta}")
        offset = base_offset + delta
        if offset > _OFFSET_MAX:
            raise CorruptBatch(f"offset delta {delta} leaves the 64-bit range")

        number = data[position]
        position += 1
        if number >= 0x80:
            following = data[position]
            if following < 0x80:
                number = number & 0x7F | following << 7
                position += 1
            else:
                number, position = decode_unsigned(data, position - 1, VARINT_BYTES_MAX)
        size = (number >> 1) ^ -(number & 1)
        key: bytes | None = None
        if size >= 0:
            key = data[position : position + size]
            position += size
        elif size != -1:
            raise CorruptBatch(f"key length {size}")

        number = data[position]
        position += 1
        if number >= 0x80:
            following = data[position]
            if following < 0x80:
                number = number & 0x7F | following << 7
                position += 1
            else:
                number, position = decode_unsigned(data, position - 1, VARINT_BYTES_MAX)
        size = (number >> 1) ^ -(number & 1)
        value: bytes | None = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        elif size != -1:
            raise CorruptBatch(f"value length {size}")

        if position < end and data[position] == 0:
            position += 1
            headers: Headers = ()
        else:
            headers, position = _decode_headers(data, position, end)
        if position != end:
            raise CorruptBatch(
                f"record at offset {offset} says it ends at {end}, not at {position}"
            )
        records.append(Record(offset, timestamp, key, value, headers))
    return position


def _decode_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = decode_signed(data, position, VARINT_BYTES_MAX)
    if count < 0 or count * 2 > end - position:
        raise CorruptBatch(f"{count} record headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = decode_signed(data, position, VARINT_BYTES_MAX)
        if size < 0 or size > end - position:
            raise CorruptBatch(f"header name of {size} bytes, {end - position} are left")
        name = data[position : position + size].decode("utf-8", "surrogateescape")
        position += size
        size, position = decode_signed(data, position, VARINT_BYTES_MAX)
        if size == -1:
            headers.append((name, None))
            continue
        if size < 0 or size > end - position:
            raise CorruptBatch(f"header value of {size} bytes, {end - position} are left")
        headers.append((name, data[position : position + size]))
        position += size
    return tuple(headers), position
