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

# The time that a piece may take, while other connections wait and while none does.
SHORT_NS = 500_000
LONG_NS = 6_000_000
# The share of the other connections' time that all busy connections get in a round, and its bounds.
_PART = 4
ROUND_NS_MAX = 25_000_000
# A connection that sends at most this, in bytes and in messages or acknowledgements, sends little.
LITTLE_BYTES = 4 * 1024
LITTLE_COUNT = 8
# It must send little so often in a row, because a busy connection may pause.
LITTLE_TIMES = 4
# After so many pieces of others, a connection that sends little is not expected to send again soon.
_PIECES_EXPECTED_MAX = 16
# The bounds of a piece in bytes, and its size before any piece of the connection was measured.
PIECE_BYTES_MIN = 8 * 1024
PIECE_BYTES_MAX = 256 * 1024
_PIECE_BYTES_FIRST = 32 * 1024


class Speaker(Protocol):
    """A connection that has received more than it has handled."""

    def speak(self) -> None:
        """Handle a piece."""
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
    """How many bytes of a connection take how long, by its last piece."""

    __slots__ = ("_bytes", "_little", "_ns")

    def __init__(self) -> None:
        self._bytes, self._ns = _PIECE_BYTES_FIRST, LONG_NS
        self._little = 0  # times in a row

    def fitting(self, ns: int) -> int:
        """Return how many bytes take about so long."""
        return min(max(PIECE_BYTES_MIN, self._bytes * ns // self._ns), PIECE_BYTES_MAX)

    def said(self, size: int, ns: int) -> None:
        """Note how long a piece took. Small pieces say nothing about the cost of large ones."""
        self._little = 0
        if size >= PIECE_BYTES_MIN:
            self._bytes, self._ns = size, max(1, ns)

    def said_little(self) -> bool:
        """Note a small read. Return whether this connection sends little."""
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
        # The last connection that sends little; the number of pieces when it sent, and when another one did.
        self._last: Speaker | None = None
        self._last_at = self._other_at = -_PIECES_EXPECTED_MAX
        self._short_ns = SHORT_NS
        # The time of pieces: in this round of the loop, and in all.
        self._used_ns = self._said_ns = 0
        self._others_ns = self._rest_ns  # until the round before ended

    @property
    def _rest_ns(self) -> int:
        """The time that everything but pieces has taken."""
        return self.busy_ns() - self._said_ns

    def is_hurried(self, speaker: Speaker) -> bool:
        """Whether another connection that sends little is likely to wait."""
        at = self._other_at if speaker is self._last else self._last_at
        return self._pieces - at < _PIECES_EXPECTED_MAX

    def is_full(self, speaker: Speaker) -> bool:
        """Whether this round of the loop has no time left for a piece, so that others come first."""
        if self._used_ns >= ROUND_NS_MAX:
            return True
        is_late = bool(self._waiting) or self._used_ns >= SHORT_NS
        return is_late and self.is_hurried(speaker)

    def piece_ns(self, speaker: Speaker) -> int:
        """Return how long a piece may take now."""
        return self._short_ns if self.is_hurried(speaker) else LONG_NS

    def said(self, speaker: Speaker, ns: int) -> None:
        """Note that a connection has handled a piece."""
        self._pieces += 1
        self._used_ns += ns
        self._said_ns += ns
        if self._used_ns >= SHORT_NS or self.is_hurried(speaker):
            self._schedule()

    def said_little(self, speaker: Speaker) -> None:
        """Note that a connection that sends little has sent, and waits for the outcome."""
        if speaker is not self._last:
            self._last, self._other_at = speaker, self._last_at
        self._last_at = self._pieces

    def wait(self, speaker: Speaker) -> None:
        """Queue a connection for its next turn; once for each time that it waits."""
        self._waiting.append(speaker)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Run one round. In a hurry, sockets and decisions of other connections come first."""
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
    """Return how long all busy connections together may take, after others have taken so long."""
    return max(SHORT_NS, min(others_ns // _PART, ROUND_NS_MAX))
