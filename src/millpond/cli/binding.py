"""``millpond amqp binding``: which messages of an exchange go to which queue or exchange."""

from typing import Any

import click

from millpond.cli.management import (
    ManagementClient,
    binding_argument_option,
    management_command,
    shown_arguments,
    values_of,
)
from millpond.cli.output import Exit, complain, json_option, note, print_json, print_table


@click.group()
def binding() -> None:
    """List, add and remove bindings of AMQP's exchanges."""


@binding.command("list")
@json_option
@management_command
def list_bindings(client: ManagementClient, as_json: bool) -> None:
    """List the bindings of a virtual host.

    Those of the default exchange go without saying.
    """
    rows = [row for row in client.get("bindings", client.vhost) if row["source"]]
    if as_json:
        print_json(rows)
        return
    if not rows:
        note(
            "There are no bindings yet. Add one: millpond amqp binding add EXCHANGE QUEUE --key KEY"
        )
    print_table(
        ("From", "To", "Kind", "Routing key", "Arguments"),
        [
            (
                row["source"],
                row["destination"],
                row["destination_type"],
                row["routing_key"],
                shown_arguments(row["arguments"]),
            )
            for row in rows
        ],
    )


key_option = click.option("--key", "-k", default="", help="The routing key or pattern.")
to_exchange_option = click.option(
    "--to-exchange", is_flag=True, help="TARGET is an exchange, not a queue."
)


@binding.command()
@click.argument("source", metavar="EXCHANGE")
@click.argument("target")
@key_option
@to_exchange_option
@binding_argument_option
@management_command
def add(
    client: ManagementClient,
    source: str,
    target: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
) -> None:
    """Bind a queue (or an exchange) to an EXCHANGE."""
    body = {"routing_key": key, "arguments": values_of(arguments, "--argument")}
    client.post(*_place(client, source, target, to_exchange), body=body)
    click.echo(f"{source} -> {target}: bound")


@binding.command()
@click.argument("source", metavar="EXCHANGE")
@click.argument("target")
@key_option
@to_exchange_option
@binding_argument_option
@management_command
def remove(
    client: ManagementClient,
    source: str,
    target: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
) -> int:
    """Remove a binding; its key and arguments say which."""
    wanted = values_of(arguments, "--argument")
    place = _place(client, source, target, to_exchange)
    rows: list[dict[str, Any]] = client.get(*place)
    for row in rows:
        if row["routing_key"] == key and row["arguments"] == wanted:
            client.delete(*place, row["properties_key"])
            click.echo(f"{source} -> {target}: unbound")
            return Exit.DONE
    known = ", ".join(repr(row["routing_key"]) for row in rows)
    complain(
        f"{target} is not bound to {source} with key {key!r}"
        + (f"; keys that it is bound with: {known}" if known else "")
    )
    return Exit.REFUSED


def _place(
    client: ManagementClient, source: str, target: str, to_exchange: bool
) -> tuple[str, ...]:
    return "bindings", client.vhost, "e", source, "e" if to_exchange else "q", target
