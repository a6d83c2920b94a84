"""What all commands that use a broker share: options, exit codes, tables for people, JSON for programs.

Results go to standard output, everything said about them to standard error. On a terminal tables are drawn
with rich; in a pipe they are lines with tabs, so that ``cut`` and ``awk`` work.

Exit codes: 0 done, 1 the broker said no, 2 asked wrongly (click's own), 3 no broker answers (in time), 130
interrupted, 143 told to end (SIGTERM). A reader that goes away early (``| head``) is no failure.
"""

import asyncio
import functools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from difflib import get_close_matches
from enum import IntEnum
from types import FrameType
from typing import Any, Concatenate, ParamSpec

import click

from millpond.base.errors import MillpondError
from millpond.client import BrokerRefused, ClientError, Cluster, NoBroker, OutOfTime
from millpond.client._model import parse_bootstrap
from millpond.wire.kafka.api import ErrorCode

P = ParamSpec("P")

# A person who mistyped a name should not wait long; a broker tells the others of a new topic sooner.
UNKNOWN_TOPIC_S = 0.5

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

# How long a command that is told to end may take for it; as long as a broker may.
_STOP_S_MAX = 5.0


class Exit(IntEnum):
    """The exit codes of commands."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    NO_BROKER = 3
    INTERRUPTED = 130
    TERMINATED = 143


class _BootstrapOption(click.Option):
    """Has a name as in Kafka's tools, too, which makes help pages longer than a screen."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Leave that name out."""
        record = super().get_help_record(ctx)
        return record and (record[0].replace(" --bootstrap-server,", ""), record[1])


def broker_command(
    work: Callable[Concatenate[Cluster, P], Coroutine[Any, Any, int | None]],
) -> Callable[..., None]:
    """Make a command of ``async def work(cluster, **options)``; what it returns is the exit code.

    Adds the options that say where the broker is, and turns errors into messages and exit codes.
    """

    @click.option(
        "--bootstrap-server",
        "--bootstrap",
        "-b",
        "bootstrap",
        metavar="HOST:PORT",
        envvar="MILLPOND_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        callback=check_bootstrap,
        help="Brokers, by commas.",
        cls=_BootstrapOption,
    )
    @click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0.1),
        default=15.0,
        show_default=True,
        help="How long to wait.",
    )
    @functools.wraps(work)
    def command(bootstrap: str, timeout_s: float, *args: P.args, **options: P.kwargs) -> None:
        async def main() -> int | None:
            async with Cluster(
                bootstrap,
                client_id="millpond-cli",
                timeout_s=timeout_s,
                unknown_topic_s=UNKNOWN_TOPIC_S,
            ) as cluster:
                try:
                    return await work(cluster, *args, **options)
                except BrokerRefused as refusal:
                    complain(await explained(cluster, refusal))
                    return Exit.REFUSED

        code = _run(main)
        if code:
            click.get_current_context().exit(code)

    return command


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for programs to read."
)


yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def is_meant(question: str) -> bool:
    """Ask a person who sits at the terminal; a script means what it says."""
    return not sys.stdin.isatty() or click.confirm(question, err=True)


def _run(main: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    try:
        return asyncio.run(_until_told(main)) or Exit.DONE
    except (NoBroker, OutOfTime) as error:
        complain(str(error))
        return Exit.NO_BROKER
    except MillpondError as error:
        complain(str(error))
        return Exit.REFUSED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        forget_reader()
        return Exit.DONE


async def _until_told(main: Callable[[], Coroutine[Any, Any, int | None]]) -> int | None:
    """SIGTERM ends a command as Ctrl-C does, so that a member leaves its group; a second one ends it at once.

    The time for it is limited: a command may wait for a reader of its output that does not read.
    """
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return (
            await main()
        )  # other threads get no signals, and a caller that ignores this one wants that
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    told: list[int] = []
    at_last = threading.Timer(_STOP_S_MAX, os._exit, (Exit.TERMINATED,))
    at_last.daemon = True

    def tell(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        signal.signal(number, signal.SIG_DFL)
        at_last.start()
        loop.call_soon_threadsafe(task.cancel)

    signal.signal(signal.SIGTERM, tell)
    try:
        return await main()
    except asyncio.CancelledError:
        if not told:
            raise
        return Exit.TERMINATED
    finally:
        at_last.cancel()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def forget_reader() -> None:
    """Discard further output: the reader is gone, and Python would report it again in the last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_bootstrap(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """For an option with addresses of brokers."""
    try:
        if value is not None:
            parse_bootstrap(value)
    except ClientError as error:
        raise click.BadParameter(str(error)) from None
    return value


async def explained(cluster: Cluster, refusal: BrokerRefused) -> str:
    """Return the message of a refusal; for an unknown topic, with the nearest name that exists."""
    text = str(refusal)
    if refusal.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not refusal.subject:
        return text
    names = [topic.name for topic in await cluster.topics() if not topic.is_internal]
    known = refusal.subject in names or refusal.subject.rpartition("-")[0] in names
    near = [] if known else get_close_matches(refusal.subject, names, n=1)
    return f"{text}. Did you mean {near[0]}?" if near else text


# --- saying things ---


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def note(text: str) -> None:
    """Say something about the work; never part of the result."""
    click.echo(text, err=True)


def complain(text: str) -> None:
    """Say what went wrong."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {text}", err=True)


def print_json(value: object) -> None:
    """One JSON document, indented for people if a person reads it."""
    click.echo(json.dumps(value, indent=2 if is_terminal() else None, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = ""
) -> None:
    """A table: drawn on a terminal, tab-separated with a first line of names elsewhere."""
    if not is_terminal():
        click.echo("\t".join(name.lower().replace(" ", "_") for name in columns))
        for row in rows:
            click.echo("\t".join(str(cell) for cell in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    cells = [list(row) for row in rows]
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*[Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row])
    Console().print(table)


def human_bytes(count: float) -> str:
    """1234567 as ``1.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def human_seconds(seconds: float) -> str:
    """4000.4 as ``1 h 7 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"
