"""Deadlines: each key is called once, at the earliest time set for it since its last call."""

import asyncio
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.runtime.deadlines import NEVER_MS, Deadlines
from tests.support.time.virtual_loop import LoopClock, VirtualLoop

KEYS = st.sampled_from(["a", "b", "c"])
# (pause before it, key, due after); set at even times and due at odd ones, so that nothing coincides.
PAUSES = st.integers(1, 25).map(lambda half: 2 * half)
SETS = st.lists(
    st.tuples(PAUSES, KEYS, st.integers(-3, 49).map(lambda half: 2 * half + 1)), max_size=30
)


def played(sets: list[tuple[int, str, int]], *, again_ms: int = 0) -> list[tuple[int, str]]:
    """Set deadlines one after the other. Return the calls, and the time of each since the start."""
    loop = VirtualLoop()
    clock = LoopClock(loop)
    start_ms = clock.monotonic_ms()
    deadlines = Deadlines(clock)
    calls: list[tuple[int, str]] = []

    def on_due(key: str) -> None:
        calls.append((clock.monotonic_ms() - start_ms, key))
        if again_ms and len(calls) < 100:
            deadlines.set(clock.monotonic_ms() + again_ms, key, lambda: on_due(key))

    async def story() -> None:
        for pause_ms, key, due_ms in sets:
            await asyncio.sleep(pause_ms / 1000)
            deadlines.set(clock.monotonic_ms() + due_ms, key, partial(on_due, key))
        await asyncio.sleep(1)
        deadlines.stop()
        deadlines.set(clock.monotonic_ms(), "late", lambda: on_due("late"))
        await asyncio.sleep(1)

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    return calls


def expected(sets: list[tuple[int, str, int]]) -> list[tuple[int, str]]:
    """The same by a model: a dict of due times, looked at every millisecond."""
    due: dict[str, int] = {}
    calls: list[tuple[int, str]] = []
    now_ms = 0

    def advance(to_ms: int) -> None:
        for at_ms in range(now_ms, to_ms):
            for key in sorted(due, key=due.__getitem__):
                if due[key] <= at_ms:
                    calls.append((at_ms, key))
                    del due[key]

    for pause_ms, key, due_in_ms in sets:
        advance(now_ms + pause_ms)
        now_ms += pause_ms
        due[key] = min(due.get(key, NEVER_MS), now_ms + due_in_ms)
    advance(now_ms + 1000)
    return calls


@given(sets=SETS)
def test_each_key_is_called_once_at_its_earliest_time(sets: list[tuple[int, str, int]]) -> None:
    assert sorted(played(sets)) == sorted(expected(sets))
    assert [at_ms for at_ms, _ in played(sets)] == sorted(at_ms for at_ms, _ in expected(sets))


def test_a_key_may_be_set_again_when_it_is_called() -> None:
    assert played([(0, "a", 10)], again_ms=300) == [(10, "a"), (310, "a"), (610, "a"), (910, "a")]


def test_never_does_not_come() -> None:
    assert played([(0, "a", NEVER_MS)]) == []
