"""Random lives of delayed records: hosts die, answers are lost, facts that were not committed vanish.

A producer writes delayed records and takes some back; the target's leader makes timers of them; a host
delivers them. The host of the timers dies at any point and another reads the log, of which the uncommitted
end may be missing and the old part may be compacted; batches of dead hosts arrive late; the clock steps. At
the end every record must have been delivered once, or not at all if it was taken back, never before its
time, and each batch in the order of due times.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.timer.delayed import Delayed, Kind, due_of, encode
from millpond.timer.facts import Fact, Intent, Target, decode
from millpond.timer.facts import encode as encode_fact
from millpond.timer.shard import Entry, Schedule, TimerShard

TARGETS = (Target(UUID(int=1), 0), Target(UUID(int=1), 1))
NOW_MS = 1_800_000_000_000
REMEMBERED = 5


@dataclass
class Leader:
    """The target's partition: what was delivered to it, and what it remembers of those who did."""

    delivered: list[int] = field(default_factory=list)
    batches: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def append(self, intent: Intent) -> bool:
        """Whether the batch is in the log now; a sequence that does not follow is refused."""
        last = intent.sequence + len(intent.sources)
        known = self.batches.setdefault(intent.producer_id, [])
        if (intent.sequence, last) in known[-REMEMBERED:]:
            return True
        if known and intent.sequence != known[-1][1]:
            return False
        known.append((intent.sequence, last))
        self.delivered += intent.sources
        return True


class World:
    """One partition of ``__timers`` with its hosts, and the partitions that its timers go to."""

    def __init__(self, rng: Random, bug: str | None = None) -> None:
        self.rng = rng
        self.bug = bug
        self.now_ms = NOW_MS
        self.log: list[tuple[int, list[tuple[bytes, bytes | None]]]] = []
        self.end = self.committed = 0
        self.leaders = {target: Leader() for target in TARGETS}
        self.entries: dict[Target, list[Entry]] = {target: [] for target in TARGETS}
        self.cancelled: set[tuple[Target, int]] = set()
        self.due: dict[tuple[Target, int], int] = {}
        self.producer_ids = 0
        self.late: list[Intent] = []
        self.start_host()
        for target in TARGETS:
            self.write(self.shard.schedule(Schedule(target=target, first=0, upto=0)))
        self.commit()

    # --- the log of timers -------------------------------------------------------------------------

    def write(self, facts: Iterable[Fact]) -> None:
        facts = list(facts)
        if not facts:
            return
        first = self.end
        self.log.append((first, [encode_fact(fact) for fact in facts]))
        self.end += len(facts)
        self.shard.apply((fact, first + index) for index, fact in enumerate(facts))

    def commit(self) -> None:
        self.committed = self.end

    def start_host(self) -> None:
        """A host reads the log; it delivers under a producer id that was never used."""
        self.shard = TimerShard(self.now_ms)
        for first, batch in self.log:
            facts = [(decode(*one), first + index) for index, one in enumerate(batch) if one[0]]
            self.shard.apply(facts, is_replay=True)
        self.shard.loaded()
        if self.bug != "producer id again" or not self.producer_ids:
            self.producer_ids += 1
        self.producer_id = self.producer_ids
        self.sent: set[Target] = set()
        if self.bug == "open intents are forgotten":
            for intent in list(self.shard.open_intents()):
                self.write(self.shard.delivered(intent.target))

    def crash(self) -> None:
        """The host is gone, and with it some of what was not committed; what it sent may come later."""
        self.late += [intent for intent in self.shard.open_intents() if self.may_send(intent)]
        keep = self.rng.choice([self.committed, self.end])
        self.log = [one for one in self.log if one[0] < keep]
        self.end = keep
        self.commit()
        self.start_host()

    def compact(self) -> None:
        """Only the last record of each key stays; a key of nothing is a hole."""
        last = {
            key: first + index
            for first, batch in self.log
            for index, (key, _) in enumerate(batch)
            if first + index < self.committed
        }
        self.log = [
            (
                first,
                [
                    one if last.get(one[0], -1) <= first + index else (b"", None)
                    for index, one in enumerate(batch)
                ],
            )
            for first, batch in self.log
        ]

    # --- what happens ------------------------------------------------------------------------------

    def produce(self) -> None:
        target = self.rng.choice(TARGETS)
        entries = self.entries[target]
        source = (entries[-1].source if entries else 0) + self.rng.randint(1, 3)
        if entries and self.rng.random() < 0.2:
            named = self.rng.choice(entries).source
            self.cancelled.add((target, named))
            one = _delayed(Kind.CANCEL, named)
        else:
            due_ms = self.now_ms + self.rng.choice([0, 10, 1_000, 5_000, 100_000])
            self.due[target, source] = due_ms
            one = _delayed(Kind.DELAYED, due_ms)
        entries.append(Entry(source, encode(one)))

    def forward(self) -> None:
        """The target's leader makes timers of what is behind the position; sometimes once more."""
        target = self.rng.choice(TARGETS)
        position = self.shard.position(target)
        first = max(0, position - self.rng.choice([0, 0, 4]))
        found = [one for one in self.entries[target] if one.source >= first]
        found = found[: self.rng.randint(1, 5)]
        if found:
            upto = max(position, found[-1].source + 1)
            if self.bug == "position is not kept":
                upto = position
            command = Schedule(target=target, first=first, upto=upto, entries=found)
            self.write(self.shard.schedule(command))

    def tick(self) -> None:
        self.now_ms += self.rng.choice([0, 1, 500, 3_000, 200_000, -1_000, -50_000])
        for target in self.shard.awake(self.now_ms):
            intent = self.shard.deliver(
                target, self.now_ms, producer_id=self.producer_id, limit=self.rng.randint(1, 4)
            )
            if intent is not None:
                self.write([intent])

    def may_send(self, intent: Intent) -> bool:
        if self.bug == "sent before it is committed":
            return True
        return self.committed == self.end or intent.target in self.sent

    def send(self) -> None:
        """Send what is committed; the answer may be lost, and what is known to have come is over."""
        for intent in list(self.shard.open_intents()):
            if self.rng.random() < 0.3 or not self.may_send(intent):
                continue
            self.deliver(intent)

    def deliver(self, intent: Intent) -> None:
        self.sent.add(intent.target)
        leader = self.leaders[intent.target]
        before = len(leader.delivered)
        arrived = leader.append(intent)
        self.check_times(intent, leader.delivered[before:])
        if not arrived:
            self.producer_ids += 1
            again = self.shard.again(intent.target, producer_id=self.producer_ids)
            assert again is not None
            self.sent.discard(intent.target)
            self.write([again])
        elif self.rng.random() < 0.7:
            self.sent.discard(intent.target)
            self.write(self.shard.delivered(intent.target))

    def check_times(self, intent: Intent, sources: list[int]) -> None:
        assert all((intent.target, source) in self.due for source in sources), "never scheduled"
        dues = [self.due[intent.target, source] for source in sources]
        assert dues == sorted(dues), "out of order"

    def arrive_late(self) -> None:
        if self.late:
            intent = self.late.pop(self.rng.randrange(len(self.late)))
            self.leaders[intent.target].append(intent)

    def live(self, steps: int) -> None:
        happenings = [self.produce] * 4 + [self.forward, self.tick, self.send, self.commit] * 3
        happenings += [self.crash, self.compact, self.arrive_late]
        for _ in range(steps):
            self.rng.choice(happenings)()
        self.finish()

    def finish(self) -> None:
        """The faults end: everything is scheduled and delivered."""
        self.now_ms = max(self.now_ms, NOW_MS) + 1_000_000
        while self.late:
            self.arrive_late()
        for target in TARGETS:
            entries = self.entries[target]
            upto = entries[-1].source + 1 if entries else 0
            position = self.shard.position(target)
            found = [one for one in entries if one.source >= position]
            self.write(
                self.shard.schedule(
                    Schedule(target=target, first=position, upto=upto, entries=found)
                )
            )
        for _ in range(200):
            self.tick_all()
            self.commit()
            for intent in list(self.shard.open_intents()):
                if self.leaders[intent.target].append(intent):
                    self.write(self.shard.delivered(intent.target))
                else:
                    self.producer_ids += 1
                    again = self.shard.again(intent.target, producer_id=self.producer_ids)
                    assert again is not None
                    self.write([again])
        assert len(self.shard) == 0, "timers are left"
        self.check()

    def tick_all(self) -> None:
        for target in self.shard.awake(self.now_ms):
            intent = self.shard.deliver(target, self.now_ms, producer_id=self.producer_id, limit=10)
            if intent is not None:
                self.write([intent])

    def check(self) -> None:
        for target in TARGETS:
            counts = Counter(self.leaders[target].delivered)
            for whose, source in self.due:
                if whose != target:
                    continue
                expected = {0, 1} if (target, source) in self.cancelled else {1}
                assert counts[source] in expected, (source, counts[source])


