"""Stories of one queue: order, consumers, limits, ages, letters."""

import gc
import tracemalloc

import pytest

from millpond.base.errors import QueueInUse, UnknownDeliveryTag
from millpond.cursor.runs import NEVER_MS, Run, State
from millpond.queue import queue_state as lines
from millpond.queue.consumers import Consumer, Consumers
from millpond.queue.known import Meta
from millpond.queue.log_facts import LaneSnapshot, build_snapshot
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import GIVEN_UP_AT_A_TIME, DeadLetter, DeathReason, Step
from millpond.rabbit.channel import Deliveries, Group, Held, grouped
from millpond.rabbit.names import queue_of
from tests.support.amqp.answered_queue import AnsweredQueue

HERE = queue_of("/", "q")


class Desk:
    """A queue with a clock; messages have size 10 and come one by one."""

    def __init__(self, **settings: object) -> None:
        self.now_ms = 0
        self.metas: dict[tuple[int, int], Meta] = {}
        self.line = AnsweredQueue(QueueSettings(**settings), self, now_ms=0)  # type: ignore[arg-type]
        self.ends = [0] * len(self.line.lanes)

    def meta(self, lane: int, offset: int) -> Meta:
        return self.metas[lane, offset]

    def publish(self, count: int = 1, *, priority: int = 0, ttl_ms: int | None = None) -> Step:
        lane = self.line.lane_of(priority)
        first = self.ends[lane]
        self.ends[lane] += count
        for offset in range(first, first + count):
            self.metas[lane, offset] = Meta(10, self.now_ms, ttl_ms)
        self.line.published(lane, first, first + count, has_ttl=ttl_ms is not None)
        return self.line.trim(self.now_ms)

    def consume(self, owner: str, **how: object) -> Consumer:
        channel = owner.split("/", maxsplit=1)[0]
        consumer = Consumer(owner=owner, channel=channel, tag=owner, **how)  # type: ignore[arg-type]
        self.line.consumers.check(str(HERE), exclusive=consumer.exclusive)
        self.line.consume(consumer, self.now_ms)
        return consumer

    def deliver(self) -> list[tuple[str, int, bool]]:
        """Who got which offset, and whether somebody had it before."""
        return [
            (handout.consumer.owner, offset, handout.redelivered)
            for handout in self.line.deliver(self.now_ms).handouts
            for offset in range(handout.first, handout.next)
        ]

    def got(self) -> list[int]:
        """All that is ready, in order, priority and offset in one number; they are not acknowledged."""
        reader = Consumer(owner="r/1", channel="r", tag="r")
        found = []
        while handouts := self.line.get(reader, self.now_ms).handouts:
            found.append(handouts[0].lane * 100 + handouts[0].first)
        return found


def test_consumers_take_turns() -> None:
    desk = Desk()
    desk.publish(5)
    desk.consume("a")
    desk.consume("b")
    assert [owner for owner, _offset, _again in desk.deliver()] == ["a", "b", "a", "b", "a"]


def test_a_consumer_holds_at_most_its_prefetch() -> None:
    desk = Desk()
    desk.publish(5)
    desk.consume("a", prefetch=2)
    assert desk.deliver() == [("a", 0, False), ("a", 1, False)]
    assert desk.deliver() == []
    desk.line.settle(0, [(0, 1)], "a", desk.now_ms)
    assert desk.deliver() == [("a", 2, False)]
    assert (desk.line.ready, desk.line.held) == (2, 2)


def test_a_channel_holds_at_most_its_prefetch_whatever_its_consumers() -> None:
    desk = Desk()
    desk.publish(5)
    desk.consume("ch/a")
    desk.consume("ch/b")
    channel = Deliveries()
    channel.prefetch = 3
    step = desk.line.deliver(desk.now_ms, lambda _consumer: channel.room)
    assert sum(handout.next - handout.first for handout in step.handouts) == 3


def test_whose_turn_it_is_needs_one_look_at_each_that_is_busy() -> None:
    consumers = Consumers()
    for number in range(100):
        consumers.add(Consumer(owner=f"c/{number}", channel="c", tag="t", prefetch=1))
    asked: list[str] = []

    def room(consumer: Consumer) -> int:
        asked.append(consumer.owner)
        return int(consumer.owner == "c/99")

    found = consumers.next(room, 10)
    assert found is not None
    assert found[0].owner == "c/99"
    assert len(asked) == 100


