"""Dead letters: of share groups, of Kafka Connect and our own; what is behind them; the way back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.client.blocking import BlockingClient
from millpond.spark.pipelines import dlq
from millpond.spark.pipelines.dead_letters import dead_letters, read_dead_letters
from millpond.spark.pipelines.running import run
from tests.spark.pipeline_kit import frame, headers_of, numbered, record, rows_of
from tests.support.kafka.committed import read_committed, values

SHARE = {
    "trace": "abc",
    "__dlq.errors.topic": "orders",
    "__dlq.errors.partition": "2",
    "__dlq.errors.offset": "41",
    "__dlq.errors.group": "workers",
    "__dlq.errors.delivery.count": "5",
    "__dlq.errors.message": "the record was delivered as often as it may be",
}
CONNECT = {
    "__connect.errors.topic": "orders",
    "__connect.errors.partition": "0",
    "__connect.errors.offset": "7",
    "__connect.errors.connector.name": "to-db",
    "__connect.errors.exception.class.name": "java.sql.SQLException",
    "__connect.errors.exception.message": "batch of 312 failed",
    "__connect.errors.exception.stacktrace": (
        "java.sql.SQLException: batch of 312 failed\n\tat db.Writer.run(Writer.java:7)\n"
        "Caused by: java.io.IOException: connection to 10.0.0.9:5432 refused\n\tat db.Socket.open(S.java:1)"
    ),
}

GONE = {"gone": "is not there"}


def in_dlq(*letters_of: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return numbered(letters_of)


def test_letters_of_all_kinds_are_read(spark: Any) -> None:
    found = read_dead_letters(
        frame(
            spark,
            in_dlq(
                record("a", key="k", topic="orders.dlq", headers=SHARE),
                record("b", topic="orders.dlq", headers=CONNECT),
                record("c", topic="orders.dlq"),
            ),
        )
    )
    columns = (
        "origin_topic",
        "origin_partition",
        "origin_offset",
        "given_up_by",
        "deliveries",
        "reason",
    )
    assert rows_of(found, *columns) == {
        ("orders", 2, 41, "workers", 5, "UNKNOWN"),
        ("orders", 0, 7, "to-db", 1, "java.sql.SQLException"),
        (None, None, None, None, 1, "UNKNOWN"),
    }


def test_causes_are_patterns_and_the_innermost_exception_is_the_likely_one(spark: Any) -> None:
    other = CONNECT | {
        "__connect.errors.exception.message": "batch of 99 failed",
        "__connect.errors.exception.stacktrace": CONNECT[
            "__connect.errors.exception.stacktrace"
        ].replace("10.0.0.9", "10.0.0.77"),
    }
    found = dlq.causes(
        read_dead_letters(
            frame(
                spark,
                in_dlq(
                    record("a", key="k1", topic="orders.dlq", headers=CONNECT, seconds=60),
                    record("b", key="k2", topic="orders.dlq", headers=other, seconds=0),
                    record("c", key="k1", topic="orders.dlq", headers=SHARE),
                ),
            )
        )
    )
    assert rows_of(
        found, "given_up_by", "pattern", "letters", "keys", "example", "first_letter"
    ) == {
        (
            "to-db",
            "java.io.IOException: connection to <address> refused",
            2,
            2,
            "batch of 99 failed",
            "orders.dlq-0-1",
        ),
        (
            "workers",
            "the record was delivered as often as it may be",
            1,
            1,
            "the record was delivered as often as it may be",
            "orders.dlq-0-2",
        ),
    }


def test_a_letter_goes_back_as_it_was_and_not_for_ever(spark: Any) -> None:
    """There and back: poison is buried, replayed, buried again, until its attempts are used up."""
    records = frame(
        spark, [record("bad", key="k", topic="orders", offset=3, headers={"trace": "x"})]
    )
    rounds = 0
    while True:
        bad = records.selectExpr("*", "'NOT_JSON' AS reason", "'the value is not JSON' AS problem")
        buried = dead_letters(bad, topic="orders.dlq", group="g", stage="story")
        again = dlq.replayed(read_dead_letters(from_sink(spark, buried)), attempts=3).collect()
        if not again:
            break
        rounds += 1
        (back,) = again
        assert (back["topic"], bytes(back["key"]), bytes(back["value"])) == ("orders", b"k", b"bad")
        assert headers_of(back) == {"trace": "x", "__dlq.replays": str(rounds)}
        records = frame(
            spark,
            [record("bad", key="k", topic="orders", offset=3 + rounds, headers=headers_of(back))],
        )
    assert rounds == 3
    (letter,) = buried.collect()
    assert headers_of(letter)["__dlq.errors.delivery.count"] == "4"


def test_what_is_no_topic_gets_nothing_back(spark: Any) -> None:
    named = ("orders", "orders\n", "two words", "..", "__consumer_offsets", "o" * 250)
    found = read_dead_letters(
        frame(
            spark,
            in_dlq(*(record("a", headers=SHARE | {"__dlq.errors.topic": one}) for one in named)),
        )
    )
    assert rows_of(dlq.replayed(found, attempts=3), "topic") == {("orders",)}


def from_sink(spark: Any, rows: Any) -> Any:
    """What a consumer of the dead-letter topic gets."""
    return rows.selectExpr(
        "key",
        "value",
        "topic",
        "0 AS partition",
        "0L AS offset",
        "current_timestamp() AS timestamp",
        "0 AS timestampType",
        "headers",
    )


def test_only_what_was_asked_for_goes_back_and_no_faster_than_it_may(spark: Any) -> None:
    found = read_dead_letters(
        frame(
            spark,
            in_dlq(
                record("a", topic="all.dlq", headers=SHARE),
                record("b", topic="all.dlq", headers=CONNECT),
                record("c", topic="all.dlq", headers=SHARE | {"__dlq.errors.topic": "clicks"}),
            ),
        )
    )
    options = dlq.Options(source=("all.dlq",), origin="orders", reason="UNKNOWN")
    chosen = dlq.chosen(found, options).selectExpr("cast(value AS string) AS value")
    assert rows_of(chosen, "value") == {("a",)}
    pace = dlq.paced(replace(options, per_second=50, interval="2 seconds", available_now=True))
    assert (pace.rows_per_batch, pace.available_now) == (100, False)


def test_a_repeated_batch_does_without_the_topics_that_it_did_without(tmp_path: Path) -> None:
    """The driver died after a batch was sent; somebody has made the topic before it is repeated."""
    letters = {"orders": 3, "gone": 2}
    file = tmp_path / "stay.json"
    assert dlq.MissingTopics(file).settle(0, letters, lambda asked: GONE) == ["gone"]
    assert dlq.MissingTopics(file).settle(0, letters, lambda asked: {}) == ["gone"]
    assert dlq.MissingTopics(file).count() == 2
    assert dlq.MissingTopics(file).settle(1, letters, lambda asked: {}) == []
    assert dlq.MissingTopics(file).settle(2, {"gone": 1}, lambda asked: GONE) == ["gone"]
    assert dlq.MissingTopics(file).count() == 3, "of all batches"


def test_letters_whose_topic_is_not_there_stay_and_the_others_go_back(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two topics were there when records were buried; one of them is gone, and this broker makes none."""

    def letter(origin: str, value: bytes) -> tuple[Any, ...]:
        return (1_700_000_000_000, b"k", value, [("__dlq.errors.topic", origin.encode())])

    with (
        millpond.Broker(auto_create_topics_enable=False, log_retention_hours=-1) as broker,
        BlockingClient(broker.bootstrap) as client,
    ):
        for name in ("desk", "orders"):
            client.create_topic(name, partitions=1)
        client.produce_batch(
            "desk", 0, [letter("gone", b"1"), letter("orders", b"2"), letter("gone", b"3")]
        )
        replay = dlq.Options(
            bootstrap=broker.bootstrap,
            source=("desk",),
            checkpoint=str(tmp_path / "first"),
            action="replay",
            available_now=True,
            interval="1 seconds",
        )
        (query_stats,) = run(spark, "dlq", replay)
        assert values(read_committed(broker.bootstrap, "orders")) == [b"2"]
        assert query_stats.facts == {"without_topic": 2}
        assert "topic gone is not there" in caplog.text

        client.create_topic("gone", partitions=1)
        dlq.run_batch(spark, replace(replay, origin="gone", checkpoint=str(tmp_path / "second")))
        assert values(read_committed(broker.bootstrap, "gone")) == [b"1", b"3"]
        assert values(read_committed(broker.bootstrap, "orders")) == [b"2"]
