"""Idempotence and transactions, batch by batch (KIP-98; K82)."""

import pytest

from millpond.base.errors import (
    InvalidTransactionState,
    MarkerFenced,
    OutOfOrderSequence,
    ProducerFenced,
)
from millpond.log.producer_state import (
    CorruptSnapshot,
    ProducerState,
    decode_snapshot,
    next_sequence,
)
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader, read_header
from millpond.record.control import EndTxnMarker
from tests.support.storage.log_kit import NOW, batch, marker

LAST_SEQUENCE = 2**31 - 1


def header(
    sequence: int, *, pid: int = 7, epoch: int = 0, count: int = 1, transactional: bool = False
) -> BatchHeader:
    return read_header(
        batch(
            *[b"v"] * count,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


class Partition:
    """A producer's view: send, and learn the offset."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 0

    def send(self, sequence: int, pid: int = 7, epoch: int = 0, count: int = 1) -> tuple[int, bool]:
        sent = header(sequence, pid=pid, epoch=epoch, count=count)
        duplicate = self.state.check(sent)
        if duplicate is not None:
            return duplicate.first_offset, True
        offset = self.end
        self.state.apply(sent, offset)
        self.end += sent.last_offset_delta + 1
        return offset, False

    def restart(self) -> None:
        data = self.state.encode()
        self.state = ProducerState()
        self.state.load(data, self.end)


def test_a_producer_counts_from_zero() -> None:
    partition = Partition()

    assert partition.send(0, count=3) == (0, False)
    assert partition.send(3) == (3, False)
    assert partition.send(4, count=2) == (4, False)


@pytest.mark.parametrize("sequence", [0, 2, 5])
def test_a_gap_or_a_step_back_is_refused_and_changes_nothing(sequence: int) -> None:
    partition = Partition()
    partition.send(0, count=4)

    with pytest.raises(OutOfOrderSequence, match="expected 4"):
        partition.send(sequence, count=2)

    assert partition.send(4) == (4, False)


def test_the_last_five_batches_are_answered_with_their_first_result() -> None:
    partition = Partition()
    for sequence in range(6):
        partition.send(sequence)

    for sequence in range(1, 6):
        assert partition.send(sequence) == (sequence, True)
    with pytest.raises(OutOfOrderSequence):
        partition.send(0)


def test_a_batch_that_only_begins_alike_is_no_duplicate() -> None:
    partition = Partition()
    partition.send(0, count=3)

    with pytest.raises(OutOfOrderSequence):
        partition.send(0, count=2)


def test_numbers_wrap_to_zero() -> None:
    partition = Partition()
    partition.send(LAST_SEQUENCE - 1, count=2)

    assert partition.send(0) == (2, False)
    assert next_sequence(LAST_SEQUENCE) == 0
    assert next_sequence(-1) == 0


def test_a_batch_may_wrap_in_its_middle() -> None:
    partition = Partition()
    partition.send(LAST_SEQUENCE, count=3)

    assert partition.send(2) == (3, False)
    assert partition.send(LAST_SEQUENCE, count=3) == (0, True)


def test_a_new_epoch_starts_at_zero() -> None:
    partition = Partition()
    partition.send(0, count=5)

    with pytest.raises(OutOfOrderSequence):
        partition.send(5, epoch=1)
    assert partition.send(0, epoch=1) == (5, False)


def test_an_old_epoch_is_fenced() -> None:
    partition = Partition()
    partition.send(0, epoch=3)

    with pytest.raises(ProducerFenced, match="epoch 3"):
        partition.send(1, epoch=2)


def test_a_producer_that_is_not_known_may_start_anywhere() -> None:
    assert Partition().send(1234) == (0, False)


def test_producers_do_not_disturb_each_other() -> None:
    partition = Partition()
    partition.send(0, pid=1)
    partition.send(0, pid=2)

    assert partition.send(1, pid=1) == (2, False)
    assert partition.send(0, pid=2) == (1, True)


def test_two_batches_in_one_append_follow_each_other() -> None:
    state = ProducerState()
    state.apply(header(0), 0)

    assert state.check(header(1, count=2)) is None
    assert state.check(header(3), previous=header(1, count=2)) is None
    with pytest.raises(OutOfOrderSequence):
        state.check(header(4), previous=header(1, count=2))


def test_silent_producers_are_forgotten_but_not_in_a_transaction() -> None:
    state = ProducerState()
    state.apply(header(0, pid=1), 0)
    state.apply(header(0, pid=2, transactional=True), 1)

    assert state.expire(NOW + 999, idle_ms_max=1000) == []
    assert state.expire(NOW + 1000, idle_ms_max=1000) == [1]

    assert state.check(header(77, pid=1)) is None  # as a new one
    assert [producer.producer_id for producer in state] == [2]


# --- snapshots --------------------------------------------------------------------------------


def test_a_snapshot_remembers_each_producers_last_batch() -> None:
    partition = Partition()
    partition.send(0, pid=1, count=2)
    partition.send(2, pid=1, count=3)
    partition.send(9, pid=2, epoch=4)

    partition.restart()

    assert partition.send(2, pid=1, count=3) == (2, True)
    assert partition.send(5, pid=1) == (6, False)
    with pytest.raises(OutOfOrderSequence):
        partition.send(11, pid=2, epoch=4)
    assert partition.send(10, pid=2, epoch=4) == (7, False)


def test_the_snapshot_is_kafkas_bytes() -> None:
    state = ProducerState()
    state.apply(header(5, pid=7, epoch=2, count=3), 100)

    data = state.encode()

    assert data[:2] == b"\x00\x01"
    assert data[6:] == (
        b"\x00\x00\x00\x01"
        + (7).to_bytes(8, "big")
        + (2).to_bytes(2, "big")
        + (7).to_bytes(4, "big")  # last sequence
        + (102).to_bytes(8, "big")  # last offset
        + (2).to_bytes(4, "big")  # offset delta
        + NOW.to_bytes(8, "big")
        + b"\xff" * 4  # no coordinator
        + b"\xff" * 8  # no transaction
    )


def test_a_wrapped_batch_survives_a_snapshot() -> None:
    partition = Partition()
    partition.send(LAST_SEQUENCE, count=3)

    partition.restart()

    assert partition.send(LAST_SEQUENCE, count=3) == (0, True)
    assert partition.send(2) == (3, False)


def test_open_transactions_survive_a_snapshot_in_order() -> None:
    state = ProducerState()
    state.apply(header(0, pid=2, transactional=True), 10)
    state.apply(header(0, pid=1, transactional=True), 20)

    again = ProducerState()
    again.load(state.encode(), 21)

    assert again.first_open_offset() == 10
    again.apply_marker(read_header(marker(commit=True, producer_id=2)), 21, COMMIT)
    assert again.first_open_offset() == 20


def test_every_cut_and_every_flipped_byte_of_a_snapshot_is_noticed() -> None:
    state = ProducerState()
    state.apply(header(0, pid=1), 0)
    state.apply(header(0, pid=2), 1)
    data = state.encode()

    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:size])
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(flipped))


# --- transactions -----------------------------------------------------------------------------

COMMIT = EndTxnMarker(committed=True, coordinator_epoch=0)
ABORT = EndTxnMarker(committed=False, coordinator_epoch=0)


def end(
    state: ProducerState, pid: int, offset: int, how: EndTxnMarker
) -> AbortedTransaction | None:
    sent = read_header(marker(commit=how.committed, producer_id=pid))
    state.check_marker(sent, how)
    return state.apply_marker(sent, offset, how)


def test_the_first_open_transaction_bounds_what_is_stable() -> None:
    state = ProducerState()
    assert state.first_open_offset() == -1
    state.apply(header(0, pid=1, transactional=True), 0)
    state.apply(header(0, pid=2, transactional=True), 1)
    state.apply(header(1, pid=1, transactional=True), 2)

    assert state.first_open_offset() == 0
    assert end(state, 1, 3, COMMIT) is None
    assert state.first_open_offset() == 1


def test_an_abort_names_the_range_and_what_was_stable_then() -> None:
    state = ProducerState()
    state.apply(header(0, pid=1, transactional=True), 0)
    state.apply(header(0, pid=2, transactional=True), 1)

    assert end(state, 1, 2, ABORT) == AbortedTransaction(1, 0, 2, 1)
    assert end(state, 2, 3, ABORT) == AbortedTransaction(2, 1, 3, 4)


def test_a_decided_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    state = ProducerState()
    state.apply(header(0, pid=1, transactional=True), 0)
    end(state, 1, 1, COMMIT)

    assert state.first_unstable_offset(high_watermark=1) == 0
    assert state.first_unstable_offset(high_watermark=2) == -1


def test_a_plain_batch_into_an_open_transaction_is_refused() -> None:
    state = ProducerState()
    state.apply(header(0, transactional=True), 0)

    with pytest.raises(InvalidTransactionState):
        state.check(header(1))


def test_a_marker_may_come_from_no_older_coordinator_and_no_older_producer() -> None:
    state = ProducerState()
    state.apply(header(0, epoch=2, transactional=True), 0)
    sent = read_header(marker(commit=True, producer_id=7, producer_epoch=2))
    state.apply_marker(sent, 1, EndTxnMarker(committed=True, coordinator_epoch=5))

    with pytest.raises(MarkerFenced):
        state.check_marker(sent, EndTxnMarker(committed=True, coordinator_epoch=4))
    with pytest.raises(ProducerFenced):
        state.check_marker(
            read_header(marker(commit=True, producer_id=7, producer_epoch=1)),
            EndTxnMarker(committed=True, coordinator_epoch=5),
        )


def test_a_marker_without_a_transaction_aborts_nothing() -> None:
    assert end(ProducerState(), 7, 0, ABORT) is None


def test_after_a_marker_the_sequence_goes_on() -> None:
    state = ProducerState()
    state.apply(header(0, transactional=True), 0)
    end(state, 7, 1, COMMIT)

    assert state.check(header(1, transactional=True)) is None
    assert state.last_offsets() == {7: (0, 0)}


def test_what_a_coordinator_writes_for_a_producer_is_never_taken_for_a_repetition() -> None:
    state = ProducerState()
    state.apply(header(-1, transactional=True), 0)

    assert state.check(header(-1, transactional=True)) is None
