"""Both ends of a Kafka connection, without any socket.

Its shape is the common one (``wire/shape.py``); instead of giving bytes to ``receive_data`` the event loop
may read into ``get_buffer``. A frame is a 32-bit size and as many bytes; a request starts with a header that
has the API and its version, a response with the correlation id of its request.

A size is checked against its limit before any byte of the frame is kept, and memory is taken as bytes arrive,
not as they are announced. Each frame becomes one ``bytearray``: the body of a request is a writable view of
it, so that a record batch can be given its offset in place. A violation raises ``RemoteProtocolError``; after
that the connection is unusable and raises it again.
"""

from collections import deque
from struct import Struct
from typing import Any

from millpond.base import limits
from millpond.base.errors import LocalProtocolError, MillpondError, RemoteProtocolError
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.primitives import BytesLike, pack_nullable_string, skip_tags
from millpond.wire.shape import NEED_DATA, NeedData, Receiving

_SIZE = Struct(">i")
_REQUEST_HEADER = Struct(">hhih")  # api key, version, correlation id, length of the client id
_REQUEST_START = Struct(">ihhi")  # size, api key, version, correlation id
_RESPONSE_START = Struct(">ii")  # size, correlation id

# The header up to the client id, which may be null.
_REQUEST_BYTES_MIN = _REQUEST_HEADER.size

# The size and the first two bytes: enough to know whether a frame may be as large as announced.
_START_BYTES = 6

# A frame has memory for a multiple of its received bytes, and at least this much: the memory that a peer can
# claim by announcing, without sending, stays small, and a frame of ordinary size never moves.
_RESERVED_BYTES_MIN = limits.REQUEST_LITTLE_BYTES
_RESERVED_FACTOR = 8

# If this much of a frame is missing, the loop reads directly into it; for less, one read into the scratch
# buffer may also bring the next frames.
_DIRECT_BYTES_MIN = 64 * 1024

# The largest read. One buffer serves all connections of a loop.
SCRATCH_BYTES = 256 * 1024

# The APIs that carry records; any other request of such a size is an attack or a mistake.
_BULK_APIS = frozenset((ApiKey.PRODUCE, ApiKey.ENVELOPE, ApiKey.PUSH_TELEMETRY))

_FLEXIBLE_FROM: dict[int, int] = {
    key: spec.flexible_from for key, spec in APIS.items() if spec.flexible_from is not None
}
# ApiVersions answers with the old header in every version (KIP-511).
_FLEXIBLE_RESPONSE_FROM: dict[int, int] = {
    key: start for key, start in _FLEXIBLE_FROM.items() if key != ApiKey.API_VERSIONS
}
_NEVER = 1 << 16


class Request:
    """A request's header, and its body still encoded.

    ``body`` is writable and shares the frame's memory, which lives as long as any view of it. ``size`` is the
    frame's, without the prefix. The API and the version may be unknown; then ``body`` starts after the client
    id.
    """

    __slots__ = ("api_key", "api_version", "body", "client_id", "correlation_id", "size")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        size: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.size = size

    def __repr__(self) -> str:
        spec = APIS.get(self.api_key)
        name = spec.name if spec is not None else f"api {self.api_key}"
        return (
            f"<Request {name} v{self.api_version} #{self.correlation_id} "
            f"from {self.client_id!r}, {self.size} bytes>"
        )


class Response:
    """A decoded response and the correlation id of its request."""

    __slots__ = ("api_key", "correlation_id", "message", "version")

    def __init__(self, correlation_id: int, api_key: int, version: int, message: Any) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.version = version
        self.message = message

    def __repr__(self) -> str:
        return f"<Response #{self.correlation_id} v{self.version} {self.message!r}>"


