"""``millpond kafka consume``: read a topic, once or for ever, alone or as a member of a group."""

import asyncio
import json
import select
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import BinaryIO

import click

from millpond.base.ids import TopicPartition
from millpond.cli.formats import (
    FORMAT_HELP,
    FORMATS,
    show,
    show_json,
    show_time,
)
from millpond.cli.output import broker_command, is_terminal, json_option, note
from millpond.cli.positions import chosen_partitions, resolve_range
from millpond.client import (
    ClientError,
    Cluster,
    CommitRefused,
    Consumer,
    ConsumerRecord,
    Fetcher,
    Isolation,
    RebalanceListener,
    WhenOutOfRange,
)
from millpond.record import Record

_PRINTABLE = ("key", "offsets", "timestamp", "headers", "all")
_ISOLATION = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}
_POLL_MS = 500
_LAST_COMMIT_S = 2.0  # who wants to end does not wait for a broker that is gone
_POLL_RECORDS = 500  # printed and then committed at once


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    help="earliest, latest, an offset, -N (last N), a time.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="As a member of this consumer group.",
)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="The first message not committed by the --group.",
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
    help="Stop when nothing came for so long.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Only this one; may be repeated.",
)
@click.option("--key-format", type=click.Choice(FORMATS), default="string", **FORMAT_HELP)
@click.option("--value-format", type=click.Choice(FORMATS), default="string", **FORMAT_HELP)
@click.option(
    "--print",
    "shown",
    type=click.Choice(_PRINTABLE),
    multiple=True,
    metavar="WHAT",
    help="key, offsets, timestamp, headers or all.",
)
@click.option(
    "--isolation",
    type=click.Choice(list(_ISOLATION)),
    default="read_uncommitted",
    metavar="LEVEL",
    help="read_uncommitted (default) or read_committed.",
)
@json_option
@broker_command
async def consume(
    cluster: Cluster,
    topic: str,
    start: str | None,
    group: str | None,
    from_beginning: bool,
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

    \b
    millpond kafka consume orders --follow --json | jq .value
    millpond kafka consume orders --from 2026-01-31T12:00:00Z --print offsets
    millpond kafka consume orders --group billing --from-beginning --follow
    """
    if start is not None and from_beginning:
        raise click.UsageError("--from and --from-beginning both say where to begin: give one")
    if group is not None and (start is not None or partitions):
        raise click.UsageError(
            "--group goes on where the group is, in the partitions that it gets: leave out --from and"
            " --partition (`millpond kafka group reset` moves a group)"
        )
    printer = _Printer(
        key_format=key_format, value_format=value_format, shown=shown, as_json=as_json
    )
    if group is not None:
        count = await _read_in_group(
            cluster,
            topic,
            printer,
            group=group,
            from_beginning=from_beginning,
            follow=follow,
            limit=limit,
            idle_s=idle_s,
            isolation=isolation,
        )
    else:
        where = "earliest" if from_beginning or not follow else "latest"
        count = await _read_alone(
            cluster,
            await chosen_partitions(cluster, topic, partitions),
            printer,
            where=where if start is None else start,
            follow=follow,
            limit=limit,
            idle_s=idle_s,
            level=_ISOLATION[isolation],
        )
    if is_terminal():
        note(f"{count:,} {'record' if count == 1 else 'records'}")


async def _read_alone(
    cluster: Cluster,
    wanted: list[TopicPartition],
    printer: "_Printer",
    *,
    where: str,
    follow: bool,
    limit: int | None,
    idle_s: float | None,
    level: Isolation,
) -> int:
    """Print these partitions from somewhere on; how many messages they were."""
    first, end = await resolve_range(cluster, wanted, where, level)
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
    return count


async def _read_in_group(
    cluster: Cluster,
    topic: str,
    printer: "_Printer",
    *,
    group: str,
    from_beginning: bool,
    follow: bool,
    limit: int | None,
    idle_s: float | None,
    isolation: str,
) -> int:
    """Print what the group gives us; how many messages it was.

    Offsets are committed when their messages have left, so whatever happens in between is printed again: by
    the next run, or by the member that gets the partition.
    """
    wanted = await chosen_partitions(cluster, topic, ())
    first, end = await resolve_range(cluster, wanted, "earliest", _ISOLATION[isolation])
    count = 0
    heard_s = time.monotonic()
    async with Consumer(
        cluster=cluster,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation,
        allow_auto_create_topics=False,
    ) as consumer:
        listener = RebalanceListener() if from_beginning else _FromTheEnd(consumer, end)
        consumer.subscribe([topic], listener=listener)
        committed_for: set[TopicPartition] = set()
        try:
            while limit is None or count < limit:
                left = _POLL_RECORDS if limit is None else min(limit - count, _POLL_RECORDS)
                polled = await consumer.poll(_POLL_MS, max_records=left)
                for partition, records in polled.items():
                    for record in records:
                        printer.print(partition, record)
                    count += len(records)
                printer.flush()
                # Where a group that is new begins is committed too, or the next run would begin elsewhere.
                if (
                    polled or not follow or consumer.assignment() != committed_for
                ) and await _commit(consumer):
                    committed_for = consumer.assignment()
                if polled or not committed_for:  # it takes a while to become a member
                    heard_s = time.monotonic()
                elif idle_s is not None and time.monotonic() - heard_s >= idle_s:
                    break
                if not follow and await _has_read(consumer, first, end):
                    break
        except asyncio.CancelledError:  # told to end, maybe between printing and committing
            with suppress(ClientError, TimeoutError):
                async with asyncio.timeout(_LAST_COMMIT_S):
                    await _commit(consumer)
            raise
    return count


class _FromTheEnd(RebalanceListener):
    """A group that is new in a partition begins where that ended."""

    def __init__(self, consumer: Consumer, end: Mapping[TopicPartition, int]) -> None:
        self._consumer = consumer
        self._end = end

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        committed = await self._consumer.committed(*partitions)
        for partition in partitions:
            if partition not in committed and partition in self._end:
                self._consumer.seek(partition, self._end[partition])


async def _commit(consumer: Consumer) -> bool:
    try:
        await consumer.commit()
    except CommitRefused:
        return False  # The partitions have another reader, which prints these messages again.
    return True


async def _has_read(
    consumer: Consumer, first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> bool:
    """Return whether the group, by any of its members, has read everything up to these offsets."""
    committed = await consumer.committed(*end)
    return all(
        first[at] >= offset or (at in committed and committed[at].offset >= offset)
        for at, offset in end.items()
    )


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
        self._reader = _reader_of(self._stream)

    def print(self, partition: TopicPartition, record: Record | ConsumerRecord) -> None:
        line = self._json(partition, record) if self._as_json else self._text(partition, record)
        self._stream.write(line + b"\n")

    def flush(self) -> None:
        """Write buffered lines. Raise ``BrokenPipeError`` if the reader is gone, even if there are none."""
        self._stream.flush()
        if any(events & select.POLLERR for _, events in self._reader.poll(0)):
            raise BrokenPipeError

    def _text(self, partition: TopicPartition, record: Record | ConsumerRecord) -> bytes:
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

    def _json(self, partition: TopicPartition, record: Record | ConsumerRecord) -> bytes:
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


def _reader_of(stream: BinaryIO) -> select.poll:
    """Tells by POLLERR that a pipe has no reader any more."""
    watched = select.poll()
    with suppress(OSError):  # no file at all
        watched.register(stream.fileno(), 0)
    return watched


def _harmless(line: bytes) -> bytes:
    """A line that cannot steer a terminal: other people's messages may contain anything."""
    text = line.decode("utf-8", "replace")
    return "".join(
        character if character.isprintable() or character in "\t\n" else "�" for character in text
    ).encode()
