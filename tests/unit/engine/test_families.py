"""A protocol that is registered with its records has them kept by every node; no other code knows them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from millpond.base.errors import CorruptLog, UnsupportedVersion
from millpond.engine.node.node import Node
from millpond.metadata.levels import MILLPOND_VERSION
from millpond.metadata.records import FeatureLevelRecord
from millpond.server.protocols import AMQP, Scheme, register, unregister
from tests.support.cluster.memory_broker import memory_broker
from tests.support.cluster.memory_cluster import memory_cluster
from tests.support.cluster.toy_family import TOY, NumberDeleted, NumberSet, ToyFact
from tests.support.storage.faulty_storage import FaultyStorage


@pytest.fixture
def toy() -> Iterator[None]:
    protocol = replace(
        AMQP, name="toy", option="--toy", schemes=(Scheme("TOY"),), families=lambda: (TOY,)
    )
    register(protocol)
    yield
    unregister("toy")


async def write(node: Node, *facts: ToyFact) -> None:
    await node.metadata.quorum.propose([TOY.record(fact) for fact in facts])


def numbers(node: Node) -> dict[str, int]:
    return dict(TOY.slice_of(node.metadata.image))


@pytest.mark.usefixtures("toy")
async def test_facts_are_there_after_a_restart_from_the_log_and_from_a_snapshot() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await write(broker.engine, NumberSet(name="a", value=1), NumberSet(name="b", value=2))
        assert numbers(broker.engine) == {"a": 1, "b": 2}
    async with memory_broker(storage) as broker:
        assert numbers(broker.engine) == {"a": 1, "b": 2}
        await broker.engine.metadata.quorum.take_snapshot()
        await write(broker.engine, NumberDeleted(name="a"))
    async with memory_broker(storage) as broker:
        assert numbers(broker.engine) == {"b": 2}


@pytest.mark.usefixtures("toy")
async def test_every_node_of_a_cluster_has_the_facts() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        await write(controller, NumberSet(name="a", value=1))
        for node in cluster.engines.values():
            await node.metadata.until(lambda: bool(numbers(node)), timeout_ms=5_000)  # noqa: B023
            assert numbers(node) == {"a": 1}


@pytest.mark.usefixtures("toy")
async def test_facts_are_not_written_below_the_level_of_their_family() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        older = FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=TOY.level - 1)
        await controller.metadata.quorum.propose([older])
        with pytest.raises(UnsupportedVersion, match="run `millpond cluster upgrade`"):
            await write(controller, NumberSet(name="a", value=1))
        assert not numbers(controller)


async def test_a_node_that_does_not_know_a_family_does_not_start_with_its_facts() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await write(broker.engine, NumberSet(name="a", value=1))
    with pytest.raises(CorruptLog, match="a newer version of Millpond wrote it"):
        async with memory_broker(storage):
            pass