class _Frames:
    """Splits a stream into frames, each in its own ``bytearray``.

    Bytes may be pushed (``receive_data``) or read by the event loop into a lent buffer (``get_buffer``,
    ``buffer_updated``), in any mixture. A frame that arrives whole is copied once, and so is one that is
    pushed in pieces; the loop writes the rest of a large frame directly to its place.
    """

    __slots__ = (
        "_direct",
        "_error",
        "_filled",
        "_prefix",
        "_scratch",
        "_size",
        "frames",
        "is_tight",
        "partial",
    )

    def __init__(self, scratch: bytearray | None = None) -> None:
        self.frames: deque[bytearray] = deque()  # complete frames that ``next_event`` has not taken
        self.partial: bytearray | None = None  # the incomplete frame, as far as memory is allocated
        self._size = 0  # its final size
        self._filled = 0  # how much of it has arrived
        self._prefix = b""  # the start of a frame whose size is incomplete
        self._scratch = None if scratch is None else memoryview(scratch)
        self._direct = False  # whether the buffer that was lent last is the frame's own
        self._error: MillpondError | None = None
        # Whether memory is short: reads are small, and a frame begins with only the memory for its received
        # bytes.
        self.is_tight = False

    def receive_data(self, data: BytesLike) -> None:
        """Take bytes from the peer, in any pieces. ``next_event`` returns the events."""
        self._feed(memoryview(data))

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return a non-empty buffer to read into; ``buffer_updated`` says how much was read.

        It may be shared with other connections of the same loop, and is valid until then.
        """
        frame = self.partial
        if frame is not None and self._size - self._filled >= _DIRECT_BYTES_MIN:
            if len(frame) - self._filled < _DIRECT_BYTES_MIN:
                frame = self._grow(frame, self._filled + _DIRECT_BYTES_MIN)
            self._direct = True
            return memoryview(frame)[self._filled :]
        self._direct = False
        if self._scratch is None:
            self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        return self._scratch[: limits.REQUEST_READ_BYTES] if self.is_tight else self._scratch

    def buffer_updated(self, count: int) -> None:
        """Take the ``count`` bytes that the loop has read into the buffer of ``get_buffer``."""
        if not self._direct:
            assert self._scratch is not None
            self._feed(self._scratch[:count])
            return
        self._direct = False
        self._filled += count
        if self._filled == self._size:
            self._finish()

    def let_go(self) -> None:
        """Drop everything that was received, because the connection is closed."""
        self.frames.clear()
        self.partial = None
        self._direct = False
        self._prefix = b""

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has begun and is incomplete."""
        return self.partial is not None or bool(self._prefix)

    @property
    def memory_bytes(self) -> int:
        """The memory of received frames that ``next_event`` has not taken, complete or not."""
        begun = len(self.partial) if self.partial is not None else 0
        return begun + sum(map(len, self.frames)) if self.frames else begun

    @property
    def growth_bytes(self) -> int:
        """How much more memory the incomplete frame takes with the next read."""
        frame = self.partial
        if frame is None:
            return 0
        needed = min(self._size, self._filled + _DIRECT_BYTES_MIN)
        return 0 if needed <= len(frame) else self._reserve(needed) - len(frame)

    @property
    def missing_bytes(self) -> int:
        """How much more memory the incomplete frame takes until it is complete."""
        return 0 if self.partial is None else self._size - len(self.partial)

    @property
    def progress_bytes(self) -> int | None:
        """How much of an incomplete frame has arrived; None if none has begun."""
        if self.partial is not None:
            return self._filled
        return len(self._prefix) or None

    def _check_size(self, size: int) -> None:
        """Raise ``RemoteProtocolError`` for an invalid frame size."""
        raise NotImplementedError

    def _check_start(self, size: int, start: BytesLike) -> None:
        """Raise ``RemoteProtocolError`` if a frame of this size may not start with these two bytes."""

    def _next_frame(self) -> bytearray | None:
        """Return the next complete frame, without its prefix, or None."""
        if self.frames:
            return self.frames.popleft()
        if self._error is not None:
            raise self._error
        return None

    def _fail(self, error: MillpondError) -> None:
        """Drop everything: no frame after a broken one can be trusted."""
        self._error = error
        self.partial = None
        self._direct = False
        self._prefix = b""

    def _feed(self, data: memoryview) -> None:
        if self._error is not None:
            return
        position = 0
        end = len(data)
        try:
            while position < end:
                if self.partial is None:
                    position = self._start(data, position)
                else:
                    position = self._fill(self.partial, data, position)
        except MillpondError as error:
            self._fail(error)

    def _start(self, data: memoryview, position: int) -> int:
        """Begin a frame; most often all of it has arrived."""
        if self._prefix or len(data) - position < _START_BYTES:
            return self._start_slowly(data, position)
        size: int = _SIZE.unpack_from(data, position)[0]
        self._check_size(size)
        position += 4
        self._check_start(size, data[position : position + 2])
        stop = position + size
        if stop <= len(data):
            self.frames.append(bytearray(data[position:stop]))
            return stop
        self._begin(size, len(data) - position)
        return position

    def _start_slowly(self, data: memoryview, position: int) -> int:
        """Begin a frame whose prefix comes in pieces."""
        stop = position + _START_BYTES - len(self._prefix)
        self._prefix += data[position:stop]
        prefix = self._prefix
        if len(prefix) >= 4:
            (size,) = _SIZE.unpack_from(prefix)
            self._check_size(size)
            if len(prefix) == _START_BYTES:
                self._check_start(size, prefix[4:])
                self._prefix = b""
                self._begin(size, len(data) - position)
                assert self.partial is not None
                self._fill(self.partial, memoryview(prefix), 4)
        return min(stop, len(data))

    def _begin(self, size: int, at_hand: int) -> None:
        self._size = size
        self._filled = 0
        reserved = max(_RESERVED_BYTES_MIN, at_hand) if self.is_tight else self._reserve(at_hand)
        self.partial = bytearray(min(size, reserved))

    def _fill(self, frame: bytearray, data: memoryview, position: int) -> int:
        filled = self._filled
        take = min(len(data) - position, self._size - filled)
        stop = filled + take
        if stop > len(frame):
            frame = self._grow(frame, stop)
        self._filled = stop
        memoryview(frame)[filled:stop] = data[position : position + take]
        if stop == self._size:
            self._finish()
        return position + take

    def _grow(self, frame: bytearray, needed: int) -> bytearray:
        """Move the frame to a larger buffer. It must be a new one, because the loop may hold a view of the
        old.
        """
        larger = bytearray(self._reserve(needed))
        memoryview(larger)[: self._filled] = memoryview(frame)[: self._filled]
        self.partial = larger
        return larger

    def _reserve(self, needed: int) -> int:
        """Return how much memory a frame gets that has ``needed`` bytes."""
        reserved = max(_RESERVED_BYTES_MIN, _RESERVED_FACTOR * needed)
        return self._size if self._size < 2 * reserved else reserved

    def _finish(self) -> None:
        assert self.partial is not None
        self.frames.append(self.partial)
        self.partial = None


