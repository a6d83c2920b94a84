"""The server's end of an HTTP/1.1 connection, without any socket. h11 parses; limits and errors are ours.

One request at a time: events of the next one come after ``start_next``. A request becomes a ``RequestHead``,
any number of ``BodyPiece`` and a ``RequestEnd``.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

import h11

from millpond.base.errors import RemoteProtocolError
from millpond.wire.shape import NEED_DATA, NeedData, Receiving


class RequestHead(NamedTuple):
    """The first line and the headers, whose names are in lower case."""

    method: str
    target: str
    headers: Mapping[bytes, bytes]
    # The size of the body if the client announces it, otherwise the largest that is allowed.
    body_bytes_max: int


class BodyPiece(NamedTuple):
    """Some of the body."""

    data: bytes


class RequestEnd(NamedTuple):
    """The request is complete."""


class ConnectionClosed(NamedTuple):
    """The client sends no more requests."""


Event: TypeAlias = RequestHead | BodyPiece | RequestEnd | ConnectionClosed


class BadRequest(RemoteProtocolError):
    """The bytes are no request, or one that is too large; ``status`` is the status to answer with."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ServerConnection(Receiving[Event]):
    """One client's connection."""

    def __init__(self, *, head_bytes_max: int, body_bytes_max: int) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=head_bytes_max)
        self._body_bytes_max = body_bytes_max
        self._body_bytes = 0
        self._error: BadRequest | None = None

    # --- in ------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the client, in any pieces."""
        if data and self._error is None:
            self._http.receive_data(data)

    def receive_eof(self) -> None:
        """Note that the client sends no more bytes."""
        if self._error is None:
            self._http.receive_data(b"")

    def next_event(self) -> Event | NeedData:
        """Return the next event, or ``NEED_DATA``; that is also the answer to a second request before
        ``start_next``. Raises ``BadRequest``.
        """
        if self._error is not None:
            raise self._error
        try:
            return self._next_event()
        except BadRequest as error:
            self._error = error
            raise

    def _next_event(self) -> Event | NeedData:
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, str(error)) from None
        if isinstance(event, h11.Request):
            return self._begun(event)
        if isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            if self._body_bytes > self._body_bytes_max:
                raise self._too_large()
            return BodyPiece(bytes(event.data))
        if isinstance(event, h11.EndOfMessage):
            return RequestEnd()
        if isinstance(event, h11.ConnectionClosed):
            return ConnectionClosed()
        return NEED_DATA

    def _begun(self, event: h11.Request) -> RequestHead:
        self._body_bytes = 0
        headers = dict(event.headers)
        announced = int(headers.get(b"content-length", self._body_bytes_max))
        if announced > self._body_bytes_max:
            raise self._too_large()
        return RequestHead(
            event.method.decode("ascii"),
            event.target.decode("ascii", "replace"),
            headers,
            announced,
        )

    def _too_large(self) -> BadRequest:
        return BadRequest(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"a body of at most {self._body_bytes_max} bytes is taken",
        )

    # --- out -----------------------------------------------------------------------------------------

    @property
    def can_respond(self) -> bool:
        """Whether no response has begun to the present request."""
        return self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}

    @property
    def is_awaiting_continue(self) -> bool:
        """Whether the client waits for ``100 Continue`` before it sends the body."""
        return bool(self._http.they_are_waiting_for_100_continue)

    def send_continue(self) -> bytes:
        """Return the bytes of ``100 Continue``."""
        return self._send(h11.InformationalResponse(status_code=100, headers=[], reason="Continue"))

    def send_response(
        self, status: int, headers: Sequence[tuple[str, str]], body: bytes, *, is_head: bool = False
    ) -> bytes:
        """Return the bytes of a whole response; the body of one to HEAD is left out."""
        reason = HTTPStatus(status).phrase
        data = self._send(h11.Response(status_code=status, headers=list(headers), reason=reason))
        if body and not is_head:
            data += self._send(h11.Data(data=body))
        return data + self._send(h11.EndOfMessage())

    def start_next(self) -> bool:
        """Begin with the next request. Return False if the connection cannot be used for another."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    @property
    def has_unread_bytes(self) -> bool:
        """Whether bytes of the next request have arrived."""
        return bool(self._http.trailing_data[0])

    def _send(self, event: h11.Event) -> bytes:
        return self._http.send(event) or b""
