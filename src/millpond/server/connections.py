"""The open connections of a node: how many there may be, which are idle, and how they end at the stop.

Every front-end's transport reports here when a connection opens and closes. Knows no protocol.

The limits are for clients: a flood of them must not keep the nodes of a cluster from each other. So a
connection that has proved to be a node's does not count. Before the proof a node cannot be told from a
client; a connection that the limits refuse is therefore let in on trial, on the listeners for nodes, and may
do nothing there but prove that it is a node's. There are few trials: where they are too many, the oldest
ends, and those from addresses from which no node has come yet end first.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, Protocol

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.rates import SampledRate, throttle_ms
from millpond.metadata.config_def import INT_MAX
from millpond.metadata.configs import connection_overrides

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
    return min(asked, open_files_limit - _other_files(open_files_limit))


def _other_files(open_files_limit: int) -> int:
    return min(_OTHER_FILES_MAX, open_files_limit // 4)


class Connection(Protocol):
    """The side of a transport that the table of connections uses."""

    # Set by the transport whenever bytes arrive, taken back by the sweep: cheaper than asking for the time.
    touched: bool

    @property
    def is_writing(self) -> bool:
        """Return whether a response to an executed request is not sent yet."""
        ...

    def close(self) -> None:
        """Send what is left, then end."""
        ...

    def abort(self) -> None:
        """End now."""
        ...


class _Entry:
    """Where a connection comes from, when it began, when the sweep last saw it do something, and whether the
    limits count it.
    """

    __slots__ = ("began_ms", "host", "is_counted", "seen_ms")

    def __init__(self, host: str, now_ms: int, *, is_counted: bool) -> None:
        self.host = host
        self.began_ms = self.seen_ms = now_ms
        self.is_counted = is_counted


class Connections:
    """Everything that is connected, over all doors.

    ``setting`` gives the settings in force by name: they may be altered while the node runs, and count for
    the next connection. Those that are there already are left alone.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        setting: Callable[[str], Any],
        idle_ms_max: int,
        open_files_limit: int = -1,
    ) -> None:
        self._clock = clock
        self._setting = setting
        self._open_files_limit = open_files_limit
        self._idle_ms_max = idle_ms_max
        self._open: dict[Connection, _Entry] = {}
        # Of those that count.
        self._counted = 0
        self._hosts: Counter[str] = Counter()
        # Those that have yet to prove that they are a node's, the oldest first: from addresses from which a
        # node has come, and from others.
        self._trials: dict[bool, dict[Connection, None]] = {True: {}, False: {}}
        self._trials_max = limits.NODE_TRIALS_MAX
        if open_files_limit >= 0:
            self._trials_max = min(self._trials_max, _other_files(open_files_limit) // 4)
        self._node_hosts: dict[str, None] = {}
        self._refused = 0
        self._closing = False
        self._overrides = _Overrides()
        self._made = SampledRate(
            samples=setting("quota.window.num"),
            window_ms=setting("quota.window.size.seconds") * 1000,
        )

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, host: str, *, may_be_node: bool = False) -> bool:
        """Count a new connection; False if there is no room for it and it must be closed.

        One that ``may_be_node`` is let in on trial where the limits refuse it.
        """
        reason = self._reason_to_refuse(host)
        if reason is not None:
            if may_be_node and self._begin_trial(connection, host):
                self._enter(connection, host, is_counted=False)
                return True
            self._refused += 1
            # One line for each doubling: a flood is worth a line, not a flood of lines.
            if self._refused & (self._refused - 1) == 0:
                log.warning(
                    "peer=%s: connection refused (%s); %d so far", host, reason, self._refused
                )
            return False
        self._enter(connection, host, is_counted=True)
        return True

    def _enter(self, connection: Connection, host: str, *, is_counted: bool) -> None:
        now_ms = self._clock.monotonic_ms()
        self._open[connection] = _Entry(host, now_ms, is_counted=is_counted)
        if is_counted:
            self._counted += 1
            self._hosts[host] += 1

    def _uncount(self, entry: _Entry) -> None:
        if not entry.is_counted:
            return
        entry.is_counted = False
        self._counted -= 1
        self._hosts[entry.host] -= 1
        if not self._hosts[entry.host]:
            del self._hosts[entry.host]

    # --- nodes -------------------------------------------------------------------------------------

    def is_on_trial(self, connection: Connection) -> bool:
        """Return whether the connection may only prove that it is a node's."""
        return any(connection in trials for trials in self._trials.values())

    def try_node(self, connection: Connection) -> bool:
        """Put a connection on trial that was admitted and came too fast; False if there is no room."""
        entry = self._open.get(connection)
        return entry is not None and self._begin_trial(connection, entry.host)

    def _begin_trial(self, connection: Connection, host: str) -> bool:
        if self._closing or self._trials_max == 0:
            return False
        is_known = host in self._node_hosts
        if sum(map(len, self._trials.values())) >= self._trials_max:
            ended = self._trials[False] or (self._trials[True] if is_known else None)
            if not ended:
                return False
            oldest = next(iter(ended))
            del ended[oldest]
            oldest.abort()
        self._trials[is_known][connection] = None
        return True

    def _end_trial(self, connection: Connection) -> None:
        for trials in self._trials.values():
            trials.pop(connection, None)

    def prove(self, connection: Connection) -> None:
        """A connection has proved to be a node's: the limits do not count it any more."""
        entry = self._open.get(connection)
        if entry is None:
            return
        self._end_trial(connection)
        self._uncount(entry)
        self._node_hosts.pop(entry.host, None)
        self._node_hosts[entry.host] = None
        if len(self._node_hosts) > limits.NODE_HOSTS_MAX:
            del self._node_hosts[next(iter(self._node_hosts))]

    # --- how fast they come, how they end -----------------------------------------------------------

    def wait_ms(self) -> int:
        """Count a connection that was admitted; for how long one too many is kept waiting until it is closed.

        ``max.connection.creation.rate`` is for all addresses and doors together.
        """
        bound: int = self._setting("max.connection.creation.rate")
        if bound == INT_MAX:
            return 0
        now_ms = self._clock.monotonic_ms()
        self._made.record(1, now_ms)
        rate, window_ms = self._made.measure(now_ms)
        wait_ms = min(throttle_ms(rate, max(bound, 1), window_ms), self._made.window_ms)
        if wait_ms > 0:
            self._made.record(-1, now_ms)
        return wait_ms

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        entry = self._open.pop(connection, None)
        if entry is not None:
            self._end_trial(connection)
            self._uncount(entry)

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
            if now_ms - entry.began_ms > limits.NODE_TRIAL_MS and self.is_on_trial(connection):
                idle.append(connection)
            elif connection.touched or connection.is_writing:
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
        """Let requests under way be answered, then close all connections. Admit no new connection."""
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
        total_max: int = connections_max(self._setting("max.connections"), self._open_files_limit)
        if self._counted >= total_max:
            return f"max.connections={total_max}"
        overrides = self._overrides.of(self._setting("max.connections.per.ip.overrides"))
        if host in overrides:
            if self._hosts[host] >= overrides[host]:
                return f"max.connections.per.ip.overrides={host}:{overrides[host]}"
            return None
        per_host_max: int = self._setting("max.connections.per.ip")
        if self._hosts[host] >= per_host_max:
            return f"max.connections.per.ip={per_host_max}"
        return None


