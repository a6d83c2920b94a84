"""Batches with a right checksum whose records are not what the header says: what no reader could read.

``POISON`` has one maker for each defect. Each gives the header's record count and the records' bytes, not
compressed; ``poisoned`` puts them into a batch under any codec. ``BROKEN_COMPRESSION`` has bodies that are
not compressed data.
"""

from collections.abc import Callable, Mapping

from millpond.base.varint import encode_signed
from millpond.record.batch import HEADER_BYTES, BatchHeader, read_header
from millpond.record.builder import NewRecord, build_batch, encode_records, seal_batch
from millpond.record.compression import Compression, compress

Made = tuple[int, bytes]


def record(
    body: bytes | None = None,
    *,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    size: int | None = None,
) -> bytes:
    """One record from its parts; ``key``, ``value`` and ``headers`` with their lengths before them."""
    if body is None:
        parts = (encode_signed(timestamp_delta), encode_signed(offset_delta), key, value, headers)
        body = b"\x00" + b"".join(parts)
    return encode_signed(len(body) if size is None else size) + body


def _three(**odd: bytes) -> bytes:
    return record() + record(offset_delta=1, **odd) + record(offset_delta=2)  # type: ignore[arg-type]


POISON: Mapping[str, Callable[[], Made]] = {
    "garbage": lambda: (3, b"\xde\xad\xbe\xef" * 20),
    "zeros": lambda: (3, bytes(60)),
    "no bytes at all": lambda: (3, b""),
    "count 1 of 3": lambda: (1, _three()),
    "count 3 of 1": lambda: (3, record()),
    "bytes behind the last": lambda: (3, _three() + b"\x00\x01"),
    "cut in the last": lambda: (3, _three()[:-3]),
    "negative record length": lambda: (3, record() + record(size=-5) + record(offset_delta=2)),
    "record length 0": lambda: (3, record() + b"\x00" + record(offset_delta=2)),
    "record length of gigabytes": lambda: (3, record() + record(size=2**31 - 1)),
    "record length too small by one": lambda: (1, record(size=len(record()) - 2)),
    "record length that never ends": lambda: (3, record() + b"\xff" * 12),
    "key beyond the record": lambda: (3, _three(key=encode_signed(1000) + b"k")),
    "value beyond the record": lambda: (3, _three(value=encode_signed(1000) + b"v")),
    "negative header count": lambda: (3, _three(headers=b"\x01")),
    "headers that are not there": lambda: (3, _three(headers=encode_signed(500))),
    "header without a name": lambda: (3, _three(headers=b"\x02\x01\x01")),
    "header beyond the record": lambda: (3, _three(headers=b"\x02\x7e")),
}

# Apache Kafka takes these: it reads any negative length as null, and looks at no offset in a batch that is
# not compressed. A reader that believes the lengths (librdkafka) or the offsets cannot read them.
STRICTER: Mapping[str, Callable[[], Made]] = {
    "key length -2": lambda: (3, _three(key=encode_signed(-2))),
    "value length -9": lambda: (3, _three(value=encode_signed(-9))),
    "the same offset three times": lambda: (3, record() * 3),
    "an offset beyond the batch": lambda: (
        3,
        record() + record(offset_delta=1) + record(offset_delta=7),
    ),
    "a negative offset": lambda: (3, record() + record(offset_delta=-1) + record(offset_delta=2)),
}

BROKEN_COMPRESSION = {
    Compression.GZIP: b"\x1f\x8b\x08\x00" + b"?" * 40,
    Compression.SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x09"
    + b"\xff" * 9,
    Compression.LZ4: b"\x04\x22\x4d\x18\x60\x40\x82" + b"\x10\x00\x00\x00" + b"\xff" * 16,
    Compression.ZSTD: b"\x28\xb5\x2f\xfd" + b"\xff" * 40,
}


def sealed(
    count: int, body: bytes, codec: Compression | int = Compression.NONE, *, timestamp: int = 0
) -> bytes:
    """A batch with this body under a header for so many records, with a right length and checksum."""
    batch = bytearray(HEADER_BYTES) + body
    header = read_header(build_batch([(timestamp, b"k", b"v", ())]))
    seal_batch(
        batch,
        BatchHeader(
            *header._replace(attributes=int(codec), last_offset_delta=count - 1, record_count=count)
        ),
    )
    return bytes(batch)


def poisoned(made: Made, codec: Compression = Compression.NONE, *, timestamp: int = 0) -> bytes:
    """A batch with these records, compressed as they are."""
    count, payload = made
    body = payload if codec is Compression.NONE else compress(codec, payload)
    return sealed(count, body, codec, timestamp=timestamp)


def bomb(size: int, *, timestamp: int = 0) -> bytes:
    """A small zstd batch with one record of so many bytes."""
    records: list[NewRecord] = [(timestamp, b"k", bytes(size), ())]
    payload = encode_records(records, [0], timestamp)
    return sealed(1, compress(Compression.ZSTD, payload), Compression.ZSTD, timestamp=timestamp)
