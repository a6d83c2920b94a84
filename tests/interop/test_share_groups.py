"""Share groups with real clients: Kafka's Java share consumer and tools, and librdkafka's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.interop.conftest import unique_name
from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.java_tools import run_tool

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("this librdkafka has no share consumer", allow_module_level=True)

TIMEOUT_S = 60
POLLS_MAX = 200
GROUP_RESOURCE = ConfigResource.Type.GROUP if hasattr(ConfigResource.Type, "GROUP") else 32


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group name that no other test uses."""
    return unique_name(f"pool-{request.node.name}")


def begin_at_the_start(broker: Peer, group: str, **settings: str) -> None:
    """Set where a group begins, before its first member."""
    wanted = {"share.auto.offset.reset": "earliest"} | settings
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(GROUP_RESOURCE, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)


def write(broker: Peer, topic: str, count: int, *, first: int = 0) -> set[str]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    texts = {f"message {number}" for number in range(first, first + count)}
    for text in texts:
        producer.produce(topic, text.encode())
    assert producer.flush(TIMEOUT_S) == 0
    return texts


@contextmanager
def reader(broker: Peer, group: str, topic: str) -> Iterator[Any]:
    """librdkafka's share consumer; what it was given is accepted with its next poll, or its close."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group}
    consumer = confluent_kafka.ShareConsumer(settings)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(*readers: Any, enough: Callable[[list[Message]], bool]) -> list[Message]:
    """Poll in turns until there is enough."""
    found: list[Message] = []
    for _turn in range(POLLS_MAX):
        for one in readers:
            found += one.poll(0.2) or []
        assert not [message.error() for message in found if message.error()]
        if enough(found):
            return found
    raise AssertionError(f"only {len(found)} messages came")


def text(message: Message) -> str:
    return str(message.value().decode())


def test_two_members_read_everything_once_between_them(
    broker: Peer, topic: str, group: str
) -> None:
    create_topic(broker, topic, partitions=2)
    begin_at_the_start(broker, group)
    texts = write(broker, topic, 500)
    with reader(broker, group, topic) as ann, reader(broker, group, topic) as bob:
        seen = read(ann, bob, enough=lambda found: len(found) >= 500)
    assert set(map(text, seen)) == texts
    assert len(seen) == 500


@pytest.mark.usefixtures("java")
def test_javas_share_consumer_accepts_rejects_and_releases(
    broker: Peer, topic: str, group: str
) -> None:
    create_topic(broker, topic)
    run_tool(
        "kafka-configs",
        *("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "groups"),
        *("--entity-name", group, "--add-config", "share.auto.offset.reset=earliest"),
    ).check()
    write(broker, topic, 20)

    def consume(count: int, *options: str) -> list[str]:
        done = run_tool(
            "kafka-console-share-consumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group),
            *("--max-messages", str(count), "--timeout-ms", "60000", *options),
            *("--formatter-property", "print.delivery=true"),
        ).check()
        return done.out.splitlines()

    released = consume(5, "--release")
    assert all("Delivery:1" in line for line in released)
    again = consume(5)
    assert all("Delivery:2" in line for line in again)
    assert [line.split("\t")[-1] for line in again] == [line.split("\t")[-1] for line in released]
    assert len(consume(5, "--reject")) == 5
    described = run_tool(
        "kafka-share-groups",
        *("--bootstrap-server", broker.bootstrap, "--describe", "--group", group, "--offsets"),
    ).check()
    fields = described.out.split("\n")[2].split()
    assert fields[:5] == [group, topic, "0", "10", "10"]


@pytest.mark.usefixtures("java")
def test_kafkas_tools_list_reset_and_delete_share_groups(
    broker: Peer, topic: str, group: str
) -> None:
    create_topic(broker, topic)
    begin_at_the_start(broker, group)
    write(broker, topic, 10)
    with reader(broker, group, topic) as one:
        read(one, enough=lambda found: len(found) == 10)
    of_server = ("--bootstrap-server", broker.bootstrap)
    assert group in run_tool("kafka-share-groups", *of_server, "--list").check().out.split()
    to_start = ("--reset-offsets", "--to-earliest", "--execute", "--topic", topic)
    run_tool("kafka-share-groups", *of_server, "--group", group, *to_start).check()
    with reader(broker, group, topic) as one:
        again = read(one, enough=lambda found: len(found) == 10)
    assert sorted(message.offset() for message in again) == list(range(10))
    run_tool("kafka-share-groups", *of_server, "--delete", "--group", group).check()
    assert group not in run_tool("kafka-share-groups", *of_server, "--list").check().out.split()


@pytest.mark.usefixtures("java")
def test_a_killed_broker_gives_out_what_was_not_accepted_and_nothing_else(tmp_path: Path) -> None:
    """Also: Kafka's own decoder reads the state that was left behind."""
    properties = {"share.coordinator.state.topic.num.partitions": "1"}
    with MillpondProcess(tmp_path, properties=properties) as process:
        broker = Peer(process=process)
        create_topic(broker, "t")
        begin_at_the_start(broker, "pool")
        texts = write(broker, "t", 60)

        first = run_tool(
            "kafka-console-share-consumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", "t", "--group", "pool"),
            *("--max-messages", "25", "--timeout-ms", "60000"),
        ).check()
        accepted = set(first.out.splitlines())
        assert len(accepted) == 25
        with reader(broker, "pool", "t") as held:
            read(held, enough=lambda found: len(found) > 0)
            process.kill()
            process.start()
            with reader(broker, "pool", "t") as other:
                rest = read(
                    held,
                    other,
                    enough=lambda found: accepted | set(map(text, found)) == texts,
                )
        assert not accepted & set(map(text, rest))
        state = tmp_path / "data" / "__share_group_state-0" / f"{0:020d}.log"
        dumped = run_tool(
            "kafka-dump-log",
            *("--files", str(state), "--share-group-state-decoder"),
        ).check()
    assert '"groupId":"pool"' in dumped.out
    assert '"startOffset":0' in dumped.out
    assert '"deliveryState":2' in dumped.out
