"""A call that waits for several futures comes exactly once, whatever their order and results."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.runtime.futures import failure_of, when_all_done, when_all_succeed

# For each future: what becomes of it, and in which order they are done.
OUTCOMES = st.lists(st.sampled_from(["result", "failure", "cancelled"]), max_size=6)


async def settle(future: "asyncio.Future[int]", outcome: str) -> None:
    if outcome == "result":
        future.set_result(1)
    elif outcome == "failure":
        future.set_exception(ValueError(id(future)))
    else:
        future.cancel()
    await asyncio.sleep(0)


@given(outcomes=OUTCOMES, early=st.integers(0, 6), data=st.data())
def test_calls(outcomes: list[str], early: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(outcomes))))

    async def story() -> None:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[int]] = [loop.create_future() for _ in outcomes]
        all_done: list[int] = []
        succeeded: list[tuple[int, BaseException | None]] = []
        finished = 0
        for number in order[:early]:
            await settle(futures[number], outcomes[number])
            finished += 1
        twice = [*futures, *futures]
        when_all_done(twice, lambda: all_done.append(finished))
        when_all_succeed(twice, lambda failure: succeeded.append((finished, failure)))
        await asyncio.sleep(0)
        for number in order[early:]:
            finished += 1
            await settle(futures[number], outcomes[number])
        assert all_done == [len(futures)]
        ((at, failure),) = succeeded
        bad = [place for place, number in enumerate(order, 1) if outcomes[number] != "result"]
        assert (failure is not None) == bool(bad)
        if not bad:
            assert at == len(futures)
        elif bad[0] > early:
            assert at == bad[0]
            assert_same(failure, failure_of(futures[order[bad[0] - 1]]))

    asyncio.run(story())


def assert_same(failure: Any, expected: Any) -> None:
    assert (type(failure), failure.args) == (type(expected), expected.args)
