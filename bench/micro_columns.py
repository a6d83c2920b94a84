"""The record codec: records per second and core, by implementation.

Processor time, not wall time, so that a busy machine disturbs less. Records have a key of 10 bytes and a
value of 100; batches are not compressed. aiokafka's records are its Cython ones; it and PyArrow are left out
where they are not installed.

    python -m bench.micro_columns [--rounds 7] [--rows 50000]
"""

from __future__ import annotations

import argparse
import random
import time
from array import array
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.micro_codecs import optional
from millpond.record import build_batch, columns, columns_python, decode_batch, iter_batches
from millpond.record.builder import NewRecord, encode_records_python
from millpond.record.columns import BinaryColumn, encode_columns, iter_columns
from millpond.record.compiled import COMPILED
from millpond.record.records import batch_payload, decode_records_python

NOW = 1_700_000_000_000
KEY_BYTES = 10
VALUE_BYTES = 100


def log(rows: int, per_batch: int) -> bytes:
    """Return batches as a broker sends them."""
    chance = random.Random(5)
    data = bytearray()
    for base in range(0, rows, per_batch):
        records: list[NewRecord] = [
            (NOW + row, b"%010d" % row, chance.randbytes(VALUE_BYTES), ())
            for row in range(base, min(base + per_batch, rows))
        ]
        data += build_batch(records, base_offset=base)
    return bytes(data)


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(jobs: dict[str, Callable[[], object]], rows: int, rounds: int) -> None:
    """Print million records per second: the median of interleaved rounds."""
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            samples[name].append(seconds(job))
    for name, times in samples.items():
        best, middle = rows / min(times) / 1e6, rows / median(times) / 1e6
        print(f"| {name} | {middle:.2f} | {best:.2f} |")


def heading(title: str) -> None:
    print(f"\n| {title} | M records/s (median) | (best) |\n|---|--:|--:|")


def with_twins(job: Callable[[], object]) -> Callable[[], object]:
    """Return the job with the Python kernels."""

    def run() -> object:
        compiled = columns._decode_batches, columns._encode_rows
        columns._decode_batches, columns._encode_rows = columns_python.decode, columns_python.encode
        try:
            return job()
        finally:
            columns._decode_batches, columns._encode_rows = compiled

    return run


def decoding(rows: int, per_batch: int, rounds: int) -> None:
    data = log(rows, per_batch)

    def to_columns() -> None:
        for _ in iter_columns(data, first=0, microseconds=True):
            pass

    def to_records() -> None:
        for position, _ in iter_batches(data):
            decode_batch(data, position)

    def to_records_python() -> None:
        for position, header in iter_batches(data):
            decode_records_python(batch_payload(data, position, header), header)

    jobs: dict[str, Callable[[], object]] = {}
    if COMPILED:
        jobs["columns, C"] = to_columns
    jobs["columns, Python"] = with_twins(to_columns)
    if optional("pyarrow") is not None:
        from millpond.spark.arrow import to_record_batch

        def to_arrow() -> None:
            for chunk in iter_columns(data, first=0, microseconds=True):
                to_record_batch(chunk, "clicks", 0)

        jobs["columns to Arrow" + (", C" if COMPILED else ", Python")] = to_arrow
    if COMPILED:
        jobs["Record objects, C"] = to_records
    jobs["Record objects, Python"] = to_records_python
    aiokafka = optional("aiokafka.record.memory_records")
    if aiokafka is not None:

        def to_aiokafka() -> None:
            source = aiokafka.MemoryRecords(data)
            while (batch := source.next_batch()) is not None:
                for record in batch:
                    _ = record.key, record.value, record.offset, record.timestamp

        jobs["aiokafka's objects (no checksums)"] = to_aiokafka
    heading(f"decode, {per_batch} records a batch")
    measure(jobs, rows, rounds)


def encoding(rows: int, batch_bytes: int, rounds: int) -> None:
    chance = random.Random(6)
    keys = BinaryColumn(
        array("i", range(0, rows * KEY_BYTES + 1, KEY_BYTES)).tobytes(),
        b"".join(b"%010d" % row for row in range(rows)),
        None,
    )
    values = BinaryColumn(
        array("i", range(0, rows * VALUE_BYTES + 1, VALUE_BYTES)).tobytes(),
        chance.randbytes(rows * VALUE_BYTES),
        None,
    )
    chosen = array("i", range(rows)).tobytes()
    count = batch_bytes // (KEY_BYTES + VALUE_BYTES + 10)
    value = chance.randbytes(VALUE_BYTES)
    records: list[NewRecord] = [(NOW, b"%010d" % row, value, ()) for row in range(count)]
    deltas = range(count)

    def from_columns() -> object:
        return encode_columns(keys, values, rows=chosen, timestamps=NOW, batch_bytes=batch_bytes)

    def from_records() -> None:
        for _ in range(rows // count):
            build_batch(records)

    def from_records_python() -> None:
        for _ in range(rows // count):
            encode_records_python(records, deltas, NOW)

    jobs: dict[str, Callable[[], object]] = {}
    if COMPILED:
        jobs["columns, C"] = from_columns
    jobs["columns, Python"] = with_twins(from_columns)
    if COMPILED:
        jobs["tuples, C"] = from_records
    jobs["tuples, Python"] = from_records_python
    aiokafka: Any = optional("aiokafka.record.default_records")
    if aiokafka is not None:

        def from_aiokafka() -> None:
            for _ in range(rows // count):
                builder = aiokafka.DefaultRecordBatchBuilder(
                    magic=2,
                    compression_type=0,
                    is_transactional=0,
                    producer_id=-1,
                    producer_epoch=-1,
                    base_sequence=-1,
                    batch_size=1 << 30,
                )
                for index, (timestamp, key, content, _) in enumerate(records):
                    builder.append(index, timestamp, key, content, [])
                builder.build()

        jobs["aiokafka's builder"] = from_aiokafka
    heading(f"encode, batches of {batch_bytes} bytes")
    measure(jobs, rows, rounds)


def partitioning(rows: int, rounds: int) -> None:
    keys = BinaryColumn(
        array("i", range(0, rows * KEY_BYTES + 1, KEY_BYTES)).tobytes(),
        b"".join(b"%010d" % row for row in range(rows)),
        None,
    )
    jobs: dict[str, Callable[[], object]] = {}
    if COMPILED:
        jobs["partition by key, then group, C"] = lambda: columns.group_rows(
            columns.key_partitions(keys, 16), 16
        )
    jobs["the same in Python"] = lambda: columns_python.group(
        columns_python.partitions(keys, 16, -1), 16
    )
    heading("partitions, keys of 10 bytes")
    measure(jobs, rows, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=50_000)
    options = parser.parse_args()
    print(f"kernels in C: {'yes' if COMPILED else 'no'}")
    for per_batch in (10, 140, 5000):
        decoding(options.rows, per_batch, options.rounds)
    for batch_bytes in (16_384, 1_000_000):
        encoding(options.rows, batch_bytes, options.rounds)
    partitioning(options.rows, options.rounds)


if __name__ == "__main__":
    main()
