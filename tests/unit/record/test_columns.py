"""Fetched bytes become columns, and columns become batches again."""

from array import array

import pytest

from millpond.base.errors import BatchTooLarge, CorruptBatch
from millpond.record import (
    Compression,
    EndTxnMarker,
    build_batch,
    columns_python,
    decode_batch,
    read_header,
    set_append_time,
)
from millpond.record.builder import NewRecord
from millpond.record.columns import (
    BinaryColumn,
    Columns,
    HeaderColumn,
    decode_columns,
    encode_columns,
    group_rows,
    iter_columns,
    key_partitions,
)
from millpond.record.compiled import COMPILED

NOW = 1_700_000_000_000


@pytest.fixture(params=["in C", "in Python"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every story is told twice: with the kernels in C, where they are built, and with their twins."""
    if request.param == "in C":
        if not COMPILED:
            pytest.skip("the kernels in C are not built here")
        return
    twins = {
        "_decode_batches": columns_python.decode,
        "_encode_rows": columns_python.encode,
        "_partitions": columns_python.partitions,
        "_group": columns_python.group,
    }
    for name, twin in twins.items():
        monkeypatch.setattr(f"millpond.record.columns.{name}", twin)


def numbers(buffer: object, kind: str = "i") -> list[int]:
    return array(kind, bytes(buffer)).tolist()  # type: ignore[call-overload]


def items(column: BinaryColumn) -> list[bytes | None]:
    offsets, data = numbers(column.offsets), bytes(column.data)
    present = [
        column.validity is None or bool(column.validity[row // 8] >> row % 8 & 1)
        for row in range(len(offsets) - 1)
    ]
    return [data[offsets[n] : offsets[n + 1]] if here else None for n, here in enumerate(present)]


def column(*values: bytes | None) -> BinaryColumn:
    lengths = [len(value or b"") for value in values]
    offsets = array("i", [sum(lengths[:row]) for row in range(len(values) + 1)])
    bits = sum(1 << row for row, value in enumerate(values) if value is not None)
    data = b"".join(value or b"" for value in values)
    return BinaryColumn(offsets.tobytes(), data, bits.to_bytes(len(values) // 8 + 1, "little"))


def rows(*chosen: int) -> bytes:
    return array("i", chosen).tobytes()


def batch(base_offset: int, *values: bytes, **settings: object) -> bytes:
    records: list[NewRecord] = [(NOW + n, b"k", value, ()) for n, value in enumerate(values)]
    return bytes(build_batch(records, base_offset=base_offset, **settings))  # type: ignore[arg-type]


def transaction(base_offset: int, producer_id: int, *values: bytes) -> bytes:
    return batch(
        base_offset,
        *values,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(base_offset: int, producer_id: int, *, committed: bool) -> bytes:
    end = EndTxnMarker(committed=committed, coordinator_epoch=0)
    return bytes(
        end.build(timestamp=NOW, producer_id=producer_id, producer_epoch=0, base_offset=base_offset)
    )


def test_every_field_of_a_record_has_its_column() -> None:
    data = build_batch(
        [
            (NOW, b"a", b"one", [("trace", b"1"), ("empty", None)]),
            (NOW + 1, None, b"two", ()),
            (NOW + 2, b"", None, [("trace", b"")]),
        ],
        base_offset=40,
    )

    columns = decode_columns(data, first=0, headers=True)

    assert columns.count == 3
    assert numbers(columns.offsets, "q") == [40, 41, 42]
    assert numbers(columns.timestamps, "q") == [NOW, NOW + 1, NOW + 2]
    assert numbers(columns.timestamp_types) == [0, 0, 0]
    assert items(columns.keys) == [b"a", None, b""]
    assert items(columns.values) == [b"one", b"two", None]
    assert columns.headers is not None
    assert numbers(columns.headers.offsets) == [0, 2, 2, 3]
    assert columns.headers.validity == b"\x05"
    assert items(columns.headers.names) == [b"trace", b"empty", b"trace"]
    assert items(columns.headers.values) == [b"1", None, b""]
    assert columns.next_offset == 43


def test_columns_without_nulls_carry_no_validity() -> None:
    columns = decode_columns(batch(0, b"one", b"two"), first=0)
    assert (columns.keys.validity, columns.values.validity) == (None, None)
    assert columns.headers is None


def test_times_in_microseconds_stop_at_what_64_bits_hold() -> None:
    far = build_batch([(0, None, None, ()), (2**62, None, None, ()), (-(2**62), None, None, ())])
    columns = decode_columns(far, first=0, microseconds=True)
    assert numbers(columns.timestamps, "q") == [0, 2**63 - 1, -(2**63)]


def test_a_brokers_time_is_every_records_time() -> None:
    data = bytearray(batch(0, b"one", b"two"))
    set_append_time(data, 0, read_header(data), NOW + 99)

    columns = decode_columns(data, first=0)

    assert numbers(columns.timestamps, "q") == [NOW + 99, NOW + 99]
    assert numbers(columns.timestamp_types) == [1, 1]


@pytest.mark.parametrize("codec", Compression)
def test_only_the_offsets_that_were_asked_for_are_read(codec: Compression) -> None:
    data = b"".join(
        batch(base, b"%d" % base, b"%d" % (base + 1), compression=codec) for base in (0, 2, 4, 6)
    )
    columns = decode_columns(data, first=3, end=6)
    assert items(columns.values) == [b"3", b"4", b"5"]
    assert columns.next_offset == 6


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    data = batch(0, b"one") + batch(1, b"two")[:-1]
    columns = decode_columns(data, first=0)
    assert (items(columns.values), columns.next_offset) == ([b"one"], 1)
    assert decode_columns(data[:10], first=7).next_offset == 7


def test_reading_goes_on_behind_offsets_that_compaction_removed() -> None:
    data = batch(0, b"one") + batch(50, b"two")
    assert decode_columns(data, first=0, end=20).next_offset == 20
    assert decode_columns(data, first=0, end=60).next_offset == 51


def test_chunks_end_with_batches_and_lose_nothing() -> None:
    data = b"".join(batch(base, b"x" * 10, b"y" * 10) for base in range(0, 20, 2))

    by_rows = list(iter_columns(data, first=0, rows_max=5))
    by_bytes = list(iter_columns(data, first=0, bytes_max=1))

    assert [chunk.count for chunk in by_rows] == [4, 4, 4, 4, 4]
    assert [chunk.next_offset for chunk in by_rows] == [4, 8, 12, 16, 20]
    assert [chunk.count for chunk in by_bytes] == [2] * 10


def test_markers_are_not_records() -> None:
    data = transaction(0, 7, b"one") + marker(1, 7, committed=True)
    columns = decode_columns(data, first=0)
    assert (items(columns.values), columns.next_offset) == ([b"one"], 2)


def test_aborted_transactions_are_not_read_but_later_ones_of_their_producer_are() -> None:
    data = (
        transaction(0, 7, b"aborted")
        + transaction(1, 8, b"of another")
        + batch(2, b"plain")
        + transaction(3, 7, b"aborted too")
        + marker(4, 7, committed=False)
        + transaction(5, 7, b"committed")
        + marker(6, 7, committed=True)
        + marker(7, 8, committed=True)
    )

    def values(chunks: list[Columns]) -> list[bytes | None]:
        return [value for chunk in chunks for value in items(chunk.values)]

    wanted = [b"of another", b"plain", b"committed"]
    committed = list(iter_columns(data, first=0, aborted=[(7, 0)]))
    assert values(committed) == wanted
    assert committed[-1].next_offset == 8
    assert values(list(iter_columns(data, first=0, aborted=[(7, 0)], rows_max=1))) == wanted
    assert values([decode_columns(data, first=5, aborted=[(7, 0)])]) == [b"committed"]
    assert len(values(list(iter_columns(data, first=0)))) == 5


def test_a_damaged_batch_is_refused() -> None:
    data = bytearray(batch(0, b"one") + batch(1, b"two"))
    data[-2] ^= 1
    with pytest.raises(CorruptBatch, match="offsets 1 to 1 has the wrong checksum"):
        decode_columns(data, first=0)
    assert items(decode_columns(data, first=0, end=1).values) == [b"one"]


def test_damaged_records_are_refused_with_the_reason() -> None:
    broken = bytearray(build_batch([(NOW, b"k", b"v", [("h", b"x")])]))
    broken[-2] = 0x7E
    with pytest.raises(CorruptBatch, match="header value of 63 bytes, 1 are left"):
        decode_columns(broken, first=0, check_crcs=False)


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_that_would_grow_too_large_is_refused(
    codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millpond.record.columns.DECOMPRESSED_BYTES_MAX", 100_000)
    with pytest.raises(BatchTooLarge):
        decode_columns(batch(0, bytes(100_000), compression=codec), first=0)


def test_chosen_rows_become_batches() -> None:
    keys = column(b"a", None, b"c", b"")
    values = column(b"1", b"2", None, b"4")
    headers = HeaderColumn(rows(0, 1, 1, 1, 2), b"\x09", column(b"h", b"g"), column(b"x", None))

    encoded = encode_columns(
        keys,
        values,
        rows=rows(3, 1, 0),
        headers=headers,
        timestamps=array("q", [NOW, NOW + 5, NOW, NOW - 3]).tobytes(),
        batch_bytes=1024,
        compression=Compression.LZ4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        transactional=True,
    )

    (data,) = encoded.batches
    assert [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in decode_batch(data)
    ] == [
        (0, NOW - 3, b"", b"4", (("g", None),)),
        (1, NOW + 5, None, b"2", ()),
        (2, NOW, b"a", b"1", (("h", b"x"),)),
    ]
    assert data == build_batch(
        [
            (NOW - 3, b"", b"4", [("g", None)]),
            (NOW + 5, None, b"2", ()),
            (NOW, b"a", b"1", [("h", b"x")]),
        ],
        compression=Compression.LZ4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    assert encoded.next_sequence == 1


def test_batches_are_bounded_and_numbered_on() -> None:
    values = column(*[b"v" * 30] * 10, b"x" * 500)

    encoded = encode_columns(
        None, values, rows=rows(*range(11)), timestamps=NOW, batch_bytes=200, base_sequence=100
    )

    headers = [read_header(data) for data in encoded.batches]
    assert [header.record_count for header in headers] == [3, 3, 3, 1, 1]
    assert [header.base_sequence for header in headers] == [100, 103, 106, 109, 110]
    assert all(len(data) <= 200 for data in encoded.batches[:-1])
    assert encoded.next_sequence == 111


def test_no_rows_are_no_batches() -> None:
    encoded = encode_columns(None, None, rows=b"", timestamps=0, batch_bytes=100)
    assert (encoded.batches, encoded.next_sequence) == ([], -1)


@pytest.mark.parametrize(
    "bad",
    [
        BinaryColumn(rows(0, 1), b"x", None),
        BinaryColumn(rows(0, 1, 3), b"xy", None),
        BinaryColumn(rows(0, 2, 1), b"xy", None),
        BinaryColumn(rows(-1, -1, 1), b"xy", None),
        BinaryColumn(rows(0, 1, 2), b"xy", b""),
    ],
)
def test_columns_that_contradict_themselves_are_refused(bad: BinaryColumn) -> None:
    with pytest.raises(ValueError):
        encode_columns(None, bad, rows=rows(0, 1), timestamps=0, batch_bytes=100)


def test_rows_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError):
        encode_columns(None, None, rows=rows(-1), timestamps=0, batch_bytes=100)
    with pytest.raises(ValueError):
        encode_columns(None, None, rows=rows(1), timestamps=bytes(8), batch_bytes=100)


# Hashes of Java's client, by its authors.
JAVA_HASHES = {
    b"": 275646681,
    b"21": -973932308,
    b"abc": 479470107,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"string-fo-25-chars-length": 1269511650,
    b"string-foo-26-chars-length": 119165628,
    b"string-last-27-chars-length": 1089971754,
}


@pytest.mark.parametrize("count", [1, 7, 2**31 - 1])
def test_keys_go_where_javas_clients_send_them(count: int) -> None:
    expected = [(java & 0x7FFFFFFF) % count for java in JAVA_HASHES.values()]
    assert numbers(key_partitions(column(*JAVA_HASHES), count)) == expected


def test_rows_without_a_key_go_where_the_caller_says() -> None:
    assert numbers(key_partitions(column(None, None), 7)) == [-1, -1]
    assert numbers(key_partitions(column(None, None), 7, keyless=5)) == [5, 5]


def test_rows_are_grouped_in_their_order() -> None:
    assert [numbers(group) for group in group_rows(rows(2, 0, 2, 0, 3), 4)] == [
        [1, 3],
        [],
        [0, 2],
        [4],
    ]
    with pytest.raises(ValueError):
        group_rows(rows(0, 4), 4)
    with pytest.raises(ValueError):
        group_rows(rows(0, -1), 4)
