"""Who has much to say and who says little share a loop; the clock goes on only when somebody speaks."""

import asyncio
from collections.abc import Callable

import pytest

from millpond.engine.runtime.turns import (
    LONG_NS,
    PIECE_BYTES_MAX,
    PIECE_BYTES_MIN,
    ROUND_NS_MAX,
    SHORT_NS,
    Pace,
    Timed,
    Turns,
    short_round_ns,
)


class Busy:
    """What the thread was busy for."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


class Anybody:
    def speak(self) -> None:
        raise AssertionError("never waits")


QUIET, LOUD = Anybody(), Anybody()


class Talker:
    """Has so many pieces to say, each as long as it may be, or as it is."""

    def __init__(
        self, name: str, turns: Turns, busy: Busy, said: list[str], pieces: int, ns: int = 0
    ) -> None:
        self._name, self._turns, self._busy, self._said = name, turns, busy, said
        self._ns = ns
        self.pieces = pieces
        turns.wait(self)

    def speak(self) -> None:
        ns = self._ns or self._turns.piece_ns(self)
        self._busy.ns += ns
        self._turns.said(self, ns)
        self._said.append(self._name)
        self.pieces -= 1
        if self.pieces:
            self._turns.wait(self)


def told(story: Callable[[Turns, Busy, list[str]], None], rounds: int) -> list[list[str]]:
    """What is said in each of so many rounds of the loop, after the story has begun."""

    async def life() -> list[list[str]]:
        busy = Busy()
        said: list[str] = []
        story(Turns(busy), busy, said)
        heard = []
        for _round in range(rounds):
            await asyncio.sleep(0)
            heard.append(said.copy())
            said.clear()
        return heard

    return asyncio.run(life())


def test_while_nobody_waits_everybody_says_a_long_piece_in_each_round() -> None:
    def story(turns: Turns, busy: Busy, said: list[str]) -> None:
        assert turns.piece_ns(LOUD) == LONG_NS
        for name in "ABC":
            Talker(name, turns, busy, said, 2)

    assert told(story, 3) == [["A", "B", "C"], ["A", "B", "C"], []]


def test_while_somebody_waits_all_share_the_time_of_one_short_piece() -> None:
    """And every other round is for the sockets, and for what was decided."""

    def story(turns: Turns, busy: Busy, said: list[str]) -> None:
        turns.said_little(QUIET)
        assert turns.piece_ns(LOUD) == SHORT_NS
        for name in "ABC":
            Talker(name, turns, busy, said, 2)

    assert told(story, 8) == [[], ["A"], [], ["B"], [], ["C"], [], ["A"]]


def test_who_is_through_before_its_time_is_over_leaves_it_to_the_next() -> None:
    def story(turns: Turns, busy: Busy, said: list[str]) -> None:
        turns.said_little(QUIET)
        Talker("A", turns, busy, said, 2, ns=SHORT_NS // 2)
        Talker("B", turns, busy, said, 2, ns=SHORT_NS // 2)
        Talker("C", turns, busy, said, 2, ns=SHORT_NS)

    assert told(story, 8) == [[], ["A", "B"], [], ["C"], [], ["A", "B"], [], ["C"]]


def test_in_a_hurry_a_round_of_the_loop_has_room_for_one_piece() -> None:
    def story(turns: Turns, _busy: Busy, _said: list[str]) -> None:
        turns.said(LOUD, 10 * SHORT_NS)
        assert not turns.is_full(LOUD)
        turns.said_little(QUIET)
        assert turns.is_full(LOUD)

    told(story, 0)


def test_in_a_hurry_the_next_round_of_the_loop_has_room_again() -> None:
    async def story() -> None:
        turns = Turns(Busy())
        turns.said_little(QUIET)
        assert not turns.is_full(LOUD)
        turns.said(LOUD, SHORT_NS)
        assert turns.is_full(LOUD)
        await asyncio.sleep(0)
        assert not turns.is_full(LOUD)

    asyncio.run(story())


def test_nobody_hurries_itself() -> None:
    turns = Turns(Busy())
    turns.said_little(QUIET)
    assert turns.is_hurried(LOUD)
    assert not turns.is_hurried(QUIET)
    turns.said_little(LOUD)
    assert turns.is_hurried(LOUD)
    assert turns.is_hurried(QUIET)
    turns.said_little(LOUD)
    assert turns.is_hurried(LOUD)


def test_nobody_is_waited_for_for_ever() -> None:
    def story(turns: Turns, busy: Busy, said: list[str]) -> None:
        turns.said_little(QUIET)
        Talker("A", turns, busy, said, 20)

    short = [[], ["A"]] * 16
    assert told(story, 37) == [*short, ["A"], ["A"], ["A"], ["A"], []]


def test_many_who_say_little_do_not_starve_who_has_much_to_say() -> None:
    assert short_round_ns(0) == SHORT_NS
    assert short_round_ns(4 * SHORT_NS) == SHORT_NS
    assert short_round_ns(8 * SHORT_NS) == 2 * SHORT_NS
    assert short_round_ns(1_000 * SHORT_NS) == ROUND_NS_MAX

    def story(turns: Turns, busy: Busy, said: list[str]) -> None:
        turns.said_little(QUIET)
        busy.ns += 8 * SHORT_NS
        for name in "ABC":
            Talker(name, turns, busy, said, 1)

    assert told(story, 4) == [[], ["A", "B"], [], ["C"]]


def test_a_mistake_in_somebodys_turn_does_not_cost_the_others_theirs() -> None:
    class Broken:
        def speak(self) -> None:
            raise RuntimeError("by mistake")

    async def story() -> None:
        busy = Busy()
        said: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        turns = Turns(busy)
        turns.wait(Broken())
        Talker("A", turns, busy, said, 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert said == ["A"]

    asyncio.run(story())


def test_a_piece_is_as_large_as_fits_into_its_time() -> None:
    pace = Pace()
    pace.said(20_000, 1_000_000)
    assert pace.fitting(2_000_000) == 40_000
    assert pace.fitting(500_000) == 10_000
    assert pace.fitting(50_000) == PIECE_BYTES_MIN
    assert pace.fitting(10**12) == PIECE_BYTES_MAX


def test_what_a_small_piece_took_says_nothing_about_large_ones() -> None:
    pace = Pace()
    pace.said(20_000, 1_000_000)
    pace.said(PIECE_BYTES_MIN - 1, 9_000_000)
    assert pace.fitting(1_000_000) == 20_000
    pace.said(PIECE_BYTES_MIN, 0)
    assert pace.fitting(1_000_000) == PIECE_BYTES_MAX


@pytest.mark.parametrize("times", [1, 3])
def test_who_pauses_for_breath_says_little_only_when_it_stays_so(times: int) -> None:
    pace = Pace()
    for _time in range(times):
        assert not pace.said_little()
    pace.said(100_000, 1_000_000)
    assert [pace.said_little() for _time in range(5)] == [False, False, False, True, True]


def test_the_steps_of_a_coroutine_are_timed_and_not_what_it_waits_for() -> None:
    async def story() -> None:
        busy = Busy()

        async def work(gate: asyncio.Event) -> str:
            busy.ns += 3
            await gate.wait()
            busy.ns += 4
            return "done"

        gate = asyncio.Event()
        timed = Timed(work(gate), busy)

        async def outer() -> str:
            return await timed

        task = asyncio.ensure_future(outer())
        await asyncio.sleep(0)
        busy.ns += 1_000
        gate.set()
        assert await task == "done"
        assert timed.ns == 7

    asyncio.run(story())


def test_a_timed_coroutine_can_be_cancelled_and_fails_as_it_does() -> None:
    async def story() -> None:
        ended: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        async def broken() -> None:
            await asyncio.sleep(0)
            raise ZeroDivisionError

        async def outer(timed: Timed[None]) -> None:
            await timed

        task = asyncio.ensure_future(outer(Timed(work(), Busy())))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cancelled"]
        with pytest.raises(ZeroDivisionError):
            await outer(Timed(broken(), Busy()))

    asyncio.run(story())
