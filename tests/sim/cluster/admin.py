"""Somebody who cannot leave well alone: moves replicas, asks for elections, makes and removes topics."""

import asyncio

from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from millpond.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from millpond.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from millpond.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.sim.cluster.client import Client, Refused
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.history import Place
from tests.sim.cluster.trace import Trace

_TIMEOUT_MS = 10_000
_FACTOR = 3


class Admin:
    """What he asks for may be refused; what he gets may not break anything."""

    def __init__(
        self, client: Client, trace: Trace, *, places: list[Place], nodes: list[int], pace: float
    ) -> None:
        self._client = client
        self._trace = trace
        self._places = places
        self._nodes = nodes
        self._pace = pace
        self._count = 0
        self.stopping = False

    async def run(self) -> None:
        """Until told to stop."""
        chance = self._client.chance
        while not self.stopping:
            await asyncio.sleep(chance.random() * 2 * self._pace)
            action = chance.choice([self._elect, self._elect, self._move, self._make, self._remove])
            try:
                await action()
            except (Disconnected, Refused) as no:
                self._trace.note("admin", f"{action.__name__} {no!r}")

    async def _elect(self) -> None:
        topic, partition = self._client.chance.choice(self._places)
        response = await self._client.ask_any(
            ApiKey.ELECT_LEADERS,
            2,
            ElectLeadersRequest(
                election_type=0,
                topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])],
                timeout_ms=_TIMEOUT_MS,
            ),
        )
        self._trace.note("admin", f"elect {topic}-{partition} {response.error_code}")

    async def _move(self) -> None:
        chance = self._client.chance
        topic, partition = chance.choice(self._places)
        replicas = chance.sample(self._nodes, min(len(self._nodes), _FACTOR))
        response = await self._client.ask_any(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            AlterPartitionReassignmentsRequest(
                timeout_ms=_TIMEOUT_MS,
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[
                            ReassignablePartition(partition_index=partition, replicas=replicas)
                        ],
                    )
                ],
            ),
        )
        self._trace.note("admin", f"move {topic}-{partition} {replicas} {response.error_code}")

    async def _make(self) -> None:
        self._count += 1
        topic = CreatableTopic(
            name=f"passing{self._count % 3}",
            num_partitions=self._client.chance.randrange(1, 3),
            replication_factor=min(len(self._nodes), 2),
        )
        response = await self._client.ask_any(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        )
        self._trace.note("admin", f"make {topic.name} {response.topics[0].error_code}")

    async def _remove(self) -> None:
        name = f"passing{self._client.chance.randrange(3)}"
        response = await self._client.ask_any(
            ApiKey.DELETE_TOPICS,
            6,
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS),
        )
        self._trace.note("admin", f"remove {name} {response.responses[0].error_code}")
