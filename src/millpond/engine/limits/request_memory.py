"""One bound over the memory of requests that are not answered yet, on all connections together.

A connection asks before it takes memory for what it reads next. If that does not fit, the connection is not
read from until others have let memory go. Four rules keep the node in service at the bound:

* A connection that holds little may always read: requests of ordinary size are answered while large ones
  wait.
* The last quarter is not for connections that hold very much: these wait for each other.
* One connection at a time may go beyond the bound, so that connections that have all begun something large do
  not wait for each other. It gets what it needs to finish that, and no other connection has the right until
  it has let go as much as it took.
* A connection that was given memory for something that it has begun, and does not send it while others wait,
  is ended; not if it cannot send because the node does not read from it.

So the memory is at most the bound, one message of the largest size, and a little for each connection. Knows
no protocol and no clock.
"""

from typing import Protocol

from millpond.base import limits


class Holder(Protocol):
    """A connection."""

    @property
    def progress_bytes(self) -> int | None:
        """How many bytes of an incomplete message have arrived; None if no message has begun."""
        ...

    @property
    def missing_bytes(self) -> int:
        """How many bytes are missing until the message that has begun is complete."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether the node reads from it when there is memory, or would if the client took its answers.

        False while the node holds it up: for work that is under way, a quota, an alarm or another's turn.
        """
        ...

    def go_on(self) -> None:
        """Read on: the memory is reserved."""
        ...

    def give_up(self, reason: str) -> None:
        """End the connection."""
        ...


class _Mark:
    """How far a connection was at its last progress."""

    __slots__ = ("at_ms", "progress_bytes")

    def __init__(self, progress_bytes: int, at_ms: int) -> None:
        self.progress_bytes = progress_bytes
        self.at_ms = at_ms


