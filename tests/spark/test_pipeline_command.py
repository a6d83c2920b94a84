"""``millpond pipeline``: what it lists, what it refuses, how it runs and how it stops."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from millpond.cli import cli, pipeline
from millpond.client.blocking import BlockingClient
from millpond.spark.pipelines import PIPELINES
from millpond.spark.pipelines.failures import explained
from millpond.spark.pipelines.running import QueryStats, lag_of
from tests.spark.conftest import SHORT_LIVED_JAVA
from tests.support.processes.broker_process import MillpondProcess

SOURCE = Path(__file__).resolve().parents[2] / "src"


def test_every_pipeline_is_listed_and_explains_its_options() -> None:
    listed = CliRunner().invoke(cli, ["pipeline", "list", "--json"])
    assert [item["name"] for item in json.loads(listed.stdout)] == list(PIPELINES)
    for name in PIPELINES:
        helped = CliRunner().invoke(cli, ["pipeline", "run", name, "--help"])
        assert helped.exit_code == 0, helped.output
        assert "--checkpoint" in helped.stdout
    assert "--per-second" in CliRunner().invoke(cli, ["pipeline", "run", "dlq", "--help"]).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "No such pipeline"),
        (("lake", "--interval", "often"), "is no time"),
        (("lake", "--value", "xml"), "is not one of"),
        (("lake", "--conf", "nothing"), "write NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_is_refused_before_spark_starts(
    arguments: tuple[str, ...], words: str
) -> None:
    refused = CliRunner().invoke(cli, ["pipeline", "run", *arguments])
    assert refused.exit_code == 2
    assert words in refused.output


def report(batch: int, rows: int, *, end: int, latest: int) -> dict[str, object]:
    """One batch in Spark's words."""
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"addBatch": 20} if rows else {"latestOffset": 2},
        "processedRowsPerSecond": 10.0,
        "observedMetrics": {"records": {"records": rows, "dead_letters": 2}},
        "stateOperators": [{"numRowsDroppedByWatermark": 1}],
        "sources": [
            {"endOffset": {"t": {"0": end}}, "latestOffset": json.dumps({"t": {"0": latest}})}
        ],
    }


def test_reports_add_up_and_none_counts_twice() -> None:
    query_stats = QueryStats("lake")
    query_stats.add(report(0, 100, end=100, latest=300))
    assert query_stats.lag == 200
    query_stats.add(report(1, 0, end=100, latest=100))  # idle: nothing ran under this number yet
    query_stats.add(report(1, 200, end=300, latest=300))
    query_stats.add(report(1, 200, end=300, latest=300))
    assert (query_stats.batches, query_stats.rows, query_stats.lag) == (2, 300, 0)
    assert (query_stats.dead_letters, query_stats.dropped_late) == (4, 2)


def test_what_only_one_pipeline_can_say_is_said_in_words() -> None:
    query_stats = QueryStats("dedup", facts={"rate_stated": 0.001, "rate_estimated": 0.00012345})
    assert pipeline._facts([QueryStats("dedup-letters"), query_stats]) == [
        "dedup: rate stated 0.001, rate estimated 0.00012"
    ]
    assert pipeline._facts([QueryStats("dlq", facts={"without_topic": 1234})]) == [
        "dlq: without topic 1,234"
    ]


def test_a_failure_is_told_by_its_reason_and_not_by_its_stacks() -> None:
    ours = "[STREAM_FAILED] Query ended\n  at x.y\nmillpond.spark.errors.DataLost: 5 offsets\n  gone\n  at z"
    assert explained(Exception(ours)) == "millpond.spark.errors.DataLost: 5 offsets gone"
    theirs = "Job aborted.\n\tat a.b\nCaused by: c.D: writing\n\tat e\nCaused by: java.io.IOException: full"
    assert explained(Exception(theirs)) == "Job aborted. (java.io.IOException: full)"
    mixed = "It failed Message: Traceback (most recent call last):\n x\nCaused by: java.io.IOException: full"
    assert explained(Exception(mixed)) == "It failed (java.io.IOException: full)"
    assert explained(Exception("nothing more")) == "nothing more"


def test_a_source_that_is_no_broker_has_no_lag() -> None:
    assert lag_of({"sources": [{"endOffset": 3, "latestOffset": 5}]}) is None


def test_it_runs_until_it_is_told_to_stop(
    broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=1)
    client.produce_batch(topic, 0, [(1_700_000_000_000, b"k", b"%d" % n, ()) for n in range(50)])
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "millpond", "pipeline", "run", "lake"),
            *("--bootstrap", broker.bootstrap, "--from", topic, "--to", str(tmp_path / "lake")),
            *("--checkpoint", str(tmp_path / "state"), "--interval", "500ms", "--json"),
            *("--master", "local[1]"),
            *("--conf", f"spark.driver.extraJavaOptions={SHORT_LIVED_JAVA}"),
        ],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "50 rows" in line:
            break
    process.send_signal(signal.SIGTERM)
    out, rest = process.communicate(timeout=120)
    assert process.returncode == 0, "".join(said) + rest
    (query_stats,) = json.loads(out)
    assert (query_stats["query"], query_stats["rows"], query_stats["lag"]) == ("lake", 50, 0)


@pytest.mark.usefixtures("in_shared_session")
def test_it_works_off_what_is_there_ends_at_ctrl_c_and_its_small_files_become_one(
    broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=1)
    client.produce_batch(topic, 0, [(1_700_000_000_000, b"k", b"%d" % n, ()) for n in range(40)])
    lake = tmp_path / "lake"
    run = ["pipeline", "run", "lake", "--bootstrap", broker.bootstrap, "--to", str(lake), "--json"]
    stream = [*run, "--from", topic, "--checkpoint", str(tmp_path / "state")]

    ended = CliRunner().invoke(cli, [*stream, "--available-now", "--rows-per-batch", "10"])
    assert ended.exit_code == 0, ended.output
    (query_stats,) = json.loads(ended.stdout)
    assert (query_stats["batches"], query_stats["rows"], query_stats["lag"]) == (4, 40, 0)

    client.produce_batch(topic, 0, [(1_700_003_600_000, b"k", b"later", ())])
    is_over = threading.Event()

    def press_ctrl_c() -> None:
        """As soon as the last record is there: then the command runs and looks after signals."""
        while len(list(lake.rglob("*.parquet"))) < 5:
            if is_over.wait(0.05):
                return
        os.kill(os.getpid(), signal.SIGINT)

    finger = threading.Thread(target=press_ctrl_c)
    finger.start()
    try:
        stopped = CliRunner().invoke(cli, [*stream, "--interval", "500ms"])
    finally:
        is_over.set()
        finger.join()
    assert stopped.exit_code == 130, stopped.output
    assert "Stopping" in stopped.stderr

    compacted = CliRunner().invoke(cli, [*run, "--batch", "--only-compact", "--quiet-s", "0"])
    assert compacted.exit_code == 0, compacted.output
    (made,) = json.loads(compacted.stdout)
    assert (made["files_before"], made["files_after"], made["rows"]) == (4, 1, 40)


@pytest.mark.usefixtures("in_shared_session")
def test_a_topic_that_is_not_there_is_named(broker: MillpondProcess, tmp_path: Path) -> None:
    refused = CliRunner().invoke(
        cli,
        [
            *("pipeline", "run", "lake", "--batch", "--bootstrap", broker.bootstrap),
            *("--from", "nowhere", "--to", str(tmp_path / "lake")),
        ],
    )
    assert refused.exit_code == 1
    assert "subscribe: the broker does not have nowhere" in refused.stderr
    assert "Traceback" not in refused.stderr
