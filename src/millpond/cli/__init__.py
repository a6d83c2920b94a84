"""The ``millpond`` command. Each subcommand is a module that is imported only when it is used.

Commands that speak a protocol are in a group with the protocol's name: ``millpond amqp queue list``. They may
be written without it, too, as they were before there were groups: ``millpond queue list``.

Exit codes: 0 done; 1 it did not work; 2 it was asked wrongly (options, settings); 3 the address does not work
(no broker there, or for ``millpond up``: it cannot be listened on); 4 the data directory cannot be used; 130
ended by Ctrl-C; 143 ended by SIGTERM (a broker and a pipeline, whose end that is, say 0).
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from millpond import __version__


class Command(NamedTuple):
    """A command's module and its line in --help, so that listing the commands imports none of them."""

    module: str
    attribute: str
    summary: str


_KAFKA: dict[str, Command] = {
    "topic": Command(
        "millpond.cli.topic", "topic", "Create, list, describe, alter and delete topics."
    ),
    "produce": Command("millpond.cli.produce", "produce", "Write messages to a topic."),
    "consume": Command("millpond.cli.consume", "consume", "Read messages from a topic."),
    "group": Command(
        "millpond.cli.group", "group", "List, describe, reset and delete consumer groups."
    ),
}
_AMQP: dict[str, Command] = {
    "queue": Command(
        "millpond.cli.queue", "queue", "List, declare, delete, purge, read and write queues."
    ),
    "exchange": Command("millpond.cli.exchange", "exchange", "List, declare and delete exchanges."),
    "binding": Command("millpond.cli.binding", "binding", "List, add and remove bindings."),
    "policy": Command("millpond.cli.policy", "policy", "List, set and delete policies."),
    "vhost": Command("millpond.cli.vhost", "vhost", "List, add and delete virtual hosts."),
    "user": Command("millpond.cli.user", "user", "Users: passwords, tags, permissions."),
    "definitions": Command(
        "millpond.cli.definitions",
        "definitions",
        "Export and import definitions, in RabbitMQ's format.",
    ),
}
# By the name of the protocol that their commands speak.
GROUPS: dict[str, Mapping[str, Command]] = {"kafka": _KAFKA, "amqp": _AMQP}
_COMMANDS: dict[str, Command] = {
    "up": Command("millpond.cli.up", "up", "Run a broker."),
    "kafka": Command("millpond.cli", "kafka", "Topics, messages and consumer groups."),
    "amqp": Command("millpond.cli", "amqp", "Queues, exchanges, bindings, policies, users."),
    "cluster": Command(
        "millpond.cli.cluster", "cluster", "Show the nodes and the health of a cluster."
    ),
    "node": Command("millpond.cli.node", "node", "List, add, drain and remove nodes."),
    "partition": Command(
        "millpond.cli.partition", "partition", "List, move and elect leaders of partitions."
    ),
    "log": Command("millpond.cli.log", "log", "Show and verify the files of a log."),
    "config": Command("millpond.cli.config", "config", "List and explain settings."),
    "pipeline": Command("millpond.cli.pipeline", "pipeline", "Run the shipped pipelines on Spark."),
    "spark": Command("millpond.cli.spark", "spark", "Check and prepare Apache Spark."),
    "doctor": Command(
        "millpond.cli.doctor", "doctor", "Check the machine, the data and the connection."
    ),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and help, and imports one when it is called.

    Commands of ``short_forms`` are found, too, and listed by their groups' names only.
    """

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, Command],
        short_forms: Mapping[str, Mapping[str, Command]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._table = table
        self._short_forms = short_forms or {}
        self._known = dict(table)
        for rows in self._short_forms.values():
            self._known.update(rows)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: what a newcomer needs first comes first."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        row = self._known.get(cmd_name)
        if row is None:
            return None
        command = getattr(importlib.import_module(row.module), row.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.summary) for name, row in self._table.items()])
        if self._short_forms:
            with formatter.section("These may be written without their group"):
                formatter.write_dl(
                    [(group, ", ".join(rows)) for group, rows in self._short_forms.items()]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for one that does not exist."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self._known:
            ctx.fail(f"No such command '{name}'.{self._suggestion(name)}")
        return super().resolve_command(ctx, args)

    def _suggestion(self, name: str) -> str:
        import difflib

        found = difflib.get_close_matches(name, self._known, n=1)
        return f" Did you mean '{found[0]}'?" if found else ""


@click.group(cls=LazyGroup, table=_KAFKA)
def kafka() -> None:
    """Topics, messages and consumer groups, by Kafka's protocol."""


@click.group(cls=LazyGroup, table=_AMQP)
def amqp() -> None:
    """Queues, exchanges, bindings, policies, virtual hosts and users.

    By RabbitMQ's management API, so that a RabbitMQ is administered as well as a Millpond.
    """


@click.group(
    cls=LazyGroup,
    table=_COMMANDS,
    short_forms=GROUPS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="millpond")
def cli() -> None:
    """One broker, one Kafka-format log, the clients you already have."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script."""
    cli.main(args=list(arguments) if arguments is not None else None, prog_name="millpond")
