"""Builds batches: new ones, and changed copies of old ones.

The bytes are the same that Java's client writes for the same records; property tests compare them with two
other clients. Times and offsets are arguments; nothing here reads a clock.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from millpond.base.limits import APPENDED_DECOMPRESSED_BYTES_MAX
from millpond.base.varint import encode_signed
from millpond.record.batch import (
    APPEND_TIME_FLAG,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    ByteBuffer,
    read_header,
    write_crc,
)
from millpond.record.compiled import COMPILED
from millpond.record.compression import Compression, compress, known_codec
from millpond.record.records import Record, batch_payload

if COMPILED:
    from millpond.record import _columns

HeaderPairs: TypeAlias = Iterable[tuple[str, bytes | None]]

# (timestamp in ms, key, value, headers)
NewRecord: TypeAlias = tuple[int, bytes | None, bytes | None, HeaderPairs]

# Most lengths and deltas are small: encode them by a table.
_SMALL_COUNT = 2048
_SMALL: list[bytes] = [encode_signed(value) for value in range(_SMALL_COUNT)]
_NULL = encode_signed(-1)
_DELTA_MIN = -(2**63)
_DELTA_MAX = 2**63 - 1
_NO_ATTRIBUTES = b"\x00"
_NO_HEADERS = b"\x00"


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    offset_deltas: Sequence[int] | None = None,
    compression: Compression | int = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
) -> bytearray:
    """Build one batch of at least one record.

    The first record's time is the batch's base time. Offsets are consecutive unless ``offset_deltas``
    (ascending, one for each record, from 0) says otherwise.
    """
    assert records, "a new batch holds at least one record"
    deltas: Sequence[int] = range(len(records)) if offset_deltas is None else offset_deltas
    assert len(deltas) == len(records)
    base_timestamp = records[0][0]
    attributes = int(known_codec(compression))
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    if control:
        attributes |= CONTROL_FLAG
    return assemble(
        encode_records(records, deltas, base_timestamp),
        BatchHeader(
            base_offset=base_offset,
            length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=deltas[-1],
            base_timestamp=base_timestamp,
            max_timestamp=max([record[0] for record in records]),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=len(records),
        ),
        level,
    )


def build_control(timestamp_ms: int, key: bytes, value: bytes) -> bytearray:
    """Build a control batch of one record with a short key: as ``build_batch`` does, but faster."""
    key_size, value_size = encode_signed(len(key)), encode_signed(len(value))
    # Attributes, both deltas and the number of headers are one zero byte each.
    size = 4 + len(key_size) + len(key) + len(value_size) + len(value)
    batch = bytearray(HEADER_BYTES)
    batch += b"".join(
        (encode_signed(size), b"\x00\x00\x00", key_size, key, value_size, value, _NO_HEADERS)
    )
    length = len(batch)
    HEADER.pack_into(
        *(batch, 0, 0, length - LOG_OVERHEAD, -1, MAGIC, 0, CONTROL_FLAG, 0),
        *(timestamp_ms, timestamp_ms, -1, -1, -1, 1),
    )
    write_crc(batch, 0, length)
    return batch


def rebuild_batch(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    compression: Compression | int | None = None,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return a copy of a batch that holds only ``records`` (compaction).

    Offsets, offset range, leader epoch, producer fields and flags are kept, so that positions and the
    detection of duplicates stay valid. ``records`` may be empty: the batch then only preserves its
    producer's state. ``delete_horizon_ms`` is when its tombstones may be dropped; None keeps the present
    value.
    """
    codec = known_codec(header.compression if compression is None else compression)
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = delete_horizon_ms
    elif attributes & DELETE_HORIZON_FLAG or not records:
        base_timestamp = header.base_timestamp
    else:
        base_timestamp = records[0].timestamp
    max_timestamp = header.max_timestamp
    if records and not attributes & APPEND_TIME_FLAG:
        max_timestamp = max([record.timestamp for record in records])
    payload = encode_records(
        [(record.timestamp, record.key, record.value, record.headers) for record in records],
        [record.offset - header.base_offset for record in records],
        base_timestamp,
    )
    return assemble(
        payload,
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(records),
        ),
        level,
    )


