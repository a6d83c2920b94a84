"""The ``millpond`` command. Each subcommand is a module that is imported only when it is used.

Exit codes: 0 done; 1 it did not work; 2 it was asked wrongly (options, settings); 3 the address does not work
(no broker there, or for ``millpond up``: it cannot be listened on); 4 the data directory cannot be used; 130
ended by Ctrl-C; 143 ended by SIGTERM (a broker and a pipeline, whose end that is, say 0).
"""

import importlib
from collections.abc import Sequence

import click

from millpond import __version__

# name -> (module, attribute, one line for --help), so that listing the commands imports none of them.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("millpond.cli.up", "up", "Run a broker."),
    "topic": ("millpond.cli.topic", "topic", "Create, list, describe, alter and delete topics."),
    "produce": ("millpond.cli.produce", "produce", "Write messages to a topic."),
    "consume": ("millpond.cli.consume", "consume", "Read messages from a topic."),
    "group": ("millpond.cli.group", "group", "List, describe, reset and delete consumer groups."),
    "queue": (
        "millpond.cli.queue",
        "queue",
        "List, declare, delete, purge, read and write AMQP's queues.",
    ),
    "exchange": ("millpond.cli.exchange", "exchange", "List, declare and delete AMQP's exchanges."),
    "binding": ("millpond.cli.binding", "binding", "List, add and remove AMQP's bindings."),
    "policy": ("millpond.cli.policy", "policy", "List, set and delete AMQP's policies."),
    "vhost": ("millpond.cli.vhost", "vhost", "List, add and delete AMQP's virtual hosts."),
    "user": ("millpond.cli.user", "user", "AMQP's users: passwords, tags, permissions."),
    "definitions": (
        "millpond.cli.definitions",
        "definitions",
        "Export and import AMQP's definitions, in RabbitMQ's format.",
    ),
    "cluster": ("millpond.cli.cluster", "cluster", "Show the nodes and the health of a cluster."),
    "node": ("millpond.cli.node", "node", "List, add, drain and remove nodes."),
    "partition": (
        "millpond.cli.partition",
        "partition",
        "List, move and elect leaders of partitions.",
    ),
    "log": ("millpond.cli.log", "log", "Show and verify the files of a log."),
    "config": ("millpond.cli.config", "config", "List and explain settings."),
    "pipeline": ("millpond.cli.pipeline", "pipeline", "Run the shipped pipelines on Spark."),
    "spark": ("millpond.cli.spark", "spark", "Check and prepare Apache Spark."),
    "doctor": ("millpond.cli.doctor", "doctor", "Check the machine, the data and the connection."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and help, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: what a newcomer needs first comes first."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        row = _COMMANDS.get(cmd_name)
        if row is None:
            return None
        command = getattr(importlib.import_module(row[0]), row[1])
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[2]) for name, row in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for one that does not exist."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _COMMANDS:
            ctx.fail(f"No such command '{name}'.{_suggestion(name)}")
        return super().resolve_command(ctx, args)


def _suggestion(name: str) -> str:
    import difflib

    found = difflib.get_close_matches(name, _COMMANDS, n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="millpond")
def cli() -> None:
    """One broker, one Kafka-format log, the clients you already have."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script."""
    cli.main(args=list(arguments) if arguments is not None else None, prog_name="millpond")
