"""``millpond amqp vhost``: virtual hosts, each with exchanges, queues and permissions of its own."""

import click

from millpond.cli.management import ManagementClient, each, management_command
from millpond.cli.output import Exit, is_meant, json_option, print_json, print_table, yes_option


@click.group()
def vhost() -> None:
    """List, add and delete AMQP's virtual hosts."""


@vhost.command("list")
@json_option
@management_command
def list_vhosts(client: ManagementClient, as_json: bool) -> None:
    """List the virtual hosts that the user may look into."""
    rows = client.get("vhosts")
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Name", "Messages", "Description"),
        [(row["name"], row.get("messages", 0), row.get("description", "")) for row in rows],
    )


@vhost.command()
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@click.option(
    "--queue-type",
    type=click.Choice(["classic", "quorum", "stream"]),
    default=None,
    help="What queues are that do not say it.",
)
@management_command
def add(client: ManagementClient, name: str, description: str, queue_type: str | None) -> None:
    """Add a virtual host; the user who adds it gets all permissions in it."""
    body = {"description": description}
    if queue_type is not None:
        body["default_queue_type"] = queue_type
    client.put("vhosts", name, body=body)
    click.echo(f"{name}: added")


@vhost.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@yes_option
@management_command
def delete(client: ManagementClient, names: tuple[str, ...], yes: bool) -> int:
    """Delete virtual hosts with all queues and messages in them. Asks first on a terminal."""
    if not yes and not is_meant(f"Delete {', '.join(names)} with all queues and messages?"):
        return Exit.REFUSED

    def act(name: str) -> None:
        client.delete("vhosts", name)
        click.echo(f"{name}: deleted")

    return each(names, "vhost", client, act)
