"""Kafka's encoding of records: what a function writes, its method reads; damage is one kind of error."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base import kafka_encoding
from millpond.base.errors import InvalidRequest, MalformedData
from millpond.base.kafka_encoding import Reader, compact_array, compact_string, string, tagged

INT32S = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5).map(tuple)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(),
    "nullable_string": st.none() | st.text(),
    "compact_string": st.text(max_size=300),
    "nullable_compact_string": st.none() | st.text(),
    "compact_bytes": st.binary(max_size=300),
    "compact_length": st.integers(-1, 2**31 - 1),
    "compact_int32s": INT32S,
    "compact_uuids": st.lists(st.uuids(), max_size=5).map(tuple),
}
NUMBERS = {
    "int8": kafka_encoding.I8,
    "int16": kafka_encoding.I16,
    "uint16": kafka_encoding.U16,
    "int32": kafka_encoding.I32,
    "int64": kafka_encoding.I64,
}
READS = [
    *VALUES,
    *NUMBERS,
    *("float64", "boolean", "uuid", "unsigned", "sized_bytes", "array_length", "tagged_fields"),
]


@given(data=st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1))
    values = [data.draw(VALUES[name]) for name in names]
    written = b"".join(
        getattr(kafka_encoding, name)(value) for name, value in zip(names, values, strict=True)
    )
    reader = Reader(data.draw(st.sampled_from([bytes, bytearray, memoryview]))(written))
    assert [getattr(reader, name)() for name in names] == values
    assert reader.take(0) == b""
    with pytest.raises(MalformedData):
        reader.take(1)


@pytest.mark.parametrize("name", NUMBERS)
@given(data=st.data())
def test_numbers(name: str, data: st.DataObject) -> None:
    form = NUMBERS[name]
    raw = data.draw(st.binary(min_size=form.size, max_size=form.size))
    assert getattr(Reader(raw), name)() == form.unpack(raw)[0]


@given(fields=st.dictionaries(st.integers(0, 2**20), st.binary(max_size=200), max_size=4))
def test_tagged_fields(fields: dict[int, bytes]) -> None:
    assert Reader(tagged(*fields.items())).tagged_fields() == fields


@given(texts=st.lists(st.text()))
def test_arrays(texts: list[str]) -> None:
    reader = Reader(compact_array(compact_string(text) for text in texts))
    assert reader.compact_array(reader.compact_string) == texts


def test_null_arrays_are_read_as_empty() -> None:
    assert Reader(b"\x00").compact_int32s() == ()
    assert Reader(b"\x00").compact_uuids() == ()
    assert Reader(b"\x00").compact_array(int) == []


@given(raw=st.binary(max_size=40), names=st.lists(st.sampled_from(READS), max_size=8))
def test_any_bytes_are_read_or_malformed(raw: bytes, names: list[str]) -> None:
    reader = Reader(raw)
    try:
        for name in names:
            getattr(reader, name)()
        reader.compact_array(reader.compact_string)
    except MalformedData:
        return


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("string", b"\xff\xff"),
        ("compact_string", b"\x00"),
        ("compact_bytes", b"\x00"),
        ("compact_string", b"\x02\xff"),
        ("array_length", b"\xff\xff\xff\xff\x0f"),
        ("compact_int32s", b"\x03\x00\x00\x00\x00\x00"),
        ("unsigned", b"\x80"),
    ],
)
def test_malformed(name: str, raw: bytes) -> None:
    with pytest.raises(MalformedData):
        getattr(Reader(raw), name)()


def test_a_string_too_long_for_its_length_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="32768 bytes"):
        string("x" * 2**15)
