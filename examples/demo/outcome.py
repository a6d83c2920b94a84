"""Reads the results with plain readers, and compares them with the input."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from examples.demo.feed import Feed
from examples.demo.reader import Reader
from examples.demo.streams import CLICK_DEAD_LETTERS, DEDUP_DEAD_LETTERS, LOG_DEAD_LETTERS
from examples.demo.traffic import FUNNEL, Truth
from millpond.spark.pipelines import dlq


@dataclass(frozen=True, slots=True)
class Check:
    """One condition that must hold."""

    what: str
    expected: object
    found: object

    @property
    def holds(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True, slots=True)
class Visit:
    """One session in the results: its start, its funnel steps and its events."""

    start: datetime
    steps: int
    events: int


@dataclass(slots=True)
class Outcome:
    """Results as rows for the report."""

    checks: list[Check]
    funnel: list[tuple[str, int]]
    pages: list[tuple[str, int]]
    visits: list[Visit]
    errors: list[tuple[str, int]]
    error_times: list[tuple[datetime, str, int]]  # minute, service, lines
    levels: list[tuple[str, int, int, int]]
    alerts: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def read_outcome(
    spark: Any, bootstrap: str, place: Path, truth: Truth, feed: Feed, reader: Reader
) -> Outcome:
    """Read Parquet with pyarrow, dead letters with the batch job of the ``dlq`` pipeline, and check
    everything.
    """
    lake = _table(place / "lake", ["topic", "partition", "offset"])
    places = Counter(zip(*(lake[name].to_pylist() for name in lake.column_names), strict=True))
    rows: Counter[str] = Counter()
    for topic, _partition, _offset in places:
        rows[topic] += 1
    sessions = _rows(place / "clickstream/sessions")
    pages = _rows(place / "clickstream/pages")
    views = _sum(pages, "page", "views")
    funnel = _sum(_rows(place / "clickstream/funnel"), "step", "sessions")
    alerts = sorted(_rows(place / "logs/alerts"), key=lambda row: (row["start"], row["service"]))
    levels = _rows(place / "logs/levels")
    by_level: Counter[tuple[str, str]] = Counter()
    for row in levels:
        by_level[row["service"], row["level"]] += row["lines"]
    dead_letters = [
        row.asDict()
        for row in dlq.run_batch(
            spark,
            dlq.Options(
                bootstrap=bootstrap,
                source=(CLICK_DEAD_LETTERS, LOG_DEAD_LETTERS, DEDUP_DEAD_LETTERS),
            ),
        ).collect()
    ]
    checks = [
        Check("acknowledged by the broker", dict(truth.sent), dict(feed.acknowledged)),
        Check("refused by the broker", 0, feed.failed),
        Check("in the lake", dict(truth.sent), dict(rows)),
        Check("twice in the lake", 0, sum(places.values()) - len(places)),
        Check("click events counted", truth.events, sum(row["events"] for row in sessions)),
        Check("sessions", truth.sessions, len(sessions)),
        Check("sessions by step of the funnel", truth.funnel, dict(funnel)),
        Check("views by page", dict(truth.views), dict(views)),
        Check("log lines by service and level", dict(truth.levels), dict(by_level)),
        Check(
            "alerts", _shown(truth.alerts), _shown((_ms(a["start"]), a["service"]) for a in alerts)
        ),
        Check("ids after deduplication", len(truth.ids), len(reader.ids)),
        Check("ids that came twice", 0, sum(reader.ids.values()) - len(reader.ids)),
        Check("ids that were never sent", 0, len(reader.ids.keys() - truth.ids)),
        Check(
            "dead letters of clicks",
            dict(truth.click_dead_letters),
            _reasons(dead_letters, "demo-clickstream"),
        ),
        Check(
            "dead letters of logs",
            dict(truth.log_dead_letters),
            _reasons(dead_letters, "demo-logs"),
        ),
        Check(
            "records without an id",
            {"NO_ID": truth.without_id},
            _reasons(dead_letters, "demo-dedup"),
        ),
    ]
    return Outcome(
        checks=checks,
        funnel=[(step, funnel[step]) for step in FUNNEL],
        pages=views.most_common(8),
        visits=[Visit(row["start"], row["step"], row["events"]) for row in sessions],
        errors=_sum(_rows(place / "logs/patterns"), "pattern", "lines").most_common(6),
        levels=[
            (
                service,
                by_level[service, "INFO"],
                by_level[service, "WARN"],
                by_level[service, "ERROR"],
            )
            for service in sorted({service for service, _level in by_level})
        ],
        error_times=[
            (row["start"], row["service"], row["lines"])
            for row in levels
            if row["level"] == "ERROR"
        ],
        alerts=alerts,
        dead_letters=dead_letters,
    )


def _table(path: Path, columns: list[str]) -> Any:
    return ds.dataset(path, format="parquet", partitioning="hive").to_table(columns=columns)


def _rows(path: Path) -> list[dict[str, Any]]:
    if not any(path.rglob("*.parquet")):
        return []
    rows: list[dict[str, Any]] = ds.dataset(path, format="parquet").to_table().to_pylist()
    return rows


def _sum(rows: Iterable[dict[str, Any]], by: str, what: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row[by]] += row[what]
    return found


def _ms(moment: datetime) -> int:
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


def _shown(alerts: Iterable[tuple[int, str]]) -> list[str]:
    """Format alerts for readers, in the order of their minutes."""
    return [
        f"{datetime.fromtimestamp(minute / 1000, UTC):%H:%M} {service}"
        for minute, service in sorted(alerts)
    ]


def _reasons(dead_letters: Iterable[dict[str, Any]], group: str) -> dict[str, int]:
    return dict(
        _sum((row for row in dead_letters if row["given_up_by"] == group), "reason", "letters")
    )


def quantile(values: list[float], share: float) -> float:
    """Return the value below which this share of them lies."""
    return float(pc.quantile(values, q=share)[0].as_py()) if values else 0.0
