"""What every simulated client does: find out who leads, ask him, look again when he says no."""

from random import Random
from typing import Any
from uuid import UUID

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.sim.cluster.connection import Connection, Disconnected
from tests.sim.cluster.network import Network
from tests.sim.cluster.node import Node
from tests.support.time.sim_loop import ProcessLoop

REQUEST_TIMEOUT = 15.0

GROUP = 0
TRANSACTION = 1


class Refused(Exception):
    """A node answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


def check(code: int) -> None:
    """Raise what a node refused with."""
    if code:
        raise Refused(code)


class Client:
    """Connections, and what metadata said last."""

    def __init__(
        self, network: Network, loop: ProcessLoop, nodes: list[Node], chance: Random
    ) -> None:
        self._network = network
        self._loop = loop
        self._nodes = {node.id: node for node in nodes}
        self._connections: dict[int, Connection] = {}
        self.chance = chance
        # (topic, partition) → (leader, epoch, replicas).
        self._leaders: dict[tuple[str, int], tuple[int, int, list[int]]] = {}
        # The newest epoch of each: a node that is behind must not lead us back (KIP-320).
        self._epochs: dict[tuple[str, int], int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.controller = -1
        self.topic_ids: dict[str, UUID] = {}

    async def ask(
        self,
        node_id: int,
        api_key: int,
        version: int,
        message: object,
        *,
        timeout: float = REQUEST_TIMEOUT,
    ) -> Any:
        """One request to one node. Raises ``Disconnected``."""
        node = self._nodes.get(node_id)
        if node is None:
            raise Disconnected
        known = self._connections.get(node_id)
        if known is None or known.is_dead:
            known = self._connections[node_id] = Connection(self._network, self._loop, node)
        return await known.ask(api_key, version, message, timeout=timeout)

    async def ask_any(self, api_key: int, version: int, message: object) -> Any:
        """One request to whichever node."""
        return await self.ask(
            self.chance.choice(list(self._nodes)), api_key, version, message, timeout=5.0
        )

    def is_rotten(self, node_id: int) -> bool:
        """Whether this node's disk is known to be bad, which only who sees everything knows."""
        return self._nodes[node_id].is_rotten

    # --- leaders ----------------------------------------------------------------------------------

    async def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Who leads, in which epoch. Raises ``Refused`` or ``Disconnected`` if that is not known now."""
        key = topic, partition
        if key not in self._leaders:
            await self.look_up(topic)
        if key not in self._leaders:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        return self._leaders[key][:2]

    def replicas(self, topic: str, partition: int) -> list[int]:
        """Who had a replica when metadata was last asked."""
        return self._leaders[topic, partition][2]

    async def look_up(self, topic: str) -> None:
        """Ask some node for a topic's leaders. Newer knowledge is never replaced by older."""
        await self._look_up_at(self.chance.choice(list(self._nodes)), topic)

    async def newest_leader(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Who leads in the newest epoch that any node knows; nothing if one of them does not say."""
        for node_id in self._nodes:
            try:
                await self._look_up_at(node_id, topic)
            except (Disconnected, Refused):
                return None
        found = self._leaders.get((topic, partition))
        return found[:2] if found is not None else None

    async def _look_up_at(self, node_id: int, topic: str) -> None:
        response = await self.ask(
            node_id,
            ApiKey.METADATA,
            12,
            MetadataRequest(
                topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            ),
            timeout=5.0,
        )
        self.controller = response.controller_id
        (found,) = response.topics
        check(found.error_code)
        self.topic_ids[topic] = found.topic_id
        for one in found.partitions:
            key = topic, one.partition_index
            if one.leader_id < 0 or one.leader_epoch < self._epochs.get(key, 0):
                continue
            self._epochs[key] = one.leader_epoch
            self._leaders[key] = one.leader_id, one.leader_epoch, one.replica_nodes

    def forget_leader(self, topic: str, partition: int) -> None:
        """It was wrong."""
        self._leaders.pop((topic, partition), None)

    # --- coordinators -----------------------------------------------------------------------------

    async def coordinator(self, kind: int, key: str) -> int:
        """Who coordinates a group or a transactional id."""
        known = self._coordinators.get((kind, key))
        if known is None:
            response = await self.ask_any(
                ApiKey.FIND_COORDINATOR,
                4,
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
            )
            (found,) = response.coordinators
            check(found.error_code)
            known = self._coordinators[kind, key] = found.node_id
        return known

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It was wrong."""
        self._coordinators.pop((kind, key), None)
