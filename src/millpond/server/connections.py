"""The open connections of a node: how many there may be, which are idle, and how they end at the stop.

Every front-end's transport reports here when a connection opens and closes. Knows no protocol.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from millpond.base.clock import Clock

log = logging.getLogger(__name__)

# How long requests that are under way may take at a stop. Long polls end with their connection.
DRAIN_SECONDS = 2.0
_DRAIN_STEP_SECONDS = 0.01
# Idle connections are looked for this often at most, and at least four times in the time they may be idle.
_SWEEP_SECONDS_MAX = 30.0


# Descriptors that connections leave to the log, the listeners and the rest of the process: without any the
# log could neither roll a segment nor write a checkpoint. A quarter of a small allowance is all there is.
_OTHER_FILES_MAX = 1024


def connections_max(asked: int, open_files_limit: int) -> int:
    """How many connections there may be where the process may open so many files (-1: any number)."""
    if open_files_limit < 0:
        return asked
    return min(asked, open_files_limit - min(_OTHER_FILES_MAX, open_files_limit // 4))


class Connection(Protocol):
    """What a transport offers to be counted, swept and drained."""

    # Set by the transport whenever bytes arrive, taken back by the sweep: cheaper than asking for the time.
    touched: bool

    @property
    def is_writing(self) -> bool:
        """Whether an answer that the client may count on has not left yet."""
        ...

    def close(self) -> None:
        """Send what is left, then end."""
        ...

    def abort(self) -> None:
        """End now."""
        ...


class _Entry:
    """Where a connection comes from, and when the sweep last saw it do something."""

    __slots__ = ("host", "seen_ms")

    def __init__(self, host: str, seen_ms: int) -> None:
        self.host = host
        self.seen_ms = seen_ms


class Connections:
    """Everything that is connected."""

    def __init__(
        self, *, clock: Clock, total_max: int, per_host_max: int, idle_ms_max: int
    ) -> None:
        self._clock = clock
        self._total_max = total_max
        self._per_host_max = per_host_max
        self._idle_ms_max = idle_ms_max
        self._open: dict[Connection, _Entry] = {}
        self._hosts: Counter[str] = Counter()
        self._refused = 0
        self._closing = False

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, host: str) -> bool:
        """Count a new connection; False if there is no room for it and it must be closed."""
        reason = self._reason_to_refuse(host)
        if reason is not None:
            self._refused += 1
            # One line for each doubling: a flood is worth a line, not a flood of lines.
            if self._refused & (self._refused - 1) == 0:
                log.warning(
                    "peer=%s: connection refused (%s); %d so far", host, reason, self._refused
                )
            return False
        self._open[connection] = _Entry(host, self._clock.monotonic_ms())
        self._hosts[host] += 1
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        entry = self._open.pop(connection, None)
        if entry is not None:
            self._hosts[entry.host] -= 1
            if not self._hosts[entry.host]:
                del self._hosts[entry.host]

    async def sweep_forever(self) -> None:
        """Close idle connections, until cancelled."""
        if self._idle_ms_max < 0:
            return
        seconds = min(_SWEEP_SECONDS_MAX, max(self._idle_ms_max / 4000, 0.05))
        while True:
            await asyncio.sleep(seconds)
            self.close_idle()

    def close_idle(self) -> int:
        """Close what has been silent for too long; answers how many."""
        now_ms = self._clock.monotonic_ms()
        idle: list[Connection] = []
        for connection, entry in self._open.items():
            if connection.touched or connection.is_writing:
                connection.touched = False
                entry.seen_ms = now_ms
            elif now_ms - entry.seen_ms > self._idle_ms_max:
                idle.append(connection)
        for connection in idle:
            # A peer that is gone takes no farewell; what it never read must not keep the socket.
            connection.abort()
        if idle:
            log.debug(
                "closed %d connections idle for more than %d ms", len(idle), self._idle_ms_max
            )
        return len(idle)

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Let what is under way be answered, then close everything. Admits nobody any more."""
        self._closing = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        await _until(lambda: not any(one.is_writing for one in self._open), deadline)
        for connection in tuple(self._open):
            connection.close()
        await _until(lambda: not self._open, deadline)
        for connection in tuple(self._open):
            connection.abort()
        # Transports report their end in a later turn of the loop.
        await _until(lambda: not self._open, deadline + 0.5)

    def _reason_to_refuse(self, host: str) -> str | None:
        if self._closing:
            return "stopping"
        if len(self._open) >= self._total_max:
            return f"max.connections={self._total_max}"
        if self._hosts[host] >= self._per_host_max:
            return f"max.connections.per.ip={self._per_host_max}"
        return None


async def _until(done: Callable[[], bool], deadline: float) -> None:
    loop = asyncio.get_running_loop()
    while not done():
        if loop.time() >= deadline:
            return
        await asyncio.sleep(_DRAIN_STEP_SECONDS)
