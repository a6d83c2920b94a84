"""The click stream: known clicks, known sessions, with late ones, doubles and poison among them."""

import json
from pathlib import Path
from typing import Any

import pytest

from millpond.spark.pipelines import clickstream, flow
from tests.spark.pipeline_kit import (
    at,
    frame,
    headers_of,
    numbered,
    record,
    rows_of,
    since_start,
)

pytestmark = pytest.mark.spark


def click(
    number: int,
    user: str,
    seconds: float,
    action: str = "view",
    page: str = "/",
    *,
    late: float = 0,
) -> tuple[Any, ...]:
    """An event that happened at ``seconds`` and reached the log ``late`` seconds after."""
    event = {
        "id": f"e{number}",
        "user": user,
        "page": page,
        "action": action,
        "time": at(seconds).isoformat(),
    }
    return record(json.dumps(event), key=user, seconds=seconds + late)


SHOPPING = (
    click(1, "ann", 0, page="/"),
    click(2, "ann", 30, page="/mill"),
    click(3, "ann", 60, "cart", "/mill"),
    click(3, "ann", 60, "cart", "/mill"),  # the producer sent it twice
    click(4, "ann", 90, "checkout", "/pay"),
    click(5, "ann", 95, "purchase", "/pay", late=400),  # late, but not too late
    click(6, "bob", 10, "cart", "/mill"),
    click(7, "bob", 20, page="/mill"),  # looked at it after it was in the cart
    click(8, "ann", 4000, page="/"),  # a visit of its own
    click(9, "cat", 50, page="/", late=601),  # too late
)


def test_sessions_steps_and_doubles(spark: Any) -> None:
    events = clickstream.good(clickstream.judge(frame(spark, numbered(SHOPPING)), "10 minutes"))
    found = clickstream.sessions(events, gap="30 minutes", lateness="10 minutes")
    assert rows_of(found, "user", "events", "pages", "entry_page", "exit_page", "step") == {
        ("ann", 5, 3, "/", "/pay", 4),
        ("bob", 2, 1, "/mill", "/mill", 1),
        ("ann", 1, 1, "/", "/", 1),
    }
    assert rows_of(clickstream.funnel(found), "step", "sessions") == {
        ("view", 2),
        ("cart", 1),
        ("checkout", 1),
        ("purchase", 1),
        ("view", 1),
    }


def test_top_pages_of_each_window(spark: Any) -> None:
    events = clickstream.good(clickstream.judge(frame(spark, numbered(SHOPPING)), "10 minutes"))
    views = clickstream.page_views(events, window="5 minutes", lateness="10 minutes")
    assert [
        (row["page"], row["views"], row["visitors"], row["rank"])
        for row in clickstream.top_pages(views, 2).orderBy("start", "rank").collect()
    ] == [("/mill", 4, 2, 1), ("/pay", 2, 1, 2), ("/", 1, 1, 1)]


@pytest.mark.parametrize(
    ("value", "reason", "problem"),
    [
        (None, "EMPTY", "the record has no value"),
        (b"\xff\xfe", "NOT_UTF8", "the value is not UTF-8 text"),
        ("{not json", "MALFORMED_JSON", "the value is not a JSON object"),
        ('"text"', "MALFORMED_JSON", "the value is not a JSON object"),
        (
            '{"id": "1", "page": "/", "action": "view", "time": "2026-01-31T05:00:00Z"}',
            "MISSING_FIELD",
            "the event has no field user",
        ),
        (
            '{"id": "1", "user": "u", "page": "/", "action": "view", "time": "soon"}',
            "BAD_TIME",
            "the event's time is not ISO 8601",
        ),
        (
            '{"id": "1", "user": "u", "page": "/", "action": "view", "time": "2062-01-31T05:00:00Z"}',
            "AHEAD",
            "the event came more than 1 minute before it happened",
        ),
    ],
)
def test_poison_is_named(spark: Any, value: str | bytes | None, reason: str, problem: str) -> None:
    judged = clickstream.judge(frame(spark, [record(value, offset=4)]), "10 minutes")
    options = clickstream.Options(source=("clicks",), group="g")
    (letter,) = clickstream.dead(judged, options).collect()
    notes = headers_of(letter)
    assert (notes["__dlq.errors.reason"], notes["__dlq.errors.message"]) == (reason, problem)
    assert clickstream.good(judged).isEmpty()


def test_what_is_too_late_is_a_letter_not_a_hole(spark: Any) -> None:
    judged = clickstream.judge(frame(spark, numbered(SHOPPING)), "10 minutes")
    (letter,) = clickstream.dead(judged, clickstream.Options(source=("clicks",))).collect()
    assert headers_of(letter)["__dlq.errors.reason"] == "LATE"
    assert bytes(letter["key"]) == b"cat"


def test_a_clock_that_is_a_little_ahead_counts(spark: Any) -> None:
    judged = clickstream.judge(frame(spark, [click(1, "ann", 60, late=-60)]), "10 minutes")
    assert clickstream.good(judged).count() == 1


def test_a_clock_that_is_ahead_of_everybody_makes_a_letter_whatever_the_log_says(
    spark: Any,
) -> None:
    """The record's timestamp is from the same clock as the event's time, a day ahead or a little."""
    now = since_start()
    clicks = [
        click(1, "dan", now + 86_400),
        click(2, "eve", now + 30),
        click(3, "ann", now - 86_400),
    ]
    judged = clickstream.judge(frame(spark, numbered(clicks)), "10 minutes")
    assert rows_of(clickstream.good(judged), "user") == {("eve",), ("ann",)}
    (letter,) = clickstream.dead(judged, clickstream.Options(source=("clicks",))).collect()
    assert bytes(letter["key"]) == b"dan"
    assert headers_of(letter)["__dlq.errors.reason"] == "AHEAD"


def test_the_stream_finds_what_the_batch_finds(spark: Any, tmp_path: Path) -> None:
    """Clicks arrive in three files; a last click far away moves the watermark past all sessions.

    Of two clocks that are ahead, one's events are ahead of their records, the other's records are as well.
    """
    wrong_clocks = (
        click(50, "dan", 50_000, late=-49_950),
        click(51, "eve", since_start() + 50_000),
    )
    arrivals = [
        (*SHOPPING[:4], *wrong_clocks),
        SHOPPING[4:8],
        (*SHOPPING[8:], click(99, "end", 20_000)),
    ]
    for number, clicks in enumerate(arrivals):
        frame(spark, numbered(clicks)).coalesce(1).write.parquet(
            str(tmp_path / "in" / f"file={number}")
        )
    schema = frame(spark, []).schema
    stream = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in" / "file=*"))
    )
    counted = clickstream.good(clickstream.judge(stream, "10 minutes"))
    found = clickstream.sessions(counted, gap="30 minutes", lateness="10 minutes")
    options = clickstream.Options(
        to=str(tmp_path / "out"), checkpoint=str(tmp_path / "checkpoint"), available_now=True
    )
    query = flow.start_query(
        found,
        options,
        "sessions",
        lambda batch, number: clickstream._deliver(
            batch, flow.turn(batch, number, options, "sessions"), "sessions", options
        ),
    )
    query.processAllAvailable()
    query.awaitTermination()
    written = spark.read.parquet(str(tmp_path / "out" / "sessions"))
    assert rows_of(written, "user", "events", "step") == {
        ("ann", 5, 4),
        ("bob", 2, 1),
        ("ann", 1, 1),
    }
