"""A coordinator's topic with batches that cannot be read: they are said, and the rest is loaded."""

import pytest

from millpond.engine.coordinators.record_replay import stored_batches
from tests.support.cluster.memory_broker import batch, memory_broker
from tests.support.storage.poison import BROKEN_COMPRESSION, POISON, poisoned, sealed
from tests.support.time.virtual_loop import run


def test_the_facts_behind_poison_are_loaded(caplog: pytest.LogCaptureFixture) -> None:
    nonsense = [
        *(poisoned(make()) for make in POISON.values()),
        *(sealed(1, body, codec) for codec, body in BROKEN_COMPRESSION.items()),
        sealed(1, b"x" * 20, 7),  # there is no such codec
    ]

    async def story() -> None:
        async with memory_broker() as broker:
            await broker.create("t")
            for number, one in enumerate(nonsense):
                broker.engine.partitions.append(
                    "t", 0, bytearray(batch(b"%d" % number)), internal=True
                )
                broker.engine.partitions.append("t", 0, bytearray(one), internal=True)
            partition = broker.engine.partitions.partition("t", 0)
            loaded = stored_batches(partition, broker.engine.repairs.may_come_back)
            values = [record.value for _header, records in loaded for record in records]
            assert values == [b"%d" % number for number in range(len(nonsense))]

    run(story())
    said = [one.message for one in caplog.records if "a batch cannot be read" in one.message]
    assert len(said) == len(nonsense)