class RequestMemory:
    """How much each connection holds, and which connections wait."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self._bytes_max = bytes_max
        self._held: dict[Holder, int] = {}
        # The connections that wait, in order, and how much each wants to hold in all.
        self._wanted: dict[Holder, int] = {}
        # The connection that may exceed the bound: what it has taken beyond it and not released, and what
        # it may still take.
        self._first: Holder | None = None
        self._first_debt = self._first_left = 0
        self._marks: dict[Holder, _Mark] = {}
        self.total = 0
        # Whether only small amounts are given without waiting.
        self.is_full = False
        # What closed connections held, since this was last set to 0.
        self.abandoned_bytes = 0

    @property
    def waiting(self) -> int:
        """How many connections wait."""
        return len(self._wanted)

    def ask(self, holder: Holder, held: int, more: int) -> bool:
        """A connection holds so much, and to read on it needs so much more.

        True: that is set aside for it. False: it must not read until ``go_on`` is called. One that waits and
        asks again keeps its place among those that wait.
        """
        let_go = self._held.get(holder, 0) - held
        self._set(holder, held)
        if _is_little(held, more):
            self._wanted.pop(holder, None)
        is_waiting = holder in self._wanted
        if is_waiting:
            self._wanted[holder] = held + more
        if let_go > 0:
            if holder is self._first:
                self._first_debt -= let_go
                if self._first_debt <= 0:
                    self._first = None
            self._serve(asking=holder)
            if is_waiting and holder not in self._wanted:
                return True
        if self._is_given(holder, held, more):
            self._wanted.pop(holder, None)
            self._set(holder, held + more)
            return True
        self._wanted[holder] = held + more
        return False

    def forget(self, holder: Holder) -> None:
        """Release what a closed connection held."""
        self.abandoned_bytes += self._held.get(holder, 0)
        self._set(holder, 0)
        self._wanted.pop(holder, None)
        if holder is self._first:
            self._first = None
        self._serve()

    def look(self, now_ms: int) -> None:
        """While connections wait, close those that hold much and make no progress."""
        if not self._wanted:
            self._marks.clear()
            return
        for holder in [one for one in self._held if self._is_late(one, now_ms)]:
            holder.give_up(
                f"less than {limits.REQUEST_PROGRESS_BYTES_MIN} bytes of a large request came in "
                f"{limits.REQUEST_PROGRESS_MS // 1000} s while other connections wait for memory "
                "(queued.max.request.bytes)"
            )

    def _is_late(self, holder: Holder, now_ms: int) -> bool:
        progress = holder.progress_bytes
        is_little = self._held[holder] <= limits.REQUEST_LITTLE_BYTES
        if progress is None or is_little or holder in self._wanted or not holder.is_read:
            self._marks.pop(holder, None)
            return False
        mark = self._marks.get(holder)
        if mark is not None:
            come = progress - mark.progress_bytes
            if 0 <= come < limits.REQUEST_PROGRESS_BYTES_MIN:
                return now_ms - mark.at_ms >= limits.REQUEST_PROGRESS_MS
        self._marks[holder] = _Mark(progress, now_ms)
        return False

    def _is_given(self, holder: Holder, held: int, more: int) -> bool:
        if _is_little(held, more):
            return True
        is_huge = _is_huge(held + more)
        is_next = self._is_next(holder, is_huge=is_huge)
        return (is_next and self._fits(more, is_huge=is_huge)) or self._goes_beyond(holder, more)

    def _is_next(self, holder: Holder, *, is_huge: bool) -> bool:
        """Whether no other waiting connection comes before it."""
        for other, wanted in self._wanted.items():
            if other is holder:
                break
            if is_huge or not _is_huge(wanted):
                return False
        return True

    def _fits(self, more: int, *, is_huge: bool) -> bool:
        if is_huge:
            return self.total + more <= self._bytes_max - self._bytes_max // 4
        beyond = self._first_debt if self._first is not None else 0
        return self.total - beyond + more <= self._bytes_max

    def _goes_beyond(self, holder: Holder, more: int) -> bool:
        """Whether a connection may exceed the bound; it may if none does and its message is incomplete."""
        if self._first is None and holder.progress_bytes is not None:
            self._first, self._first_debt = holder, 0
            self._first_left = holder.missing_bytes + limits.REQUEST_LITTLE_BYTES
        if holder is not self._first or more > self._first_left:
            return False
        self._first_debt += more
        self._first_left -= more
        return True

    def _set(self, holder: Holder, held: int) -> None:
        self.total += held - self._held.get(holder, 0)
        self.is_full = self.total >= self._bytes_max
        if held:
            self._held[holder] = held
        else:
            self._held.pop(holder, None)
            self._marks.pop(holder, None)

    def _serve(self, asking: Holder | None = None) -> None:
        """Give memory to waiting connections, in order, as far as it goes.

        The connection that is asking now learns of it by the return value.
        """
        is_over = {True: False, False: False}
        for holder, wanted in tuple(self._wanted.items()):
            if self._wanted.get(holder) != wanted:
                continue
            more = wanted - self._held.get(holder, 0)
            is_huge = _is_huge(wanted)
            is_over[is_huge] = is_over[is_huge] or not self._fits(more, is_huge=is_huge)
            if is_over[is_huge] and not self._goes_beyond(holder, more):
                continue  # a later one may want less, or have an incomplete message
            del self._wanted[holder]
            self._set(holder, wanted)
            if holder is not asking:
                holder.go_on()


class Gathered:
    """The memory of a message that one connection receives piece by piece, reserved in steps."""

    __slots__ = ("_given", "_held", "_holder", "_memory", "is_short")

    def __init__(self, memory: RequestMemory, holder: Holder) -> None:
        self._memory = memory
        self._holder = holder
        self._held = self._given = 0
        # Whether the connection must not read.
        self.is_short = False

    def note(self, held: int, missing: int) -> None:
        """Hold so many bytes of a message of which so many are missing."""
        if held <= limits.REQUEST_LITTLE_BYTES:
            self.let_go()
            return
        is_within = held + min(missing, limits.REQUEST_LITTLE_BYTES) <= self._given
        if self.is_short or held < self._held or not is_within:
            more = min(missing, limits.REQUEST_STEP_BYTES)
            self.is_short = not self._memory.ask(self._holder, held, more)
            self._given = held + more
        self._held = held

    def let_go(self) -> None:
        """Release everything."""
        if self._given:
            self._memory.ask(self._holder, 0, 0)
            self._held = self._given = 0
        self.is_short = False

    def forget(self) -> None:
        """Release everything of a closed connection."""
        if self._given:
            self._memory.forget(self._holder)
            self._held = self._given = 0
        self.is_short = False


def _is_little(held: int, more: int) -> bool:
    return not more or held + more <= limits.REQUEST_LITTLE_BYTES


def _is_huge(wanted: int) -> bool:
    return wanted > limits.REQUEST_MEDIUM_BYTES


def request_bytes_max(setting: int, total_bytes: int) -> int:
    """Return the bound by ``queued.max.request.bytes`` on a machine or container with so much memory."""
    return setting if setting > 0 else max(1, total_bytes // limits.REQUEST_MEMORY_PART)
