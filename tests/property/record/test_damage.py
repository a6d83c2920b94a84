"""Whatever the bytes, batches are read, refused with a reason of ours, or neither: never another error."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import Phase, example, given, settings
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
    compress,
    decode_batch,
    decompress,
    iter_batches,
    read_header,
    rebuild_batch,
    recompress,
    validate_produce,
)
from millpond.record.batch import HEADER_BYTES, BatchHeader, check_crc, write_crc
from millpond.record.validate import validate_header

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


@st.composite
def damaged_records(draw: st.DrawFn) -> bytearray:
    """A batch with damage in its records, before or after they were compressed, or in its header's numbers,
    under a right length and checksum.
    """
    codec = draw(st.sampled_from(Compression))
    header = bytearray(SAMPLES[Compression.NONE][:HEADER_BYTES])
    payload = bytearray(SAMPLES[Compression.NONE][HEADER_BYTES:])
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(payload) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                payload[at] = draw(st.integers(0, 255))
            case 1:
                payload[at:at] = draw(st.binary(max_size=10))
            case 2:
                del payload[at : at + draw(st.integers(0, 10))]
            case _:
                payload[at:at] = payload[: draw(st.integers(0, 60))]
    if draw(st.booleans()):
        at = draw(st.sampled_from([*range(23, 43), *range(57, 61)]))
        header[at] = draw(st.integers(0, 255))
    if draw(st.booleans()):  # as many as it says, and not as there are
        count = draw(st.integers(1, 25))
        header[23:27] = (count - 1).to_bytes(4, "big")
        header[57:61] = count.to_bytes(4, "big")
    header[22] = codec
    body = bytearray(compress(codec, payload))
    if body and draw(st.integers(0, 3)) == 0:
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    data = header + body
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


@given(damaged_records())
def test_what_a_leader_takes_a_reader_reads(data: bytearray) -> None:
    """Damage under a right checksum is refused, or does no harm: as many records as offsets, in order."""
    assert_readable_if_taken(data, validate_produce)


def assert_readable_if_taken(data: bytearray, validate: Callable[..., list[BatchHeader]]) -> None:
    try:
        (header,) = validate(data, message_bytes_max=5000)
    except WRITING_REFUSALS:
        return
    assert check_crc(data, 0, header)
    records = decode_batch(data)
    assert [record.offset for record in records] == list(range(header.record_count))
    assert header.max_timestamp == max(-1, *(record.timestamp for record in records))


@pytest.mark.parametrize("blind", ["the records", "the largest time"])
def test_a_leader_that_does_not_look_is_found(blind: str) -> None:
    """The test above, with a leader that only looks at the header, or leaves its times as they are."""

    def looks_away(data: bytearray, *, message_bytes_max: int) -> list[BatchHeader]:
        (header,) = (
            [validate_header(data, message_bytes_max=message_bytes_max)]
            if blind == "the records"
            else validate_produce(bytearray(data), message_bytes_max=message_bytes_max)
        )
        return [read_header(data)] if blind == "the largest time" else [header]

    @settings(max_examples=2000, database=None, phases=[Phase.generate], report_multiple_bugs=False)
    @given(damaged_records())
    def test(data: bytearray) -> None:
        assert_readable_if_taken(data, looks_away)

    with pytest.raises((AssertionError, *READING_REFUSALS)):
        test()


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
