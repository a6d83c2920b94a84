"""What a queue decides does not depend on how much was known, nor on the portions in which answers come."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from millpond.queue.ages import Ages
from millpond.queue.consumers import Consumer
from millpond.queue.known import Meta, Need
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.sizes import Sized
from millpond.queue.steps import Step

LANES = 2
OWNERS = ("a/1", "a/2", "b/1")


class Publish(NamedTuple):
    lane: int
    sizes: list[int]
    ttl_ms: int | None
    is_offered: bool


class Wait(NamedTuple):
    elapsed_ms: int


class Consume(NamedTuple):
    owner: int
    prefetch: int
    no_ack: bool
    is_served: bool


class Do(NamedTuple):
    verb: str


Command = Publish | Wait | Consume | Do

commands = st.lists(
    st.one_of(
        st.builds(
            Publish,
            st.sampled_from([0, 0, LANES - 1]),
            st.lists(st.integers(0, 5), min_size=1, max_size=4),
            st.sampled_from([None, 0, 10, 30]),
            st.sampled_from([True, True, False]),
        ),
        st.builds(Wait, st.sampled_from([1, 10, 20, 20])),
        st.builds(Consume, st.integers(0, 2), st.integers(0, 3), st.booleans(), st.booleans()),
        st.builds(
            Do,
            st.sampled_from(
                ["deliver", "trim", "get", "requeue", "settle", "lose", "cut", "purge", "recount"]
            ),
        ),
    ),
    min_size=4,
    max_size=20,
)
queue_settings = st.builds(
    QueueSettings,
    message_ttl_ms=st.sampled_from([None, None, 25]),
    max_length=st.sampled_from([None, None, 4]),
    max_length_bytes=st.sampled_from([None, None, 8]),
    dead_letter_target=st.sampled_from([None, "dlx"]),
    max_priority=st.just(LANES - 1),
    single_active_consumer=st.booleans(),
)
# How much of a need is answered at a time, whether from its end, and whether all else is forgotten then.
portions = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=30)


class Log:
    """One queue with its messages; ``answer`` tells it what it needs."""

    def __init__(self, state: QueueState) -> None:
        self.state = state
        self.metas: dict[tuple[int, int], Meta] = {}
        self.ends = [0] * LANES
        self.happened: list[object] = []

    def decided(self, decision: Callable[[], Step]) -> None:
        step = decision()
        self.note(step)
        asked = 0
        while step.needs:
            self.answer(step.needs)
            step = decision()
            self.note(step)
            asked += 1
            assert asked < 2_000, "the same need is asked for again and again"

    def answer(self, needs: tuple[Need, ...]) -> None:
        raise NotImplementedError

    def answer_sizes(self, needs: tuple[Need, ...]) -> None:
        self.answer(needs)

    def note(self, step: Step) -> None:
        for lane, delta in step.facts:
            self.happened += [
                (lane, offset, *run[2:]) for run in delta.runs for offset in range(*run[:2])
            ]
        for lane, first, next_, reason in step.dead_letters:
            self.happened += [(lane, offset, reason) for offset in range(first, next_)]
        for consumer, lane, first, next_, deliveries in step.handouts:
            self.happened += [
                (consumer.owner, lane, offset, deliveries) for offset in range(first, next_)
            ]

    def sized(self) -> int:
        asked = 0
        while needs := self.state.sizes.needs():
            self.answer_sizes(needs)
            asked += 1
            assert asked < 2_000
        return self.state.ready_bytes


class AllKnown(Log):
    """Everything is known before it is asked for."""

    def decided(self, decision: Callable[[], Step]) -> None:
        self.tell_all()
        step = decision()
        assert not step.needs
        self.note(step)

    def answer(self, needs: tuple[Need, ...]) -> None:
        self.tell_all()

    def tell_all(self) -> None:
        for (lane, offset), meta in self.metas.items():
            self.state.learn(lane, offset, [meta])


class InPortions(Log):
    """A need is answered in parts, and what was known may be forgotten meanwhile."""

    def __init__(self, state: QueueState, how: list[tuple[int, bool, bool]]) -> None:
        super().__init__(state)
        self._how: Iterator[tuple[int, bool, bool]] = iter(how)

    def answer(self, needs: tuple[Need, ...]) -> None:
        count, from_end, forgets = next(self._how, (1_000, False, False))
        if forgets:
            self.state.known.clear()
        for lane, first, next_ in needs:
            offsets = list(range(first, next_))
            some = offsets[-count:] if from_end else offsets[:count]
            self.state.learn(lane, some[0], [self.metas[lane, one] for one in some])


class SizesAlone(InPortions):
    """As well; where sizes are needed, only they are told, perhaps in another order."""

    def answer_sizes(self, needs: tuple[Need, ...]) -> None:
        count, from_end, _forgets = next(self._how, (1_000, False, False))
        answers = [
            Sized(lane, first, [self.metas[lane, one].size for one in range(first, next_)][:count])
            for lane, first, next_ in needs
        ]
        self.state.sizes.learn(reversed(answers) if from_end else answers)


def carry_out(log: Log, command: Command, now_ms: int) -> None:
    state = log.state
    match command:
        case Publish(lane, sizes, ttl_ms, is_offered):
            first = log.ends[lane]
            log.ends[lane] += len(sizes)
            for number, size in enumerate(sizes):
                log.metas[lane, first + number] = Meta(size, now_ms, ttl_ms)
            state.published(lane, first, log.ends[lane], has_ttl=ttl_ms is not None)
            if is_offered:
                do(log, "trim", now_ms)
        case Consume(number, prefetch, no_ack, is_served):
            owner = OWNERS[number]
            if not any(one.owner == owner for one in state.consumers):
                state.consume(
                    Consumer(
                        owner=owner, channel=owner[0], tag="t", prefetch=prefetch, no_ack=no_ack
                    ),
                    now_ms,
                )
            if is_served:
                do(log, "deliver", now_ms)
        case Do(verb):
            do(log, verb, now_ms)
        case Wait():
            pass


def do(log: Log, verb: str, now_ms: int) -> None:
    state = log.state
    match verb:
        case "deliver":
            given: dict[tuple[str, bool], int] = {}
            log.decided(lambda: state.deliver(now_ms, lambda _consumer: 5, given))
        case "trim":
            log.decided(lambda: state.expire(now_ms))
            log.decided(state.drop_excess)
            state.offered()
        case "get":
            reader = Consumer(owner="b/get", channel="b", tag="t")
            log.decided(lambda: state.get(reader, now_ms))
        case "requeue" | "settle":
            finish = state.requeue if verb == "requeue" else state.settle
            for number, lane in enumerate(state.lanes):
                for owner in sorted(lane.cursor.owners):
                    ranges = lane.cursor.held_ranges(owner)
                    log.note(finish(number, ranges, owner, now_ms))
            log.decided(state.drop_excess)
        case "lose":
            log.note(state.lose_channel("a", now_ms))
        case "cut":
            log.sized()
            log.happened.append(
                state.recovery.lose(0, min(state.lanes[0].cursor.start + 2, log.ends[0]))
            )
        case "purge":
            count, step = state.purge()
            log.happened.append(count)
            log.note(step)
        case "recount":
            state.sizes.recount()
        case _:
            raise AssertionError(verb)


def seen(log: Log) -> tuple[object, ...]:
    state = log.state
    return (
        sorted(map(str, log.happened)),
        [one for one in log.happened if isinstance(one, tuple) and isinstance(one[0], str)],
        state.ready,
        state.held,
        log.sized(),
        [lane.state() for lane in state.lanes],
    )


def check(
    kind: type[QueueState],
    chosen: QueueSettings,
    some: list[Command],
    how: list[tuple[int, bool, bool]],
) -> None:
    sure = AllKnown(QueueState(chosen, now_ms=0))
    unsure = [one(kind(chosen, now_ms=0), how) for one in (InPortions, SizesAlone)]
    now_ms = 0
    for command in some:
        if isinstance(command, Wait):
            now_ms += command.elapsed_ms
        for log in (sure, *unsure):
            carry_out(log, command, now_ms)
        for log in unsure:
            assert seen(sure) == seen(log), command


@settings(max_examples=150, deadline=None)
@given(queue_settings, commands, portions)
def test_any_portions_of_the_answers_give_the_same_decisions(
    chosen: QueueSettings, some: list[Command], how: list[tuple[int, bool, bool]]
) -> None:
    check(QueueState, chosen, some, how)


class HastyAges(Ages):
    def timely(self, count: int, new: Sequence[int], now_ms: int) -> int | Need:
        found = super().timely(count, new, now_ms)
        return min(count, found.next - found.first + 1) if isinstance(found, Need) else found


class Hasty(QueueState):
    """A planted bug: what is not known is taken to be young enough to be delivered with the rest."""

    def __init__(self, settings: QueueSettings, *, now_ms: int, starts: Sequence[int] = ()) -> None:
        super().__init__(settings, now_ms=now_ms, starts=starts)
        self.ages = HastyAges(self.known, self.lanes, settings)


class Forgetful(QueueState):
    """A planted bug: a consumer whose messages are not known yet loses its turn."""

    def deliver(
        self,
        now_ms: int,
        room: Callable[[Consumer], int] | None = None,
        given: dict[tuple[str, bool], int] | None = None,
    ) -> Step:
        step = super().deliver(now_ms, room, given)
        turn = self.consumers.next(lambda _consumer: 1, 1) if step.needs else None
        if turn is not None:
            self.consumers.served(turn)
        return step


class Partial(QueueState):
    """A planted bug: what was given to a channel before a need is forgotten."""

    def deliver(
        self,
        now_ms: int,
        room: Callable[[Consumer], int] | None = None,
        given: dict[tuple[str, bool], int] | None = None,
    ) -> Step:
        return super().deliver(now_ms, room, None)


@pytest.mark.parametrize("kind", [Hasty, Forgetful, Partial])
def test_a_decision_that_depends_on_what_was_known_is_found(kind: type[QueueState]) -> None:
    @settings(
        max_examples=3_000,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )
    @given(queue_settings, commands, portions)
    def search(
        chosen: QueueSettings, some: list[Command], how: list[tuple[int, bool, bool]]
    ) -> None:
        check(kind, chosen, some, how)

    with pytest.raises(AssertionError):
        search()
