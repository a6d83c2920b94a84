"""``millpond up``: run a broker in the foreground until it is told to stop."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond import __version__
from millpond.server.protocols import KAFKA, protocols

if TYPE_CHECKING:
    from millpond.server.app import Server
    from millpond.server.config import Given, Settings


def _protocol_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of protocols other than Kafka's: each adds a listener."""
    for protocol in reversed(protocols()):
        if protocol is not KAFKA:
            command = click.option(
                protocol.option,
                protocol.name,
                metavar="ADDRESS",
                is_flag=False,
                flag_value=protocol.default_address,
                help=protocol.option_help,
            )(command)
    return command


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "-c",
    "--config",
    "config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="MILLPOND_CONFIG",
    help="TOML, or Kafka's server.properties.",
)
@click.option(
    "-l",
    "--listen",
    "listen",
    multiple=True,
    metavar="ADDRESS",
    help="[NAME://]host:port; may be repeated. Port 0 is any free one.",
)
@_protocol_options
@click.option(
    "-d", "--data", type=click.Path(path_type=Path), metavar="DIR", help="The data directory."
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1, max=16),
    default=None,
    metavar="N",
    help="A cluster of N processes on this machine.",
)
@click.option(
    "-s",
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any setting; may be repeated.",
)
@click.option("--override", "kafka_overrides", multiple=True, metavar="NAME=VALUE", hidden=True)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    envvar="MILLPOND_LOG_LEVEL",
    metavar="LEVEL",
    help="debug, info (default), warning or error.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text",
    envvar="MILLPOND_LOG_FORMAT", metavar="FORMAT", help="text (default), or json for programs.",
)  # fmt: skip
def up(
    *,
    file: Path | None,
    config: Path | None,
    listen: tuple[str, ...],
    data: Path | None,
    nodes: int | None,
    assignments: tuple[str, ...],
    kafka_overrides: tuple[str, ...],
    log_level: str,
    log_format: str,
    **served: str | None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    Without options: data in ./millpond-data, listening on 127.0.0.1:9092. Settings (`millpond config list`)
    come from the FILE, from MILLPOND_* variables and from the options; the later wins. With --nodes 3 there
    are three nodes, on the next ports, with their data in ./millpond-data/node-1 and so on. A node of a
    cluster over several machines is a FILE with node.id, controller.quorum.voters and listeners in it.
    """
    from millpond.server.collector import collect_seldom

    collect_seldom()
    from millpond.base.errors import InvalidConfig
    from millpond.server.config import load_settings
    from millpond.server.failures import ExitCode, StartFailed
    from millpond.server.logs import configure_logging

    if file is not None and config is not None:
        raise click.UsageError("FILE and --config are the same thing; give one.")
    configure_logging(level=log_level, form=log_format)
    try:
        settings = load_settings(
            file=file or config,
            environment=os.environ,
            overrides=_overrides(listen, data, assignments, kafka_overrides),
            served={name: address for name, address in served.items() if address is not None},
        )
        if nodes is not None:
            passed_on = _passed_on(
                file or config, assignments, kafka_overrides, log_level, log_format
            )
            code = _run_nodes(settings, nodes, passed_on, log_format=log_format)
        else:
            _check_single(settings)
            code = _run(settings, quiet=log_format == "json" or not sys.stdout.isatty())
    except InvalidConfig as error:
        _fail("Invalid settings:", str(error).splitlines())
        sys.exit(ExitCode.SETTINGS)
    except StartFailed as error:
        _fail(error.what, error.advice)
        sys.exit(error.code)
    sys.exit(code)


def _run(settings: "Settings", *, quiet: bool) -> int:
    from millpond.server.lifecycle import run_broker

    def on_ready(server: "Server") -> None:
        if not quiet:
            _banner(server)

    return run_broker(settings, on_ready=on_ready)


def _run_nodes(settings: "Settings", nodes: int, passed_on: list[str], *, log_format: str) -> int:
    from millpond.cli.up_nodes import run_nodes
    from millpond.server.local_cluster import plan_cluster

    plan = plan_cluster(settings, nodes=nodes, rng_bytes=os.urandom(16))
    return run_nodes(settings, plan, passed_on, log_format=log_format)


def _check_single(settings: "Settings") -> None:
    """A cluster's directory is not started as a single node by forgetting --nodes."""
    from millpond.server.failures import ExitCode, StartFailed
    from millpond.server.local_cluster import nodes_in

    if nodes := nodes_in(settings.data):
        raise StartFailed(
            f"Cannot use {settings.data} for a single node: a cluster of {nodes} nodes is in it.",
            f"start it with --nodes {nodes}, or choose another directory with --data",
            code=ExitCode.DATA,
        )


def _passed_on(
    file: Path | None,
    assignments: tuple[str, ...],
    kafka_overrides: tuple[str, ...],
    log_level: str,
    log_format: str,
) -> list[str]:
    """The options that every node of --nodes is given, too."""
    options = ["--log-level", log_level, "--log-format", log_format]
    if file is not None:
        options += ["--config", str(file)]
    for name, values in (("--override", kafka_overrides), ("--set", assignments)):
        for value in values:
            options += [name, value]
    return options


def _overrides(
    listen: tuple[str, ...],
    data: Path | None,
    assignments: tuple[str, ...],
    kafka_overrides: tuple[str, ...],
) -> "list[Given]":
    from millpond.server.config import Given, Origin, given_on_command_line

    given = [given_on_command_line(text, option="--override") for text in kafka_overrides]
    given += [given_on_command_line(text, option="--set") for text in assignments]
    if listen:
        given.append(Given("listeners", ",".join(listen), Origin.COMMAND_LINE, "--listen"))
    if data is not None:
        given.append(Given("log.dirs", str(data), Origin.COMMAND_LINE, "--data"))
    return given


def _banner(server: "Server") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    served = [one for protocol in protocols() for one in server.listeners(protocol.name)]
    for number, listener in enumerate(served):
        remark = f"   [dim]{listener.protocol.remark}[/]" if listener.protocol.remark else ""
        label = "" if number else "[bold]connect[/]"
        table.add_row(label, f"[green]{listener.url}[/]{remark}")
    table.add_row("[bold]data[/]", str(server.settings.data.resolve()))
    for number, command in enumerate(_examples(server)):
        label, remark = ("", "") if number else ("[bold]try[/]", "   [dim]in another terminal[/]")
        table.add_row(label, f"{command}{remark}")
    table.add_row("[bold]stop[/]", "Ctrl-C")
    console.print(f"\n[bold cyan]Millpond[/] {__version__}\n")
    console.print(table)
    console.print()


def _examples(server: "Server") -> Iterator[str]:
    """Yield commands to try, with the address where it is not the default one."""
    for protocol in protocols():
        addresses = server.addresses(protocol.name)
        if protocol.example is None or not addresses:
            continue
        command, option = protocol.example
        is_default = addresses[0] == protocol.default_address
        yield command if is_default else f"{command} {option} {addresses[0]}"


def _fail(what: str, lines: "tuple[str, ...] | list[str]") -> None:
    click.echo(click.style(what, fg="red", bold=True), err=True)
    for line in lines:
        click.echo(f"  - {line}", err=True)
