"""Batches against two other implementations: what they write we read, what we write they read.

kafka-python is pure Python with zlib, python-snappy, lz4 and zstandard; aiokafka is Cython with cramjam.
"""

import importlib
import warnings
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.record import (
    Compression,
    NewRecord,
    Record,
    build_batch,
    check_crc,
    decode_batch,
    read_header,
    validate_produce,
)

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # kafka-python reads its schemas in a deprecated way when imported
    kafka_python_records = importlib.import_module("kafka.record.default_records")

ORACLES: dict[str, Any] = {"aiokafka": aiokafka_records, "kafka-python": kafka_python_records}

payloads = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(lambda size: b"x" * size, st.sampled_from([63, 64, 127, 128, 8191, 8192, 20_000])),
)
header_lists = st.lists(
    st.tuples(st.text(max_size=10), st.one_of(st.none(), st.binary(max_size=70))), max_size=4
)
timestamps = st.one_of(
    st.integers(1_600_000_000_000, 1_900_000_000_000), st.integers(0, 300), st.integers(0, 2**44)
)
record_lists: st.SearchStrategy[list[NewRecord]] = st.lists(
    st.tuples(timestamps, payloads, payloads, header_lists), min_size=1, max_size=150
)
producers = st.one_of(
    st.just((-1, -1, -1)),
    st.tuples(st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
)


def build_by_oracle(
    module: Any, records: list[NewRecord], compression: int, producer: tuple[int, int, int]
) -> bytes:
    builder = module.DefaultRecordBatchBuilder(2, compression, 0, *producer, 2**30)
    for offset, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


def read_by_oracle(module: Any, batch: bytes) -> list[Record]:
    reader = module.DefaultRecordBatch(bytearray(batch))
    assert reader.validate_crc()
    return [
        Record(item.offset, item.timestamp, item.key, item.value, tuple(item.headers))
        for item in reader
    ]


def expected(records: list[NewRecord]) -> list[Record]:
    return [
        Record(offset, timestamp, key, value, tuple(headers))
        for offset, (timestamp, key, value, headers) in enumerate(records)
    ]


@pytest.mark.parametrize("oracle", ORACLES)
@given(record_lists, st.sampled_from(Compression), producers)
def test_we_read_what_they_write(
    oracle: str, records: list[NewRecord], codec: Compression, producer: tuple[int, int, int]
) -> None:
    batch = build_by_oracle(ORACLES[oracle], records, codec, producer)

    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.size == len(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert decode_batch(batch) == expected(records)
    assert validate_produce(bytearray(batch), message_bytes_max=len(batch)) == [header]


@pytest.mark.parametrize("oracle", ORACLES)
@given(record_lists, st.sampled_from(Compression))
def test_they_read_what_we_write(oracle: str, records: list[NewRecord], codec: Compression) -> None:
    batch = build_batch(records, compression=codec)
    assert read_by_oracle(ORACLES[oracle], bytes(batch)) == expected(records)


@pytest.mark.parametrize("oracle", ORACLES)
@given(record_lists, producers)
def test_uncompressed_bytes_are_the_same(
    oracle: str, records: list[NewRecord], producer: tuple[int, int, int]
) -> None:
    theirs = bytearray(build_by_oracle(ORACLES[oracle], records, 0, producer))
    ours = build_batch(
        records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2]
    )
    theirs[12:16] = ours[12:16]  # the leader epoch is the broker's business; clients differ in it
    assert ours == theirs
