"""One connection to the management API: HTTP/1.1, one request at a time, everything within bounds.

Requests whose answers take long take turns with the other connections (``engine/runtime/turns.py``), and
bodies have their part of the memory of requests (``engine/limits/request_memory.py``).

While a request is being answered nothing more is read from its socket, so a client that sends without
reading is stopped by its own buffers. A request that does not come whole in its time, a connection that is
silent for too long, and one that does not read its answer, are ended.
"""

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from millpond.base import limits
from millpond.base.errors import ShuttingDown
from millpond.engine.api.limits import Gathered, RequestMemory
from millpond.engine.api.runtime import SHORT_NS, Timed, Turns
from millpond.frontend.rabbitmq_http.http import Refused, Request, Response
from millpond.wire.http.server import (
    BadRequest,
    BodyPiece,
    ConnectionClosed,
    RequestEnd,
    RequestHead,
    ServerConnection,
)
from millpond.wire.shape import NeedData

if TYPE_CHECKING:
    from millpond.frontend.rabbitmq_http.frontend import Management

log = logging.getLogger(__name__)


class Writer(Protocol):
    """The side of a transport that a session needs."""

    def writelines(self, buffers: Sequence[bytes]) -> None:
        """Send, in order."""
        ...

    def pause_reading(self) -> None:
        """Deliver no more bytes for now."""
        ...

    def resume_reading(self) -> None:
        """Deliver bytes again."""
        ...

    def finish(self, seconds: float) -> None:
        """Send what is left and no more, and read on until the client ends the connection, or for so long."""
        ...

    def close(self) -> None:
        """Send what is left, then end the connection."""
        ...

    def abort(self) -> None:
        """End the connection at once."""
        ...


