"""What is recorded of RabbitMQ is what RabbitMQ says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.amqp.answers import (
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
from tests.support.processes.rabbitmq_server import RabbitMq, missing_reason


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
    place: Path = tmp_path_factory.mktemp("rabbitmq")
    with RabbitMq(place) as server:
        yield server


def test_rabbitmq_answers_as_it_did(rabbit: RabbitMq) -> None:
    assert play_all("127.0.0.1", rabbit.port) == recorded()


def test_rabbitmq_treats_messages_as_it_did(rabbit: RabbitMq) -> None:
    assert play_all_messages("127.0.0.1", rabbit.port) == recorded(RECORDED_MESSAGES)


def test_rabbitmq_refuses_bad_bytes_as_it_did(rabbit: RabbitMq) -> None:
    assert play_all_raw("127.0.0.1", rabbit.port) == recorded(RECORDED_RAW)


def test_rabbitmq_treats_channels_as_it_did(rabbit: RabbitMq) -> None:
    heard = play_all_channels("127.0.0.1", rabbit.port)
    # Two of its processes speak here, and which is the first is chance.
    both = heard["a consumer whose queue goes"]
    both[2:4] = sorted(both[2:4], reverse=True)
    assert heard == recorded(RECORDED_CHANNELS)


def test_rabbitmq_greets_as_it_did(rabbit: RabbitMq) -> None:
    assert play_all_greetings("127.0.0.1", rabbit.port) == recorded(RECORDED_GREETINGS)
