"""Pipelines from end to end: traffic through a real broker, results in topics and tables."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from millpond.client import Groups
from millpond.client.blocking import BlockingClient
from millpond.client.seen import SeenInDatabase
from millpond.record import NewRecord
from millpond.spark.pipelines import (
    audit,
    bank,
    clickstream,
    dedup,
    dlq,
    lake,
    logs,
    redistribute,
    replay,
)
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.running import run, start
from tests.spark.pipeline_kit import START
from tests.support.kafka.committed import read_committed
from tests.support.kafka.traffic import Message, Shape, Truth, clicks, service_logs
from tests.support.processes.broker_process import MillpondProcess

START_MS = int(START.timestamp() * 1000)
SHAPE = Shape(per_second=10, doubles=0.05, late=0.05, too_late=0.02, poison=0.02, users=30)


def send(
    client: BlockingClient, topic: str, messages: Iterable[Message], partitions: int = 2
) -> int:
    """Write messages to the partitions of a new topic, by key; how many they were."""
    client.create_topic(topic, partitions=partitions)
    return send_more(client, topic, messages, partitions)


def send_more(
    client: BlockingClient, topic: str, messages: Iterable[Message], partitions: int = 2
) -> int:
    batches: dict[int, list[NewRecord]] = defaultdict(list)
    for message in messages:
        place = sum(message.key) % partitions
        batches[place].append((message.timestamp_ms, message.key, message.value, message.headers))
    for place, records in batches.items():
        client.produce_batch(topic, place, records)
    return sum(map(len, batches.values()))


def values_of(spark: Any, broker: MillpondProcess, topic: str) -> list[bytes]:
    """What a reader of committed data finds in a topic."""
    found = (
        spark.read.format("millpond")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    return [bytes(row["value"]) for row in found.orderBy("partition", "offset").collect()]


def test_a_batch_of_an_empty_topic_is_empty(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str
) -> None:
    client.create_topic(topic, partitions=2)
    assert values_of(spark, broker, topic) == []


def test_a_lake_goes_on_where_it_was_and_holds_each_record_once(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    sent = send(client, topic, clicks(150, seed=1, start_ms=START_MS, truth=Truth(), shape=SHAPE))
    options = lake.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(tmp_path / "lake"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        rows_per_batch=100,
        compact_every=2,
        quiet_s=0,
        group=f"{topic}-lake",
    )
    (query_stats,) = run(spark, "lake", options)
    assert (query_stats.rows, query_stats.lag) == (sent, 0)
    assert query_stats.batches >= 2
    sent += send_more(client, topic, clicks(50, seed=2, start_ms=START_MS, truth=Truth()))
    run(spark, "lake", options)

    found = pyarrow.dataset.dataset(tmp_path / "lake", partitioning="hive").to_table()
    places = set(zip(*(found[name].to_pylist() for name in ("partition", "offset")), strict=True))
    assert found.num_rows == len(places) == sent
    committed = client.run(lambda cluster: Groups(cluster).offsets(f"{topic}-lake"))
    assert sum(committed.values()) == sent, "the group shows how far the lake is"


def test_clicks_become_sessions_pages_and_letters_and_nothing_is_missing(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    truth = Truth()
    send(client, topic, clicks(300, seed=3, start_ms=START_MS, truth=truth, shape=SHAPE))
    # Hours later somebody else comes by, which ends all sessions.
    end = {"id": "end", "user": "end", "page": "/", "action": "view"}
    for place in range(2):
        later = START_MS + 40_000_000
        event = end | {"id": f"end-{place}", "time": f"2026-01-31T16:0{place}:00Z"}
        client.produce_batch(topic, place, [(later, b"end", json.dumps(event).encode(), ())])
    for name in (f"{topic}.dlq", f"{topic}.results"):
        client.create_topic(name, partitions=1)
    options = clickstream.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(tmp_path / "out"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        results=f"{topic}.results",
    )
    stats = {query_stats.name: query_stats for query_stats in run(spark, "clickstream", options)}
    assert stats["clickstream-letters"].dead_letters == truth.poison + truth.too_late
    assert stats["clickstream"].dropped_late == 0

    sessions = pyarrow.dataset.dataset(tmp_path / "out" / "sessions").to_table().to_pylist()
    assert sum(row["events"] for row in sessions) == truth.events
    assert {row["user"] for row in sessions} == truth.users
    letters = values_of(spark, broker, f"{topic}.dlq")
    assert len(letters) == truth.poison + truth.too_late
    told = [json.loads(value) for value in values_of(spark, broker, f"{topic}.results")]
    in_topic = [row for row in told if "entry_page" in row]
    assert sum(row["events"] for row in in_topic) == truth.events
    with closing(sqlite3.connect(":memory:")) as database:
        found = read_committed(broker.bootstrap, f"{topic}.results")
        keep_sessions(database, found[: len(found) // 2])  # it dies before it commits its offsets
        keep_sessions(database, found)
        (kept,) = database.execute("SELECT count(*), sum(events), count(DISTINCT user) FROM visits")
    assert kept == (len(sessions), truth.events, len(truth.users))

    # The batch twin, which sees everything at once, agrees (and ends the last sessions too).
    steps = clickstream.run_batch(
        spark,
        clickstream.Options(
            bootstrap=broker.bootstrap,
            source=(topic,),
            to=str(tmp_path / "twin"),
            dead_letters=f"{topic}.twin-dlq",
        ),
    )
    assert {row["step"] for row in steps.collect()} >= {"view", "cart"}
    twin = pyarrow.dataset.dataset(tmp_path / "twin" / "sessions").to_table().to_pylist()
    assert sum(row["events"] for row in twin) == truth.events + 2
    assert len(twin) == len(sessions) + 1


def keep_sessions(database: sqlite3.Connection, messages: Iterable[Any]) -> None:
    """A consumer that keeps what the pipeline finds in a database, whatever it is given again."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS visits (user TEXT, start TEXT, events INT, step INT)"
    )
    seen = SeenInDatabase(database, group="visits")
    for message in messages:
        place = f"{message.topic()}-{message.partition()}-{message.offset()}"
        if dict(message.headers())["kind"] == b"sessions" and seen.first(place):
            row = json.loads(message.value())
            database.execute(
                "INSERT INTO visits VALUES (:user, :start, :events, :step)",
                {name: row[name] for name in ("user", "start", "events", "step")},
            )
        database.commit()


