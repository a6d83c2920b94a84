"""``millpond amqp user``: who may log in by AMQP and to its management, and what they may do."""

import click

from millpond.cli.management import ManagementClient, Unwilling, each, management_command
from millpond.cli.output import Exit, complain, json_option, print_json, print_table

_TAGS = ("administrator", "monitoring", "policymaker", "management")

new_password_option = click.option(
    "--new-password", default=None, help="Asked for if it is left out."
)


@click.group()
def user() -> None:
    """List, add and delete AMQP's users; passwords, tags and permissions."""


@user.command("list")
@json_option
@management_command
def list_users(client: ManagementClient, as_json: bool) -> None:
    """List users, their tags and what they may do in each virtual host."""
    users, permissions = client.get("users"), client.get("permissions")
    if as_json:
        print_json(
            [
                {
                    "name": one["name"],
                    "tags": _tags(one),
                    "permissions": [row for row in permissions if row["user"] == one["name"]],
                }
                for one in users
            ]
        )
        return
    rows: list[tuple[str, ...]] = []
    for one in users:
        mine = [row for row in permissions if row["user"] == one["name"]]
        tags = ", ".join(_tags(one))
        rows += [
            (one["name"], tags, row["vhost"], row["configure"], row["write"], row["read"])
            for row in mine
        ] or [(one["name"], tags, "", "", "", "")]
    print_table(("Name", "Tags", "Virtual host", "Configure", "Write", "Read"), rows)


@user.command()
@click.argument("name")
@new_password_option
@click.option("--tag", "tags", type=click.Choice(_TAGS), multiple=True, help="May be repeated.")
@management_command
def add(
    client: ManagementClient, name: str, new_password: str | None, tags: tuple[str, ...]
) -> int:
    """Add a user, who may do nothing until `user permit` says so."""
    if name in {row["name"] for row in client.get("users")}:
        complain(
            f"there is a user {name} already; `millpond amqp user passwd` changes the password"
        )
        return Exit.REFUSED
    body = {"password": _asked(new_password), "tags": ",".join(tags)}
    client.put("users", name, body=body)
    click.echo(f"{name}: added; let it in: millpond amqp user permit {name}")
    return Exit.DONE


@user.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@management_command
def delete(client: ManagementClient, names: tuple[str, ...]) -> int:
    """Delete users; their connections are closed."""

    def act(name: str) -> None:
        client.delete("users", name)
        click.echo(f"{name}: deleted")

    return each(names, "user", client, act)


@user.command()
@click.argument("name")
@new_password_option
@management_command
def passwd(client: ManagementClient, name: str, new_password: str | None) -> int:
    """Give a user another password."""

    def act(of: str) -> None:
        tags = ",".join(_tags(client.get("users", of)))
        client.put("users", of, body={"password": _asked(new_password), "tags": tags})
        click.echo(f"{of}: has a new password")

    return each([name], "user", client, act)


@user.command()
@click.argument("name")
@click.argument("tags", metavar="[TAG...]", nargs=-1, type=click.Choice(_TAGS))
@management_command
def tags(client: ManagementClient, name: str, tags: tuple[str, ...]) -> int:
    """Give a user these tags and no others."""

    def act(of: str) -> None:
        known = client.get("users", of)
        client.put(
            "users",
            of,
            body={
                "password_hash": known["password_hash"],
                "hashing_algorithm": known["hashing_algorithm"],
                "tags": ",".join(tags),
            },
        )
        click.echo(f"{of}: {', '.join(tags) or 'no tags'}")

    return each([name], "user", client, act)


@user.command()
@click.argument("name")
@click.option("--configure", default=".*", show_default=True, help="Names it may declare.")
@click.option("--write", default=".*", show_default=True, help="Names it may publish to.")
@click.option("--read", default=".*", show_default=True, help="Names it may read from.")
@click.option("--none", is_flag=True, help="Take away all it may do in the virtual host.")
@management_command
def permit(
    client: ManagementClient, name: str, configure: str, write: str, read: str, none: bool
) -> int:
    """Say what a user may do in a virtual host.

    Each pattern is a regular expression of names.
    """
    try:
        if none:
            client.delete("permissions", client.vhost, name)
        else:
            body = {"configure": configure, "write": write, "read": read}
            client.put("permissions", client.vhost, name, body=body)
    except Unwilling as error:
        if error.status == 404 or str(error) == "vhost_or_user_not_found":
            complain(f"there is no user {name}, or no virtual host {client.vhost}")
            return Exit.REFUSED
        raise
    click.echo(f"{name}: {'may do nothing' if none else 'permitted'} in {client.vhost}")
    return Exit.DONE


def _asked(password: str | None) -> str:
    if password is not None:
        return password
    asked: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return asked


def _tags(row: dict[str, object]) -> list[str]:
    """A list, or words with commas between them; RabbitMQ has written both."""
    value = row["tags"]
    if isinstance(value, list):
        return [str(tag) for tag in value]
    return [tag for tag in str(value).split(",") if tag]
