"""A queue against the simplest thing that could be right: a list of messages, looked at one by one."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millpond.cursor.snapshot import decode_delta, encode_delta
from millpond.queue.consumers import Consumer
from millpond.queue.known import Meta
from millpond.queue.lane import LATER
from millpond.queue.log_facts import LaneSnapshot, build_snapshot, read_snapshot
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import DeathReason, Facts, Step
from millpond.rabbit.channel import Confirms, Held, grouped
from millpond.record.records import decode_batch
from tests.support.amqp.answered_queue import AnsweredQueue

DLX = "dlx"


@dataclass
class Message:
    lane: int
    offset: int
    size: int
    published_ms: int
    ttl_ms: int | None
    owner: str = ""
    deliveries: int = 0
    is_over: bool = False
    is_new: bool = True
    until_ms: int = 0


@dataclass
class Naive:
    """Every message ever, and rules read aloud."""

    settings: QueueSettings
    messages: list[Message] = field(default_factory=list)

    def ready(self) -> list[Message]:
        """In the order in which they would be handed out."""
        waiting = [one for one in self.messages if not one.owner and not one.is_over]
        return sorted(waiting, key=lambda one: (-one.lane, one.offset))

    def held(self, owner: str) -> list[Message]:
        return [one for one in self.messages if one.owner == owner and not one.is_over]

    def drop_expired(self, now_ms: int, *, old_only: bool = False) -> list[Message]:
        dropped = []
        for lane in range(self.settings.max_priority + 1):
            for one in [one for one in self.ready() if one.lane == lane]:
                limits = [x for x in (one.ttl_ms, self.settings.message_ttl_ms) if x is not None]
                if not limits or one.published_ms + min(limits) > now_ms:
                    break
                if old_only and one.is_new:
                    break
                one.is_over = True
                dropped.append(one)
        return dropped

    def drop_excess(self) -> list[Message]:
        dropped: list[Message] = []
        length, size = self.settings.max_length, self.settings.max_length_bytes
        if self.settings.overflow != "drop-head":
            return dropped
        while (ready := self.ready()) and (
            (length is not None and len(ready) > length)
            or (size is not None and sum(one.size for one in ready) > size)
        ):
            ready[0].is_over = True
            dropped.append(ready[0])
        return dropped

    def give_back(self, message: Message, now_ms: int, how: str) -> bool:
        """Whether it was given up instead."""
        message.owner = ""
        limit = self.settings.delivery_limit
        message.is_over = limit is not None and message.deliveries > limit
        if not message.is_over and self.settings.delayed_retry in {"all", how}:
            delay_ms = self.settings.delayed_retry_min_ms * message.deliveries
            message.owner = LATER
            message.until_ms = now_ms + min(delay_ms, self.settings.delayed_retry_max_ms)
        return message.is_over

    def awaken(self, now_ms: int) -> None:
        for one in self.held(LATER):
            if one.until_ms <= now_ms:
                one.owner = ""


queue_settings = st.builds(
    QueueSettings,
    message_ttl_ms=st.sampled_from([None, None, 50]),
    max_length=st.sampled_from([None, 3, 8]),
    max_length_bytes=st.sampled_from([None, None, 12]),
    overflow=st.sampled_from(["drop-head", "reject-publish"]),
    dead_letter_target=st.sampled_from([None, DLX]),
    max_priority=st.sampled_from([0, 0, 2]),
    delivery_limit=st.sampled_from([None, 0, 1]),
    single_active_consumer=st.booleans(),
    delayed_retry=st.sampled_from(["disabled", "disabled", "all", "failed", "returned"]),
    delayed_retry_min_ms=st.just(15),
    delayed_retry_max_ms=st.just(25),
)


class QueueMachine(RuleBasedStateMachine):
    line: AnsweredQueue
    naive: Naive

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.ends = [0, 0, 0]
        self.written: list[Facts | LaneSnapshot | tuple[int, ...]] = []
        self.consumers: dict[str, Consumer] = {}
        self.started = 0

    def meta(self, lane: int, offset: int) -> Meta:
        (found,) = [o for o in self.naive.messages if (o.lane, o.offset) == (lane, offset)]
        return Meta(found.size, found.published_ms, found.ttl_ms)

    # --- beginning -----------------------------------------------------------------------------------

    @precondition(lambda self: not self.started)
    @rule(chosen=queue_settings)
    def begin(self, chosen: QueueSettings) -> None:
        self.started = 1
        self.naive = Naive(chosen)
        self.line = AnsweredQueue(chosen, self, now_ms=self.now_ms)

    def happened(self, step: Step, dropped: list[tuple[Message, DeathReason]]) -> None:
        """Facts are kept, and the dead_letters are those of the messages that went."""
        for fact in step.facts:
            delta = decode_delta(encode_delta(fact.delta))
            assert delta == fact.delta
            self.written.append(Facts(fact.lane, delta))
        dead_letters = {
            (letter.lane, offset): letter.reason
            for letter in step.dead_letters
            for offset in range(letter.first, letter.next)
        }
        expected = {(one.lane, one.offset): reason for one, reason in dropped}
        assert dead_letters == ({} if self.naive.settings.dead_letter_target is None else expected)

    # --- what clients do -------------------------------------------------------------------------------

    @precondition(lambda self: self.started)
    @rule(
        sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4),
        lane=st.integers(0, 2),
        gap=st.sampled_from([0, 0, 1, 3]),
        ttl_ms=st.sampled_from([None, None, None, 0, 20]),
        deliver=st.booleans(),
    )
    def publish(
        self, sizes: list[int], lane: int, gap: int, ttl_ms: int | None, deliver: bool
    ) -> None:
        lane = self.line.lane_of(lane)
        admitted = self.line.admit(sizes).admitted
        self._check_admission(sizes, admitted)
        if not admitted:
            return
        first = self.ends[lane] + gap
        self.ends[lane] = first + admitted
        for number, size in enumerate(sizes[:admitted]):
            self.naive.messages.append(Message(lane, first + number, size, self.now_ms, ttl_ms))
        self.written.append((lane, first, first + admitted))
        self.line.published(lane, first, first + admitted, has_ttl=ttl_ms is not None)
        if deliver:
            self.deliver()
        dropped = [(one, DeathReason.EXPIRED) for one in self.naive.drop_expired(self.now_ms)]
        dropped += [(one, DeathReason.MAX_LENGTH) for one in self.naive.drop_excess()]
        self.happened(self.line.trim(self.now_ms), dropped)
        for one in self.naive.messages:
            one.is_new = False

    def _check_admission(self, sizes: list[int], admitted: int) -> None:
        chosen = self.naive.settings
        if chosen.overflow == "drop-head":
            assert admitted == len(sizes)
            return
        ready = [one.size for one in self.naive.ready()]
        expected = 0
        for size in sizes:
            ready.append(size)
            too_many = chosen.max_length is not None and len(ready) > chosen.max_length
            too_much = chosen.max_length_bytes is not None and sum(ready) > chosen.max_length_bytes
            if too_many or too_much:
                break
            expected += 1
        assert admitted == expected

    @precondition(lambda self: self.started)
    @rule(
        channel=st.sampled_from(["ch1", "ch2"]),
        no_ack=st.booleans(),
        prefetch=st.integers(0, 3),
        priority=st.sampled_from([0, 0, 5]),
    )
    def consume(self, channel: str, no_ack: bool, prefetch: int, priority: int) -> None:
        if len(self.consumers) >= 4:
            return
        owner = f"{channel}/{self.started}"
        self.started += 1
        consumer = Consumer(
            owner=owner,
            channel=channel,
            tag=owner,
            no_ack=no_ack,
            prefetch=prefetch,
            priority=priority,
        )
        self.consumers[owner] = consumer
        self.line.consume(consumer, self.now_ms)

    @precondition(lambda self: self.started)
    @rule()
    def deliver(self) -> None:
        before = [(one.lane, one.offset) for one in self.naive.ready()]
        step = self.line.deliver(self.now_ms)
        late = [(one, DeathReason.EXPIRED) for one in self._late()]
        for handout in step.handouts:
            for offset in range(handout.first, handout.next):
                ready = self.naive.ready()
                message = ready[0]
                assert (message.lane, message.offset) == (handout.lane, offset)
                self._may_have(handout.consumer)
                message.deliveries += 1
                assert handout.deliveries == message.deliveries
                assert handout.redelivered == (message.deliveries > 1)
                if handout.consumer.no_ack:
                    message.is_over = True
                else:
                    message.owner = handout.consumer.owner
                late += [(one, DeathReason.EXPIRED) for one in self._late()]
        self.happened(step, late)
        if self.naive.ready():
            assert not any(self._room(consumer) > 0 for consumer in self._candidates())
        assert len(before) >= len(self.naive.ready())

    def _late(self) -> list[Message]:
        # Nothing is looked at once nobody is left to be served; then nothing may be said of it either.
        return self.naive.drop_expired(self.now_ms, old_only=True)

    def _candidates(self) -> list[Consumer]:
        everybody = list(self.consumers.values())
        if self.naive.settings.single_active_consumer:
            active = self.line.consumers.active
            return [one for one in everybody if one is active]
        return everybody

    def _room(self, consumer: Consumer) -> int:
        if consumer.no_ack or not consumer.prefetch:
            return 1
        return consumer.prefetch - len(self.naive.held(consumer.owner))

    def _may_have(self, consumer: Consumer) -> None:
        assert self._room(consumer) > 0
        assert consumer in self._candidates()
        better = [one for one in self._candidates() if one.priority > consumer.priority]
        assert self.naive.settings.single_active_consumer or not any(
            self._room(one) > 0 for one in better
        )

    @precondition(lambda self: self.started)
    @rule(no_ack=st.booleans(), channel=st.sampled_from(["ch1", "ch2"]))
    def get(self, no_ack: bool, channel: str) -> None:
        asker = Consumer(owner=f"{channel}/get", channel=channel, tag="", no_ack=no_ack)
        late = [(one, DeathReason.EXPIRED) for one in self.naive.drop_expired(self.now_ms)]
        ready = self.naive.ready()
        step = self.line.get(asker, self.now_ms)
        self.happened(step, late)
        if not ready:
            assert not step.handouts
            return
        (handout,) = step.handouts
        assert (handout.lane, handout.first, handout.next) == (
            ready[0].lane,
            ready[0].offset,
            ready[0].offset + 1,
        )
        ready[0].deliveries += 1
        assert handout.deliveries == ready[0].deliveries
        ready[0].owner, ready[0].is_over = ("", True) if no_ack else (asker.owner, False)

    @precondition(lambda self: self.started)
    @rule(data=st.data(), verb=st.sampled_from(["settle", "requeue", "reject"]))
    def finish(self, data: st.DataObject, verb: str) -> None:
        held = [
            one for one in self.naive.messages if one.owner not in {"", LATER} and not one.is_over
        ]
        if not held:
            return
        chosen = data.draw(st.lists(st.sampled_from(held), min_size=1, unique_by=id, max_size=5))
        owners = {id(one): one.owner for one in chosen}
        places = [Held("q", owners[id(one)], one.lane, one.offset) for one in chosen]
        for group in grouped(places):
            messages = [
                one for one in chosen if (owners[id(one)], one.lane) == (group.owner, group.lane)
            ]
            dead_letters: list[tuple[Message, DeathReason]] = []
            if verb == "settle":
                step = self.line.settle(group.lane, group.ranges, group.owner, self.now_ms)
                for one in messages:
                    one.owner, one.is_over = "", True
            elif verb == "reject":
                step = self.line.reject(group.lane, group.ranges, group.owner, self.now_ms)
                for one in messages:
                    one.owner, one.is_over = "", True
                    dead_letters.append((one, DeathReason.REJECTED))
            else:
                step = self.line.requeued(group.lane, group.ranges, group.owner, self.now_ms)
                dead_letters += [
                    (one, DeathReason.DELIVERY_LIMIT)
                    for one in messages
                    if self.naive.give_back(one, self.now_ms, "returned")
                ]
                dead_letters += [(one, DeathReason.MAX_LENGTH) for one in self.naive.drop_excess()]
            assert not step.refused
            self.happened(step, dead_letters)
            again = self.line.settle(group.lane, group.ranges, group.owner, self.now_ms)
            assert not again.facts

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.consumers)))
        del self.consumers[owner]
        assert self.line.cancel(owner, self.now_ms) == (not self.consumers)

    @precondition(lambda self: self.started)
    @rule(channel=st.sampled_from(["ch1", "ch2"]))
    def lose_channel(self, channel: str) -> None:
        step = self.line.lose_channel(channel, self.now_ms)
        dead_letters = [
            (one, DeathReason.DELIVERY_LIMIT)
            for one in self.naive.messages
            if one.owner.startswith(channel)
            and not one.is_over
            and self.naive.give_back(one, self.now_ms, "failed")
        ]
        self.happened(step, dead_letters)
        for owner in [one for one in self.consumers if one.startswith(channel)]:
            del self.consumers[owner]

    @precondition(lambda self: self.started)
    @rule(elapsed_ms=st.integers(1, 40))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        due = self.line.wake_ms() <= self.now_ms
        woken = [one for one in self.naive.held(LATER) if one.until_ms <= self.now_ms]
        assert due or not woken
        self.naive.awaken(self.now_ms)
        self.happened(self.line.awaken(self.now_ms), [])
        dropped = [(one, DeathReason.EXPIRED) for one in self.naive.drop_expired(self.now_ms)]
        assert due or not dropped
        self.happened(self.line.expire(self.now_ms), dropped)

    @precondition(lambda self: self.started)
    @rule()
    def purge(self) -> None:
        ready = self.naive.ready()
        count, step = self.line.purge()
        assert count == len(ready)
        for one in ready:
            one.is_over = True
        self.happened(step, [])

    @precondition(lambda self: self.started)
    @rule(data=st.data(), lane=st.integers(0, 2))
    def doubt(self, data: st.DataObject, lane: int) -> None:
        """Somebody may have had these messages, perhaps far behind what was handed out."""
        lane = self.line.lane_of(lane)
        first = data.draw(st.integers(0, self.ends[lane]))
        next_ = data.draw(st.integers(first, self.ends[lane]))
        for one in self.naive.ready():
            if one.lane == lane and first <= one.offset < next_:
                one.deliveries = max(1, one.deliveries)
        self.happened(self.line.recovery.doubt(lane, first, next_), [])

    @precondition(lambda self: self.started)
    @rule()
    def write_down(self) -> None:
        """Snapshots of all lanes say what everything before them said."""
        self.written.clear()
        for number, lane in enumerate(self.line.lanes):
            kept_bytes = self.line.kept_bytes(number)
            wanted = LaneSnapshot(lane.end, lane.state(), False, kept_bytes)
            snapshot = read_snapshot(decode_batch(build_snapshot(wanted, now_ms=self.now_ms), 0))
            assert snapshot == wanted
            self.written.append(snapshot)

    @precondition(lambda self: self.started)
    @rule(lane=st.integers(0, 2), past=st.integers(0, 6))
    def lose_beginning(self, lane: int, past: int) -> None:
        """Somebody cuts the log."""
        lane = self.line.lane_of(lane)
        start = min(self.line.lanes[lane].cursor.start + past, self.ends[lane])
        gone = [
            one
            for one in self.naive.messages
            if one.lane == lane and one.offset < start and not one.is_over
        ]
        for one in gone:
            one.is_over = True
        assert self.line.recovery.lose(lane, start) == len(gone)
        self.written.append((lane, start))

    # --- what must hold ----------------------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        if not self.started:
            return
        ready = self.naive.ready()
        held = [
            one for one in self.naive.messages if one.owner not in {"", LATER} and not one.is_over
        ]
        assert self.line.delayed == len(self.naive.held(LATER))
        assert self.line.ready == len(ready)
        assert self.line.held == len(held)
        if self.naive.settings.max_length_bytes is not None:
            assert self.line.ready_bytes == sum(one.size for one in ready)

    def teardown(self) -> None:
        """What was written gives the same queue again, with nothing held."""
        if not self.started:
            return
        again = AnsweredQueue(self.naive.settings, self, now_ms=self.now_ms)
        again.recovery.begin_load()
        restored = 0
        for fact in self.written:
            if isinstance(fact, Facts):
                again.recovery.apply(fact)
            elif isinstance(fact, LaneSnapshot):
                again.recovery.restore(
                    restored, fact.lane, has_ttl=False, kept_bytes=fact.kept_bytes
                )
                restored += 1
            elif len(fact) == 2:
                again.recovery.lose(*fact)
            else:
                again.published(*fact)
        again.recovery.end_load()
        assert again.delayed == len(self.naive.held(LATER))
        again.awaken(self.now_ms + 1_000)
        expected = [(o.lane, o.offset) for o in self.naive.messages if not o.is_over]
        assert again.ready == len(expected)
        if self.naive.settings.max_length_bytes is not None:
            sizes = [one.size for one in self.naive.messages if not one.is_over]
            assert again.ready_bytes == sum(sizes)
        reader = Consumer(owner="r", channel="r", tag="r", no_ack=True)
        found = []
        for lane in range(self.naive.settings.max_priority + 1):
            for run in again.lanes[lane].take(reader.owner, 10_000, self.now_ms):
                found += [(lane, offset) for offset in range(run.first, run.next)]
        assert found == sorted(expected)


QueueMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestQueue = QueueMachine.TestCase


class ConfirmMachine(RuleBasedStateMachine):
    """A publisher keeps a list of what it has not heard of; it must hear of each exactly once."""

    def __init__(self) -> None:
        super().__init__()
        self.confirms = Confirms()
        self.waiting: list[tuple[int, int]] = []
        self.unheard: set[int] = set()

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        first = self.confirms.number(count)
        self.waiting.append((first, first + count))
        self.unheard |= set(range(first, first + count))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), is_yes=st.booleans())
    def answer(self, data: st.DataObject, is_yes: bool) -> None:
        index = data.draw(st.integers(0, len(self.waiting) - 1))
        first, next_ = self.waiting.pop(index)
        heard = set()
        for answer in self.confirms.answer(first, next_, is_yes=is_yes):
            assert answer.is_yes == is_yes
            numbers = (
                {one for one in self.unheard if one <= answer.number}
                if answer.multiple
                else {answer.number}
            )
            heard |= numbers
            self.unheard -= numbers
        assert heard == set(range(first, next_))


TestConfirms = ConfirmMachine.TestCase
