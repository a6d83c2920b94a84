"""Columns of records become Arrow batches of the source's schema, and a sink's batches become columns."""

from datetime import UTC, datetime

import pytest

pa = pytest.importorskip("pyarrow")

from millpond.record import Record, build_batch, decode_batch  # noqa: E402
from millpond.record.columns import decode_columns, encode_columns, group_rows, key_partitions  # noqa: E402
from millpond.spark.arrow import (  # noqa: E402
    SCHEMA,
    SCHEMA_WITH_HEADERS,
    from_record_batch,
    to_record_batch,
)

pytestmark = pytest.mark.spark

NOW = 1_700_000_000_123
RECORDS = [
    (NOW, b"a", b"one", (("trace", b"1"), ("none", None))),
    (NOW + 1, None, b"two", ()),
    (NOW + 2, b"c", None, (("trace", b""),)),
]


def all_rows(count: int) -> bytes:
    [rows] = group_rows(bytes(4 * count), 1)
    return bytes(rows)


def test_the_schema_is_what_spark_makes_of_the_connectors_columns() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    columns = {
        "key": BinaryType(),
        "value": BinaryType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        "headers": ArrayType(header),
    }
    full = StructType([StructField(name, kind) for name, kind in columns.items()])
    assert to_arrow_schema(full, timezone="UTC").equals(SCHEMA_WITH_HEADERS, check_metadata=True)
    assert to_arrow_schema(full[:-1], timezone="UTC").equals(SCHEMA, check_metadata=True)


def test_records_are_rows() -> None:
    data = build_batch(RECORDS, base_offset=7)
    columns = decode_columns(data, first=0, headers=True, microseconds=True)

    batch = to_record_batch(columns, "clicks", 3)

    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA_WITH_HEADERS)
    assert batch.to_pylist() == [
        {
            "key": key,
            "value": value,
            "topic": "clicks",
            "partition": 3,
            "offset": 7 + row,
            "timestamp": datetime.fromtimestamp(time / 1000, UTC),
            "timestampType": 0,
            "headers": [{"key": name, "value": header} for name, header in headers] or None,
        }
        for row, (time, key, value, headers) in enumerate(RECORDS)
    ]


def test_without_headers_there_is_no_such_column() -> None:
    columns = decode_columns(build_batch(RECORDS), first=0, microseconds=True)
    assert to_record_batch(columns, "clicks", 0).schema.equals(SCHEMA)


def test_no_records_are_no_rows() -> None:
    for headers in (False, True):
        batch = to_record_batch(
            decode_columns(b"", first=0, headers=headers, microseconds=True), "t", 0
        )
        batch.validate(full=True)
        assert batch.num_rows == 0


def test_a_header_name_that_is_not_utf8_is_shown_as_javas_clients_show_it() -> None:
    bad = b"\xffname".decode("utf-8", "surrogateescape")
    data = build_batch([(NOW, None, None, [(bad, b"1"), ("good", b"2")])])
    batch = to_record_batch(decode_columns(data, first=0, headers=True), "t", 0)
    batch.validate(full=True)
    assert [pair["key"] for pair in batch["headers"][0].as_py()] == ["\ufffdname", "good"]


def test_rows_are_written_as_they_were_read() -> None:
    columns = decode_columns(build_batch(RECORDS), first=0, headers=True, microseconds=True)

    rows = from_record_batch(to_record_batch(columns, "clicks", 3))

    assert rows.timestamps is not None
    encoded = encode_columns(
        rows.keys,
        rows.values,
        rows=all_rows(rows.count),
        headers=rows.headers,
        timestamps=rows.timestamps,
        batch_bytes=10_000,
    )
    assert encoded.batches == [build_batch(RECORDS)]


def written(batch: object) -> list[Record]:
    rows = from_record_batch(batch)
    encoded = encode_columns(
        rows.keys,
        rows.values,
        rows=all_rows(rows.count),
        headers=rows.headers,
        timestamps=rows.timestamps or NOW,
        batch_bytes=10_000,
    )
    return [record for data in encoded.batches for record in decode_batch(data)]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KEYS = ["a", None, "b", "größe"] * 5
LISTS = [[{"key": "h", "value": b"1"}], None, [], [{"key": "g", "value": None}] * 2] * 5


@pytest.mark.parametrize("start", [0, 1, 7, 9])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_slices_and_other_types_of_text_are_taken_too(kind: object, start: int) -> None:
    keys = pa.array(KEYS, pa.string()).cast(kind)
    values = pa.array([b"%d" % row for row in range(20)])
    batch = pa.record_batch(
        [keys, values, pa.array(LISTS, HEADERS)], names=["key", "value", "headers"]
    ).slice(start, 10)

    assert [(record.key, record.value, record.headers) for record in written(batch)] == [
        (
            None if KEYS[row] is None else str(KEYS[row]).encode(),
            b"%d" % row,
            tuple((pair["key"], pair["value"]) for pair in LISTS[row] or ()),
        )
        for row in range(start, start + 10)
    ]


def test_columns_that_are_missing_or_all_null_are_null() -> None:
    nulls = pa.record_batch([pa.nulls(2), pa.array([b"x", b"y"])], names=["key", "value"])
    assert [(record.key, record.value) for record in written(nulls)] == [(None, b"x"), (None, b"y")]
    keys = pa.record_batch([pa.array([b"x"])], names=["key"])
    assert [(record.key, record.value) for record in written(keys)] == [(b"x", None)]


def test_times_of_any_unit_become_milliseconds() -> None:
    for unit, factor in {"s": 1e-3, "ms": 1, "us": 1000, "ns": 10**6}.items():
        moment = pa.array([int(1_700_000_000_000 * factor)], pa.timestamp(unit, tz="UTC"))
        batch = pa.record_batch([pa.array([b"x"]), moment], names=["value", "timestamp"])
        assert [record.timestamp for record in written(batch)] == [1_700_000_000_000]


def test_what_cannot_be_written_is_refused() -> None:
    times = pa.array([None], pa.timestamp("us"))
    with pytest.raises(ValueError, match="no timestamp"):
        from_record_batch(pa.record_batch([times], names=["timestamp"]))
    nameless = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    with pytest.raises(ValueError, match="no name"):
        from_record_batch(pa.record_batch([nameless], names=["headers"]))


def test_a_key_column_of_nulls_has_no_partitions_of_its_own() -> None:
    rows = from_record_batch(pa.record_batch([pa.array([None, None], pa.binary())], names=["key"]))
    assert rows.keys is None


def test_partitions_follow_the_keys_of_an_arrow_batch() -> None:
    rows = from_record_batch(pa.record_batch([pa.array([b"21", b"foobar", None])], names=["key"]))
    assert rows.keys is not None
    partitions = memoryview(key_partitions(rows.keys, 100)).cast("i").tolist()
    expected = [(-973932308 & 0x7FFFFFFF) % 100, (-790332482 & 0x7FFFFFFF) % 100, -1]
    assert partitions == expected
