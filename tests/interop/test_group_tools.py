"""Kafka's tools for groups, offsets and transactions say the same of Millpond as of Kafka.

Each chapter runs the same commands against both brokers, in one JVM, and compares what is printed, line by
line. Names that brokers and clients make up, times and addresses are replaced by what they are.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from millpond.group.offsets import partition_for
from tests.interop.peers import GROUP_PROTOCOLS, Peer
from tests.interop.topics import MORNING_MS, create_topic
from tests.support.processes.java_host import JavaHost
from tests.support.processes.java_tools import ToolResult
from tests.support.processes.ports import wait_until

TIMEOUT_S = 60
HOUR_MS = 3_600_000

NORMAL = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"(?<= )[A-Za-z0-9_+/-]{22}(?= +/127)"), "<member>"),
    (re.compile(r'"topicId":"[^"]+"'), '"topicId":"<id>"'),
    (re.compile(r"127\.0\.0\.1:\d+ +\(\d+\)"), "<node>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\b1[789]\d{11}\b"), "<ms>"),
    (re.compile(r"(?<=Exception: ).*"), "<words>"),
    (re.compile(r" +"), " "),
    # The widths of a table's columns are those of the longest value, which may be a number of a broker's own.
    (re.compile(r" ?\t ?"), "\t"),
    (re.compile(r"\s+$"), ""),
)


class Peers:
    """Both brokers, told the same."""

    def __init__(self, host: JavaHost, *peers: Peer) -> None:
        self._host = host
        self._peers = peers

    def agree(self, chapter: "Callable[[Desk], None]") -> "list[Desk]":
        """Tell the chapter to both; fail with the first command that they answer differently."""
        desks = [Desk(self._host, peer) for peer in self._peers]
        for desk in desks:
            chapter(desk)
        ours, theirs = desks
        for mine, other in zip(ours.answers, theirs.answers, strict=True):
            assert mine == other
        return desks


class Desk:
    """One broker's side: runs tools, and keeps what they said."""

    def __init__(self, host: JavaHost, peer: Peer) -> None:
        self.peer = peer
        self.answers: list[tuple[str, int, list[str]]] = []
        self._host = host

    def tool(self, name: str, *args: str) -> ToolResult:
        """Run a tool and keep its answer for the comparison."""
        done = self._host.tool(name, "--bootstrap-server", self.peer.bootstrap, *args)
        # What goes to stderr is the client's log, and a stack trace when the tool fails.
        said = done.out if done.code == 0 else done.out + first_error(done)
        said = said.replace(str(self.peer.data.resolve()), "<data>")
        self.answers.append((f"{name} {' '.join(args)}", done.code, normal(said)))
        return done

    def say(self, name: str, *args: str) -> str:
        """What a tool prints, outside the comparison."""
        return self._host.tool(name, "--bootstrap-server", self.peer.bootstrap, *args).out

    def keep(self, what: str, said: list[str]) -> None:
        """Something to be compared that is not a tool's whole answer."""
        self.answers.append((what, 0, said))

    def settle(self, condition: Callable[[], bool]) -> None:
        """Wait for what Kafka does a moment after it has answered."""
        wait_until(condition, timeout_s=TIMEOUT_S, what="the change is told")

    def groups(self, *args: str) -> ToolResult:
        return self.tool("kafka-consumer-groups", *args)


@pytest.fixture
def peers(java_host: JavaHost, broker: Peer, kafka: Peer) -> Peers:
    return Peers(java_host, broker, kafka)


# --- consumer groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
def test_groups_are_listed_and_described(peers: Peers, topic: str, protocol: str) -> None:
    def chapter(desk: Desk) -> None:
        fill(desk.peer, topic, 30)
        with member(desk.peer, topic, protocol) as ann:
            take(ann, 20)
            ann.commit(asynchronous=False)
            of_group = ("--describe", "--group", topic)
            desk.groups(*of_group)
            desk.groups(*of_group, "--verbose")
            desk.groups(*of_group, "--members")
            desk.groups(*of_group, "--members", "--verbose")
            desk.groups(*of_group, "--state")
            desk.groups(*of_group, "--state", "--verbose")
            desk.groups("--delete", "--group", topic)
            desk.groups("--reset-offsets", "--to-earliest", "--topic", topic, "--group", topic)
            desk.groups("--delete-offsets", "--topic", topic, "--group", topic)
            listed(desk, topic, "--list", "--state")
            listed(desk, topic, "--list", "--state", "stable")
            listed(desk, topic, "--list", "--type")
            listed(desk, topic, "--list", "--type", protocol)
        desk.groups(*of_group)
        desk.groups(*of_group, "--members")
        desk.groups(*of_group, "--state")
        listed(desk, topic, "--list", "--state", "Empty")
        desk.groups("--describe", "--group", f"{topic}-no")
        desk.groups("--delete-offsets", "--topic", f"{topic}:0", "--group", topic)
        desk.groups("--delete", "--group", topic, "--group", f"{topic}-no")
        listed(desk, topic, "--list")

    peers.agree(chapter)


