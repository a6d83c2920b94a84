"""``millpond consume``: read a topic, all that is there or for ever."""

import asyncio
import json
import sys
import time

import click

from millpond.base.ids import TopicPartition
from millpond.cli.formats import (
    FORMATS,
    show,
    show_json,
    show_time,
)
from millpond.cli.output import broker_command, is_terminal, json_option, note
from millpond.cli.positions import chosen_partitions, resolve_range
from millpond.client import (
    Cluster,
    Fetcher,
    Isolation,
    WhenOutOfRange,
)
from millpond.record import Record

_PRINTABLE = ("key", "offsets", "timestamp", "headers", "all")
_ISOLATION = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    help="earliest, latest, an offset, -N (the last N of each partition), or a time (ISO 8601, or"
    " milliseconds). Default: earliest, and latest with --follow.",
)
@click.option("--follow", "-f", is_flag=True, help="Wait for new messages, until Ctrl-C.")
@click.option(
    "--max", "limit", metavar="N", type=click.IntRange(min=1), help="Stop after N messages."
)
@click.option(
    "--idle",
    "idle_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="With --follow: stop when nothing came for so long.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this one; may be repeated.",
)
@click.option("--key-format", type=click.Choice(FORMATS), default="string", show_default=True)
@click.option("--value-format", type=click.Choice(FORMATS), default="string", show_default=True)
@click.option(
    "--print",
    "shown",
    type=click.Choice(_PRINTABLE),
    multiple=True,
    help="What to print before each value, separated by tabs; may be repeated.",
)
@click.option(
    "--isolation",
    type=click.Choice(list(_ISOLATION)),
    default="read_uncommitted",
    show_default=True,
)
@json_option
@broker_command
async def consume(
    cluster: Cluster,
    topic: str,
    start: str | None,
    follow: bool,
    limit: int | None,
    idle_s: float | None,
    partitions: tuple[int, ...],
    key_format: str,
    value_format: str,
    shown: tuple[str, ...],
    isolation: str,
    as_json: bool,
) -> None:
    """Print the messages of TOPIC, oldest first within each partition.

    Without --follow it ends where the topic ended when it began. With --json each message is one line of
    JSON.

    \b
    millpond consume orders --max 10 --print key --print offsets
    millpond consume orders --follow --json | jq .value
    millpond consume orders --from 2026-01-31T12:00:00Z
    """
    level = _ISOLATION[isolation]
    wanted = await chosen_partitions(cluster, topic, partitions)
    where = start if start is not None else ("latest" if follow else "earliest")
    first, end = await resolve_range(cluster, wanted, where, level)
    printer = _Printer(
        key_format=key_format, value_format=value_format, shown=shown, as_json=as_json
    )
    fetcher = Fetcher(
        cluster,
        first if follow else {at: offset for at, offset in first.items() if offset < end[at]},
        isolation=level,
        when_out_of_range=WhenOutOfRange.EARLIEST,
    )
    count = 0
    heard_s = time.monotonic()
    async with fetcher:
        while fetcher.positions and (limit is None or count < limit):
            batches = await fetcher.batches()
            for batch in batches:
                stop = 2**63 if follow else end[batch.partition]
                for record in batch.records():
                    if record.offset >= stop or (limit is not None and count >= limit):
                        break
                    printer.print(batch.partition, record)
                    count += 1
            printer.flush()
            if not follow:
                for partition, position in list(fetcher.positions.items()):
                    if position >= end[partition]:
                        fetcher.drop(partition)
            if batches:
                heard_s = time.monotonic()
            elif idle_s is not None and time.monotonic() - heard_s >= idle_s:
                break
            await asyncio.sleep(0)
    if is_terminal():
        note(f"{count:,} {'record' if count == 1 else 'records'}")


class _Printer:
    """Writes records to standard output, as bytes: what is stored is what comes out."""

    def __init__(
        self, *, key_format: str, value_format: str, shown: tuple[str, ...], as_json: bool
    ) -> None:
        self._key_format = key_format
        self._value_format = value_format
        self._shown = set(_PRINTABLE) if "all" in shown else set(shown)
        self._as_json = as_json
        self._stream = sys.stdout.buffer
        self._safe = is_terminal()

    def print(self, partition: TopicPartition, record: Record) -> None:
        line = self._json(partition, record) if self._as_json else self._text(partition, record)
        self._stream.write(line + b"\n")

    def flush(self) -> None:
        self._stream.flush()

    def _text(self, partition: TopicPartition, record: Record) -> bytes:
        parts: list[bytes] = []
        shown = self._shown
        if "offsets" in shown:
            parts.append(f"{partition}@{record.offset}".encode())
        if "timestamp" in shown:
            parts.append(show_time(record.timestamp).encode())
        if "headers" in shown:
            pairs = [
                name.encode("utf-8", "surrogateescape") + b"=" + show(value, "string")
                for name, value in record.headers
            ]
            parts.append(b",".join(pairs))
        if "key" in shown:
            parts.append(show(record.key, self._key_format))
        parts.append(show(record.value, self._value_format))
        line = b"\t".join(parts)
        return _harmless(line) if self._safe else line

    def _json(self, partition: TopicPartition, record: Record) -> bytes:
        document = {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": show_json(record.key, self._key_format),
            "value": show_json(record.value, self._value_format),
            "headers": [
                [
                    name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                    show_json(value, "string"),
                ]
                for name, value in record.headers
            ],
        }
        return json.dumps(document, ensure_ascii=False).encode()


def _harmless(line: bytes) -> bytes:
    """A line that cannot steer a terminal: other people's messages may contain anything."""
    text = line.decode("utf-8", "replace")
    return "".join(
        character if character.isprintable() or character in "\t\n" else "�" for character in text
    ).encode()
