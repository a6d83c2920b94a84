"""A broker inside this process: ``with millpond.Broker() as broker: connect(broker.bootstrap)``.

It runs in a thread of its own with its own event loop, so that it works the same under synchronous code,
asyncio and anything else, and so that a test that blocks does not block the broker. Free port, temporary
directory, nothing left behind. Unlike ``millpond up`` it reads no environment variables: a test means the
same on every machine.
"""

import asyncio
import atexit
import contextlib
import logging
import shutil
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from millpond.server.app import Server
from millpond.server.clock import SystemClock
from millpond.server.config import Origin, Settings, given_in_code, load_settings
from millpond.server.endpoints import host_port
from millpond.server.failures import StartFailed, start_failed, told_in_code
from millpond.server.lifecycle import check_interpreter, new_event_loop
from millpond.server.protocols import KAFKA, protocols
from millpond.server.rng import SystemRng

log = logging.getLogger(__name__)

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0

# What suits a test better than a server: a group forms at once, and the internal topics are small.
EMBEDDED_DEFAULTS: Mapping[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}


class Broker:
    """A broker in a thread of this process.

    ``data`` keeps the messages in a directory of yours; without it they live in a temporary one that is
    removed at the stop. ``port`` 0 is any free one. ``Broker(amqp=True)`` serves AMQP at any free port and
    ``Broker(amqp=5672)`` at that one; ``addresses("amqp")`` says where. ``settings`` and other keyword
    arguments are broker settings: Kafka's names in the mapping, the same with underscores as keywords
    (``Broker(num_partitions=3)``).

    Use it in ``with`` or ``async with``, or call ``start`` and ``stop``; both may be called again. ``start``
    raises ``StartFailed`` with the reason when the broker cannot run, the constructor ``InvalidSettings``.
    Every method may be called from any thread.
    """

    def __init__(
        self,
        *,
        data: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        **keywords: object,
    ) -> None:
        check_interpreter()
        self._data = Path(data) if data is not None else None
        self._given: dict[str, object] = {
            **EMBEDDED_DEFAULTS,
            "listeners": f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}",
            **(settings or {}),
        }
        names = {protocol.name for protocol in protocols() if protocol is not KAFKA}
        # More listeners, by their protocols.
        self._served: dict[str, str] = {}
        for name, value in keywords.items():
            if name not in names:
                self._given[name.replace("_", ".")] = value
            elif (address := _address(value, host)) is not None:
                self._served[name] = address
        self._lock = threading.Lock()
        self._running: _Running | None = None
        # A first look, so that a misspelt setting fails where it is written.
        self._settings(self._data or Path("millpond-data"))

    @property
    def bootstrap(self) -> str:
        """``host:port`` for a client's ``bootstrap.servers``."""
        return self._require().bootstrap

    def addresses(self, protocol: str = KAFKA.name) -> list[str]:
        """Return ``host:port`` of every listener of a protocol, such as ``"amqp"``."""
        return self._require().server.addresses(protocol)

    @property
    def amqp(self) -> list[str]:
        """``addresses("amqp")``."""
        return self.addresses("amqp")

    @property
    def management(self) -> list[str]:
        """``addresses("http")``: RabbitMQ's management API."""
        return self.addresses("http")

    @property
    def data(self) -> Path:
        """The directory that the messages are in."""
        return self._require().data

    @property
    def settings(self) -> Settings:
        """Everything it runs with."""
        return self._require().settings

    @property
    def is_running(self) -> bool:
        """Return whether the broker has been started and not stopped."""
        return self._running is not None

    def start(self) -> Self:
        """Start it and wait until it accepts messages."""
        with self._lock:
            if self._running is None:
                temporary = None
                if self._data is None:
                    temporary = Path(tempfile.mkdtemp(prefix="millpond-"))
                try:
                    settings = self._settings(self._data or temporary or Path())
                    self._running = _Running(settings, temporary)
                except BaseException:
                    if temporary is not None:
                        shutil.rmtree(temporary, ignore_errors=True)
                    raise
                atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop it cleanly and remove its temporary directory. Does nothing when it is not running."""
        with self._lock:
            running, self._running = self._running, None
            if running is not None:
                atexit.unregister(self.stop)
                running.stop()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, with ``num.partitions`` partitions unless told otherwise.

        With ``auto.create.topics.enable`` (the default) a client that asks for a topic creates it too.
        """
        texts = {key: _text(value) for key, value in (config or {}).items()}
        self._require().create_topic(name, partitions, texts)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        running = self._running
        return f"<Broker {running.bootstrap if running is not None else 'stopped'}>"

    def _settings(self, data: Path) -> Settings:
        return load_settings(
            overrides=given_in_code({"log.dirs": str(data), **self._given}),
            served=self._served,
            served_origin=Origin.CODE,
        )

    def _require(self) -> "_Running":
        running = self._running
        if running is None:
            raise RuntimeError("the broker is not running: use `with millpond.Broker() as broker:`")
        return running


class _Running:
    """One run: the thread, its loop and the server in it."""

    def __init__(self, settings: Settings, temporary: Path | None) -> None:
        self.settings = settings
        self.data = settings.data
        self._temporary = temporary
        self._started: Future[Server] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        # A daemon: a program that forgets to stop its broker can still end (atexit stops it first).
        self._thread = threading.Thread(target=self._run, name="millpond-broker", daemon=True)
        self._thread.start()
        try:
            self.server = self._started.result(timeout=START_SECONDS_MAX)
        except TimeoutError:
            self.stop()
            raise StartFailed(
                f"the broker did not start within {START_SECONDS_MAX:.0f} s"
            ) from None
        self.bootstrap: str = self.server.bootstrap

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> None:
        assert self._loop is not None
        work = self.server.create_topic(name, partitions=partitions, config=config)
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=START_SECONDS_MAX)

    def stop(self) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=STOP_SECONDS_MAX)
        if self._thread.is_alive():
            log.error("the embedded broker did not stop within %.0f s", STOP_SECONDS_MAX)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = Server(self.settings, clock=SystemClock(), rng=SystemRng())
        try:
            await server.start()
        except Exception as error:  # noqa: BLE001 - carried to the caller's thread
            self._started.set_exception(told_in_code(start_failed(error, data=self.data)))
            return
        self._started.set_result(server)
        await self._stop.wait()
        try:
            await server.stop()
        except Exception:  # the outermost line of the thread
            log.exception("the embedded broker did not stop cleanly")


def _address(value: object, host: str) -> str | None:
    """Return the address that an argument for a protocol names; None if the protocol is not asked for."""
    if value is None or value is False:
        return None
    if value is True:
        return host_port(host, 0)
    return host_port(host, value) if isinstance(value, int) else str(value)


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