def test_higher_priority_first_lower_when_it_is_busy() -> None:
    desk = Desk()
    desk.publish(4)
    desk.consume("low")
    desk.consume("high", prefetch=2, priority=5)
    assert desk.deliver() == [
        ("high", 0, False),
        ("high", 1, False),
        ("low", 2, False),
        ("low", 3, False),
    ]


def test_a_single_active_consumer_is_followed_by_the_next() -> None:
    desk = Desk(single_active_consumer=True)
    desk.publish(2)
    desk.consume("a/1", prefetch=1)
    desk.consume("b/1")
    assert desk.deliver() == [("a/1", 0, False)]
    assert desk.deliver() == []
    desk.line.lose_channel("a", desk.now_ms)
    assert desk.deliver() == [("b/1", 0, True), ("b/1", 1, False)]


def test_an_exclusive_consumer_is_alone() -> None:
    desk = Desk()
    desk.consume("a", exclusive=True)
    with pytest.raises(QueueInUse, match="queue 'q' in vhost '/' in exclusive use"):
        desk.consume("b")
    desk.line.cancel("a", desk.now_ms)
    desk.consume("b")
    with pytest.raises(QueueInUse):
        desk.consume("c", exclusive=True)


def test_what_is_given_back_returns_to_its_place() -> None:
    desk = Desk()
    desk.publish(4)
    assert desk.got() == [0, 1, 2, 3]
    desk.line.requeued(0, [(2, 3), (0, 1)], "r/1", desk.now_ms)
    desk.publish()
    assert desk.got() == [0, 2, 4]


def test_what_a_lost_channel_held_returns_to_its_place_and_says_so() -> None:
    desk = Desk()
    desk.publish(3)
    desk.consume("a/1", prefetch=2)
    desk.deliver()
    desk.line.lose_channel("a", desk.now_ms)
    desk.consume("b/1")
    assert desk.deliver() == [("b/1", 0, True), ("b/1", 1, True), ("b/1", 2, False)]


def test_a_cancelled_consumers_messages_stay_with_its_channel() -> None:
    desk = Desk()
    desk.publish(1)
    desk.consume("a/1")
    desk.deliver()
    assert desk.line.cancel("a/1", desk.now_ms)
    assert (desk.line.ready, desk.line.held) == (0, 1)
    desk.line.lose_channel("a", desk.now_ms)
    assert (desk.line.ready, desk.line.held) == (1, 0)


def test_a_rejected_message_is_a_letter() -> None:
    desk = Desk(dead_letter_target="dlx")
    desk.publish(2)
    desk.got()
    step = desk.line.reject(0, [(0, 2)], "r/1", desk.now_ms)
    assert step.dead_letters == (DeadLetter(0, 0, 2, DeathReason.REJECTED),)
    assert (desk.line.ready, desk.line.held) == (0, 0)


def test_without_a_place_for_letters_there_are_none() -> None:
    desk = Desk(max_length=1)
    assert desk.publish(3).dead_letters == ()
    assert desk.got() == [2]


def test_a_full_queue_drops_its_head() -> None:
    desk = Desk(dead_letter_target="dlx", max_length=2)
    assert desk.publish(5).dead_letters == (DeadLetter(0, 0, 3, DeathReason.MAX_LENGTH),)
    assert desk.got() == [3, 4]


def test_a_full_queue_in_bytes_drops_its_head() -> None:
    desk = Desk(dead_letter_target="dlx", max_length_bytes=25)
    desk.publish(2)
    assert desk.line.ready_bytes == 20
    dead_letters = desk.publish(1).dead_letters
    assert dead_letters == (DeadLetter(0, 0, 1, DeathReason.MAX_LENGTH),)


def test_what_is_held_does_not_count_as_full() -> None:
    desk = Desk(max_length=1)
    desk.publish(1)
    assert desk.got() == [0]
    assert desk.publish(1).is_empty
    # Given back, there is one too many: the head goes, which is the one that came back.
    desk.line.requeued(0, [(0, 1)], "r/1", desk.now_ms)
    assert desk.got() == [1]


@pytest.mark.parametrize(
    ("overflow", "dead_letters"), [("reject-publish", False), ("reject-publish-dlx", True)]
)
def test_a_full_queue_refuses(overflow: str, dead_letters: bool) -> None:
    desk = Desk(overflow=overflow, max_length=2, max_length_bytes=100)
    desk.publish(1)
    admission = desk.line.admit([10, 10, 10])
    assert (admission.admitted, admission.to_dead_letters) == (1, dead_letters)
    assert desk.line.admit([95]).admitted == 0


