"""What a leader takes from a client, and what it refuses with which reason."""

from typing import Any

import pytest

from millpond.base import limits
from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MillpondError,
    UnsupportedCompression,
)
from millpond.record import (
    Compression,
    EndTxnMarker,
    build_batch,
    decode_batch,
    read_header,
    set_append_time,
    validate,
    validate_produce,
)
from millpond.record.batch import HEADER_BYTES, write_crc
from millpond.record.inspection import ScratchBuffer, decode_slice
from millpond.record.validate import TopicRules, validate_at_once, validate_records
from tests.support.storage.poison import (
    BROKEN_COMPRESSION,
    POISON,
    STRICTER,
    bomb,
    poisoned,
    sealed,
)

NOW = 1_700_000_000_000
HOUR = 3_600_000


def batch(**options: Any) -> bytearray:
    return build_batch([(NOW + n, b"k", b"v", ()) for n in range(3)], **options)


def changed(at: int, value: bytes, source: bytearray | None = None) -> bytearray:
    """A batch with some bytes replaced and its checksum put right again."""
    data = batch() if source is None else source
    data[at : at + len(value)] = value
    write_crc(data, 0, len(data))
    return data


def refusal(data: bytes | bytearray, **options: Any) -> MillpondError:
    with pytest.raises(MillpondError) as caught:
        validate_produce(bytearray(data), **({"message_bytes_max": 10_000} | options))
    return caught.value


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("compression", Compression)
def test_takes_what_clients_send(kind: type, compression: Compression) -> None:
    data = batch(compression=compression, producer_id=7, producer_epoch=0, base_sequence=0)
    headers = validate_produce(
        kind(data), message_bytes_max=len(data), now_ms=NOW, before_max_ms=HOUR, after_max_ms=HOUR
    )
    assert headers == [read_header(data)]


def test_nothing_is_no_batch() -> None:
    error = refusal(b"")
    assert type(error) is InvalidRecord


def test_one_batch_and_no_more() -> None:
    data = batch()
    assert "more than one" in str(refusal(data + data))
    assert type(refusal(data + data)) is InvalidRecord
    assert type(refusal(data + b"xyz")) is CorruptBatch
    # No whole batch is none at all.
    assert type(refusal(data[:-1])) is InvalidRecord
    assert type(refusal(data[:30])) is InvalidRecord
    assert type(refusal(data[:5])) is InvalidRecord


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_impossible_lengths(length: int) -> None:
    data = batch()
    data[8:12] = length.to_bytes(4, "big", signed=True)
    assert type(refusal(data)) is CorruptBatch


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats(magic: int) -> None:
    data = batch()
    data[16] = magic
    assert type(refusal(data)) is InvalidRecord
    assert type(refusal(data[:40])) is InvalidRecord


def test_a_wrong_checksum() -> None:
    data = batch()
    data[-1] ^= 1
    assert type(refusal(data)) is CorruptBatch
    assert "checksum" in str(refusal(data))


def test_a_batch_over_the_topics_limit() -> None:
    data = batch()
    assert type(refusal(data, message_bytes_max=len(data) - 1)) is BatchTooLarge


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (57, b"\x00\x00\x00\x00", "0 records"),
        (57, b"\xff\xff\xff\xff", "-1 records"),
        (57, b"\x00\x00\x00\x02", "2 records cannot have the last offset 2"),
        (23, b"\xff\xff\xff\xff", "last offset -1"),
        (0, b"\x00\x00\x00\x00\x00\x00\x00\x01", "base offset is 1"),
        (43, b"\x00\x00\x00\x00\x00\x00\x00\x09", "producer 9 sent a batch with sequence -1"),
    ],
)
def test_headers_that_contradict_themselves(at: int, value: bytes, reason: str) -> None:
    error = refusal(changed(at, value))
    assert type(error) is InvalidRecord
    assert reason in str(error)


def test_more_records_than_fit_without_compression() -> None:
    data = changed(57, (1000).to_bytes(4, "big"))
    error = refusal(changed(23, (999).to_bytes(4, "big"), data))
    assert type(error) is InvalidRecord
    assert "cannot fit" in str(error)


def test_clients_write_no_markers() -> None:
    marker = EndTxnMarker(committed=True, coordinator_epoch=0)
    data = marker.build(timestamp=NOW, producer_id=1, producer_epoch=0)
    assert "control" in str(refusal(data))
    assert type(refusal(data)) is InvalidRecord


def test_clients_do_not_set_the_append_time() -> None:
    data = batch()
    set_append_time(data, 0, read_header(data), NOW)
    assert type(refusal(data)) is InvalidTimestamp


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    assert type(refusal(changed(22, bytes([codec])))) is UnsupportedCompression


def test_zstd_came_with_version_7() -> None:
    data = batch(compression=Compression.ZSTD)
    assert type(refusal(data, allows_zstd=False)) is UnsupportedCompression
    assert validate_produce(data, message_bytes_max=1000, allows_zstd=True)
    assert validate_produce(
        batch(compression=Compression.LZ4), message_bytes_max=1000, allows_zstd=False
    )


