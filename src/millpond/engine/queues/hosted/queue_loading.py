"""What the log of a queue says, told to its line when a node begins to host the queue."""

from typing import TYPE_CHECKING

from millpond.cursor.ack import Delta
from millpond.cursor.runs import Run, State
from millpond.queue.log_facts import LaneSnapshot, LogFacts
from millpond.queue.steps import Facts

if TYPE_CHECKING:
    from millpond.engine.queues.hosted.local_queue import LocalQueue


class Loading:
    """What the log of a lane says, told to the line."""

    def __init__(self, queue: "LocalQueue", number: int) -> None:
        self._queue = queue
        self._state = queue.state
        self._store = queue.store
        self._number = number

    def on_snapshot(self, snapshot: LaneSnapshot) -> None:
        self._store.has_ttl = self._store.has_ttl or snapshot.has_ttl
        self._state.recovery.restore(
            self._number,
            snapshot.lane,
            has_ttl=snapshot.has_ttl,
            kept_bytes=snapshot.kept_bytes,
        )

    def on_messages(self, first: int, next_: int) -> None:
        is_delayed = self._state.settings.is_delayed
        due_ms = self._store.due_ms(self._number, first, next_) if is_delayed else ()
        self._state.published(
            self._number, first, next_, has_ttl=self._store.has_ttl, due_ms=due_ms
        )

    def on_damage(self, first: int, next_: int) -> None:
        # What was said there is not known: there may have been messages with a limit of their own.
        self._store.has_ttl = True
        # Nor is what lies between the last message and the damage a message: facts do.
        known = self._state.lanes[self._number].end
        over = Run(min(first, known), next_, State.ARCHIVED)
        self._state.recovery.apply(Facts(self._number, Delta(runs=(over,))))
        why = f"offsets {first} to {next_ - 1} cannot be read"
        self._queue.count_lost(next_ - first, why, at_most=True)

    def on_facts(self, facts: LogFacts) -> None:
        self._store.has_ttl = self._store.has_ttl or facts.has_ttl
        if facts.runs:
            self._state.recovery.apply(Facts(self._number, Delta(runs=facts.runs)))
