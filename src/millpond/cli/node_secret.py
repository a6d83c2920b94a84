"""``millpond node secret``: show the secret by which the nodes of a cluster know each other, or make one."""

import os
from pathlib import Path

import click

from millpond.base.errors import InvalidConfig
from millpond.cli.output import Exit, complain
from millpond.server.config import Given, Origin, load_settings
from millpond.server.failures import StartFailed
from millpond.server.secret import given_secret, new_secret


@click.command("secret")
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar="MILLPOND_CONFIG",
    metavar="FILE",
    help="The node's settings, as for `millpond up`.",
)
@click.option(
    "-d",
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The node's data directory.",
)
@click.option("--new", "is_new", is_flag=True, help="Make up a secret for a new cluster.")
def secret(file: Path | None, data: Path | None, *, is_new: bool) -> None:
    """Show the cluster secret of a node on this machine.

    Every node of a cluster needs the same one: write it to a file that only the node's user can read, and
    name that file in cluster.secret.file, or put it into the node's data directory as cluster.secret.
    """
    if is_new:
        click.echo(new_secret().text)
        return
    overrides = []
    if data is not None:
        overrides.append(Given("log.dirs", str(data), Origin.COMMAND_LINE, "--data"))
    try:
        settings = load_settings(file=file, environment=os.environ, overrides=overrides)
        found = given_secret(settings.values, settings.data)
    except (InvalidConfig, StartFailed) as error:
        complain(str(error))
        raise SystemExit(Exit.REFUSED) from None
    if found is None:
        complain(
            f"there is no cluster secret in {settings.data} nor in the settings; a node that is alone makes "
            "one at its first start, and for several nodes --new makes one up"
        )
        raise SystemExit(Exit.REFUSED)
    click.echo(found.text)
