"""A command is decided by the controller, wherever it was submitted; the answer comes when it is applied."""

import asyncio
from dataclasses import dataclass, field

import pytest

from millpond.base.errors import MillpondError, NotController, PolicyViolation
from millpond.engine.node.node import Node
from millpond.engine.peers import PeerRequest
from millpond.metadata.records import RESOURCE_GROUP, ConfigRecord
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster

GROUP = "counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCounter(PeerRequest[int]):
    """To the controller: the counter is at this value; the answer is the offset of the fact."""

    value: int


@dataclass
class Counter:
    """A domain of its own: a setting in the metadata, decided by the controller."""

    node: Node
    decided: list[int] = field(default_factory=list)
    is_refused: bool = False
    # How often this node says that it is not the controller, although it is.
    not_yet: int = 0

    def __post_init__(self) -> None:
        self.node.peer_handlers.serve(SetCounter, self._on_request)

    @property
    def value(self) -> str | None:
        return self.node.metadata.image.config_of(RESOURCE_GROUP, GROUP).get("count")

    async def decide(self, command: int) -> int:
        if self.not_yet:
            self.not_yet -= 1
            raise NotController("not yet")
        if self.is_refused:
            raise PolicyViolation("the counter stands")
        quorum = self.node.metadata.quorum
        self.decided.append(command)
        await quorum.propose(
            [
                ConfigRecord(
                    resource_type=RESOURCE_GROUP,
                    resource_name=GROUP,
                    name="count",
                    value=str(command),
                )
            ]
        )
        return quorum.applied - 1

    def request(self, command: int) -> SetCounter:
        return SetCounter(value=command)

    async def applied(self, command: int, reply: int) -> int:
        del command
        await self.node.metadata.quorum.applied_beyond(reply)
        return reply

    async def _on_request(self, request: SetCounter) -> int:
        if not self.node.metadata.is_controller:
            raise NotController("another node is the controller")
        return await self.decide(request.value)


async def counters(cluster: MemoryCluster) -> tuple[Counter, list[Counter]]:
    """The controller's counter, and those of the other nodes."""
    controller = await cluster.controller()
    made = {node: Counter(engine) for node, engine in cluster.engines.items()}
    own = made.pop(controller.info.node_id)
    return own, list(made.values())


async def test_the_controller_decides_and_every_submitter_has_it_applied() -> None:
    async with memory_cluster() as cluster:
        controller, others = await counters(cluster)
        for value, counter in enumerate((controller, *others), start=1):
            await counter.node.commands.submit(counter, value)
            assert counter.value == str(value)
            assert controller.decided[-1] == value
        assert not any(counter.decided for counter in others)


async def test_a_refusal_reaches_the_submitter_with_its_class() -> None:
    async with memory_cluster() as cluster:
        controller, others = await counters(cluster)
        controller.is_refused = True
        for counter in (controller, *others):
            with pytest.raises(PolicyViolation, match="stands"):
                await counter.node.commands.submit(counter, 1)


async def test_a_node_that_does_not_decide_yet_is_asked_until_it_does() -> None:
    async with memory_cluster() as cluster:
        controller, others = await counters(cluster)
        for counter in (controller, others[0]):
            controller.not_yet = 3
            await counter.node.commands.submit(counter, 7)
            assert not controller.not_yet
            assert counter.value == "7"


async def test_the_next_controller_decides_when_the_first_one_is_gone() -> None:
    async with memory_cluster() as cluster:
        controller, others = await counters(cluster)
        await cluster.kill(controller.node.info.node_id)
        async with asyncio.TaskGroup() as group:
            for one in others:
                group.create_task(one.node.commands.submit(one, 1))
        assert all(one.value == "1" for one in others)


async def test_without_a_controller_a_submitter_is_told_in_time() -> None:
    async with memory_cluster() as cluster:
        controller, others = await counters(cluster)
        await cluster.kill(controller.node.info.node_id)
        await cluster.kill(others[1].node.info.node_id)
        with pytest.raises(MillpondError, match="did not answer SetCounter within 500 ms"):
            await others[0].node.commands.submit(others[0], 1, timeout_ms=500)
