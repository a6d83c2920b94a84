"""Somebody who cannot leave well alone: moves replicas, asks for elections, makes and removes topics."""

import asyncio
from uuid import UUID

from millpond.raft.messages import ReplicaKey
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from millpond.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from millpond.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from millpond.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from millpond.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from millpond.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.sim.cluster.client import Client, Refused
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.history import Place
from tests.sim.cluster.node import Node
from tests.sim.cluster.trace import Trace

_TIMEOUT_MS = 10_000
_FACTOR = 3
_VOTERS = 3
_NO_ID = UUID(int=0)


class Admin:
    """What he asks for may be refused; what he gets may not break anything."""

    def __init__(
        self, client: Client, trace: Trace, *, places: list[Place], nodes: list[Node], pace: float
    ) -> None:
        self._client = client
        self._trace = trace
        self._places = places
        self._machines = nodes
        self._nodes = [node.id for node in nodes]
        self._pace = pace
        self._count = 0
        self.stopping = False

    async def run(self) -> None:
        """Until told to stop."""
        chance = self._client.chance
        while not self.stopping:
            await asyncio.sleep(chance.random() * 2 * self._pace)
            actions = [self._elect, self._elect, self._move, self._make, self._remove]
            action = chance.choice([*actions, self._change_voters] if self._has_quorum else actions)
            try:
                await action()
            except (Disconnected, Refused) as no:
                self._trace.note("admin", f"{action.__name__} {no!r}")

    @property
    def _has_quorum(self) -> bool:
        return len(self._nodes) > 1

    async def _change_voters(self) -> None:
        """One voter fewer, or again one more; whoever leads the quorum does it, or says no."""
        leader = next((one for one in self._machines if _leads(one)), None)
        if leader is None or leader.engine is None:
            return
        voters = leader.engine.metadata.quorum.voters
        # A voter whose disk was replaced is another one now, and has to be let in anew.
        keys = {one.id: key for one in self._machines if (key := _key_of(one)) is not None}
        lost = [one.key for one in voters if one.key.directory and one.key != keys.get(one.key.id)]
        absent = [one for one in self._machines if one.id not in voters.ids]
        if lost:
            await self._remove_voter(leader.id, lost[0])
        elif len(voters.ids) >= _VOTERS and voters.ids <= keys.keys():
            # Whoever removes one while another is missing may be left with a change that nobody can agree on.
            voter = self._client.chance.choice(sorted(voters.ids & keys.keys()))
            # A rotten disk is to be replaced, which two voters could not spare.
            if not any(one.is_rotten for one in self._machines):
                await self._remove_voter(leader.id, keys[voter])
        elif absent:
            await self._add_voter(leader.id, self._client.chance.choice(absent))

    async def _remove_voter(self, leader: int, voter: ReplicaKey) -> None:
        response = await self._client.ask(
            leader,
            ApiKey.REMOVE_RAFT_VOTER,
            0,
            RemoveRaftVoterRequest(
                cluster_id="sim",
                voter_id=voter.id,
                voter_directory_id=voter.directory or _NO_ID,
            ),
        )
        self._trace.note("admin", f"remove voter {voter.id} {response.error_code}")
        if not response.error_code:
            self._trace.counts["voters removed"] += 1

    async def _add_voter(self, leader: int, machine: Node) -> None:
        key = _key_of(machine)
        if key is None:
            return
        response = await self._client.ask(
            leader,
            ApiKey.ADD_RAFT_VOTER,
            0,
            AddRaftVoterRequest(
                cluster_id="sim",
                timeout_ms=_TIMEOUT_MS,
                voter_id=machine.id,
                voter_directory_id=key.directory or _NO_ID,
                listeners=[Listener(name="PLAINTEXT", host=f"node{machine.id}", port=9092)],
            ),
        )
        self._trace.note("admin", f"add voter {machine.id} {response.error_code}")
        if not response.error_code:
            self._trace.counts["voters added"] += 1

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


def _key_of(node: Node) -> ReplicaKey | None:
    return node.engine.metadata.quorum.key if node.engine is not None and node.has_started else None


def _leads(node: Node) -> bool:
    return node.engine is not None and node.has_started and node.engine.metadata.quorum.is_active