class HttpSession:
    """One connection's requests. The transport calls it with bytes; it sends by its ``writer``."""

    # No other connection is hurried by a request here.
    is_awaited = False

    def __init__(
        self,
        management: "Management",
        writer: Writer,
        *,
        peer: str,
        turns: Turns,
        memory: RequestMemory,
    ) -> None:
        self._management = management
        self._writer = writer
        self._turns = turns
        self._gathered = Gathered(memory, self)
        self._http = ServerConnection(
            head_bytes_max=limits.MANAGEMENT_HEAD_BYTES_MAX,
            body_bytes_max=limits.MANAGEMENT_BODY_BYTES_MAX,
        )
        self._head: RequestHead | None = None
        # Whether some of the next request is there.
        self._has_begun = False
        self._body = bytearray()
        self._body_bytes_max = limits.MANAGEMENT_BODY_BYTES_MAX  # as announced
        self._answered_bytes = 0  # of the body of the request that is being answered
        self._waiting: Request | None = None  # a request that waits for its turn
        self._is_costly = False  # the last answer held the loop for long
        self._is_known = False  # the user who sends the request
        self._is_over = False  # what comes now is thrown away
        self._is_lost = False  # the socket is gone
        self._is_held = False  # the socket is not read from
        self._late_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._drained.set()
        self.peer = peer
        self._arm(limits.MANAGEMENT_REQUEST_S)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, or waits for that."""
        return self._answering is not None or self._waiting is not None

    # --- what the transport calls ----------------------------------------------------------------

    def data_received(self, data: bytes) -> int:
        """Take what came. Returns 0: what takes long is the answer, which is timed by itself."""
        if self._is_over:
            self._late_bytes += len(data)
            if self._late_bytes > limits.MANAGEMENT_LATE_BYTES_MAX:
                self._writer.abort()
            return 0
        if not self._has_begun:
            self._has_begun = True
            self._arm(limits.MANAGEMENT_REQUEST_S)
        self._http.receive_data(data)
        self._advance()
        self._note_memory()
        return 0

    def eof_received(self) -> bool:
        """The client may have sent all and still want its answer."""
        if self._is_over:
            return False
        self._http.receive_eof()
        self._advance()
        return self.is_busy

    def pause_writing(self) -> None:
        """Stop writing: the client does not read."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Go on writing: the client reads."""
        self._drained.set()

    def send_close(self) -> None:
        """Do nothing: HTTP has no message for the end of a connection."""

    def connection_lost(self) -> None:
        """Drop the answer that is being made: the socket is closed."""
        self._is_lost = True
        self._disarm()
        self._drained.set()
        self._waiting = None
        self._body = bytearray()
        self._gathered.forget()

    # --- a request ---------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Handle the events of the bytes that have arrived, until a request is complete."""
        while not (self.is_busy or self._is_lost or self._is_over):
            try:
                event = self._http.next_event()
            except BadRequest as error:
                too_large = error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                reason = "payload_too_large" if too_large else "bad_request"
                self._refuse(error.status, reason, str(error))
                return
            match event:
                case RequestHead():
                    self._head = event
                    self._body_bytes_max = event.body_bytes_max
                case BodyPiece():
                    self._body += event.data
                    stranger_max = limits.MANAGEMENT_STRANGER_BYTES_MAX
                    if len(self._body) > stranger_max and self._is_stranger():
                        self._refuse(HTTPStatus.UNAUTHORIZED, "not_authorized", "Login failed")
                        return
                case RequestEnd():
                    self._hand_over()
                case ConnectionClosed():
                    self._writer.close()
                    return
                case NeedData():
                    if self._http.is_awaiting_continue:
                        self._write(self._http.send_continue())
                    return

    def _is_stranger(self) -> bool:
        """Whether the request that is coming is of a user who cannot log in; found out once for each."""
        if not self._is_known:
            self._is_known = self._management.knows(self._request())
        return not self._is_known

    def _request(self) -> Request:
        """As far as it has come."""
        head = self._head
        assert head is not None
        headers = head.headers
        return Request(
            method=head.method,
            target=head.target,
            authorization=headers.get(b"authorization", b"").decode("latin-1"),
            body=bytes(self._body),
            peer=self.peer,
            reason=headers.get(b"x-reason", b"").decode("utf-8", "replace"),
        )

    def _hand_over(self) -> None:
        request = self._request()
        self._head, self._body, self._is_known = None, bytearray(), False
        self._disarm()
        self._hold(is_held=True)
        self._answered_bytes = len(request.body)
        if self._is_costly and self._turns.is_full(self):
            self._waiting = request
            self._turns.wait(self)
        else:
            self._begin_answer(request)

    def speak(self) -> None:
        """It is this connection's turn; nothing is left to do if it has ended meanwhile."""
        request, self._waiting = self._waiting, None
        if request is not None:
            self._begin_answer(request)

    def _begin_answer(self, request: Request) -> None:
        try:
            self._answering = self._management.engine.runtime.tasks.spawn(
                self._answer(request), name=f"http {self.peer}"
            )
        except ShuttingDown:
            self._writer.abort()

    async def _answer(self, request: Request) -> None:
        work = Timed(self._management.answer(request), self._turns.now_ns)
        try:
            response = await work
            self._is_costly = work.ns >= SHORT_NS
            if self._is_costly:
                self._turns.said(self, work.ns)
            self._send(response, is_head=request.method == "HEAD")
            async with asyncio.timeout(limits.MANAGEMENT_IDLE_S):
                await self._drained.wait()
        except TimeoutError:
            log.info("peer=%s: the client does not read its answer", self.peer)
            self._writer.abort()
        finally:
            self._answering = None
            self._answered_bytes = 0
        self._next()

    def _next(self) -> None:
        """Prepare for the next request, or end the connection."""
        if self._is_lost:
            return
        if not self._http.start_next():
            self._writer.close()
            return
        self._has_begun = self._http.has_unread_bytes
        self._arm(limits.MANAGEMENT_REQUEST_S if self._has_begun else limits.MANAGEMENT_IDLE_S)
        self._advance()
        self._note_memory()

    # --- memory ------------------------------------------------------------------------------------

    def _note_memory(self) -> None:
        """Report the memory of this connection, and read on if it may."""
        if self._is_lost:
            return
        self._gathered.note(len(self._body) + self._answered_bytes, self.missing_bytes)
        self._read_if_wanted()

    @property
    def progress_bytes(self) -> int | None:
        """How many bytes of an incomplete body have arrived."""
        return len(self._body) or None

    @property
    def missing_bytes(self) -> int:
        """How many bytes of an incomplete body are missing, at most."""
        return max(0, self._body_bytes_max - len(self._body)) if self._body else 0

    @property
    def is_read(self) -> bool:
        """Whether no earlier request is being answered."""
        return not self.is_busy

    def go_on(self) -> None:
        """Read on: there is memory."""
        self._gathered.is_short = False
        self._read_if_wanted()

    def give_up(self, reason: str) -> None:
        """Close the connection: the client keeps memory that others wait for."""
        log.info("peer=%s: %s", self.peer, reason)
        self._writer.abort()

    def _read_if_wanted(self) -> None:
        if not self._is_lost:
            self._hold(is_held=not self.is_read or self._gathered.is_short)

    def _hold(self, *, is_held: bool) -> None:
        if is_held != self._is_held:
            self._is_held = is_held
            if is_held:
                self._writer.pause_reading()
            else:
                self._writer.resume_reading()

    # --- answers -----------------------------------------------------------------------------------

    def _refuse(self, status: int, error: str, reason: str) -> None:
        """Answer a request that is not read any further, and end the connection."""
        log.info("peer=%s: %s", self.peer, reason)
        if self._http.can_respond:
            self._send(Refused(status, error, reason).response, is_last=True)
        self._is_over = True
        self._disarm()
        self._writer.finish(limits.MANAGEMENT_LATE_S)

    def _send(self, response: Response, *, is_head: bool = False, is_last: bool = False) -> None:
        if self._is_lost:
            return
        headers = [
            ("content-length", str(len(response.body))),
            ("cache-control", "no-cache"),
            *response.headers.items(),
        ]
        if response.body:
            headers.append(("content-type", response.content_type))
        if is_last:
            headers.append(("connection", "close"))
        if response.status == HTTPStatus.NO_CONTENT:
            headers = headers[1:]
        self._write(
            self._http.send_response(response.status, headers, response.body, is_head=is_head)
        )

    def _write(self, data: bytes) -> None:
        if data and not self._is_lost:
            self._writer.writelines((data,))

    # --- time --------------------------------------------------------------------------------------

    def _arm(self, seconds: int) -> None:
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._writer.close)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