class ServerConnection(_Frames, Receiving[Request]):
    """The broker's end: requests in, responses out.

    ``request_bytes_max`` bounds every frame; ``control_bytes_max`` bounds those that carry no records. A
    decoded request takes up to about sixty times the memory of its bytes, which is harmless for the megabytes
    of a control request and would not be for a hundred of them.
    """

    __slots__ = ("_client_id", "_client_id_bytes", "_control_bytes_max", "_request_bytes_max")

    def __init__(
        self,
        request_bytes_max: int = limits.REQUEST_BYTES_MAX,
        control_bytes_max: int = limits.CONTROL_REQUEST_BYTES_MAX,
        scratch: bytearray | None = None,
    ) -> None:
        super().__init__(scratch)
        self._request_bytes_max = request_bytes_max
        self._control_bytes_max = min(control_bytes_max, request_bytes_max)
        self._client_id: str | None = None
        self._client_id_bytes = b""

    def next_event(self) -> Request | NeedData:
        """Return the next request in order of arrival, or ``NEED_DATA``.

        Raises ``RemoteProtocolError`` if the bytes are no request; close the connection then.
        """
        frame = self._next_frame()
        if frame is None:
            return NEED_DATA
        try:
            return self._read_request(frame)
        except MillpondError as error:
            self._fail(error)
            self.frames.clear()
            raise

    def frame_response(self, request: Request, *payload: BytesLike) -> list[BytesLike]:
        """Return the buffers to send for ``request``: prefix and header, then the payload's buffers
        uncopied.
        """
        size = 4
        for buffer in payload:
            size += len(buffer)
        if request.api_version >= _FLEXIBLE_RESPONSE_FROM.get(request.api_key, _NEVER):
            start = _RESPONSE_START.pack(size + 1, request.correlation_id) + b"\x00"
        else:
            start = _RESPONSE_START.pack(size, request.correlation_id)
        return [start, *payload]

    def _read_request(self, frame: bytearray) -> Request:
        api_key, version, correlation_id, name_bytes = _REQUEST_HEADER.unpack_from(frame)
        size = len(frame)
        position = _REQUEST_BYTES_MIN
        client_id = None
        if name_bytes >= 0:
            position += name_bytes
            if position > size:
                raise RemoteProtocolError(
                    f"the client's name is said to have {name_bytes} bytes "
                    f"in a request of {size} bytes"
                )
            client_id = self._name(frame, position)
        body = memoryview(frame)
        spec = APIS.get(api_key)
        if (
            spec is not None
            and spec.min_version <= version <= spec.max_version
            and version >= _FLEXIBLE_FROM.get(api_key, _NEVER)
        ):
            try:
                position = skip_tags(body, position)
            except IndexError:
                raise RemoteProtocolError("a request ends within its header") from None
        return Request(api_key, version, correlation_id, client_id, body[position:], size)

    def _name(self, frame: bytearray, stop: int) -> str:
        """Decode the client id; it is the same in every request of a connection."""
        raw = bytes(memoryview(frame)[_REQUEST_BYTES_MIN:stop])
        if self._client_id is None or raw != self._client_id_bytes:
            self._client_id_bytes = raw
            self._client_id = raw.decode("utf-8", "replace")
        return self._client_id

    def _check_size(self, size: int) -> None:
        if size < _REQUEST_BYTES_MIN:
            raise RemoteProtocolError(
                f"a request of {size} bytes is announced; its header alone has {_REQUEST_BYTES_MIN}"
            )
        if size > self._request_bytes_max:
            raise _too_large(size, self._request_bytes_max, "a request")

    def _check_start(self, size: int, start: BytesLike) -> None:
        if size > self._control_bytes_max:
            api_key = int.from_bytes(start, "big", signed=True)
            if api_key not in _BULK_APIS:
                raise _too_large(size, self._control_bytes_max, f"a request of api {api_key}")


