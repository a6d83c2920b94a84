"""``millpond kafka group``: list, describe, reset and delete consumer groups of any Kafka-protocol broker."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from millpond.cli.lag import Lag, lags
from millpond.cli.output import (
    Exit,
    broker_command,
    complain,
    human_bytes,
    human_seconds,
    is_meant,
    is_terminal,
    json_option,
    note,
    print_json,
    print_table,
    yes_option,
)
from millpond.cli.positions import chosen_partitions, resolve_range
from millpond.client import (
    BrokerRefused,
    Cluster,
    GroupInfo,
    GroupMember,
    Groups,
    Isolation,
    TopicPartition,
)
from millpond.wire.kafka.api import ErrorCode

# Of classic groups and of those of KIP-848, which other brokers have.
_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "Dead",
)

# Lines of a question: more do not fit on a terminal.
_ASKED_MAX = 20


@click.group()
def group() -> None:
    """List, describe, reset and delete consumer groups."""


@group.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    multiple=True,
    help=f"Only groups in this state: {', '.join(_STATES)}; may be repeated.",
)
@json_option
@broker_command
async def list_groups(cluster: Cluster, states: tuple[str, ...], as_json: bool) -> None:
    """List groups: a table on a terminal, one name a line in a pipe."""
    groups = await Groups(cluster).list(states)
    if as_json:
        print_json(
            [
                {
                    "group": item.group_id,
                    "state": item.state,
                    "type": item.kind,
                    "protocol_type": item.protocol_type,
                }
                for item in groups
            ]
        )
    elif is_terminal():
        if not groups:
            note("There are no groups yet.")
            return
        rows = [(item.group_id, item.state, item.kind, item.protocol_type) for item in groups]
        print_table(("Group", "State", "Type", "Protocol type"), rows)
    else:
        for item in groups:
            click.echo(item.group_id)


@group.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@json_option
@broker_command
async def describe(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> int:
    """Show how far groups have read, how far behind they are, who reads.

    Behind by messages, by bytes (an estimate, marked as one, unless it is little) and by time: the age of
    the first record that was not read.
    """
    code = Exit.DONE
    documents = []
    for name in names:
        found = await Groups(cluster).describe(name)
        if found.state == "Dead":
            complain(
                str(
                    BrokerRefused(
                        ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group", subject=name
                    )
                )
            )
            code = Exit.REFUSED
            continue
        rows = await _positions(cluster, found)
        if as_json:
            documents.append(_describe_json(found, rows))
        else:
            _describe_text(found, rows)
    if as_json:
        print_json(documents)
    return code


@group.command()
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic; may be repeated. [all it has read]"
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this one; may be repeated.",
)
@click.option(
    "--to",
    "where",
    metavar="WHERE",
    required=True,
    help="earliest, latest, an offset, -N (N before the end), or a time (ISO 8601, or milliseconds).",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be set.")
@yes_option
@json_option
@broker_command
async def reset(
    cluster: Cluster,
    name: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    where: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Set how far a group has read. The group must have no members. Asks first on a terminal.

    \b
    millpond kafka group reset billing --to earliest --dry-run
    millpond kafka group reset billing --topic orders --to 2026-01-31T12:00:00Z
    """
    groups = Groups(cluster)
    before = await groups.offsets(name)
    chosen = topics or tuple(sorted({place.topic for place in before}))
    if not chosen:
        complain(f"{name}: the group has read nothing yet; say which --topic")
        return Exit.REFUSED
    places: list[TopicPartition] = []
    for topic in chosen:
        places += await chosen_partitions(cluster, topic, partitions)
    after, _end = await resolve_range(
        cluster, places, where, Isolation.READ_UNCOMMITTED, option="--to"
    )
    if not (dry_run or yes or is_meant(_question(name, before, after))):
        return Exit.REFUSED
    if not dry_run:
        await groups.commit(name, after)
    rows = [
        (place.topic, place.partition, _shown(before.get(place)), after[place])
        for place in sorted(after)
    ]
    if as_json:
        print_json(
            [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "before": before.get(place),
                    "after": after[place],
                }
                for place in sorted(after)
            ]
        )
    else:
        print_table(("Topic", "Partition", "Before", "After"), rows)
    if dry_run:
        note("Nothing was set (--dry-run).")
    return Exit.DONE


def _question(
    name: str, before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]
) -> str:
    """Describe what a reset would do, for the user who confirms it."""
    lines = [
        f"  {place.topic} {place.partition}: {_shown(before.get(place))} -> {after[place]}"
        for place in sorted(after)
    ]
    if len(lines) > _ASKED_MAX:
        more = len(lines) - _ASKED_MAX
        lines = [*lines[:_ASKED_MAX], f"  and {more} more (--dry-run shows all)"]
    return "\n".join((*lines, f"Set these positions of group {name}?"))


