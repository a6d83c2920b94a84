"""Records inside batches: what is written is read, what is damaged is refused, what is kept stays."""

import pytest

from millpond.base.errors import BatchTooLarge, CorruptBatch, UnsupportedCompression
from millpond.base.varint import encode_signed
from millpond.record import (
    Compression,
    Record,
    build_batch,
    check_crc,
    decode_batch,
    decode_records,
    read_header,
    rebuild_batch,
    recompress,
)
from tests.unit.record.test_batch import TRANSACTIONAL

NOW = 1_700_000_000_000


def test_decodes_the_golden_batch() -> None:
    assert decode_batch(TRANSACTIONAL) == [
        Record(0, 1700000000123, b"k", b"v", (("h", b"x"), ("n", None))),
        Record(1, 1700000000100, b"k", None, ()),
        Record(2, 1700000009999, None, b"", (("", b""),)),
    ]


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 8190, 8191, 8192, 70_000])
def test_lengths_around_the_edges_of_varints(size: int) -> None:
    data = b"x" * size
    batch = build_batch([(NOW, data, data, [("h" * size, data)])])
    assert decode_batch(batch) == [Record(0, NOW, data, data, (("h" * size, data),))]


@pytest.mark.parametrize(
    "delta", [0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8193, 2**31, -(2**31), 2**42, -(2**40)]
)
def test_timestamps_may_go_either_way(delta: int) -> None:
    batch = build_batch([(NOW, None, b"", ()), (NOW + delta, None, b"", ())])
    assert [record.timestamp for record in decode_batch(batch)] == [NOW, NOW + delta]
    assert read_header(batch).max_timestamp == max(NOW, NOW + delta)


def test_header_names_keep_bytes_that_are_not_utf8() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    batch = build_batch([(NOW, None, None, [(name, b"v"), ("größe", b"1")])])
    [record] = decode_batch(batch)
    assert record.headers == ((name, b"v"), ("größe", b"1"))
    assert rebuild_batch(read_header(batch), [record]) == batch


def test_offsets_may_have_holes() -> None:
    batch = build_batch(
        [(NOW, b"a", b"1", ()), (NOW, b"b", b"2", ())], base_offset=100, offset_deltas=[0, 7000]
    )
    assert [record.offset for record in decode_batch(batch)] == [100, 7100]
    assert read_header(batch).last_offset == 7100


class TestRebuilding:
    def test_keeps_what_positions_and_producers_need(self) -> None:
        batch = build_batch(
            [(NOW + n, b"k%d" % n, b"v" * n, ()) for n in range(5)],
            base_offset=1000,
            producer_id=9,
            producer_epoch=2,
            base_sequence=40,
            transactional=True,
            leader_epoch=6,
            compression=Compression.LZ4,
        )
        header = read_header(batch)
        kept = [record for record in decode_batch(batch) if record.offset in (1001, 1003)]

        rebuilt = rebuild_batch(header, kept)

        after = read_header(rebuilt)
        assert decode_batch(rebuilt) == kept
        assert check_crc(rebuilt, 0, after)
        assert after.record_count == 2
        assert after.base_timestamp == NOW + 1
        assert after.max_timestamp == NOW + 3
        same = ("base_offset", "last_offset", "producer_id", "producer_epoch", "last_sequence")
        for field in (*same, "leader_epoch", "attributes"):
            assert getattr(after, field) == getattr(header, field)

    def test_of_everything_gives_the_same_bytes(self) -> None:
        assert (
            rebuild_batch(read_header(TRANSACTIONAL), decode_batch(TRANSACTIONAL)) == TRANSACTIONAL
        )

    def test_of_nothing_still_remembers_the_producer(self) -> None:
        header = read_header(TRANSACTIONAL)
        empty = rebuild_batch(header, [])
        after = read_header(empty)
        assert decode_batch(empty) == []
        assert after.size == 61
        assert after.last_sequence == header.last_sequence
        assert after.max_timestamp == header.max_timestamp

    def test_a_delete_horizon_does_not_move_the_records_times(self) -> None:
        records = decode_batch(TRANSACTIONAL)
        marked = rebuild_batch(read_header(TRANSACTIONAL), records, delete_horizon_ms=NOW * 2)
        assert read_header(marked).delete_horizon_ms == NOW * 2
        assert decode_batch(marked) == records

        again = rebuild_batch(read_header(marked), records[1:])
        assert read_header(again).delete_horizon_ms == NOW * 2
        assert decode_batch(again) == records[1:]


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_recompression_changes_the_codec_only(source: Compression, target: Compression) -> None:
    records = [(NOW + n, b"key", b"value %d" % n, [("h", b"x")]) for n in range(200)]
    batch = build_batch(records, base_offset=5, compression=source, producer_id=1, base_sequence=0)

    again = recompress(b"__" + bytes(batch), target, position=2)

    header = read_header(again)
    assert header.compression == target
    assert check_crc(again, 0, header)
    assert decode_batch(again) == decode_batch(batch)
    before = read_header(batch)
    assert before == header._replace(
        length=before.length, crc=before.crc, attributes=before.attributes
    )


