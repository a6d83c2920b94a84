"""Clients that poll a queue for one message (AMQP's basic.get)."""

import asyncio
from functools import partial

from millpond.base import limits
from millpond.base.errors import MessageLost, StorageFailure
from millpond.engine.queues.hosted.decisions import Decisions
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.engine.queues.hosted.returning import Returning
from millpond.engine.queues.hosted.turn import Turn
from millpond.queue.consumers import Consumer
from millpond.queue.queue_state import QueueState
from millpond.queue.steps import Handout


class Polling:
    """Those of one queue."""

    def __init__(
        self,
        state: QueueState,
        store: MessageStore,
        decisions: Decisions,
        turn: Turn,
        returning: Returning,
    ) -> None:
        self._state = state
        self._store = store
        self._decisions = decisions
        self._turn = turn
        self._returning = returning

    def take(self, consumer: Consumer) -> Handout | None:
        """One message; None if there is none."""
        turn, state = self._turn, self._state
        turn.take_in()
        now_ms = turn.now_ms()
        step = self._decisions.carry_out(state, partial(state.get, consumer, now_ms), turn.note)
        self._store.write_facts()
        # As RabbitMQ does, look at ages once more before counting.
        turn.decide(partial(state.expire, now_ms))
        turn.wake()
        return step.handouts[0] if step.handouts else None

    async def caught_up(self) -> None:
        """Drop what is too old, however much it is; other queues have their turns between."""
        while not self._turn.is_stopped:
            now_ms = self._turn.now_ms()
            late = self._turn.decide(partial(self._state.expire, now_ms))
            if not late.is_full:
                return
            self._store.write_facts()
            await asyncio.sleep(0)

    async def readable(self) -> None:
        """Wait until what is next can be read: nothing is taken before. Raises why it cannot be."""
        waited_ms, pause_ms = 0, limits.QUEUE_READ_RETRY_MS_MIN
        turn, state = self._turn, self._state
        while not turn.is_stopped:
            await self._returning.done()
            turn.take_in()
            now_ms = turn.now_ms()
            turn.follow(state.awaken(now_ms))
            turn.decide(partial(state.expire, now_ms))
            place = state.next_up()
            try:
                if place is not None:
                    self._store.look(*place)
            except MessageLost:
                return
            except StorageFailure:
                turn.wake()
                if waited_ms >= limits.QUEUE_READ_WAIT_MS_MAX:
                    raise
            else:
                return
            pause_ms = min(pause_ms, limits.QUEUE_READ_WAIT_MS_MAX - waited_ms)
            await asyncio.sleep(pause_ms / 1000)
            waited_ms, pause_ms = waited_ms + pause_ms, 2 * pause_ms
