"""Messages of one priority in the order of their log: which are ready, which are held, which are done.

A lane is a partition's log as far as it was confirmed, and an ack cursor over it. Messages are offsets; some
offsets of the log are none (facts that were written between messages, records of aborted transactions). Those
*gaps* are known when the message behind them is, cost a pair of numbers until they are passed, and are
never handed out or counted.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from millpond.cursor.ack import AckCursor, Delta, Outcome, Range
from millpond.cursor.dead_letter import DeadLetterPolicy
from millpond.cursor.runs import NEVER_MS, NO_OWNER, Run, State

# Who holds a message that is to come again, but not before a time.
LATER = "@later"


class LaneState(NamedTuple):
    """All that is known of a lane when nobody holds anything: what makes another lane the same."""

    start: int
    end: int
    runs: tuple[Run, ...]
    gaps: tuple[Range, ...]


class Lane:
    """One log's worth of messages."""

    __slots__ = ("_gap_count", "_gaps", "cursor", "end")

    def __init__(self, start: int = 0, policy: DeadLetterPolicy | None = None) -> None:
        self.cursor = AckCursor(start, policy)
        # Messages below are confirmed and may be handed out.
        self.end = start
        # Offsets from the cursor's end on that are no messages.
        self._gaps: deque[Range] = deque()
        self._gap_count = 0

    # --- looking -------------------------------------------------------------------------------------

    @property
    def ready(self) -> int:
        """How many messages wait to be handed out."""
        cursor = self.cursor
        return cursor.count(State.AVAILABLE) + self.end - cursor.end - self._gap_count

    @property
    def held(self) -> int:
        """How many messages somebody has and has not settled."""
        return self.cursor.count(State.ACQUIRED) - self.cursor.held_by(LATER)

    def head(self) -> Run | None:
        """The first message that is ready, as the start of a run; None if there is none."""
        cursor = self.cursor
        self._pass_gaps()
        offset = cursor.next_available()
        if offset < cursor.end:
            return next(cursor.runs_within(offset, cursor.end))
        if offset < self.end:
            return Run(offset, self._fresh_end(), State.AVAILABLE)
        return None

    def fresh(self) -> Iterator[Range]:
        """Where messages are that were never handed out."""
        position = self.cursor.end
        for first, next_ in self._gaps:
            if position < first:
                yield position, first
            position = max(position, next_)
        if position < self.end:
            yield position, self.end

    def not_over(self, runs: Iterable[Run]) -> Iterator[Range]:
        """Which messages these runs would end that are not over now."""
        for run in runs:
            if run.state.is_final:
                for known in self.cursor.runs_within(run.first, run.next):
                    if not known.state.is_final:
                        yield known.first, known.next
                if run.next > self.cursor.end:
                    yield from self._fresh_within(max(run.first, self.cursor.end), run.next)

    def _fresh_within(self, first: int, next_: int) -> Iterator[Range]:
        for low, high in self.fresh():
            if max(low, first) < min(high, next_):
                yield max(low, first), min(high, next_)

    def never_delivered(self, first: int, next_: int) -> Iterator[Range]:
        """Which of these messages are ready and, as far as is known, nobody had yet."""
        for run in self.cursor.runs_within(first, min(next_, self.cursor.end)):
            if run.state is State.AVAILABLE and not run.deliveries:
                yield run.first, run.next
        yield from self._fresh_within(first, next_)

    def state(self) -> LaneState:
        """What is to be known after a restart: who holds a message now will not be there."""
        cursor = self.cursor
        runs = (
            run._replace(state=State.AVAILABLE, owner=NO_OWNER, deadline_ms=NEVER_MS)
            if run.state is State.ACQUIRED and run.owner != LATER
            else run
            for run in cursor.runs()
        )
        return LaneState(cursor.start, self.end, tuple(_joined(runs)), tuple(self._gaps))

    # --- changing ------------------------------------------------------------------------------------

    def restore(self, state: LaneState) -> None:
        """Be as a lane was."""
        self.cursor.apply(Delta(runs=state.runs, start=state.start, restarts=True))
        self.end = max(state.end, self.cursor.end)
        self._gaps = deque(state.gaps)
        self._gap_count = sum(next_ - first for first, next_ in state.gaps)

    def lose(self, start: int) -> int:
        """The log lost its beginning. How many messages went that were not over."""
        before = self.ready + self.cursor.count(State.ACQUIRED)
        self.apply(Delta(start=start))
        self.end = max(self.end, start)
        return before - self.ready - self.cursor.count(State.ACQUIRED)

    def extend(self, first: int, next_: int) -> None:
        """Messages ``first`` up to ``next_`` are confirmed. What lies before them is a gap."""
        assert self.end <= first < next_
        if first > self.end:
            self._gaps.append((self.end, first))
            self._gap_count += first - self.end
        self.end = next_

    def take(self, owner: str, credit: int, now_ms: int) -> list[Run]:
        """Hands out up to ``credit`` messages, lowest first; they are the owner's until it lets go."""
        taken: list[Run] = []
        while credit > 0:
            if self._gaps:
                self._pass_gaps()
            outcome = self.cursor.acquire(
                owner=owner, credit=credit, upto=self._fresh_end(), now_ms=now_ms
            )
            if outcome.delta.is_empty:
                break
            self.cursor.apply(outcome.delta)
            taken += outcome.delta.runs
            credit -= outcome.delta.message_count
            if not self._gaps:
                break
        return taken

    def give_up(self, count: int) -> Delta:
        """The first ``count`` ready messages are over, without anybody having had them."""
        runs: list[Run] = []
        while count > 0:
            head = self.head()
            if head is None:
                break
            next_ = min(head.next, head.first + count)
            delta = Delta(runs=(Run(head.first, next_, State.ARCHIVED),))
            self.cursor.apply(delta)
            runs += delta.runs
            count -= next_ - head.first
        return Delta(runs=tuple(_joined(runs)))

    def apply(self, delta: Delta) -> None:
        """Make a fact true, one that was just decided or one from the log."""
        for run in delta.runs:
            self._pass_gaps(run.first)
        if delta.start is not None:
            self._pass_gaps(delta.start)
        self.cursor.apply(delta)
        self._forget_gaps()
        self.end = max(self.end, self.cursor.end)

    def decided(self, outcome: Outcome) -> Delta:
        """Applies what the cursor decided."""
        self.cursor.apply(outcome.delta)
        return outcome.delta

    # --- gaps ----------------------------------------------------------------------------------------

    def _fresh_end(self) -> int:
        return self._gaps[0][0] if self._gaps else self.end

    def _pass_gaps(self, upto: int | None = None) -> None:
        """Gaps that are next, or that lie below an offset, are over."""
        while self._gaps and self._gaps[0][0] <= (self.cursor.end if upto is None else upto - 1):
            first, next_ = self._gaps.popleft()
            self._gap_count -= next_ - first
            self.cursor.apply(Delta(runs=(Run(first, next_, State.ARCHIVED),)))

    def _forget_gaps(self) -> None:
        while self._gaps and self._gaps[0][1] <= self.cursor.end:
            first, next_ = self._gaps.popleft()
            self._gap_count -= next_ - first


def _joined(runs: Iterable[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].next == run.first and joined[-1][2:] == run[2:]:
            joined[-1] = joined[-1]._replace(next=run.next)
        else:
            joined.append(run)
    return joined
