"""Bytes that no client should send are refused by the wire alone as RabbitMQ refused them, word for word."""

import pytest

from millpond.wire.shape import received
from tests.interop.amqp.answers import RECORDED_RAW, recorded
from tests.interop.amqp.differences import as_rabbitmq
from tests.interop.amqp.raw_scenes import RAW_SCENES
from tests.support.amqp.amqp_client import said
from tests.support.amqp.amqp_pair import Pair


# What is said of a method that can be read is for a front-end to say.
@pytest.mark.parametrize(
    "scene",
    [
        name
        for name, (said_of_it,) in recorded(RECORDED_RAW).items()
        if "closed: 50" in said_of_it or "immediate" in said_of_it
    ],
)
def test_the_same_refusal(scene: str) -> None:
    pair = Pair().opened(1)
    received(pair.server, RAW_SCENES[scene])
    events = received(pair.client, b"".join(pair.server.data_to_send()))
    heard = [said(event) for event in events]
    assert as_rabbitmq(scene, heard) == recorded(RECORDED_RAW)[scene]
