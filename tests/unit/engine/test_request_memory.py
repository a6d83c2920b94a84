"""The bound over what clients have sent: who may read on, who waits, and who is ended."""

import pytest

from millpond.base import limits
from millpond.engine.limits.request_memory import Gathered, RequestMemory, request_bytes_max

MIB = 1024 * 1024
LITTLE = limits.REQUEST_LITTLE_BYTES


class Reader:
    """A connection; ``begun`` is how much of a request has come that is not whole."""

    def __init__(self, memory: RequestMemory, begun: int | None = None) -> None:
        self._memory = memory
        self.progress_bytes = begun
        self.missing_bytes = 5 * MIB if begun is not None else 0
        self.may_read = True
        self.is_read = True
        self.ended = ""

    def ask(self, held: int, more: int) -> bool:
        self.may_read = self._memory.ask(self, held, more)
        return self.may_read

    def go_on(self) -> None:
        assert not self.may_read
        self.may_read = True

    def give_up(self, reason: str) -> None:
        self.ended = reason
        self._memory.forget(self)


def test_what_fits_is_given_and_counted() -> None:
    memory = RequestMemory(4 * MIB)
    one, two = Reader(memory), Reader(memory)
    assert one.ask(MIB, MIB)
    assert two.ask(2 * MIB, 0)
    assert memory.total == 4 * MIB
    assert memory.is_full
    assert one.ask(0, 0)
    assert memory.total == 2 * MIB
    assert not memory.is_full


def test_what_does_not_fit_waits_until_memory_is_let_go() -> None:
    memory = RequestMemory(4 * MIB)
    one, two = Reader(memory), Reader(memory)
    assert one.ask(3 * MIB, 0)
    assert not two.ask(MIB, MIB)
    assert (memory.total, memory.waiting) == (4 * MIB, 1)
    assert one.ask(2 * MIB, 0)
    assert two.may_read
    assert (memory.total, memory.waiting) == (4 * MIB, 0)


