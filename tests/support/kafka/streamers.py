"""Instances of a Kafka Streams application for tests: they do what real ones do with what they are told.

An instance owns tasks. Told of others it takes what is new at once; what it shall not have any more it gives
up with its next heartbeat, and says so. When topics of the application are missing, the test's broker makes
them, as a real one does.
"""

from dataclasses import dataclass, field
from typing import Any

from millpond.base.errors import MemberEpochFenced, MillpondError, UnknownMember
from millpond.group.streams.messages import StreamsHeartbeat, StreamsHeartbeatAnswer
from millpond.group.streams.records import Tasks, TaskSet
from millpond.group.streams.topology import InternalTopic, Subtopology, Topology
from tests.support.kafka.group_host import GROUP, Desk

SOURCE, WORDS, COUNTS = "lines", "app-words-repartition", "app-counts-changelog"

# Kafka Streams' word count: one part splits lines, the other counts words and keeps the counts.
WORD_COUNT = Topology.of(
    0,
    [
        Subtopology(subtopology_id="0", sources=(SOURCE,), repartition_sinks=(WORDS,)),
        Subtopology(
            subtopology_id="1",
            repartition_sources=(InternalTopic(name=WORDS),),
            changelogs=(InternalTopic(name=COUNTS, configs=(("cleanup.policy", "compact"),)),),
        ),
    ],
)


@dataclass(eq=False)
class Streamer:
    """An instance's view of its membership."""

    member_id: str
    process_id: str = ""
    topology: Topology = WORD_COUNT
    epoch: int = 0
    # What it owns, and what it may have.
    owned: TaskSet = field(default_factory=TaskSet)
    allowed: TaskSet = field(default_factory=TaskSet)

    def join(self, desk: Desk, **fields: Any) -> StreamsHeartbeatAnswer:
        """Begin anew, with empty hands."""
        self.epoch, self.owned, self.allowed = 0, TaskSet(), TaskSet()
        full: dict[str, Any] = {
            "epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "topology": self.topology,
            "process_id": self.process_id or f"process-of-{self.member_id}",
            "active": {},
            "standby": {},
            "warmup": {},
        }
        return self.send(desk, **(full | fields))

    def beat(self, desk: Desk, **fields: Any) -> StreamsHeartbeatAnswer:
        """Take and give up what was told, and say what is owned."""
        self.owned = self.allowed
        owned = dict(zip(("active", "standby", "warmup"), self.owned, strict=True))
        return self.send(desk, **(owned | fields))

    def send(self, desk: Desk, **fields: Any) -> StreamsHeartbeatAnswer:
        """One heartbeat with just these fields."""
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "epoch": self.epoch,
        }
        answer = desk.perform(StreamsHeartbeat(**(defaults | fields)))
        self.epoch = answer.epoch
        if answer.tasks is not None:
            self.allowed = answer.tasks
            # What is new is begun at once; what is gone is not stopped before the next word.
            self.owned = TaskSet(*map(_together, self.owned, answer.tasks))
        make_topics(desk, answer)
        return answer

    def leave(self, desk: Desk, **fields: Any) -> StreamsHeartbeatAnswer:
        self.owned = self.allowed = TaskSet()
        return self.send(desk, epoch=-1, **fields)

    def live(self, desk: Desk) -> None:
        """Join or be alive, as a client in a loop does; begin anew when told to."""
        try:
            if self.epoch <= 0:
                self.join(desk)
            else:
                self.beat(desk)
        except (MemberEpochFenced, UnknownMember):
            self.epoch, self.owned, self.allowed = 0, TaskSet(), TaskSet()
        except MillpondError:
            pass

    @property
    def active(self) -> set[tuple[str, int]]:
        return places(self.owned.active)

    @property
    def standby(self) -> set[tuple[str, int]]:
        return places(self.owned.standby)


def make_topics(desk: Desk, answer: StreamsHeartbeatAnswer) -> None:
    """What a broker does about internal topics that are missing."""
    for topic in answer.missing_topics:
        if topic.name not in desk.shapes:
            desk.set_topic(topic.name, topic.partitions)


def settle(desk: Desk, *streamers: Streamer, rounds: int = 12) -> None:
    """Everyone lives on until nothing changes any more; a second passes with each round."""
    for _ in range(rounds):
        for streamer in streamers:
            streamer.live(desk)
        desk.pass_time(1_000)


def places(tasks: Tasks) -> set[tuple[str, int]]:
    return {(part, number) for part, numbers in tasks.items() for number in numbers}


def _together(one: Tasks, other: Tasks) -> Tasks:
    return {
        part: one.get(part, frozenset()) | other.get(part, frozenset())
        for part in sorted({*one, *other})
    }
