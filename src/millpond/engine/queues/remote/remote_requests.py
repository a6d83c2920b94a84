"""What was asked of a queue's host and is not answered: asked again of the next host, or given up in time."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from millpond.base import limits
from millpond.base.errors import MillpondError
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.remote.queue_messages import Answered, QueueRequest


@dataclass(slots=True, eq=False)
class _Question:
    request: Callable[[int, int], QueueRequest]
    here: Callable[[LocalQueue], None]
    future: "asyncio.Future[Answered]"
    timer: asyncio.TimerHandle
    # It means something to this host only.
    is_fleeting: bool


class Questions:
    """One queue's, by their numbers. ``late`` says why one is given up."""

    def __init__(self, late: Callable[[], MillpondError]) -> None:
        self._late = late
        self._open: dict[int, _Question] = {}

    def add(
        self,
        number: int,
        request: Callable[[int, int], QueueRequest],
        here: Callable[[LocalQueue], None],
        *,
        is_fleeting: bool = False,
    ) -> "asyncio.Future[Answered]":
        """``request`` makes the request, given attachment and number; ``here`` carries it out if this node
        hosts the queue by then."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answered] = loop.create_future()
        timer = loop.call_later(limits.QUEUE_HOST_WAIT_MS_MAX / 1000, self._give_up, number)
        self._open[number] = _Question(request, here, future, timer, is_fleeting)
        return future

    def requests(self, attachment: int) -> Iterator[tuple[int, QueueRequest]]:
        """Everything that is open, in the order of asking."""
        for number, question in list(self._open.items()):
            yield number, question.request(attachment, number)

    def answer(self, event: Answered) -> None:
        question = self._take(event.number)
        if question is not None and not question.future.done():
            question.future.set_result(event)

    def refuse(self, number: int, error: MillpondError) -> None:
        question = self._take(number)
        if question is not None:
            refuse(question.future, error)

    def drop_fleeting(self) -> None:
        """The host is lost."""
        for number in [number for number, one in self._open.items() if one.is_fleeting]:
            self._take(number)

    def do_here(self, hosted: LocalQueue) -> None:
        """The queue is hosted here."""
        for number in tuple(self._open):
            question = self._take(number)
            assert question is not None
            try:
                question.here(hosted)
            except MillpondError as error:
                refuse(question.future, error)

    def refuse_all(self, error: MillpondError) -> None:
        for number in tuple(self._open):
            self.refuse(number, error)

    def _give_up(self, number: int) -> None:
        self.refuse(number, self._late())

    def _take(self, number: int) -> _Question | None:
        question = self._open.pop(number, None)
        if question is not None:
            question.timer.cancel()
        return question


def refuse(future: "asyncio.Future[Any]", error: MillpondError) -> None:
    """Unless it was answered."""
    if not future.done():
        future.set_exception(error)


def pass_on(
    asked: "asyncio.Future[Answered]",
    answer: "asyncio.Future[Any]",
    read: Callable[[Answered], Any],
) -> None:
    """``answer`` is what can be read in what was asked."""

    def on_done(done: "asyncio.Future[Answered]") -> None:
        if answer.done() or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(read(done.result()))

    asked.add_done_callback(on_done)
