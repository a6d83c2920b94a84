"""One connection to another node: requests out, answers in, in the order of sending.

A caller that gives up waiting must close the connection, because later answers are behind the one that does
not come.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias, cast

from millpond.base.errors import (
    ClusterAuthorizationFailed,
    PeerGone,
    PeerUnreachable,
    RemoteProtocolError,
    WrongCluster,
)
from millpond.base.limits import RESPONSE_BYTES_MAX
from millpond.peer.proof import MECHANISM, Asking, ProofFailed, address_text
from millpond.peer.versions import (
    UNKNOWN_VERSION,
    Spoken,
    question,
    spoken_in,
)
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from millpond.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from millpond.wire.kafka.primitives import BytesLike, pack_nullable_string, skip_tags

_SIZE = Struct(">i")
_REQUEST_START = Struct(">ihhi")  # size, api key, version, correlation id
_CORRELATION = Struct(">i")

_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
# How to prove it, given the address that was dialled and the one that was reached.
Prove: TypeAlias = Callable[[str, str], Asking]

_CANNOT = "it has no cluster secret, or its version of Millpond does not know of any"


def socket_address(stream: asyncio.BaseTransport, end: str) -> str:
    """Return the address of one end of a connection (``sockname``, ``peername``) as nodes compare it; "" if
    it has none.
    """
    name = stream.get_extra_info(end)
    return address_text(str(name[0]), name[1]) if isinstance(name, tuple) and len(name) > 1 else ""


class PeerConnection(asyncio.Protocol):
    """Made by ``PeerConnection.open``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        # (correlation id, whether the header of the answer has tags, what was asked, who waits)
        self._waiting: deque[tuple[int, bool, str, asyncio.Future[memoryview]]] = deque()
        self._correlation_id = 0
        self._fault: str | None = None
        # What the node at the other end speaks.
        self.spoken: Spoken = {}
        # Why the two ends have not proved to each other that they are nodes of one cluster; None: they have.
        self.unproved: str | None = "not asked yet"
        # Whether they have tried, and one has shown that it does not know the other's secret.
        self.is_refuted = False

    @classmethod
    async def open(cls, host: str, port: int, *, proof: Prove | None = None) -> "PeerConnection":
        """Connect, learn what the peer speaks, prove to each other that both are nodes of one cluster.

        A peer that does not know how, or another secret, is connected to all the same: ``unproved`` says why.
        Raises ``PeerUnreachable`` with the reason in words, and ``WrongCluster``.
        """
        connection = cls(f"{host}:{port}")
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, host, port)
        except ConnectionRefusedError:
            raise PeerGone(f"{connection.address}: nobody listens there") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise PeerUnreachable(f"{connection.address}: {reason}") from None
        try:
            await connection._learn()
            await connection._prove(proof, address_text(host, port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def _learn(self) -> None:
        """Which versions the peer speaks."""
        answer = await self.ask(ApiKey.API_VERSIONS, UNKNOWN_VERSION, question(), client_id=None)
        try:
            self.spoken = spoken_in(answer)
        except RemoteProtocolError as error:
            raise PeerUnreachable(f"{self.address}: not a node of Millpond ({error})") from None

    async def _prove(self, proof: Prove | None, dialled: str) -> None:
        """Prove that this is a node of the cluster, and have the peer prove it."""
        if proof is None:
            self.unproved = "this node has no cluster secret"
            return
        if ApiKey.SASL_HANDSHAKE not in self.spoken:
            self.unproved = _CANNOT
            return
        hello = SaslHandshakeRequest(MECHANISM)
        welcome = await self._ask_message(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, hello)
        if welcome.error_code != ErrorCode.NONE:
            self.unproved = _CANNOT
            return
        if self._transport is None:
            raise PeerUnreachable(f"{self.address}: {self._fault or 'not connected'}")
        asking = proof(dialled, socket_address(self._transport, "peername"))
        try:
            challenge = await self._round(asking.first())
            asking.check(await self._round(asking.second(challenge)))
        except (ClusterAuthorizationFailed, RemoteProtocolError) as error:
            self.unproved, self.is_refuted = str(error), True
            return
        self.unproved = None

    async def _round(self, data: bytes) -> bytes:
        message = SaslAuthenticateRequest(data)
        answer = await self._ask_message(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, message)
        if answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise WrongCluster(f"{self.address}: {answer.error_message}")
        if answer.error_code != ErrorCode.NONE:
            raise ProofFailed(
                f"it does not take this node for one of its cluster: {answer.error_message}"
            )
        return bytes(answer.auth_bytes)

    async def _ask_message(self, api_key: ApiKey, version: int, message: object) -> Any:
        spec = APIS[api_key]
        body = await self.ask(
            api_key, version, spec.encode_request(message, version), client_id=None
        )
        try:
            return spec.decode_response(body, version)
        except RemoteProtocolError as error:
            raise PeerUnreachable(f"{self.address}: not a node of Millpond ({error})") from None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._fault is None

    def ask(
        self, api_key: ApiKey, version: int, payload: BytesLike, *, client_id: str | None
    ) -> "asyncio.Future[memoryview]":
        """Send a request; the body of its answer comes. Raises ``PeerUnreachable`` if it cannot be sent."""
        if self._transport is None or self._fault is not None:
            raise PeerUnreachable(f"{self.address}: {self._fault or 'not connected'}")
        spec = APIS[api_key]
        is_flexible = spec.is_flexible(version)
        name = pack_nullable_string(client_id)
        tags = b"\x00" if is_flexible else b""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        size = 8 + len(name) + len(tags) + len(payload)
        start = _REQUEST_START.pack(size, api_key, version, self._correlation_id)
        self._transport.writelines((start, name, tags, payload))
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        # ApiVersions answers with the old header in every version (KIP-511).
        has_tags = is_flexible and api_key != ApiKey.API_VERSIONS
        what = f"{spec.name} version {version}"
        self._waiting.append((self._correlation_id, has_tags, what, answer))
        return answer

    def close(self, reason: str = "closed") -> None:
        """Close at once; callers that wait get ``PeerUnreachable``."""
        self._fail(reason)
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        position = 0
        while len(received) - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(received, position)
            if not _CORRELATION.size <= size <= RESPONSE_BYTES_MAX:
                self.close(f"an answer of {size} bytes is none of a node's")
                return
            end = position + _SIZE.size + size
            if len(received) < end:
                break
            if position == 0 and len(received) == end:
                # One answer and nothing else, as large ones come: it keeps the buffer.
                self._received = bytearray()
                self._deliver(memoryview(received)[_SIZE.size :])
                return
            with memoryview(received) as view:
                frame = bytes(view[position + _SIZE.size : end])
            if not self._deliver(memoryview(frame)):
                return
            position = end
        del received[:position]

    def _deliver(self, frame: memoryview) -> bool:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self._waiting or self._waiting[0][0] != correlation_id:
            self.close("answers came out of order")
            return False
        _, has_tags, _what, answer = self._waiting.popleft()
        start = _CORRELATION.size
        if has_tags:
            start = skip_tags(frame, start)
        if not answer.done():
            answer.set_result(frame[start:])
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._fail(str(exc) or type(exc).__name__)
        elif self._waiting:
            self._fail(f"ended the connection instead of answering {self._waiting[0][2]}")
        else:
            self._fail("ended the connection")

    def _fail(self, reason: str) -> None:
        if self._fault is None:
            self._fault = reason
        while self._waiting:
            *_, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(PeerUnreachable(f"{self.address}: {self._fault}"))
