"""Service logs: the formats that are out there, the pattern of an error, alerts."""

import json
from pathlib import Path
from typing import Any

import pytest

from millpond.spark.pipelines import logs
from millpond.spark.pipelines.log_formats import parse
from millpond.spark.pipelines.signatures import signature
from tests.spark.pipeline_kit import (
    START,
    at,
    frame,
    headers_of,
    numbered,
    record,
    rows_of,
    since_start,
)

pytestmark = pytest.mark.spark

LINES = {
    '{"ts": "2026-01-31T05:00:01Z", "level": "warning", "service": "cart", "msg": "slow"}': (
        "json",
        1,
        "cart",
        "WARN",
        "slow",
    ),
    '{"time": 1769835602000, "severity": "CRITICAL", "app": "pay", "message": "down"}': (
        "json",
        2,
        "pay",
        "FATAL",
        "down",
    ),
    'time=2026-01-31T05:00:03Z level=error service=cart msg="no \\"mill\\" left"': (
        "logfmt",
        3,
        "cart",
        "ERROR",
        'no "mill" left',
    ),
    '10.0.0.9 - ann [31/Jan/2026:05:00:04 +0000] "GET /mill?x=\\"1\\" HTTP/1.1" 503 12 "-" "curl/8"': (
        "access",
        4,
        "web-1",
        "ERROR",
        '503 GET /mill?x=\\"1\\" HTTP/1.1',
    ),
    '10.0.0.9 - - [31/Jan/2026:06:00:05 +0100] "GET / HTTP/1.1" 404 -': (
        "access",
        5,
        "web-1",
        "WARN",
        "404 GET / HTTP/1.1",
    ),
    '<11>1 2026-01-31T05:00:06.500Z host sluice 42 ID7 [a@1 b="c"] gate is stuck': (
        "syslog",
        6.5,
        "sluice",
        "ERROR",
        "gate is stuck",
    ),
    "<38>Jan 31 05:00:07 host sshd[99]: hello": ("bsd-syslog", 60, "sshd", "INFO", "hello"),
    "just words": (None, 60, "web-1", "INFO", "just words"),
}


def test_every_format_gives_the_same_columns(spark: Any) -> None:
    records = frame(
        spark, numbered(record(line, key="web-1", topic="logs", seconds=60) for line in LINES)
    )
    found = parse(records).orderBy("offset").collect()
    assert [
        (row["format"], row["time"].timestamp(), row["service"], row["level"], row["message"])
        for row in found
    ] == [
        (kind, at(seconds).timestamp(), service, level, message)
        for kind, seconds, service, level, message in LINES.values()
    ]


