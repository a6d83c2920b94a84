"""A shop's clicks and logs through a broker and Spark: live, reported, and checked to the last record.

An embedded broker takes what librdkafka sends; four shipped pipelines run on Spark (lake, click stream, logs,
deduplication); a consumer reads the results. At the end plain readers count everything and compare it with
what was sent: no loss, no duplicates, every bad record a dead letter with its reason. Exits with 0 only if
all of it agrees.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import millpond
from examples.demo.deadline import Deadline
from examples.demo.feed import Feed
from examples.demo.keeping import with_broker
from examples.demo.outcome import Outcome, quantile, read_outcome
from examples.demo.page import shown, write_report
from examples.demo.reader import Reader
from examples.demo.streams import (
    CLICK_DEAD_LETTERS,
    DEDUP_DEAD_LETTERS,
    LOG_DEAD_LETTERS,
    UNIQUE,
    Stream,
    drain,
    start_all,
    stop,
)
from examples.demo.traffic import Truth, traffic
from millpond.base.errors import MillpondError
from millpond.spark.java import use_java
from millpond.spark.pipelines.running import QueryStats
from millpond.spark.session import build_session

_PARTITIONS = 4
_SECONDS_MAX = 180.0
# Two minutes are too short for the optimising compiler.
_SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

console = Console()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The options of the demo."""

    clicks: int
    lines: int
    seconds: float
    seed: int
    report: Path
    master: str
    within: float


