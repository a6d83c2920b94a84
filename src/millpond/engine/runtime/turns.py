"""How connections share the event loop: one that has much to do takes turns with the others, by time.

A connection carries out what it received in pieces. While every connection has much to do, or only one is
there, pieces are long: each costs an append, so that longer ones are cheaper. While a client sends little and
waits for the outcome (a consumer acknowledges one message and gets the next; a client waits for an answer to
one request), pieces are short, and in one round of the loop all connections that have much to do share the
time of one piece; they take turns, in the order in which they came. Between two such rounds the loop looks at
its sockets, and what was decided meanwhile goes out. Many that send little are much, too: the more of the
loop they take, the longer is a round of the others. No round lasts longer than ``ROUND_NS_MAX`` and the piece
that ends it.

``busy_ns`` is what this thread was busy for: what the machine gave to other processes is not counted.
``now_ns`` is cheaper and close enough for single pieces. Knows no protocol.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

# A piece may take about so long, while others wait and while nobody does.
SHORT_NS = 500_000
LONG_NS = 6_000_000
# All who have much to say get a part like this of what the others take, up to so long in a round.
_PART = 4
ROUND_NS_MAX = 25_000_000
# Whoever says no more than this, in bytes and in messages or acknowledgements, says little.
LITTLE_BYTES = 4 * 1024
LITTLE_COUNT = 8
# As often in a row, that is, until it counts: who has much to say may pause for breath.
LITTLE_TIMES = 4
# So many pieces of others after it has spoken, nobody expects more of somebody who says little.
_PATIENCE = 16
# A piece is as large as this at least and at most, whatever it takes. At first nobody knows what it will.
PIECE_BYTES_MIN = 8 * 1024
PIECE_BYTES_MAX = 256 * 1024
_PIECE_BYTES_FIRST = 32 * 1024


class Speaker(Protocol):
    """One connection that has more to say."""

    def speak(self) -> None:
        """Say a piece."""
        ...


class Timed(Generic[T]):
    """Awaits a coroutine; ``ns`` is how long its steps have held the loop."""

    __slots__ = ("_coroutine", "_now_ns", "ns")

    def __init__(self, coroutine: Coroutine[Any, Any, T], now_ns: Callable[[], int]) -> None:
        self._coroutine = coroutine
        self._now_ns = now_ns
        self.ns = 0

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._coroutine.__await__()
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            began_ns = self._now_ns()
            try:
                awaited = step(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.ns += self._now_ns() - began_ns
            try:
                value, step = (yield awaited), steps.send
            except BaseException as error:  # noqa: BLE001 - handed on to where it is awaited
                value, step = error, steps.throw


class Pace:
    """How much of what one connection says takes how long, by its last piece."""

    __slots__ = ("_bytes", "_little", "_ns")

    def __init__(self) -> None:
        self._bytes, self._ns = _PIECE_BYTES_FIRST, LONG_NS
        self._little = 0  # times in a row

    def fitting(self, ns: int) -> int:
        """As many bytes as may take so long."""
        return min(max(PIECE_BYTES_MIN, self._bytes * ns // self._ns), PIECE_BYTES_MAX)

    def said(self, size: int, ns: int) -> None:
        """A piece took so long. What small ones cost says nothing about large ones."""
        self._little = 0
        if size >= PIECE_BYTES_MIN:
            self._bytes, self._ns = size, max(1, ns)

    def said_little(self) -> bool:
        """Whether this is how this connection speaks."""
        self._little += 1
        return self._little >= LITTLE_TIMES


class Turns:
    """All connections of one loop."""

    def __init__(
        self,
        busy_ns: Callable[[], int] = time.thread_time_ns,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.busy_ns = busy_ns
        self.now_ns = now_ns
        # Counts rounds of the loop in which pieces took long enough to matter.
        self.round = 0
        self._waiting: deque[Speaker] = deque()
        self._is_scheduled = False
        self._has_hopped = False
        self._pieces = 0
        # Who says little and has spoken last; how many pieces there were then, and when another one had.
        self._last: Speaker | None = None
        self._last_at = self._other_at = -_PATIENCE
        self._short_ns = SHORT_NS
        # Of pieces: in this round of the loop, and in all.
        self._used_ns = self._said_ns = 0
        self._others_ns = self._rest_ns  # until the round before ended

    @property
    def _rest_ns(self) -> int:
        """What everything but pieces has taken."""
        return self.busy_ns() - self._said_ns

    def is_hurried(self, speaker: Speaker) -> bool:
        """Whether somebody else is likely to wait who says little."""
        at = self._other_at if speaker is self._last else self._last_at
        return self._pieces - at < _PATIENCE

    def is_full(self, speaker: Speaker) -> bool:
        """Whether others come first: there is no time left for it in this round of the loop."""
        if self._used_ns >= ROUND_NS_MAX:
            return True
        is_late = bool(self._waiting) or self._used_ns >= SHORT_NS
        return is_late and self.is_hurried(speaker)

    def piece_ns(self, speaker: Speaker) -> int:
        """How long a piece may take now."""
        return self._short_ns if self.is_hurried(speaker) else LONG_NS

    def said(self, speaker: Speaker, ns: int) -> None:
        """Somebody has said a piece."""
        self._pieces += 1
        self._used_ns += ns
        self._said_ns += ns
        if self._used_ns >= SHORT_NS or self.is_hurried(speaker):
            self._schedule()

    def said_little(self, speaker: Speaker) -> None:
        """Somebody has who says little, and waits for what comes of it."""
        if speaker is not self._last:
            self._last, self._other_at = speaker, self._last_at
        self._last_at = self._pieces

    def wait(self, speaker: Speaker) -> None:
        """It has more to say and does so in its turn; once for each time that it waits."""
        self._waiting.append(speaker)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """One round. In a hurry, sockets and what others have decided come first."""
        self._is_scheduled = False
        if self._waiting and not self._has_hopped and self.is_hurried(self._waiting[0]):
            self._has_hopped = True
            self._schedule()
            return
        self._has_hopped = False
        self.round += 1
        round_ns = short_round_ns(self._rest_ns - self._others_ns)
        self._short_ns = max(SHORT_NS, round_ns // max(1, len(self._waiting)))
        self._used_ns = 0
        try:
            for _speaker in range(len(self._waiting)):
                is_hurried = self.is_hurried(self._waiting[0])
                if self._used_ns >= (round_ns if is_hurried else ROUND_NS_MAX):
                    break
                self._waiting.popleft().speak()
        finally:
            self._others_ns = self._rest_ns
            if self._waiting:
                self._schedule()


def short_round_ns(others_ns: int) -> int:
    """How long those who have much to say may take together, after others have taken so long."""
    return max(SHORT_NS, min(others_ns // _PART, ROUND_NS_MAX))
