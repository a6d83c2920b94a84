"""Messages of one priority in the order of their log: which are ready, which are held, which are done.

A lane is a partition's log as far as it was confirmed, and an ack cursor over it. Messages are offsets; some
offsets of the log are none (facts that were written between messages, records of aborted transactions). Those
*gaps* are known when the message behind them is, cost some two bytes until they are passed (``gaps.py``), and
are never handed out or counted.

Of a message far behind what was handed out it may be known that a consumer may have had it. That is kept
until the cursor comes there: a cursor that jumped ahead would need runs for every gap in between.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from millpond.base import limits
from millpond.cursor.ack import AckCursor, Delta, Outcome, Range
from millpond.cursor.dead_letter import DeadLetterPolicy
from millpond.cursor.runs import NEVER_MS, NO_OWNER, Run, State
from millpond.queue.gaps import Gaps, PackedGaps

# The owner of a message that is to come again, but not before a time.
LATER = "@later"
# Above every offset.
NOWHERE = 2**63 - 1


class LaneState(NamedTuple):
    """All that is known of a lane when no consumer holds anything: what makes another lane the same.

    Of a lane with very many gaps it is only what lies below ``end``. Distances of gaps begin at ``start``.
    """

    start: int
    end: int
    runs: tuple[Run, ...]
    gaps: PackedGaps = PackedGaps()


class Lane:
    """One log's worth of messages."""

    __slots__ = ("_ahead", "_gaps", "cursor", "end", "returning_from")

    def __init__(self, start: int = 0, policy: DeadLetterPolicy | None = None) -> None:
        self.cursor = AckCursor(start, policy)
        # Messages below are confirmed and may be handed out.
        self.end = start
        # What is from here on waits until what is on its way back is there, so that nothing overtakes it.
        self.returning_from = NOWHERE
        # Offsets from the cursor's end on that are no messages.
        self._gaps = Gaps()
        # What is known of messages from the cursor's end on, in order.
        self._ahead: deque[Run] = deque()

    # --- looking -------------------------------------------------------------------------------------

    @property
    def ready(self) -> int:
        """How many messages wait to be handed out."""
        cursor = self.cursor
        return cursor.count(State.AVAILABLE) + self.end - cursor.end - self._gaps.offsets

    @property
    def held(self) -> int:
        """How many messages consumers have and have not settled."""
        return self.cursor.count(State.ACQUIRED) - self.cursor.held_by(LATER)

    def head(self) -> Run | None:
        """The first message that is ready, as the start of a run; None if there is none."""
        cursor = self.cursor
        self._pass()
        offset = cursor.next_available()
        if offset < cursor.end:
            return next(cursor.runs_within(offset, cursor.end))
        if offset < self.end:
            return Run(offset, self._fresh_end(), State.AVAILABLE)
        return None

    def fresh(self) -> Iterator[Range]:
        """Where messages are that were never handed out."""
        return self._fresh_within(self.cursor.end, self.end)

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
        position, next_ = max(first, self.cursor.end), min(next_, self.end)
        for low, high in self._gaps.from_(position):
            if low >= next_:
                break
            if position < low:
                yield position, low
            position = high
        if position < next_:
            yield position, next_

    def never_delivered(self, first: int, next_: int) -> Iterator[Range]:
        """Which of these messages are ready and, as far as is known, were not delivered yet."""
        for run in self.cursor.runs_within(first, min(next_, self.cursor.end)):
            if run.state is State.AVAILABLE and not run.deliveries:
                yield run.first, run.next
        for low, high in self._fresh_within(first, next_):
            position = low
            for run in self._ahead:
                if run.first >= high:
                    break
                if position < run.first:
                    yield position, run.first
                position = max(position, run.next)
            if position < high:
                yield position, high

    def ready_within(self, first: int, next_: int) -> Iterator[Range]:
        """Which of these messages wait to be handed out."""
        for run in self.cursor.runs_within(first, min(next_, self.cursor.end)):
            if run.state is State.AVAILABLE:
                yield run.first, run.next
        yield from self._fresh_within(first, next_)

    def state(self, gaps_max: int = limits.QUEUE_SNAPSHOT_GAPS_MAX) -> LaneState:
        """What is to be known after a restart: consumers that hold messages now will not be there."""
        cursor = self.cursor
        runs = (
            run._replace(state=State.AVAILABLE, owner=NO_OWNER, deadline_ms=NEVER_MS)
            if run.state is State.ACQUIRED and run.owner != LATER
            else run
            for run in cursor.runs()
        )
        gaps, end = self._gaps.packed(cursor.start, gaps_max)
        end = self.end if end is None else end
        return LaneState(cursor.start, end, (*_joined(runs), *self._ahead), gaps)

    # --- changing ------------------------------------------------------------------------------------

    def restore(self, state: LaneState) -> None:
        """Be as a lane was."""
        known = 0
        position = state.start
        for run in state.runs:
            if run.first != position:
                break
            known, position = known + 1, run.next
        self.cursor.apply(Delta(runs=state.runs[:known], start=state.start, restarts=True))
        self.end = max(state.end, self.cursor.end)
        self._gaps = Gaps.unpacked(state.gaps, state.start)
        self._ahead = deque(state.runs[known:])

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
            self._gaps.append(self.end, first)
        self.end = next_

    def take(self, owner: str, credit: int, now_ms: int) -> list[Run]:
        """Hands out up to ``credit`` messages, lowest first; they are the owner's until it lets go."""
        taken: list[Run] = []
        while credit > 0:
            if self._gaps.count or self._ahead:
                self._pass()
            upto = min(self._fresh_end(), self.returning_from)
            outcome = self.cursor.acquire(owner=owner, credit=credit, upto=upto, now_ms=now_ms)
            if outcome.delta.is_empty:
                break
            self.cursor.apply(outcome.delta)
            taken += outcome.delta.runs
            credit -= outcome.delta.message_count
            if not self._gaps.count and not self._ahead:
                break
        return taken

    def give_up(self, count: int) -> Delta:
        """The first ``count`` ready messages are over, without having been delivered."""
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

    def drop(self, count: int) -> Delta:
        """As ``give_up``, however many they are: what lies between them is in its runs, too."""
        runs: list[Run] = []
        cursor = self.cursor
        self._pass()
        while count > 0 and (offset := cursor.next_available()) < cursor.end:
            run = next(cursor.runs_within(offset, cursor.end))
            over = Run(offset, min(run.next, offset + count), State.ARCHIVED)
            cursor.apply(Delta(runs=(over,)))
            runs.append(over)
            count -= over.next - over.first
        next_ = min(self.end, self._gaps.reach(cursor.end, count))
        if next_ > cursor.end:
            runs.append(Run(cursor.end, next_, State.ARCHIVED))
            cursor.apply(Delta(runs=(runs[-1],)))
            self._forget_passed()
        return Delta(runs=tuple(_joined(runs)))

    def apply(self, delta: Delta) -> None:
        """Make a fact true, one that was just decided or one from the log."""
        runs: Iterable[Run] = delta.runs
        if self._gaps.count or self._ahead:
            runs = [run for run in runs if not self._keep_ahead(run)]
        if delta.start is not None:
            self._pass(delta.start)
        self.cursor.apply(delta._replace(runs=tuple(runs)))
        self._forget_passed()
        self.end = max(self.end, self.cursor.end)

    def decided(self, outcome: Outcome) -> Delta:
        """Applies what the cursor decided."""
        self.cursor.apply(outcome.delta)
        return outcome.delta

    # --- ahead ---------------------------------------------------------------------------------------

    def _fresh_end(self) -> int:
        """Up to where what is next was never handed out and lies together."""
        end = self._gaps.first if self._gaps.count else self.end
        return min(end, self._ahead[0].first) if self._ahead else end

    def _pass(self, upto: int = 0) -> None:
        """The cursor is told of what is next, or lies below an offset: gaps are over."""
        gaps, ahead, cursor = self._gaps, self._ahead, self.cursor
        while gaps.count or ahead:
            upto = max(upto, cursor.end + 1)
            if gaps.count and not (ahead and ahead[0].first < gaps.first):
                if gaps.first >= upto:
                    return
                run = Run(*gaps.pop(), State.ARCHIVED)
            elif ahead[0].first >= upto:
                return
            else:
                run = ahead.popleft()
            cursor.apply(Delta(runs=(run,)))

    def _keep_ahead(self, run: Run) -> bool:
        """Whether a fact is of messages that come later; if not, the cursor is told of all before them."""
        self._pass()
        if run.first <= self.cursor.end or run.state is not State.AVAILABLE:
            self._pass(run.first)
            return False
        if self._ahead and run.first < self._ahead[-1].next:
            self._pass(run.first)
            return False
        self._ahead.append(run)
        return True

    def _forget_passed(self) -> None:
        end, ahead = self.cursor.end, self._ahead
        self._gaps.drop(end)
        while ahead and ahead[0].first < end:
            run = ahead.popleft()
            if run.next > end:
                ahead.appendleft(run.clipped(end, run.next))


def _joined(runs: Iterable[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].next == run.first and joined[-1][2:] == run[2:]:
            joined[-1] = joined[-1]._replace(next=run.next)
        else:
            joined.append(run)
    return joined
