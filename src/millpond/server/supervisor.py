"""Keeps the processes of a cluster on one machine running: starts them, again when they die, and stops all.

A node that dies is started again after a pause that grows, up to ``PAUSE_S_MAX``, as long as it keeps dying;
one that ran for ``STEADY_S`` begins with the shortest again. A node that cannot even start the first time
ends the whole, so that the operator reads why. The ``ProcessObserver`` reports and shows the states.
"""

import asyncio
import ctypes
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

log = logging.getLogger(__name__)

PAUSE_S_MIN = 1.0
PAUSE_S_MAX = 30.0
STEADY_S = 30.0
STOP_S = 30.0
# Ends that another start cannot mend: settings, address, data (server.failures.ExitCode).
HOPELESS = frozenset({2, 3, 4})
_LINE_BYTES_MAX = 1 << 20


class ProcessObserver(Protocol):
    """Reports what happens to the processes."""

    def said(self, node_id: int, line: str) -> None:
        """A node has written a line."""
        ...

    def started(self, node_id: int, pid: int) -> None:
        """A process has begun; it is not ready yet."""
        ...

    def ended(self, node_id: int, how: str, pause_s: float | None) -> None:
        """A process is over; it is started again after the pause, or never."""
        ...


class Hopeless(Exception):
    """A node cannot start, and trying again would not help."""

    def __init__(self, node_id: int, code: int) -> None:
        super().__init__(f"node {node_id} ended with {code}")
        self.node_id = node_id
        self.code = code


@dataclass
class _Child:
    node_id: int
    command: Sequence[str]
    process: asyncio.subprocess.Process | None = None
    starts: int = 0


class Supervisor:
    """Runs one command for each node until it is told to stop."""

    def __init__(
        self,
        commands: Mapping[int, Sequence[str]],
        observer: ProcessObserver,
        *,
        pause_s_min: float = PAUSE_S_MIN,
        stop_s: float = STOP_S,
    ) -> None:
        self._children = {
            node_id: _Child(node_id=node_id, command=command)
            for node_id, command in commands.items()
        }
        self._observer = observer
        self._pause_s_min = pause_s_min
        self._stop_s = stop_s
        self._stopping = asyncio.Event()

    async def run(self) -> bool:
        """Until ``stop``; whether every node ended cleanly. Raises ``Hopeless``."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._keep(child)) for child in self._children.values()]
        except* Hopeless as several:
            first = several.exceptions[0]
            assert isinstance(first, Hopeless)
            raise first from None
        return all(task.result() for task in tasks)

    def stop(self) -> None:
        """Ask every node to stop cleanly; those that take too long are killed."""
        self._stopping.set()

    def kill(self) -> None:
        """End every node at once."""
        self._stopping.set()
        for child in self._children.values():
            if child.process is not None and child.process.returncode is None:
                child.process.kill()

    async def _keep(self, child: _Child) -> bool:
        pause_s = self._pause_s_min
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                code = await self._run_once(child)
            except asyncio.CancelledError:
                await self._end(child)
                raise
            if self._stopping.is_set():
                self._observer.ended(child.node_id, in_words(code), None)
                # One that was asked to stop before it listened to signals has begun nothing.
                return code in {0, -signal.SIGTERM}
            if child.starts == 1 and code in HOPELESS:
                self._observer.ended(child.node_id, in_words(code), None)
                raise Hopeless(child.node_id, code)
            if loop.time() - began >= STEADY_S:
                pause_s = self._pause_s_min
            self._observer.ended(child.node_id, in_words(code), pause_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
                return True
            except TimeoutError:
                pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _run_once(self, child: _Child) -> int:
        child.starts += 1
        child.process = process = await asyncio.create_subprocess_exec(
            *child.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # Ctrl-C in a terminal goes to us alone; we tell the nodes.
            start_new_session=True,
            preexec_fn=_die_with_parent(),
            limit=_LINE_BYTES_MAX,
        )
        self._observer.started(child.node_id, process.pid)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(child.node_id, process))
            stopper = group.create_task(self._stop_when_asked(process))
            code = await process.wait()
            stopper.cancel()
        return code

    async def _listen(self, node_id: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the limit of a line; the rest comes as another line
                continue
            if not line:
                return
            self._observer.said(node_id, line.decode(errors="replace").rstrip("\n"))

    async def _stop_when_asked(self, process: asyncio.subprocess.Process) -> None:
        await self._stopping.wait()
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.sleep(self._stop_s)
        if process.returncode is None:
            log.warning("pid %d has not stopped after %.0f s: killed", process.pid, self._stop_s)
            process.kill()

    async def _end(self, child: _Child) -> None:
        """Another node was hopeless: this one goes, too."""
        process = child.process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(self._stop_s):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


def in_words(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _die_with_parent() -> Callable[[], None] | None:
    """A supervisor that is killed takes its nodes with it; Linux can promise that."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    set_parent_death_signal = 1

    def ask() -> None:
        libc.prctl(set_parent_death_signal, signal.SIGTERM)

    return ask
