"""``millpond partition``: who leads and holds each partition; move them, elect leaders."""

from typing import IO

import click

from millpond.base.ids import TopicPartition
from millpond.cli.moves import (
    NoPlan,
    Plan,
    changes_only,
    check_places,
    parse_places,
    read_plan,
    spread_plan,
)
from millpond.cli.moving import carry_out, clear_throttle
from millpond.cli.node import show_plan, throttle_option, wait_option
from millpond.cli.output import (
    Exit,
    broker_command,
    complain,
    json_option,
    note,
    print_json,
    print_table,
)
from millpond.client import Admin, BrokerRefused, Cluster, ElectionType, TopicInfo
from millpond.wire.kafka.api import ErrorCode


@click.group()
def partition() -> None:
    """List partitions, move their replicas, elect their leaders."""


_COLUMNS = ("Partition", "Leader", "Epoch", "Replicas", "In sync", "State")


@partition.command("list")
@click.argument("names", metavar="[TOPIC[:NUMBERS]]...", nargs=-1)
@click.option("--internal", is_flag=True, help="The broker's own topics too.")
@click.option("--unhealthy", is_flag=True, help="Only those that are not as they should be.")
@json_option
@broker_command
async def list_partitions(
    cluster: Cluster, names: tuple[str, ...], internal: bool, unhealthy: bool, as_json: bool
) -> int:
    """Show leader, replicas and in-sync replicas of partitions."""
    admin = Admin(cluster)
    topics = await _chosen(admin, names, internal=internal)
    moving = await admin.list_reassignments()
    rows = []
    for topic in topics:
        for item in topic.partitions:
            place = TopicPartition(topic.name, item.partition)
            states = []
            if item.leader < 0:
                states.append("offline")
            if len(item.in_sync) < len(item.replicas):
                states.append("under-replicated")
            if item.leader >= 0 and item.replicas and item.leader != item.replicas[0]:
                states.append("not the preferred leader")
            if place in moving:
                states.append(f"moving (adds {_numbers(moving[place].adding) or 'none'})")
            if states or not unhealthy:
                rows.append((place, item, states))
    if as_json:
        print_json(
            [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "leader": item.leader,
                    "leader_epoch": item.leader_epoch,
                    "replicas": list(item.replicas),
                    "in_sync": list(item.in_sync),
                    "offline_replicas": list(item.offline),
                    "states": states,
                }
                for place, item, states in rows
            ]
        )
    else:
        print_table(
            _COLUMNS,
            [
                (
                    str(place),
                    item.leader if item.leader >= 0 else "none",
                    item.leader_epoch,
                    _numbers(item.replicas),
                    _numbers(item.in_sync),
                    ", ".join(states) or "ok",
                )
                for place, item, states in rows
            ],
        )
    return Exit.DONE


@partition.command()
@click.argument("names", metavar="[TOPIC[:NUMBERS]]...", nargs=-1)
@click.option(
    "--to",
    "nodes",
    metavar="NODE,NODE",
    help="To these nodes, each preferred leader in turn.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --to: how many replicas.",
)
@click.option(
    "--plan",
    "file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="JSON as of kafka-reassign-partitions.",
)
@click.option("--cancel", is_flag=True, help="Stop these moves (none named: all).")
@click.option("--unthrottle", is_flag=True, help="Take back what --throttle has set.")
@click.option("--dry-run", is_flag=True, help="Only show what would move.")
@throttle_option
@wait_option
@click.option(
    "--timeout-move",
    "move_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Longest wait for the moves. Default: none.",
)
@json_option
@broker_command
async def reassign(
    cluster: Cluster,
    names: tuple[str, ...],
    nodes: str | None,
    replication_factor: int | None,
    file: IO[str] | None,
    cancel: bool,
    unthrottle: bool,
    dry_run: bool,
    throttle_bytes: int | None,
    no_wait: bool,
    move_s: float | None,
    as_json: bool,
) -> int:
    """Move partitions to other nodes, and show how far it is.

    They are written and read meanwhile. If one is not there, nothing is moved.

    \b
    millpond partition reassign orders --to 2,3,4 --throttle 50000000
    millpond partition reassign orders:0-3 --to 1,2 --dry-run --json > plan.json
    millpond partition reassign --plan plan.json
    """
    if sum((nodes is not None, file is not None, cancel, unthrottle)) != 1:
        raise click.UsageError("give one of --to, --plan, --cancel and --unthrottle")
    admin = Admin(cluster)
    if cancel:
        return await _cancel(admin, names)
    topics = await admin.list_topics(internal=True)
    if unthrottle:
        info = await admin.describe_cluster()
        await clear_throttle(
            admin, {topic.name for topic in topics}, {broker.node_id for broker in info.brokers}
        )
        return Exit.DONE
    try:
        plan = await _plan(admin, names, nodes, replication_factor, file)
        check_places(plan, topics)
    except NoPlan as error:
        complain(f"{error}; nothing is moved")
        return Exit.REFUSED
    plan = changes_only(plan, topics)
    if dry_run or not plan:
        show_plan(plan, as_json=as_json)
        if not plan:
            note("all of it is so already")
        return Exit.DONE
    try:
        done = await carry_out(
            admin, plan, throttle_bytes=throttle_bytes, wait=not no_wait, timeout_s=move_s
        )
    except TimeoutError:
        complain(f"not all have arrived in {move_s:g} s; the moves go on")
        return Exit.REFUSED
    return Exit.DONE if done else Exit.REFUSED