def test_messages_expire_at_the_head_only() -> None:
    desk = Desk(dead_letter_target="dlx")
    desk.publish(ttl_ms=100)
    desk.publish(ttl_ms=10)
    desk.publish()
    assert desk.line.wake_ms() == 100
    desk.now_ms = 50
    assert desk.line.expire(desk.now_ms).is_empty
    desk.now_ms = 100
    dead_letters = desk.line.expire(desk.now_ms).dead_letters
    assert dead_letters == (DeadLetter(0, 0, 2, DeathReason.EXPIRED),)
    assert desk.got() == [2]


def test_much_that_is_too_old_goes_in_parts_and_nothing_of_it_is_handed_out() -> None:
    desk = Desk(message_ttl_ms=10, dead_letter_target="dlx")
    count = 3 * GIVEN_UP_AT_A_TIME + 7
    desk.publish(count)
    desk.now_ms = 10
    dead_letters, turns = sum(one.next - one.first for one in desk.publish(1).dead_letters), 1
    desk.consume("a")
    while desk.line.wake_ms() <= desk.now_ms:
        step = desk.line.deliver(desk.now_ms)
        assert [one.first for one in step.handouts] in ([], [count])
        late = [*step.dead_letters, *desk.line.trim(desk.now_ms).dead_letters]
        assert sum(one.next - one.first for one in late) <= 2 * GIVEN_UP_AT_A_TIME
        dead_letters += sum(one.next - one.first for one in late)
        turns += 1
    assert (dead_letters, desk.line.ready) == (count, 0)
    assert turns > 2


@pytest.mark.parametrize("limit", [{"max_length": 3}, {"max_length_bytes": 30}])
def test_much_that_is_too_much_goes_in_parts(limit: dict[str, int]) -> None:
    desk = Desk(dead_letter_target="dlx", **limit)
    steps = [desk.publish(GIVEN_UP_AT_A_TIME + 50)]
    while desk.line.wake_ms() <= desk.now_ms:
        desk.line.deliver(desk.now_ms)
        steps.append(desk.line.trim(desk.now_ms))
    given_up = [sum(one.next - one.first for one in step.dead_letters) for step in steps]
    assert given_up == [GIVEN_UP_AT_A_TIME, 47]
    assert desk.line.ready == 3


def test_the_shorter_of_two_limits_counts() -> None:
    desk = Desk(message_ttl_ms=50)
    desk.publish(ttl_ms=500)
    assert desk.line.wake_ms() == 50
    desk.publish(ttl_ms=5)
    desk.now_ms = 50
    desk.line.expire(50)
    assert desk.line.ready == 0


def test_a_message_that_may_not_wait_reaches_who_is_there() -> None:
    desk = Desk(message_ttl_ms=0)
    desk.consume("a", prefetch=1)
    desk.metas[0, 0] = desk.metas[0, 1] = Meta(10, 0, None)
    # It took a while to write them down.
    desk.now_ms += 20
    desk.line.published(0, 0, 2)
    assert desk.deliver() == [("a", 0, False)]
    desk.line.trim(desk.now_ms)
    assert desk.line.ready == 0


def test_higher_priorities_are_served_first() -> None:
    desk = Desk(max_priority=2)
    for priority in (0, 2, 1, 2, 9):
        desk.publish(priority=priority)
    assert desk.got() == [200, 201, 202, 100, 0]
    desk.line.requeued(1, [(0, 1)], "r/1", desk.now_ms)
    desk.line.requeued(2, [(1, 2)], "r/1", desk.now_ms)
    assert desk.got() == [201, 100]


def test_a_message_is_tried_so_often_and_not_more() -> None:
    desk = Desk(dead_letter_target="dlx", delivery_limit=2)
    desk.publish()
    for delivery in (1, 2, 3):
        reader = Consumer(owner="r/1", channel="r", tag="r")
        (handout,) = desk.line.get(reader, desk.now_ms).handouts
        assert handout.deliveries == delivery
        step = desk.line.requeued(0, [(0, 1)], "r/1", desk.now_ms)
        assert bool(step.dead_letters) == (delivery == 3)
    assert step.dead_letters == (DeadLetter(0, 0, 1, DeathReason.DELIVERY_LIMIT),)
    assert desk.line.ready == 0


def test_purging_leaves_what_is_held() -> None:
    desk = Desk(dead_letter_target="dlx")
    desk.publish(5)
    desk.consume("a", prefetch=2)
    desk.deliver()
    count, step = desk.line.purge()
    assert count == 3
    assert not step.dead_letters
    assert (desk.line.ready, desk.line.held) == (0, 2)
    desk.line.requeued(0, [(0, 2)], "a", desk.now_ms)
    assert desk.line.ready == 2


