"""Converts columns of records to Arrow batches and back; buffers are shared, not copied.

The schema is that of Spark's Kafka connector, in the types that PySpark requires of a data source.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from millpond.base.limits import COLUMN_CHUNK_ROWS
from millpond.record.batch import ByteBuffer
from millpond.record.columns import BinaryColumn, Columns, HeaderColumn

# PyArrow has no type annotations.
RecordBatch: TypeAlias = Any
Array: TypeAlias = Any

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS_TYPE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Arrow columns in the form that ``encode_columns`` and ``key_partitions`` take."""

    count: int
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeaderColumn | None
    timestamps: ByteBuffer | None  # milliseconds


def to_record_batch(columns: Columns, topic: str, partition: int) -> RecordBatch:
    """Return the columns, decoded with ``microseconds=True``, as rows of the source."""
    count = columns.count
    arrays = [
        _binary_array(pa.binary(), count, columns.keys),
        _binary_array(pa.binary(), count, columns.values),
        _constant(topic, pa.string(), count),
        _constant(partition, pa.int32(), count),
        _number_array(pa.int64(), count, columns.offsets),
        _number_array(TIMESTAMP_TYPE, count, columns.timestamps),
        _number_array(pa.int32(), count, columns.timestamp_types),
    ]
    if columns.headers is None:
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    arrays.append(_headers_array(count, columns.headers))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS)


def from_record_batch(batch: RecordBatch) -> Rows:
    """Return the columns ``key``, ``value``, ``headers`` and ``timestamp`` of a batch, as far as it has them.

    Texts become their UTF-8 bytes. A row without a timestamp raises ``ValueError``: the writer has to choose
    one first.
    """
    return Rows(
        count=batch.num_rows,
        keys=_binary_column(batch, "key"),
        values=_binary_column(batch, "value"),
        headers=_header_column(batch),
        timestamps=_timestamps(batch),
    )


def binary_column(array: Array) -> BinaryColumn | None:
    """Return an array of byte strings or texts as a column; None for an array of nulls only."""
    array = _plain(array, pa.binary())
    if array.null_count == len(array) > 0:
        return None
    validity, offsets, data = array.buffers()
    return BinaryColumn(_bytes(offsets, _ZERO), _bytes(data), _bits(array, validity))


def _constant(value: object, kind: Any, count: int) -> Array:
    if count > COLUMN_CHUNK_ROWS:
        return pa.repeat(pa.scalar(value, kind), count)
    return _repeated(value, kind).slice(0, count)


@lru_cache(maxsize=8)
def _repeated(value: object, kind: Any) -> Array:
    """Return an array that repeats one value, cached for the many chunks of a partition."""
    return pa.repeat(pa.scalar(value, kind), COLUMN_CHUNK_ROWS)


_ZERO = bytes(4)  # the offsets of an empty array, which Arrow may leave out


def _binary_array(kind: Any, count: int, column: BinaryColumn) -> Array:
    return pa.Array.from_buffers(
        kind,
        count,
        [_buffer(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)],
    )


def _number_array(kind: Any, count: int, numbers: ByteBuffer) -> Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])


def _headers_array(count: int, headers: HeaderColumn) -> Array:
    pairs = len(memoryview(headers.names.offsets)) // 4 - 1
    names = _binary_array(pa.string(), pairs, headers.names)
    try:
        names.validate(full=True)
    except (
        pa.ArrowInvalid
    ):  # the wire does not guarantee UTF-8; Java's clients use replacement characters
        raw = _binary_array(pa.binary(), pairs, headers.names)
        names = pa.array([name.decode("utf-8", "replace") for name in raw.to_pylist()], pa.string())
    values = _binary_array(pa.binary(), pairs, headers.values)
    return pa.Array.from_buffers(
        HEADERS_TYPE,
        count,
        [_buffer(headers.validity), pa.py_buffer(headers.offsets)],
        children=[pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))],
    )


def _buffer(buffer: ByteBuffer | None) -> Any:
    return None if buffer is None else pa.py_buffer(buffer)


def _plain(array: Array, kind: Any) -> Array:
    """Return the array with this type and offset 0 in its buffers."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type != kind:
        array = array.cast(kind)
    if array.offset:
        array = array.take(pa.array(range(len(array)), pa.int32()))
    return array


def _bytes(buffer: Any, instead: bytes = b"") -> memoryview:
    return memoryview(instead if buffer is None else buffer)


def _bits(array: Array, validity: Any) -> memoryview | None:
    return memoryview(validity) if validity is not None and array.null_count else None


def _binary_column(batch: RecordBatch, name: str) -> BinaryColumn | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else binary_column(batch.column(index))


def _header_column(batch: RecordBatch) -> HeaderColumn | None:
    index = batch.schema.get_field_index("headers")
    if index < 0:
        return None
    array = _plain(batch.column(index), HEADERS_TYPE)
    if array.null_count == len(array):
        return None
    validity, offsets = array.buffers()[:2]
    pairs = array.values
    if pairs.null_count:
        raise ValueError("a header is null; it must have a name")
    names, values = (_plain(child, pa.binary()) for child in (pairs.field(0), pairs.field(1)))
    if names.null_count:
        raise ValueError("a header has no name")
    return HeaderColumn(
        _bytes(offsets, _ZERO), _bits(array, validity), _whole_binary(names), _whole_binary(values)
    )


def _whole_binary(array: Array) -> BinaryColumn:
    validity, offsets, data = array.buffers()
    return BinaryColumn(_bytes(offsets, _ZERO), _bytes(data), _bits(array, validity))


def _timestamps(batch: RecordBatch) -> ByteBuffer | None:
    index = batch.schema.get_field_index("timestamp")
    if index < 0:
        return None
    array = batch.column(index)
    if array.null_count:
        raise ValueError(f"{array.null_count} rows have no timestamp")
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    array = _plain(array, pa.int64())
    return _bytes(array.buffers()[1])
