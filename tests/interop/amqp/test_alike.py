"""Every recorded scene, told to a Millpond process: it answers what RabbitMQ answered.

That RabbitMQ still answers so is ``test_recorded.py``'s business.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.amqp.answers import (
    RECORDED,
    RECORDED_CHANNELS,
    RECORDED_GREETINGS,
    RECORDED_MESSAGES,
    RECORDED_RAW,
    play_all,
    play_all_channels,
    play_all_greetings,
    play_all_messages,
    play_all_raw,
    recorded,
)
from tests.interop.amqp.brokers import Broker
from tests.interop.amqp.differences import as_rabbitmq
from tests.interop.conftest import PROPERTIES


@pytest.fixture(scope="module")
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Millpond that nobody has declared anything in, as RabbitMQ was when it was recorded."""
    broker = Broker(tmp_path_factory.mktemp("alike"), PROPERTIES)
    with broker.process:
        yield broker


@pytest.mark.parametrize(
    ("path", "play"),
    [
        (RECORDED, play_all),
        (RECORDED_MESSAGES, play_all_messages),
        (RECORDED_CHANNELS, play_all_channels),
        (RECORDED_GREETINGS, play_all_greetings),
        (RECORDED_RAW, play_all_raw),
    ],
    ids=["what is declared", "messages", "channels", "greetings", "bad bytes"],
)
def test_millpond_answers_as_rabbitmq_did(
    fresh_broker: Broker, path: Path, play: Callable[[str, int], dict[str, list[str]]]
) -> None:
    ours = play("127.0.0.1", fresh_broker.amqp_port)
    assert {name: as_rabbitmq(name, lines) for name, lines in ours.items()} == recorded(path)