@click.command(help=__doc__)
@click.option("--clicks", default=60_000, show_default=True, help="Click events to send.")
@click.option("--lines", default=40_000, show_default=True, help="Log lines to send.")
@click.option("--seconds", default=30.0, show_default=True, help="How long sending takes.")
@click.option("--seed", default=7, show_default=True, help="Another seed, another day in the shop.")
@click.option(
    "--report",
    default=Path("demo-report.html"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the report goes.",
)
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option(
    "--within", default=_SECONDS_MAX, show_default=True, help="Seconds after which it gives up."
)
@click.option(
    "--keep", is_flag=True, help="Leave the broker and the files until Ctrl-C, to look around."
)
def main(keep: bool, **order: Any) -> None:
    try:
        use_java()
        is_well = with_broker(lambda broker, place: _run(broker, place, Order(**order)), keep=keep)
    except MillpondError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(0 if is_well else 1)


def _run(broker: millpond.Broker, place: Path, order: Order) -> bool:
    deadline = Deadline(order.within)
    console.print(f"[bold]Broker[/] listens on {broker.bootstrap}")
    for topic in ("clicks", "logs", UNIQUE):
        broker.create_topic(topic, partitions=_PARTITIONS)
    for topic in (CLICK_DEAD_LETTERS, LOG_DEAD_LETTERS, DEDUP_DEAD_LETTERS, "logs.alerts"):
        broker.create_topic(topic, partitions=1)
    with console.status("Making up a day in the shop …"):
        records, truth = traffic(order.seed, order.clicks, order.lines, int(time.time() * 1000))
    dead_letters = sum(truth.click_dead_letters.values()) + sum(truth.log_dead_letters.values())
    console.print(
        f"[bold]Traffic[/] {truth.sent['clicks']:,} clicks and {truth.sent['logs']:,} log lines; "
        f"{truth.doubled:,} of them twice, {dead_letters:,} that cannot be used"
    )
    with console.status("Starting Spark …"):
        spark = build_session(
            "millpond-demo", order.master, **{"spark.driver.extraJavaOptions": _SHORT_LIVED_JAVA}
        )
    console.print(f"[bold]Spark[/] {spark.version} runs on {order.master}")
    try:
        streams = start_all(spark, broker.bootstrap, place)
        feed = Feed(broker.bootstrap, records, order.seconds)
        reader = Reader(broker.bootstrap, UNIQUE)
        reader.start()
        feed.start()
        rates = _watch(streams, feed, truth, deadline)
        with console.status("Waiting for the last windows to close …"):
            drain(streams, deadline)
            reader.finish(len(truth.ids), deadline.left())
        stop(streams)
        with console.status("Reading everything back …"):
            outcome = read_outcome(spark, broker.bootstrap, place, truth, feed, reader)
    finally:
        spark.stop()
    took = deadline.taken()
    write_report(order.report, truth, outcome, rates, streams, reader.latencies, took)
    _show(outcome, reader.latencies, took, order.report)
    return outcome.holds


def _watch(
    streams: list[Stream], feed: Feed, truth: Truth, deadline: Deadline
) -> list[tuple[float, int, int]]:
    """Show the progress until everything sent has been read. Return what was sent over time."""
    progress = Progress(TextColumn("sent"), BarColumn(40), MofNCompleteColumn(), console=console)
    task = progress.add_task("sent", total=sum(truth.sent.values()))
    rates: list[tuple[float, int, int]] = []
    started = time.monotonic()
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while True:
            at = time.monotonic() - started
            sent = dict(feed.acknowledged)
            rates.append((at, sent.get("clicks", 0), sent.get("logs", 0)))
            progress.update(task, completed=sum(sent.values()))
            stats = [
                (stream.name, query_stats)
                for stream in streams
                for query_stats in stream.look(
                    at, sum(sent.get(topic, 0) for topic in stream.topics)
                )
            ]
            live.update(_progress_table(progress, stats))
            if not feed.is_alive() and all(stream.lag[-1][1] == 0 for stream in streams):
                return rates
            behind = ", ".join(stream.name for stream in streams if stream.lag[-1][1])
            deadline.check(behind or "the clients to send")
            time.sleep(0.5)


def _progress_table(progress: Progress, stats: Sequence[tuple[str, QueryStats]]) -> Table:
    table = Table(box=None, title_justify="left")
    for name in ("pipeline", "query"):
        table.add_column(name)
    for name in ("batches", "records", "records/s", "lag", "dead letters"):
        table.add_column(name, justify="right")
    for pipeline, query_stats in stats:
        numbers = (
            query_stats.batches,
            query_stats.rows,
            int(query_stats.rate),
            query_stats.lag or 0,
            query_stats.dead_letters,
        )
        table.add_row(pipeline, query_stats.name, *(f"{number:,}" for number in numbers))
    whole = Table.grid()
    whole.add_row(progress)
    whole.add_row(table)
    return whole


def _show(
    outcome: Outcome, latencies: list[tuple[float, float]], took: float, report: Path
) -> None:
    _print_rows("Funnel", ("step", "sessions"), outcome.funnel)
    _print_rows("Top pages", ("page", "views"), outcome.pages)
    _print_rows("Log lines", ("service", "info", "warn", "error"), outcome.levels)
    _print_rows("What went wrong most", ("pattern", "lines"), outcome.errors)
    _print_rows(
        "Dead letters",
        ("from", "given up by", "reason", "letters"),
        [
            (r["origin_topic"], r["given_up_by"], r["reason"], r["letters"])
            for r in outcome.dead_letters
        ],
    )
    table = Table(title="Sent against found", title_justify="left")
    for name in ("", "what", "expected", "found"):
        table.add_column(name)
    for check in outcome.checks:
        mark = "[green]✓[/]" if check.holds else "[red]✗[/]"
        table.add_row(mark, check.what, _short(check.expected), _short(check.found))
    console.print(table)
    times = [seconds for _at, seconds in latencies]
    console.print(
        f"From a client's send to another client's read, through Spark and a transaction: "
        f"{quantile(times, 0.5):.1f} s (p50), {quantile(times, 0.99):.1f} s (p99)"
    )
    verdict = "[green]everything agrees[/]" if outcome.holds else "[red]something is wrong[/]"
    console.print(f"{verdict}, {took:.0f} s in all; the report is {report.resolve().as_uri()}")


def _print_rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        is_number = bool(rows) and isinstance(rows[0][number], int)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    console.print(table)


def _short(value: object) -> str:
    text = shown(value)
    if len(text) <= 60:
        return text
    if isinstance(value, dict):
        return f"{sum(value.values()):,} in {len(value)} kinds"
    return f"{text[:59]}…"


if __name__ == "__main__":
    main()
