"""``millpond amqp exchange``: where AMQP's publishers send to."""

import click

from millpond.cli.management import (
    ManagementClient,
    each,
    exchange_argument_option,
    management_command,
    shown_arguments,
    values_of,
)
from millpond.cli.output import json_option, print_json, print_table


@click.group()
def exchange() -> None:
    """List, declare and delete AMQP's exchanges."""


@exchange.command("list")
@json_option
@management_command
def list_exchanges(client: ManagementClient, as_json: bool) -> None:
    """List the exchanges of a virtual host."""
    rows = client.get("exchanges", client.vhost)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Name", "Type", "Durable", "Auto delete", "Internal", "Arguments"),
        [
            (
                row["name"] or "(default)",
                row["type"],
                _yes(row["durable"]),
                _yes(row["auto_delete"]),
                _yes(row["internal"]),
                shown_arguments(row["arguments"]),
            )
            for row in rows
        ],
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


@exchange.command()
@click.argument("name")
@click.argument("exchange_type", metavar="TYPE")
@click.option("--transient", is_flag=True, help="Gone when the broker starts again.")
@click.option("--auto-delete", is_flag=True, help="Gone with its last binding.")
@click.option("--internal", is_flag=True, help="For bindings only; clients may not publish to it.")
@exchange_argument_option
@management_command
def declare(
    client: ManagementClient,
    name: str,
    exchange_type: str,
    transient: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
) -> None:
    """Declare an exchange.

    TYPE is direct, fanout, topic, headers, x-delayed-message, x-consistent-hash, x-modulus-hash, x-random,
    x-local-random, or one of a plug-in.
    """
    client.put(
        "exchanges",
        client.vhost,
        name,
        body={
            "type": exchange_type,
            "durable": not transient,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": values_of(arguments, "--argument"),
        },
    )
    click.echo(f"{name}: declared")


@exchange.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-unused", is_flag=True, help="Only if nothing is bound to it.")
@management_command
def delete(client: ManagementClient, names: tuple[str, ...], if_unused: bool) -> int:
    """Delete exchanges and their bindings."""
    query = {"if-unused": "true"} if if_unused else {}

    def act(name: str) -> None:
        client.delete("exchanges", client.vhost, name, **query)
        click.echo(f"{name}: deleted")

    return each(names, "exchange", client, act)
