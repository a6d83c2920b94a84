"""``millpond amqp policy``: settings for all queues and exchanges whose names match."""

import click

from millpond.cli.management import (
    ManagementClient,
    Unwilling,
    management_command,
    shown_arguments,
    values_of,
)
from millpond.cli.output import Exit, complain, json_option, print_json, print_table

operator_option = click.option(
    "--operator", is_flag=True, help="An operator's: limits that users' policies cannot exceed."
)


@click.group()
def policy() -> None:
    """List, set and delete policies of AMQP's queues and exchanges."""


@policy.command("list")
@operator_option
@json_option
@management_command
def list_policies(client: ManagementClient, operator: bool, as_json: bool) -> None:
    """List the policies of a virtual host."""
    rows = client.get(_kind(operator), client.vhost)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Name", "Pattern", "Applies to", "Priority", "Definition"),
        [
            (
                row["name"],
                row["pattern"],
                row["apply-to"],
                row["priority"],
                shown_arguments(row["definition"]),
            )
            for row in sorted(rows, key=lambda row: -row["priority"])
        ],
    )


@policy.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("settings", metavar="SETTING=VALUE...", nargs=-1, required=True)
@click.option(
    "--apply-to",
    type=click.Choice(["all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"]),
    default="all",
    show_default=True,
)
@click.option("--priority", type=int, default=0, show_default=True, help="The highest counts.")
@operator_option
@management_command
def set_policy(
    client: ManagementClient,
    name: str,
    pattern: str,
    settings: tuple[str, ...],
    apply_to: str,
    priority: int,
    operator: bool,
) -> None:
    """Set a policy for names that match PATTERN.

    Queues that are there follow at once.

    \b
    millpond amqp policy set short '^work' max-length=1000 message-ttl=60000
    """
    client.put(
        _kind(operator),
        client.vhost,
        name,
        body={
            "pattern": pattern,
            "definition": values_of(settings, "SETTING=VALUE"),
            "priority": priority,
            "apply-to": apply_to,
        },
    )
    click.echo(f"{name}: set")


@policy.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@operator_option
@management_command
def delete(client: ManagementClient, names: tuple[str, ...], operator: bool) -> int:
    """Delete policies; queues that are there follow at once."""
    code = Exit.DONE
    for name in names:
        try:
            client.delete(_kind(operator), client.vhost, name)
            click.echo(f"{name}: deleted")
        except Unwilling as error:
            missing = f"there is no such policy {name} in virtual host {client.vhost}"
            complain(missing if error.status == 404 else f"{name}: {error}")
            code = Exit.REFUSED
    return code


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"
