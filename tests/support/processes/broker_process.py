"""A real Millpond broker process, started the way a person starts it, for interop and crash tests."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.processes.ports import answers_api_versions, free_port, wait_until

ROOT = Path(__file__).resolve().parents[3]


class MillpondProcess:
    """`with MillpondProcess(directory) as broker: broker.bootstrap` starts, waits until ready, stops.

    `properties` are Kafka's setting names and go into a server.properties beside the data. The port is kept
    over restarts, so that clients find the broker again. Output is appended to `log_path`. `prefix` is a
    command that runs the broker elsewhere, as `nsenter` does, at the address `host`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        file_bytes_max: int | None = None,
        start_timeout_s: float = 90,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="millpond-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.data = directory / "data"
        self.log_path = directory / "server.log"
        self.host = host
        self.port = free_port()
        self.properties = dict(properties or {})
        # Whose Millpond is started; another release's sources are put here.
        self.source = ROOT / "src"
        self.file_bytes_max = file_bytes_max
        self._start_timeout_s = start_timeout_s
        self._prefix = tuple(prefix)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap.servers."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def output(self) -> str:
        """All that the broker has printed and logged so far, over all of its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def resident_bytes(self) -> int:
        """Resident memory of the broker process."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    @property
    def open_files(self) -> int:
        """How many descriptors the broker process holds."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - descriptors come and go

    def is_running(self) -> bool:
        """Tell whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process and do not wait for it."""
        assert not self.is_running()
        self.directory.mkdir(parents=True, exist_ok=True)
        source = [str(self.source), os.environ.get("PYTHONPATH", "")]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._prefix,
                    *(sys.executable, "-m", "millpond", "up"),
                    *("--config", str(self._write_settings())),
                ],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, source))},
                preexec_fn=self._limits(),  # noqa: PLW1509 - only sets a resource limit
            )

    def start(self) -> "MillpondProcess":
        """Start the process and wait until it answers."""
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def wait_ready(self) -> None:
        """Wait until the broker answers ApiVersions; RuntimeError when it ended instead."""
        wait_until(self._ready, timeout_s=self._start_timeout_s, what="Millpond answers")

    def stop(self, timeout_s: float = 30, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop by a signal and answer the exit code; TimeoutExpired when it does not stop."""
        process = self._take()
        process.send_signal(number)
        try:
            return process.wait(timeout_s)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def kill(self) -> None:
        """Stop by SIGKILL."""
        process = self._take()
        process.kill()
        process.wait()

    def restart(self) -> "MillpondProcess":
        """Kill by SIGKILL and start again on the same data and port."""
        self.kill()
        return self.start()

    def __enter__(self) -> "MillpondProcess":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _take(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker is not running"
        process, self._process = self._process, None
        return process

    def _ready(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            raise RuntimeError(f"Millpond ended with {code} while starting:\n{self.output[-4000:]}")
        return answers_api_versions(self.port, host=self.host)

    def _limits(self) -> Callable[[], None] | None:
        limit = self.file_bytes_max
        if limit is None:
            return None

        def set_limits() -> None:
            # Past the limit a write fails with EFBIG: the nearest thing to a full disk without root.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return set_limits

    def _write_settings(self) -> Path:
        settings = {
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data),
            **self.properties,
        }
        if self.source != ROOT / "src":
            # Earlier releases do not know of it, and refuse settings that they do not know.
            settings.pop("cluster.secret.file", None)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path
