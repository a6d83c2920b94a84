"""``millpond pipeline``: run the shipped pipelines on Apache Spark, and watch them.

The options of a pipeline are the fields of its ``Options`` class. Exit codes: 0 it ended or was stopped by
SIGTERM; 1 a query failed; 2 it was asked wrongly; 130 stopped by Ctrl-C.
"""

import asyncio
import importlib
import importlib.util
import logging
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from difflib import get_close_matches
from types import FrameType
from typing import Any

import click

from millpond.base.errors import MillpondError
from millpond.cli.output import (
    DEFAULT_BOOTSTRAP,
    Exit,
    check_bootstrap,
    complain,
    is_terminal,
    json_option,
    note,
    print_json,
    print_table,
)
from millpond.client import Cluster, NoBroker, OutOfTime
from millpond.spark.pipelines import PIPELINES, Pipeline

_SHARED = {"bootstrap", "source", "to", "checkpoint", "available_now", "interval"}
_LINE_EVERY_S = 5.0
_ROWS_SHOWN_MAX = 100
# A broker that is away is waited for; this long passes before that is said.
_BROKER_S_MAX = 3.0
_INTERVAL = re.compile(r"(\d+)\s*(ms|s|m|h)")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


@click.group()
def pipeline() -> None:
    """Run the shipped pipelines on Apache Spark."""


@pipeline.command("list")
@json_option
def list_pipelines(*, as_json: bool) -> None:
    """List the pipelines."""
    if as_json:
        print_json([{"name": item.name, "summary": item.summary} for item in PIPELINES.values()])
    else:
        print_table(("Pipeline", "What it does"), [(p.name, p.summary) for p in PIPELINES.values()])


