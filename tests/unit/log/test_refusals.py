"""Batches behind a refused one: refused as it was, in whatever order the disk fails and comes back."""

import pytest

from millpond.base.errors import (
    NotEnoughReplicas,
    OutOfOrderSequence,
    ProducerFenced,
    StorageFailure,
)
from millpond.log.incoming import read_headers
from millpond.log.partition_log import PartitionLog
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.storage.log_kit import TP, append, batch, open_log, restore, values


def sent(sequence: int, value: bytes = b"v", *, epoch: int = 0, producer: int = 7) -> bytearray:
    return batch(value, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


@pytest.fixture
def log(storage: FaultyStorage) -> PartitionLog:
    return open_log(storage)


def test_everything_behind_a_failed_write_is_refused_as_it_was(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    append(log, sent(0))
    storage.fail_writes = True
    for sequence in (1, 2, 3):
        with pytest.raises(StorageFailure):
            append(log, sent(sequence))
    # The disk takes writes again between two batches that are under way: the log does not.
    storage.fail_writes = False
    with pytest.raises(StorageFailure):
        append(log, sent(4))
    assert log.end_offset == 1


@pytest.mark.parametrize("known", [True, False])
def test_after_the_disk_is_back_the_first_refused_batch_must_come_first(
    log: PartitionLog, storage: FaultyStorage, known: bool
) -> None:
    first = 0
    if known:
        append(log, sent(0, b"before"))
        first = 1
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        append(log, sent(first, b"a"))
    storage.fail_writes = False
    restore(log)
    # It was on its way before the producer heard of the refusal.
    with pytest.raises(StorageFailure, match="sent again first"):
        append(log, sent(first + 1, b"b"))
    if known:
        assert append(log, sent(0, b"before")).duplicate
    append(log, sent(first, b"a"))
    append(log, sent(first + 1, b"b"))
    assert values(log)[-2:] == [b"a", b"b"]


def test_a_higher_epoch_gives_up_what_was_refused(
    log: PartitionLog, storage: FaultyStorage
) -> None:
    append(log, sent(0))
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        append(log, sent(1))
    storage.fail_writes = False
    restore(log)
    append(log, sent(0, b"new", epoch=1))
    with pytest.raises(ProducerFenced):
        append(log, sent(1))
    with pytest.raises(OutOfOrderSequence):
        append(log, sent(5, epoch=1))


def test_other_producers_do_not_wait(log: PartitionLog, storage: FaultyStorage) -> None:
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        append(log, sent(0))
    storage.fail_writes = False
    restore(log)
    append(log, sent(0, producer=8))
    append(log, batch(b"plain"))
    assert log.end_offset == 2


def test_too_few_replicas_are_such_a_reason(log: PartitionLog) -> None:
    refused = sent(0)
    log.refuse(read_headers(refused, TP), NotEnoughReplicas("one is in sync"))
    with pytest.raises(NotEnoughReplicas):
        append(log, sent(1))
    append(log, refused)
    append(log, sent(1))


def test_a_batch_that_was_in_the_log_already_is_not_waited_for(log: PartitionLog) -> None:
    append(log, sent(0))
    log.refuse(read_headers(sent(0), TP), NotEnoughReplicas("one is in sync"))
    assert append(log, sent(0)).duplicate
    append(log, sent(1))


def test_what_a_leader_elsewhere_wrote_ends_it(log: PartitionLog, storage: FaultyStorage) -> None:
    other = open_log(FaultyStorage())
    append(other, sent(0, b"elsewhere"))
    storage.fail_writes = True
    with pytest.raises(StorageFailure):
        append(log, sent(0))
    storage.fail_writes = False
    restore(log)
    copied = bytes(other.read(0, 1 << 20, upto=1).data)
    log.append_as_follower(copied, now_ms=0)
    append(log, sent(1))
    assert values(log) == [b"elsewhere", b"v"]
