"""What runs as a stream runs once as well, and the other way round, all of it through one broker."""

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from millpond.client.blocking import BlockingClient
from millpond.spark.pipelines import audit, bank, dedup, dlq, lake, logs, redistribute, replay
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.running import run
from tests.spark.reading import TIME_MS
from tests.support.kafka.committed import read_committed, values
from tests.support.processes.broker_process import MillpondProcess


def write_values(client: BlockingClient, topic: str, found: list[bytes], step_ms: int = 1) -> None:
    """Records with these values in partition 0 of a topic."""
    client.produce_batch(
        topic, 0, [(TIME_MS + n * step_ms, b"k", value, ()) for n, value in enumerate(found)]
    )


def orders(*ids: int) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in ids]


def table(place: Path) -> list[dict[str, Any]]:
    """What a plain reader finds."""
    rows: list[dict[str, Any]] = (
        pyarrow.dataset.dataset(place, format="parquet").to_table().to_pylist()
    )
    return rows


def test_a_stream_of_sends_is_audited_against_the_log(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    sends = f"{topic}.sends"
    for name in (topic, sends, f"{topic}.dlq"):
        client.create_topic(name, partitions=1)
    write_values(client, sends, orders(1, 2, 3))
    write_values(client, topic, [*orders(1, 3, 3, 9), b"no id"])
    for name in (topic, sends):  # an hour later, so that the time of the others is over
        write_values(client, name, [*orders(77), *orders(78)], step_ms=3_600_000)
    options = audit.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        sends=sends,
        to=str(tmp_path / "audit"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        within="1 minute",
    )
    run(spark, "audit", options)
    found = {(row["id"], row["verdict"]) for row in table(tmp_path / "audit" / "findings")}
    assert found == {("2", "lost"), ("3", "doubled"), ("9", "unknown")}
    places = {file.parent.name for file in (tmp_path / "audit" / "findings").rglob("*.parquet")}
    assert places == {"date=2023-11-14"}
    (letter,) = values(read_committed(broker.bootstrap, f"{topic}.dlq"))
    assert letter == b"no id"


def test_letters_are_reported_as_they_come_and_go_back_once_whatever_is_repeated(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """A lake of JSON gives up four records; a report streams; two replays send each of them back once."""
    client.create_topic(topic, partitions=1)
    bad = [b"no json", b"{half", b"nor this", b"["]
    write_values(client, topic, [*orders(1, 2), *bad])
    once = lake.Options(
        bootstrap=broker.bootstrap, source=(topic,), to=str(tmp_path / "lake"), value="json"
    )
    (written,) = lake.run_batch(spark, once).collect()
    assert written["rows"] == 2

    letters = f"{topic}.dlq"
    report = dlq.Options(
        bootstrap=broker.bootstrap,
        source=(letters,),
        to=str(tmp_path / "report"),
        checkpoint=str(tmp_path / "report-state"),
        available_now=True,
        rows_per_batch=1,
        compact_every=4,
        quiet_s=0,
    )
    (query_stats,) = run(spark, "dlq", report)
    assert query_stats.batches >= 4, "the marker of a transaction is read as well"
    causes = table(tmp_path / "report" / "causes")
    assert [(one["origin_topic"], one["reason"], one["letters"]) for one in causes] == [
        (topic, "MALFORMED_JSON", 1)
    ] * 4
    (file,) = (tmp_path / "report" / "causes").rglob("*.parquet")
    assert file.parent.name.startswith("date="), "four small files have become one"

    back = dlq.Options(bootstrap=broker.bootstrap, source=(letters,), action="replay")
    with pytest.raises(PipelineError, match="give --checkpoint DIRECTORY, the same one each time"):
        dlq.run_batch(spark, back)
    back = dlq.Options(
        bootstrap=broker.bootstrap,
        source=(letters,),
        action="replay",
        checkpoint=str(tmp_path / "replay-state"),
    )
    for _ in range(2):
        (cause,) = dlq.run_batch(spark, back).collect()
        assert cause["letters"] == 4
    found = values(read_committed(broker.bootstrap, topic))
    assert sorted(found) == sorted([*orders(1, 2), *bad * 2])


def test_logs_dedup_bank_replay_and_redistribute_do_once_what_they_do_as_streams(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=1)
    write_values(client, topic, [*orders(1, 2, 2, 3), b"level=error service=pay msg=stuck"])
    shared: dict[str, Any] = {"bootstrap": broker.bootstrap, "source": (topic,)}

    alerts = logs.run_batch(
        spark,
        logs.Options(**shared, to=str(tmp_path / "logs"), errors_min=1, alerts=f"{topic}.alerts"),
    )
    assert [(row["service"], row["errors"]) for row in alerts.collect()] == [("pay", 1)]
    levels = {(row["level"], row["lines"]) for row in table(tmp_path / "logs" / "levels")}
    assert levels == {("ERROR", 1), ("INFO", 4)}
    (alert,) = values(read_committed(broker.bootstrap, f"{topic}.alerts"))
    assert json.loads(alert)["pattern"] == "stuck"

    (clean,) = dedup.run_batch(spark, dedup.Options(**shared, to=f"{topic}.clean")).collect()
    assert (clean["records"], clean["kept"], clean["dead_letters"]) == (5, 3, 1)
    assert sorted(values(read_committed(broker.bootstrap, f"{topic}.clean"))) == orders(1, 2, 3)

    (banked,) = bank.run_batch(spark, bank.Options(**shared, to=str(tmp_path / "bank"))).collect()
    assert (banked["topic"], banked["records"]) == (topic, 5)
    again = replay.Options(
        bootstrap=broker.bootstrap, bank=str(tmp_path / "bank"), to=f"{topic}.again"
    )
    (sent,) = replay.run_batch(spark, again).collect()
    assert (sent["topic"], sent["records"]) == (topic, 5)
    assert len(values(read_committed(broker.bootstrap, f"{topic}.again"))) == 5

    spread = redistribute.Options(**shared, to=f"{topic}.spread", partitions=2)
    moved = redistribute.run_batch(spark, spread).collect()
    assert sum(row["records"] for row in moved) == 5
    assert len(values(read_committed(broker.bootstrap, f"{topic}.spread"))) == 5