@group.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@yes_option
@json_option
@broker_command
async def delete(cluster: Cluster, names: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Delete groups that have no members, with their offsets. Asks first on a terminal."""
    if not yes and not is_meant(f"Delete {', '.join(names)} with all committed offsets?"):
        return Exit.REFUSED
    code = Exit.DONE
    report: list[dict[str, object]] = []
    for name in names:
        try:
            await Groups(cluster).delete(name)
        except BrokerRefused as refusal:
            complain(str(refusal))
            report.append({"group": name, "deleted": False, "error": str(refusal)})
            code = Exit.REFUSED
            continue
        report.append({"group": name, "deleted": True})
        if not as_json:
            click.echo(f"{name}: deleted")
    if as_json:
        print_json(report)
    return code


@dataclass(frozen=True, slots=True)
class _Position:
    place: TopicPartition
    committed: int | None
    lag: Lag
    member: GroupMember | None


async def _positions(cluster: Cluster, found: GroupInfo) -> list[_Position]:
    """Every partition that the group has read or is reading."""
    committed = await Groups(cluster).offsets(found.group_id)
    readers = {place: member for member in found.members for place in member.partitions}
    places = sorted({*committed, *readers})
    behind = await lags(
        cluster,
        {place: committed.get(place) for place in places},
        now_ms=int(datetime.now(UTC).timestamp() * 1000),
    )
    return [
        _Position(place, committed.get(place), behind[place], readers.get(place))
        for place in places
    ]


def _total(rows: list[_Position]) -> Lag:
    """All partitions together: the sums, and the age of the oldest unread record."""
    known = [row.lag for row in rows if row.lag.messages is not None]
    sizes = [lag.size_bytes for lag in known]
    ages = [lag.seconds for lag in known if lag.seconds is not None]
    return Lag(
        end=None,
        messages=sum(lag.messages or 0 for lag in known) if known else None,
        size_bytes=None if None in sizes else sum(size or 0 for size in sizes),
        is_counted=all(lag.is_counted for lag in known),
        seconds=max(ages, default=None),
    )


def _describe_text(found: GroupInfo, rows: list[_Position]) -> None:
    count = len(found.members)
    click.echo(
        f"{found.group_id}: {found.state}, {count} member{'' if count == 1 else 's'},"
        f" {_total_text(_total(rows), _count_beyond(rows))},"
        f" coordinator {found.coordinator}"
        + (f", assignor {found.protocol}" if found.protocol else "")
    )
    print_table(
        (
            *("Topic", "Partition", "Committed", "End", "Lag", "Lag bytes", "Lag seconds"),
            *("Client", "Host", "Member"),
        ),
        [
            (
                row.place.topic,
                row.place.partition,
                _shown(row.committed),
                _shown(row.lag.end),
                "beyond the end" if row.lag.is_beyond else _shown(row.lag.messages),
                _shown_bytes(row.lag),
                _shown_seconds(row.lag),
                row.member.client_id if row.member else "-",
                row.member.host if row.member else "-",
                row.member.member_id if row.member else "-",
            )
            for row in rows
        ],
    )
    if _count_beyond(rows):
        note(
            "A committed offset beyond the end of the log: the log was lost or made anew, or the offset was "
            "set by hand. Consumers go where auto.offset.reset says; set it anew: millpond kafka group reset"
        )
    idle = [member for member in found.members if not member.partitions]
    if idle:
        names = ", ".join(f"{member.client_id} ({member.host})" for member in idle)
        note(f"Members without partitions: {names}")


def _describe_json(found: GroupInfo, rows: list[_Position]) -> dict[str, object]:
    total = _total(rows)
    return {
        "group": found.group_id,
        "state": found.state,
        "coordinator": found.coordinator,
        "protocol_type": found.protocol_type,
        "assignor": found.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": len(member.partitions),
            }
            for member in found.members
        ],
        "lag": total.messages or 0,
        "lag_bytes": total.size_bytes,
        "lag_bytes_counted": total.is_counted,
        "lag_seconds": total.seconds,
        "partitions": [
            {
                "topic": row.place.topic,
                "partition": row.place.partition,
                "committed": row.committed,
                "end": row.lag.end,
                "lag": row.lag.messages,
                "beyond_end": row.lag.is_beyond,
                "lag_bytes": row.lag.size_bytes,
                "lag_bytes_counted": row.lag.is_counted,
                "lag_seconds": row.lag.seconds,
                "member_id": row.member.member_id if row.member else None,
            }
            for row in rows
        ],
    }


def _shown(number: int | None) -> object:
    return "-" if number is None else number


def _count_beyond(rows: list[_Position]) -> int:
    return sum(1 for row in rows if row.lag.is_beyond)


def _total_text(total: Lag, beyond: int) -> str:
    """``beyond`` is the number of partitions whose committed offset lies beyond the end of their log."""
    partitions = f"{beyond} partition{'' if beyond == 1 else 's'}"
    warning = f"beyond the end of the log in {partitions}"
    if total.messages is None:
        return warning if beyond else "nothing committed"
    text = f"{total.messages:,} messages behind"
    more = []
    if total.size_bytes:
        more.append(f"{'' if total.is_counted else 'about '}{human_bytes(total.size_bytes)}")
    if total.seconds:
        more.append(human_seconds(total.seconds))
    if more:
        text = f"{text} ({', '.join(more)})"
    return f"{text}, {warning}" if beyond else text


def _shown_bytes(lag: Lag) -> object:
    """A plain number for programs; for people a rounded one, with a mark if it is an estimate."""
    if lag.size_bytes is None:
        return "-"
    if not is_terminal():
        return lag.size_bytes
    return f"{'' if lag.is_counted else '~'}{human_bytes(lag.size_bytes)}"


def _shown_seconds(lag: Lag) -> object:
    if lag.seconds is None:
        return "-"
    return human_seconds(lag.seconds) if is_terminal() else f"{lag.seconds:.3f}"
