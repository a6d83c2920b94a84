"""``millpond kafka produce``: write messages from arguments, a file or standard input, one for each line."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import click

from millpond.cli.formats import FORMAT_HELP, FORMATS, BadText, parse, parse_pairs, parse_time_ms
from millpond.cli.output import broker_command, human_bytes, json_option, note, print_json
from millpond.client import ACKS_ALL, ACKS_LEADER, ACKS_NONE, BrokerRefused, Cluster, Producer
from millpond.record import Compression
from millpond.wire.kafka.api import ErrorCode

_ACKS = {"0": ACKS_NONE, "1": ACKS_LEADER, "all": ACKS_ALL, "-1": ACKS_ALL}
_READ_BYTES = 256 * 1024
_BATCH_BYTES = 256 * 1024
_LINE_BYTES_MAX = 100 * 1024 * 1024
_UNACKNOWLEDGED_BYTES_MAX = 16 * 1024 * 1024
_REQUEST_MS_MAX = 30_000


@click.command()
@click.argument("topic")
@click.argument("messages", nargs=-1)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Lines of a file, not of standard input.",
)
@click.option("--key", help="The key of every message.")
@click.option("--key-separator", metavar="TEXT", help="Before it in a line is the key.")
@click.option("--key-format", type=click.Choice(FORMATS), default="string", **FORMAT_HELP)
@click.option("--value-format", type=click.Choice(FORMATS), default="string", **FORMAT_HELP)
@click.option("--null-value", metavar="TEXT", help="A value like this is null (a tombstone).")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="On every message.")
@click.option(
    "--partition", type=click.IntRange(min=0), metavar="N", help="Default: by key, else any."
)
@click.option("--timestamp", metavar="TIME", help="ISO 8601 or milliseconds. Default: now.")
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    metavar="ACKS",
    help="0, 1, or all (default) in-sync replicas.",
)
@click.option(
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Compression]),
    default="none",
    metavar="CODEC",
    help="none (default), gzip, snappy, lz4 or zstd.",
)
@click.option("--idempotent", is_flag=True, help="Never write a message twice.")
@click.option("--quiet", "-q", is_flag=True, help="No progress and no summary.")
@json_option
@broker_command
async def produce(
    cluster: Cluster,
    topic: str,
    messages: tuple[str, ...],
    path: Path | None,
    key: str | None,
    key_separator: str | None,
    key_format: str,
    value_format: str,
    null_value: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    timestamp: str | None,
    acks: str,
    compression: str,
    idempotent: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write MESSAGES to TOPIC; without any, each line of standard input.

    \b
    millpond kafka produce orders --file orders.txt --key-separator :
    """
    if messages and path is not None:
        raise click.UsageError("give messages or --file, not both")
    if key is not None and key_separator is not None:
        raise click.UsageError("give --key or --key-separator, not both")
    if idempotent and _ACKS[acks] != ACKS_ALL:
        raise click.UsageError("--idempotent needs --acks all")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    fixed = [(name, value.encode()) for name, value in parse_pairs(headers, "--header")]
    parser = _LineParser(
        key=None if key is None else _parse_option(key, key_format, "--key"),
        separator=None if key_separator is None else key_separator.encode(),
        key_format=key_format,
        value_format=value_format,
        null_value=None if null_value is None else null_value.encode(),
    )
    time_ms = None if timestamp is None else _parse_time(timestamp)
    timeout_ms = max(1, round(cluster.timeout_s * 1000))
    started = time.monotonic()
    count = size = waited_for = 0
    with _Progress(path, hidden=quiet or as_json) as advance:
        async with Producer(
            cluster,
            acks=_ACKS[acks],
            compression_type=compression,
            enable_idempotence=idempotent,
            linger_ms=0,
            batch_size=_BATCH_BYTES,
            max_request_size=2 * _LINE_BYTES_MAX,  # the broker knows better what is too large
            buffer_memory=2 * _LINE_BYTES_MAX,
            max_block_ms=timeout_ms,
            request_timeout_ms=min(_REQUEST_MS_MAX, timeout_ms),
            delivery_timeout_ms=timeout_ms,
        ) as producer:
            is_new = await _is_new(cluster, topic)
            async for lines, consumed in _sources(messages, path, quiet):
                for line in lines:
                    try:
                        record_key, value = parser.parse(line)
                    except BadText as error:
                        await producer.flush()
                        unit = "message" if messages else "line"
                        raise click.UsageError(
                            f"{unit} {count + 1}: {error}; the {count} before it were written"
                        ) from None
                    await producer.send(
                        topic,
                        value,
                        key=record_key,
                        headers=fixed,
                        partition=partition,
                        timestamp_ms=time_ms,
                    )
                    count += 1
                    size += len(line)
                advance(consumed)
                if size - waited_for >= _UNACKNOWLEDGED_BYTES_MAX:
                    # The time-out of a message begins when the producer takes it: few may wait behind others.
                    await producer.flush()
                    waited_for = size
    if is_new and count and not quiet:
        note(f"{topic} was not there; the broker created it (auto.create.topics.enable)")
    _summarise(topic, count, size, time.monotonic() - started, quiet=quiet, as_json=as_json)