class _Run(click.Group):
    """A command for each pipeline, made when it is called. Its help does not need Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(PIPELINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one pipeline, with its options."""
        found = PIPELINES.get(cmd_name)
        return None if found is None else _command(found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest pipeline for one that does not exist."""
        if args and not args[0].startswith("-") and args[0] not in PIPELINES:
            near = get_close_matches(args[0], PIPELINES, n=1)
            meant = f"Did you mean '{near[0]}'?" if near else "`millpond pipeline list` has them."
            ctx.fail(f"No such pipeline '{args[0]}'. {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the pipelines without importing them."""
        with formatter.section("Pipelines"):
            formatter.write_dl([(item.name, item.summary) for item in PIPELINES.values()])


@pipeline.command("run", cls=_Run)
def run_group() -> None:
    """Run a pipeline.

    \b
    millpond pipeline run lake --from clicks --to ./lake --checkpoint ./state
    """


def _command(found: Pipeline) -> click.Command:
    module = importlib.import_module(found.module)
    own = [_option(item) for item in fields(module.Options) if item.name not in _SHARED]
    shared: list[click.Parameter] = [
        click.Option(
            ["--bootstrap", "--bootstrap-server", "-b", "bootstrap"],
            metavar="HOST:PORT",
            envvar="MILLPOND_BOOTSTRAP",
            default=DEFAULT_BOOTSTRAP,
            show_default=True,
            show_envvar=True,
            callback=check_bootstrap,
            help="Where a broker listens; several are separated by commas.",
        ),
        click.Option(["--from", "source"], metavar="TOPIC", multiple=True, help="What to read."),
        click.Option(["--to"], metavar="WHERE", default="", help="A directory, or a topic."),
        click.Option(
            ["--checkpoint"],
            metavar="DIRECTORY",
            default="",
            help="Where a stream keeps its place.",
        ),
        click.Option(
            ["--available-now"],
            is_flag=True,
            help="Work off what is there now, in batches, and end.",
        ),
        click.Option(
            ["--interval"],
            metavar="TIME",
            default="5s",
            show_default=True,
            callback=_spark_interval,
            help="Time between batches.",
        ),
        click.Option(
            ["--batch"], is_flag=True, help="Do it once, as one batch, and show the result."
        ),
        click.Option(
            ["--master"],
            default="local[*]",
            show_default=True,
            help="Spark's master, spark://HOST:PORT.",
        ),
        click.Option(
            ["--conf"],
            metavar="NAME=VALUE",
            multiple=True,
            help="A setting of Spark; may be repeated.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs to read."),
    ]
    return click.Command(
        found.name,
        params=[*shared, *own],
        callback=lambda **given: _run(found, module, **given),
        help=f"{found.summary}\n\n{(module.__doc__ or '').split(chr(10) * 2)[1]}",
    )


def _option(item: "Field[Any]") -> click.Option:
    """A field of ``Options`` as an option of the command."""
    told = dict(item.metadata)
    kind: Any = click.Choice(told["choices"]) if "choices" in told else type(item.default)
    return click.Option(
        [f"--{item.name.replace('_', '-')}", item.name],
        default=item.default,
        show_default=item.default not in {"", False},
        is_flag=isinstance(item.default, bool),
        type=None if isinstance(item.default, bool) else kind,
        help=told.get("help"),
    )


def _spark_interval(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    match = _INTERVAL.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no time: write 500ms, 5s, 1m or 1h")
    return f"{match[1]} {_UNITS[match[2]]}"


def _run(
    found: Pipeline,
    module: Any,
    *,
    batch: bool,
    master: str,
    conf: Sequence[str],
    as_json: bool,
    **given: Any,
) -> None:
    try:
        settings = dict(pair.split("=", 1) for pair in conf)
    except ValueError:
        raise click.BadParameter("write NAME=VALUE", param_hint="--conf") from None
    options = module.Options(**given)
    _need_spark()
    try:
        _check(found, options, batch=batch)
        code = _work(found, module, options, batch, master, settings, as_json)
    except MillpondError as error:
        complain(str(error))
        code = Exit.REFUSED
    if code:
        click.get_current_context().exit(code)


def _need_spark() -> None:
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            raise click.ClickException(
                f"{name} is not installed: pip install '.[spark]' in a clone"
            )


def _check(found: Pipeline, options: Any, *, batch: bool) -> None:
    """Check what need not wait for Spark to start. Raises ``PipelineError``."""
    from millpond.spark.pipelines.errors import PipelineError
    from millpond.spark.pipelines.flow import checkpoint_of

    if not batch:
        checkpoint_of(options, found.name)
        # Records that are replayed go back to the topics they came from.
        if not options.to and "replay" not in {found.name, getattr(options, "action", "")}:
            raise PipelineError("nowhere to write: give --to")
    if not options.source:
        return
    try:
        asyncio.run(_ask(options.bootstrap))
    except (NoBroker, OutOfTime) as error:
        note(f"{error}; it is waited for")


async def _ask(bootstrap: str) -> None:
    """Check that a broker answers. Raises ``NoBroker`` or ``OutOfTime``."""
    async with Cluster(bootstrap, client_id="millpond-cli", timeout_s=_BROKER_S_MAX) as cluster:
        await cluster.info()


def _work(
    found: Pipeline,
    module: Any,
    options: Any,
    batch: bool,
    master: str,
    settings: dict[str, str],
    as_json: bool,
) -> int:
    from py4j.protocol import Py4JError

    from millpond.spark.session import build_session

    note(f"Starting Spark ({master}) …")
    spark = build_session(f"millpond {found.name}", master, **settings)
    asked: list[int] = []
    try:
        try:
            if batch:
                return _show_result(module, spark, options, as_json)
            return _stream(found, spark, options, asked, as_json)
        finally:
            spark.stop()
    except (Py4JError, OSError):
        # Service managers tell all processes of a service to end, Java too: it may be gone already.
        if signal.SIGTERM not in asked:
            raise
        note("Spark has ended as well; what it had not finished is done again from the checkpoint.")
        return Exit.DONE


def _show_result(module: Any, spark: Any, options: Any, as_json: bool) -> int:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sf

    from millpond.spark.pipelines.failures import explained

    try:
        frame = module.run_batch(spark, options).limit(_ROWS_SHOWN_MAX)
        if as_json:
            documents = frame.select(sf.to_json(sf.struct(*frame.columns))).collect()
            click.echo("[" + ",".join(row[0] for row in documents) + "]")
        else:
            rows = [tuple(_plain(cell) for cell in row) for row in frame.collect()]
            print_table(frame.columns, rows)
    except PySparkException as error:
        complain(explained(error))
        return Exit.REFUSED
    return Exit.DONE


def _plain(cell: Any) -> object:
    return bytes(cell).decode(errors="replace") if isinstance(cell, bytes | bytearray) else cell


def _stream(found: Pipeline, spark: Any, options: Any, asked: list[int], as_json: bool) -> int:
    """``asked`` gets the numbers of the signals that ended it."""
    from millpond.spark.pipelines.running import start

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked:  # told twice: it may be waiting for a broker that is away
            raise KeyboardInterrupt
        asked.append(number)
        # py4j logs each call to a Java that is gone, with its stack.
        logging.getLogger().addHandler(logging.NullHandler())

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        running = start(spark, found.name, options)
        try:
            with _display(found.name) as show:
                while not asked and not running.wait(0.5):
                    show(running.stats())
                if asked:
                    note("Stopping …")
                    running.stop()
                show(running.stats())
            if not asked:
                running.check()
        finally:
            running.stop()
            running.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _summary(running.stats(), as_json)
    return Exit.INTERRUPTED if signal.SIGINT in asked else Exit.DONE


_COLUMNS = ("Query", "Batches", "Rows", "Rows/s", "Lag", "Dead letters", "Dropped late")


def _cells(query_stats: Any) -> tuple[object, ...]:
    lag = "-" if query_stats.lag is None else query_stats.lag
    return (
        query_stats.name,
        query_stats.batches,
        query_stats.rows,
        round(query_stats.rate),
        lag,
        query_stats.dead_letters,
        query_stats.dropped_late,
    )


def _summary(stats: Sequence[Any], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "query": query_stats.name,
                    "batches": query_stats.batches,
                    "rows": query_stats.rows,
                    "lag": query_stats.lag,
                    "dead_letters": query_stats.dead_letters,
                    "dropped_late": query_stats.dropped_late,
                    **query_stats.facts,
                }
                for query_stats in stats
            ]
        )
    else:
        print_table(_COLUMNS, [_cells(query_stats) for query_stats in stats])
        for line in _facts(stats):
            note(line)


