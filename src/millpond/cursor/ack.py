"""The ack cursor: the delivery state of each message of a log, for one set of consumers that share the work.

A message is available, acquired by an owner until a deadline, settled, or archived (given up). Below
``start`` all are final; from ``end`` on none was ever delivered. In between, the state is kept in runs.

Every verb *decides*: it returns an ``Outcome`` whose ``delta`` says which offsets get which state. Nothing
changes until the delta is given to ``apply``, so a host can write it to a log first, and apply the same
deltas to an empty cursor later to get the same state. One decision is applied, or dropped, before the next
verb is called. Time is an argument, in milliseconds of any one clock; an acquisition has ended when
``now_ms`` reaches its deadline, whether or not ``expire`` was called yet.

A verb on acquired messages takes ranges ``(first, next)`` with ``next`` not included. Messages that the owner
does not hold are listed in ``refused`` and left alone; the host decides whether the rest is applied. Messages
below the start are final: naming them is neither an error nor a change.

Available messages, deadlines and owners are found through *hints*: ranges that were available, due or owned
when they were noted. A hint is checked against the runs when it is used and dropped when it is stale, so that
a change of a run never has to search for its hints.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from millpond.cursor.dead_letter import DeadLetter, DeadLetterPolicy, GiveUp, Reason
from millpond.cursor.runs import NEVER_MS, NO_OWNER, Run, RunMap, State

Range: TypeAlias = tuple[int, int]

# An owner's hints are cleaned up when there are this many more than twice the messages it holds.
_SPARE_HINTS = 32


class Delta(NamedTuple):
    """A change: these runs hold from now on; then everything below ``start`` is final.

    With ``restarts``, all earlier state is dropped first and ``start`` is the new beginning.
    """

    runs: tuple[Run, ...] = ()
    start: int | None = None
    restarts: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.runs and self.start is None

    @property
    def message_count(self) -> int:
        """Return how many messages the runs cover."""
        return sum(run.next - run.first for run in self.runs)


class Outcome(NamedTuple):
    """What a verb would change, the ranges that it refused, and the messages to keep as dead letters."""

    delta: Delta
    refused: tuple[Range, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()


class _Holding:
    """What one owner holds: the number of messages, and hints of where they are."""

    __slots__ = ("count", "ranges")

    def __init__(self) -> None:
        self.count = 0
        self.ranges: list[Range] = []


class AckCursor:
    """The state of each message of one log. The module's docstring says how to use it."""

    __slots__ = ("_available", "_counts", "_deadlines", "_holdings", "_runs", "policy")

    def __init__(self, start: int = 0, policy: DeadLetterPolicy | None = None) -> None:
        self.policy = policy or DeadLetterPolicy()
        self._runs = RunMap(start)
        self._counts = [0] * len(State)
        self._holdings: dict[str, _Holding] = {}
        self._available: list[Range] = []
        self._deadlines: list[tuple[int, int, int]] = []

    # --- reading -----------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Every message below this offset is final."""
        return self._runs.start

    @property
    def end(self) -> int:
        """No message from this offset on was ever delivered."""
        return self._runs.end

    @property
    def run_count(self) -> int:
        """The number of runs: memory and time depend on it, not on the number of messages."""
        return len(self._runs)

    def runs(self) -> Iterator[Run]:
        """Yield the state from start to end."""
        return iter(self._runs)

    def runs_within(self, first: int, next_: int) -> Iterator[Run]:
        """Yield the state between two offsets, within start and end."""
        return self._runs.within(first, next_)

    def count(self, state: State) -> int:
        """Return how many messages between start and end are in a state."""
        return self._counts[state]

    def held_by(self, owner: str) -> int:
        """Return how many messages an owner holds."""
        holding = self._holdings.get(owner)
        return 0 if holding is None else holding.count

    @property
    def owners(self) -> tuple[str, ...]:
        """Return the owners that hold messages."""
        return tuple(self._holdings)

    def next_available(self) -> int:
        """Return the lowest offset that may be delivered; ``end`` if only new ones may be."""
        while self._available:
            first, next_ = self._available[0]
            for run in self._runs.within(first, next_):
                if run.state is State.AVAILABLE:
                    return run.first
            heappop(self._available)
        return self.end

    @property
    def wake_ms(self) -> int:
        """When to call ``expire``: not after the first deadline; ``NEVER_MS`` if there is none."""
        while self._deadlines:
            deadline_ms, first, next_ = self._deadlines[0]
            if any(_is_due(run, deadline_ms) for run in self._runs.within(first, next_)):
                return deadline_ms
            heappop(self._deadlines)
        return NEVER_MS

    # --- deciding ----------------------------------------------------------------------------------

    def acquire(
        self,
        *,
        owner: str,
        credit: int,
        upto: int,
        now_ms: int,
        lock_ms: int | None = None,
        skip_before: int = 0,
    ) -> Outcome:
        """Deliver up to ``credit`` messages, lowest first, all below ``upto``.

        The delta's runs are the delivered messages, with the delivery count of each. Without ``lock_ms`` the
        owner holds them until it releases them. ``skip_before``: deliver none below this offset.
        """
        assert owner != NO_OWNER
        assert lock_ms is None or lock_ms > 0
        deadline_ms = NEVER_MS if lock_ms is None else now_ms + lock_ms
        if not self._available:
            # No message was ever released: the next ones are consecutive.
            first = max(self._runs.end, skip_before)
            next_ = min(upto, first + credit)
            if first >= next_:
                return _NOTHING
            run = Run(first, next_, State.ACQUIRED, 1, owner, deadline_ms)
            return Outcome(Delta((run,)))
        taken: list[Run] = []
        with closing(self._offer(upto, skip_before)) as offer:
            for run in offer:
                if credit <= 0:
                    break
                next_ = min(run.next, run.first + credit)
                credit -= next_ - run.first
                got = Run(run.first, next_, State.ACQUIRED, run.deliveries + 1, owner, deadline_ms)
                taken.append(got)
        return Outcome(delta=Delta(runs=tuple(taken)))

    def settle(self, ranges: Iterable[Range], *, owner: str, now_ms: int) -> Outcome:
        """Mark messages as done."""
        held, refused = self._held(ranges, owner, now_ms)
        runs = tuple(Run(run.first, run.next, State.SETTLED) for run in held)
        return Outcome(delta=Delta(runs=runs), refused=refused)

    def release(
        self, ranges: Iterable[Range], *, owner: str, now_ms: int, counted: bool = True
    ) -> Outcome:
        """Release messages. ``counted=False``: as if they had not been delivered."""
        held, refused = self._held(ranges, owner, now_ms)
        return self._let_go(held, counted=counted, refused=refused)

    def reject(self, ranges: Iterable[Range], *, owner: str, now_ms: int) -> Outcome:
        """Archive messages: they are not delivered again."""
        held, refused = self._held(ranges, owner, now_ms)
        runs = tuple(Run(run.first, run.next, State.ARCHIVED) for run in held)
        dead_letters = tuple(self._dead_letters(held, Reason.REJECTED))
        return Outcome(delta=Delta(runs=runs), refused=refused, dead_letters=dead_letters)

    def extend(self, ranges: Iterable[Range], *, owner: str, now_ms: int, lock_ms: int) -> Outcome:
        """Extend the owner's lock on messages to ``lock_ms`` from now."""
        held, refused = self._held(ranges, owner, now_ms)
        runs = tuple(run._replace(deadline_ms=now_ms + lock_ms) for run in held)
        return Outcome(delta=Delta(runs=runs), refused=refused)

    def release_owner(self, owner: str, *, counted: bool = True) -> Outcome:
        """Release everything that the owner holds, because it is gone."""
        holding = self._holdings.get(owner)
        if holding is None:
            return Outcome(delta=Delta())
        held = [
            run
            for first, next_ in _joined(holding.ranges)
            for run in self._runs.within(first, next_)
            if run.owner == owner
        ]
        return self._let_go(held, counted=counted)

    def held_ranges(self, owner: str) -> list[Range]:
        """Return ranges that contain everything an owner holds, the lowest last; for ``release_next``."""
        holding = self._holdings.get(owner)
        return [] if holding is None else sorted(holding.ranges, reverse=True)

    def release_next(self, owner: str, ranges: list[Range], runs_max: int) -> tuple[Outcome, int]:
        """Release what the owner holds at the end of these ranges, and remove the processed part from the
        list.

        Returns the outcome and how many runs were processed: at most ``runs_max``, so that a large release
        can be done in steps.
        """
        held: list[Run] = []
        looked = position = 0
        while ranges and looked < runs_max:
            first, next_ = ranges.pop()
            looked += 1
            for run in self._runs.within(max(first, position), next_):
                if looked > runs_max:
                    ranges.append((run.first, next_))
                    break
                looked, position = looked + 1, run.next
                if run.owner == owner:
                    held.append(run)
        return self._let_go(held, counted=True), looked

    def expire(self, now_ms: int, ranges_max: int | None = None) -> Outcome:
        """Release messages whose lock has expired, of at most ``ranges_max`` ranges, the longest overdue
        first.
        """
        due: list[tuple[int, int, int]] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms and len(due) != ranges_max:
            due.append(heappop(self._deadlines))
        held = [
            run
            for first, next_ in _joined((first, next_) for _deadline_ms, first, next_ in due)
            for run in self._runs.within(first, next_)
            if _is_due(run, now_ms)
        ]
        for run in held:
            # Only decided so far. Applying the delta makes these stale.
            heappush(self._deadlines, (run.deadline_ms, run.first, run.next))
        return self._let_go(held, counted=True)

    def archive(self, ranges: Iterable[Range]) -> Outcome:
        """Archive messages regardless of their owner, because they are no longer in the log."""
        runs = tuple(
            Run(run.first, run.next, State.ARCHIVED)
            for first, next_ in _joined(ranges)
            for run in self._runs.within(first, next_)
            if not run.state.is_final
        )
        return Outcome(delta=Delta(runs=runs))

    def lose(self, first: int, next_: int) -> Outcome:
        """As ``archive``, also for messages that were never delivered; ``first`` is not beyond ``end``."""
        assert first <= self.end
        runs = self.archive([(first, next_)]).delta.runs
        if next_ > self.end:
            runs = (*runs, Run(self.end, next_, State.ARCHIVED))
        return Outcome(delta=Delta(runs=runs))

    def move_start(self, start: int) -> Outcome:
        """Make everything below ``start`` final. Does nothing if it is already."""
        return Outcome(delta=Delta(start=start) if start > self.start else Delta())

    def restart(self, start: int) -> Outcome:
        """Drop all state and begin at ``start``, which may be lower than before."""
        return Outcome(delta=Delta(start=start, restarts=True))

    # --- applying ----------------------------------------------------------------------------------

    def apply(self, delta: Delta) -> None:
        """Apply a decision."""
        if delta.restarts:
            assert delta.start is not None
            self._forget_all(delta.start)
        for run in delta.runs:
            if run.next > self.start:
                self._set(run.clipped(self.start, run.next))
        if delta.start is not None and delta.start > self.start:
            for run in self._runs.within(self.start, delta.start):
                self._uncount(run)
            self._runs.drop_before(delta.start)
        self._advance()

    def replay(self, deltas: Iterable[Delta]) -> None:
        """Apply many deltas."""
        for delta in deltas:
            self.apply(delta)

    # --- helpers -----------------------------------------------------------------------------------

    def _offer(self, upto: int, skip_before: int) -> Generator[Run, None, None]:
        """Yield the messages that may be delivered, lowest first: released ones, then new ones."""
        spared: list[Range] = []
        position = max(self.start, skip_before)
        try:
            while self._available and self._available[0][0] < upto:
                first, next_ = heappop(self._available)
                kept = False
                for run in self._runs.within(first, next_):
                    if run.state is not State.AVAILABLE:
                        continue
                    if not kept:
                        # Only an offer so far, so the hint stays, without its stale part.
                        spared.append((run.first, next_))
                        kept = True
                    low, high = max(run.first, position), min(run.next, upto)
                    if low < high:
                        position = high
                        yield run.clipped(low, high)
        finally:
            for hint in spared:
                heappush(self._available, hint)
        fresh = max(self.end, skip_before)
        if fresh < upto:
            yield Run(fresh, upto, State.AVAILABLE)

    def _held(
        self, ranges: Iterable[Range], owner: str, now_ms: int
    ) -> tuple[list[Run], tuple[Range, ...]]:
        """Return which messages of these ranges the owner holds, and which it does not."""
        held: list[Run] = []
        refused: list[Range] = []
        for first, next_ in _joined(ranges):
            whole = self._runs.covering(first, next_)
            if whole is not None and whole.owner == owner and whole.deadline_ms > now_ms:
                held.append(whole)
                continue
            for run in self._runs.within(first, next_):
                if run.owner == owner and run.deadline_ms > now_ms:
                    held.append(run)
                else:
                    refused.append((run.first, run.next))
            if next_ > self.end:
                refused.append((max(first, self.end), next_))
        return held, tuple(_joined(refused))

    def _let_go(
        self, held: Sequence[Run], *, counted: bool, refused: tuple[Range, ...] = ()
    ) -> Outcome:
        runs: list[Run] = []
        exhausted: list[Run] = []
        for run in held:
            deliveries = run.deliveries if counted else run.deliveries - 1
            if self.policy.is_exhausted(deliveries):
                runs.append(Run(run.first, run.next, State.ARCHIVED))
                exhausted.append(run)
            else:
                runs.append(Run(run.first, run.next, State.AVAILABLE, deliveries))
        dead_letters = tuple(self._dead_letters(exhausted, Reason.DELIVERIES))
        return Outcome(delta=Delta(runs=tuple(runs)), refused=refused, dead_letters=dead_letters)

    def _dead_letters(self, given_up: Iterable[Run], reason: Reason) -> Iterator[DeadLetter]:
        if self.policy.action(reason) is GiveUp.DEAD_LETTER:
            for run in given_up:
                yield DeadLetter(
                    first=run.first, next=run.next, deliveries=run.deliveries, reason=reason
                )

    def _set(self, run: Run) -> None:
        runs = self._runs
        if run.first >= runs.end:
            if run.first > runs.end:
                # Messages that were skipped: not delivered yet.
                self._append(Run(runs.end, run.first, State.AVAILABLE))
            self._append(run)
            return
        if run.state >= State.SETTLED and run.first == runs.start:
            head = runs.covering(run.first, run.next)
            if head is not None:
                # Final, and at the start: it needs no entry.
                self._uncount(head)
                runs.drop_first(run.next)
                return
        for old in self._runs.within(run.first, run.next):
            self._uncount(old)
        if run.first < self.end < run.next:
            self._runs.append(Run(self.end, run.next, State.AVAILABLE))
        self._runs.overwrite(run)
        self._note(run)

    def _append(self, run: Run) -> None:
        self._runs.append(run)
        self._note(run)

    def _note(self, run: Run) -> None:
        """Count a run that is now in effect, and add the hints by which it will be found."""
        self._counts[run.state] += run.next - run.first
        if run.state is State.AVAILABLE:
            heappush(self._available, (run.first, run.next))
        elif run.state is State.ACQUIRED:
            if run.deadline_ms != NEVER_MS:
                heappush(self._deadlines, (run.deadline_ms, run.first, run.next))
            holding = self._holdings.get(run.owner)
            if holding is None:
                holding = self._holdings[run.owner] = _Holding()
            holding.count += run.next - run.first
            ranges = holding.ranges
            if ranges and ranges[-1][1] == run.first:
                ranges[-1] = ranges[-1][0], run.next
            else:
                ranges.append((run.first, run.next))
            if len(holding.ranges) > 2 * holding.count + _SPARE_HINTS:
                holding.ranges = [
                    (held.first, held.next)
                    for first, next_ in _joined(holding.ranges)
                    for held in self._runs.within(first, next_)
                    if held.owner == run.owner
                ]

    def _uncount(self, run: Run) -> None:
        count = run.next - run.first
        self._counts[run.state] -= count
        if run.state is State.ACQUIRED:
            holding = self._holdings[run.owner]
            holding.count -= count
            if holding.count == 0:
                del self._holdings[run.owner]

    def _advance(self) -> None:
        """Move the start over final messages, which need no entry."""
        runs = self._runs
        run = runs.first()
        while run is not None and run.state >= State.SETTLED:
            self._counts[run.state] -= run.next - run.first
            runs.drop_first(run.next)
            run = runs.first()

    def _forget_all(self, start: int) -> None:
        self._runs.clear(start)
        self._counts = [0] * len(State)
        self._holdings.clear()
        self._available.clear()
        self._deadlines.clear()


_NOTHING = Outcome(Delta())


def _is_due(run: Run, now_ms: int) -> bool:
    return run.state is State.ACQUIRED and run.deadline_ms <= now_ms


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield the same offsets in order, each once."""
    if isinstance(ranges, (tuple, list)) and len(ranges) == 1:
        if ranges[0][0] < ranges[0][1]:
            yield ranges[0]
        return
    first = next_ = 0
    for low, high in sorted(ranges):
        if low >= high:
            continue
        if first < next_ and low <= next_:
            next_ = max(next_, high)
            continue
        if first < next_:
            yield first, next_
        first, next_ = low, high
    if first < next_:
        yield first, next_
