"""The one way by which a message leaves its log for another one.

Dead letters of queues, dead letters of share groups and messages that were delayed all go through here. The
owner of the source decides what is forwarded (a ``Dispatch``: messages as they are to arrive, and where to);
a ``Destination`` puts them into a queue or a topic. What happens when a destination fails is the only choice:

* ``Forwarder.forward`` tries once. A destination that does not keep the messages goes without them, which is
  logged.
* ``RetryingForwarder.forward`` tries until every destination keeps them, and reports that. Until then the
  owner must keep the original: after a restart the destination may get a second copy, never none.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from millpond.base.errors import MillpondError
from millpond.engine.forwarding.kept import Kept, Taken
from millpond.engine.runtime.futures import when_all_done

log = logging.getLogger(__name__)

MessageT = TypeVar("MessageT")
MessageT_contra = TypeVar("MessageT_contra", contravariant=True)
ItemT = TypeVar("ItemT", bound=Hashable)


class Destination(Protocol[MessageT_contra]):
    """A queue or a topic that forwarded messages are put into. ``str`` of it is its name in the log."""

    def put(self, messages: Sequence[MessageT_contra]) -> Taken:
        """Keep these messages, in order. Raises a ``MillpondError`` if none of them is kept."""
        ...


class Dispatch(NamedTuple, Generic[MessageT]):
    """Messages as they are to arrive, and the destinations that each get all of them.

    ``is_unroutable``: there is no destination now, and there should be one.
    """

    messages: Sequence[MessageT]
    destinations: Sequence[Destination[MessageT]]
    is_unroutable: bool = False


class Forwarder(Generic[MessageT]):
    """Forwards messages of one source, trying once."""

    def __init__(self, source: str) -> None:
        """``source`` is the name of the queue or group in this node's log."""
        self._source = source

    def forward(self, dispatches: Iterable[Dispatch[MessageT]]) -> int:
        """Put messages into their destinations; a destination that fails goes without them.

        Return how many messages were taken by a destination, so far as is known now.
        """
        count = 0
        for dispatch in dispatches:
            taken = [self._put(one, dispatch.messages) for one in dispatch.destinations]
            count += max(taken, default=0)
        return count

    def _put(self, destination: Destination[MessageT], messages: Sequence[MessageT]) -> int:
        try:
            taken = destination.put(messages)
        except MillpondError as error:
            self._report(destination, len(messages), error)
            return 0

        def on_done(done: Kept) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None:
                self._report(destination, len(messages), error)

        for durable in taken.durable:
            durable.add_done_callback(on_done)
        return taken.admitted

    def _report(self, destination: Destination[MessageT], count: int, error: BaseException) -> None:
        log.warning(
            "%s: %d %s for %s given up without a copy: %s",
            self._source,
            count,
            "message is" if count == 1 else "messages are",
            destination,
            error,
        )


class RetryingForwarder(Generic[ItemT, MessageT]):
    """Forwards messages of one source until every destination keeps them.

    The messages are named by items, for instance their offsets: each attempt asks anew what an item is and
    where it goes (``route``), since queues and bindings may have changed.
    """

    def __init__(
        self,
        source: str,
        *,
        route: Callable[[ItemT], Iterable[Dispatch[MessageT]]],
        on_kept: Callable[[ItemT], None],
        is_over: Callable[[], bool],
        window: int,
        pause_s: float,
        is_ordered: bool,
        must_admit: bool,
    ) -> None:
        """``is_over``: the source is gone, and nothing is forwarded or reported any more.

        At most ``window`` items are on their way at a time. An item that failed is tried again after
        ``pause_s``; if the order counts, those behind it wait, otherwise they are sent meanwhile.
        ``must_admit``: a destination that refuses a message, because it is full, has failed.
        """
        self._source = source
        self._route = route
        self._on_kept = on_kept
        self._is_over = is_over
        self._window = window
        self._pause_s = pause_s
        self._is_ordered = is_ordered
        self._must_admit = must_admit
        self._waiting: deque[ItemT] = deque()
        self._under_way: set[ItemT] = set()
        # One for all items if the order counts, otherwise one for each that failed.
        self._timers: set[asyncio.TimerHandle] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def __iter__(self) -> Iterator[ItemT]:
        """Items that have not arrived, in no order."""
        yield from self._waiting
        yield from self._under_way

    def forward(self, items: Iterable[ItemT]) -> None:
        """Forward the messages of these items, in order, as soon as the window has room."""
        self._waiting += items
        self._go_on()

    def close(self) -> None:
        """Drop what waits: the source is gone, or another node forwards its messages."""
        self._waiting.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    @property
    def _is_held_up(self) -> bool:
        return self._is_ordered and bool(self._timers)

    def _go_on(self) -> None:
        while self._waiting and len(self._under_way) < self._window and not self._is_held_up:
            item = self._waiting.popleft()
            self._under_way.add(item)
            self._send(item)

    def _send(self, item: ItemT) -> None:
        if self._is_over():
            return
        try:
            kept = self._put_all(item)
        except MillpondError as error:
            self._on_failure(item, error)
            return
        if kept:
            when_all_done(kept, lambda: self._on_outcome(item, kept))
        else:
            self._arrived(item)

    def _put_all(self, item: ItemT) -> list[Kept]:
        """Raises why a destination does not take the messages of an item."""
        kept: list[Kept] = []
        try:
            for dispatch in self._route(item):
                if dispatch.is_unroutable:
                    raise MillpondError("there is no destination for it")
                for destination in dispatch.destinations:
                    taken = destination.put(dispatch.messages)
                    kept += taken.durable
                    if self._must_admit and taken.admitted < len(dispatch.messages):
                        raise MillpondError(f"{destination} is full")
        except MillpondError:
            # The item is sent again as a whole, so the outcome of this attempt does not count.
            for each in kept:
                each.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        return kept

    def _on_outcome(self, item: ItemT, kept: Sequence[Kept]) -> None:
        for each in kept:
            if each.cancelled():
                self._on_failure(item, "the broker stopped waiting for it")
                return
            if (error := each.exception()) is not None:
                self._on_failure(item, error)
                return
            if self._must_admit and each.result() == 0:
                self._on_failure(item, "a destination is full")
                return
        self._arrived(item)

    def _arrived(self, item: ItemT) -> None:
        self._under_way.discard(item)
        if not self._is_over():
            self._on_kept(item)
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._go_on)

    def _on_failure(self, item: ItemT, why: object) -> None:
        if self._is_over():
            self._under_way.discard(item)
            return
        if not self._timers:
            log.warning(
                "%s: %d forwarded messages or portions wait, the next attempt is in %g s: %s",
                self._source,
                len(self),
                self._pause_s,
                why,
            )
        if not self._is_ordered:
            self._after_pause(lambda: self._send(item))
            return
        self._under_way.discard(item)
        self._waiting.appendleft(item)
        if not self._timers:
            self._after_pause(self._go_on)

    def _after_pause(self, then: Callable[[], None]) -> None:
        def on_time() -> None:
            self._timers.discard(timer)
            then()

        timer = asyncio.get_running_loop().call_later(self._pause_s, on_time)
        self._timers.add(timer)
