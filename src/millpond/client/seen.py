"""Ids of processed messages, so that a message that is delivered twice takes effect once.

A broker delivers at least once: a consumer that dies between its work and its commit gets the message again.
``SeenInDatabase`` is for effects in a database: the id is a row with a unique key, written in the same
transaction as the effect, so both are there or neither is. ``SeenInRedis`` is for effects elsewhere (a mail,
a call): the id is claimed before and kept after; the claim of a consumer that dies in between expires.
"""

import socket
import time
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Any, Protocol, Self

from millpond.client.errors import BadConfig, ClientError, NoBroker

_TIMEOUT_S = 10.0
_BUSY, _DONE = b"busy", b"done"


class StoreRefused(ClientError):
    """Redis answered with an error."""


class _Connection(Protocol):
    """The part of Python's database interface (PEP 249) that is used."""

    def cursor(self) -> Any:
        """Return a cursor for statements."""


class SeenInDatabase:
    """Ids as rows of a table with a unique key, in the same database as the effects.

    ``connection`` is the consumer's own (SQLite, PostgreSQL and others that support ``ON CONFLICT``); nothing
    is committed here. ``mark`` is the driver's placeholder for parameters: ``?``, or ``%s``.
    """

    def __init__(
        self,
        connection: _Connection,
        *,
        group: str,
        table: str = "millpond_seen",
        mark: str = "?",
        now: Callable[[], float] = time.time,
    ) -> None:
        if not table.isidentifier():
            raise BadConfig(f"{table!r} is no name for a table")
        self._connection = connection
        self._group = group
        self._table = table
        self._mark = mark
        self._now = now
        self._run(
            f"CREATE TABLE IF NOT EXISTS {table} "
            "(consumer VARCHAR(255), id VARCHAR(255), at BIGINT, PRIMARY KEY (consumer, id))"
        )

    def first(self, message_id: str) -> bool:
        """Insert an id. Return False if it exists already. It takes effect when your transaction is
        committed.
        """
        marks = ", ".join([self._mark] * 3)
        # The name of the table was checked, and everything else is a parameter.
        return bool(
            self._run(
                f"INSERT INTO {self._table} (consumer, id, at) VALUES ({marks}) ON CONFLICT DO NOTHING",  # noqa: S608
                self._group,
                message_id,
                int(self._now()),
            )
        )

    def forget(self, *, older_than_s: float) -> int:
        """Delete old ids. Return how many they were."""
        mark = self._mark
        return self._run(
            f"DELETE FROM {self._table} WHERE consumer = {mark} AND at < {mark}",  # noqa: S608
            self._group,
            int(self._now() - older_than_s),
        )

    def _run(self, statement: str, *values: object) -> int:
        cursor = self._connection.cursor()
        try:
            cursor.execute(statement, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()


class Claim(Enum):
    """Whether a consumer may process a message."""

    FIRST = "no consumer has processed it: process it, then call done()"
    BUSY = "another consumer is processing it, or died a moment ago: retry later"
    DONE = "it was handled: leave it"


class SeenInRedis:
    """Ids as keys in Redis (or Valkey), each claimed by one consumer at a time and kept for ``keep_s``."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 6379,
        *,
        group: str,
        claim_s: int = 60,
        keep_s: int = 86_400,
    ) -> None:
        self._address = (host, port)
        self._group = group
        self._claim_s = claim_s
        self._keep_s = keep_s
        self._socket: socket.socket | None = None
        self._reader: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def claim(self, message_id: str) -> Claim:
        """Try to claim a message for this consumer; the claim holds for ``claim_s``."""
        key = self._key(message_id)
        if self._ask("SET", key, _BUSY, "NX", "EX", str(self._claim_s)) is not None:
            return Claim.FIRST
        return Claim.DONE if self._ask("GET", key) == _DONE else Claim.BUSY

    def done(self, message_id: str) -> None:
        """Note that the effect is done; from now on every claim returns ``DONE``."""
        self._ask("SET", self._key(message_id), _DONE, "EX", str(self._keep_s))

    def give_up(self, message_id: str) -> None:
        """Release the claim after a failure; another consumer may try at once."""
        self._ask("DEL", self._key(message_id))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._socket is not None:
            self._reader.close()
            self._socket.close()
            self._socket = None

    def _key(self, message_id: str) -> str:
        return f"millpond:seen:{self._group}:{message_id}"

    def _ask(self, *words: str | bytes) -> bytes | int | None:
        """Send one command of Redis' protocol, return its response."""
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        command = b"*%d\r\n" % len(parts)
        command += b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_S)
                self._reader = self._socket.makefile("rb")
            self._socket.sendall(command)
            return self._answer()
        except OSError as error:
            self.close()
            host, port = self._address
            raise NoBroker(f"Redis at {host}:{port} does not answer: {error}") from error

    def _answer(self) -> bytes | int | None:
        line: bytes = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the connection was closed")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise StoreRefused(text.decode(errors="replace"))
        if kind == b":":
            return int(text)
        if kind == b"$":
            size = int(text)
            return None if size < 0 else bytes(self._reader.read(size + 2)[:-2])
        return text
