"""One broker as one process: from checked settings to an exit code.

Order: refuse ``python -O``, raise the limit of open files, start, say so, wait for a signal, stop cleanly.
The first SIGTERM, SIGINT or SIGHUP asks for a clean stop, which has ``STOP_SECONDS``; a second one ends the
process at once (what was acknowledged survives that too, but the next start has to check the logs).
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable

from millpond.server.allocator import keep_large_buffers
from millpond.server.app import Server
from millpond.server.clock import SystemClock
from millpond.server.collector import keep_what_is_here
from millpond.server.config import Settings
from millpond.server.failures import ExitCode, StartFailed, start_failed
from millpond.server.rng import SystemRng

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0


def check_interpreter() -> None:
    """Asserts guard the stored data; a broker without them must not run. Raises ``StartFailed``."""
    if not __debug__:
        raise StartFailed(
            "Millpond does not run under python -O.",
            "its checks of its own work are asserts, and -O (or PYTHONOPTIMIZE) removes them",
        )


def raise_open_files_limit() -> tuple[int, int]:
    """Lift the soft limit to the hard one; answers (before, after)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft, soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # Some systems refuse "unlimited" as a soft limit; what there is has to do.
        return soft, soft
    return soft, hard


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop when it is installed, asyncio's own otherwise."""
    if os.environ.get("MILLPOND_EVENT_LOOP") != "asyncio":
        with contextlib.suppress(ImportError):
            import uvloop

            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()


def run_broker(settings: Settings, *, on_ready: Callable[[Server], None]) -> ExitCode:
    """Run until a signal; raises ``StartFailed`` when it does not get that far."""
    check_interpreter()
    before, after = raise_open_files_limit()
    if before != after:
        log.debug("open files: soft limit raised from %d to %d", before, after)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_run(settings, on_ready))


async def _run(settings: Settings, on_ready: Callable[[Server], None]) -> ExitCode:
    server = Server(settings, clock=SystemClock(), rng=SystemRng())
    stop = StopSignals()
    stop.install()
    try:
        try:
            if not await _start_unless_stopped(server, stop):
                return ExitCode.OK
        except Exception as error:  # the outermost line of the start
            log.debug("start failed", exc_info=True)
            raise start_failed(error, data=settings.data) from error
        on_ready(server)
        keep_large_buffers()
        keep_what_is_here()
        name = await stop.wait()
        log.info("%s: stopping; a second one ends the process at once", name)
        clean = await _stop_in_time(server)
    finally:
        stop.remove()
    return ExitCode.OK if clean else ExitCode.DATA


async def _start_unless_stopped(server: Server, stop: "StopSignals") -> bool:
    """Start; False if a signal came first. A node may wait for its cluster as long as that takes."""
    start = asyncio.ensure_future(server.start())
    signalled = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([start, signalled], return_when=asyncio.FIRST_COMPLETED)
        if start.done():
            start.result()
            return True
        log.info("%s: stopping before the start is complete", signalled.result())
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
        return False
    finally:
        signalled.cancel()


async def _stop_in_time(server: Server) -> bool:
    loop = asyncio.get_running_loop()
    started = loop.time()
    slow = loop.call_later(
        STOP_SECONDS,
        log.warning,
        "still stopping after %.0f s: the disk is taking its time with unwritten data",
        STOP_SECONDS,
    )
    try:
        clean = await server.stop()
    finally:
        slow.cancel()
    seconds = loop.time() - started
    if clean:
        log.info("stopped cleanly in %.2f s", seconds)
    else:
        log.warning("stopped in %.2f s, not cleanly: the next start checks the data", seconds)
    return clean


class StopSignals:
    """SIGTERM, SIGINT and a lost terminal: the first is a request, the second an order.

    ``on_second`` is called before the second one ends the process.
    """

    def __init__(self, *, on_second: Callable[[], None] = lambda: None) -> None:
        self._on_second = on_second
        # Under nohup a lost terminal is to be ignored, and it already is.
        hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
        self._numbers = (signal.SIGTERM, signal.SIGINT, *hang_up)
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[str] = self._loop.create_future()

    def install(self) -> None:
        """Listen."""
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._on_signal, number)

    def remove(self) -> None:
        """Listen no more."""
        for number in self._numbers:
            self._loop.remove_signal_handler(number)

    async def wait(self) -> str:
        """The name of the first signal, when it comes."""
        return await asyncio.shield(self._first)

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._first.done():
            self._first.set_result(number.name)
            return
        log.warning("%s again: ending at once", number.name)
        self._on_second()
        sys.stderr.flush()
        os._exit(ExitCode.FORCED)
