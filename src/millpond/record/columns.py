"""Converts record batches to columns and back: for readers and writers of very many records.

A column is a handful of buffers in Arrow's layout (numbers in the machine's byte order, 32-bit offsets into
one data buffer, a validity bit for each row), so that Arrow takes them without a copy; Arrow itself is not
needed here. This module walks, checks, filters and decompresses batches; the work for each record is done
by a kernel, in C (``_columns.c``, ``_rows.c``) or, with the same results, in ``columns_python``.

A C kernel does not say what is wrong with records: it gives up, and the Python kernel finds the same fault
and names it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from millpond.base.errors import BatchTooLarge, CorruptBatch, UnreadableBatch
from millpond.base.limits import (
    COLUMN_BYTES_MAX,
    COLUMN_CHUNK_BYTES,
    COLUMN_CHUNK_ROWS,
    DECOMPRESSED_BYTES_MAX,
)
from millpond.record import columns_python
from millpond.record.aborted import AbortedTransaction, AbortedTransactions
from millpond.record.batch import (
    APPEND_TIME_FLAG,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    ByteBuffer,
    check_crc,
    iter_batches,
)
from millpond.record.builder import seal_batch
from millpond.record.compiled import COMPILED
from millpond.record.compression import Compression, compress, known_codec
from millpond.record.records import UNREADABLE, batch_payload, unreadable

if COMPILED:
    from millpond.record import _columns

    _decode_batches, _encode_rows = _columns.decode, _columns.encode
    _partitions, _group = _columns.partitions, _columns.group
else:
    _decode_batches, _encode_rows = columns_python.decode, columns_python.encode
    _partitions, _group = columns_python.partitions, columns_python.group

Buffer: TypeAlias = ByteBuffer

NO_PARTITION = -1
_OFFSET_MAX = 2**63 - 1
_TRANSACTION_FLAGS = TRANSACTIONAL_FLAG | CONTROL_FLAG
_new_tuple = tuple.__new__


class BinaryColumn(NamedTuple):
    """Byte strings, some of them null."""

    offsets: Buffer  # int32, one more than there are rows
    data: Buffer
    validity: Buffer | None  # bit i of byte i // 8, lowest first: row i is not null; None: no nulls


class HeaderColumn(NamedTuple):
    """A list of (name, value) for each row; a row without headers is null, as in Spark's connector."""

    offsets: Buffer  # int32, into names and values
    validity: Buffer | None
    names: BinaryColumn
    values: BinaryColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Records, column by column, and the offset to continue from."""

    count: int
    offsets: Buffer  # int64
    timestamps: Buffer  # int64, in milliseconds or microseconds, as asked
    timestamp_types: Buffer  # int32: 0 when the producer set the time, 1 when the broker did
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeaderColumn | None
    next_offset: int  # every record before this offset is either in here or was skipped


@dataclass(frozen=True, slots=True)
class EncodedBatches:
    """Finished batches in the order of their rows, and the sequence number of the next one."""

    batches: list[bytearray]
    next_sequence: int


# --- reading ----------------------------------------------------------------------------------


def decode_columns(
    buffer: ByteBuffer,
    *,
    first: int,
    end: int = _OFFSET_MAX,
    headers: bool = False,
    microseconds: bool = False,
    aborted: Iterable[AbortedTransaction] = (),
    rows_max: int = COLUMN_CHUNK_ROWS,
    bytes_max: int = COLUMN_CHUNK_BYTES,
    check_crcs: bool = True,
) -> Columns:
    """Return the first chunk of ``iter_columns``; continue with ``first=columns.next_offset``."""
    return next(
        iter_columns(
            buffer,
            first=first,
            end=end,
            headers=headers,
            microseconds=microseconds,
            aborted=aborted,
            rows_max=rows_max,
            bytes_max=bytes_max,
            check_crcs=check_crcs,
        )
    )


def iter_columns(
    buffer: ByteBuffer,
    *,
    first: int,
    end: int = _OFFSET_MAX,
    headers: bool = False,
    microseconds: bool = False,
    aborted: Iterable[AbortedTransaction] = (),
    rows_max: int = COLUMN_CHUNK_ROWS,
    bytes_max: int = COLUMN_CHUNK_BYTES,
    check_crcs: bool = True,
) -> Iterator[Columns]:
    """Decode fetched bytes: yield the records with ``first <= offset < end``, in chunks.

    The buffer may begin with batches before ``first`` and end with an incomplete one; the last chunk's
    ``next_offset`` is where to fetch again. There is at least one chunk, and it may be empty. Markers are
    skipped, and so are the batches of ``aborted`` transactions (a fetch response lists those that overlap
    with it; the buffer must begin where the response does).

    A chunk ends at the end of a batch, before it would have more than ``rows_max`` records or ``bytes_max``
    bytes; a single batch may have more, up to ``DECOMPRESSED_BYTES_MAX``. Times outside of the range of
    64-bit microseconds become the largest or the smallest.

    Raises ``UnreadableBatch`` for a batch whose records do not decode, ``CorruptBatch`` for other damage,
    and ``BatchTooLarge``; chunks that were yielded before are valid.
    """
    assert bytes_max <= COLUMN_BYTES_MAX, "offsets into a column's data have 32 bits"
    scale = 1000 if microseconds else 1
    transactions = AbortedTransactions(aborted)
    view = memoryview(buffer)
    batches: list[columns_python.Unpacked] = []
    rows = size = 0
    next_offset = first
    for position, header in iter_batches(view):
        base_offset, last_offset_delta, attributes = header[0], header[6], header[5]
        last_offset = base_offset + last_offset_delta
        if base_offset < 0 or last_offset_delta < 0 or last_offset >= _OFFSET_MAX:
            raise CorruptBatch(
                f"batch of the offsets {base_offset} to {last_offset} at byte {position}"
            )
        if base_offset >= end:
            next_offset = max(next_offset, end)
            break
        skipped = last_offset < first
        if check_crcs and not skipped and not check_crc(view, position, header):
            raise CorruptBatch(
                f"the batch of the offsets {base_offset} to {last_offset} has the wrong checksum"
            )
        if attributes & _TRANSACTION_FLAGS and transactions.hides(header, view, position):
            skipped = True
        if not skipped:
            unpacked = _unpack(view, position, header)
            added = unpacked[2] - unpacked[1]
            if batches and (rows + header[12] > rows_max or size + added > bytes_max):
                yield _decode(batches, first, end, scale, headers, next_offset)
                batches = []
                rows = size = 0
            batches.append(unpacked)
            rows += header[12]
            size += added
        next_offset = max(next_offset, min(last_offset + 1, end))
    yield _decode(batches, first, end, scale, headers, next_offset)


def _unpack(buffer: memoryview, position: int, header: BatchHeader) -> columns_python.Unpacked:
    """Decompress the records of a batch, with the header fields that are needed to read them."""
    payload: ByteBuffer = buffer
    start, stop = position + HEADER_BYTES, position + LOG_OVERHEAD + header[1]
    attributes = header[5]
    if attributes & COMPRESSION_MASK:
        try:
            payload = batch_payload(buffer, position, header, limit=DECOMPRESSED_BYTES_MAX)
        except BatchTooLarge as error:
            first, last = header.base_offset, header.last_offset
            raise BatchTooLarge(f"the records at offsets {first} to {last}: {error}") from None
        except UNREADABLE as error:
            raise unreadable(header, error) from None
        start, stop = 0, len(payload)
    elif stop - start > DECOMPRESSED_BYTES_MAX:
        raise BatchTooLarge(f"batch of {stop - start} bytes; {DECOMPRESSED_BYTES_MAX} are read")
    return _new_tuple(
        columns_python.Unpacked,
        (
            payload,
            start,
            stop,
            header[0],
            header[6],
            header[7],
            header[8],
            attributes & APPEND_TIME_FLAG != 0,
            header[12],
        ),
    )


def _decode(
    batches: list[columns_python.Unpacked],
    first: int,
    end: int,
    scale: int,
    headers: bool,
    next_offset: int,
) -> Columns:
    try:
        decoded = _decode_batches(batches, first, end, scale, headers)
    except CorruptBatch:  # from the Python kernel, which does not say where
        decoded = None
    if decoded is None:
        decoded = _decode_one_by_one(batches, first, end, scale, headers)
    count, offsets, timestamps, types, keys, values, header_buffers = decoded
    header_column = None
    if header_buffers is not None:
        list_offsets, list_validity, names, header_values = header_buffers
        header_column = HeaderColumn(
            list_offsets, list_validity, BinaryColumn(*names), BinaryColumn(*header_values)
        )
    return Columns(
        count=count,
        offsets=offsets,
        timestamps=timestamps,
        timestamp_types=types,
        keys=BinaryColumn(*keys),
        values=BinaryColumn(*values),
        headers=header_column,
        next_offset=next_offset,
    )


def _decode_one_by_one(
    batches: list[columns_python.Unpacked], first: int, end: int, scale: int, headers: bool
) -> columns_python.Decoded:
    for batch in batches:
        try:
            columns_python.decode([batch], first, end, scale, headers)
        except CorruptBatch as error:
            last = batch.base_offset + batch.last_offset_delta
            raise UnreadableBatch(
                f"the records at offsets {batch.base_offset} to {last} cannot be read: {error}",
                first_offset=batch.base_offset,
                next_offset=last + 1,
            ) from None
    return columns_python.decode(batches, first, end, scale, headers)


# --- writing ----------------------------------------------------------------------------------


def encode_columns(
    keys: BinaryColumn | None,
    values: BinaryColumn | None,
    *,
    rows: Buffer,
    timestamps: Buffer | int,
    headers: HeaderColumn | None = None,
    batch_bytes: int,
    compression: Compression | int = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> EncodedBatches:
    """Build batches of the rows whose numbers (int32) are in ``rows``, in that order.

    A column that is None is null in every row. ``timestamps`` are milliseconds, one (int64) for each row of
    the columns or one for all. A batch takes rows until the next would make it larger than ``batch_bytes``
    before compression; it holds at least one. Sequence numbers continue from batch to batch if there is a
    ``base_sequence``.
    """
    codec = known_codec(compression)
    attributes = int(codec) | (TRANSACTIONAL_FLAG if transactional else 0)
    index, total = 0, len(memoryview(rows)) // 4
    sequence = base_sequence
    batches: list[bytearray] = []
    while index < total:
        batch, after, base_timestamp, max_timestamp = _encode_rows(
            keys, values, headers, timestamps, rows, index, batch_bytes, HEADER_BYTES
        )
        count = after - index
        if codec:
            batch[HEADER_BYTES:] = compress(codec, memoryview(batch)[HEADER_BYTES:], level)
        seal_batch(
            batch,
            BatchHeader(
                base_offset=0,
                length=0,
                leader_epoch=-1,
                magic=MAGIC,
                crc=0,
                attributes=attributes,
                last_offset_delta=count - 1,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
                record_count=count,
            ),
        )
        batches.append(batch)
        index = after
        if sequence >= 0:
            sequence = (sequence + count) & SEQUENCE_MAX
    return EncodedBatches(batches, sequence)


def key_partitions(
    keys: BinaryColumn, partition_count: int, *, keyless: int = NO_PARTITION
) -> bytearray:
    """Return the partition (int32) of every row, as Java's clients choose it by the key.

    Rows without a key get ``keyless``.
    """
    assert partition_count > 0
    return _partitions(keys, partition_count, keyless)


def group_rows(groups: Buffer, group_count: int) -> list[bytearray]:
    """Return, for each group from 0 up, the numbers (int32) of the rows that ``groups`` (int32) puts there.

    With partitions as groups, each element is the ``rows`` of ``encode_columns``.
    """
    return _group(groups, group_count)
