"""Every endpoint has the fields that RabbitMQ's has, of the same types, but for declared differences."""

from millpond.base.pressure import Readings
from millpond.engine.limits.pressure import PressureWatch
from millpond.wire.amqp.methods import BasicConsume, BasicQos
from tests.interop.amqp.http_scenes import Ask
from tests.interop.amqp.http_shapes import (
    FURNITURE,
    MESSAGES,
    Shape,
    differences,
    endpoints,
    recorded_shapes,
    shape_of,
    undeclared,
)
from tests.support.amqp.management import ManagedBroker, managed_broker
from tests.support.time.virtual_loop import run


class QuietMachine:
    """Nothing runs low."""

    total_bytes = 2**32

    def read(self) -> Readings:
        return Readings(resident_bytes=2**26, disk_free_bytes=2**40)

    def give_back(self) -> None:
        """There is nothing to give back."""


async def shapes() -> dict[str, Shape]:
    async with managed_broker() as broker:
        frontend = broker.amqp.frontend
        frontend.watch = PressureWatch(
            QuietMachine(), frontend.engine.settings.get, frontend.on_pressure
        )
        frontend.watch.look()
        await _do(broker, FURNITURE)
        client = await broker.amqp.client(1)
        await client.ask(1, BasicQos(prefetch_count=1))
        await client.ask(1, BasicConsume(queue="work", consumer_tag="me"))
        await _do(broker, MESSAGES)
        await client.wait()
        known = [await broker.get(name) for name in ("overview", "connections", "channels")]
        found = {}
        for endpoint, path in endpoints(*known):
            answer = await broker.ask("GET", path)
            found[endpoint] = shape_of(answer.status, answer.body)
        return found


async def _do(broker: ManagedBroker, asks: tuple[Ask, ...]) -> None:
    for ask in asks:
        answer = await broker.ask(ask.method, ask.path, ask.data)
        assert answer.status < 300, (str(ask), answer)


def test_the_same_fields_of_the_same_types() -> None:
    assert undeclared(differences(run(shapes()), recorded_shapes())) == []