def test_a_queue_that_nobody_uses_is_outdated() -> None:
    desk = Desk(expires_ms=100)
    assert desk.line.wake_ms() == 100
    desk.now_ms = 60
    desk.consume("a")
    desk.now_ms = 500
    assert not desk.line.is_outdated(desk.now_ms)
    desk.line.cancel("a", desk.now_ms)
    assert not desk.line.is_outdated(599)
    desk.line.touch(550)
    assert not desk.line.is_outdated(649)
    assert desk.line.is_outdated(650)


def test_a_policy_that_changes_is_felt_at_once() -> None:
    desk = Desk()
    desk.publish(5)
    shorter = QueueSettings(max_length_bytes=20, dead_letter_target="dlx")
    dead_letters = desk.line.configured(shorter, desk.now_ms).dead_letters
    assert [(one.first, one.next) for one in dead_letters] == [(0, 3)]
    assert desk.line.ready_bytes == 20


def test_ten_million_messages_cost_no_more_than_a_few() -> None:
    line = QueueState(QueueSettings(), now_ms=0)
    line.published(0, 0, 10_000_000)
    reader = Consumer(owner="r/1", channel="r", tag="r", prefetch=100)
    line.consume(reader, 0)
    line.deliver(0)
    line.settle(0, [(0, 50)], "r/1", 0)
    line.requeue(0, [(70, 80)], "r/1", 0)
    assert line.ready == 10_000_000 - 90
    assert line.lanes[0].cursor.run_count <= 3


def test_much_that_is_due_at_once_is_ready_step_by_step() -> None:
    """As after a broker was away for longer than most delays."""
    desk = Desk(is_delayed=True)
    count = 3 * GIVEN_UP_AT_A_TIME
    due_ms = [1 + offset * 7919 % 10_007 for offset in range(count)]
    desk.line.published(0, 0, count, due_ms=due_ms)
    steps = 0
    while desk.line.delayed:
        assert desk.line.wake_ms() <= 20_000
        before = desk.line.ready
        desk.line.awaken(20_000)
        assert 0 < desk.line.ready - before <= GIVEN_UP_AT_A_TIME
        steps += 1
    assert steps == 3
    assert desk.line.wake_ms() == NEVER_MS


def long_line(count: int) -> QueueState:
    """Messages came one by one, and each time something was written about others."""
    line = QueueState(QueueSettings(), now_ms=0)
    for number in range(count):
        line.published(0, 2 * number + 1, 2 * number + 2)
    return line


def test_what_is_written_between_messages_costs_a_few_bytes_each() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        line = long_line(20_000)
        used, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert line.ready == 20_000
    assert used < 3 * 20_000
    snapshot = LaneSnapshot(40_000, line.lanes[0].state())
    assert len(build_snapshot(snapshot, now_ms=0)) < 2 * 20_000 + 200


def test_purging_a_long_queue_is_one_fact() -> None:
    line = long_line(100_000)
    count, step = line.purge()
    assert count == 100_000
    ((_lane, delta),) = step.facts
    assert delta.runs == (Run(1, 200_000, State.ARCHIVED),)
    assert line.ready == 0
    line.published(0, 200_001, 200_002)
    assert line.ready == 1


def test_a_policy_that_shortens_a_long_queue_is_one_fact() -> None:
    line = long_line(100_000)
    line.configure(QueueSettings(max_length=10))
    step = line.drop_excess()
    ((_lane, delta),) = step.facts
    assert delta.runs == (Run(1, 2 * 99_990, State.ARCHIVED),)
    assert line.ready == 10
    reader = Consumer(owner="r/1", channel="r", tag="r")
    (handout,) = line.get(reader, 0).handouts
    assert handout.first == 2 * 99_990 + 1


def test_a_doubt_about_the_newest_messages_of_a_long_queue_costs_no_more() -> None:
    line = long_line(5_000)
    step = line.recovery.doubt(0, 9_000, 9_002)
    assert step.facts[0].delta.runs == (Run(9_001, 9_002, State.AVAILABLE, 1),)
    assert line.lanes[0].cursor.run_count == 0
    again = QueueState(QueueSettings(), now_ms=0)
    again.recovery.restore(0, line.lanes[0].state(), has_ttl=False)
    for one in (line, again):
        one.consume(Consumer(owner="r/1", channel="r", tag="r", no_ack=True), 0)
        handouts = one.deliver(0).handouts
        assert [each.first for each in handouts if each.redelivered] == [9_001]
        assert len(handouts) == 5_000


