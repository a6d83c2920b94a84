"""Whatever the bytes, batches are read, refused with a reason of ours, or neither: never another error."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompression,
)
from millpond.record import (
    Compression,
    EndTxnMarker,
    build_batch,
    decode_batch,
    decompress,
    iter_batches,
    read_header,
    rebuild_batch,
    recompress,
    validate_produce,
)
from millpond.record.batch import HEADER_BYTES, write_crc

NOW = 1_700_000_000_000
READING_REFUSALS = (CorruptBatch, BatchTooLarge, UnsupportedCompression)
WRITING_REFUSALS = (*READING_REFUSALS, InvalidRecord, InvalidTimestamp)
LIMIT = 4 * 1024 * 1024

SAMPLES = {
    codec: build_batch(
        [(NOW + n, b"key %d" % n, b"value " * n, [("h", b"x" * n)]) for n in range(20)],
        compression=codec,
    )
    for codec in Compression
}


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytearray:
    """A batch with some bytes changed, put in or taken out, and perhaps a right checksum again."""
    data = bytearray(SAMPLES[draw(st.sampled_from(Compression))])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                data[at] = draw(st.integers(0, 255))
            case 1:
                data[at : at + 4] = draw(
                    st.sampled_from([b"\xff" * 4, b"\x7f" + b"\xff" * 3, bytes(4)])
                )
            case 2:
                data[at:at] = draw(st.binary(max_size=10))
            case _:
                del data[at : at + draw(st.integers(0, 10))]
        if len(data) < HEADER_BYTES:
            return data
    if draw(st.booleans()):
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        write_crc(data, 0, len(data))
    return data


def read_everything(data: bytes | bytearray) -> None:
    header = read_header(data)
    records = decode_batch(data, limit=LIMIT)
    # What could be read can be written again, and then means the same.
    assert decode_batch(rebuild_batch(header, records), limit=LIMIT) == records
    again = recompress(data, Compression.NONE)
    assert decode_batch(again, limit=LIMIT) == records
    for record in records:
        with suppress(CorruptBatch):
            EndTxnMarker.parse(record)


def only(refusals: tuple[type[Exception], ...], act: Callable[[], object]) -> None:
    with suppress(*refusals):
        act()


@given(st.one_of(damaged_batches(), st.binary(max_size=200)))
@example(bytearray(61))
def test_reading(data: bytearray) -> None:
    only(READING_REFUSALS, lambda: list(iter_batches(data)))
    only(READING_REFUSALS, lambda: read_everything(data))


@given(st.one_of(damaged_batches(), st.binary(max_size=200)), st.booleans())
def test_validating(data: bytearray, keys_required: bool) -> None:
    only(
        WRITING_REFUSALS,
        lambda: validate_produce(
            data,
            message_bytes_max=5000,
            now_ms=NOW,
            before_max_ms=1000,
            after_max_ms=1000,
            keys_required=keys_required,
        ),
    )


@pytest.mark.parametrize("codec", Compression)
@given(st.data())
def test_decompressing(codec: Compression, data: st.DataObject) -> None:
    sample = bytes(SAMPLES[codec])[HEADER_BYTES:]
    at = data.draw(st.integers(0, len(sample)))
    junk = data.draw(st.binary(max_size=12))
    skip = data.draw(st.integers(0, 12))
    only(
        READING_REFUSALS, lambda: decompress(codec, sample[:at] + junk + sample[at + skip :], LIMIT)
    )
    only(READING_REFUSALS, lambda: decompress(codec, junk, LIMIT))
