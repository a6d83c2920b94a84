"""``millpond amqp queue``: AMQP's queues and their messages."""

import base64
import binascii
import json
import sys
from collections.abc import Iterable
from difflib import get_close_matches

import click

from millpond.cli.management import (
    ManagementClient,
    Unwilling,
    each,
    management_command,
    queue_argument_option,
    shown_arguments,
    values_of,
)
from millpond.cli.output import (
    Exit,
    complain,
    is_meant,
    is_terminal,
    json_option,
    note,
    print_json,
    print_table,
    yes_option,
)
from millpond.rabbit.arguments import COMPARED

_COLUMNS = ("Name", "Type", "Ready", "Unacked", "Lost", "Consumers", "Policy", "Arguments", "Topic")


@click.group()
def queue() -> None:
    """List, declare, delete, purge, read and write AMQP's queues."""


@queue.command("list")
@json_option
@management_command
def list_queues(client: ManagementClient, as_json: bool) -> None:
    """List the queues of a virtual host, with how much is in them."""
    rows = client.get("queues", client.vhost)
    if as_json:
        print_json(rows)
        return
    if not rows:
        note("There are no queues yet. Declare one: millpond amqp queue declare NAME")
    lines = [
        (
            row["name"],
            row.get("type", "classic"),
            row.get("messages_ready", 0),
            row.get("messages_unacknowledged", 0),
            # A RabbitMQ does not say.
            row.get("messages_lost", ""),
            row.get("consumers", 0),
            row.get("policy") or "",
            json.dumps(row["arguments"]) if row["arguments"] else "",
            # A RabbitMQ has none.
            row.get("topic", ""),
        )
        for row in rows
    ]
    if not is_terminal():
        print_table(_COLUMNS, lines)
        return
    # Arguments are longer than a terminal leaves room for; the type has a column of its own.
    print_table((*_COLUMNS[:-2], _COLUMNS[-1]), [(*line[:-2], line[-1]) for line in lines])
    for row in rows:
        told = {name: value for name, value in row["arguments"].items() if name != "x-queue-type"}
        if told:
            click.echo(f"  {row['name']}: {shown_arguments(told, between=', ')}")


@queue.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--type",
    "queue_type",
    type=click.Choice(["classic", "quorum", "stream"]),
    default=None,
    help="Default: the virtual host's.",
)
@click.option("--transient", is_flag=True, help="Gone when the broker starts again.")
@click.option("--auto-delete", is_flag=True, help="Gone with its last consumer.")
@queue_argument_option
@management_command
def declare(
    client: ManagementClient,
    names: tuple[str, ...],
    queue_type: str | None,
    transient: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
) -> int:
    """Declare queues; one that is there already must be the same."""
    wanted = values_of(arguments, "--argument")
    if queue_type is not None:
        wanted["x-queue-type"] = queue_type
    _note_typos(wanted)
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": wanted}

    def act(name: str) -> None:
        client.put("queues", client.vhost, name, body=body)
        click.echo(f"{name}: declared{_topic_of(client, name)}")

    return each(names, "queue", client, act, are_new=True)


def _topic_of(client: ManagementClient, name: str) -> str:
    """Which topic holds the messages of a queue, and why that is not the topic of the same name."""
    try:
        topic = client.get("queues", client.vhost, name).get("topic")
    except Unwilling:
        return ""
    if not topic:
        return ""
    if topic != name and client.vhost == "/":
        note(
            f"The messages of queue {name} are in topic {topic}, apart from those of topic {name}: a queue "
            "gets the topic of its own name only if there is none yet. To read a topic that is there, "
            "declare a stream: --type stream --argument x-millpond-topic=TOPIC"
        )
    return f" (topic {topic})"


def _note_typos(names: Iterable[str]) -> None:
    """Unknown arguments are kept without effect, as RabbitMQ does: say so of one that looks mistyped."""
    for name in names:
        near = [] if name in COMPARED else get_close_matches(name, COMPARED, n=1, cutoff=0.8)
        if near:
            note(f"{name} has no effect: it is no argument of queues. Did you mean {near[0]}?")


