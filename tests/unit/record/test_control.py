"""Markers that end transactions."""

import pytest

from millpond.base.errors import CorruptBatch
from millpond.record import EndTxnMarker, MarkerType, Record, decode_batch, read_header
from millpond.record.builder import build_batch, build_control
from millpond.record.control import marker_type


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_a_control_batch_of_its_own(committed: bool) -> None:
    marker = EndTxnMarker(committed=committed, coordinator_epoch=12)
    batch = marker.build(
        timestamp=1_700_000_000_000,
        producer_id=4711,
        producer_epoch=3,
        base_offset=99,
        leader_epoch=5,
    )

    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, -1)
    assert (header.base_offset, header.leader_epoch) == (99, 5)
    [record] = decode_batch(batch)
    assert record.key == bytes([0, 0, 0, 1 if committed else 0])
    assert record.value == b"\x00\x00\x00\x00\x00\x0c"
    assert EndTxnMarker.parse(record) == marker
    assert marker_type(record) == (MarkerType.COMMIT if committed else MarkerType.ABORT)


def test_later_versions_may_carry_more() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x01more", b"\x00\x01\x00\x00\x00\x07more")
    assert EndTxnMarker.parse(record) == EndTxnMarker(committed=True, coordinator_epoch=7)


def test_other_control_records_have_names() -> None:
    assert marker_type(Record(0, 0, b"\x00\x00\x00\x02", b"")) is MarkerType.LEADER_CHANGE
    assert marker_type(Record(0, 0, b"\x00\x00\x00\x63", b"")) == 99


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00"),
        (b"\xff\xff\x00\x01", b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_what_is_no_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        EndTxnMarker.parse(Record(5, 0, key, value))


@pytest.mark.parametrize("value", [b"", b"v", b"x" * 60, b"x" * 5_000])
def test_one_control_record_is_built_as_any_batch_is(value: bytes) -> None:
    key = b"\x00\x00\x03\xe8"
    assert build_control(1_700_000_000_000, key, value) == build_batch(
        [(1_700_000_000_000, key, value, ())], control=True
    )
