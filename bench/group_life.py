"""Simulated members of a KIP-848 group, many in one thread: measures how long a group takes to settle.

A member does what Kafka's consumer does: it joins, heartbeats at the given interval, revokes at once what it
must revoke, adds what it is assigned, and confirms it with its next heartbeat, which it sends at once. It
fetches nothing. The messages are made by Millpond's codec; both brokers get the same.
"""

from __future__ import annotations

import heapq
import time
import uuid
from dataclasses import dataclass, field

from tests.support.kafka.wire_client import WireClient

from bench.raw_client import BenchmarkError
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest

SETTLE_SECONDS_MAX = 60.0
BUSY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def find_coordinator(link: WireClient, group: str) -> None:
    """Look up the coordinator, as every client does first; a new broker creates and loads its offsets topic
    then.
    """
    deadline = time.perf_counter() + SETTLE_SECONDS_MAX
    while link.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group)).error_code:
        if time.perf_counter() > deadline:
            raise BenchmarkError(f"there is no coordinator for {group}")
        time.sleep(0.05)


@dataclass(slots=True)
class Member:
    """One consumer of the group, as the coordinator sees it."""

    member_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: dict[uuid.UUID, list[int]] = field(default_factory=dict)
    says: bool = True  # whether the next heartbeat must contain the owned partitions

    @property
    def count(self) -> int:
        return sum(len(parts) for parts in self.owned.values())


class Crowd:
    """A group's members on one connection."""

    def __init__(self, port: int, group: str, topic: str, *, partitions: int) -> None:
        self._link = WireClient(port, timeout_s=30)
        find_coordinator(self._link, group)
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self.members: list[Member] = []
        self._due: list[tuple[float, int, Member]] = []
        self._serial = 0

    def close(self) -> None:
        self._link.close()

    def join(self, count: int) -> float:
        """Add ``count`` members. Return the seconds until the group has settled."""
        started = time.perf_counter()
        for _ in range(count):
            member = Member()
            self.members.append(member)
            self._plan(member, 0.0)
        return self._settle(started)

    def leave(self) -> float:
        """Remove one member. Return the seconds until the others have its partitions."""
        gone = self.members.pop(0)
        started = time.perf_counter()
        self._beat(gone, epoch=-1)
        return self._settle(started)

    def _settle(self, started: float) -> float:
        while not self._is_settled():
            now = time.perf_counter()
            if now - started > SETTLE_SECONDS_MAX:
                raise BenchmarkError(f"the group has not settled in {SETTLE_SECONDS_MAX} s")
            at, _, member = heapq.heappop(self._due)
            if member not in self.members:
                continue
            if at > now:
                time.sleep(at - now)
            self._turn(member)
        return time.perf_counter() - started

    def _is_settled(self) -> bool:
        counts = [member.count for member in self.members]
        return (
            sum(counts) == self._partitions
            and max(counts) - min(counts) <= 1
            and not any(member.says for member in self.members)
        )

    def _plan(self, member: Member, delay_s: float) -> None:
        self._serial += 1
        heapq.heappush(self._due, (time.perf_counter() + delay_s, self._serial, member))

    def _turn(self, member: Member) -> None:
        answer = self._beat(member, epoch=member.epoch)
        if answer.error_code in BUSY:
            self._plan(member, 0.05)
            return
        if answer.error_code:
            raise BenchmarkError(f"the heartbeat answered error {answer.error_code}")
        member.says = False
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            wanted = {
                one.topic_id: sorted(one.partitions) for one in answer.assignment.topic_partitions
            }
            if wanted != member.owned:
                member.owned, member.says = wanted, True
        self._plan(member, 0.0 if member.says else answer.heartbeat_interval_ms / 1000)

    def _beat(self, member: Member, *, epoch: int) -> ConsumerGroupHeartbeatResponse:
        owned = [TopicPartitions(topic_id, parts) for topic_id, parts in member.owned.items()]
        is_new = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            self._group,
            member.member_id,
            epoch,
            rebalance_timeout_ms=45_000 if is_new else -1,
            subscribed_topic_names=[self._topic] if is_new else None,
            topic_partitions=owned if member.says and epoch >= 0 else None,
        )
        answer: ConsumerGroupHeartbeatResponse = self._link.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request
        )
        return answer
