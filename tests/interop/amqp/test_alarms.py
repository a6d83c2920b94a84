"""Too little memory or disk allowed: pika is blocked while it lasts, and goes on after."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.interop.amqp.brokers import Broker

NODE = "1"


@pytest.fixture(params=["vm_memory_high_watermark.absolute", "disk_free_limit.absolute"])
def setting(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("alarms"))
    with broker.process:
        yield broker


def alter(broker: Broker, name: str, value: str) -> None:
    """As an administrator does while the broker runs."""
    admin = AdminClient({"bootstrap.servers": broker.process.bootstrap})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, NODE, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


def test_pika_is_blocked_while_it_is_short_and_goes_on_after(broker: Broker, setting: str) -> None:
    plenty, short = ("1TB", "1MB") if setting.startswith("vm") else ("1MB", "1000TB")
    with broker.connect() as connection, broker.connect() as other:
        said: list[str] = []
        channel, reader = connection.channel(), other.channel()
        connection.add_on_connection_blocked_callback(
            lambda _connection, frame: said.append(frame.method.reason)
        )
        connection.add_on_connection_unblocked_callback(
            lambda _connection, _frame: said.append("unblocked")
        )
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"before")
        channel.queue_declare("q", passive=True)
        alter(broker, setting, short)
        # The machine is looked at now and then: publish until it is noticed.
        for _second in range(60):
            channel.basic_publish("", "q", b"x")
            connection.process_data_events(0.5)
            if said:
                break
        assert said == ["low on memory" if setting.startswith("vm") else "low on disk"]
        method, _properties, body = reader.basic_get("q", auto_ack=True)
        assert (method is not None, body) == (True, b"before")
        alter(broker, setting, plenty)
        for _second in range(60):
            connection.process_data_events(0.5)
            if "unblocked" in said:
                break
        assert said[1:] == ["unblocked"]
        channel.basic_publish("", "q", b"after")
        last = None
        for method, _properties, body in reader.consume("q", auto_ack=True, inactivity_timeout=60):
            assert method is not None
            last = body
            if last == b"after":
                break
        assert last == b"after"
