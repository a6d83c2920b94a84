"""The demo's report: its charts show what was found, and the checker of the gate misses nothing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from examples.demo.check import problems
from examples.demo.deadline import Deadline
from examples.demo.outcome import Check, Outcome, Visit
from examples.demo.page import write_report
from examples.demo.streams import BatchTimes, Stream
from examples.demo.traffic import traffic

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def outcome(**other: Any) -> Outcome:
    """What a small demo finds."""
    found: dict[str, Any] = {
        "checks": [Check("in the lake", {"clicks": 2, "logs": 1}, {"clicks": 2, "logs": 1})],
        "funnel": [("view", 3), ("purchase", 1)],
        "pages": [("/", 3)],
        "visits": [Visit(NOON, 1, 1), Visit(NOON + timedelta(minutes=12), 4, 6), Visit(NOON, 2, 5)],
        "errors": [("card <n> refused", 2)],
        "error_times": [(NOON, "payments", 2)],
        "levels": [("payments", 5, 1, 2)],
        "alerts": [],
        "dead_letters": [
            letter("clicks", "demo-clickstream", "MALFORMED_JSON", 3),
            letter("clicks", "demo-dedup", "NO_ID", 3),
            letter("logs", "demo-logs", "LATE", 2),
        ],
    }
    return Outcome(**(found | other))


def letter(topic: str, group: str, reason: str, letters: int) -> dict[str, Any]:
    return {
        "origin_topic": topic,
        "given_up_by": group,
        "reason": reason,
        "pattern": "p",
        "letters": letters,
    }


@pytest.fixture
def report(tmp_path: Path) -> Callable[[Outcome], str]:
    def make(found: Outcome) -> str:
        truth = traffic(7, 50, 50, 1_769_835_600_000)[1]
        times = BatchTimes()
        times.note("lake", progress(0, 1.5))
        stream = Stream("lake", ("clicks",), SimpleNamespace(), [(0.0, 5), (1.0, 0)], times)  # type: ignore[arg-type]
        path = tmp_path / "report.html"
        write_report(
            path, truth, found, [(0.0, 0, 0), (1.0, 9, 9)], [stream], [(0.5, 1.0)], took=3.0
        )
        return path.read_text()

    return make


def progress(batch: int, seconds: float, rows: int = 10) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": seconds * 1000},
    }


def test_a_whole_report_has_nothing_to_complain_of(report: Callable[[Outcome], str]) -> None:
    html = report(outcome())
    assert problems(html) == []
    assert "clicks: MALFORMED_JSON: 3 letters" in html, "a bar for each reason"
    assert "all: 2 in 5 minutes at 0 min" in html, "sessions by when they began"
    assert "all: 0 in 5 minutes at 5 min" in html
    assert "4 to 7: 2 sessions" in html
    assert "bought something: 1 in 5 minutes at 10 min" in html


def test_a_chart_without_data_is_noticed(report: Callable[[Outcome], str]) -> None:
    found = problems(report(outcome(visits=[], dead_letters=[], pages=[], levels=[])))
    assert [line.partition(": ")[2] for line in found] == [
        "nothing in 'Sessions'",
        "nothing in 'Events of a visit'",
        "nothing in 'Top pages'",
        "nothing in 'Lines by level'",
        "nothing in 'By reason'",
        "nothing in 'Causes'",
    ]


def test_a_section_or_a_chart_that_is_gone_is_noticed(report: Callable[[Outcome], str]) -> None:
    html = report(outcome())
    assert "no section 'Clicks'" in problems(html.replace("<h2>Clicks<", "<h2>Visitors<"))
    assert problems(html.replace("<figcaption>Lag", "<figcaption>Delay")) == [
        "In and through: no chart 'Lag'"
    ]


def test_a_check_that_does_not_hold_is_noticed(report: Callable[[Outcome], str]) -> None:
    html = report(outcome(checks=[Check("views by page", {"/": 3}, {"/": 2})]))
    assert problems(html) == ["does not hold: views by page | / 3 | / 2"]


def test_a_batch_counts_once_however_often_spark_tells_of_it() -> None:
    times = BatchTimes()
    for told in (None, progress(0, 9), progress(0, 9), progress(1, 2), progress(2, 1, rows=0)):
        times.note("lake", told)
    times.note("dedup", progress(1, 4))
    assert sorted(times.seconds) == [2, 4, 9]


def test_a_deadline_says_what_was_waited_for() -> None:
    now = [100.0]
    deadline = Deadline(180, clock=lambda: now[0])
    now[0] += 179
    deadline.check("lake")
    assert deadline.left() == 1
    now[0] += 2
    assert deadline.left() == 0
    with pytest.raises(Exception, match="not done after 180 s, waiting for lake"):
        deadline.check("lake")
