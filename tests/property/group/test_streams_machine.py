"""Any life of a streams group: no task runs twice, the log tells the same, and left in peace it settles.

Instances come, live, leave, die, lose answers and keep what they should give up; topics come and go; the
clock runs, the log refuses, the broker restarts. All against one coordinator with a virtual clock.
"""

from collections import Counter
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from millpond.group.streams.group import StreamsGroup
from millpond.group.streams.image import StreamsState
from millpond.group.streams.messages import StreamsSettings
from millpond.group.streams.records import TaskSet
from tests.support.kafka.epoch_group_life import EpochGroupLife
from tests.support.kafka.group_host import GROUP, Desk
from tests.support.kafka.streamers import COUNTS, SOURCE, WORDS, Streamer, settle


class StreamsLife(EpochGroupLife[StreamsGroup]):
    """One application, some instances."""

    told = (
        "epoch",
        "metadata_hash",
        "validated_epoch",
        "assignment_configs",
        "topology",
        "target_epoch",
        "members",
        "targets",
    )

    @initialize(
        interval_ms=st.sampled_from([0, 1_000]),
        delay_ms=st.sampled_from([0, 3_000]),
        standbys=st.sampled_from([0, 1, 2]),
        members_max=st.sampled_from([3, 100]),
    )
    def open(self, interval_ms: int, delay_ms: int, standbys: int, members_max: int) -> None:
        wanted = StreamsSettings(
            assignment_interval_ms=interval_ms,
            initial_rebalance_delay_ms=delay_ms,
            standby_replicas=standbys,
            members_max=members_max,
        )
        self.begin(Desk(streams_settings=wanted), StreamsGroup(GROUP))
        self.desk.set_topic(SOURCE, 3)
        self.streamers: list[Streamer] = []
        self.number = 0
        # Instances that may not know of tasks: those are told once, as in Kafka.
        self.unaware: list[Streamer] = []

    # --- instances --------------------------------------------------------------------------------

    @precondition(lambda self: len(self.streamers) < 6)
    @rule(process_id=st.sampled_from("pqr"))
    def arrive(self, process_id: str) -> None:
        self.number += 1
        streamer = Streamer(f"m{self.number}", process_id)
        self.streamers.append(streamer)
        streamer.live(self.desk)

    @precondition(lambda self: self.streamers)
    @rule(data=st.data(), rounds=st.integers(1, 3))
    def live(self, data: st.DataObject, rounds: int) -> None:
        streamer = data.draw(st.sampled_from(self.streamers))
        for _ in range(rounds):
            streamer.live(self.desk)

    @precondition(lambda self: self.streamers)
    @rule(data=st.data())
    def speak_without_revoking(self, data: st.DataObject) -> None:
        """A slow instance: it is alive but has not given up what it should."""
        streamer = data.draw(st.sampled_from(self.streamers))
        if streamer.epoch > 0:
            self.try_to(lambda: streamer.send(self.desk))

    @precondition(lambda self: self.streamers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        streamer = data.draw(st.sampled_from(self.streamers))
        if self.try_to(lambda: streamer.leave(self.desk)):
            self.streamers.remove(streamer)

    @precondition(lambda self: self.streamers)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """Gone without a word: what it ran nobody may run before its session ends."""
        self.streamers.remove(data.draw(st.sampled_from(self.streamers)))

    @precondition(lambda self: self.streamers)
    @rule(data=st.data())
    def lose_an_answer(self, data: st.DataObject) -> None:
        """The broker heard the instance, the instance did not hear the broker."""
        streamer = data.draw(st.sampled_from(self.streamers))
        if streamer.epoch <= 0:
            return
        before = streamer.epoch, streamer.allowed
        self.try_to(lambda: streamer.beat(self.desk))
        streamer.epoch, streamer.allowed = before
        streamer.owned = before[1]
        self.unaware.append(streamer)

    # --- the world --------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([500, 1_000, 15_000, 31_000, 46_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.try_to(lambda: self.desk.pass_time(milliseconds))
        # An instance that was silent for longer than its session stops by itself.
        if milliseconds > 45_000:
            for streamer in self.streamers:
                streamer.epoch, streamer.owned, streamer.allowed = 0, TaskSet(), TaskSet()

    @rule(standbys=st.sampled_from([0, 1, 2]))
    def replicas_are_wanted(self, standbys: int) -> None:
        self.desk.streams_settings = replace(self.desk.streams_settings, standby_replicas=standbys)

    @rule(partitions=st.sampled_from([1, 3, 4]))
    def topics_change(self, partitions: int) -> None:
        """All of the application's topics are made anew, with another number of partitions."""
        for name in (SOURCE, WORDS, COUNTS):
            if name in self.desk.shapes:
                self.desk.delete_topic(name)
        self.desk.set_topic(SOURCE, partitions)

    @rule(name=st.sampled_from([SOURCE, WORDS, COUNTS]))
    def topic_goes(self, name: str) -> None:
        if name in self.desk.shapes:
            self.desk.delete_topic(name)

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def no_task_runs_twice(self) -> None:
        group = self.group
        if group is None:
            return
        # An instance that the group does not know, or fenced, stops when it hears of it.
        present = [
            one for one in self.streamers if one.member_id in group.members and one.epoch > 0
        ]
        runners = Counter(task for one in present for task in one.active)
        assert all(count == 1 for count in runners.values()), runners

    def teardown(self) -> None:
        """Left in peace, the group settles."""
        if not hasattr(self, "desk"):
            return
        self.desk.broken = False
        if SOURCE not in self.desk.shapes:
            shape = self.desk.shapes.get(WORDS) or self.desk.shapes.get(COUNTS)
            self.desk.set_topic(SOURCE, 2 if shape is None else shape.partitions)
        for streamer in self.unaware:
            streamer.epoch, streamer.owned, streamer.allowed = 0, TaskSet(), TaskSet()
        # The dead are waited for.
        settle(self.desk, *self.streamers, rounds=70)
        group = self.group
        self.no_task_runs_twice()
        if group is None or not group.members:
            return
        assert group.state is StreamsState.STABLE
        present = [one for one in self.streamers if one.member_id in group.members]
        assert set(group.members) == {one.member_id for one in present}
        everything = {
            (part, number) for part in "01" for number in range(self.desk.shapes[SOURCE].partitions)
        }
        assert {task for one in present for task in one.active} == everything
        self.standbys_are_elsewhere(present, {task for task in everything if task[0] == "1"})

    def standbys_are_elsewhere(
        self, present: list[Streamer], stateful: set[tuple[str, int]]
    ) -> None:
        """Each task with state is followed by as many processes as wanted, or as there are."""
        hands = Counter(
            (process, task)
            for process, task in (
                (one.process_id, task) for one in present for task in one.active | one.standby
            )
        )
        assert all(count == 1 for count in hands.values()), hands
        processes = len({one.process_id for one in present})
        wanted = min(self.desk.streams_settings.standby_replicas, processes - 1)
        followers = Counter(task for one in present for task in one.standby)
        assert followers == Counter(dict.fromkeys(stateful, wanted)) or not wanted


TestStreamsLife = StreamsLife.TestCase
TestStreamsLife.settings = settings(stateful_step_count=40)