def test_a_snapshot_tells_only_so_many_gaps_and_ends_there() -> None:
    line = long_line(10_000)
    state = line.lanes[0].state(gaps_max=5_000)
    again = QueueState(QueueSettings(), now_ms=0)
    again.recovery.restore(0, state, has_ttl=False)
    assert again.ready == again.lanes[0].end // 2 < 5_000
    assert len(state.gaps.data) <= 2 * 5_000
    for number in range(again.ready, 10_000):
        again.published(0, 2 * number + 1, 2 * number + 2)
    assert again.lanes[0].state() == line.lanes[0].state()


# --- channels ---------------------------------------------------------------------------------------------


def test_tags_count_up_and_are_taken_once() -> None:
    channel = Deliveries()
    tags = [channel.add(Held("q", "o", 0, offset)) for offset in (5, 6, 7, 9)]
    assert tags == [1, 2, 3, 4]
    assert channel.take(2, multiple=False) == [Held("q", "o", 0, 6)]
    with pytest.raises(UnknownDeliveryTag, match="unknown delivery tag 2"):
        channel.take(2, multiple=True)
    assert [held.offset for held in channel.take(3, multiple=True)] == [5, 7]
    assert [held.offset for held in channel.take(0, multiple=True)] == [9]
    for tag in (0, 4, 99):
        with pytest.raises(UnknownDeliveryTag):
            channel.take(tag, multiple=False)


def test_millions_that_are_never_acknowledged_cost_a_few_bytes_each() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        channel = Deliveries()
        # Offsets with gaps between them, of two consumers in turns.
        for offset in range(0, 40_000, 2):
            channel.add(Held("q", f"o{offset // 2 % 2}", 0, offset))
        used, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 30 * 20_000
    assert len(channel.take(20_000, multiple=True)) == 20_000


def test_taking_back_many_acknowledgements_looks_at_no_others() -> None:
    channel = Deliveries()
    for offset in range(20_000):
        channel.add(Held("q", "o", 0, offset))
    acked = [{tag: channel.take(tag, multiple=False)[0]} for tag in range(1, 20_001)]
    for one in acked:
        channel.restore(one)
    assert [held.offset for held in channel.take(0, multiple=True)] == list(range(20_000))


def test_tags_of_messages_that_need_no_answer_are_never_out() -> None:
    channel = Deliveries()
    assert channel.add(None) == 1
    assert channel.add(Held("q", "o", 0, 0)) == 2
    with pytest.raises(UnknownDeliveryTag):
        channel.take(1, multiple=False)


def test_neighbours_are_one_range() -> None:
    held = [Held("q", "o", 0, n) for n in (3, 1, 2, 7)] + [Held("p", "o", 1, 4)]
    assert list(grouped(held)) == [
        Group("q", "o", 0, ((1, 4), (7, 8))),
        Group("p", "o", 1, ((4, 5),)),
    ]


def test_what_lost_channels_held_comes_back_in_steps_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "RETURNED_AT_A_TIME", 6)
    desk = Desk()
    desk.consume("a/1", prefetch=20)
    desk.consume("b/1", prefetch=20)
    for _message in range(40):
        desk.publish()
        desk.deliver()
    # Each has every other message, and these are nobody's.
    desk.publish(5)
    steps = [desk.line.lose_channel(channel, desk.now_ms) for channel in "ab"]
    desk.consume("c/1")
    got = desk.deliver()
    while desk.line.is_returning:
        steps.append(desk.line.give_back())
        got += desk.deliver()
    assert got == [("c/1", offset, offset < 40) for offset in range(45)]
    counts = [sum(fact.delta.message_count for fact in step.facts) for step in steps]
    assert (sum(counts), max(counts)) == (40, 3)


def test_a_lower_priority_does_not_overtake_what_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "RETURNED_AT_A_TIME", 2)
    desk = Desk(max_priority=1)
    desk.consume("a/1", prefetch=4)
    desk.consume("x/1", prefetch=4)
    for _message in range(8):
        desk.publish(priority=1)
        desk.deliver()
    desk.publish(2, priority=0)
    desk.line.lose_channel("a", desk.now_ms)
    desk.consume("c/1")
    lanes: list[int] = []
    while True:
        lanes += [
            handout.lane
            for handout in desk.line.deliver(desk.now_ms).handouts
            for _offset in range(handout.first, handout.next)
        ]
        if not desk.line.is_returning:
            break
        desk.line.give_back()
    assert lanes == [1, 1, 1, 1, 0, 0]
