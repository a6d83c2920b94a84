"""The demo's report: input, output, speed, and whether they agree."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from examples.demo.outcome import Outcome, Visit, quantile
from examples.demo.streams import Stream
from examples.demo.traffic import FUNNEL, Truth
from millpond.spark.report import Figure, Section, Series, bar_chart, line_chart, page, table

_SLOT_MIN = 5  # minutes of the story for each point of its charts


def write_report(
    path: Path,
    truth: Truth,
    outcome: Outcome,
    rates: Sequence[tuple[float, int, int]],
    streams: Sequence[Stream],
    latencies: Sequence[tuple[float, float]],
    took: float,
) -> None:
    """Write the page."""
    times = [seconds for _at, seconds in latencies]
    dead_letters = sum(row["letters"] for row in outcome.dead_letters)
    seconds = rates[-1][0] if rates else 0.0
    sent = sum(truth.sent.values())
    figures = [
        Figure("records sent", f"{sent:,}", "clicks and log lines"),
        Figure(
            "checks that hold",
            f"{sum(c.holds for c in outcome.checks)} of {len(outcome.checks)}",
            "sent against found",
            good=outcome.holds,
        ),
        Figure(
            "sessions",
            f"{len(outcome.visits):,}",
            f"{truth.sessions:,} are in the traffic",
            good=len(outcome.visits) == truth.sessions,
        ),
        Figure("sent twice", f"{truth.doubled:,}", "removed once each"),
        Figure("dead letters", f"{dead_letters:,}", "one from each pipeline that gave a record up"),
        Figure(
            "end to end, p50", f"{quantile(times, 0.5):.1f} s", "client to client, through Spark"
        ),
        Figure("end to end, p99", f"{quantile(times, 0.99):.1f} s", "the slowest hundredth"),
        Figure("in all", f"{took:.0f} s", "with the start of Spark"),
    ]
    sections = [
        Section(
            "In and through",
            "What clients sent, and how far the pipelines were behind. Spark warms up while the first "
            "records wait: the lag at the start is that.",
            [
                line_chart(
                    "Input rate", _rates(rates), x_end=seconds, y_unit="records/s", filled=True
                ),
                line_chart(
                    "Lag",
                    [Series(s.name, s.lag) for s in streams],
                    x_end=seconds,
                    y_unit="records",
                ),
                line_chart(
                    "From a client's send to another's read, by the second of the read",
                    [Series("latency", _by_second(latencies))],
                    x_end=seconds,
                    y_unit="s",
                ),
                bar_chart(
                    "Median time of a batch",
                    [(s.name, round(quantile(s.times.seconds, 0.5), 2)) for s in streams],
                    unit="s",
                ),
            ],
        ),
        Section(
            "Clicks",
            "Sessions end after ten quiet minutes. Events that came twice count once; events that came "
            "too late are dead letters.",
            [
                line_chart(
                    "Sessions, by when they began",
                    _visits(outcome.visits),
                    x_unit="min",
                    y_unit=f"in {_SLOT_MIN} minutes",
                    filled=True,
                ),
                bar_chart("How far visits went", outcome.funnel, unit="sessions"),
                bar_chart("Events of a visit", _lengths(outcome.visits), unit="sessions"),
                bar_chart("Top pages", outcome.pages, unit="views"),
            ],
        ),
        Section(
            "Service logs",
            "Four formats in one topic: JSON, logfmt, syslog and an access log.",
            [
                line_chart(
                    "Errors",
                    _errors(outcome.error_times),
                    x_unit="min",
                    y_unit=f"lines in {_SLOT_MIN} minutes",
                ),
                table("Lines by level", ["service", "info", "warn", "error"], outcome.levels),
                bar_chart("Errors by pattern", outcome.errors, unit="lines"),
                table(
                    "Alerts",
                    ["minute", "service", "errors", "lines", "mostly"],
                    [
                        (f"{a['start']:%H:%M}", a["service"], a["errors"], a["lines"], a["pattern"])
                        for a in outcome.alerts
                    ],
                ),
            ],
        ),
        Section(
            "Dead letters",
            "What could not be used, by where it came from and why. Nothing disappears.",
            [
                bar_chart("By reason", _reasons(outcome.dead_letters), unit="letters"),
                table(
                    "Causes",
                    ["from", "given up by", "reason", "pattern", "letters"],
                    [
                        (
                            r["origin_topic"],
                            r["given_up_by"],
                            r["reason"],
                            r["pattern"],
                            r["letters"],
                        )
                        for r in outcome.dead_letters
                    ],
                ),
            ],
        ),
        Section(
            "Sent against found",
            "Counted by plain readers (pyarrow, librdkafka) and held against the generator's own books.",
            [
                table(
                    "Checks",
                    ["", "what", "expected", "found"],
                    [
                        ("✓" if c.holds else "✗", c.what, shown(c.expected), shown(c.found))
                        for c in outcome.checks
                    ],
                )
            ],
        ),
    ]
    lead = (
        "A shop's click stream and service logs, sent by librdkafka to an embedded broker, through the "
        "shipped pipelines on Apache Spark, and read back."
    )
    path.write_text(page("Millpond demo", lead, figures, sections), encoding="utf-8")


def shown(value: object) -> str:
    """Format a figure, several by name, or a list."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{_name(key)} {number:,}" for key, number in sorted(value.items()))
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _name(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _reasons(dead_letters: Iterable[dict[str, object]]) -> list[tuple[str, float]]:
    """Return the number of dead letters for each reason."""
    found: Counter[str] = Counter()
    for row in dead_letters:
        number = row["letters"]
        assert isinstance(number, int)
        found[f"{row['origin_topic']}: {row['reason']}"] += number
    return [(name, float(number)) for name, number in found.most_common()]


def _visits(visits: Sequence[Visit]) -> list[Series]:
    """Return how many began in each time slot, and how many of these ended with a purchase."""
    if not visits:
        return []
    first = min(visit.start for visit in visits)
    everyone = Counter(_slot(visit.start, first) for visit in visits)
    buyers = Counter(_slot(v.start, first) for v in visits if v.steps == len(FUNNEL))
    return [_over_time("all", everyone, everyone), _over_time("bought something", buyers, everyone)]


def _lengths(visits: Sequence[Visit]) -> list[tuple[str, float]]:
    """Return a histogram of visits by their number of events, in steps that double."""
    found = Counter(visit.events.bit_length() for visit in visits)
    return [
        (f"{1 << (bits - 1)} to {(1 << bits) - 1}" if bits > 1 else "1", float(found[bits]))
        for bits in range(1, max(found, default=0) + 1)
    ]


def _errors(lines: Sequence[tuple[datetime, str, int]]) -> list[Series]:
    """Return the lines of each service in each time slot."""
    if not lines:
        return []
    first = min(start for start, _service, _count in lines)
    slots = {_slot(start, first): 0 for start, _service, _count in lines}
    by_service: dict[str, Counter[int]] = {}
    for start, service, count in lines:
        by_service.setdefault(service, Counter())[_slot(start, first)] += count
    return [_over_time(name, found, slots) for name, found in sorted(by_service.items())]


def _slot(moment: datetime, first: datetime) -> int:
    return int((moment - first).total_seconds() // (60 * _SLOT_MIN)) * _SLOT_MIN


def _over_time(name: str, found: Counter[int], slots: Iterable[int]) -> Series:
    """Return a point for each slot from the first to the last, also where there was nothing."""
    return Series(name, [(float(at), found[at]) for at in range(0, max(slots) + 1, _SLOT_MIN)])


def _rates(rates: Sequence[tuple[float, int, int]]) -> list[Series]:
    names = ("clicks", "logs")
    series = []
    for column, name in enumerate(names, start=1):
        points = [
            (after[0], max(0.0, (after[column] - before[column]) / (after[0] - before[0])))
            for before, after in pairwise(rates)
        ]
        series.append(Series(name, points))
    return series


def _by_second(latencies: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    seconds: dict[int, list[float]] = {}
    for at, took in latencies:
        seconds.setdefault(int(at), []).append(took)
    return [(float(at), sum(found) / len(found)) for at, found in sorted(seconds.items())]
