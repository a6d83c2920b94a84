"""Consumers that share partitions as members of a group (KIP-848): they come, go, fall silent and come back.

Whoever has a partition goes on where the group stands. A position that was acknowledged never goes back,
whoever commits: one who was given up for dead and does not know it is refused.
"""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.sim.cluster.client import GROUP, Client, Refused, check
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.consumers import committed_offset, fetch
from tests.sim.cluster.history import History, Place
from tests.sim.cluster.producers import PASSING
from tests.sim.cluster.trace import Broken, Trace

_PACE = 5.0
_REBALANCE_MS = 10_000
# Longer than a session.
_SILENCE = 30.0

_JOIN, _LEAVE = 0, -1

# The coordinator has given the member up, or has not heard yet of its newest epoch.
_OUTCAST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_BEHIND = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID})


@dataclass(slots=True)
class Team:
    """A group, as all of its members together know it."""

    name: str
    topic: str
    partitions: int
    acknowledged: dict[int, int] = field(default_factory=dict)
    tried: dict[int, int] = field(default_factory=dict)

    async def position(self, client: Client, partition: int) -> int:
        """Where the group stands, which is never behind what was acknowledged before anybody asked."""
        lowest = self.acknowledged.get(partition, -1)
        offset = await committed_offset(client, self.name, (self.topic, partition))
        if not lowest <= offset <= self.tried.get(partition, -1):
            raise Broken(
                f"{self.name}: {self.topic}-{partition} was committed at {lowest} "
                f"(tried up to {self.tried.get(partition, -1)}), and is at {offset}"
            )
        return offset

    async def check_end(self, client: Client) -> None:
        """Every partition, after the faults."""
        for partition in range(self.partitions):
            await self.position(client, partition)


class Member:
    """One of them."""

    def __init__(
        self, name: str, team: Team, client: Client, history: History, trace: Trace
    ) -> None:
        self.name = name
        self._team = team
        self._client = client
        self._history = history
        self._trace = trace
        self._id = self._new_id()
        self._epoch = _JOIN
        # Partitions that it has, and how far it has read them.
        self._positions: dict[int, int] = {}
        self.stopping = False

    def _new_id(self) -> str:
        return str(UUID(int=self._client.chance.getrandbits(128), version=4))

    async def run(self) -> None:
        """Until told to stop."""
        chance = self._client.chance
        while not self.stopping:
            try:
                if self._positions:
                    await self.work()
                await self.beat()
            except Disconnected:
                self._forget()
            except Refused as refused:
                self._on_refusal(refused)
            fate = chance.random()
            if fate < 0.04:
                await asyncio.sleep(_SILENCE)  # and goes on as if nothing had been
            elif fate < 0.06:
                await self._leave()
            await asyncio.sleep(chance.random() * 2 * _PACE)

    def _forget(self) -> None:
        self._client.forget_coordinator(GROUP, self._team.name)
        for partition in self._positions:
            self._client.forget_leader(self._team.topic, partition)

    def _on_refusal(self, refused: Refused) -> None:
        self._trace.note("refused", f"{self.name} {refused}")
        if refused.code in _OUTCAST:
            self._begin_anew()
        elif refused.code not in PASSING | _BEHIND:
            raise Broken(f"{self.name} is refused with {refused}") from None
        self._forget()

    def _begin_anew(self) -> None:
        self._epoch = _JOIN
        self._positions.clear()

    async def _leave(self) -> None:
        try:
            await self._beat(_LEAVE)
        except (Disconnected, Refused):
            self._forget()
        self._id = self._new_id()
        self._begin_anew()

    @property
    def owned(self) -> list[int]:
        """The partitions that it believes to have."""
        return sorted(self._positions)

    async def beat(self) -> None:
        """Be heard of, and hear what it has now."""
        await self._beat(self._epoch)

    async def _beat(self, epoch: int) -> None:
        team = self._team
        topic_id = self._client.topic_ids.get(team.topic)
        if topic_id is None:
            await self._client.look_up(team.topic)
            topic_id = self._client.topic_ids[team.topic]
        owned = TopicPartitions(topic_id=topic_id, partitions=sorted(self._positions))
        response = await self._client.ask(
            await self._client.coordinator(GROUP, team.name),
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            ConsumerGroupHeartbeatRequest(
                group_id=team.name,
                member_id=self._id,
                member_epoch=epoch,
                rebalance_timeout_ms=_REBALANCE_MS,
                subscribed_topic_names=[team.topic],
                topic_partitions=[owned] if self._positions else [],
            ),
        )
        check(response.error_code)
        self._epoch = response.member_epoch
        if response.assignment is not None and epoch != _LEAVE:
            given = {
                index
                for one in response.assignment.topic_partitions
                if one.topic_id == topic_id
                for index in one.partitions
            }
            await self._own(given)

    async def _own(self, given: set[int]) -> None:
        for partition in sorted(set(self._positions) - given):
            del self._positions[partition]
        for partition in sorted(given - set(self._positions)):
            self._positions[partition] = max(await self._team.position(self._client, partition), 0)
        self._trace.note("assigned", f"{self.name} {self._epoch} {sorted(self._positions.items())}")

    async def work(self) -> None:
        """Read on in one of its partitions, and commit how far it came."""
        partition = self._client.chance.choice(sorted(self._positions))
        place: Place = self._team.topic, partition
        node_id, epoch = await self._client.leader(*place)
        after, found, _high = await fetch(
            self._client, place, self._positions[partition], node_id=node_id, epoch=epoch, wait_ms=0
        )
        for offset, value in found:
            self._history.read(place, offset, value)
        self._positions[partition] = after
        await self.commit(partition, after)

    async def commit(self, partition: int, offset: int) -> None:
        """Say how far it came, as the member that it believes to be."""
        team = self._team
        coordinator = await self._client.coordinator(GROUP, team.name)
        team.tried[partition] = max(team.tried.get(partition, -1), offset)
        response = await self._client.ask(
            coordinator,
            ApiKey.OFFSET_COMMIT,
            9,
            OffsetCommitRequest(
                group_id=team.name,
                member_id=self._id,
                generation_id_or_member_epoch=self._epoch,
                topics=[
                    OffsetCommitRequestTopic(
                        name=team.topic,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=partition, committed_offset=offset
                            )
                        ],
                    )
                ],
            ),
        )
        check(response.topics[0].partitions[0].error_code)
        team.acknowledged[partition] = max(team.acknowledged.get(partition, -1), offset)
        self._trace.note("committed", f"{self.name} {partition} {offset}")
