"""One pipeline on a real Spark cluster: a master, two workers, and the command as a user runs it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.dataset

from millpond.client.blocking import BlockingClient
from millpond.spark.java import find_java
from tests.spark.conftest import SHORT_LIVED_JAVA
from tests.support.processes.broker_process import MillpondProcess

SOURCE = Path(__file__).resolve().parents[2] / "src"
_START_S = 180
_RUN_S = 300


def environment() -> dict[str, str]:
    """What the cluster's processes know; ``millpond`` is installed where they run."""
    import pyspark

    return os.environ | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JAVA,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
    }


@contextmanager
def daemon(name: str, place: Path, says: str, *arguments: str) -> Iterator[str]:
    """One process of the cluster; gives what its log says when it is ready."""
    env = environment()
    log = place / f"{name}.log"
    command = [f"{env['SPARK_HOME']}/bin/spark-class", *arguments]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=place
        )
    try:
        for _tenth in range(_START_S * 10):
            if (found := re.search(says, log.read_text())) is not None:
                break
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.1)
        assert found is not None, f"{name} is not ready: {log.read_text()[-2000:]}"
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_the_lake_runs_on_a_cluster_as_it_runs_at_home(
    broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=4)
    for place in range(4):
        records = [(1_700_000_000_000 + n, b"k", b"v%d" % n, ()) for n in range(500)]
        client.produce_batch(topic, place, records)

    with ExitStack() as cluster:
        master = cluster.enter_context(
            daemon(
                "master",
                tmp_path,
                r"Starting Spark master at (spark://\S+)",
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            )
        )
        for name in ("one", "two"):
            cluster.enter_context(
                daemon(
                    name,
                    tmp_path,
                    r"Successfully registered with master (\S+)",
                    "org.apache.spark.deploy.worker.Worker",
                    *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name)),
                    master,
                )
            )
        done = subprocess.run(
            [
                *(sys.executable, "-m", "millpond", "pipeline", "run", "lake"),
                *("--master", master, "--bootstrap", broker.bootstrap, "--from", topic),
                *("--to", str(tmp_path / "lake"), "--checkpoint", str(tmp_path / "state")),
                *("--available-now", "--files", "4", "--json"),
                *("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"),
                *("--conf", "spark.driver.host=127.0.0.1"),
                *("--conf", f"spark.driver.extraJavaOptions={SHORT_LIVED_JAVA}"),
                *("--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED_JAVA}"),
                *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
                *("--conf", "spark.cores.max=2"),
            ],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        executors = {name: list((tmp_path / name).glob("app-*/*")) for name in ("one", "two")}

    assert all(executors.values()), "both workers ran an executor"
    found = pyarrow.dataset.dataset(tmp_path / "lake", partitioning="hive").to_table()
    places = set(zip(*(found[name].to_pylist() for name in ("partition", "offset")), strict=True))
    assert found.num_rows == len(places) == 2000
