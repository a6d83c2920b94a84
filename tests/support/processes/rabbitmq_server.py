"""A real RabbitMQ (Debian's package) as a peer: own ports, own directory, own port mapper, nothing of the
system's.

Used to record its answers and to compare with them. All settings are RabbitMQ's defaults but for the ports
and what a test asks for.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.processes.ports import free_port, wait_until

# The packaged command changes to another user first; this is what it runs.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_PLUGINS = Path("/usr/lib/rabbitmq/lib")


def rabbitmqadmin() -> Path:
    """The command that RabbitMQ's management plug-in hands out: one Python file."""
    return next(_PLUGINS.glob("*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"))


def missing_reason() -> str | None:
    """Why it cannot be run here; None if it can."""
    if not SERVER.exists() or shutil.which("erl") is None:
        return "RabbitMQ is not installed (apt-get install rabbitmq-server)"
    return None


class RabbitMq:
    """`with RabbitMq(directory) as rabbit: rabbit.port` starts, waits and stops."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        start_timeout_s: float = 180,
        with_management: bool = False,
        plugins: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rabbitmq-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.port = free_port()
        self.management_port = free_port() if with_management else None
        self._mapper_port = free_port()
        self._plugins = [*plugins, *(["rabbitmq_management"] if with_management else [])]
        self._settings = settings or {}
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        return self.directory / "server.log"

    def start(self) -> "RabbitMq":
        reason = missing_reason()
        if reason:
            raise RuntimeError(reason)
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "plugins").write_text(f"[{','.join(self._plugins)}].\n")
        settings = f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\n"
        if self.management_port is not None:
            settings += "management.tcp.ip = 127.0.0.1\n"
            settings += f"management.tcp.port = {self.management_port}\n"
        settings += "".join(f"{name} = {value}\n" for name, value in self._settings.items())
        (self.directory / "rabbitmq.conf").write_text(settings)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [str(SERVER)],
                cwd=self.directory,
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(
                self._is_started,
                timeout_s=self._start_timeout_s,
                what="RabbitMQ's start",
                poll_s=0.1,
            )
        except TimeoutError:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops the server and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                # It is the leader of a session of its own, with nobody else's processes in it.
                os.killpg(process.pid, number)
                process.wait(timeout=20)
                break
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._stop_mapper()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> "RabbitMq":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _environment(self) -> dict[str, str]:
        place = str(self.directory)
        return {
            **os.environ,
            "HOME": place,
            "RABBITMQ_NODENAME": f"peer{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": f"{place}/data",
            "RABBITMQ_LOG_BASE": f"{place}/log",
            "RABBITMQ_PID_FILE": f"{place}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{place}/plugins",
            "RABBITMQ_CONFIG_FILE": f"{place}/rabbitmq",
            "RABBITMQ_CONF_ENV_FILE": f"{place}/no-such-file",
        }

    def _is_started(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"RabbitMQ ended: {self.log_path.read_text()[-2000:]}")
        return b"Server startup complete" in self.log_path.read_bytes()

    def _stop_mapper(self) -> None:
        """Erlang's port mapper goes on without its node, in the background, until it is told to stop."""
        epmd = shutil.which("epmd")
        if epmd is not None:
            environment = {**os.environ, "ERL_EPMD_PORT": str(self._mapper_port)}
            subprocess.run(
                [epmd, "-kill"], env=environment, capture_output=True, check=False, timeout=10
            )
