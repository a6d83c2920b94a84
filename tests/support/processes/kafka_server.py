"""A real Apache Kafka broker (KRaft, one node, broker and controller in one process) as a peer.

Used to run the interop tests against the original, to compare answers with it, and to measure beside it.
All settings are Kafka's defaults but for what a single node needs (factors of 1) and the ports.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.processes.java_tools import QUICK_START, java_command, missing_reason, run_tool
from tests.support.processes.ports import answers_api_versions, free_port, wait_until

CLUSTER_ID = "bWlsbHBvbmQtaW50ZXJvcA"  # 16 bytes in URL-safe base64, as StorageTool wants


class ApacheKafka:
    """`with ApacheKafka(directory) as kafka: kafka.bootstrap` formats, starts, waits and stops.

    `jvm_flags=()` and a larger heap give Kafka's server defaults for measuring; the flags given by default
    only make tests start sooner. `properties` are added to server.properties and win over ours.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        jvm_flags: tuple[str, ...] = QUICK_START,
        start_timeout_s: float = 180,
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="apache-kafka-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.data = directory / "data"
        self.log_path = directory / "server.log"
        self.port = free_port()
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._jvm_flags = jvm_flags
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> "ApacheKafka":
        """Format the directory when it is new, start the broker, wait until it answers."""
        reason = missing_reason()
        if reason:
            raise RuntimeError(reason)
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = self._write_settings()
        if not (self.data / "meta.properties").exists():
            run_tool("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(settings)).check()
        command = java_command(
            "kafka-server-start",
            str(settings),
            heap_mb=self._heap_mb,
            jvm_flags=self._jvm_flags,
            log_level="info",
        )
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LANG": "C.UTF-8"},
            )
        try:
            wait_until(self._ready, timeout_s=self._start_timeout_s, what="Apache Kafka answers")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout_s: float = 30) -> None:
        """Stop by SIGTERM, then by SIGKILL when it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Stop by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> "ApacheKafka":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _ready(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            tail = self.log_path.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"Apache Kafka ended with {code} while starting:\n{tail}")
        # The socket accepts before the broker is unfenced; only the log line tells the latter.
        return (
            answers_api_versions(self.port)
            and b"Kafka Server started" in self.log_path.read_bytes()
        )

    def _write_settings(self) -> Path:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._properties,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        # A restart appends to the same log: forget the earlier "started" line.
        self.log_path.write_bytes(b"")
        return path
