"""Dead letters that must arrive: from which offset on a queue keeps its log for them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millpond.base.errors import MessageLost, MillpondError
from millpond.cursor.runs import Run
from millpond.engine.queues.dead_letters import RETRY_PAUSE_S, DeadLetters
from millpond.engine.queues.queue_handle import NEVER_READ
from millpond.queue.steps import DeadLetter, DeathReason
from millpond.rabbit.names import queue_of


class StuckQueue:
    """Its messages cannot be read until ``is_stuck`` is false; then they are lost."""

    def __init__(self) -> None:
        self.is_gone = False
        self.is_stuck = True
        self.store = self
        self.queue = SimpleNamespace(vhost="/", resource=queue_of("/", "q"))
        self.over: list[tuple[int, int]] = []
        self.lost = 0

    def look(self, _lane: int, _offset: int) -> None:
        raise MillpondError("not now") if self.is_stuck else MessageLost("gone")

    def count_lost(self, count: int, why: str) -> None:
        self.lost += count

    def note_over(self, lane: int, run: Run) -> None:
        self.over.append((lane, run.first))


def dead_letter(lane: int, first: int, next_: int) -> DeadLetter:
    return DeadLetter(lane, first, next_, DeathReason.REJECTED)


async def test_the_log_is_kept_from_the_first_dead_letter_that_has_not_arrived() -> None:
    queue = StuckQueue()
    dead_letters = DeadLetters(cast(Any, None), cast(Any, queue))
    assert dead_letters.keeps(0) == NEVER_READ
    dead_letters.take([dead_letter(0, 5, 8), dead_letter(1, 3, 4)])
    assert (dead_letters.keeps(0), dead_letters.keeps(1), dead_letters.keeps(2)) == (
        5,
        3,
        NEVER_READ,
    )
    dead_letters.take([dead_letter(0, 2, 3), dead_letter(1, 9, 10)])
    assert (dead_letters.keeps(0), dead_letters.keeps(1)) == (2, 3)
    queue.is_stuck = False
    await asyncio.sleep(RETRY_PAUSE_S + 0.1)
    assert sorted(queue.over) == [(0, 2), (0, 5), (0, 6), (0, 7), (1, 3), (1, 9)]
    assert (dead_letters.keeps(0), dead_letters.keeps(1)) == (NEVER_READ, NEVER_READ)
