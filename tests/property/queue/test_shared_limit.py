"""Consumers that share a channel's limit, in any order in which their queues have turns.

A machine plays the channel: queues with messages are looked at in any order, acknowledgements come when they
like, messages come and go by themselves. Whatever happens, the limit holds, no room is left while a consumer
wants it and nothing happens, and no consumer is passed over for more than its turn.
"""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.queue.consumers import UNLIMITED
from millpond.queue.shared_limit import SharedLimit


class Pond:
    """A channel with a limit, and queues that are looked at in an order that chance decides."""

    def __init__(
        self, limit: SharedLimit, prefetch: int, free: tuple[bool, ...], seed: int
    ) -> None:
        self.limit = limit
        self.prefetch = prefetch
        # By consumer: whether it need not acknowledge, and what waits for it.
        self.no_ack = {f"c{number}": is_free for number, is_free in enumerate(free)}
        self.ready = dict.fromkeys(self.no_ack, 0)
        self.held = 0
        # How much others were handed, and how many rounds there were, since it has had something to get.
        self.passed = dict.fromkeys(self.no_ack, 0)
        self.chance = random.Random(seed)
        self.woken: list[str] = []
        self.is_round = False

    def publish(self, owner: str, count: int) -> None:
        self.ready[owner] += count
        self.wake(owner)

    def lose(self, owner: str) -> None:
        """All that waits for it is too old, or somebody else got it."""
        self.ready[owner] = 0
        self.passed[owner] = 0

    def acknowledge(self, count: int) -> None:
        self.held -= min(count, self.held)
        self.freed()

    def wake(self, owner: str) -> None:
        if owner not in self.woken:
            self.woken.append(owner)

    def freed(self) -> None:
        if not self.is_round and self.limit.is_waited_for:
            for owner in self.limit.begin(self.prefetch - self.held):
                self.is_round = True
                self.wake(owner)

    def look(self) -> None:
        """The queue of one that was woken has a turn; a round ends when all have had theirs."""
        if not self.woken:
            self.is_round = False
            self.limit.end()
            self.freed()
            return
        owner = self.woken.pop(self.chance.randrange(len(self.woken)))
        if not self.ready[owner]:
            return
        granted = self.limit.room(owner, self.prefetch - self.held)
        if granted == 0:
            self.freed()
            return
        no_ack = self.no_ack[owner]
        count = min(self.ready[owner], 7 if no_ack else granted)
        self.ready[owner] -= count
        self.held += 0 if no_ack else count
        self.limit.took(owner, UNLIMITED if no_ack else count)
        assert self.held <= self.prefetch
        self.passed[owner] = 0
        for other, ready in self.ready.items():
            if ready and other != owner:
                self.passed[other] += 1
        if self.ready[owner]:
            self.wake(owner)

    def settle(self) -> None:
        """Until nothing happens by itself."""
        for _look in range(10_000):
            if not self.woken and not self.is_round:
                break
            self.look()
        else:
            raise AssertionError("it never ends")
        if self.prefetch > self.held:
            assert not any(self.ready.values()), "there is room, and one waits for it"


steps = st.lists(
    st.tuples(
        st.sampled_from(["publish", "acknowledge", "look", "settle", "lose"]),
        st.integers(0, 4),
        st.integers(1, 12),
    ),
    max_size=120,
)


def play(
    limit: SharedLimit,
    prefetch: int,
    free: tuple[bool, ...],
    script: list[tuple[str, int, int]],
    seed: int,
) -> None:
    pond = Pond(limit, prefetch, free, seed)
    owners = list(pond.ready)
    for step, number, count in script:
        owner = owners[number % len(owners)]
        match step:
            case "publish":
                pond.publish(owner, count)
            case "acknowledge":
                pond.acknowledge(count)
            case "look":
                pond.look()
            case "lose":
                pond.lose(owner)
            case _:
                pond.settle()
        # All others may have two turns before it: one that they had begun, and the one that is theirs.
        assert max(pond.passed.values()) <= 2 * len(owners), "one is passed over"
    for _turn in range(10_000):
        pond.settle()
        if not any(pond.ready.values()):
            return
        pond.acknowledge(prefetch)
    raise AssertionError("one never gets its messages")


@given(
    prefetch=st.integers(1, 9),
    free=st.lists(st.booleans(), min_size=2, max_size=5).map(tuple),
    script=steps,
    seed=st.integers(0, 2**32),
)
def test_nobody_is_passed_over(
    prefetch: int, free: tuple[bool, ...], script: list[tuple[str, int, int]], seed: int
) -> None:
    play(SharedLimit(), prefetch, free, script, seed)


class FirstComeFirstServed(SharedLimit):
    """Whoever asks first gets all there is, as it was before there were turns."""

    def room(self, owner: str, free: int) -> int:
        self._waiting[owner] = None
        return max(0, free)


class NeverEnds(SharedLimit):
    """What was offered to one that has no messages is kept for it."""

    def end(self) -> None:
        self._offers = {owner: left for owner, left in self._offers.items() if left}

    def begin(self, free: int) -> list[str]:
        return [] if self._offers else super().begin(free)


@pytest.mark.parametrize("broken", [FirstComeFirstServed, NeverEnds])
def test_a_limit_that_passes_one_over_is_found(broken: Callable[[], SharedLimit]) -> None:
    with pytest.raises(AssertionError):
        play_many(broken)


def play_many(make: Callable[[], SharedLimit]) -> None:
    chance = random.Random(7)
    for seed in range(200):
        script = [
            (
                chance.choice(["publish", "acknowledge", "look", "settle", "lose"]),
                chance.randrange(5),
                chance.randint(1, 12),
            )
            for _step in range(120)
        ]
        play(make(), chance.randint(1, 9), (False,) * chance.randint(2, 5), script, seed)


def test_the_limit_itself_passes_nobody_over_in_the_same_scripts() -> None:
    play_many(SharedLimit)