def _facts(stats: Sequence[Any]) -> list[str]:
    """Return a pipeline's notes beside its counts: ``dedup: rate stated 0.001, rate estimated 2.1e-07``."""
    return [
        f"{query_stats.name}: "
        + ", ".join(
            f"{name.replace('_', ' ')} {_number(fact)}" for name, fact in query_stats.facts.items()
        )
        for query_stats in stats
        if query_stats.facts
    ]


def _number(fact: float) -> str:
    return f"{fact:,}" if isinstance(fact, int) else f"{fact:.2g}"


class _display:  # noqa: N801
    """Progress while it runs: a table that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live: Any = None
        self._told = (-1, 0.0)

    def __enter__(self) -> Callable[[Sequence[Any]], None]:
        if sys.stderr.isatty() and is_terminal():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=4)
            self._live.start()
            return self._draw
        return self._tell

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _draw(self, stats: Sequence[Any]) -> None:
        from rich import box
        from rich.table import Table

        table = Table(title=f"{self._name} (Ctrl-C stops it)", box=box.SIMPLE_HEAD)
        for number, column in enumerate(_COLUMNS):
            table.add_column(column, justify="right" if number else "left")
        for query_stats in stats:
            table.add_row(
                *(f"{c:,}" if isinstance(c, int) else str(c) for c in _cells(query_stats))
            )
        table.caption = "\n".join(_facts(stats)) or None
        self._live.update(table)

    def _tell(self, stats: Sequence[Any]) -> None:
        import time

        batches, now = sum(query_stats.batches for query_stats in stats), time.monotonic()
        if batches == self._told[0] or (self._told[1] and now - self._told[1] < _LINE_EVERY_S):
            return
        self._told = (batches, now)
        for one in stats:
            note(
                f"{one.name}: {one.batches:,} batches, {one.rows:,} rows, {one.rate:,.0f}/s, "
                f"lag {'-' if one.lag is None else format(one.lag, ',')}, "
                f"{one.dead_letters:,} dead letters"
            )
        for line in _facts(stats):
            note(line)
