"""``millpond cluster``: what the nodes of a cluster are doing."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from millpond.base.ids import TopicPartition
from millpond.cli.cluster_health import Levels, Told
from millpond.cli.cluster_view import (
    NODE_COLUMNS,
    ClusterView,
    headline,
    health_rows,
    node_row,
    picture,
    problem_lines,
    to_json,
    view_of,
)
from millpond.cli.feature_view import RAISED_BY_UPGRADE, feature_rows
from millpond.cli.output import (
    Exit,
    broker_command,
    complain,
    is_terminal,
    json_option,
    note,
    print_json,
    print_table,
)
from millpond.client import (
    Admin,
    BrokerRefused,
    Cluster,
    ClusterInfo,
    LogDirInfo,
    NoBroker,
    OutOfTime,
    QuorumInfo,
    Reassignment,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

MINIMUM = "min.insync.replicas"
# How long to wait for the leader of the quorum, and for each node, before there is no answer. In an outage a
# look takes as long: all are asked at once.
ANSWER_S_MAX = 3.5


@click.group()
def cluster() -> None:
    """Show the nodes, the quorum and the health of a cluster."""


@cluster.command()
@click.option("--watch", "-w", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often with --watch.",
)
@json_option
@broker_command
async def status(cluster: Cluster, watch: bool, every_s: float, as_json: bool) -> int:
    """Show nodes, leaders, replicas that lag, partitions in trouble.

    Ends with 0 when every partition is led, every replica is there and in sync, every node is heard of, every
    voter votes and no record is known to be damaged; with 1 otherwise. With --watch it goes on until Ctrl-C.
    """
    admin = Admin(cluster)
    if watch:
        await _watch(admin, every_s=every_s, as_json=as_json)
    view = await look(admin)
    _show(view, as_json=as_json)
    return Exit.DONE if view.is_healthy else Exit.REFUSED


@cluster.command()
@json_option
@broker_command
async def features(cluster: Cluster, as_json: bool) -> None:
    """Show features: the level in force and what each node can."""
    rows = await feature_rows(Admin(cluster))
    if as_json:
        print_json([row.to_json() for row in rows])
        return
    print_table(
        ("Feature", "Level", "Nodes can"), [(row.name, str(row.level), row.told) for row in rows]
    )


@cluster.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be raised.")
@broker_command
async def upgrade(cluster: Cluster, dry_run: bool) -> int:
    """Finish a rolling upgrade.

    From then on the cluster uses what only the new version knows, and no node can go back to the old one. Run
    it when every node runs the new version and all is well.
    """
    admin = Admin(cluster)
    raised = 0
    for row in await feature_rows(admin):
        if row.name not in RAISED_BY_UPGRADE:
            continue
        if row.lacking:
            complain(
                f"{row.name}: node {row.lacking[0]} does not know it: it runs an older version of "
                "Millpond; upgrade it first, or `millpond node remove` it"
            )
            return Exit.REFUSED
        if row.common <= row.level:
            note(f"{row.name}: at {row.level}, nothing to do")
            continue
        await admin.update_features({row.name: row.common}, validate_only=dry_run)
        click.echo(f"{row.name}: {row.level} -> {row.common}{' (not done)' if dry_run else ''}")
        raised += 1
    if raised and not dry_run:
        note("the cluster works at its new level; nodes of the old version are not let in any more")
    return Exit.DONE


async def look(admin: Admin) -> ClusterView:
    """Everything about the cluster, freshly asked. What seems to be shut off is looked at twice: topics come
    and go between two questions."""
    view = view_of(await _told(admin))
    if view.names_of("replica shut off"):
        view = view_of(await _told(admin))
    return view


async def _told(admin: Admin) -> Told:
    info = await admin.describe_cluster(fenced=True)
    up = [broker.node_id for broker in info.brokers if not broker.is_fenced]
    topics = await admin.list_topics(internal=True)
    settings = await admin.describe_topic_setting([topic.name for topic in topics], MINIMUM)
    # The quorum last: a node that looks for its leader answers nothing else on the connection meanwhile.
    info, log_dirs, levels, (quorum, moving) = await asyncio.gather(
        _with_fencings(admin, info),
        asyncio.gather(*(_log_dirs(admin, node) for node in up)),
        _levels(admin, up),
        _quorum_and_moves(admin),
    )
    return Told(
        info=info,
        quorum=quorum,
        topics=tuple(topics),
        minimums={name: int(value) for name, value in settings.items() if value},
        moving=moving,
        log_dirs=dict(zip(up, log_dirs, strict=True)),
        levels=levels,
    )


async def _with_fencings(admin: Admin, info: ClusterInfo) -> ClusterInfo:
    """Add why nodes are fenced, which the active controller knows; without that if it does not answer."""
    if not any(broker.is_fenced for broker in info.brokers):
        return info
    try:
        told = await admin.describe_cluster(info.controller_id, fenced=True, timeout_s=ANSWER_S_MAX)
    except (OutOfTime, BrokerRefused, NoBroker):
        return info
    fencings = {broker.node_id: broker.fencing for broker in told.brokers}
    brokers = (replace(one, fencing=fencings.get(one.node_id)) for one in info.brokers)
    return replace(info, brokers=tuple(brokers))


async def _quorum_and_moves(
    admin: Admin,
) -> tuple[QuorumInfo, dict[TopicPartition, Reassignment]]:
    quorum = await _quorum(admin)
    return quorum, await admin.list_reassignments() if quorum.leader_id >= 0 else {}


async def _log_dirs(admin: Admin, node: int) -> Sequence[LogDirInfo] | None:
    """The directories of a node; nothing if it does not tell."""
    try:
        return await admin.describe_log_dirs(nodes=[node], offline=True, timeout_s=ANSWER_S_MAX)
    except (OutOfTime, BrokerRefused, NoBroker):
        return None


async def _levels(admin: Admin, nodes: Sequence[int]) -> tuple[Levels, ...]:
    """Return the features that an upgrade raises; none if a node does not tell its own."""
    try:
        rows = await feature_rows(admin, nodes, timeout_s=ANSWER_S_MAX)
    except (OutOfTime, BrokerRefused, NoBroker):
        return ()
    return tuple(
        Levels(
            name=row.name,
            level=row.level,
            highest={
                **{node: highest for node, (_lowest, highest) in row.ranges.items()},
                **dict.fromkeys(row.lacking, 0),
            },
        )
        for row in rows
        if row.name in RAISED_BY_UPGRADE
    )


async def _quorum(admin: Admin) -> QuorumInfo:
    """The quorum; one without a leader if no node answers for it in time."""
    try:
        return await admin.describe_quorum(timeout_s=ANSWER_S_MAX)
    except (OutOfTime, BrokerRefused):
        return QuorumInfo(leader_id=-1, leader_epoch=-1, high_watermark=-1, voters=(), observers=())


def show(drawn: "RenderableType") -> None:
    """On the terminal."""
    from rich.console import Console

    Console().print(drawn)


def _show(view: ClusterView, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(view))
    elif is_terminal():
        show(picture(view))
    else:
        click.echo(headline(view))
        print_table(NODE_COLUMNS, [node_row(node) for node in view.nodes])
        for name, count, names in health_rows(view):
            click.echo(f"{name}\t{count}\t{names}")
        for line in problem_lines(view):
            click.echo(line)


async def _watch(admin: Admin, *, every_s: float, as_json: bool) -> None:
    """Until Ctrl-C. A cluster that does not answer for a while is part of the picture."""
    if as_json or not is_terminal():
        while True:
            _show(await look(admin), as_json=as_json)
            await asyncio.sleep(every_s)
    from rich.console import Group, RenderableType
    from rich.live import Live
    from rich.text import Text

    with Live(Text("looking ..."), auto_refresh=False, screen=False) as live:
        shown: RenderableType = Text("")
        while True:
            try:
                shown = picture(await look(admin))
                live.update(shown, refresh=True)
            except (NoBroker, OutOfTime, BrokerRefused) as error:
                trouble = Text(f"no answer: {error}", style="bold red")
                live.update(Group(trouble, shown), refresh=True)
            await asyncio.sleep(every_s)
