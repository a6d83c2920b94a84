"""The real clients behind one small door each: write these messages, read that partition.

For tests that set one client against another. What only one client can do is tested with that client's own
words in its own file.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiokafka
import confluent_kafka
import kafka

from tests.support.processes import java_tools

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What every client can write and must read back unchanged."""

    key: str
    value: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client: its name, why it cannot run here (None when it can), and its two verbs."""

    name: str
    missing: Callable[[], str | None]
    # bootstrap, topic, messages, codec; all to partition 0.
    write: Callable[[str, str, Sequence[Message], str], None]
    # bootstrap, topic, count; from offset 0 of partition 0.
    read: Callable[[str, str, int], list[Message]]


def _nothing() -> str | None:
    return None


# librdkafka


def librdkafka_write(bootstrap: str, topic: str, messages: Sequence[Message], codec: str) -> None:
    """Write with confluent-kafka."""
    failures: list[str] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.codec": codec, "linger.ms": 20}
    )
    for message in messages:
        producer.produce(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            partition=0,
            on_delivery=on_delivery,
        )
    left = producer.flush(READ_TIMEOUT_S)
    assert (left, failures) == (0, [])


def librdkafka_read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Read with confluent-kafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < count:
            batch = consumer.consume(count - len(found), timeout=READ_TIMEOUT_S)
            assert batch, f"no more messages after {len(found)} of {count}"
            for message in batch:
                assert message.error() is None, message.error()
                found.append(_message(message.key(), message.value(), message.headers() or ()))
        return found
    finally:
        consumer.close()


# aiokafka


def aiokafka_write(bootstrap: str, topic: str, messages: Sequence[Message], codec: str) -> None:
    """Write with aiokafka."""

    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        async with producer:
            sent = [
                await producer.send(
                    topic,
                    key=message.key.encode(),
                    value=message.value.encode(),
                    headers=[(name, value.encode()) for name, value in message.headers],
                    partition=0,
                )
                for message in messages
            ]
            for one in sent:
                await one

    asyncio.run(write())


def aiokafka_read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Read with aiokafka."""

    async def read() -> list[Message]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="none"
        )
        async with consumer:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found: list[Message] = []
            async with asyncio.timeout(READ_TIMEOUT_S):
                while len(found) < count:
                    message = await consumer.getone()
                    found.append(_message(message.key, message.value, message.headers))
            return found

    return asyncio.run(read())


# kafka-python


def kafka_python_write(bootstrap: str, topic: str, messages: Sequence[Message], codec: str) -> None:
    """Write with kafka-python."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    try:
        sent = [
            producer.send(
                topic,
                key=message.key.encode(),
                value=message.value.encode(),
                headers=[(name, value.encode()) for name, value in message.headers],
                partition=0,
            )
            for message in messages
        ]
        for one in sent:
            one.get(READ_TIMEOUT_S)
    finally:
        producer.close()


def kafka_python_read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Read with kafka-python."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        consumer_timeout_ms=READ_TIMEOUT_S * 1000,
    )
    try:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        found: list[Message] = []
        for message in consumer:
            found.append(_message(message.key, message.value, message.headers))
            if len(found) == count:
                break
        return found
    finally:
        consumer.close()


# kcat: one line of text per message; headers are the same for a whole run.


def kcat_missing() -> str | None:
    """Why kcat cannot run here."""
    return None if shutil.which("kcat") else "kcat is not installed (make interop-deps)"


def kcat(*args: str, stdin: str = "") -> str:
    """Run kcat and answer what it printed; fails when it does."""
    done = subprocess.run(
        ["kcat", "-m", str(READ_TIMEOUT_S), *args],
        input=stdin.encode(),
        capture_output=True,
        timeout=READ_TIMEOUT_S + 30,
        check=False,
    )
    assert done.returncode == 0, f"kcat {args} ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout.decode()


def kcat_write(bootstrap: str, topic: str, messages: Sequence[Message], codec: str) -> None:
    """Write with kcat."""
    headers = messages[0].headers
    assert all(message.headers == headers for message in messages)
    flags = [flag for name, value in headers for flag in ("-H", f"{name}={value}")]
    lines = "".join(f"{message.key}\t{message.value}\n" for message in messages)
    kcat(
        "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-z", codec, "-K", "\t", *flags, stdin=lines
    )


def kcat_read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Read with kcat."""
    lines = kcat(
        *("-C", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning"),
        *("-c", str(count), "-q", "-J"),
    )
    return [_kcat_message(json.loads(line)) for line in lines.splitlines()]


def _kcat_message(shown: dict[str, object]) -> Message:
    flat = shown.get("headers") or []
    assert isinstance(flat, list)
    headers = tuple(zip(flat[::2], flat[1::2], strict=True))
    return Message(key=str(shown["key"]), value=str(shown["payload"]), headers=headers)


# Apache Kafka's console tools


def java_write(bootstrap: str, topic: str, messages: Sequence[Message], codec: str) -> None:
    """Write with kafka-console-producer; its topics must have one partition."""
    lines = "".join(
        ",".join(f"{name}:{value}" for name, value in message.headers)
        + f"\t{message.key}\t{message.value}\n"
        for message in messages
    )
    java_tools.run_tool(
        "kafka-console-producer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--compression-codec", codec, "--sync" if len(messages) == 1 else "--batch-size=1000"),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin=lines,
    ).check()


def java_read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Read with kafka-console-consumer."""
    shown = java_tools.run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--partition", "0", "--offset", "earliest", "--max-messages", str(count)),
        *("--timeout-ms", str(READ_TIMEOUT_S * 1000)),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
    ).check()
    return [_java_message(line) for line in shown.out.splitlines()]


def _java_message(line: str) -> Message:
    shown, key, value = line.split("\t")
    pairs = [] if shown == "NO_HEADERS" else [pair.split(":") for pair in shown.split(",")]
    return Message(key=key, value=value, headers=tuple((name, value) for name, value in pairs))


def _message(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]
) -> Message:
    assert key is not None
    assert value is not None
    return Message(
        key=key.decode(),
        value=value.decode(),
        headers=tuple((name, content.decode()) for name, content in headers),
    )


CLIENTS = (
    Client(name="librdkafka", missing=_nothing, write=librdkafka_write, read=librdkafka_read),
    Client(name="aiokafka", missing=_nothing, write=aiokafka_write, read=aiokafka_read),
    Client(name="kafka-python", missing=_nothing, write=kafka_python_write, read=kafka_python_read),
    Client(name="kcat", missing=kcat_missing, write=kcat_write, read=kcat_read),
    Client(name="java", missing=java_tools.missing_reason, write=java_write, read=java_read),
)
