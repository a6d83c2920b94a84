"""The way from this node to the queues that one other node hosts.

Wishes go in requests, one after the other, each with all that gathered meanwhile; events come by a long poll.
Both belong to a session. A request that is not answered is repeated on another way (``queue_way.py``). When
it fails all the same, whatever the reason, the session is over: nobody knows what the host has heard, so
every queue takes a seat anew, in another session, and the host forgets this one.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from millpond.base import limits
from millpond.base.errors import MillpondError, ShuttingDown
from millpond.base.ids import NodeId
from millpond.engine.queues.peer_requests import CollectEvents, SendQueueRequests
from millpond.engine.queues.remote.host_route import HostRoute
from millpond.engine.queues.remote.queue_messages import (
    Answered,
    Attach,
    Detach,
    Detached,
    Handed,
    Publish,
    QueueEvent,
    Refused,
    Wish,
)
from millpond.engine.queues.services import QueueServices

log = logging.getLogger(__name__)


class Attached(Protocol):
    """Who sits at a host: a queue as it is seen from here."""

    def on_handed(self, event: Handed) -> None: ...

    def on_answered(self, event: Answered) -> None: ...

    def on_refused(self, event: Refused) -> None: ...

    def on_unseated(self) -> None: ...


class QueueLink:
    """One for each node that hosts queues which are used here."""

    def __init__(self, engine: QueueServices, node: NodeId, life: str) -> None:
        self._engine = engine
        self._node = node
        self._life = life
        self.way = HostRoute(engine, node)
        self._session = 0
        self._is_open = False
        self._is_closed = False
        self._seats: dict[int, Attached] = {}
        self._asked: dict[int, Attached] = {}
        self._next_seat = 0
        self._wishes: list[Wish] = []
        self._has_wishes = asyncio.Event()
        self._has_begun = asyncio.Event()

    # --- what queues do ------------------------------------------------------------------------------

    def sit(self, seated: Attached, key: str) -> int:
        """Have the queue with this key there; the number of the seat."""
        self._next_seat += 1
        seat = self._next_seat
        self._seats[seat] = seated
        self._say(Attach(seat, key))
        return seat

    def rise(self, seat: int) -> None:
        """The queue is not wanted any more, or elsewhere."""
        seated = self._seats.pop(seat, None)
        if seated is not None:
            self._asked = {number: one for number, one in self._asked.items() if one is not seated}
            self._say(Detach(seat))

    def say(self, seat: int, wish: Wish, *, number: int | None = None) -> None:
        """Something about a seat; ``number`` if it is to be answered."""
        if number is not None:
            self._asked[number] = self._seats[seat]
        self._say(wish)

    def close(self) -> None:
        """The node stops."""
        self._is_closed = True
        self._is_open = False
        self._seats.clear()
        self._wishes.clear()
        self._has_wishes.set()

    # --- one session ---------------------------------------------------------------------------------

    def _say(self, wish: Wish) -> None:
        if self._is_closed:
            return
        if not self._is_open:
            self._open()
        self._wishes.append(wish)
        self._has_wishes.set()

    def _open(self) -> None:
        self._session += 1
        self._is_open = True
        self._has_begun = asyncio.Event()
        tasks = self._engine.runtime.tasks
        try:
            tasks.spawn(self._run(self._send, self._session), name=f"queues to {self._node}")
            tasks.spawn(self._run(self._collect, self._session), name=f"queues of {self._node}")
        except ShuttingDown:
            self.close()

    async def _run(self, work: Callable[[int], Coroutine[Any, Any, None]], session: int) -> None:
        try:
            await work(session)
        except MillpondError as error:
            if self._is_current(session):
                log.info("queues of node %d are out of reach: %s", self._node, error)
                self._break()
        except Exception:
            log.exception("the way to queues of node %d failed; it begins anew", self._node)
            if self._is_current(session):
                self._break()

    def _is_current(self, session: int) -> bool:
        return self._is_open and self._session == session

    def _break(self) -> None:
        self._is_open = False
        self._has_wishes.set()
        self._has_begun.set()
        self._wishes.clear()
        self._asked.clear()
        seats, self._seats = self._seats, {}
        for seated in seats.values():
            seated.on_unseated()

    async def _send(self, session: int) -> None:
        number = 0
        while self._is_current(session):
            if not self._wishes:
                self._has_wishes.clear()
                await self._has_wishes.wait()
                continue
            request = SendQueueRequests(
                node_id=self._engine.info.node_id,
                life=self._life,
                session=session,
                number=number,
                requests=self._next_wishes(),
            )
            number += 1
            await self.way.send(request)
            self._has_begun.set()

    def _next_wishes(self) -> tuple[Wish, ...]:
        """As many as go into one request."""
        size = count = 0
        for wish in self._wishes:
            size += len(wish.batch) if isinstance(wish, Publish) else 0
            if count and size > limits.QUEUE_MESSAGE_BYTES_MAX:
                break
            count += 1
        taken = tuple(self._wishes[:count])
        del self._wishes[:count]
        return taken

    async def _collect(self, session: int) -> None:
        await self._has_begun.wait()
        seen = 0
        while self._is_current(session):
            request = CollectEvents(
                node_id=self._engine.info.node_id,
                life=self._life,
                session=session,
                seen=seen,
                wait_ms=limits.QUEUE_POLL_MS,
            )
            events = await self.way.collect(request)
            if not self._is_current(session):
                return
            if events:
                seen += 1
            elif not self._seats and not self._wishes:
                # Nobody sits there any more: the host will notice that nobody asks.
                self._is_open = False
                self._has_wishes.set()
                return
            for event in events:
                self._on_event(event)

    def _on_event(self, event: QueueEvent) -> None:
        match event:
            case Handed():
                seated = self._seats.get(event.seat)
                if seated is not None:
                    seated.on_handed(event)
            case Answered():
                seated = self._asked.pop(event.number, None)
                if seated is not None:
                    seated.on_answered(event)
            case Refused():
                seated = self._asked.pop(event.number, None)
                if seated is not None:
                    seated.on_refused(event)
            case Detached():
                seated = self._seats.pop(event.seat, None)
                if seated is not None:
                    self._asked = {
                        number: one for number, one in self._asked.items() if one is not seated
                    }
                    seated.on_unseated()
