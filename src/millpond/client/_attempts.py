"""Retries: one deadline for an operation, backoffs that grow, and the last error in the message."""

import asyncio
import random
from types import TracebackType
from typing import Any

from millpond.client._connection import Connection
from millpond.client.errors import BrokerRefused, ClientError, ConnectionLost, NoBroker, OutOfTime
from millpond.wire.kafka.api import ApiKey, ErrorCode

BACKOFF_S_MAX = 1.0


class Attempts:
    """The tries of one operation: its deadline, the backoff between them, the last error."""

    def __init__(
        self,
        what: str,
        *,
        timeout_s: float,
        request_s: float,
        backoff_s: float,
        unknown_topic_s: float,
    ) -> None:
        self.count = 0
        self._what = what
        self._timeout_s = timeout_s
        self._request_s = request_s
        self._unknown_topic_s = unknown_topic_s
        self._started = asyncio.get_running_loop().time()
        self._pause_s = backoff_s
        self._obstacle = "no time was left for a first try"

    def left_s(self) -> float:
        """Return the seconds until the deadline."""
        return self._started + self._timeout_s - asyncio.get_running_loop().time()

    def left_ms(self) -> int:
        """Return the milliseconds until the deadline, at least one, for requests that carry a time-out."""
        return max(1, int(self.left_s() * 1000))

    def may_pass(self, error: ClientError) -> bool:
        """Return whether a retry can succeed."""
        if isinstance(error, ConnectionLost):
            return True
        if not isinstance(error, BrokerRefused) or error.is_final or not error.is_retriable:
            return False
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return True
        waited = asyncio.get_running_loop().time() - self._started
        return waited < self._unknown_topic_s

    async def after(self, error: ClientError) -> None:
        """Wait before the next try. Raises ``error`` if a retry cannot help, ``OutOfTime`` after the
        deadline.
        """
        if not isinstance(error, NoBroker) and not self.may_pass(error):
            if isinstance(error, BrokerRefused):
                error.is_final = True
            raise error
        self.count += 1
        self._obstacle = str(error)
        pause_s = self._pause_s * random.uniform(0.8, 1.2)  # noqa: S311  (jitter, not a secret)
        self._pause_s = min(self._pause_s * 2, BACKOFF_S_MAX)
        if self.left_s() <= pause_s:
            raise self.out_of_time(str(error))
        await asyncio.sleep(pause_s)

    async def request(self, connection: Connection, api_key: ApiKey, message: object) -> Any:
        """Send one request within the deadline; a connection that does not answer in time is closed."""
        async with self.limit(connection):
            return await connection.request(api_key, message)

    def limit(self, connection: Connection) -> "_Limit":
        """``async with`` around one exchange: ends with the deadline, or earlier with ``request_s``.

        A late connection is closed. That raises ``OutOfTime`` at the deadline and ``ConnectionLost`` before
        it.
        """
        left_s = self.left_s()
        if left_s <= 0:
            raise self.out_of_time()
        return _Limit(self, connection, min(self._request_s, left_s))

    def out_of_time(self, obstacle: str | None = None) -> OutOfTime:
        """Return the error that says what was not done, and the last reason."""
        tries = f" after {self.count} tries" if self.count > 1 else ""
        return OutOfTime(
            f"{self._what}: not done in {self._timeout_s:g} s{tries}: {obstacle or self._obstacle}"
        )


class _Limit:
    """The deadline of ``Attempts`` around one exchange; a late exchange closes its connection."""

    __slots__ = ("_attempts", "_connection", "_seconds", "_timeout")

    def __init__(self, attempts: Attempts, connection: Connection, seconds: float) -> None:
        self._attempts = attempts
        self._connection = connection
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            silence = f"{self._connection.address} did not answer within {self._seconds:.3g} s"
            self._connection.close("it did not answer in time")
            if self._attempts.left_s() > 0:
                raise ConnectionLost(silence) from None
            # A try that had hardly any time left explains less than the one before it.
            hasty = self._attempts.count > 0 and self._seconds < BACKOFF_S_MAX
            raise self._attempts.out_of_time(None if hasty else silence) from None
