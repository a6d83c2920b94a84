"""Letters that must arrive: from where on a queue's log is kept for them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millpond.base.errors import MessageLost, MillpondError
from millpond.cursor.runs import Run
from millpond.engine.queues import dead_letters
from millpond.engine.queues.dead_letters import DeadLetters
from millpond.engine.queues.queue_handle import NEVER_READ
from millpond.queue.steps import DeadLetter, DeathReason
from millpond.rabbit.names import queue_of
from tests.support.virtual_loop import run


class StuckQueue:
    """Its letters do not arrive until it says so; then they have nowhere to go any more."""

    def __init__(self) -> None:
        self.is_gone = False
        self.is_stuck = True
        self.queue = SimpleNamespace(vhost="/", resource=queue_of("/", "q"))
        self.over: list[tuple[int, int]] = []
        self.lost = 0

    def look(self, _lane: int, _offset: int) -> None:
        raise MillpondError("not now") if self.is_stuck else MessageLost("gone")

    def count_lost(self, count: int, why: str) -> None:
        self.lost += count

    def note_over(self, lane: int, run: Run) -> None:
        self.over.append((lane, run.first))


def letter(lane: int, first: int, next_: int) -> DeadLetter:
    return DeadLetter(lane, first, next_, DeathReason.REJECTED)


def test_the_log_is_kept_from_the_first_letter_on_that_has_not_arrived() -> None:
    async def story() -> None:
        queue = StuckQueue()
        desk = DeadLetters(cast(Any, None), cast(Any, queue))
        assert desk.keeps(0) == NEVER_READ
        desk.take([letter(0, 5, 8), letter(1, 3, 4)])
        assert (desk.keeps(0), desk.keeps(1), desk.keeps(2)) == (5, 3, NEVER_READ)
        desk.take([letter(0, 2, 3), letter(1, 9, 10)])
        assert (desk.keeps(0), desk.keeps(1)) == (2, 3)
        queue.is_stuck = False
        await asyncio.sleep(dead_letters._AGAIN_S + 0.1)
        assert sorted(queue.over) == [(0, 2), (0, 5), (0, 6), (0, 7), (1, 3), (1, 9)]
        assert (desk.keeps(0), desk.keeps(1)) == (NEVER_READ, NEVER_READ)

    run(story())