async def _plan(
    admin: Admin,
    names: tuple[str, ...],
    nodes: str | None,
    replication_factor: int | None,
    file: IO[str] | None,
) -> Plan:
    if file is not None:
        return read_plan(file.read())
    assert nodes is not None
    if not names:
        raise NoPlan("say which partitions: TOPIC, TOPIC:0 or TOPIC:0,1")
    try:
        targets = [int(number) for number in nodes.split(",")]
    except ValueError:
        raise NoPlan(f"--to {nodes}: write numbers of nodes with commas between them") from None
    info = await admin.describe_cluster()
    try:
        chosen = await _chosen(admin, names, internal=True)
    except BrokerRefused as refusal:
        raise NoPlan(str(refusal)) from None
    return spread_plan(chosen, info.brokers, targets, replication_factor=replication_factor)


async def _cancel(admin: Admin, names: tuple[str, ...]) -> int:
    chosen = parse_places(names)
    moving = [
        place
        for place in await admin.list_reassignments()
        if not names or _is_chosen(chosen, place.topic, place.partition)
    ]
    if not moving:
        note("nothing is being moved")
        return Exit.DONE
    code = Exit.DONE
    for place, refusal in (await admin.alter_reassignments(dict.fromkeys(moving))).items():
        if refusal is None:
            click.echo(f"{place}: stays where it was")
        else:
            complain(str(refusal))
            code = Exit.REFUSED
    return code


@partition.command()
@click.argument("names", metavar="[TOPIC[:NUMBERS]]...", nargs=-1)
@click.option(
    "--unclean",
    is_flag=True,
    help="Where no replica in sync is alive: elect any that is. Loses what only the others had.",
)
@broker_command
async def elect(cluster: Cluster, names: tuple[str, ...], unclean: bool) -> int:
    """Elect the preferred leaders, of all partitions or of those named.

    The preferred leader is the first of the replicas.
    """
    admin = Admin(cluster)
    places = None
    if names:
        places = [
            TopicPartition(topic.name, item.partition)
            for topic in await _chosen(admin, names, internal=True)
            for item in topic.partitions
        ]
    elif unclean:
        raise click.UsageError("name the partitions that may lose records")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    code = Exit.DONE
    elected = 0
    for place, refusal in (await admin.elect_leaders(places, kind=kind)).items():
        if refusal is None:
            elected += 1
            click.echo(f"{place}: elected")
        elif refusal.code != ErrorCode.ELECTION_NOT_NEEDED:
            complain(str(refusal))
            code = Exit.REFUSED
    if not elected and code == Exit.DONE:
        note("every partition is led as it should be")
    return code


async def _chosen(admin: Admin, names: tuple[str, ...], *, internal: bool) -> list[TopicInfo]:
    """Topics with only the partitions that were named; a name that is not there is an error."""
    try:
        chosen = parse_places(names)
    except NoPlan as error:
        raise click.UsageError(str(error)) from None
    topics = await admin.list_topics(internal=internal or bool(names))
    known = {topic.name: topic for topic in topics}
    for name, numbers in chosen.items():
        if name not in known:
            raise BrokerRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=name)
        there = {item.partition for item in known[name].partitions}
        if strangers := (numbers or set()) - there:
            raise BrokerRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"{name}-{min(strangers)}"
            )
    if not names:
        return topics
    return [
        TopicInfo(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=tuple(
                item for item in topic.partitions if _is_chosen(chosen, topic.name, item.partition)
            ),
        )
        for topic in topics
        if topic.name in chosen
    ]


def _is_chosen(chosen: dict[str, set[int] | None], topic: str, number: int) -> bool:
    if topic not in chosen:
        return False
    numbers = chosen[topic]
    return numbers is None or number in numbers


def _numbers(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
