"""The demo's report: what came in, what came out, how fast, and whether it agrees."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from examples.demo.outcome import Outcome, quantile
from examples.demo.streams import Stream
from examples.demo.traffic import Truth
from millpond.spark.report import Figure, Section, Series, bar_chart, line_chart, page, table


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
    letters = sum(row["letters"] for row in outcome.letters)
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
            f"{outcome.sessions:,}",
            f"{truth.sessions:,} are in the traffic",
            good=outcome.sessions == truth.sessions,
        ),
        Figure("sent twice", f"{truth.doubled:,}", "removed once each"),
        Figure("dead letters", f"{letters:,}", "one from each pipeline that gave a record up"),
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
                    [(s.name, round(quantile(s.durations, 0.5), 2)) for s in streams],
                    unit="s",
                ),
            ],
        ),
        Section(
            "Clicks",
            "Sessions end after ten quiet minutes. Events that came twice count once; events that came "
            "too late are dead letters.",
            [
                bar_chart("How far visits went", outcome.funnel, unit="sessions"),
                bar_chart("Top pages", outcome.pages, unit="views"),
            ],
        ),
        Section(
            "Service logs",
            "Four formats in one topic: JSON, logfmt, syslog and an access log.",
            [
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
                        for r in outcome.letters
                    ],
                )
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
                        ("✓" if c.holds else "✗", c.what, str(c.expected), str(c.found))
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
