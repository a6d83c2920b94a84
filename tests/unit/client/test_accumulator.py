"""Queues of batches: when they are ready, in which order, within which memory."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Accumulator, Batch, record_size
from millpond.record import NewRecord

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def queues(*, batch_bytes: int = 100, linger_s: float = 5.0, memory: int = 1000) -> Accumulator:
    return Accumulator(batch_bytes=batch_bytes, linger_s=linger_s, memory_bytes=memory)


def record(value: bytes = b"v") -> NewRecord:
    return (0, None, value, ())


class TestReady:
    def test_a_batch_lingers(self) -> None:
        held = queues()
        held.append(A, record(), 10, 100.0)
        assert held.ready(104.9) == []
        assert held.next_time(104.0) == 105.0
        assert held.ready(105.0) == [A]

    def test_a_full_batch_does_not(self) -> None:
        held = queues()
        _, changed = held.append(A, record(), 100, 0.0)
        assert changed
        assert held.ready(0.0) == [A]

    def test_nor_does_one_with_another_behind_it(self) -> None:
        held = queues()
        first, began = held.append(A, record(), 60, 0.0)
        second, again = held.append(A, record(), 60, 0.0)
        assert began
        assert again
        assert first is not second
        assert held.ready(0.0) == [A]
        held.take(A)
        assert held.ready(0.0) == []

    def test_nothing_lingers_for_those_who_flush(self) -> None:
        held = queues()
        held.append(A, record(), 10, 0.0)
        held.hurry = True
        assert held.ready(0.0) == [A]

    def test_what_comes_back_waits_for_its_pause_and_holds_up_the_rest(self) -> None:
        held = queues(linger_s=0)
        first, _ = held.append(A, record(), 100, 0.0)
        held.append(A, record(), 100, 0.0)
        held.take(A)
        first.attempts = 1
        held.put_back(first, 2.0)
        assert held.ready(1.0) == []
        assert held.first(A) is first
        assert held.ready(2.0) == [A]

    def test_partitions_take_turns(self) -> None:
        held = queues(linger_s=0)
        for _ in range(2):
            held.append(A, record(), 100, 0.0)
            held.append(B, record(), 100, 0.0)
        assert held.ready(0.0) == [A, B]
        held.take(A)
        assert held.ready(0.0) == [B, A]


class TestMemory:
    def test_is_taken_and_given_back(self) -> None:
        held = queues(memory=100)
        batch, _ = held.append(A, record(), 80, 0.0)
        assert not held.has_room(30)
        assert held.has_room(20)
        held.drop(batch)
        assert held.used_bytes == 0
        assert held.has_room(10_000)  # alone, anything may pass; its size was checked before

    def test_a_batch_on_the_wire_still_takes_its_memory(self) -> None:
        held = queues(memory=100)
        held.append(A, record(), 80, 0.0)
        held.take(A)
        assert not held.has_room(30)


class TestSplit:
    def test_halves_keep_place_order_and_sequence(self) -> None:
        held = queues()
        for number in range(5):
            batch, _ = held.append(A, record(b"%d" % number), 10, 0.0)
        held.take(A)
        batch.sequence, batch.identity = 7, (1, 0)
        assert held.split(batch)
        first, second = held.take(A), held.take(A)
        assert [item[2] for item in first.records + second.records] == [b"%d" % n for n in range(5)]
        assert (first.sequence, second.sequence) == (7, 9)
        assert batch.locate(0) == (first, 0)
        assert batch.locate(4) == (second, 2)

    def test_one_record_cannot_be_split(self) -> None:
        held = queues()
        batch, _ = held.append(A, record(), 10, 0.0)
        held.take(A)
        assert not held.split(batch)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 60)), max_size=60))
def test_nothing_is_lost_and_batches_stay_within_their_size(
    records: list[tuple[TopicPartition, int]],
) -> None:
    held = queues(linger_s=0, memory=1 << 20)
    for number, (place, size) in enumerate(records):
        held.append(place, record(b"%d" % number), size, 0.0)
    taken: dict[TopicPartition, list[bytes | None]] = {A: [], B: []}
    while ready := held.ready(0.0):
        batch: Batch = held.take(ready[0])
        assert batch.size <= 100
        taken[batch.partition] += [item[2] for item in batch.records]
        held.drop(batch)
    for place in (A, B):
        expected = [b"%d" % number for number, (at, _) in enumerate(records) if at == place]
        assert taken[place] == expected
    assert held.used_bytes == 0


def test_a_record_counts_its_headers() -> None:
    assert record_size((0, b"kk", b"vvv", (("h", b"12345"),))) == 12 + 2 + 3 + 4 + 1 + 5
