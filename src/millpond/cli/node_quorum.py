"""``millpond node reset-quorum``: bring back a quorum that was led to the end of its epochs."""

import shutil
from pathlib import Path

import click

from millpond.base.errors import MillpondError
from millpond.cli.output import Exit, complain
from millpond.engine.quorum.quorum_reset import DIRECTORY, quorum_state, reset_epochs
from millpond.log.file_storage import FileStorage
from millpond.raft.epochs import EPOCH_MAX, is_near_end
from millpond.server.clock import SystemClock
from millpond.server.protocols import record_families


@click.command("reset-quorum")
@click.option(
    "-d",
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    metavar="DIR",
    help="The data directory of a node that is stopped.",
)
@click.option("--dry-run", is_flag=True, help="Only show how far this node's metadata goes.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Even if the epochs are far from their end.")
def reset_quorum(data: Path, *, dry_run: bool, yes: bool, force: bool) -> None:
    """Begin the epochs of the quorum again.

    For a cluster whose nodes say that the quorum has used up its epochs, and only for that: it is refused
    where they are far from the end. Stop every node of the cluster. Run this with --dry-run on each; then on
    the one with the highest last epoch, and of those with the same, the highest offset. Copy its directory
    __cluster_metadata-0 over that of every other node, and start all of them.
    """
    storage, clock, families = FileStorage(data), SystemClock(), record_families()
    try:
        found = quorum_state(storage, clock, families)
        click.echo(
            f"last epoch {found.last_epoch}, offset {found.end_offset} (the newest epoch that the node has "
            f"heard of is {found.epoch} of {EPOCH_MAX})"
        )
        if dry_run:
            return
        if not is_near_end(found.epoch) and not force:
            complain(
                "the epochs are far from the end: there is nothing to reset here. If the other nodes of the "
                "cluster say that the quorum has used up its epochs, and this one has the highest last epoch "
                "and offset, use --force"
            )
            raise SystemExit(Exit.REFUSED)
        if not yes:
            click.confirm("Is every node of the cluster stopped?", abort=True)
        kept = _keep(data)
        reset_epochs(storage, clock, families)
    except (MillpondError, OSError) as error:
        complain(str(error))
        raise SystemExit(Exit.REFUSED) from None
    click.echo(
        f"epochs begin again; what was there before is kept in {kept}: delete it when all nodes run again "
        "and `millpond cluster status` is healthy"
    )
    click.echo(
        f"now put a copy of {data / DIRECTORY} in the place of every other node's, then start"
    )


def _keep(data: Path) -> Path:
    """A copy of the directory, under a name that nodes leave alone."""
    number = 0
    while (kept := data / f"{DIRECTORY}.before-reset-{number}-stray").exists():
        number += 1
    shutil.copytree(data / DIRECTORY, kept)
    return kept
