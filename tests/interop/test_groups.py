"""Consumer groups (the classic protocol) with real clients."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.clients import Message, kcat_missing, librdkafka_write
from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.java_tools import run_tool
from tests.support.processes.ports import wait_until

TIMEOUT_S = 60


# librdkafka


def test_a_group_goes_on_where_it_committed(broker: Peer, topic: str) -> None:
    fill(broker, topic, 100)
    with joined(broker, topic) as member:
        assert [m.value() for m in take(member, 60)] == values(60)
        member.commit(asynchronous=False)
    with joined(broker, topic) as member:
        assert [m.value() for m in take(member, 40)] == values(100)[60:]
    with joined(broker, topic, group=f"{topic}-other") as member:
        assert [m.value() for m in take(member, 100)] == values(100)


def test_two_members_share_the_partitions_and_one_takes_over(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=4)
    with joined(broker, topic) as first:
        wait_assigned(first, count=4)
        with joined(broker, topic) as second:
            wait_until(
                lambda: [len(assigned(one)) for one in (first, second)] == [2, 2],
                timeout_s=TIMEOUT_S,
                what="each member has two partitions",
            )
            assert sorted(assigned(first) + assigned(second)) == [0, 1, 2, 3]
        wait_assigned(first, count=4)


def test_cooperative_members_share_too(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=4)
    config: dict[str, Any] = {"partition.assignment.strategy": "cooperative-sticky"}
    with joined(broker, topic, **config) as first:
        wait_assigned(first, count=4)
        with joined(broker, topic, **config) as second:
            wait_until(
                lambda: [len(assigned(one)) for one in (first, second)] == [2, 2],
                timeout_s=TIMEOUT_S,
                what="each member has two partitions",
            )
            assert sorted(assigned(first) + assigned(second)) == [0, 1, 2, 3]


def test_a_static_member_comes_back_without_a_rebalance(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    static: dict[str, Any] = {"group.instance.id": f"{topic}-miller"}
    with joined(broker, topic) as other:
        with joined(broker, topic, **static) as member:
            wait_until(
                lambda: [len(assigned(one)) for one in (member, other)] == [1, 1],
                timeout_s=TIMEOUT_S,
                what="each member has a partition",
            )
            had, kept = assigned(member), assigned(other)
            assert sorted(had + kept) == [0, 1]
        # Closed, but not left: the group waits for it until its session ends.
        with joined(broker, topic, **static) as member:
            wait_until(
                lambda: [assigned(one) for one in (member, other)] == [had, kept],
                timeout_s=TIMEOUT_S,
                what="it has its partition again",
            )


def test_more_partitions_reach_the_group(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=1)
    config: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 500}
    with joined(broker, topic, **config) as member:
        wait_assigned(member, count=1)
        grow(broker, topic, 3)
        wait_assigned(member, count=3)


def test_administers_groups_and_their_offsets(broker: Peer, topic: str) -> None:
    fill(broker, topic, 10)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    group = topic
    with joined(broker, topic) as member:
        take(member, 10)
        member.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assert described.state.name == "STABLE"
        assert [one.client_id for one in described.members] == ["interop"]
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
        assert refused.value.args[0].name() == "NON_EMPTY_GROUP"
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert group in [one.group_id for one in listed.valid]

    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    (stored,) = admin.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S).topic_partitions
    assert stored.offset == 10
    back = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])]
    admin.alter_consumer_group_offsets(back)[group].result(TIMEOUT_S)
    with joined(broker, topic) as member:
        assert [m.value() for m in take(member, 6)] == values(10)[4:]
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert group not in [one.group_id for one in listed.valid]


# The other clients


def test_aiokafka_members(broker: Peer, topic: str) -> None:
    fill(broker, topic, 30)

    def member() -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    async def story() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            async with member() as first:
                assert [(await first.getone()).value for _ in range(20)] == values(20)
                partition = aiokafka.TopicPartition(topic, 0)
                await first.commit({partition: 20})
                assert await first.committed(partition) == 20
            async with member() as second:
                assert [(await second.getone()).value for _ in range(10)] == values(30)[20:]

    asyncio.run(story())


def test_kafka_python_goes_on_where_librdkafka_committed(broker: Peer, topic: str) -> None:
    fill(broker, topic, 30)
    with joined(broker, topic) as member:
        take(member, 12)
        member.commit(offsets=[TopicPartition(topic, 0, 12)], asynchronous=False)
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        assert [next(consumer).value for _ in range(18)] == values(30)[12:]
        consumer.commit()
        assert consumer.committed(kafka.TopicPartition(topic, 0)) == 30
    finally:
        consumer.close()


def test_kcat_member(broker: Peer, topic: str) -> None:
    reason = kcat_missing()
    if reason:
        pytest.skip(reason)
    fill(broker, topic, 5)
    command = ("kcat", "-b", broker.bootstrap, "-G", topic, "-c", "5", "-q")
    options = ("-X", "auto.offset.reset=earliest", "-f", "%s\n")
    done = subprocess.run(
        [*command, *options, topic], capture_output=True, timeout=TIMEOUT_S, check=True
    )
    assert done.stdout.split() == values(5)


@pytest.mark.usefixtures("java")
def test_console_consumer_perf_consumer_and_group_tool(broker: Peer, topic: str) -> None:
    fill(broker, topic, 500)
    server = ("--bootstrap-server", broker.bootstrap)
    shown = run_tool(
        "kafka-console-consumer",
        *(*server, "--topic", topic, "--group", topic, "--from-beginning"),
        *("--max-messages", "200", "--timeout-ms", "60000"),
    ).check()
    assert shown.out.encode().split() == values(200)

    measured = run_tool(
        "kafka-consumer-perf-test",
        *(*server, "--topic", topic, "--num-records", "500", "--timeout", "60000"),
        *("--group", f"{topic}-perf", "--hide-header"),
    ).check()
    assert measured.out.splitlines()[-1].split(", ")[4] == "500", measured.out

    groups = run_tool("kafka-consumer-groups", *server, "--list").check().out.split()
    assert {topic, f"{topic}-perf"} <= set(groups)
    described = run_tool("kafka-consumer-groups", *server, "--describe", "--group", topic).check()
    (row,) = [line.split() for line in described.out.splitlines() if f" {topic} " in line]
    assert row[2:6] == ["0", "200", "500", "300"]  # partition, committed, end, lag
    run_tool(
        "kafka-consumer-groups",
        *(*server, "--group", topic, "--topic", topic, "--reset-offsets"),
        *("--to-offset", "490", "--execute"),
    ).check()
    with joined(broker, topic) as member:
        assert [m.value() for m in take(member, 10)] == values(500)[490:]
    run_tool("kafka-consumer-groups", *server, "--delete", "--group", topic).check()


# Small words that the stories above use


def values(count: int) -> list[bytes]:
    """The values that `fill` writes."""
    return [b"%d" % number for number in range(count)]


def fill(broker: Peer, topic: str, count: int) -> None:
    """Create a topic of one partition with numbered messages in it."""
    create_topic(broker, topic)
    messages = [Message(key="k", value=str(number)) for number in range(count)]
    librdkafka_write(broker.bootstrap, topic, messages, "none")


@contextmanager
def joined(
    broker: Peer, topic: str, *, group: str | None = None, **config: Any
) -> Iterator[Consumer]:
    """A librdkafka member of a group that is named like the topic; leaves at the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "interop",
            "group.id": group or topic,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 200,
            **config,
        }
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


def take(member: Consumer, count: int) -> list[Any]:
    """So many messages, no more."""
    found: list[Any] = []
    while len(found) < count:
        message = member.poll(TIMEOUT_S)
        assert message is not None, f"no more messages after {len(found)} of {count}"
        assert message.error() is None, message.error()
        found.append(message)
    return found


def assigned(member: Consumer) -> list[int]:
    """The partitions that the member has now; polls once, which is what lets a rebalance go on."""
    message = member.poll(0.05)
    assert message is None or message.error() is None
    return sorted(one.partition for one in member.assignment())


def wait_assigned(member: Consumer, *, count: int) -> None:
    """Poll until the member has so many partitions."""
    wait_until(
        lambda: len(assigned(member)) == count,
        timeout_s=TIMEOUT_S,
        what=f"the member has {count} partitions",
    )


def grow(broker: Peer, topic: str, count: int) -> None:
    """Give a topic more partitions."""
    from confluent_kafka.admin import NewPartitions

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)
