"""Several real Apache Kafka nodes (KRaft, each broker and controller in one process) as one cluster.

Used to run the cluster's interop tests against the original and to measure beside it. Settings are Kafka's
defaults but for the ports; factors and time-outs stay as Kafka ships them, so what is measured is Kafka's.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.processes.java_tools import QUICK_START, java_command, missing_reason, run_tool
from tests.support.processes.kafka_server import CLUSTER_ID
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import answers_api_versions, free_port, wait_until


class KafkaNode:
    """One node: its directory, ports and process."""

    def __init__(self, node_id: int, directory: Path, *, net: NetSpaces | None = None) -> None:
        self.node_id = node_id
        self.host = "127.0.0.1" if net is None else net.address(node_id)
        self.prefix = [] if net is None else net.prefix(node_id)
        self.directory = directory
        self.data = directory / "data"
        self.log_path = directory / "server.log"
        self.port = free_port()
        self.controller_port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Where this node listens."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running node."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """Stop by SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ready(self) -> bool:
        """Whether it says that it has started and answers; RuntimeError when it ended instead."""
        assert self.process is not None
        code = self.process.poll()
        if code is not None:
            tail = self.log_path.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"node {self.node_id} ended with {code} while starting:\n{tail}")
        return (
            answers_api_versions(self.port, host=self.host)
            and b"Kafka Server started" in self.log_path.read_bytes()
        )


class KafkaCluster:
    """`with KafkaCluster(directory) as kafka: kafka.bootstrap` formats, starts, waits and stops.

    `jvm_flags=()` and a larger heap give Kafka's server defaults for measuring; on `net` each node has a
    network namespace of its own, and the ways between nodes can be cut.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        nodes: int = 3,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        jvm_flags: tuple[str, ...] = QUICK_START,
        start_timeout_s: float = 90,
        net: NetSpaces | None = None,
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="apache-kafka-cluster-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.nodes = {
            node_id: KafkaNode(node_id, directory / f"node-{node_id}", net=net)
            for node_id in range(1, nodes + 1)
        }
        self.net = net
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._jvm_flags = jvm_flags
        self._start_timeout_s = start_timeout_s

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap.servers: every node."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> "KafkaCluster":
        """Format new directories, start every node, wait until all answer."""
        if reason := missing_reason():
            raise RuntimeError(reason)
        try:
            for node in self.nodes.values():
                self.launch(node.node_id)
            for node in self.nodes.values():
                self.wait_ready(node.node_id)
        except BaseException:
            self.kill()
            raise
        return self

    def launch(self, node_id: int) -> None:
        """Start one node and do not wait for it."""
        node = self.nodes[node_id]
        node.directory.mkdir(parents=True, exist_ok=True)
        settings = self._write_settings(node)
        if not (node.data / "meta.properties").exists():
            run_tool("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(settings)).check()
        command = java_command(
            "kafka-server-start",
            str(settings),
            heap_mb=self._heap_mb,
            jvm_flags=self._jvm_flags,
            log_level="info",
        )
        node.log_path.write_bytes(b"")  # forget the "started" line of an earlier run
        with node.log_path.open("ab") as log:
            node.process = subprocess.Popen(
                [*node.prefix, *command],
                cwd=node.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LANG": "C.UTF-8"},
            )

    def wait_ready(self, node_id: int) -> None:
        """Wait until a node has started."""
        wait_until(
            self.nodes[node_id].ready, timeout_s=self._start_timeout_s, what="Apache Kafka answers"
        )

    def start_node(self, node_id: int) -> None:
        """Start one node and wait until it has started."""
        self.launch(node_id)
        self.wait_ready(node_id)

    def stop_node(self, node_id: int, timeout_s: float = 60) -> None:
        """Stop one node cleanly."""
        node = self.nodes[node_id]
        assert node.process is not None
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(timeout_s) in {0, 143}
        node.process = None

    def stop(self, timeout_s: float = 30) -> None:
        """Stop every node by SIGTERM, then by SIGKILL when it takes too long."""
        running = [node for node in self.nodes.values() if node.process is not None]
        for node in running:
            assert node.process is not None
            node.process.send_signal(signal.SIGTERM)
        for node in running:
            assert node.process is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(timeout_s)
            node.kill()

    def kill(self) -> None:
        """Stop every node by SIGKILL."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> "KafkaCluster":
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

    def _write_settings(self, node: KafkaNode) -> Path:
        voters = ",".join(
            f"{other.node_id}@{other.host}:{other.controller_port}" for other in self.nodes.values()
        )
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": (
                f"PLAINTEXT://{node.host}:{node.port},CONTROLLER://{node.host}:{node.controller_port}"
            ),
            "advertised.listeners": f"PLAINTEXT://{node.host}:{node.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(node.data),
            "group.initial.rebalance.delay.ms": "0",
            **self._properties,
        }
        path = node.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path