@queue.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-unused", is_flag=True, help="Only if it has no consumers.")
@click.option("--if-empty", is_flag=True, help="Only if it has no messages.")
@yes_option
@management_command
def delete(
    client: ManagementClient, names: tuple[str, ...], if_unused: bool, if_empty: bool, yes: bool
) -> int:
    """Delete queues and the messages in them. Asks first on a terminal."""
    if not yes and not is_meant(f"Delete {', '.join(names)} with all messages?"):
        return Exit.REFUSED
    query = {}
    if if_unused:
        query["if-unused"] = "true"
    if if_empty:
        query["if-empty"] = "true"

    def act(name: str) -> None:
        client.delete("queues", client.vhost, name, **query)
        click.echo(f"{name}: deleted")

    return each(names, "queue", client, act)


@queue.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@yes_option
@management_command
def purge(client: ManagementClient, names: tuple[str, ...], yes: bool) -> int:
    """Throw away the messages that are ready in queues. Asks first on a terminal."""
    if not yes and not is_meant(f"Throw away all messages that are ready in {', '.join(names)}?"):
        return Exit.REFUSED

    def act(name: str) -> None:
        client.delete("queues", client.vhost, name, "contents")
        click.echo(f"{name}: purged")

    return each(names, "queue", client, act)


@queue.command()
@click.argument("name")
@click.option("--count", "-n", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--take", is_flag=True, help="Take them out; without it they go back to their places."
)
@json_option
@management_command
def get(client: ManagementClient, name: str, count: int, take: bool, as_json: bool) -> int:
    """Show the first messages of a queue. Those that go back are marked as redelivered."""
    mode = "ack_requeue_false" if take else "ack_requeue_true"
    body = {"count": count, "ackmode": mode, "encoding": "auto"}
    messages: list[dict[str, object]] = []

    def act(of: str) -> None:
        messages.extend(client.post("queues", client.vhost, of, "get", body=body))

    code = each([name], "queue", client, act)
    if as_json and not code:
        print_json(messages)
    elif not code:
        if not messages:
            note(f"{name} is empty.")
        for message in messages:
            sys.stdout.buffer.write(_payload(message) + b"\n")
            sys.stdout.buffer.flush()
    return code


def _payload(message: dict[str, object]) -> bytes:
    payload = str(message["payload"])
    if message["payload_encoding"] == "base64":
        try:
            return base64.b64decode(payload)
        except binascii.Error:
            return payload.encode()
    return payload.encode()


@queue.command()
@click.argument("name")
@click.argument("message", required=False)
@click.option("--exchange", default="", help="Publish there, with NAME as the routing key.")
@click.option("--transient", is_flag=True, help="It need not survive the broker's end.")
@click.option(
    "--header", "-H", "headers", metavar="NAME=VALUE", multiple=True, help="May be repeated."
)
@click.option(
    "--property",
    "-p",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    help="Such as content_type=text/plain or expiration=60000.",
)
@management_command
def publish(
    client: ManagementClient,
    name: str,
    message: str | None,
    exchange: str,
    transient: bool,
    headers: tuple[str, ...],
    properties: tuple[str, ...],
) -> int:
    """Publish one MESSAGE to a queue, or what standard input has.

    \b
    millpond amqp queue publish work hello
    millpond amqp queue publish order.new --exchange events < order.json
    """
    data = sys.stdin.buffer.read() if message is None else message.encode()
    given: dict[str, object] = {"delivery_mode": 1 if transient else 2}
    for key, value in values_of(properties, "--property").items():
        is_number = key in {"delivery_mode", "priority", "timestamp"}
        given[key] = value if is_number else str(value)
    if headers:
        given["headers"] = values_of(headers, "--header")
    answer = client.post(
        "exchanges",
        client.vhost,
        exchange or "amq.default",
        "publish",
        body={
            "routing_key": name,
            "properties": given,
            "payload": base64.b64encode(data).decode(),
            "payload_encoding": "base64",
        },
    )
    if answer["routed"]:
        click.echo(f"{name}: published")
        return Exit.DONE
    why = (
        f"exchange {exchange} has no binding that takes it with the key {name}"
        if exchange
        else f"there is no queue {name}"
    )
    complain(f"no queue of virtual host {client.vhost} got the message: {why}")
    return Exit.REFUSED