class ClientConnection(_Frames, Receiving[Response]):
    """The client's end: requests out, responses in, matched in the order of sending."""

    __slots__ = ("_client_id", "_correlation_id", "_response_bytes_max", "_waiting")

    def __init__(
        self,
        client_id: str | None = "millpond",
        response_bytes_max: int = limits.RESPONSE_BYTES_MAX,
        scratch: bytearray | None = None,
    ) -> None:
        super().__init__(scratch)
        self._client_id = pack_nullable_string(client_id)
        self._response_bytes_max = response_bytes_max
        self._correlation_id = -1
        self._waiting: deque[tuple[int, int, int]] = deque()

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their responses."""
        return len(self._waiting)

    @property
    def last_correlation_id(self) -> int:
        """The correlation id of the last request."""
        return self._correlation_id

    def send(
        self, api_key: int, version: int, message: object, *, expect_response: bool = True
    ) -> bytes:
        """Return the whole frame of a request, given as a message or as an encoded payload.

        A produce request with acks=0 gets no response; pass ``expect_response=False`` for it. Raises
        ``UnsupportedVersion`` or ``LocalProtocolError`` if it cannot be sent; the connection's state is then
        unchanged.
        """
        spec = APIS.get(api_key)
        if spec is None:
            raise LocalProtocolError(f"there is no api {api_key}")
        if isinstance(message, (bytes, bytearray, memoryview)):
            payload: BytesLike = message
        else:
            payload = spec.encode_request(message, version)
        correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        tags = b"\x00" if spec.is_flexible(version) else b""
        size = 8 + len(self._client_id) + len(tags) + len(payload)
        start = _REQUEST_START.pack(size, api_key, version, correlation_id)
        self._correlation_id = correlation_id
        if expect_response:
            self._waiting.append((correlation_id, api_key, version))
        return b"".join((start, self._client_id, tags, payload))

    def next_event(self) -> Response | NeedData:
        """Return the next response, or ``NEED_DATA``.

        Raises ``RemoteProtocolError`` if the bytes are not the response to the oldest open request.
        """
        frame = self._next_frame()
        if frame is None:
            return NEED_DATA
        try:
            return self._read_response(frame)
        except MillpondError as error:
            self._fail(error)
            self.frames.clear()
            raise

    def _read_response(self, frame: bytearray) -> Response:
        (correlation_id,) = _SIZE.unpack_from(frame)
        if not self._waiting:
            raise RemoteProtocolError(f"response #{correlation_id} answers no request")
        expected, api_key, version = self._waiting.popleft()
        if correlation_id != expected:
            raise RemoteProtocolError(
                f"response #{correlation_id} came where #{expected} was expected"
            )
        body = memoryview(frame)[4:]
        if api_key == ApiKey.API_VERSIONS:
            # A broker that does not support our version answers in version 0 (KIP-511).
            if body[:2] == _UNSUPPORTED_VERSION:
                version = 0
        elif version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            try:
                body = body[skip_tags(body, 0) :]
            except IndexError:
                raise RemoteProtocolError("a response ends within its header") from None
        message = APIS[api_key].decode_response(body, version)
        return Response(correlation_id, api_key, version, message)

    def _check_size(self, size: int) -> None:
        if size < 4:
            raise RemoteProtocolError(
                f"a response of {size} bytes is announced; its header alone has 4"
            )
        if size > self._response_bytes_max:
            raise _too_large(size, self._response_bytes_max, "a response")


_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def _too_large(size: int, limit: int, what: str) -> RemoteProtocolError:
    """Return the error, naming the peer's likely protocol if its first bytes show it."""
    start = size.to_bytes(4, "big")
    hint = ""
    if start[:2] == b"\x16\x03":
        hint = "; it starts like a TLS handshake: is this the right port?"
    elif start in (b"GET ", b"POST", b"HEAD", b"PUT ", b"HTTP", b"AMQP"):
        hint = f"; it starts with {start.decode()!r}: is this the right port?"
    return RemoteProtocolError(f"{what} of {size} bytes is over the limit of {limit}{hint}")
