"""What the AMQP interop tests share: one Millpond and one RabbitMQ for the whole run, and the comparison."""

from collections.abc import Callable, Iterator

import pytest

from tests.interop.amqp.brokers import AmqpPeer, Broker, Story
from tests.interop.amqp.differences import as_rabbitmq
from tests.interop.conftest import PROPERTIES
from tests.support.processes import rabbitmq_server
from tests.support.processes.rabbitmq_server import RabbitMq

Alike = Callable[[Story], list[str]]


@pytest.fixture(scope="session")
def amqp_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Millpond that all stories share; each uses names of its own."""
    broker = Broker(tmp_path_factory.mktemp("amqp-stories"), PROPERTIES)
    with broker.process:
        yield broker


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpPeer | None]:
    """A real RabbitMQ; None where it is not installed."""
    if rabbitmq_server.missing_reason():
        yield None
        return
    with RabbitMq(tmp_path_factory.mktemp("rabbitmq")) as rabbit:
        yield AmqpPeer(port=rabbit.port, is_millpond=False)


@pytest.fixture
def alike(amqp_broker: Broker, rabbitmq: AmqpPeer | None) -> Alike:
    """Tells a story to Millpond and to RabbitMQ; answers what Millpond said, if both said the same."""

    def tell(story: Story) -> list[str]:
        ours = story(amqp_broker.peer)
        if rabbitmq is None:
            pytest.skip(f"only Millpond was asked: {rabbitmq_server.missing_reason()}")
        theirs = story(rabbitmq)
        assert as_rabbitmq(story.__name__, ours) == theirs
        return ours

    return tell
