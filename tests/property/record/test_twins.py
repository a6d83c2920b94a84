"""The kernels in C and their twins in Python: the same results, the same refusals, whatever the bytes."""

import os
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import CorruptBatch
from millpond.record import Record, build_batch, columns_python, read_header
from millpond.record.batch import HEADER_BYTES
from millpond.record.builder import NewRecord, encode_records_python
from millpond.record.columns_python import Binary, Lists, Unpacked
from millpond.record.compiled import COMPILED
from millpond.record.inspection import check_python
from millpond.record.records import decode_records_python

if not COMPILED:
    assert "CI" not in os.environ, "the kernels in C are not built; CI tests them"
    pytest.skip("the kernels in C are not built here", allow_module_level=True)

from millpond.record import _columns
from tests.property.record.fuzz_kernels import fuzz

NOW = 1_700_000_000_000

names = st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
texts = st.none() | st.binary(max_size=12) | st.integers(60, 70).map(bytes)
times = st.integers(-(2**63), 2**63 - 1) | st.integers(NOW - 200, NOW + 200)
records = st.tuples(times, texts, texts, st.lists(st.tuples(names, texts), max_size=3))


@st.composite
def unpacked(draw: st.DrawFn) -> Unpacked:
    """A batch's records, sound or not, under a header that may not be theirs."""
    chosen = draw(st.lists(records, min_size=1, max_size=6))
    base = chosen[0][0]
    written = [record for record in chosen if -(2**63) <= record[0] - base < 2**63]
    data = build_batch(written)
    header = read_header(data)
    payload = bytearray(data[HEADER_BYTES:])
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(payload)))
        match draw(st.integers(0, 3)):
            case 0:
                byte = draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80]) | st.integers(0, 255))
                payload[at : at + 1] = bytes([byte])
            case 1:
                payload[at:at] = draw(st.binary(max_size=10))
            case 2:
                del payload[at : at + draw(st.integers(1, 10))]
            case _:
                payload[at : at + 9] = b"\xff" * 9
    before, after = draw(st.binary(max_size=3)), draw(st.binary(max_size=3))
    return Unpacked(
        before + payload + after,
        len(before),
        len(before) + len(payload),
        draw(st.sampled_from([0, 0, 1000, 1000, 2**63 - 3])),
        header.last_offset_delta + draw(st.sampled_from([0, 0, 0, -1, 5])),
        draw(st.sampled_from([base, base, base, 2**63 - 1])),
        draw(times),
        draw(st.sampled_from([False, False, True])),
        header.record_count + draw(st.sampled_from([0, 0, 0, 0, -1, 1, 2**31])),
    )


@given(
    st.lists(unpacked(), max_size=3),
    st.sampled_from([0, 0, 1, 2, 1001]),
    st.booleans(),
    st.sampled_from([1, 1000]),
)
def test_decode(batches: list[Unpacked], first: int, headers: bool, scale: int) -> None:
    end = 1003 if first == 2 else 2**63 - 1
    try:
        expected: Any = columns_python.decode(batches, first, end, scale, headers)
    except CorruptBatch:
        expected = None
    assert _columns.decode(batches, first, end, scale, headers) == expected


@given(unpacked())
def test_decode_records(batch: Unpacked) -> None:
    payload = columns_python._payload(batch)
    try:
        expected: Any = decode_records_python(payload, columns_python._header(batch))
    except CorruptBatch:
        expected = None
    found = _columns.records(payload, *batch[3:], Record)
    assert found == expected
    assert found is None or all(type(record) is Record for record in found)


@given(unpacked(), times, times, st.sampled_from([0, 1, 1000]))
def test_check(batch: Unpacked, earliest: int, latest: int, positions_max: int) -> None:
    payload = columns_python._payload(batch)
    arguments = (payload, batch.base_timestamp, batch.record_count, earliest, latest, positions_max)
    assert _columns.check(*arguments) == check_python(*arguments)


@given(st.lists(records), st.integers(0, 3000))
def test_encode_records(chosen: list[NewRecord], step: int) -> None:
    deltas = [index * step for index in range(len(chosen))]
    arguments = (chosen, deltas, chosen[0][0] if chosen else 0)
    try:
        expected = encode_records_python(*arguments)
    except OverflowError:
        with pytest.raises(OverflowError):
            _columns.encode_records(*arguments)
    else:
        assert _columns.encode_records(*arguments) == expected
        with pytest.raises(ValueError):
            _columns.encode_records(chosen, [*deltas, 1], 0)


def binary(items: list[bytes | None]) -> Binary:
    column: Binary = columns_python._binary(items)
    return column


@st.composite
def tables(draw: st.DrawFn) -> tuple[Binary | None, Binary | None, Lists | None, Any]:
    """Columns of equal length, now and then with a wrong number in them."""
    count = draw(st.integers(0, 10))
    rows = st.lists(texts, min_size=count, max_size=count)
    keys = draw(st.none() | rows.map(binary))
    values = draw(st.none() | rows.map(binary))
    headers: Lists | None = None
    if draw(st.booleans()):
        pairs = draw(st.lists(st.tuples(st.binary(max_size=4), texts), max_size=8))
        cuts = sorted(draw(st.lists(st.integers(0, len(pairs)), min_size=count, max_size=count)))
        headers = (
            array("i", [0, *cuts]).tobytes(),
            draw(st.none() | st.binary(min_size=2, max_size=2)),
            binary([name for name, _ in pairs]),
            binary([value for _, value in pairs]),
        )
    stamps = draw(times | st.lists(times, min_size=count, max_size=count))
    timestamps = stamps if isinstance(stamps, int) else array("q", stamps).tobytes()
    if values is not None and draw(st.integers(0, 3)) == 0:
        offsets = array("i", values[0])
        offsets[draw(st.integers(0, count))] = draw(st.integers(-5, 50) | st.just(2**31 - 1))
        values = (offsets.tobytes(), values[1], values[2])
    return keys, values, headers, timestamps


@given(tables(), st.lists(st.integers(0, 9) | st.integers(-1, 11)), st.integers(0, 300))
def test_encode(table: tuple[Any, Any, Any, Any], rows: list[int], bytes_max: int) -> None:
    chosen = array("i", rows).tobytes()
    limits = [bytes_max]
    for index in range(len(rows) + 1):
        for limit in limits:
            arguments = (*table, chosen, index, limit, HEADER_BYTES)
            try:
                expected = columns_python.encode(*arguments)
            except ValueError:
                with pytest.raises(ValueError):
                    _columns.encode(*arguments)
            else:
                assert _columns.encode(*arguments) == expected
                size = len(expected[0])  # what fits exactly, and what does not by a byte
                limits = [bytes_max, size - 1, size]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 2**31 - 1))
def test_partitions_and_groups(keys: list[bytes | None], count: int) -> None:
    column = binary(keys)
    partitions = columns_python.partitions(column, count, 3)
    assert _columns.partitions(column, count, 3) == partitions
    few = _columns.partitions(column, 5, 0)
    assert _columns.group(few, 5) == columns_python.group(few, 5)


def test_thousands_of_damaged_batches() -> None:
    assert 500 < fuzz(count=3000, seed=5, compare=1) < 2500
