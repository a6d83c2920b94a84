"""`millpond up --nodes 3` as people use it: start, lose a node, stop, start again."""

import os
import re
import signal
from pathlib import Path

import pytest

from millpond.base.ids import TopicPartition
from millpond.client import BlockingAdmin, BlockingClient
from millpond.testing.cluster import ClusterFailed, LocalCluster
from tests.support.processes.cluster_processes import controller_of, wait_in_sync
from tests.support.processes.ports import wait_until

WAIT_S = 90


@pytest.mark.timeout(300)
def test_a_cluster_lives_on_one_machine(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path / "data") as cluster:
        with BlockingAdmin(cluster.bootstrap) as admin:
            admin.create_topic("orders", partitions=3)
            info = admin.describe_topic("orders")
            assert [sorted(item.replicas) for item in info.partitions] == [[1, 2, 3]] * 3
            minimum = admin.describe_topic_setting(["orders"], "min.insync.replicas")
            assert minimum == {"orders": "2"}
        wait_in_sync(cluster.bootstrap)
        with BlockingClient(cluster.bootstrap) as client:
            client.produce_batch("orders", 0, [(0, None, b"first", ())])

        lost = controller_of(cluster.bootstrap)
        os.kill(pid_of(cluster, lost), signal.SIGKILL)
        with BlockingClient(cluster.bootstrap) as client:
            client.produce_batch("orders", 0, [(0, None, b"second", ())])
        wait_until(
            lambda: cluster.output.count("cluster ready: 3 nodes") >= 2,
            timeout_s=WAIT_S,
            what="the node is back",
        )
        assert f"node {lost} (pid" in cluster.output
        assert "it is started again in 1 s" in cluster.output

    with pytest.raises(ClusterFailed, match="the cluster there has 3"):
        LocalCluster(nodes=2, data=tmp_path / "data").start()

    with (
        LocalCluster(data=tmp_path / "data") as again,
        BlockingAdmin(again.bootstrap) as admin,
    ):
        place = TopicPartition("orders", 0)
        wait_in_sync(again.bootstrap)
        found = admin.list_offsets({place: -1})[place]
        assert getattr(found, "offset", found) == 2


def pid_of(cluster: LocalCluster, node_id: int) -> int:
    """The process of a node, found by its data directory."""
    directory = re.search(rf"node {node_id}: \S+ data in (\S+)", cluster.output)
    assert directory is not None
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if directory[1].encode() in words:
                return int(process.name)
    raise AssertionError(f"node {node_id} has no process")
