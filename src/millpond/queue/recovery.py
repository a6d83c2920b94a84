"""What a queue learns from its log: its state while it is loaded, and what the log has lost since."""

from collections.abc import Iterable, Sequence

from millpond.cursor.ack import Delta, Range
from millpond.cursor.runs import Run, State
from millpond.queue.ages import Ages
from millpond.queue.known import KnownMessages
from millpond.queue.lane import LATER, Lane, LaneState
from millpond.queue.sizes import ReadyBytes
from millpond.queue.steps import NOTHING, Facts, Step


class Recovery:
    """The recovery of one queue. ``begin_load`` comes first, then snapshots and facts in the log's order
    (messages are told to ``QueueState.published``), then ``end_load``."""

    def __init__(
        self, known: KnownMessages, lanes: Sequence[Lane], sizes: ReadyBytes, ages: Ages
    ) -> None:
        self._known = known
        self._lanes = lanes
        self._sizes = sizes
        self._ages = ages

    def begin_load(self) -> None:
        """The log will be told; sizes are added up at the end of it (``end_load``)."""
        self._sizes.begin_load()

    def restore(
        self, lane: int, state: LaneState, *, has_ttl: bool, kept_bytes: int | None = None
    ) -> None:
        """What a snapshot in the log says, before any later fact is applied."""
        self._lanes[lane].restore(state)
        if has_ttl:
            self._ages.note_ttl()
        self._sizes.restored(lane, kept_bytes)

    def apply(self, facts: Facts) -> None:
        """A fact from the log."""
        self._sizes.ended(facts.lane, facts.delta.runs)
        self._lanes[facts.lane].apply(facts.delta)

    def doubt(self, lane: int, first: int, next_: int) -> Step:
        """A consumer may have had these messages already: they count as delivered once."""
        target = self._lanes[lane]
        runs = tuple(
            Run(low, high, State.AVAILABLE, 1) for low, high in target.never_delivered(first, next_)
        )
        if not runs:
            return NOTHING
        target.apply(Delta(runs=runs))
        return Step(facts=(Facts(lane, Delta(runs=runs)),))

    def end_load(self) -> None:
        """No consumer holds a message any more."""
        for lane in self._lanes:
            for owner in lane.cursor.owners:
                if owner != LATER:
                    lane.decided(lane.cursor.release_owner(owner))
        self._sizes.end_load(sum(lane.ready for lane in self._lanes))

    def lose(self, lane: int, start: int) -> int:
        """The log of a lane lost its beginning. Return how many messages were lost."""
        lost = self._lanes[lane].lose(start)
        if lost:
            self._known.clear()
            self._sizes.lost(lane)
        return lost

    def lose_unreadable(self, lane: int, ranges: Iterable[Range]) -> tuple[int, Step]:
        """Drop what is ready there, without dead letters: it cannot be read. Return how much it was."""
        target = self._lanes[lane]
        facts: list[Facts] = []
        for first, next_ in ranges:
            runs = tuple(
                Run(low, high, State.ARCHIVED) for low, high in target.ready_within(first, next_)
            )
            if runs:
                target.apply(Delta(runs=runs))
                facts.append(Facts(lane, Delta(runs=runs)))
        self._known.clear()
        self._sizes.lost(lane)
        count = sum(run.next - run.first for fact in facts for run in fact.delta.runs)
        return count, Step(facts=tuple(facts))
