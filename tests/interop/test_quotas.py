"""Quotas, felt by a real client: librdkafka is told how long it was held back, and loses nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from millpond.client import BlockingClient
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.interop.peers import Peer
from tests.support.kafka.wire_client import WireClient

pytestmark = pytest.mark.interop

RECORDS = 300


def alter_quota(bootstrap: str, client_id: str, change: OpData) -> None:
    entity = EntityData(entity_type="client-id", entity_name=client_id)
    entry = EntryData(entity=[entity], ops=[change])
    with WireClient(int(bootstrap.rpartition(":")[2])) as client:
        answer = client.ask(
            ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=[entry])
        )
    assert [one.error_code for one in answer.entries] == [0]


@pytest.fixture
def slow_client(broker: Peer, topic: str) -> Iterator[str]:
    """The id of a client that may write little; nobody else finds a quota in the broker that all share."""
    rate = "producer_byte_rate"
    alter_quota(broker.bootstrap, topic, OpData(key=rate, value=20_000.0))
    yield topic
    alter_quota(broker.bootstrap, topic, OpData(key=rate, remove=True))


def test_a_client_over_its_quota_is_slowed_down_and_loses_nothing(
    broker: Peer, topic: str, slow_client: str
) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=1)
    throttled: list[float] = []
    delivered: list[int] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": slow_client,
            "batch.num.messages": 50,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    for number in range(RECORDS):
        producer.produce(
            topic,
            b"%06d" % number + bytes(1000),
            on_delivery=lambda error, message: delivered.append(
                message.offset() if not error else -1
            ),
        )
    assert producer.flush(60) == 0
    assert delivered == list(range(RECORDS))
    assert max(throttled, default=0) > 0, "nobody told the client that it was held back"
    seen: list[Any] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    while len(seen) < RECORDS:
        messages = consumer.consume(RECORDS - len(seen), 60)
        assert messages, "records are missing"
        seen += [message.value()[:6] for message in messages]
    consumer.close()
    assert seen == [b"%06d" % number for number in range(RECORDS)]