def _delayed(kind: Kind, number: int) -> Delayed:
    return Delayed(kind=kind, due_ms=number, created_ms=0, key=None, value=b"v", headers=())


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(20, 200))
def test_every_delayed_record_is_delivered_once(seed: int, steps: int) -> None:
    World(Random(seed)).live(steps)


@pytest.mark.parametrize(
    "bug",
    [
        "sent before it is committed",
        "open intents are forgotten",
        "producer id again",
        "position is not kept",
    ],
)
def test_a_planted_bug_is_found(bug: str) -> None:
    def fails(seed: int) -> bool:
        try:
            World(Random(seed), bug).live(150)
        except AssertionError:
            return True
        return False

    assert any(fails(seed) for seed in range(200))


def test_nothing_is_delivered_before_its_time() -> None:
    shard = TimerShard(NOW_MS)
    target = TARGETS[0]
    value = encode(_delayed(Kind.DELAYED, NOW_MS + 1_000))
    facts: list[Fact] = shard.schedule(Schedule(target=target, first=0, upto=0))
    shard.apply([(fact, 0) for fact in facts])
    facts = shard.schedule(Schedule(target=target, first=0, upto=1, entries=[Entry(0, value)]))
    shard.apply((fact, index) for index, fact in enumerate(facts))
    assert due_of(value) == (Kind.DELAYED, NOW_MS + 1_000)
    assert shard.deliver(target, NOW_MS + 999, producer_id=1, limit=9) is None
    intent = shard.deliver(target, NOW_MS + 1_000, producer_id=1, limit=9)
    assert intent is not None
    assert intent.sources == (0,)