def test_times_must_be_near_enough() -> None:
    data = batch()  # from NOW to NOW + 2
    limits: dict[str, Any] = {"before_max_ms": HOUR, "after_max_ms": HOUR}
    for now in (NOW + HOUR, NOW + 2 - HOUR):
        assert validate_produce(data, message_bytes_max=1000, now_ms=now, **limits)
    for now in (NOW + HOUR + 1, NOW + 1 - HOUR):
        assert type(refusal(data, now_ms=now, **limits)) is InvalidTimestamp
        # The leader's own time will replace the client's, so the client's does not matter.
        assert validate_produce(
            data, message_bytes_max=1000, now_ms=now, append_time=True, **limits
        )


@pytest.mark.parametrize("timestamp", [-(2**63 - 1), -2, 0, 2**63 - 1])
def test_the_largest_bound_allows_any_time(timestamp: int) -> None:
    data = build_batch([(timestamp, None, b"v", ())])
    assert validate_produce(data, message_bytes_max=1000, now_ms=NOW)


def test_a_missing_time_is_not_too_old() -> None:
    data = build_batch([(-1, None, b"v", ())])
    assert validate_produce(data, message_bytes_max=1000, now_ms=NOW, before_max_ms=HOUR)


@pytest.mark.parametrize("compression", Compression)
def test_compacted_topics_need_keys(compression: Compression) -> None:
    with_keys = batch(compression=compression)
    assert validate_produce(with_keys, message_bytes_max=1000, keys_required=True)
    without = build_batch([(NOW, b"k", b"v", ()), (NOW, None, b"v", ())], compression=compression)
    assert type(refusal(without, keys_required=True)) is InvalidRecord
    assert validate_produce(without, message_bytes_max=1000)


def test_a_compacted_topic_bounds_the_records_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "LOOKED_AT_RECORDS_MAX", 2)
    two, three = (build_batch([(0, b"k", b"", ())] * count) for count in (2, 3))

    assert validate_produce(two, message_bytes_max=1000, keys_required=True)
    assert validate_produce(three, message_bytes_max=1000)
    with pytest.raises(BatchTooLarge):
        validate_produce(three, message_bytes_max=1000, keys_required=True)


# --- every record is read ---------------------------------------------------------------------


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("defect", [*POISON, *STRICTER])
def test_records_that_nobody_could_read(defect: str, codec: Compression) -> None:
    error = refusal(poisoned({**POISON, **STRICTER}[defect](), codec, timestamp=NOW))
    assert type(error) is InvalidRecord
    assert error.positions == ()


@pytest.mark.parametrize("codec", BROKEN_COMPRESSION)
def test_records_that_cannot_be_decompressed(codec: Compression) -> None:
    error = refusal(sealed(1, BROKEN_COMPRESSION[codec], codec))
    assert type(error) is InvalidRecord
    assert "decompressed" in str(error)


@pytest.mark.parametrize("codec", Compression)
def test_a_header_that_lies_about_the_largest_time_is_put_right(codec: Compression) -> None:
    data = batch(compression=codec)
    lies = changed(35, (NOW + 1_000 * HOUR).to_bytes(8, "big"), bytearray(data))
    (header,) = validate_produce(lies, message_bytes_max=10_000)
    assert header.max_timestamp == NOW + 2
    assert lies == data


def test_the_records_whose_time_is_refused_are_named() -> None:
    times = [NOW, NOW - 2 * HOUR, NOW, -1, NOW + 2 * HOUR]
    data = build_batch([(time, b"k", b"v", ()) for time in times])
    error = refusal(data, now_ms=NOW, before_max_ms=HOUR, after_max_ms=HOUR)
    assert isinstance(error, InvalidTimestamp)
    assert error.positions == (1, 4)


def test_records_that_grow_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "APPENDED_DECOMPRESSED_BYTES_MAX", 2 * 1024 * 1024)
    assert type(refusal(bytearray(bomb(3 * 1024 * 1024)))) is BatchTooLarge
    taken = bytearray(bomb(2 * 1024 * 1024 - 100))
    assert validate_produce(taken, message_bytes_max=10_000) == [read_header(taken)]


@pytest.mark.parametrize(
    ("records", "takes_long"),
    [(build_batch([(NOW, None, b"x" * 1000, ())]), False), (bytearray(bomb(300_000)), True)],
)
def test_what_takes_long_is_left_to_a_thread(records: bytearray, takes_long: bool) -> None:
    header = read_header(records)
    rules = TopicRules(10_000)
    at_once = validate_at_once(
        records, header, rules, NOW, ScratchBuffer(limits.LOOP_DECOMPRESSED_BYTES_MAX)
    )
    assert (at_once is None) == takes_long
    assert validate_records(records, header, rules, NOW).header.record_count == 1


def test_a_slice_of_a_batch_is_decoded() -> None:
    data = build_batch([(NOW + n, b"k", b"%d" % n, ()) for n in range(50)])
    header, everything = read_header(data), decode_batch(data)
    payload = bytes(data[HEADER_BYTES:])
    for first in range(50):
        for count in (1, 7, 49):
            assert decode_slice(payload, header, first, count) == everything[first : first + count]
    assert decode_slice(payload, header, 3, 50) == everything


@pytest.mark.parametrize("codec", Compression)
def test_records_are_brought_under_the_codec_of_the_topic(codec: Compression) -> None:
    sent = batch(compression=Compression.SNAPPY)
    rules = TopicRules(10_000, codec=codec)
    data, header = validate_records(sent, read_header(sent), rules, NOW)
    assert header == read_header(data)
    assert header.compression == codec
    assert decode_batch(data) == decode_batch(batch())
