"""How a queue comes to an end while clients use it.

While it is decided that a queue goes because it is unused, no client can begin to use it. While a client
deletes it on a condition, what others publish waits: it is in the queue if the queue stays.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from millpond.base.errors import MillpondError
from millpond.engine.forwarding.kept import Taken, when_all
from millpond.message.hub import Message


class _HeldBack(NamedTuple):
    """Messages that were published while it was decided whether their queue goes."""

    messages: Sequence[Message]
    again: bool
    kept: "asyncio.Future[int | None]"


class Publish(Protocol):
    """How messages come into the queue."""

    def __call__(self, messages: Sequence[Message], *, again: bool) -> Taken: ...


class Ending:
    """That of one queue, if it has begun."""

    def __init__(
        self,
        publish: Publish,
        check: Callable[[], None],
    ) -> None:
        """``publish`` puts messages into the queue; ``check`` raises if the queue is gone."""
        self._publish = publish
        self._check = check
        # Done when it is known whether the queue goes.
        self._decided: asyncio.Future[None] | None = None
        # None while no client deletes the queue.
        self._held_back: list[_HeldBack] | None = None
        self._deleters = 0

    # --- a queue that is unused ----------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        return self._decided is not None

    def begin(self) -> None:
        """From now on no client can begin to use the queue, until ``finish``."""
        self._decided = asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        """The queue is gone, or could not be ended."""
        decided, self._decided = self._decided, None
        if decided is not None:
            decided.set_result(None)

    async def passed(self) -> None:
        """Wait until it is known whether the queue goes. Raises if it is gone then."""
        if self._decided is not None:
            await asyncio.wait([self._decided])
            self._check()

    # --- a queue that is deleted on a condition ------------------------------------------------------

    def hold(self, messages: Sequence[Message], *, again: bool) -> Taken | None:
        """Hold back what is published now, if that is necessary; None if not."""
        if self._held_back is None:
            return None
        later: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._held_back.append(_HeldBack(messages, again, later))
        return Taken(len(messages), (later,))

    @contextmanager
    def holding_back(self) -> Iterator[None]:
        """What is published in here is so when the last is through, or never if the queue is gone."""
        self._deleters += 1
        if self._held_back is None:
            self._held_back = []
        try:
            yield
        finally:
            self._deleters -= 1
            if not self._deleters:
                self._let_in()

    def _let_in(self) -> None:
        held_back, self._held_back = self._held_back or [], None
        for messages, again, kept in held_back:
            try:
                self._check()
                when_all(*self._publish(messages, again=again), kept)
            except MillpondError as error:
                if not kept.done():
                    kept.set_exception(error)
