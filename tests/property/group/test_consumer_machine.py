"""Random lives of a consumer group (KIP-848): joins, leaves, silence, topics, restarts, a log that refuses.

After every step no partition has two owners among clients that the group knows, epochs have not gone back,
and the log tells the same story as the memory. Left in peace, the group settles: every partition of a topic
that somebody reads has an owner, and members that read the same have the same number of them.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from millpond.group.consumer.group import ConsumerGroup
from millpond.group.consumer.image import ConsumerState
from millpond.group.consumer.messages import ConsumerSettings
from tests.support.kafka.consumers import Consumer, settle
from tests.support.kafka.epoch_group_life import EpochGroupLife
from tests.support.kafka.group_host import GROUP, Desk

NAMES = ("t", "u", "v")
WISHES: tuple[tuple[tuple[str, ...] | None, str | None], ...] = (
    (("t",), None),
    (("t",), None),
    (("t", "u"), None),
    (("u", "v"), None),
    ((), "[tv]"),
    (("u",), "v|t"),
)


class ConsumerLife(EpochGroupLife[ConsumerGroup]):
    """One group, some clients."""

    told = ("epoch", "metadata_hash", "target_epoch", "members", "targets", "patterns")
    absent_epochs = frozenset({0, -2})  # of a static member that comes back, or goes away

    @initialize(interval_ms=st.sampled_from([0, 1_000]), members_max=st.sampled_from([3, 100]))
    def open(self, interval_ms: int, members_max: int) -> None:
        wanted = ConsumerSettings(assignment_interval_ms=interval_ms, members_max=members_max)
        self.begin(Desk(consumer_settings=wanted), ConsumerGroup(GROUP))
        self.desk.set_topic("t", 4)
        self.consumers: list[Consumer] = []
        self.number = 0

    # --- clients ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.consumers) < 6)
    @rule(
        wishes=st.sampled_from(WISHES),
        instance_id=st.sampled_from([None, None, None, "one"]),
        assignor=st.sampled_from([None, None, "uniform", "range"]),
    )
    def arrive(
        self,
        wishes: tuple[tuple[str, ...] | None, str | None],
        instance_id: str | None,
        assignor: str | None,
    ) -> None:
        self.number += 1
        consumer = Consumer(
            member_id=f"m{self.number}",
            topics=wishes[0],
            pattern=wishes[1],
            instance_id=instance_id,
            assignor=assignor,
        )
        self.consumers.append(consumer)
        consumer.live(self.desk)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), rounds=st.integers(1, 3))
    def live(self, data: st.DataObject, rounds: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        for _ in range(rounds):
            consumer.live(self.desk)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def speak_without_revoking(self, data: st.DataObject) -> None:
        """A slow client: it is alive but has not given up what it should."""
        consumer = data.draw(st.sampled_from(self.consumers))
        if consumer.epoch > 0:
            self.try_to(lambda: consumer.send(self.desk))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), wishes=st.sampled_from(WISHES))
    def want_other_topics(
        self, data: st.DataObject, wishes: tuple[tuple[str, ...] | None, str | None]
    ) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        consumer.topics, consumer.pattern = wishes[0], wishes[1] or ""
        if consumer.epoch > 0:
            self.try_to(
                lambda: consumer.beat(self.desk, topics=consumer.topics, pattern=consumer.pattern)
            )

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), comes_back=st.booleans())
    def leave(self, data: st.DataObject, comes_back: bool) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        away = comes_back and consumer.instance_id is not None
        if self.try_to(lambda: consumer.leave(self.desk, epoch=-2 if away else -1)):
            self.consumers.remove(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """Gone without a word: what it owned nobody may have before its session ends."""
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def lose_an_answer(self, data: st.DataObject) -> None:
        """The broker heard the client, the client did not hear the broker."""
        consumer = data.draw(st.sampled_from(self.consumers))
        if consumer.epoch <= 0:
            return
        before = consumer.epoch, set(consumer.owned), set(consumer.allowed)
        self.try_to(lambda: consumer.beat(self.desk))
        consumer.epoch, consumer.allowed = before[0], before[2]
        consumer.owned &= before[1]
        consumer.said = None
        consumer.missed_answer = True

    # --- the world --------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([500, 1_000, 15_000, 31_000, 46_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.try_to(lambda: self.desk.pass_time(milliseconds))
        # A client that was silent for longer than its session stops by itself.
        if milliseconds > 45_000:
            for consumer in self.consumers:
                consumer.epoch, consumer.owned, consumer.allowed = 0, set(), set()

    @rule(name=st.sampled_from(NAMES), more=st.integers(1, 3))
    def topic_grows(self, name: str, more: int) -> None:
        known = self.desk.shapes.get(name)
        self.desk.set_topic(name, more + (0 if known is None else known.partitions))

    @rule(name=st.sampled_from(NAMES))
    def topic_goes(self, name: str) -> None:
        if name in self.desk.shapes:
            self.desk.delete_topic(name)

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.group
        if group is None:
            return
        # A client that the group does not know, or fenced, stops reading when it hears of it.
        present = [
            one for one in self.consumers if one.member_id in group.members and one.epoch > 0
        ]
        owners = Counter(place for one in present for place in one.owned)
        assert all(count == 1 for count in owners.values()), owners

    @invariant()
    def the_log_tells_the_same_topics(self) -> None:
        group = self.group
        if group is not None:
            self.the_log_tells_the_same()
            assert set(self.reader.topic_names) == set(group.topic_names)

    def teardown(self) -> None:
        """Left in peace, the group settles."""
        if not hasattr(self, "desk"):
            return
        self.desk.broken = False
        # Patterns are looked up at most every ten seconds, and the dead are waited for.
        settle(self.desk, *self.consumers, rounds=70)
        group = self.group
        self.no_partition_has_two_owners()
        if group is None or not group.members:
            return
        assert group.state is ConsumerState.STABLE
        assert set(group.members) <= {one.member_id for one in self.consumers}
        present = [one for one in self.consumers if one.member_id in group.members]
        wanted = {
            (self.desk.shapes[name].topic_id, partition)
            for name in group.topic_names
            if name in self.desk.shapes
            for partition in range(self.desk.shapes[name].partitions)
        }
        assert {place for one in present for place in one.owned} == wanted
        alike = {(one.topics, one.pattern or "") for one in present}
        if len(alike) == 1 and all(one.assignor in {None, "uniform"} for one in present):
            counts = [len(one.owned) for one in present]
            assert max(counts) - min(counts) <= 1


TestConsumerLife = ConsumerLife.TestCase
TestConsumerLife.settings = settings(stateful_step_count=40)