class _Overrides:
    """``max.connections.per.ip.overrides`` by address; names are looked up beside the loop."""

    def __init__(self) -> None:
        self._given = ""
        self._by_address: dict[str, int] = {}
        self._lookups: set[asyncio.Task[None]] = set()

    def of(self, given: str) -> Mapping[str, int]:
        """The limits in force."""
        if given != self._given:
            self._given, self._by_address = given, {}
            for host, count in connection_overrides(given):
                self._add(host, count)
        return self._by_address

    def _add(self, host: str, count: int) -> None:
        try:
            self._by_address[str(ip_address(host))] = count
        except ValueError:
            lookup = asyncio.get_running_loop().create_task(
                self._look_up(host, count, self._by_address)
            )
            self._lookups.add(lookup)
            lookup.add_done_callback(self._lookups.discard)

    async def _look_up(self, host: str, count: int, found: dict[str, int]) -> None:
        try:
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, None, type=socket.SOCK_STREAM
            )
        except OSError as error:
            log.warning("max.connections.per.ip.overrides: %s has no address: %s", host, error)
            return
        found.update({str(address[0]): count for *_kind, address in answers})


async def _until(done: Callable[[], bool], deadline: float) -> None:
    loop = asyncio.get_running_loop()
    while not done():
        if loop.time() >= deadline:
            return
        await asyncio.sleep(_DRAIN_STEP_SECONDS)
