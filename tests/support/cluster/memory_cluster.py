"""A whole cluster without sockets: real engines on storages in memory, one quorum, one controller.

``async with memory_cluster() as cluster: …``. Messages between nodes are calls that take a millisecond; time
is virtual. A node can stop well, be killed (its page cache goes with it) and come back.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from millpond.base.ids import NodeId
from millpond.engine.api import BrokerEndpoint, Image
from millpond.engine.node.node import Node
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.metadata.configs import BrokerConfig, broker_config_def
from millpond.server.protocols import record_families
from tests.support.cluster.memory_broker import SECRET, MemoryClient, SeededRng, memory_log_dirs
from tests.support.cluster.memory_peers import MemoryNetwork
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop


class MemoryCluster:
    """The nodes that are up, and the storages of all."""

    def __init__(
        self,
        count: int,
        settings: Mapping[str, str],
        *,
        watched: bool = False,
        alone: bool = False,
        disks: int = 1,
    ) -> None:
        self._watched = watched
        self.network = MemoryNetwork()
        self.engines = self.network.engines
        self.frontends: dict[NodeId, KafkaFrontend] = {}
        self.storages = {node: FaultyStorage() for node in range(1, count + 1)}
        # The disks of each node beside the first.
        self.more: dict[NodeId, list[FaultyStorage]] = {
            node: [FaultyStorage() for _ in range(disks - 1)] for node in self.storages
        }
        # How often each machine has lost its power.
        self.boots: Counter[NodeId] = Counter()
        self.voters = tuple(f"{node}@node{node}:9092" for node in self.storages)
        # Settings of single nodes, over those of all.
        self.own_settings: dict[NodeId, dict[str, Any]] = {}
        if alone:
            self.own_settings[1] = {"controller.quorum.voters": ()}
        self.cluster_ids = dict.fromkeys(self.storages, "cluster")
        self._settings = settings
        self._lives = 0
        virtual_loop().busy = lambda: any(
            one.flusher.is_busy or one.repairs.is_busy or one.disk.is_busy
            for one in self.engines.values()
        )

    # --- nodes ----------------------------------------------------------------------------------

    async def start(self, node: NodeId) -> Node:
        """A node begins a life and is reachable; ``up`` waits until the cluster counts on it."""
        engine = self.engine(node)
        self.network.join(node, engine)
        await engine.start()
        engine.runtime.tasks.spawn(self._join(node, engine), name="join")
        return engine

    def engine(self, node: NodeId) -> Node:
        """A node that has not started."""
        values: dict[str, Any] = {
            name.replace("_", "."): broker_config_def(name.replace("_", ".")).parse(text)
            for name, text in self._settings.items()
        }
        self._lives += 1
        peers = self.network.peers_of(node)
        return Node(
            log_dirs=memory_log_dirs(
                self.storages.setdefault(node, FaultyStorage()), *self.more.get(node, ())
            ),
            node_id=node,
            cluster_id=self.cluster_ids.get(node, "cluster"),
            broker=BrokerConfig(
                {
                    "controller.quorum.voters": self.voters,
                    **values,
                    **self.own_settings.get(node, {}),
                }
            ),
            clock=LoopClock(virtual_loop()),
            rng=SeededRng(100 * node + self._lives),
            families=record_families(),
            rack=f"rack-{node}",
            peers=peers,
            watch=peers if self._watched else None,
            boot_id=f"{node}.{self.boots[node]}",
        )

    async def _join(self, node: NodeId, engine: Node) -> None:
        point = BrokerEndpoint(name="PLAINTEXT", host=f"node{node}.test", port=9092)
        self.frontends[node] = KafkaFrontend(engine, secret=SECRET)
        await engine.advertise([point])

    def client(self, node: NodeId) -> MemoryClient:
        """A connection of a client to a node."""
        return MemoryClient(SimpleNamespace(frontend=self.frontends[node]))

    async def stop(self, node: NodeId) -> bool:
        """A clean stop."""
        clean = await self.engines[node].stop()
        self.network.leave(node)
        self.frontends.pop(node, None)
        return clean

    async def kill(self, node: NodeId, *, power: bool = True) -> None:
        """The process is gone, and what was not synced with it, unless the machine is still up."""
        engine = self.engines[node]
        self.network.leave(node)
        self.frontends.pop(node, None)
        engine.metadata.quorum.halt()
        await engine.runtime.tasks.stop()
        await engine.flusher.drained()
        if power:
            self.boots[node] += 1
        for storage in (self.storages[node], *self.more.get(node, ())):
            if power:
                storage.lose_power()
            else:
                storage.kill()

    # --- looking --------------------------------------------------------------------------------

    def node(self, node: NodeId) -> Node:
        return self.engines[node]

    @property
    def image(self) -> Image:
        """The metadata as the one knows them who has come farthest."""
        return max(
            (one.metadata.quorum for one in self.engines.values()), key=lambda one: one.applied
        ).image

    async def until(self, holds: Callable[[], bool], *, within_s: float = 60) -> None:
        """Wait until this holds."""
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.01)

    async def up(self, *nodes: NodeId) -> None:
        """Wait until everybody counts on these nodes."""
        await self.until(
            lambda: all(
                one.metadata.image.is_active(node)
                for node in nodes
                for one in self.engines.values()
            )
        )

    async def controller(self) -> Node:
        """The active controller, once there is one."""
        await self.until(lambda: any(one.metadata.is_controller for one in self.engines.values()))
        return next(one for one in self.engines.values() if one.metadata.is_controller)


@asynccontextmanager
async def memory_cluster(
    count: int = 3,
    disks: int = 1,
    /,
    *,
    watched: bool = False,
    alone: bool = False,
    **settings: str,
) -> AsyncIterator[MemoryCluster]:
    """A cluster that runs as long as the block; ``watched``: nodes see each other's processes end; ``alone``:
    the first knows of no other; each has a log directory on each of its ``disks``.
    """
    cluster = MemoryCluster(count, settings, watched=watched, alone=alone, disks=disks)
    for node in tuple(cluster.storages):
        await cluster.start(node)
    try:
        await cluster.up(*cluster.storages)
        yield cluster
    finally:
        for node in tuple(cluster.engines):
            await cluster.kill(node)