def listed(desk: Desk, topic: str, *args: str) -> None:
    """--list shows what other tests left as well: keep only this test's."""
    desk.groups(*args)
    command, code, lines = desk.answers.pop()
    desk.answers.append((command, code, [line for line in lines if topic in line]))


RESETS: tuple[tuple[str, ...], ...] = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "7"),
    ("--to-offset", "700"),
    ("--shift-by", "-2"),
    ("--shift-by", "3"),
    ("--by-duration", "PT50M"),
    ("--by-duration", "PT1S"),
    ("--to-datetime", "2020-01-01T00:00:00.000"),
)


def test_offsets_are_reset_in_every_way(peers: Peers, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},1,9\n")
    # Where 50 minutes ago is must not depend on which of the brokers is asked first: the nearest is two
    # minutes away from it.
    start_ms = int(time.time() * 1000) - HOUR_MS  # noqa: TID251 - compared with the tool's

    def chapter(desk: Desk) -> None:
        fill(desk.peer, topic, 20, partitions=2, step_ms=HOUR_MS // 20, start_ms=start_ms)
        of_group = ("--group", topic)
        for number, way in enumerate(RESETS):
            what = "--all-topics" if number else f"--topic={topic}"
            desk.groups(*of_group, "--reset-offsets", what, *way, "--dry-run")
            desk.groups(*of_group, "--reset-offsets", what, *way, "--execute")
        from_file = ("--reset-offsets", "--from-file", str(plan))
        desk.groups(*of_group, *from_file, "--execute")
        desk.groups(*of_group, "--reset-offsets", "--all-topics", "--to-current", "--export")
        one = ("--reset-offsets", "--topic", f"{topic}:1", "--to-earliest", "--execute")
        desk.groups(*of_group, *one)
        desk.groups(*of_group, "--describe")
        desk.groups(*of_group, "--reset-offsets", "--topic", f"{topic}-no", "--to-earliest")

    peers.agree(chapter)


def test_offsets_and_kinds_of_groups(peers: Peers, topic: str) -> None:
    def chapter(desk: Desk) -> None:
        fill(desk.peer, topic, 10, partitions=2, step_ms=1_000)
        for moment in (
            "-1",
            "-2",
            "-3",
            "earliest",
            "latest",
            "max-timestamp",
            str(MORNING_MS + 1),
        ):
            desk.tool("kafka-get-offsets", "--topic", topic, "--time", moment)
        desk.tool("kafka-get-offsets", "--topic-partitions", f"{topic}:1,{topic}-no:0")
        desk.tool("kafka-get-offsets", "--topic", f"{topic}-no")
        with member(desk.peer, topic, "classic") as ann:
            take(ann, 1)
            for kind in ((), ("--consumer",), ("--group-type", "classic"), ("--share",)):
                desk.tool("kafka-groups", "--list", *kind)
                command, code, lines = desk.answers.pop()
                ours = [line for line in lines if topic in line]
                desk.answers.append((command, code, ours))

    peers.agree(chapter)


# --- share groups ---------------------------------------------------------------------------------


def test_share_groups_are_described_reset_and_deleted(peers: Peers, topic: str) -> None:
    def chapter(desk: Desk) -> None:
        fill(desk.peer, topic, 10)
        earliest(desk.peer, topic)
        group = ("--group", topic)
        with share_member(desk.peer, topic) as ann:
            read_shared(ann, 10)
            ann.poll(0.2)
            # Not --verbose: how many epochs it takes to begin is each broker's own.
            desk.tool("kafka-share-groups", "--describe", *group, "--members")
            desk.tool("kafka-share-groups", "--describe", *group, "--state")
            desk.tool("kafka-share-groups", "--delete", *group)
        wait_until(
            lambda: "Empty" in desk._host.tool(
                "kafka-share-groups",
                *("--bootstrap-server", desk.peer.bootstrap, "--describe", *group, "--state"),
            ).out,
            timeout_s=TIMEOUT_S,
            what="the member has left",
        )  # fmt: skip
        # Kafka writes down that the start has moved only with the next change, we at once: so not yet
        # --offsets.
        reset = ("--reset-offsets", "--topic", topic)
        for way in ("--to-earliest", "--to-latest"):
            desk.tool("kafka-share-groups", *group, *reset, way, "--dry-run")
            desk.tool("kafka-share-groups", *group, *reset, way, "--execute")
        when = "2020-01-01T00:00:00.000"
        desk.tool("kafka-share-groups", *group, *reset, "--to-datetime", when, "--execute")
        desk.tool("kafka-share-groups", "--describe", *group, "--offsets")
        desk.tool("kafka-share-groups", *group, "--delete-offsets", "--topic", topic)
        desk.tool("kafka-share-groups", "--delete", *group)
        desk.tool("kafka-share-groups", "--describe", *group)

    peers.agree(chapter)


# --- transactions ---------------------------------------------------------------------------------


def test_transactions_are_listed_described_and_ended(peers: Peers, topic: str) -> None:
    def chapter(desk: Desk) -> None:
        create_topic(desk.peer, topic, partitions=2)
        writer = Producer(
            {"bootstrap.servers": desk.peer.bootstrap, "transactional.id": topic, "linger.ms": 0}
        )
        writer.init_transactions(TIMEOUT_S)
        transactions(desk, topic, "list")
        transactions(desk, topic, "describe", "--transactional-id", topic)
        writer.begin_transaction()
        writer.produce(topic, b"x", partition=1)
        assert writer.flush(TIMEOUT_S) == 0
        for only in ((), ("--duration-filter", "9999999"), ("--duration-filter", "-1")):
            transactions(desk, topic, "list", *only)
        transactions(desk, topic, "list", "--transactional-id-pattern", f"{topic[:-1]}.")
        transactions(desk, topic, "describe", "--transactional-id", topic)
        transactions(desk, topic, "describe", "--transactional-id", f"{topic}-no")
        of_topic = ("--topic", topic, "--partition")
        transactions(desk, "", "describe-producers", *of_topic, "1")
        transactions(desk, "", "describe-producers", *of_topic, "0")
        transactions(
            desk, topic, "find-hanging", "--topic", topic, "--max-transaction-timeout", "1"
        )
        transactions(desk, topic, "forceTerminateTransaction", "--transactionalId", topic)
        wait_until(lambda: "Empty" in states(desk, topic), timeout_s=TIMEOUT_S, what="it ends")
        transactions(desk, topic, "list")
        transactions(desk, "", "describe-producers", *of_topic, "1")

    peers.agree(chapter)


def states(desk: Desk, topic: str) -> str:
    done = desk._host.tool(
        "kafka-transactions", "--bootstrap-server", desk.peer.bootstrap, "list"
    ).check()
    return "\n".join(line for line in done.out.splitlines() if line.startswith(topic))


def transactions(desk: Desk, topic: str, *args: str) -> None:
    desk.tool("kafka-transactions", *args)
    command, code, lines = desk.answers.pop()
    # Producer ids and, until the first transaction, epochs are each broker's own.
    shown = [re.sub(r"(?<![\w-])\d{1,6}(?![\w-])", "#", line) for line in lines if topic in line]
    shown = [re.sub(r"-?\d+\.\d+|\b\d{7,}\b", "<time>", line) for line in shown]
    desk.answers.append((command, code, shown))


# --- what the internal topics hold ----------------------------------------------------------------


def test_formatters_read_the_internal_topics(peers: Peers, topic: str) -> None:
    """The last value of each key: how often a broker writes a state it has already written is its own."""

    def chapter(desk: Desk) -> None:
        fill(desk.peer, topic, 5)
        with member(desk.peer, topic, "classic") as ann:
            take(ann, 5)
            ann.commit(asynchronous=False)
            internal(desk, "OffsetsMessageFormatter", "__consumer_offsets", topic)
            internal(desk, "GroupMetadataMessageFormatter", "__consumer_offsets", topic)
        writer = Producer({"bootstrap.servers": desk.peer.bootstrap, "transactional.id": topic})
        writer.init_transactions(TIMEOUT_S)
        writer.begin_transaction()
        writer.produce(topic, b"x")
        writer.commit_transaction(TIMEOUT_S)
        desk.settle(lambda: "CompleteCommit" in states(desk, topic))
        internal(desk, "TransactionLogMessageFormatter", "__transaction_state", topic)

    peers.agree(chapter)


def internal(desk: Desk, formatter: str, where: str, name: str) -> None:
    place = TopicPartition(where, partition_for(name, 50))
    done = desk.tool(
        "kafka-console-consumer",
        *("--topic", where, "--partition", str(place.partition), "--offset", "earliest"),
        *("--max-messages", str(count(desk.peer, place)), "--timeout-ms", f"{TIMEOUT_S * 1000}"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
    )
    _, code, _ = desk.answers.pop()
    entries = [one for one in re.split(r'(?=\{"key":)', done.out) if f'"{name}"' in one]
    last: dict[str, str] = {}
    for entry in entries:
        key, _, value = entry.strip().partition(',"value":')
        last[key] = re.sub(r'"(producerId|previousProducerId|producerEpoch)":\d+', r'"\1":0', value)
    assert last, f"{formatter} found nothing of {name}: {done.out[:500]} {done.err[:2000]}"
    # The leader of __transaction_state may have changed its epoch; members' bytes hold their own ids.
    shown = [f"{key} {value}" for key, value in sorted(last.items())]
    desk.answers.append((formatter, code, normal("\n".join(shown))))


def count(peer: Peer, place: TopicPartition) -> int:
    """How many records a reader finds in a partition: less than offsets, for some are not for readers."""
    reader = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = 0
    try:
        reader.assign([TopicPartition(place.topic, place.partition, 0)])
        while True:
            message = reader.poll(TIMEOUT_S)
            assert message is not None, "the end of the partition never came"
            error = message.error()
            if error is None:
                found += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        reader.close()


# --- words ----------------------------------------------------------------------------------------


_REFLECTION = re.compile(r"at (java\.base/)?(java\.lang|jdk\.internal)\.reflect\.")


def normal(said: str) -> list[str]:
    """What was said, without what differs by nature; rows of a table have no order.

    How a stack trace names the frames of reflection changes while a virtual machine is running.
    """
    for pattern, name in NORMAL:
        said = "\n".join(pattern.sub(name, line) for line in said.splitlines())
    lines = (line.strip() for line in said.splitlines())
    return sorted(line for line in lines if line and not _REFLECTION.match(line))


def first_error(done: ToolResult) -> str:
    found = re.search(r"^(?!\[)\S*(?:Exception|Error)\b[^\n]*", done.err, re.MULTILINE)
    return "\n" + (found[0] if found else done.err[:500])


def fill(
    peer: Peer,
    topic: str,
    count: int,
    *,
    partitions: int = 1,
    step_ms: int | None = None,
    start_ms: int = MORNING_MS,
) -> None:
    create_topic(peer, topic, partitions=partitions)
    writer = Producer({"bootstrap.servers": peer.bootstrap})
    for number in range(count):
        when: Any = {} if step_ms is None else {"timestamp": start_ms + number * step_ms}
        writer.produce(topic, b"%d" % number, partition=number % partitions, **when)
    assert writer.flush(TIMEOUT_S) == 0


@contextmanager
def member(peer: Peer, topic: str, protocol: str) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": peer.bootstrap,
        "client.id": "ann",
        "group.id": topic,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> None:
    for _ in range(count):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()


@contextmanager
def share_member(peer: Peer, topic: str) -> Iterator[Any]:
    settings = {"bootstrap.servers": peer.bootstrap, "group.id": topic, "client.id": "ann"}
    consumer = confluent_kafka.ShareConsumer(settings)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read_shared(consumer: Any, count: int) -> None:
    found = 0

    def enough() -> bool:
        nonlocal found
        found += len(consumer.poll(0.2) or [])
        return found >= count

    wait_until(enough, timeout_s=TIMEOUT_S, what=f"{count} records")


def earliest(peer: Peer, group: str) -> None:
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    kind = getattr(ConfigResource.Type, "GROUP", 32)
    resource = ConfigResource(kind, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)
