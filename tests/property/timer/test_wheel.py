"""The wheel gives out what a sorted list would, whatever the times are and however the clock steps."""

from bisect import insort

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millpond.timer.wheel import Wheel

NOW_MS = 1_800_000_000_000
DAY_MS = 24 * 3600 * 1000

delays = st.one_of(
    st.integers(-5_000, 5_000),
    st.integers(0, DAY_MS),
    st.integers(-40 * DAY_MS, 4_000 * DAY_MS),
)


class WheelLife(RuleBasedStateMachine):
    """Entries are added, taken and swept while the clock goes on, stands still and steps."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = NOW_MS
        self.wheel = Wheel(NOW_MS)
        self.model: list[tuple[int, int]] = []
        self.number = 0
        self.swept: set[int] = set()

    @rule(delay=delays, is_loaded=st.booleans())
    def add(self, delay: int, is_loaded: bool) -> None:
        due_ms = self.now_ms + delay
        self.number += 1
        insort(self.model, (due_ms, self.number))
        (self.wheel.load if is_loaded else self.wheel.add)(due_ms, self.number)

    @rule(step=delays, limit=st.integers(1, 5))
    def take(self, step: int, limit: int) -> None:
        self.now_ms = max(self.now_ms + step, 0)
        while self.wheel.is_behind(self.now_ms):
            taken = self.wheel.take(self.now_ms, limit)
            if taken:
                break
        else:
            taken = self.wheel.take(self.now_ms, limit)
        expected = [one for one in self.model if one[0] <= self.now_ms][:limit]
        assert [tuple(one) for one in taken] == expected
        del self.model[: len(expected)]

    @rule(odd=st.integers(0, 1))
    def sweep(self, odd: int) -> None:
        while not self.wheel.sweep(lambda number: number % 2 != odd):
            pass
        self.model = [one for one in self.model if one[1] % 2 != odd]

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.wheel) == len(self.model)
        assert sorted(map(tuple, self.wheel)) == self.model

    @invariant()
    def wakes_in_time(self) -> None:
        wake_ms = self.wheel.next_ms()
        if self.model:
            assert wake_ms is not None
            assert wake_ms <= self.model[0][0]
        else:
            # A bucket that was swept empty is opened once more.
            assert wake_ms is None or self.wheel.take(NOW_MS + 8_000 * DAY_MS, 1) == []


TestWheelLife = WheelLife.TestCase
TestWheelLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(delays, max_size=60), st.integers(1, 7))
def test_waiting_for_the_next_time_again_and_again_gives_out_everything_when_it_is_due(
    added: list[int], limit: int
) -> None:
    wheel = Wheel(NOW_MS)
    for number, delay in enumerate(added):
        wheel.add(NOW_MS + delay, number)
    now_ms = NOW_MS
    found: list[tuple[int, int]] = []
    for _ in range(20 * len(added) + 20):
        wake_ms = wheel.next_ms()
        if wake_ms is None:
            break
        now_ms = max(now_ms, wake_ms)
        for due_ms, number in wheel.take(now_ms, limit):
            assert now_ms == max(NOW_MS, due_ms)
            found.append((due_ms, number))
    assert found == sorted((NOW_MS + delay, number) for number, delay in enumerate(added))


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_large_bucket_is_opened_in_slices_and_nothing_comes_out_of_order(
    at_once: int,
) -> None:
    wheel = Wheel(NOW_MS, at_once=at_once)
    for number in range(50):
        wheel.add(NOW_MS + DAY_MS - number, number)
    now_ms, found, empty = NOW_MS + DAY_MS, [], 0
    while len(wheel):
        taken = wheel.take(now_ms, 50)
        found += [one.number for one in taken]
        empty += not taken
    assert found == list(range(49, -1, -1))
    assert empty >= 50 // at_once - 1


def test_a_clock_that_stepped_back_gets_nothing_twice_and_loses_nothing() -> None:
    wheel = Wheel(NOW_MS)
    wheel.add(NOW_MS + 1_000, 1)
    wheel.add(NOW_MS + DAY_MS, 2)
    assert [one.number for one in wheel.take(NOW_MS + 2_000, 9)] == [1]
    assert wheel.take(NOW_MS - 30 * DAY_MS, 9) == []
    wheel.add(NOW_MS - 29 * DAY_MS, 3)
    assert [one.number for one in wheel.take(NOW_MS, 9)] == [3]
    assert [one.number for one in wheel.take(NOW_MS + DAY_MS, 9)] == [2]
