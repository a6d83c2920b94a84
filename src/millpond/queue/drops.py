"""Messages that a queue drops: which facts and which dead letters follow."""

from collections.abc import Callable, Sequence

from millpond.cursor.ack import Delta, Outcome
from millpond.cursor.runs import Run, State
from millpond.queue.known import KnownMessages
from millpond.queue.lane import LATER, Lane
from millpond.queue.settings import QueueSettings
from millpond.queue.sizes import ReadyBytes
from millpond.queue.steps import DeadLetter, DeathReason, Facts, Step, joined_steps


class Drops:
    """The drops of one queue."""

    def __init__(
        self,
        known: KnownMessages,
        lanes: Sequence[Lane],
        sizes: ReadyBytes,
        settings: QueueSettings,
    ) -> None:
        self._known = known
        self._lanes = lanes
        self._sizes = sizes
        self.configure(settings)

    def configure(self, settings: QueueSettings) -> None:
        self._has_target = settings.dead_letter_target is not None

    @property
    def are_looked_at(self) -> bool:
        """Whether it matters which messages are dropped: each is a dead letter, or its size counts."""
        return self._has_target or self._sizes.is_counted

    def left(self, number: int, first: int, next_: int) -> None:
        """Messages of a lane are no longer ready."""
        self._sizes.went(number, first, next_)
        if len(self._known):
            self._known.forget(number, first, next_)

    def from_head(self, count: int, reason: DeathReason) -> Step:
        """Drop messages from the head: the highest priority first, as RabbitMQ does."""
        steps = []
        for number in reversed(range(len(self._lanes))):
            lane_count = min(count, self._lanes[number].ready)
            if lane_count > 0:
                steps.append(self.from_lane(number, lane_count, reason))
                count -= lane_count
        return joined_steps(*steps)

    def from_lane(self, number: int, count: int, reason: DeathReason) -> Step:
        """Drop messages from the head of a lane."""
        if not self.are_looked_at:
            return Step(facts=(Facts(number, self._lanes[number].drop(count)),))
        delta = self._lanes[number].give_up(count)
        dead_letters = []
        for run in delta.runs:
            self.left(number, run.first, run.next)
            dead_letters.append(DeadLetter(number, run.first, run.next, reason))
        return Step(facts=(Facts(number, delta),), dead_letters=self._wanted(tuple(dead_letters)))

    def over(self, number: int, lane: Lane, outcome: Outcome, reason: DeathReason) -> Step:
        """What consumers decided of messages of a lane."""
        dead_letters = tuple(
            DeadLetter(number, one.first, one.next, reason) for one in outcome.dead_letters
        )
        facts = (Facts(number, lane.decided(outcome)),) if outcome.delta.runs else ()
        return Step(facts=facts, dead_letters=self._wanted(dead_letters), refused=outcome.refused)

    def back(
        self, number: int, lane: Lane, outcome: Outcome, later: Callable[[Run], int | None]
    ) -> Step:
        """Messages are ready again, or at a later time; those delivered too often are dead letters."""
        runs = tuple(_postponed(run, later) for run in outcome.delta.runs)
        outcome = outcome._replace(delta=Delta(runs=runs))
        step = self.over(number, lane, outcome, DeathReason.DELIVERY_LIMIT)
        for run in outcome.delta.runs:
            if run.state is State.AVAILABLE:
                self._sizes.came(number, run.first, run.next)
        return step

    def _wanted(self, dead_letters: tuple[DeadLetter, ...]) -> tuple[DeadLetter, ...]:
        return dead_letters if self._has_target else ()


def _postponed(run: Run, later: Callable[[Run], int | None]) -> Run:
    until_ms = later(run) if run.state is State.AVAILABLE else None
    if until_ms is None:
        return run
    return Run(run.first, run.next, State.ACQUIRED, run.deliveries, LATER, until_ms)
