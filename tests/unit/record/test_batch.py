"""The batch header: golden bytes, walking, patching in place."""

import pytest

from millpond.base.errors import CorruptBatch
from millpond.record import (
    HEADER_BYTES,
    BatchHeader,
    NewRecord,
    assign_offset,
    build_batch,
    check_crc,
    decode_batch,
    iter_batches,
    read_header,
    set_append_time,
)

# Written by kafka-python: one record, value "hello", at 1700000000123.
HELLO = bytes.fromhex(
    "0000000000000000 0000003d 00000000 02 2eff612c 0000 00000000 0000018bcfe5687b 0000018bcfe5687b"
    "ffffffffffffffff ffff ffffffff 00000001 16000000010a68656c6c6f00"
)
# Written by kafka-python: transactional, producer 4711 epoch 3 sequence 77, three records.
TRANSACTIONAL = bytes.fromhex(
    "0000000000000000 00000054 00000000 02 e6eaedca 0010 00000002 0000018bcfe5687b 0000018bcfe58f0f"
    "0000000000001267 0003 0000004d 00000003"
    "1e000000026b02760402680278026e01 0e002d02026b0100 1400a89a01040100020000"
)


def test_reads_every_field() -> None:
    header = read_header(TRANSACTIONAL)

    assert header == BatchHeader(
        base_offset=0,
        length=84,
        leader_epoch=0,
        magic=2,
        crc=0xE6EAEDCA,
        attributes=0x10,
        last_offset_delta=2,
        base_timestamp=1700000000123,
        max_timestamp=1700000010000 - 1,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=77,
        record_count=3,
    )
    assert header.size == len(TRANSACTIONAL)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (2, 3, 79)
    assert header.is_transactional
    assert not header.is_control
    assert not header.uses_append_time
    assert header.compression == 0
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_reads_any_kind_of_buffer_at_any_position(kind: type) -> None:
    buffer = kind(b"xyz" + HELLO)
    header = read_header(buffer, 3)
    assert header == read_header(HELLO)
    assert check_crc(buffer, 3, header)


def test_sequences_wrap_around() -> None:
    header = read_header(TRANSACTIONAL)._replace(base_sequence=2**31 - 2)
    assert header.last_sequence == 0
    assert header._replace(base_sequence=-1).last_sequence == -1


@pytest.mark.parametrize("size", [0, 1, 12, 16, 60])
def test_too_few_bytes_are_no_header(size: int) -> None:
    with pytest.raises(CorruptBatch, match=f"{size} are left"):
        read_header(HELLO[:size])


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (8, (48).to_bytes(4, "big"), "length 48"),
        (8, (-1).to_bytes(4, "big", signed=True), "length -1"),
        (16, b"\x01", "format 1"),
        (16, b"\xff", "format -1"),
        (57, b"\xff\xff\xff\xff", "record count -1"),
    ],
)
def test_impossible_headers_are_refused(at: int, value: bytes, reason: str) -> None:
    damaged = bytearray(HELLO)
    damaged[at : at + len(value)] = value
    with pytest.raises(CorruptBatch, match=reason):
        read_header(damaged)
    with pytest.raises(CorruptBatch, match=f"at byte {len(HELLO)}: .*{reason}"):
        list(iter_batches(HELLO + damaged))


def test_walks_from_batch_to_batch() -> None:
    buffer = HELLO + TRANSACTIONAL + HELLO
    found = [(position, header.record_count) for position, header in iter_batches(buffer)]
    assert found == [(0, 1), (len(HELLO), 3), (len(HELLO) + len(TRANSACTIONAL), 1)]


@pytest.mark.parametrize("left", [1, 11, HEADER_BYTES - 1, HEADER_BYTES, len(TRANSACTIONAL) - 1])
def test_walking_stops_before_a_batch_that_is_cut_off(left: int) -> None:
    buffer = HELLO + TRANSACTIONAL[:left]
    assert [position for position, _ in iter_batches(buffer)] == [0]


def test_walking_keeps_to_its_range() -> None:
    buffer = memoryview(b"\xff" * 5 + HELLO + TRANSACTIONAL + b"\xff" * 70)
    end = 5 + len(HELLO) + len(TRANSACTIONAL)
    assert [position for position, _ in iter_batches(buffer, 5, end)] == [5, 5 + len(HELLO)]
    assert [position for position, _ in iter_batches(buffer, 5, end - 1)] == [5]
    assert list(iter_batches(buffer, 5, 5)) == []


def test_the_checksum_finds_every_flipped_bit_it_covers() -> None:
    header = read_header(HELLO)
    for at in range(21, len(HELLO)):
        damaged = bytearray(HELLO)
        damaged[at] ^= 0x10
        assert not check_crc(damaged, 0, header)


def test_a_batch_that_is_not_whole_has_no_right_checksum() -> None:
    assert not check_crc(HELLO[:-1], 0, read_header(HELLO))


def test_assigning_an_offset_keeps_the_checksum() -> None:
    buffer = bytearray(b"__" + HELLO)
    assign_offset(memoryview(buffer), 2, 2**40, 12)

    header = read_header(buffer, 2)
    assert (header.base_offset, header.leader_epoch) == (2**40, 12)
    assert check_crc(buffer, 2, header)
    assert decode_batch(buffer, 2)[0].offset == 2**40
    assert buffer[:2] == b"__"


def test_append_time_is_every_records_time() -> None:
    buffer = bytearray(b"__") + bytearray(TRANSACTIONAL)
    header = set_append_time(buffer, 2, read_header(buffer, 2), 1_800_000_000_000)

    assert header == read_header(buffer, 2)
    assert header.uses_append_time
    assert header.is_transactional
    assert check_crc(buffer, 2, header)
    assert {record.timestamp for record in decode_batch(buffer, 2)} == {1_800_000_000_000}


def test_the_builder_writes_the_golden_bytes() -> None:
    assert build_batch([(1700000000123, None, b"hello", ())], leader_epoch=0) == HELLO
    records: list[NewRecord] = [
        (1700000000123, b"k", b"v", [("h", b"x"), ("n", None)]),
        (1700000000100, b"k", None, []),
        (1700000009999, None, b"", [("", b"")]),
    ]
    built = build_batch(
        records,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=77,
        transactional=True,
        leader_epoch=0,
    )
    assert built == TRANSACTIONAL