def test_little_may_always_be_read() -> None:
    memory = RequestMemory(MIB)
    assert Reader(memory).ask(MIB, 0)
    for _ in range(5):
        assert Reader(memory).ask(LITTLE // 2, LITTLE // 2)
    assert memory.total == MIB + 5 * LITTLE


def test_connections_that_all_have_begun_something_large_do_not_wait_for_each_other() -> None:
    memory = RequestMemory(2 * MIB)
    one, two, three = (Reader(memory, begun=1) for _ in range(3))
    assert one.ask(MIB, 0)
    assert two.ask(MIB, 0)
    # The bound is reached, and none is whole: one may go on.
    assert one.ask(MIB, 5 * MIB)
    assert not two.ask(MIB, 5 * MIB)
    assert not three.ask(MIB, 5 * MIB)
    assert one.ask(6 * MIB, 0)
    one.progress_bytes = None  # it is whole, and its answer is not there yet
    assert not one.ask(6 * MIB, MIB)
    assert (two.may_read, three.may_read) == (False, False)
    assert one.ask(0, 0)
    assert (two.may_read, three.may_read) == (True, False)
    memory.forget(two)
    assert three.may_read


def test_a_connection_that_has_nothing_to_finish_does_not_go_beyond_the_bound() -> None:
    memory = RequestMemory(MIB)
    one, two = Reader(memory), Reader(memory, begun=1)
    assert one.ask(MIB, 0)
    assert not one.ask(MIB, MIB)
    assert two.ask(LITTLE, MIB)
    assert not one.may_read


def test_those_that_wait_are_served_in_their_order() -> None:
    memory = RequestMemory(12 * MIB)
    holding = Reader(memory)
    assert holding.ask(10 * MIB, 0)
    large, less = Reader(memory), Reader(memory)
    assert not large.ask(0, 8 * MIB)
    assert not less.ask(0, 3 * MIB)
    assert holding.ask(5 * MIB, 0)
    assert (large.may_read, less.may_read) == (False, False)
    assert holding.ask(MIB, 0)
    assert (large.may_read, less.may_read) == (True, False)
    assert large.ask(0, 0)
    assert less.may_read


def test_the_last_quarter_is_for_those_that_hold_no_more_than_a_few_batches() -> None:
    memory = RequestMemory(8 * MIB)
    huge, other, one, two, three = (Reader(memory) for _ in range(5))
    assert huge.ask(0, 6 * MIB)
    assert not other.ask(0, 5 * MIB)
    assert one.ask(MIB, 0)
    assert two.ask(0, MIB)
    assert not three.ask(0, MIB)
    assert two.ask(0, 0)
    assert (three.may_read, other.may_read) == (True, False)


def test_what_one_connection_has_beyond_the_bound_keeps_only_huge_ones_waiting() -> None:
    memory = RequestMemory(8 * MIB)
    first, huge, medium = Reader(memory, begun=1), Reader(memory), Reader(memory)
    assert first.ask(6 * MIB, 5 * MIB)
    assert memory.is_full
    assert not huge.ask(0, 3 * MIB)
    assert medium.ask(0, 2 * MIB)
    assert not Reader(memory).ask(0, MIB)


def test_a_connection_that_keeps_memory_and_sends_nothing_is_ended_while_others_wait() -> None:
    memory = RequestMemory(2 * MIB)
    stuck, busy = Reader(memory, begun=100), Reader(memory, begun=100)
    assert stuck.ask(MIB, 0)
    assert busy.ask(MIB, 0)
    memory.look(0)
    memory.look(10 * limits.REQUEST_PROGRESS_MS)
    assert not stuck.ended, "nobody waits"
    waiting = [Reader(memory), Reader(memory)]
    for reader in waiting:
        assert not reader.ask(0, MIB)
    start_ms = 20 * limits.REQUEST_PROGRESS_MS
    memory.look(start_ms)
    busy.progress_bytes = 100 + limits.REQUEST_PROGRESS_BYTES_MIN
    memory.look(start_ms + limits.REQUEST_PROGRESS_MS - 1)
    assert not stuck.ended
    memory.look(start_ms + limits.REQUEST_PROGRESS_MS)
    assert "queued.max.request.bytes" in stuck.ended
    assert not busy.ended
    assert [reader.may_read for reader in waiting] == [True, False]


def test_a_connection_that_the_node_does_not_read_is_not_ended() -> None:
    memory = RequestMemory(MIB)
    held_up, waiting = Reader(memory, begun=300_000), Reader(memory)
    assert held_up.ask(MIB, 0)
    assert not waiting.ask(0, MIB)
    held_up.is_read = False
    for look in range(5):
        memory.look(look * limits.REQUEST_PROGRESS_MS)
    assert not held_up.ended
    # From when it is read again it has the whole time.
    held_up.is_read = True
    memory.look(5 * limits.REQUEST_PROGRESS_MS)
    memory.look(6 * limits.REQUEST_PROGRESS_MS - 1)
    assert not held_up.ended
    memory.look(6 * limits.REQUEST_PROGRESS_MS)
    assert held_up.ended


def test_a_new_request_has_the_whole_time_whatever_became_of_the_last_one() -> None:
    memory = RequestMemory(MIB)
    sender, holding, waiting = Reader(memory, begun=100_000), Reader(memory), Reader(memory)
    assert sender.ask(MIB // 2, 0)
    assert holding.ask(MIB // 2, 0)
    assert not waiting.ask(0, MIB)
    memory.look(0)
    sender.progress_bytes = None
    assert sender.ask(0, 0)
    memory.look(limits.REQUEST_PROGRESS_MS)
    sender.progress_bytes = 100_000
    assert sender.ask(MIB // 2, 0)
    memory.look(2 * limits.REQUEST_PROGRESS_MS)
    assert not sender.ended


@pytest.mark.parametrize("let_go", [0, MIB])
def test_a_connection_that_asks_again_keeps_its_place(let_go: int) -> None:
    memory = RequestMemory(10 * MIB)
    holding, one, two = (Reader(memory) for _ in range(3))
    assert one.ask(MIB, 0)
    assert holding.ask(9 * MIB, 0)
    assert not one.ask(MIB, MIB // 2)
    assert not two.ask(0, MIB // 2)
    assert memory.waiting == 2
    # It holds less by now, or the same, and wants more.
    assert not one.ask(MIB - let_go, MIB + let_go)
    assert (one.may_read, two.may_read) == (False, False)
    assert holding.ask(8 * MIB + MIB // 2, 0)
    assert (one.may_read, two.may_read) == (False, False)
    assert holding.ask(8 * MIB, 0)
    assert (one.may_read, two.may_read) == (True, False)


def test_a_connection_that_asks_for_less_is_served_in_its_place() -> None:
    memory = RequestMemory(10 * MIB)
    holding, one, two = (Reader(memory) for _ in range(3))
    assert one.ask(MIB, 0)
    assert holding.ask(9 * MIB, 0)
    assert not one.ask(MIB, MIB)
    assert not two.ask(0, MIB)
    assert one.ask(0, MIB)
    assert not two.may_read
    assert (memory.total, memory.waiting) == (10 * MIB, 1)


def test_what_is_gathered_is_abandoned_only_with_its_connection() -> None:
    memory = RequestMemory(10 * MIB)
    reader = Reader(memory, begun=1)
    gathered = Gathered(memory, reader)
    for _message in range(100):
        gathered.note(MIB, 0)
        gathered.let_go()
        assert memory.total == 0
    assert memory.abandoned_bytes == 0
    gathered.note(MIB, 0)
    gathered.forget()
    assert (memory.total, memory.abandoned_bytes) == (0, MIB)


def test_what_connections_that_ended_held_is_counted() -> None:
    memory = RequestMemory(10 * MIB)
    one = Reader(memory)
    one.ask(3 * MIB, MIB)
    memory.forget(one)
    assert (memory.total, memory.abandoned_bytes) == (0, 4 * MIB)


@pytest.mark.parametrize(
    ("setting", "total", "expected"), [(-1, 8 << 30, 1 << 30), (0, 8 << 30, 1 << 30), (5, 8, 5)]
)
def test_the_bound_is_a_share_of_the_memory_unless_it_is_set(
    setting: int, total: int, expected: int
) -> None:
    assert request_bytes_max(setting, total) == expected