def recompress(
    buffer: ByteBuffer,
    codec: Compression | int,
    *,
    position: int = 0,
    level: int | None = None,
) -> bytearray:
    """Return a copy of the batch at ``position`` with another codec, without decoding its records.

    For topics whose ``compression.type`` is not ``producer``.
    """
    header = read_header(buffer, position)
    payload = batch_payload(buffer, position, header, limit=APPENDED_DECOMPRESSED_BYTES_MAX)
    attributes = header.attributes & ~COMPRESSION_MASK | known_codec(codec)
    return assemble(payload, header._replace(attributes=attributes), level)


def encode_records(
    records: Sequence[NewRecord], offset_deltas: Sequence[int], base_timestamp: int
) -> bytes:
    """Encode records, uncompressed."""
    if COMPILED:
        return _columns.encode_records(records, offset_deltas, base_timestamp)
    return encode_records_python(records, offset_deltas, base_timestamp)


def encode_records_python(
    records: Sequence[NewRecord], offset_deltas: Sequence[int], base_timestamp: int
) -> bytes:
    """Encode records without the C kernels."""
    small = _SMALL
    parts: list[bytes] = []
    add = parts.append
    for (timestamp, key, value, headers), offset_delta in zip(records, offset_deltas, strict=True):
        delta = timestamp - base_timestamp
        if 0 <= delta < _SMALL_COUNT:
            time_bytes = small[delta]
        elif _DELTA_MIN <= delta <= _DELTA_MAX:
            time_bytes = encode_signed(delta)
        else:
            raise OverflowError("times too far apart for one batch")
        offset_bytes = (
            small[offset_delta] if offset_delta < _SMALL_COUNT else encode_signed(offset_delta)
        )
        size = 1 + len(time_bytes) + len(offset_bytes)
        if key is None:
            key_size = _NULL
            size += 1
        else:
            length = len(key)
            key_size = small[length] if length < _SMALL_COUNT else encode_signed(length)
            size += len(key_size) + length
        if value is None:
            value_size = _NULL
            size += 1
        else:
            length = len(value)
            value_size = small[length] if length < _SMALL_COUNT else encode_signed(length)
            size += len(value_size) + length
        header_bytes = _encode_headers(headers) if headers else _NO_HEADERS
        size += len(header_bytes)
        add(small[size] if size < _SMALL_COUNT else encode_signed(size))
        add(_NO_ATTRIBUTES)
        add(time_bytes)
        add(offset_bytes)
        add(key_size)
        if key:
            add(key)
        add(value_size)
        if value:
            add(value)
        add(header_bytes)
    return b"".join(parts)


def _encode_headers(headers: HeaderPairs) -> bytes:
    parts: list[bytes] = []
    count = 0
    for name, value in headers:
        count += 1
        encoded = name.encode("utf-8", "surrogateescape")
        parts.append(encode_signed(len(encoded)))
        parts.append(encoded)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(encode_signed(len(value)))
            parts.append(value)
    return encode_signed(count) + b"".join(parts)


def assemble(payload: ByteBuffer, header: BatchHeader, level: int | None) -> bytearray:
    """Compress the payload by the header's attributes and put the header before it."""
    codec = header.attributes & COMPRESSION_MASK
    batch = bytearray(HEADER_BYTES)
    batch += payload if codec == 0 else compress(codec, payload, level)
    seal_batch(batch, header)
    return batch


def seal_batch(batch: bytearray, header: BatchHeader) -> None:
    """Write the header into the space before the records, with the right length and checksum."""
    size = len(batch)
    HEADER.pack_into(batch, 0, header.base_offset, size - LOG_OVERHEAD, *header[2:])
    write_crc(batch, 0, size)
