"""A cluster of real processes for tests: `millpond up --nodes N` on free ports with its own data
directory.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

START_S_MAX = 120.0
STOP_S_MAX = 60.0


class ClusterFailed(RuntimeError):
    """The nodes did not form a cluster; the message contains their output."""


class LocalCluster:
    """``with LocalCluster(nodes=3) as cluster: connect(cluster.bootstrap)``.

    ``settings`` are those of every node, by Kafka's names. A node that dies is restarted. With ``data`` the
    messages are kept; without it they are in a temporary directory that ``stop`` removes.
    """

    def __init__(
        self,
        *,
        nodes: int = 3,
        data: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._nodes = nodes
        self._data = Path(data) if data is not None else None
        self._settings = dict(settings or {})
        self._temporary: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._ready = threading.Event()
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every node, for a client's ``bootstrap.servers``."""
        if self._process is None:
            raise RuntimeError("the cluster is not running: use `with LocalCluster() as cluster:`")
        return self._bootstrap

    @property
    def output(self) -> str:
        """Return the nodes' output so far."""
        return "\n".join(self._lines)

    def start(self) -> Self:
        """Start the nodes and wait until all have joined. Raises ``ClusterFailed``."""
        if self._process is not None:
            return self
        if self._data is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="millpond-"))
        command = [sys.executable, "-m", "millpond", "up", "--nodes", str(self._nodes)]
        command += ["--listen", "127.0.0.1:0", "--data", str(self._data or self._temporary)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={_text(value)}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()
        if not self._ready.wait(START_S_MAX) or not self._bootstrap:
            said = self.output
            self.stop()
            raise ClusterFailed(f"the cluster did not start:\n{said[-4000:]}")
        return self

    def stop(self) -> None:
        """Stop every node cleanly, and remove a temporary directory."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S_MAX)
            process.kill()
            process.wait()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _listen(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.rstrip("\n"))
                if found := re.fullmatch(r"millpond \| connect to (\S+)", self._lines[-1]):
                    self._bootstrap = found[1]
                    self._ready.set()
        self._ready.set()


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
