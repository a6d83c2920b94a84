"""``millpond node``: the nodes of a cluster; give them a vote, empty them, take them out."""

import asyncio

import click

from millpond.cli.cluster import ANSWER_S_MAX, look, show
from millpond.cli.cluster_health import SILENT_MS_MAX, newest_observer, replaced_voters
from millpond.cli.cluster_view import NODE_COLUMNS, NodeView, node_json, node_row, node_table
from millpond.cli.moves import NoPlan, Plan, changes_only, drain_plan, unlead_plan, write_plan
from millpond.cli.moving import POLL_S, carry_out
from millpond.cli.node_quorum import reset_quorum
from millpond.cli.node_secret import secret
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
from millpond.client import Admin, BrokerRefused, Cluster, NoBroker, OutOfTime, QuorumReplica
from millpond.wire.kafka.api import ErrorCode

FENCED_WITHIN_S = 30.0
"""Longer than `broker.session.timeout.ms` (9 s), after which the controller fences a silent node."""

throttle_option = click.option(
    "--throttle",
    "throttle_bytes",
    type=click.IntRange(min=1024),
    default=None,
    metavar="BYTES",
    help="Bytes a second on each node.",
)
wait_option = click.option("--no-wait", "no_wait", is_flag=True, help="Begin, and do not wait.")


@click.group()
def node() -> None:
    """List, add, drain and remove the nodes of a cluster."""


node.add_command(secret)
node.add_command(reset_quorum)


@node.command("list")
@json_option
@broker_command
async def list_nodes(cluster: Cluster, as_json: bool) -> None:
    """List nodes: where they are, what they do, what they hold."""
    view = await look(Admin(cluster))
    if as_json:
        print_json([node_json(item) for item in view.nodes])
    elif is_terminal():
        show(node_table(view.nodes))
    else:
        print_table(NODE_COLUMNS, [node_row(item) for item in view.nodes])


@node.command()
@click.argument("node_id", type=click.IntRange(min=0))
@click.option(
    "--listener",
    default="PLAINTEXT",
    show_default=True,
    help="The name of the listener that the other voters reach it by.",
)
@click.option("--address", metavar="HOST:PORT", help="Where; default: the node's own address.")
@broker_command
async def add(cluster: Cluster, node_id: int, listener: str, address: str | None) -> int:
    """Give a running node of the cluster a vote in the quorum.

    Start the node first, with the cluster's id and voters in its settings: it follows the quorum by itself,
    and this makes it a voter. If its disk was replaced, this takes the vote of the old directory away and
    gives one to the new directory.
    """
    admin = Admin(cluster)
    quorum = await admin.describe_quorum()
    voter = _replica(quorum.voters, node_id)
    newcomer = newest_observer(quorum, node_id)
    if voter is not None:
        newcomer = replaced_voters(quorum).get(node_id)
        if newcomer is None:
            click.echo(f"node {node_id}: has a vote already, with directory {voter.directory_id}")
            if (other := newest_observer(quorum, node_id)) is not None:
                note(
                    f"directory {other.directory_id} has followed the quorum as node {node_id}, too: if the "
                    f"disk was replaced a moment ago, run this again in {SILENT_MS_MAX // 1000} seconds; if "
                    "not, a second process was started with this node.id: stop it"
                )
            return Exit.DONE
    if newcomer is None:
        complain(f"node {node_id} does not follow the quorum: start it first and let it catch up")
        return Exit.REFUSED
    info = await admin.describe_cluster(fenced=True)
    known = {broker.node_id: str(broker) for broker in info.brokers}
    where = address or known.get(node_id)
    if where is None:
        complain(f"node {node_id} is not registered: say where it listens with --address")
        return Exit.REFUSED
    if voter is not None:
        # One change at a time: sets of voters that differ by two could both find a majority.
        await admin.remove_voter(node_id, voter.directory_id, cluster_id=info.cluster_id)
        click.echo(f"node {node_id}: its old directory {voter.directory_id} has no vote any more")
    try:
        await admin.add_voter(
            node_id, newcomer.directory_id, {listener: where}, cluster_id=info.cluster_id
        )
    except (BrokerRefused, OutOfTime):
        complain(f"node {node_id} has no vote now: run `millpond node add {node_id}` again")
        raise
    click.echo(f"node {node_id}: votes now, at {where}, with directory {newcomer.directory_id}")
    return Exit.DONE