class TestDamage:
    """Sound checksum, nonsense inside: the producer's own mistake, refused when somebody looks."""

    def decode(self, payload: bytes, count: int = 1) -> list[Record]:
        header = read_header(build_batch([(NOW, None, None, ())]))
        return decode_records(payload, header._replace(record_count=count))

    def record(self, body: str) -> bytes:
        data = bytes.fromhex(body)
        return encode_signed(len(data)) + data

    def test_a_sound_record_for_comparison(self) -> None:
        assert self.decode(self.record("00 00 00 01 01 00")) == [Record(0, NOW, None, None, ())]

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("00 00 00 03 01 00", "key length -2"),
            ("00 00 00 01 03 00", "value length -2"),
            ("00 00 00 20 01 00", "runs past the end"),
            ("00 00 00 01 20 00", "runs past the end"),
            ("00 00 00 01 01 00 00", "says it ends"),
            ("00 00 00 01 01 01", "-1 record headers"),
            ("00 00 00 01 01 7e", "63 record headers"),
            ("00 00 00 01 01 02 01 00", "header name of -1"),
            ("00 00 00 01 01 02 03 00", "header name of -2"),
            ("00 00 00 01 01 02 04 00", "header name of 2"),
            ("00 00 00 01 01 02 00 03", "header value of -2"),
            ("00 00 00 01 01 02 00 08", "header value of 4"),
            ("00 00 02 01 01 00", "offset delta 1"),
            ("00 00 01 01 01 00", "offset delta -1"),
            ("00 00 00 ff ff ff ff ff 01 01 00", "longer than"),
            ("00 ff ff ff ff ff ff ff ff ff 7f 00 01 01 00", "64-bit"),
            ("00 00 00 01 01 80", "past the end"),
        ],
    )
    def test_is_refused_with_the_reason(self, body: str, reason: str) -> None:
        with pytest.raises(CorruptBatch, match=reason):
            self.decode(self.record(body))

    def test_a_record_longer_than_its_batch(self) -> None:
        with pytest.raises(CorruptBatch, match="record of 60 bytes"):
            self.decode(b"\x78" + b"\x00" * 6)

    def test_a_negative_record_length(self) -> None:
        with pytest.raises(CorruptBatch, match="record of -1 bytes"):
            self.decode(b"\x01" + b"\x00" * 6)

    def test_more_records_claimed_than_could_fit(self) -> None:
        with pytest.raises(CorruptBatch, match="cannot fit"):
            self.decode(self.record("00 00 00 01 01 00"), count=2**31 - 1)

    def test_bytes_after_the_last_record(self) -> None:
        with pytest.raises(CorruptBatch, match="7 bytes follow"):
            self.decode(self.record("00 00 00 01 01 00") * 2)

    def test_a_batch_that_is_cut_off(self) -> None:
        with pytest.raises(CorruptBatch, match="are left"):
            decode_batch(TRANSACTIONAL[:-1])

    def test_an_unknown_codec(self) -> None:
        batch = build_batch([(NOW, None, b"x", ())])
        batch[22] |= 7
        with pytest.raises(UnsupportedCompression, match="codec 7"):
            decode_batch(batch)

    def test_a_batch_that_grows_too_large(self) -> None:
        batch = build_batch([(NOW, None, bytes(100_000), ())], compression=Compression.ZSTD)
        assert len(batch) < 200
        with pytest.raises(BatchTooLarge, match="50000 bytes"):
            decode_batch(batch, limit=50_000)
