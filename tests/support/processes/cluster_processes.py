"""Several real Millpond nodes, each a process of its own, for interop and chaos tests.

Nodes are killed, paused, restarted and wiped; on namespaces (``net``) the ways between them are cut. What
every node has logged is printed when a test fails.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from millpond.base.ids import TopicPartition
from millpond.client import BlockingAdmin, ClientError
from millpond.server.secret import new_secret, write_secret
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import wait_until

CLUSTER_ID = "bWlsbHBvbmQtY2x1c3Rlcg"
# A machine with other work to do starts three interpreters slowly.
START_S = 90.0


class ClusterNode(MillpondProcess):
    """One node."""

    def __init__(self, node_id: int, directory: Path, *, net: NetSpaces | None) -> None:
        super().__init__(
            directory,
            host="127.0.0.1" if net is None else net.address(node_id),
            prefix=() if net is None else net.prefix(node_id),
            start_timeout_s=START_S,
        )
        self.node_id = node_id
        self.is_paused = False

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP); its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        """Stop by SIGKILL, paused or not."""
        self.is_paused = False
        super().kill()

    def wipe(self) -> None:
        """Lose everything that it has on its disk."""
        assert not self.is_running()
        shutil.rmtree(self.data)


class MillpondCluster:
    """`with MillpondCluster(directory) as cluster: cluster.bootstrap` starts all, waits until all take part.

    `properties` are those of every node; defaults are three replicas of which two must be in sync.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        nodes: int = 3,
        properties: Mapping[str, str] | None = None,
        net: NetSpaces | None = None,
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="millpond-cluster-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.net = net
        self.nodes = {
            node_id: ClusterNode(node_id, directory / f"node-{node_id}", net=net)
            for node_id in range(1, nodes + 1)
        }
        voters = ",".join(f"{node.node_id}@{node.bootstrap}" for node in self.nodes.values())
        secret = directory / "cluster.secret"
        if not secret.exists():
            write_secret(secret, new_secret())
        for node in self.nodes.values():
            node.properties = {
                "node.id": str(node.node_id),
                "cluster.id": CLUSTER_ID,
                "controller.quorum.voters": voters,
                "cluster.secret.file": str(secret),
                "default.replication.factor": str(min(3, nodes)),
                "min.insync.replicas": "2" if nodes >= 3 else "1",
                "group.initial.rebalance.delay.ms": "0",
                **(properties or {}),
            }

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap.servers: every node."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> "MillpondCluster":
        """Start every node and wait until all take part."""
        for node in self.nodes.values():
            node.launch()
        self.wait_whole()
        return self

    def start_node(self, node_id: int) -> None:
        """Start one node and wait until it answers."""
        self.nodes[node_id].start()

    def stop_node(self, node_id: int, timeout_s: float = 60) -> None:
        """Stop one node cleanly."""
        assert self.nodes[node_id].stop(timeout_s=timeout_s) == 0

    def wait_whole(self, timeout_s: float = START_S) -> None:
        """Wait until every node answers, is heard of by the controller, and the quorum has a leader."""
        for node in self.nodes.values():
            node.wait_ready()
        with BlockingAdmin(self.bootstrap, default_api_timeout_ms=5_000) as admin:
            wait_until(
                lambda: self._is_whole(admin), timeout_s=timeout_s, what="every node takes part"
            )

    def wait_in_sync(self, timeout_s: float = START_S) -> None:
        """Wait until every partition is led and every replica of it is in sync."""
        wait_in_sync(self.bootstrap, timeout_s=timeout_s)

    def controller(self) -> int:
        """The node that leads the quorum."""
        return controller_of(self.bootstrap)

    def leader_of(self, place: TopicPartition) -> int:
        """The node that leads a partition; -1 if nobody does."""
        return leader_of(self.bootstrap, place)

    def stop(self) -> None:
        """Stop every running node, all at once; kill those that take too long."""
        running = [node for node in self.nodes.values() if node.is_running()]
        stoppers = [threading.Thread(target=_stop, args=(node,)) for node in running]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join()

    def logs(self, lines: int = 60) -> str:
        """The last lines of every node."""
        parts = []
        for node in self.nodes.values():
            tail = "\n".join(node.output.splitlines()[-lines:])
            parts.append(f"--- node {node.node_id} ({node.bootstrap})\n{tail}")
        return "\n".join(parts)

    def __enter__(self) -> "MillpondCluster":
        try:
            return self.start()
        except BaseException:
            print(self.logs(), file=sys.stderr)
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            print(self.logs(), file=sys.stderr)
        if self.net is not None:
            self.net.heal()
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _is_whole(self, admin: BlockingAdmin) -> bool:
        try:
            heard = {broker.node_id for broker in admin.describe_cluster().brokers}
            return heard == set(self.nodes) and admin.describe_quorum().leader_id in self.nodes
        except ClientError:
            return False


def _stop(node: ClusterNode) -> None:
    if node.is_paused:
        node.resume()
    with contextlib.suppress(subprocess.TimeoutExpired):
        node.stop(timeout_s=30)


def wait_in_sync(bootstrap: str, timeout_s: float = START_S) -> None:
    """Wait until every partition is led and every replica of it is in sync, and every node knows it.

    A node hears of what the controller has decided a little later than the others may.
    """
    for address in bootstrap.split(","):
        with BlockingAdmin(address, default_api_timeout_ms=5_000) as admin:
            wait_until(
                lambda admin=admin: _in_sync(admin),  # type: ignore[misc]
                timeout_s=timeout_s,
                what=f"all replicas in sync, as {address} sees it",
            )


def controller_of(bootstrap: str) -> int:
    """The node that leads the quorum."""
    with BlockingAdmin(bootstrap) as admin:
        return admin.describe_quorum().leader_id


def leader_of(bootstrap: str, place: TopicPartition) -> int:
    """The node that leads a partition; -1 if nobody does."""
    with BlockingAdmin(bootstrap) as admin:
        info = admin.describe_topic(place.topic)
    return next(item.leader for item in info.partitions if item.partition == place.partition)


def _in_sync(admin: BlockingAdmin) -> bool:
    try:
        topics = admin.list_topics(internal=True)
    except ClientError:
        return False
    return all(
        item.leader >= 0 and set(item.in_sync) == set(item.replicas)
        for topic in topics
        for item in topic.partitions
    )
