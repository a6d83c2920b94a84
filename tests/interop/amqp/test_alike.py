"""Channels, first words and bad bytes, told to a Millpond process: it answers what RabbitMQ answered.

That RabbitMQ still answers so is ``test_recorded.py``'s business.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.amqp.answers import (
    RECORDED_CHANNELS,
    RECORDED_GREETINGS,
    RECORDED_RAW,
    play_all_channels,
    play_all_greetings,
    play_all_raw,
    recorded,
)
from tests.interop.amqp.brokers import Broker
from tests.interop.amqp.differences import as_rabbitmq


@pytest.mark.parametrize(
    ("path", "play"),
    [
        (RECORDED_CHANNELS, play_all_channels),
        (RECORDED_GREETINGS, play_all_greetings),
        (RECORDED_RAW, play_all_raw),
    ],
    ids=["channels", "greetings", "bad bytes"],
)
def test_millpond_answers_as_rabbitmq_did(
    amqp_broker: Broker, path: Path, play: Callable[[str, int], dict[str, list[str]]]
) -> None:
    ours = play("127.0.0.1", amqp_broker.amqp_port)
    assert {name: as_rabbitmq(name, lines) for name, lines in ours.items()} == recorded(path)
