"""Forwarding: whatever destinations do, an item counts as kept when every destination keeps it, and once."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import MillpondError
from millpond.engine.forwarding.forwarder import Dispatch, Forwarder, RetryingForwarder
from millpond.engine.forwarding.kept import Kept, Taken
from tests.support.time.virtual_loop import run

PAUSE_S = 2.0
WINDOW = 3
# What a destination does to one call: keep it at once or later, refuse it (full) at once or later, fail it
# at once or later.
ACTIONS = ("keeps", "keeps later", "is full", "is full later", "fails", "fails later")
OUTCOMES = st.lists(st.sampled_from(ACTIONS), max_size=12)


class Place:
    """A destination that follows a script, and keeps everything when the script has ended."""

    def __init__(self, script: Sequence[str]) -> None:
        self._script = list(script)
        self.kept: list[int] = []
        self.under_way = 0
        self.most_under_way = 0

    def __str__(self) -> str:
        return "a place"

    def put(self, messages: Sequence[int]) -> Taken:
        action = self._script.pop(0) if self._script else "keeps"
        if action == "fails":
            raise MillpondError("not now")
        if action == "is full":
            return Taken(0, ())
        if action == "keeps":
            self.kept += messages
            return Taken(len(messages), ())
        done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        asyncio.get_running_loop().call_later(0.5, self._finish, action, list(messages), done)
        return Taken(len(messages), (done,))

    def _finish(self, action: str, messages: list[int], done: Kept) -> None:
        self.under_way -= 1
        if action == "fails later":
            done.set_exception(MillpondError("not kept"))
            return
        is_kept = action == "keeps later"
        if is_kept:
            self.kept += messages
        done.set_result(len(messages) if is_kept else 0)  # type: ignore[arg-type]


class Source:
    """The owner of the items: they are kept elsewhere, or they are not; and it can go away."""

    def __init__(self, places: Sequence[Place], *, is_ordered: bool) -> None:
        self.places = places
        self.over: list[int] = []
        self.early: list[int] = []
        self.is_gone = False
        self.forwarder: RetryingForwarder[int, int] = RetryingForwarder(
            "a source",
            route=self._route,
            on_kept=self._on_kept,
            is_over=lambda: self.is_gone,
            window=WINDOW,
            pause_s=PAUSE_S,
            is_ordered=is_ordered,
            must_admit=True,
        )

    def _route(self, item: int) -> Iterator[Dispatch[int]]:
        yield Dispatch([item], self.places)

    def _on_kept(self, item: int) -> None:
        self.over.append(item)
        if not all(item in place.kept for place in self.places):
            self.early.append(item)


async def forwarded(scripts: Sequence[Sequence[str]], count: int, *, is_ordered: bool) -> Source:
    source = Source([Place(script) for script in scripts], is_ordered=is_ordered)
    source.forwarder.forward(range(count))
    await asyncio.sleep(PAUSE_S * 50)
    return source


@given(st.lists(OUTCOMES, min_size=1, max_size=3), st.integers(1, 10), st.booleans())
def test_every_item_arrives_and_is_reported_once_and_not_before(
    scripts: list[list[str]], count: int, is_ordered: bool
) -> None:
    source = run(forwarded(scripts, count, is_ordered=is_ordered))
    assert sorted(source.over) == list(range(count))
    assert source.early == []
    assert len(source.forwarder) == 0
    assert all(place.most_under_way <= WINDOW for place in source.places)


@given(OUTCOMES, st.integers(1, 10), st.floats(0, 10), st.booleans())
def test_a_source_that_is_gone_hears_nothing_more(
    script: list[str], count: int, after_s: float, is_ordered: bool
) -> None:
    async def story() -> None:
        source = Source([Place(script)], is_ordered=is_ordered)
        source.forwarder.forward(range(count))
        await asyncio.sleep(after_s)
        source.is_gone = True
        source.forwarder.close()
        over, kept = list(source.over), len(source.places[0].kept)
        under_way = source.places[0].under_way
        await asyncio.sleep(PAUSE_S * 20)
        assert source.over == over
        assert len(source.places[0].kept) <= kept + under_way

    run(story())


@given(st.lists(OUTCOMES, min_size=1, max_size=3), st.integers(1, 10))
def test_one_attempt_reaches_every_destination_that_works(
    scripts: list[list[str]], count: int
) -> None:
    async def story() -> None:
        places = [Place(script) for script in scripts]
        once: Forwarder[int] = Forwarder("a source")
        once.forward(Dispatch([number], places) for number in range(count))
        await asyncio.sleep(1)
        for place, script in zip(places, scripts, strict=True):
            done = [*script, *["keeps"] * count][:count]
            kept = [number for number, one in enumerate(done) if one.startswith("keeps")]
            assert sorted(place.kept) == kept

    run(story())


@given(st.integers(WINDOW, 10), st.integers(1, 3))
def test_items_that_fail_together_follow_in_their_order(count: int, rounds: int) -> None:
    source = run(forwarded([["fails later"] * WINDOW * rounds], count, is_ordered=True))
    assert source.over == list(range(count))


def test_a_destination_that_admits_some_of_an_item_has_failed() -> None:
    class Small:
        """A destination that takes one message of the first call, which it tells later."""

        def __init__(self) -> None:
            self.calls: list[list[int]] = []

        def put(self, messages: Sequence[int]) -> Taken:
            self.calls.append(list(messages))
            done: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
            done.set_result(1 if len(self.calls) == 1 else len(messages))
            return Taken(len(messages), (done,))

    async def story() -> tuple[list[list[int]], list[str]]:
        place, over = Small(), list[str]()
        forwarder: RetryingForwarder[str, int] = RetryingForwarder(
            "a source",
            route=lambda _item: [Dispatch([1, 2, 3], [place])],
            on_kept=over.append,
            is_over=lambda: False,
            window=WINDOW,
            pause_s=PAUSE_S,
            is_ordered=True,
            must_admit=True,
        )
        forwarder.forward(["item"])
        await asyncio.sleep(PAUSE_S * 2)
        return place.calls, over

    assert run(story()) == ([[1, 2, 3], [1, 2, 3]], ["item"])


def test_in_order_those_behind_a_failure_wait_and_otherwise_they_do_not() -> None:
    async def arrived_soon(*, is_ordered: bool) -> list[int]:
        source = Source([Place(["fails"])], is_ordered=is_ordered)
        source.forwarder.forward(range(3))
        await asyncio.sleep(PAUSE_S / 2)
        return source.over

    assert run(arrived_soon(is_ordered=True)) == []
    assert run(arrived_soon(is_ordered=False)) == [1, 2]


def test_a_report_that_comes_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: "RetryingForwarder[int, int]", item: int, _kept: Sequence[Kept]) -> None:
        self._arrived(item)

    monkeypatch.setattr(RetryingForwarder, "_on_outcome", hasty)
    assert run(forwarded([["fails later"]], 1, is_ordered=True)).early == [0]
