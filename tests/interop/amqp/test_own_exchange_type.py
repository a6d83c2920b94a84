"""An exchange type of one's own, in a broker process that was told of it, for a client that knows nothing."""

import os
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.interop.amqp.brokers import Broker
from tests.support.processes.broker_process import ROOT


def test_a_plug_in_routes_for_pika_and_survives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    broker = Broker(tmp_path)
    broker.process.properties["amqp.exchange.types"] = "examples.rollout_exchange:Rollout"
    with broker.process as process:
        with broker.connect() as connection:
            channel = connection.channel()
            channel.exchange_declare("shop", "x-rollout", durable=True)
            for queue, percent in (("old", 80), ("new", 20)):
                channel.queue_declare(queue, durable=True)
                channel.queue_bind(queue, "shop", arguments={"percent": percent})
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="percent"):
                channel.queue_bind("new", "shop", arguments={"percent": 101})
            before = _published(connection, range(60))
        process.restart()
        with broker.connect() as connection:
            assert _published(connection, range(60)) == before
    # Both got their share, and nobody went both ways.
    assert 3 < len(before["new"]) < 25
    assert sorted(before["new"] + before["old"]) == sorted(map(str, range(60)))


def _published(connection: pika.BlockingConnection, users: range) -> dict[str, list[str]]:
    """Who went where."""
    channel = connection.channel()
    channel.confirm_delivery()
    for user in users:
        properties = pika.BasicProperties(headers={"user": f"user-{user}"})
        channel.basic_publish("shop", "", str(user).encode(), properties, mandatory=True)
    found: dict[str, list[str]] = {"old": [], "new": []}
    for queue, bodies in found.items():
        while True:
            method, _properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                break
            bodies.append(body.decode())
    return found