def test_logs_become_levels_and_one_alert(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    truth = Truth()
    lines = service_logs(600, seed=4, start_ms=START_MS, truth=truth, shape=SHAPE)
    send(client, topic, lines)
    for place in range(2):
        client.produce_batch(topic, place, [(START_MS + 4_000_000, b"end", b"the end", ())])
    for name in (f"{topic}.dlq", f"{topic}.alerts"):
        client.create_topic(name, partitions=1)
    options = logs.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(tmp_path / "out"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        errors_min=5,
        error_share=0.1,
    )
    run(spark, "logs", options)
    levels = pyarrow.dataset.dataset(tmp_path / "out" / "levels").to_table().to_pylist()
    found: Counter[tuple[str, str]] = Counter()
    for row in levels:
        found[row["service"], row["level"]] += row["lines"]
    assert found == truth.levels
    alerts = [json.loads(value) for value in values_of(spark, broker, f"{topic}.alerts")]
    assert {(alert["service"], alert["pattern"]) for alert in alerts} == {
        ("pay", "card <n> declined by issuer")
    }
    assert len(values_of(spark, broker, f"{topic}.dlq")) == truth.poison


def test_doubles_stop_and_letters_go_back_to_where_they_came_from(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """Orders pass a Bloom filter; those without an id are buried, mended at the producer, and replayed."""
    orders = [json.dumps({"id": number % 40}).encode() for number in range(60)] + [b"no id"] * 3
    messages = [Message(value, value, START_MS + n) for n, value in enumerate(orders)]
    send(client, topic, messages)
    for name in (f"{topic}.dlq", f"{topic}.clean"):
        client.create_topic(name, partitions=1)
    options = dedup.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=f"{topic}.clean",
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        rows_per_batch=30,
        method="bloom",
        capacity=10_000,
        rate=0.0001,
    )
    query_stats = next(one for one in run(spark, "dedup", options) if one.name == "dedup")
    assert query_stats.facts["rate_stated"] == 0.0001
    assert 0 < query_stats.facts["rate_estimated"] < 0.0001, "forty ids are far from ten thousand"
    clean = [json.loads(value)["id"] for value in values_of(spark, broker, f"{topic}.clean")]
    assert sorted(clean) == list(range(40))

    desk = dlq.Options(
        bootstrap=broker.bootstrap,
        source=(f"{topic}.dlq",),
        checkpoint=str(tmp_path / "desk"),
        available_now=True,
        action="replay",
        per_second=2,
        interval="1 seconds",
    )
    (cause,) = dlq.run_batch(
        spark, dlq.Options(bootstrap=desk.bootstrap, source=desk.source)
    ).collect()
    assert (cause["origin_topic"], cause["reason"], cause["letters"]) == (topic, "NO_ID", 3)
    (query_stats,) = run(spark, "dlq", desk)
    assert query_stats.batches >= 2, "two letters a second, so three take two batches"
    assert values_of(spark, broker, topic).count(b"no id") == 6


def test_a_backlog_is_taken_over_spread_and_drained(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """A slow group has read a little; its backlog goes to six partitions, whose readers empty them."""
    keys = [b"heavy"] * 3 + [b"k%d" % number for number in range(9)]
    messages = [Message(keys[n % len(keys)], str(n).encode(), START_MS + n) for n in range(240)]
    send(client, topic, messages)
    group = f"{topic}-slow"
    before = client.run(lambda cluster: Groups(cluster).commit(group, {_first(topic): 10}))
    assert before is None
    options = redistribute.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=f"{topic}.spread",
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        partitions=6,
        take_over=group,
    )
    run(spark, "redistribute", options)
    rows = (
        spark.read.format("millpond")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", f"{topic}.spread")
        .load()
        .orderBy("partition", "offset")
        .collect()
    )
    assert len(rows) == 230
    of_key: dict[bytes, list[int]] = defaultdict(list)
    where: dict[bytes, set[int]] = defaultdict(set)
    for row in rows:
        of_key[bytes(row["key"])].append(int(bytes(row["value"])))
        where[bytes(row["key"])].add(row["partition"])
    assert all(numbers == sorted(numbers) for numbers in of_key.values())
    assert all(len(places) == 1 for places in where.values())
    loads = Counter(row["partition"] for row in rows)
    assert len(loads) == 6
    assert sorted(loads.values())[-2] <= 2 * min(loads.values()), "all but the heavy key are even"
    committed = client.run(lambda cluster: Groups(cluster).offsets(group))
    assert sum(committed.values()) == 240, "the slow group finds nothing left"


def test_banked_traffic_is_replayed_and_the_audit_finds_what_was_tampered_with(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """Ten minutes of orders are banked, replayed in three slices, and audited against the originals."""
    orders = [json.dumps({"id": n}).encode() for n in range(30)]
    moments = [START_MS + n * 20_000 for n in range(30)]
    send(client, topic, [Message(b"k%d" % (n % 3), orders[n], moments[n]) for n in range(30)])
    banked = bank.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(tmp_path / "bank"),
        checkpoint=str(tmp_path / "state"),
        available_now=True,
    )
    run(spark, "bank", banked)
    again = f"{topic}.again"
    client.create_topic(again, partitions=1)
    played = replay.Options(
        bootstrap=broker.bootstrap,
        bank=str(tmp_path / "bank"),
        to=again,
        speed=400,
        slice_s=0.5,
        checkpoint=str(tmp_path / "replay"),
    )
    running = start(spark, "replay", played)
    try:
        while not running.wait(1):
            pass
        running.check()
        begun = [report["timestamp"] for report in running.queries[0].recentProgress]
    finally:
        running.stop()
        running.close()
    assert sorted(values_of(spark, broker, again)) == sorted(orders)
    # Ten minutes at 400 times their speed are slices of 200 s, and each half second gets one at most.
    assert replay.length_us(played) == 200_000_000
    halves = [int(datetime.fromisoformat(moment).timestamp() * 2) for moment in begun]
    assert len(set(halves)) == len(halves) >= 3
    with pytest.raises(PipelineError, match=r"--speed 800 .* slices of 400 s, .* begun with 200 s"):
        run(spark, "replay", replace(played, speed=800))

    doubled = (START_MS, b"k0", orders[0], ())
    stranger = (START_MS, b"k9", b'{"id": 99}', ())
    client.produce_batch(again, 0, [doubled, stranger])
    asked = audit.Options(bootstrap=broker.bootstrap, source=(again,), sends=topic)
    found = {row["key"]: row for row in audit.run_batch(spark, asked).collect()}
    assert (found["k0"]["sent"], found["k0"]["doubled"], found["k0"]["lost"]) == (10, 1, 0)
    assert (found["k9"]["unknown"], found["k1"]["doubled"] + found["k1"]["lost"]) == (1, 0)


def test_a_replay_skips_the_years_between_wrong_clocks_and_sends_what_its_twin_sends(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """Two minutes of orders, and one each whose producer thought that it was 1970 and 2100."""
    orders = [b"%d" % number for number in range(6)]
    moments = [
        1_000,
        START_MS,
        START_MS + 1,
        START_MS + 70_000,
        START_MS + 110_000,
        4_102_444_800_000,
    ]
    client.create_topic(topic, partitions=1, configs={"message.timestamp.after.max.ms": str(2**62)})
    client.produce_batch(
        topic, 0, [(moment, None, value, ()) for moment, value in zip(moments, orders, strict=True)]
    )
    place = str(tmp_path / "bank")
    bank.run_batch(spark, bank.Options(bootstrap=broker.bootstrap, source=(topic,), to=place))
    played = replay.Options(
        bootstrap=broker.bootstrap,
        bank=place,
        to=f"{topic}.again",
        speed=240,
        slice_s=0.25,
        idle_max_s=0.5,
        checkpoint=str(tmp_path / "replay"),
    )
    for name in ("again", "twin"):
        client.create_topic(f"{topic}.{name}", partitions=1)

    (query_stats,) = run(spark, "replay", played)

    assert query_stats.batches <= 9, (
        "1970, a pause of two, two minutes, a pause of two, 2100, the end"
    )
    assert values_of(spark, broker, f"{topic}.again") == orders
    replay.run_batch(spark, replace(played, to=f"{topic}.twin"))
    assert values_of(spark, broker, f"{topic}.twin") == orders


def _first(topic: str) -> Any:
    from millpond.client import TopicPartition

    return TopicPartition(topic, 0)
