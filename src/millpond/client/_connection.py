"""One connection to one broker: requests out, responses in, in order.

Connects ``wire``'s ClientConnection to a socket. Requests may be pipelined; the broker answers them in the
order of sending, so a long poll delays the requests after it on the same connection.

Cancelling a waiting request leaves the connection as it is; its response is dropped when it comes.
"""

import asyncio
from collections import deque
from typing import Any, cast

from millpond.base.errors import MillpondError
from millpond.client.errors import BrokerRefused, ConnectionLost, NoBroker
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import ClientConnection
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from millpond.wire.shape import NeedData


class Connection(asyncio.BufferedProtocol):
    """Created by ``Connection.open``, which also asks the broker for its API versions."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self._wire = ClientConnection(client_id)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}  # finalized feature levels, by name
        self._fault: str | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, *, client_id: str, software_version: str, timeout_s: float
    ) -> "Connection":
        """Connect and negotiate versions. Raises ``NoBroker`` with the reason."""
        address = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        connection = cls(address, client_id)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: connection, host, port)
                try:
                    await connection._negotiate(software_version)
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise NoBroker(f"{address} did not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise NoBroker(f"{address}: {_reason(error)}") from None
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._fault is None

    def version_of(self, api_key: ApiKey, at_most: int | None = None) -> int:
        """Return the newest version of an API that both sides support. Raises ``BrokerRefused`` if there is
        none.
        """
        spec = APIS[api_key]
        low, high = self._versions.get(api_key, (0, -1))
        version = min(high, spec.max_version if at_most is None else min(at_most, spec.max_version))
        if version < max(low, spec.min_version):
            theirs = f"versions {low} to {high}" if high >= 0 else "no version"
            raise BrokerRefused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker at {self.address} speaks {theirs} of {spec.name};"
                f" this client {spec.min_version} to {spec.max_version}",
            )
        return version

    async def request(
        self,
        api_key: ApiKey,
        message: object,
        *,
        version: int | None = None,
        expect_response: bool = True,
    ) -> Any:
        """Send a request, return the decoded response (None if none is expected).

        Raises ``ConnectionLost`` if the connection ends first. A caller that stops waiting for a response
        should close the connection: later responses are stuck behind it.
        """
        if version is None:
            version = self.version_of(api_key)
        await self._writable.wait()
        answer = self.submit(api_key, message, version=version, expect_response=expect_response)
        return None if answer is None else await answer

    def submit(
        self, api_key: ApiKey, message: object, *, version: int, expect_response: bool = True
    ) -> "asyncio.Future[Any] | None":
        """Write a request now, whether or not the peer keeps up. Return the future of the response.

        For callers that keep order and limits themselves: requests are sent in the order of submission.
        """
        if self._transport is None or self._fault is not None:
            raise ConnectionLost(f"{self.address}: {self._fault or 'not connected'}")
        frame = self._wire.send(api_key, version, message, expect_response=expect_response)
        self._transport.write(frame)
        if not expect_response:
            return None
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        return answer

    @property
    def is_writable(self) -> bool:
        """Whether the send buffer is below its limit."""
        return self._writable.is_set()

    async def writable(self) -> None:
        """Wait until the send buffer is below its limit, or the connection is closed."""
        await self._writable.wait()

    def close(self, reason: str = "closed") -> None:
        """Close at once; waiting requests get ``ConnectionLost``."""
        self._fail(reason)
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every event loop's transports are subclasses of asyncio's (uvloop's are not).
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._wire.buffer_updated(nbytes)
            while not isinstance(event := self._wire.next_event(), NeedData):
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(event.message)
        except MillpondError as error:
            self.close(f"not what a Kafka broker would answer: {error}")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(_reason(exc) if exc is not None else "the broker closed the connection")

    def _fail(self, reason: str) -> None:
        if self._fault is None:
            self._fault = reason
        self._writable.set()  # a caller that waits to write must learn that the connection is closed
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(ConnectionLost(f"{self.address}: {self._fault}"))

    async def _negotiate(self, software_version: str) -> None:
        """Ask for the broker's versions with our newest; a broker that does not know it answers in an old
        form.
        """
        ask = ApiVersionsRequest(
            client_software_name="millpond", client_software_version=software_version
        )
        spec = APIS[ApiKey.API_VERSIONS]
        for version in (min(3, spec.max_version), spec.min_version):
            answer: ApiVersionsResponse = await self.request(
                ApiKey.API_VERSIONS, ask, version=version
            )
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        if answer.error_code != ErrorCode.NONE:
            raise NoBroker(f"{self.address} refused ApiVersions (error {answer.error_code})")
        self._versions = {
            item.api_key: (item.min_version, item.max_version) for item in answer.api_keys
        }
        self.features = {item.name: item.max_version_level for item in answer.finalized_features}


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__
