"""The way from this node to the queues that one other node hosts.

Requests go to the host one call after the other, each with all that gathered meanwhile; events come by a long
poll. Both belong to a session. A call that is not answered is repeated on another way (``host_route.py``).
When that fails too, for any reason, the session is over: it is not known what the host has heard, so every
queue is attached anew, in another session, and the host forgets this one.
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
    QueueRequest,
    Refused,
)
from millpond.engine.queues.services import QueueServices

log = logging.getLogger(__name__)


class Attached(Protocol):
    """A queue that is attached at a host, as this node sees it."""

    def on_handed(self, event: Handed) -> None: ...

    def on_answered(self, event: Answered) -> None: ...

    def on_refused(self, event: Refused) -> None: ...

    def on_detached(self) -> None: ...


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
        self._attachments: dict[int, Attached] = {}
        self._asked: dict[int, Attached] = {}
        self._next_attachment = 0
        self._requests: list[QueueRequest] = []
        self._has_requests = asyncio.Event()
        self._has_begun = asyncio.Event()

    # --- what queues do ------------------------------------------------------------------------------

    def attach(self, attached: Attached, key: str) -> int:
        """Attach the queue with this key. Return the number of the attachment."""
        self._next_attachment += 1
        attachment = self._next_attachment
        self._attachments[attachment] = attached
        self._say(Attach(attachment, key))
        return attachment

    def detach(self, attachment: int) -> None:
        """The queue is not wanted any more, or elsewhere."""
        attached = self._attachments.pop(attachment, None)
        if attached is not None:
            self._asked = {
                number: one for number, one in self._asked.items() if one is not attached
            }
            self._say(Detach(attachment))

    def say(self, attachment: int, request: QueueRequest, *, number: int | None = None) -> None:
        """Send a request about an attachment; ``number`` if it is to be answered."""
        if number is not None:
            self._asked[number] = self._attachments[attachment]
        self._say(request)

    def close(self) -> None:
        """The node stops."""
        self._is_closed = True
        self._is_open = False
        self._attachments.clear()
        self._requests.clear()
        self._has_requests.set()

    # --- one session ---------------------------------------------------------------------------------

    def _say(self, request: QueueRequest) -> None:
        if self._is_closed:
            return
        if not self._is_open:
            self._open()
        self._requests.append(request)
        self._has_requests.set()

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
        self._has_requests.set()
        self._has_begun.set()
        self._requests.clear()
        self._asked.clear()
        attachments, self._attachments = self._attachments, {}
        for attached in attachments.values():
            attached.on_detached()

    async def _send(self, session: int) -> None:
        number = 0
        while self._is_current(session):
            if not self._requests:
                self._has_requests.clear()
                await self._has_requests.wait()
                continue
            request = SendQueueRequests(
                node_id=self._engine.info.node_id,
                life=self._life,
                session=session,
                number=number,
                requests=self._next_requests(),
            )
            number += 1
            await self.way.send(request)
            self._has_begun.set()

    def _next_requests(self) -> tuple[QueueRequest, ...]:
        """As many as go into one request."""
        size = count = 0
        for request in self._requests:
            size += len(request.batch) if isinstance(request, Publish) else 0
            if count and size > limits.QUEUE_MESSAGE_BYTES_MAX:
                break
            count += 1
        taken = tuple(self._requests[:count])
        del self._requests[:count]
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
            elif not self._attachments and not self._requests:
                # No queue is attached there any more: the host will notice that it is not asked.
                self._is_open = False
                self._has_requests.set()
                return
            for event in events:
                self._on_event(event)

    def _on_event(self, event: QueueEvent) -> None:
        match event:
            case Handed():
                attached = self._attachments.get(event.attachment)
                if attached is not None:
                    attached.on_handed(event)
            case Answered():
                attached = self._asked.pop(event.number, None)
                if attached is not None:
                    attached.on_answered(event)
            case Refused():
                attached = self._asked.pop(event.number, None)
                if attached is not None:
                    attached.on_refused(event)
            case Detached():
                attached = self._attachments.pop(event.attachment, None)
                if attached is not None:
                    self._asked = {
                        number: one for number, one in self._asked.items() if one is not attached
                    }
                    attached.on_detached()
