"""Making topics for tests, by librdkafka's admin client."""

from collections.abc import Mapping
from datetime import UTC, datetime

from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.peers import Peer

# The time of messages that are given one: an hour ago, for retention would soon delete much older ones.
MORNING_MS = (int(datetime.now(UTC).timestamp()) - 3600) * 1000


def create_topic(
    broker: Peer, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Create a topic, wait until it is there, and answer its name."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(
        topic, num_partitions=partitions, replication_factor=1, config=dict(config or {})
    )
    admin.create_topics([new], operation_timeout=10)[topic].result(60)
    return topic
