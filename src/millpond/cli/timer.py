"""``millpond kafka timer``: list and cancel the delayed records of a Millpond broker.

Listing reads the internal topic ``__timers``; cancelling writes to the record's own partition. So the first
needs the right to read the one, the second that to write to the other.
"""

from dataclasses import dataclass

import click

from millpond.base.errors import MalformedData
from millpond.cli.formats import show_time
from millpond.cli.output import (
    Exit,
    broker_command,
    complain,
    human_bytes,
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
    Producer,
    TopicInfo,
    TopicPartition,
    fetch_raw,
)
from millpond.record.batch import iter_batches
from millpond.record.records import decode_batch
from millpond.timer import facts
from millpond.timer.delayed import CANCEL, Kind, decode, due_of
from millpond.timer.facts import Target, TimerEnded, TimerScheduled

_TIMERS = "__timers"
_SETTING = "millpond.delay.enable"
_LIMIT = 1_000
_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Timer:
    """A delayed record that is pending."""

    topic: str
    partition: int
    offset: int
    due_ms: int
    created_ms: int
    key: bytes | None
    size: int


@click.group()
def timer() -> None:
    """List and cancel delayed records."""


@timer.command("list")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_LIMIT,
    show_default=True,
    help="Show so many, those that are due first.",
)
@json_option
@broker_command
async def list_timers(cluster: Cluster, topics: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List delayed records that are pending, in order of due time.

    Reads all that the broker keeps of timers: with a million of them it takes a minute.
    """
    known = await Admin(cluster).list_topics(internal=True)
    names = {item.topic_id: item.name for item in known if not topics or item.name in topics}
    kept = next((item for item in known if item.name == _TIMERS), None)
    pending = {} if kept is None else await _pending(cluster, kept)
    wanted = sorted(
        (
            due_of(value)[1] if due_of(value)[0] is Kind.DELAYED else 0,
            names[target.topic_id],
            target,
            source,
        )
        for (target, source), value in pending.items()
        if target.topic_id in names
    )
    shown = [
        _shown(name, target, source, pending[target, source])
        for _due, name, target, source in wanted[:limit]
    ]
    if as_json:
        print_json([_fields(one) for one in shown])
        return
    if not shown and is_terminal():
        note("No delayed records are pending.")
        return
    print_table(
        ("Topic", "Partition", "Offset", "Due", "Key", "Size"),
        [
            (
                one.topic,
                one.partition,
                one.offset,
                show_time(one.due_ms),
                _text(one.key),
                human_bytes(one.size),
            )
            for one in shown
        ],
    )
    if len(wanted) > len(shown):
        note(f"{len(wanted) - len(shown)} more are pending; --limit shows more of them.")


@timer.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offsets", metavar="OFFSET...", type=click.IntRange(min=0), nargs=-1, required=True)
@broker_command
async def cancel(cluster: Cluster, topic: str, partition: int, offsets: tuple[int, ...]) -> int:
    """Cancel delayed records by the offsets that their producer was told.

    A record that was delivered, or cancelled before, stays as it is; that is no error.
    """
    settings = await Admin(cluster).describe_configs(topic)
    if _SETTING not in settings or settings[_SETTING].value != "true":
        complain(f"{topic} has no delayed records: {_SETTING} is not true")
        return Exit.REFUSED
    async with Producer(cluster) as producer:
        for offset in offsets:
            headers = ((CANCEL, b"%d" % offset),)
            await producer.send_and_wait(topic, None, partition=partition, headers=headers)
            click.echo(f"{topic}-{partition} {offset}: cancelled, unless it was delivered before")
    return Exit.DONE


async def _pending(cluster: Cluster, topic: TopicInfo) -> dict[tuple[Target, int], bytes]:
    """Every pending timer of all partitions, by its target and name."""
    pending: dict[tuple[Target, int], bytes] = {}
    positions = {TopicPartition(_TIMERS, index): 0 for index in range(len(topic.partitions))}
    while positions:
        answers = await fetch_raw(cluster, positions, max_wait_ms=0, partition_bytes=_FETCH_BYTES)
        for place, found in answers.items():
            if isinstance(found, BrokerRefused):
                raise found
            at = max(positions[place], found.log_start_offset)
            for position, header in iter_batches(found.data):
                at = header.next_offset
                for record in () if header.is_control else decode_batch(found.data, position):
                    _apply(pending, record.key, record.value)
            positions[place] = at
            if at >= found.high_watermark:
                del positions[place]
    return pending


def _apply(
    pending: dict[tuple[Target, int], bytes], key: bytes | None, value: bytes | None
) -> None:
    try:
        fact = facts.decode(key or b"", value)
    except MalformedData:
        return  # of a newer release
    if isinstance(fact, TimerScheduled):
        pending[fact.target, fact.source] = fact.value
    elif isinstance(fact, TimerEnded):
        pending.pop((fact.target, fact.source), None)


def _shown(topic: str, target: Target, source: int, value: bytes) -> _Timer:
    one = decode(value)
    return _Timer(
        topic=topic,
        partition=target.partition,
        offset=source,
        due_ms=one.due_ms,
        created_ms=one.created_ms,
        key=one.key,
        size=len(one.value or b""),
    )


def _fields(one: _Timer) -> dict[str, object]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "due_ms": one.due_ms,
        "created_ms": one.created_ms,
        "key": None if one.key is None else _text(one.key),
        "bytes": one.size,
    }


def _text(key: bytes | None) -> str:
    return "-" if key is None else key.decode("utf-8", "backslashreplace")