async def _is_new(cluster: Cluster, topic: str) -> bool:
    """Return whether a topic does not exist yet: a mistyped name creates one, and the user should know."""
    try:
        await cluster.topic(topic)
    except BrokerRefused as refusal:
        if refusal.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return True
    return False


class _LineParser:
    """Makes a key and a value of a line. Raises ``BadText``."""

    def __init__(
        self,
        *,
        key: bytes | None,
        separator: bytes | None,
        key_format: str,
        value_format: str,
        null_value: bytes | None,
    ) -> None:
        self._key = key
        self._separator = separator
        self._key_format = key_format
        self._value_format = value_format
        self._null_value = null_value

    def parse(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        key, text = self._key, line
        if self._separator is not None:
            key_text, found, text = line.partition(self._separator)
            if not found:
                raise BadText(f"no separator {self._separator.decode()!r} in {_short(line)}")
            key = parse(key_text, self._key_format)
        if self._null_value is not None and text == self._null_value:
            return key, None
        return key, parse(text, self._value_format)


async def _sources(
    messages: tuple[str, ...], path: Path | None, quiet: bool
) -> AsyncIterator[tuple[Iterable[bytes], int]]:
    """Lines as they become available, and how many bytes of the source that was."""
    if messages:
        yield [message.encode("utf-8", "surrogateescape") for message in messages], 0
        return
    if path is not None:
        with path.open("rb") as stream:
            async for chunk in _lines(stream):
                yield chunk
        return
    source: BinaryIO = sys.stdin.buffer
    if source.isatty() and not quiet:
        note("One message a line; end with Ctrl-D.")
    async for chunk in _lines(source):
        yield chunk


async def _lines(stream: BinaryIO) -> AsyncIterator[tuple[list[bytes], int]]:
    """Whole lines in groups, each as soon as it is there: a slow pipe is not waited for."""
    rest = b""
    async for data in _chunks(stream):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        if len(rest) > _LINE_BYTES_MAX:
            raise click.UsageError(f"a line is longer than {human_bytes(_LINE_BYTES_MAX)}")
        yield [line.removesuffix(b"\r") for line in lines], len(data)
    if rest:
        yield [rest.removesuffix(b"\r")], 0


async def _chunks(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the data of a stream, read in a thread.

    A daemon thread, and reads below Python's buffer: Ctrl-C must end the program while the thread sits in
    a read that may never return.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(4)  # chunks that may wait for their turn
    read = _reader_of(stream)
    over = False

    def pump() -> None:
        data: bytes | OSError = b"-"
        while data and not isinstance(data, OSError):
            room.acquire()
            if over:
                return
            try:
                data = read(_READ_BYTES)
            except OSError as error:
                data = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, data)
            except RuntimeError:
                return  # the loop is closed; no task waits for the data any more

    threading.Thread(target=pump, name="read-input", daemon=True).start()
    try:
        while data := await queue.get():
            if isinstance(data, OSError):
                raise click.ClickException(f"cannot read the input: {data}")
            room.release()
            yield data
    finally:
        over = True
        room.release()


def _reader_of(stream: BinaryIO) -> Callable[[int], bytes]:
    try:
        descriptor = stream.fileno()
    except OSError:
        return stream.read
    return lambda size: os.read(descriptor, size)


class _Progress:
    """A progress bar for a file on a terminal; nothing otherwise."""

    def __init__(self, path: Path | None, *, hidden: bool) -> None:
        self._bar = None
        if path is not None and not hidden and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            self._bar = Progress(
                "[progress.description]{task.description}",
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(path.name, total=path.stat().st_size)

    def __enter__(self) -> Callable[[int], None]:
        bar = self._bar
        if bar is None:
            return lambda size: None
        bar.start()
        return lambda size: bar.advance(self._task, size)

    def __exit__(self, *reason: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _summarise(
    topic: str, count: int, size: int, seconds: float, *, quiet: bool, as_json: bool
) -> None:
    if as_json:
        print_json({"topic": topic, "records": count, "bytes": size, "seconds": round(seconds, 6)})
    elif not quiet:
        rate = count / seconds if seconds > 0 else 0
        note(
            f"{count:,} {'record' if count == 1 else 'records'} to {topic} in {seconds:.2f} s"
            f" ({rate:,.0f}/s, {human_bytes(size / seconds if seconds > 0 else 0)}/s)"
        )


def _parse_option(text: str, form: str, option: str) -> bytes:
    try:
        return parse(text.encode("utf-8", "surrogateescape"), form)
    except BadText as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _parse_time(text: str) -> int:
    try:
        return parse_time_ms(text)
    except BadText as error:
        raise click.BadParameter(str(error), param_hint="--timestamp") from None


def _short(line: bytes) -> str:
    text = line[:40].decode("utf-8", "replace")
    return repr(text if len(line) <= 40 else text + "…")
