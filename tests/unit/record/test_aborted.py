"""Readers of committed records skip markers and batches of aborted transactions."""

import pytest

from millpond.base.errors import CorruptBatch
from millpond.record.aborted import AbortedTransactions
from millpond.record.batch import HEADER_BYTES, assign_offset, iter_batches
from millpond.record.builder import build_batch
from millpond.record.control import EndTxnMarker


def records(offset: int, producer: int, *, transactional: bool = True) -> bytes:
    """A batch of one record."""
    batch = build_batch([(0, None, b"x", ())], producer_id=producer, transactional=transactional)
    assign_offset(batch, 0, offset, 0)
    return bytes(batch)


def marker(offset: int, producer: int, *, committed: bool) -> bytes:
    end = EndTxnMarker(committed=committed, coordinator_epoch=0)
    return bytes(end.build(timestamp=0, producer_id=producer, producer_epoch=0, base_offset=offset))


def read_by(data: bytes, aborted: list[tuple[int, int]], *, decodes: bool) -> list[int]:
    """The offsets that a reader gets."""
    transactions = AbortedTransactions(aborted)
    return [
        header.base_offset
        for position, header in iter_batches(data)
        if not transactions.hides(header, data if decodes else None, position)
    ]


@pytest.mark.parametrize("decodes", [True, False])
def test_a_producer_is_hidden_from_its_first_aborted_record_to_its_marker(decodes: bool) -> None:
    data = (
        records(0, 7)
        + marker(1, 7, committed=True)
        + records(2, 7)
        + records(3, 8)
        + records(4, 7, transactional=False)
        + marker(5, 7, committed=False)
        + records(6, 7)
        + marker(7, 8, committed=True)
    )
    assert read_by(data, [(7, 2)], decodes=decodes) == [0, 3, 4, 6]
    assert read_by(data, [], decodes=decodes) == [0, 2, 3, 4, 6]


@pytest.mark.parametrize("decodes", [True, False])
def test_the_transactions_may_come_in_any_order(decodes: bool) -> None:
    data = (
        records(0, 7)
        + marker(1, 7, committed=False)
        + records(2, 7)
        + marker(3, 7, committed=True)
        + records(4, 7)
        + marker(5, 7, committed=False)
    )
    assert read_by(data, [(7, 4), (7, 0)], decodes=decodes) == [2]


def test_a_marker_that_does_not_decode_is_said_to_who_gives_its_bytes() -> None:
    damaged = bytearray(marker(1, 7, committed=False))
    damaged[HEADER_BYTES:] = b"\xff" * (len(damaged) - HEADER_BYTES)
    data = records(0, 7) + bytes(damaged) + records(2, 7)
    assert read_by(data, [(7, 0)], decodes=False) == [2]
    with pytest.raises(CorruptBatch):
        read_by(data, [(7, 0)], decodes=True)
