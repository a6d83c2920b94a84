"""Measures how long a consumer group (KIP-848) takes to settle, without sockets: decisions and records.

    python -m bench.micro_rebalance [members] [partitions]

Members join one after the other, as far apart as heartbeats would bring them; then one leaves, then one
joins. Each scene lasts until every member has its target assignment. The times are this program's work alone:
in a real group the members' heartbeat interval is added, once or twice.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from millpond.group import kinds
from millpond.group.consumer.assignors import Candidate, assign_range, assign_uniform
from millpond.group.consumer.group import ConsumerGroup
from millpond.group.consumer.image import ConsumerState
from millpond.group.consumer.messages import ConsumerHeartbeat
from millpond.group.consumer.records import Target
from millpond.group.coordinator import GroupCoordinator
from millpond.group.messages import GroupSettings, Now
from millpond.group.topics import TopicShape, TopicView

GROUP = "readers"
TOPIC = TopicShape(UUID(int=1), 0)


@dataclass
class Scene:
    """A coordinator and its members; counts their work."""

    partitions: int
    now_ms: int = 1_700_000_000_000
    heartbeats: int = 0
    facts: int = 0
    epochs: dict[str, int] = field(default_factory=dict)
    owned: dict[str, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = TopicShape(TOPIC.topic_id, self.partitions)
        self.coordinator = GroupCoordinator(GroupSettings(), topics=TopicView.of({"t": shape}))

    @property
    def group(self) -> ConsumerGroup:
        group = self.coordinator.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(self, member_id: str, epoch: int | None = None) -> None:
        known = self.epochs.get(member_id, 0) if epoch is None else epoch
        joins = known == 0
        command = ConsumerHeartbeat(
            group_id=GROUP,
            member_id=member_id,
            epoch=known,
            rebalance_timeout_ms=60_000 if joins else None,
            topics=("t",) if joins else None,
            owned={} if joins else self.owned.get(member_id, {}),
        )
        now = Now(wall_ms=self.now_ms, steady_ms=self.now_ms)
        decision = self.coordinator.decide(command, now)
        facts = decision.outbox.records
        for fact in facts:
            kinds.encode(fact)
        self.coordinator.apply(facts, now)
        self.heartbeats += 1
        self.facts += len(facts)
        self.epochs[member_id] = decision.answer.epoch
        if decision.answer.assignment is not None:
            self.owned[member_id] = decision.answer.assignment
        if decision.answer.epoch < 0:
            del self.epochs[member_id]
            self.owned.pop(member_id, None)

    def join(self, members: int) -> None:
        for number in range(members):
            self.beat(f"member-{number}")

    def settle(self) -> None:
        while True:
            # A second between rounds: targets are computed at most that often.
            self.now_ms += 1_000
            for member_id in tuple(self.epochs):
                self.beat(member_id)
            if self.group.state is ConsumerState.STABLE:
                return


def main() -> None:
    members, partitions = (int(text) for text in (*sys.argv[1:], "200", "1000")[:2])
    print(f"{members} members, {partitions} partitions\n")
    scene = Scene(partitions)
    _timed(scene, "all join", lambda: scene.join(members))
    _timed(scene, "one leaves", lambda: scene.beat("member-0", epoch=-1))
    _timed(scene, "one comes", lambda: scene.beat("member-new"))
    _timed(scene, "nothing happens", lambda: None)
    print()
    counts = {TOPIC.topic_id: partitions}
    other = {UUID(int=2): partitions}
    for name, assignor in (("uniform", assign_uniform), ("range", assign_range)):
        same = {f"m{n}": Candidate(topics=counts) for n in range(members)}
        mixed = {
            f"m{n}": Candidate(topics=counts if n % 2 else counts | other) for n in range(members)
        }
        for kind, candidates in (("same topics", same), ("different topics", mixed)):
            start = time.perf_counter()
            targets = assignor(candidates, counts | other)
            first = time.perf_counter() - start
            again = {
                member_id: Candidate(topics=one.topics, target=targets[member_id])
                for member_id, one in candidates.items()
            }
            again.pop("m0", None)
            start = time.perf_counter()
            assignor(again, counts | other)
            second = time.perf_counter() - start
            print(
                f"{name:8} {kind:17} first {first * 1000:7.2f} ms, "
                f"one member fewer {second * 1000:7.2f} ms"
            )


def _timed(scene: Scene, what: str, act: Callable[[], object]) -> None:
    scene.heartbeats = scene.facts = 0
    start = time.perf_counter()
    act()
    scene.settle()
    took = time.perf_counter() - start
    print(
        f"{what:16} {took * 1000:8.1f} ms, {scene.heartbeats:5} heartbeats "
        f"({took / scene.heartbeats * 1e6:6.1f} µs each), {scene.facts:5} facts"
    )


if __name__ == "__main__":
    main()
