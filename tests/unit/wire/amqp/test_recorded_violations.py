"""Bytes that no client should send are refused as RabbitMQ refused them, word for word."""

import pytest

from tests.interop.amqp.answers import RECORDED_RAW, recorded
from tests.interop.amqp.raw_scenes import DIFFERENT, RAW_SCENES
from tests.support.amqp_client import said
from tests.support.amqp_pair import Pair


@pytest.mark.parametrize("scene", [name for name in RAW_SCENES if name not in DIFFERENT])
def test_the_same_refusal(scene: str) -> None:
    pair = Pair().opened(1)
    pair.server.receive_data(RAW_SCENES[scene])
    events = pair.client.receive_data(b"".join(pair.server.data_to_send()))
    assert [said(event) for event in events] == recorded(RECORDED_RAW)[scene]
