"""``millpond kafka topic``: create, list, describe, alter and delete topics of any Kafka-protocol broker."""

from collections.abc import Sequence

import click

from millpond.base.ids import TopicPartition
from millpond.cli.formats import parse_pairs
from millpond.cli.output import (
    Exit,
    broker_command,
    complain,
    explained,
    human_bytes,
    is_meant,
    is_terminal,
    json_option,
    note,
    print_json,
    print_table,
    yes_option,
)
from millpond.client import (
    EARLIEST,
    LATEST,
    Admin,
    BrokerRefused,
    Cluster,
    ConfigEntry,
    NewTopic,
    OffsetAt,
    TopicInfo,
)
from millpond.wire.kafka.api import ErrorCode


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--partitions", type=click.IntRange(min=1), default=None, help="Default: the broker's."
)
@click.option(
    "--replication-factor", type=click.IntRange(min=1), default=None, help="Default: the broker's."
)
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="A topic setting.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@click.option("--dry-run", is_flag=True, help="Only check whether it would work.")
@json_option
@broker_command
async def create(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create topics.

    \b
    millpond kafka topic create orders --partitions 6 --config retention.ms=60000
    """
    settings = dict(parse_pairs(configs, "--config"))
    outcomes = await Admin(cluster).create_topics(
        [
            NewTopic(
                name=name,
                partitions=partitions or -1,
                replication_factor=replication_factor or -1,
                configs=settings,
            )
            for name in names
        ],
        validate_only=dry_run,
    )
    code = Exit.DONE
    report = []
    for name, outcome in outcomes.items():
        if not isinstance(outcome, BrokerRefused):
            report.append(
                {
                    "topic": name,
                    "created": not dry_run,
                    "partitions": outcome.partitions,
                    "replication_factor": outcome.replication_factor,
                    "topic_id": str(outcome.topic_id),
                }
            )
            verb = "can be created" if dry_run else "created"
            count = f" with {_plural(outcome.partitions, 'partition')}"
            if not as_json:
                click.echo(f"{name}: {verb}{count if outcome.partitions > 0 else ''}")
        elif if_not_exists and outcome.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            report.append({"topic": name, "created": False})
            if not as_json:
                click.echo(f"{name}: exists already")
        else:
            complain(str(outcome))
            report.append({"topic": name, "created": False, "error": str(outcome)})
            code = Exit.REFUSED
    if as_json:
        print_json(report)
    return code


@topic.command("list")
@click.option("--internal", is_flag=True, help="Show the broker's own topics too.")
@json_option
@broker_command
async def list_topics(cluster: Cluster, internal: bool, as_json: bool) -> None:
    """List topics: a table on a terminal, one name a line in a pipe."""
    topics = await Admin(cluster).list_topics(internal=internal)
    if as_json:
        print_json(
            [
                {
                    "topic": item.name,
                    "partitions": len(item.partitions),
                    "replication_factor": _replication(item),
                    "internal": item.is_internal,
                    "topic_id": str(item.topic_id),
                }
                for item in topics
            ]
        )
    elif is_terminal():
        if not topics:
            note("There are no topics yet. Create one: millpond kafka topic create NAME")
            return
        rows = [(item.name, len(item.partitions), _replication(item)) for item in topics]
        print_table(("Topic", "Partitions", "Replication factor"), rows)
    else:
        for item in topics:
            click.echo(item.name)


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--all-configs", is_flag=True, help="Show settings that have their default, too.")
@json_option
@broker_command
async def describe(
    cluster: Cluster, names: tuple[str, ...], all_configs: bool, as_json: bool
) -> int:
    """Show partitions, leaders, offsets, sizes and settings of topics."""
    admin = Admin(cluster)
    code = Exit.DONE
    documents = []
    for name in names:
        try:
            info = await admin.describe_topic(name)
        except BrokerRefused as error:
            complain(await explained(cluster, error))
            code = Exit.REFUSED
            continue
        configs = [
            entry
            for entry in (await admin.describe_configs(name)).values()
            if all_configs or _is_override(entry)
        ]
        rows = await _partition_rows(admin, info)
        if as_json:
            documents.append(_describe_json(info, rows, configs))
        else:
            _describe_text(info, rows, configs)
    if as_json:
        print_json(documents)
    return code


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="Raise the number of partitions.")
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="Set a setting.")
@click.option(
    "--delete-config", "deleted", metavar="NAME", multiple=True, help="Back to the default."
)
@broker_command
async def alter(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> int:
    """Change settings of a topic, or give it more partitions."""
    changes: dict[str, str | None] = dict(parse_pairs(configs, "--config"))
    changes |= dict.fromkeys(deleted)
    if not changes and partitions is None:
        raise click.UsageError("say what to change: --config, --delete-config or --partitions")
    admin = Admin(cluster)
    try:
        if changes:
            await admin.alter_configs(name, changes)
            for setting, value in changes.items():
                click.echo(f"{name}: {setting} {'back to its default' if value is None else value}")
        if partitions is not None:
            await admin.create_partitions(name, partitions)
            click.echo(f"{name}: {_plural(partitions, 'partition')}")
    except BrokerRefused as error:
        complain(await explained(cluster, error))
        return Exit.REFUSED
    return Exit.DONE


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@yes_option
@click.option("--if-exists", is_flag=True, help="A topic that is not there is fine.")
@json_option
@broker_command
async def delete(
    cluster: Cluster, names: tuple[str, ...], yes: bool, if_exists: bool, as_json: bool
) -> int:
    """Delete topics and everything in them. Asks first on a terminal."""
    if not yes and not is_meant(f"Delete {', '.join(names)} with all messages?"):
        return Exit.REFUSED
    code = Exit.DONE
    report: list[dict[str, object]] = []
    for name, refusal in (await Admin(cluster).delete_topics(names)).items():
        if refusal is None:
            report.append({"topic": name, "deleted": True})
            if not as_json:
                click.echo(f"{name}: deleted")
        elif if_exists and refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            report.append({"topic": name, "deleted": False})
            if not as_json:
                click.echo(f"{name}: was not there")
        else:
            complain(await explained(cluster, refusal))
            report.append({"topic": name, "deleted": False, "error": str(refusal)})
            code = Exit.REFUSED
    if as_json:
        print_json(report)
    return code


_PARTITION_COLUMNS = (
    "Partition",
    "Leader",
    "Replicas",
    "In sync",
    "Start offset",
    "End offset",
    "Records",
    "Bytes",
)


async def _partition_rows(admin: Admin, info: TopicInfo) -> list[tuple[object, ...]]:
    partitions = [TopicPartition(info.name, item.partition) for item in info.partitions]
    led = [
        partition
        for partition, item in zip(partitions, info.partitions, strict=True)
        if item.leader >= 0
    ]
    starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST))
    try:
        directories = await admin.describe_log_dirs([info.name])
    except BrokerRefused:
        directories = []  # not every broker tells; the rest is worth showing
    rows: list[tuple[object, ...]] = []
    for partition, item in zip(partitions, info.partitions, strict=True):
        start, end = starts.get(partition), ends.get(partition)
        known = isinstance(start, OffsetAt) and isinstance(end, OffsetAt)
        sizes = [entry.sizes[partition] for entry in directories if partition in entry.sizes]
        rows.append(
            (
                item.partition,
                item.leader if item.leader >= 0 else "none",
                ",".join(map(str, item.replicas)),
                ",".join(map(str, item.in_sync)),
                start.offset if isinstance(start, OffsetAt) else "?",
                end.offset if isinstance(end, OffsetAt) else "?",
                end.offset - start.offset
                if known and isinstance(end, OffsetAt) and isinstance(start, OffsetAt)
                else "?",
                max(sizes) if sizes else "?",
            )
        )
    return rows


def _describe_json(
    info: TopicInfo, rows: list[tuple[object, ...]], configs: list[ConfigEntry]
) -> dict[str, object]:
    return {
        "topic": info.name,
        "topic_id": str(info.topic_id),
        "internal": info.is_internal,
        "replication_factor": _replication(info),
        "partitions": [
            {
                "partition": item.partition,
                "leader": item.leader,
                "leader_epoch": item.leader_epoch,
                "replicas": list(item.replicas),
                "in_sync": list(item.in_sync),
                "start_offset": row[4] if row[4] != "?" else None,
                "end_offset": row[5] if row[5] != "?" else None,
                "bytes": row[7] if row[7] != "?" else None,
            }
            for item, row in zip(info.partitions, rows, strict=True)
        ],
        "configs": {entry.name: entry.value for entry in configs},
    }


def total_size(sizes: Sequence[object]) -> str:
    """Of partitions together, as far as brokers tell; if they tell nothing, that is not 0."""
    known = [size for size in sizes if isinstance(size, int)]
    return human_bytes(sum(known)) if known or not sizes else "size not known"


def _describe_text(
    info: TopicInfo, rows: list[tuple[object, ...]], configs: list[ConfigEntry]
) -> None:
    size = total_size([row[7] for row in rows])
    click.echo(
        f"{info.name}: {_plural(len(info.partitions), 'partition')},"
        f" replication factor {_replication(info)}, {size}, id {info.topic_id}"
    )
    print_table(_PARTITION_COLUMNS, rows)
    if configs:
        settings = [
            (entry.name, "(hidden)" if entry.is_sensitive else entry.value, _source(entry))
            for entry in configs
        ]
        print_table(("Setting", "Value", "From"), settings)


_TOPIC_SOURCE = 1
_SOURCES = {
    _TOPIC_SOURCE: "topic",
    2: "broker, dynamic",
    3: "brokers, dynamic",
    4: "broker",
    5: "default",
}


def _is_override(entry: ConfigEntry) -> bool:
    return entry.source == _TOPIC_SOURCE


def _source(entry: ConfigEntry) -> str:
    return _SOURCES.get(entry.source, "unknown")


def _replication(info: TopicInfo) -> int:
    return max((len(item.replicas) for item in info.partitions), default=0)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
