"""Clients of the newer group protocol for tests: they do what real ones do with what the broker tells them.

A client owns partitions. Told of an assignment it takes what is new at once; what is not in it any more it
gives up when it ``revokes``, and says so with its next heartbeat. What it says costs nothing: a client that
has nothing to say leaves the fields out.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from millpond.base.errors import MemberEpochFenced, MillpondError, UnknownMember
from millpond.group.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from millpond.group.consumer.records import Target
from tests.support.kafka.group_host import GROUP, Desk


@dataclass(eq=False)
class Consumer:
    """A client's view of its membership."""

    member_id: str
    topics: tuple[str, ...] | None = ("t",)
    pattern: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    # What it owns, and what of it it may keep.
    owned: set[tuple[UUID, int]] = field(default_factory=set)
    allowed: set[tuple[UUID, int]] = field(default_factory=set)
    said: set[tuple[UUID, int]] | None = None
    # An answer did not come: the next heartbeat says everything, and hears everything.
    missed_answer: bool = False

    def join(self, desk: Desk, **fields: Any) -> ConsumerHeartbeatAnswer:
        """Begin anew, with empty hands."""
        self.epoch, self.owned, self.allowed, self.said = 0, set(), set(), None
        full: dict[str, Any] = {
            "epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "topics": self.topics,
            "pattern": self.pattern,
            "assignor": self.assignor,
            "owned": {},
        }
        return self.send(desk, **(full | fields))

    def beat(self, desk: Desk, **fields: Any) -> ConsumerHeartbeatAnswer:
        """Revoke what must go, and say what is owned if that is news."""
        self.revoke()
        if self.owned != self.said:
            fields = {"owned": as_target(self.owned)} | fields
        if self.missed_answer:
            all_of_it: dict[str, Any] = {
                "rebalance_timeout_ms": 30_000,
                "topics": self.topics,
                "pattern": self.pattern,
                "owned": as_target(self.owned),
            }
            fields = all_of_it | fields
        answer = self.send(desk, **fields)
        self.missed_answer = False
        return answer

    def send(self, desk: Desk, **fields: Any) -> ConsumerHeartbeatAnswer:
        """One heartbeat with just these fields."""
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "epoch": self.epoch,
            "instance_id": self.instance_id,
            "client_id": "client",
            "client_host": "/127.0.0.1",
        }
        command = ConsumerHeartbeat(**(defaults | fields))
        answer = desk.perform(command)
        if command.owned is not None:
            self.said = as_places(command.owned)
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.allowed = as_places(answer.assignment)
            self.owned |= self.allowed
        return answer

    def revoke(self) -> None:
        self.owned &= self.allowed

    def leave(self, desk: Desk, epoch: int = -1) -> None:
        self.send(desk, epoch=epoch)
        self.owned, self.allowed = set(), set()

    def live(self, desk: Desk) -> None:
        """One round of a well-behaved client: a heartbeat, or joining again if it is not known any more."""
        try:
            if self.epoch <= 0:
                self.join(desk)
            else:
                self.beat(desk)
        except (UnknownMember, MemberEpochFenced):
            self.epoch, self.owned, self.allowed = 0, set(), set()
        except MillpondError:
            # For instance the group is full, or the log refuses: ask again later.
            return

    @property
    def partitions(self) -> list[int]:
        """The numbers of what it owns, of whatever topic."""
        return sorted(partition for _topic, partition in self.owned)


def settle(desk: Desk, *consumers: Consumer, rounds: int = 12) -> None:
    """Everyone lives for some rounds, a second apart."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.live(desk)
        desk.pass_time(1_000)


def as_places(target: Target) -> set[tuple[UUID, int]]:
    return {(topic, partition) for topic, partitions in target.items() for partition in partitions}


def as_target(places: set[tuple[UUID, int]]) -> Target:
    target: dict[UUID, set[int]] = {}
    for topic, partition in places:
        target.setdefault(topic, set()).add(partition)
    return {topic: frozenset(partitions) for topic, partitions in target.items()}
