"""The kernels of ``columns`` in Python: the reference for the C kernels, and the fallback without them.

``decode`` reads records one by one, as the broker does; the C kernels return the same buffers.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from millpond.base.murmur2 import partition_for_key
from millpond.record.batch import (
    APPEND_TIME_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    ByteBuffer,
)
from millpond.record.builder import encode_records_python
from millpond.record.records import Headers, Record, decode_records_python

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1

Binary: TypeAlias = tuple[ByteBuffer, ByteBuffer, ByteBuffer | None]
Lists: TypeAlias = tuple[ByteBuffer, ByteBuffer | None, Binary, Binary]
Decoded: TypeAlias = tuple[int, bytearray, bytearray, bytearray, Binary, Binary, Lists | None]

assert array("i").itemsize == 4
assert array("q").itemsize == 8


class Unpacked(NamedTuple):
    """The decompressed records of one batch, and the header fields needed to decode them."""

    payload: ByteBuffer
    start: int
    stop: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    append_time: int
    uses_append_time: bool
    record_count: int


def decode(
    batches: Sequence[Unpacked], first: int, end: int, scale: int, headers: bool, /
) -> Decoded:
    """Return columns of the records with ``first <= offset < end``; timestamps are multiplied by ``scale``.

    The C kernel returns None where this function raises ``CorruptBatch``.
    """
    records: list[Record] = []
    types: list[int] = []
    for batch in batches:
        chosen = [
            record
            for record in decode_records_python(_payload(batch), _header(batch))
            if first <= record.offset < end
        ]
        records += chosen
        types += [int(batch.uses_append_time)] * len(chosen)
    return (
        len(records),
        _numbers("q", [record.offset for record in records]),
        _numbers("q", [_saturated(record.timestamp * scale) for record in records]),
        _numbers("i", types),
        _binary([record.key for record in records]),
        _binary([record.value for record in records]),
        _lists(records) if headers else None,
    )


def encode(
    keys: Binary | None,
    values: Binary | None,
    headers: Lists | None,
    timestamps: ByteBuffer | int,
    rows: ByteBuffer,
    index: int,
    bytes_max: int,
    reserve: int,
    /,
) -> tuple[bytearray, int, int, int]:
    """Encode the records of ``rows`` from ``index`` on that fit into ``bytes_max``, after ``reserve`` zero
    bytes.

    Returns them with the index of the first row that did not fit, the first row's time and the latest.
    Raises ``ValueError`` for columns whose buffers contradict one another.
    """
    numbers = _view(rows, "i")
    key_of = _reader(keys)
    value_of = _reader(values)
    headers_of = _list_reader(headers)
    time_of = _clock(timestamps)
    out = bytearray(reserve)
    base = latest = 0
    delta = 0
    for row in numbers[index:]:
        time = time_of(row)
        if delta == 0:
            base = latest = time
        elif not _INT64_MIN <= time - base <= _INT64_MAX:
            raise ValueError(f"times {base} and {time} cannot be in one batch")
        encoded = encode_records_python(
            [(time, key_of(row), value_of(row), headers_of(row))], (delta,), base
        )
        if delta and len(out) + len(encoded) > bytes_max:
            break
        latest = max(latest, time)
        out += encoded
        delta += 1
    if len(out) > _INT32_MAX:
        raise ValueError(f"a record of {len(out)} bytes does not fit into a batch")
    return out, index + delta, base, latest


def partitions(keys: Binary, partition_count: int, keyless: int, /) -> bytearray:
    """Return the partition of each key; ``keyless`` for null."""
    key_of = _reader(keys)
    found = []
    for row in range(len(_view(keys[0], "i")) - 1):
        key = key_of(row)
        found.append(keyless if key is None else partition_for_key(key, partition_count))
    return _numbers("i", found)


def group(groups: ByteBuffer, group_count: int, /) -> list[bytearray]:
    """Return the numbers of the rows in each group."""
    rows: list[list[int]] = [[] for _ in range(group_count)]
    for row, chosen in enumerate(_view(groups, "i")):
        if not 0 <= chosen < group_count:
            raise ValueError(f"row {row} is in group {chosen} of {group_count}")
        rows[chosen].append(row)
    return [_numbers("i", numbers) for numbers in rows]


def _payload(batch: Unpacked) -> bytes:
    if type(batch.payload) is bytes and batch.start == 0 and batch.stop == len(batch.payload):
        return batch.payload
    return bytes(memoryview(batch.payload)[batch.start : batch.stop])


def _header(batch: Unpacked) -> BatchHeader:
    """Return a header with the fields that decoding needs."""
    return BatchHeader(
        base_offset=batch.base_offset,
        length=batch.stop - batch.start + HEADER_BYTES - LOG_OVERHEAD,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=APPEND_TIME_FLAG if batch.uses_append_time else 0,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.append_time,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=batch.record_count,
    )


def _saturated(number: int) -> int:
    return max(_INT64_MIN, min(_INT64_MAX, number))


def _numbers(kind: str, numbers: Iterable[int]) -> bytearray:
    return bytearray(array(kind, numbers).tobytes())


def _validity(valid: Sequence[bool]) -> bytearray | None:
    if all(valid):
        return None
    bits = int("".join(["1" if is_valid else "0" for is_valid in reversed(valid)]), 2)
    return bytearray(bits.to_bytes((len(valid) + 7) // 8, "little"))


def _binary(items: Sequence[bytes | None]) -> Binary:
    present = [item or b"" for item in items]
    return (
        _numbers("i", accumulate(map(len, present), initial=0)),
        bytearray(b"".join(present)),
        _validity([item is not None for item in items]),
    )


def _lists(records: Sequence[Record]) -> Lists:
    pairs = [pair for record in records for pair in record.headers]
    return (
        _numbers("i", accumulate((len(record.headers) for record in records), initial=0)),
        _validity([bool(record.headers) for record in records]),
        _binary([name.encode("utf-8", "surrogateescape") for name, _ in pairs]),
        _binary([value for _, value in pairs]),
    )


def _view(buffer: ByteBuffer, kind: Literal["i", "q"]) -> memoryview:
    """Return the numbers in a buffer; incomplete ones at its end are ignored."""
    view = memoryview(buffer).cast("B")
    size = array(kind).itemsize
    return view[: len(view) // size * size].cast(kind)


def _check_row(row: int, count: int) -> None:
    if not 0 <= row < count:
        raise ValueError(f"row {row} is not among the column's {count}")


def _is_null(validity: ByteBuffer | None, row: int) -> bool:
    if validity is None:
        return False
    if row // 8 >= len(validity):
        raise ValueError(f"row {row} has no bit in {len(validity)} bytes")
    return not validity[row // 8] >> row % 8 & 1


def _span(offsets: memoryview, row: int, limit: int) -> tuple[int, int]:
    start, stop = offsets[row], offsets[row + 1]
    if not 0 <= start <= stop <= limit:
        raise ValueError(f"row {row} goes from {start} to {stop} of {limit}")
    return start, stop


def _clock(timestamps: ByteBuffer | int) -> Callable[[int], int]:
    if isinstance(timestamps, int):
        time = timestamps

        def constant(row: int) -> int:
            _check_row(row, _INT32_MAX + 1)
            return time

        return constant
    times = _view(timestamps, "q")

    def of_row(row: int) -> int:
        _check_row(row, len(times))
        return times[row]

    return of_row


def _reader(column: Binary | None) -> Callable[[int], bytes | None]:
    if column is None:
        return lambda _: None
    offsets, data, validity = _view(column[0], "i"), memoryview(column[1]).cast("B"), column[2]
    bits = None if validity is None else memoryview(validity).cast("B")

    def of_row(row: int) -> bytes | None:
        _check_row(row, len(offsets) - 1)
        if _is_null(bits, row):
            return None
        start, stop = _span(offsets, row, len(data))
        return bytes(data[start:stop])

    return of_row


def _list_reader(column: Lists | None) -> Callable[[int], Headers]:
    if column is None:
        return lambda _: ()
    offsets, validity, names, values = _view(column[0], "i"), column[1], column[2], column[3]
    bits = None if validity is None else memoryview(validity).cast("B")
    name_of, value_of = _reader(names), _reader(values)
    pair_count = len(_view(names[0], "i")) - 1

    def of_row(row: int) -> Headers:
        _check_row(row, len(offsets) - 1)
        if _is_null(bits, row):
            return ()
        start, stop = _span(offsets, row, pair_count)
        return tuple(
            ((name_of(n) or b"").decode("utf-8", "surrogateescape"), value_of(n))
            for n in range(start, stop)
        )

    return of_row