@node.command()
@click.argument("node_id", type=click.IntRange(min=0))
@click.option("--force", is_flag=True, help="Even if it still holds partitions or is running.")
@broker_command
async def remove(cluster: Cluster, node_id: int, force: bool) -> int:
    """Take a node out for good: its vote and its registration.

    Drain it and stop it first. What it still holds would be lost to the cluster, so that is refused unless
    --force says so.
    """
    admin = Admin(cluster)
    view = await look(admin)
    found = next((item for item in view.nodes if item.node_id == node_id), None)
    if found is None:
        complain(f"there is no node {node_id}")
        return Exit.REFUSED
    if not force and (reason := await _reason_to_keep(admin, found)):
        complain(reason)
        return Exit.REFUSED
    quorum = await admin.describe_quorum()
    voter = _replica(quorum.voters, node_id)
    if voter is not None:
        if len(quorum.voters) == 1:
            complain(f"node {node_id} is the only voter; add another first")
            return Exit.REFUSED
        await admin.remove_voter(node_id, voter.directory_id, cluster_id=view.cluster_id)
        click.echo(f"node {node_id}: has no vote any more")
    try:
        await admin.unregister_broker(node_id)
        click.echo(f"node {node_id}: unregistered")
    except BrokerRefused as refusal:
        if refusal.code != ErrorCode.BROKER_ID_NOT_REGISTERED:
            raise
    return Exit.DONE


async def _reason_to_keep(admin: Admin, found: NodeView) -> str | None:
    held = found.led + found.followed
    if held:
        return (
            f"node {found.node_id} still holds {held} partitions:"
            f" run `millpond node drain {found.node_id}` first, or give them up with --force"
        )
    if found.is_fenced or "broker" not in found.roles:
        return None
    if not await _is_stopped(admin, found.node_id):
        return f"node {found.node_id} is running: stop it first, or use --force"
    return None


async def _is_stopped(admin: Admin, node_id: int) -> bool:
    """Return whether the controller fences a node that does not answer. A node that has just been stopped is
    fenced a moment later at the nodes that are asked here."""
    try:
        await admin.describe_log_dirs(nodes=[node_id], timeout_s=ANSWER_S_MAX)
    except (OutOfTime, BrokerRefused, NoBroker):
        note(f"node {node_id} does not answer; waiting until the controller fences it ...")
    else:
        return False
    try:
        async with asyncio.timeout(FENCED_WITHIN_S):
            while True:
                if await _is_fenced(admin, node_id):
                    return True
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        return False


async def _is_fenced(admin: Admin, node_id: int) -> bool:
    info = await admin.describe_cluster(fenced=True)
    return all(broker.is_fenced for broker in info.brokers if broker.node_id == node_id)


@node.command()
@click.argument("node_id", type=click.IntRange(min=0))
@click.option("--leaders-only", is_flag=True, help="Move leaders away; replicas stay.")
@click.option(
    "--shrink", is_flag=True, help="Where no other node can take a replica, have one less."
)
@click.option("--dry-run", is_flag=True, help="Only show what would move.")
@throttle_option
@wait_option
@json_option
@broker_command
async def drain(
    cluster: Cluster,
    node_id: int,
    leaders_only: bool,
    shrink: bool,
    dry_run: bool,
    throttle_bytes: int | None,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Move all leaders and replicas away from a node.

    It can be taken out afterwards: `millpond node remove`.
    """
    admin = Admin(cluster)
    topics = await admin.list_topics(internal=True)
    info = await admin.describe_cluster(fenced=True)
    if node_id not in {broker.node_id for broker in info.brokers}:
        complain(f"there is no node {node_id}")
        return Exit.REFUSED
    try:
        plan = (
            unlead_plan(topics, node_id)
            if leaders_only
            else drain_plan(topics, info.brokers, node_id, shrink=shrink)
        )
    except NoPlan as error:
        complain(str(error))
        return Exit.REFUSED
    plan = changes_only(plan, topics) if not leaders_only else plan
    if dry_run or not plan:
        show_plan(plan, as_json=as_json)
        if not plan:
            note(f"node {node_id}: there is nothing to move")
        return Exit.DONE
    done = await carry_out(
        admin, plan, throttle_bytes=throttle_bytes, wait=not no_wait, timeout_s=None
    )
    if not no_wait:
        led = [place for place, replicas in plan.items() if replicas[0] != node_id]
        await admin.elect_leaders(led)
        click.echo(f"node {node_id}: {len(plan)} partitions moved away")
    return Exit.DONE if done else Exit.REFUSED


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """The wanted replicas of each partition."""
    if as_json:
        print_json(write_plan(plan))
    else:
        rows = [(str(place), ",".join(map(str, replicas))) for place, replicas in plan.items()]
        print_table(("Partition", "Replicas"), rows)


def _replica(replicas: tuple[QuorumReplica, ...], node_id: int) -> QuorumReplica | None:
    return next((item for item in replicas if item.node_id == node_id), None)