LONG = 100_000
LONG_LINES = {
    '{"time": "2026-01-31T05:00:01Z", "msg": "' + "x " * (LONG // 2) + '"}': "json",
    'level=error msg="' + r"a word, \"quoted\", " * (LONG // 20) + '"': "logfmt",
    "level=error " + "word " * (LONG // 5): "logfmt",
    "level=error " + "a=b " * (LONG // 4): "logfmt",
    '10.0.0.9 - - [31/Jan/2026:05:00:04 +0000] "GET /' + "x" * LONG + '" 200 1': "access",
    '10.0.0.9 - - [31/Jan/2026:05:00:04 +0000] "GET /' + '\\"' * (LONG // 2) + '" 200 1': "access",
    '<11>1 2026-01-31T05:00:06Z h app 1 - [a b="' + "\\]" * (LONG // 2) + '"] stuck': "syslog",
    "<11>1 2026-01-31T05:00:06Z h app 1 - " + "[a]" * (LONG // 3) + " stuck": "syslog",
    "<38>Jan 31 05:00:07 host sshd[99]: " + "x " * (LONG // 2): "bsd-syslog",
    # Nearly one of them, up to the last character.
    "a=b " * (LONG // 4) + "=": None,
    'a="' + "b" * LONG: None,
    '10.0.0.9 - - [x] "' + "a" * LONG: None,
    "<11>1 t h a p m [" + "a" * LONG: None,
    "a" * LONG: None,
    " " * LONG + "a": None,
}


def test_a_long_line_is_a_line_in_every_format(spark: Any) -> None:
    """What repeats in an expression may repeat a hundred thousand times: Java's stack is not that deep."""
    records = frame(spark, numbered(record(line, topic="logs") for line in LONG_LINES))
    found = logs.judge(records, "1 minute").orderBy("offset").collect()
    assert [row["format"] for row in found] == list(LONG_LINES.values())
    assert {len(row["message"]) for row in found} <= {*range(10), 4000}


def test_a_message_of_repetitions_has_a_pattern(spark: Any) -> None:
    messages = [
        "1," * LONG,
        "/a" * LONG,
        "a@b" + ".c" * LONG,
        "a" * LONG,
        "a.b@" * LONG,
        "'" * LONG,
    ]
    found = spark.createDataFrame([(text,) for text in messages], "line string")
    patterns = [row[0] for row in found.select(signature("line")).collect()]
    assert patterns[:3] == ["<n>,", "<path>", "<email>."]
    assert all(len(pattern) <= 200 for pattern in patterns)


MOMENT = 1_769_835_602  # two seconds after the start


def test_a_time_may_be_a_number_of_any_unit_and_a_wrong_one_is_none(spark: Any) -> None:
    numbers = {
        str(MOMENT): 2,
        f"{MOMENT}.5": 2.5,
        f"{MOMENT}000": 2,
        f"{MOMENT}000000": 2,
        f"{MOMENT}000000000": 2,
        "NaN": 60,
        "Infinity": 60,
        "-1e300": 60,
        "1e20": 60,
        "99999999999999999999999999": 60,
        "+294247-01-10T04:00:54Z": 60,
        "tomorrow": 60,
    }
    formats = {
        "json": '{{"time": "{}", "level": "error"}}',
        "logfmt": "time={} level=error",
        "syslog": "<11>1 {} h app 1 - - stuck",
    }
    lines = {
        form.format(number): (kind, seconds)
        for kind, form in formats.items()
        for number, seconds in numbers.items()
    }
    records = numbered(record(line, seconds=60) for line in lines)
    found = logs.judge(frame(spark, records), "1 hour").orderBy("offset").collect()
    assert [(row["format"], row["time"].timestamp() - START.timestamp()) for row in found] == list(
        lines.values()
    )
    assert {row["reason"] for row in found} == {None}


def test_errors_that_differ_in_their_details_are_one_pattern(spark: Any) -> None:
    lines = [
        (
            "timeout after 3012 ms talking to 10.0.0.7:9092",
            "timeout after <n> ms talking to <address>",
        ),
        (
            "order 1b4e28ba-2fa1-11d2-883f-0016d3cca427 of ann@mill.example failed",
            "order <uuid> of <email> failed",
        ),
        ("cannot read '/var/lib/x': 'denied'\n  at main.c:1", "cannot read <text>: <text>"),
        (
            "at 2026-01-31T05:00:00.123Z block deadbeef01 of /var/lib/mill/data is bad",
            "at <time> block <hex> of <path> is bad",
        ),
    ]
    found = spark.createDataFrame(lines, "line string, pattern string")
    wrong = found.select("line", "pattern", signature("line").alias("found")).where(
        "found <> pattern"
    )
    assert wrong.collect() == []


def test_minutes_services_levels_and_the_alert(spark: Any) -> None:
    def line(seconds: float, service: str, level: str, message: str) -> tuple[Any, ...]:
        value = {
            "time": at(seconds).isoformat(),
            "service": service,
            "level": level,
            "msg": message,
        }
        return record(json.dumps(value), topic="logs", seconds=seconds)

    story = [
        *(line(second, "pay", "error", f"card {second} declined") for second in range(12)),
        *(line(second, "pay", "info", "ok") for second in range(20)),
        line(30, "pay", "error", "disk is full"),
        *(line(second, "cart", "error", "out of mills") for second in range(11)),
        *(line(second / 10, "cart", "info", "ok") for second in range(89)),
        line(70, "pay", "error", "card 70 declined"),
        record(b"\xff\xff", topic="logs", seconds=71, key="pay"),
        record('{"time": "2026-01-31T04:00:00Z", "level": "error", "msg": "old"}', seconds=72),
        record('{"time": "2062-01-31T05:00:00Z", "level": "error", "msg": "new"}', seconds=73),
    ]
    options = logs.Options(source=("logs",), group="g", errors_min=10, error_share=0.2)
    judged = logs.judge(frame(spark, numbered(story)), "1 minute").persist()
    counted = logs.counts(logs.good(judged), window="1 minute", lateness="1 minute")
    found = logs.results(counted, options)
    assert {
        (row["start"].minute, row["service"], row["level"], row["lines"])
        for row in found["levels"].collect()
    } == {
        (0, "pay", "ERROR", 13),
        (0, "pay", "INFO", 20),
        (0, "cart", "ERROR", 11),
        (0, "cart", "INFO", 89),
        (1, "pay", "ERROR", 1),
    }
    assert {
        (row["service"], row["pattern"], row["lines"])
        for row in found["patterns"].where("minute(start) = 0").collect()
    } == {
        ("pay", "card <n> declined", 12),
        ("pay", "disk is full", 1),
        ("cart", "out of mills", 11),
    }
    (alert,) = logs.alert_records(found["alerts"], options).collect()
    assert (alert["topic"], bytes(alert["key"])) == ("logs.alerts", b"pay")
    told = json.loads(alert["value"])
    assert (told["errors"], told["lines"], told["pattern"]) == (13, 33, "card <n> declined")

    reasons = [
        headers_of(row)["__dlq.errors.reason"] for row in logs.dead(judged, options).collect()
    ]
    assert sorted(reasons) == ["AHEAD", "LATE", "NOT_UTF8"]


def test_one_fast_clock_does_not_make_the_lines_of_others_late(spark: Any, tmp_path: Path) -> None:
    """Its lines have no time of their own, so that they have their records', a day ahead of everybody."""
    arrivals = [
        [
            record("up", key="pay", seconds=0),
            record("up", key="fast", seconds=since_start() + 86_400),
        ],
        [record("fine", key="pay", seconds=30)],
        [record("fine", key="pay", seconds=40)],  # two batches after it, when the watermark tells
        [record("down", key="pay", seconds=4000)],
    ]
    for number, lines in enumerate(arrivals):
        place = tmp_path / "in" / f"file={number}"
        frame(spark, numbered(lines)).coalesce(1).write.parquet(str(place))
    stream = (
        spark.readStream.schema(frame(spark, []).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in" / "file=*"))
    )
    judged = logs.judge(stream, "1 minute")
    query = (
        logs.counts(logs.good(judged), window="1 minute", lateness="1 minute")
        .writeStream.format("memory")
        .queryName("logs_story")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert rows_of(spark.table("logs_story"), "start", "service", "lines") == {
        (START.replace(tzinfo=None), "pay", 3)
    }
    spark.sql("DROP VIEW logs_story")
    whole = logs.judge(
        frame(spark, numbered(line for lines in arrivals for line in lines)), "1 minute"
    )
    (letter,) = logs.dead(whole, logs.Options(source=("logs",))).collect()
    assert headers_of(letter)["__dlq.errors.reason"] == "AHEAD"
    assert bytes(letter["key"]) == b"fast"
