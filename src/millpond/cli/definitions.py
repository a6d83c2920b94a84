"""``millpond amqp definitions``: users, virtual hosts, policies, exchanges, queues, bindings as one file.

The file is RabbitMQ's: what `rabbitmqctl export_definitions` wrote can be imported here, and the other way.
"""

import json
import sys
from pathlib import Path

import click

from millpond.cli.management import ManagementClient, management_command
from millpond.cli.output import Exit, complain

# What a file may hold, and what one of each is called.
_KINDS = {
    "users": "user",
    "vhosts": "vhost",
    "permissions": "permission",
    "topic_permissions": "topic permission",
    "parameters": "parameter",
    "policies": "policy",
    "exchanges": "exchange",
    "queues": "queue",
    "bindings": "binding",
}

only_option = click.option(
    "--only-vhost", is_flag=True, help="Only what is in the virtual host, without users."
)


@click.group()
def definitions() -> None:
    """Export and import all that is declared of AMQP, in RabbitMQ's format."""


@definitions.command("export")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default=Path("-"))
@only_option
@management_command
def export_definitions(client: ManagementClient, file: Path, only_vhost: bool) -> int:
    """Write the definitions to FILE, or to standard output."""
    place = ("definitions", client.vhost) if only_vhost else ("definitions",)
    document = client.get(*place)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if str(file) == "-":
        click.echo(text, nl=False)
        return Exit.DONE
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        complain(f"{file}: {error.strerror}")
        return Exit.REFUSED
    click.echo(f"{file}: {_summary(document)}")
    return Exit.DONE


@definitions.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@only_option
@management_command
def import_definitions(client: ManagementClient, file: Path, only_vhost: bool) -> int:
    """Add what FILE holds; what is there already stays. A mistake in it leaves everything as it was."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as error:
        complain(f"{file}: {error.strerror}")
        return Exit.REFUSED
    except ValueError as error:
        complain(f"{file}: not JSON: {error}")
        return Exit.REFUSED
    if not isinstance(document, dict):
        complain(f"{file}: definitions are a JSON object")
        return Exit.REFUSED
    place = ("definitions", client.vhost) if only_vhost else ("definitions",)
    client.post(*place, body=document)
    click.echo(f"{file}: imported {_summary(document)}")
    return Exit.DONE


def _summary(document: dict[str, list[object]]) -> str:
    counts = [
        f"{count} {kind if count != 1 else one}"
        for kind, one in _KINDS.items()
        if (count := len(document.get(kind) or ()))
    ]
    return ", ".join(counts).replace("_", " ") or "nothing"
