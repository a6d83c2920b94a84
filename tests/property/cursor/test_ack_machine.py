"""Random lives of an ack cursor beside a model that keeps a dictionary of messages.

Readers take, settle, give back, reject, ask for more time, fall silent and leave; the log loses its
oldest messages; somebody starts over; the process restarts from its journal or from a snapshot.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from millpond.cursor import runs
from millpond.cursor.ack import AckCursor, Delta, Outcome
from millpond.cursor.dead_letter import DeadLetter, DeadLetterPolicy, GiveUp, Reason
from millpond.cursor.runs import NEVER_MS, NO_OWNER, State
from millpond.cursor.snapshot import decode_delta, encode_delta, restore, snapshot

OWNERS = st.sampled_from(["ann", "bob", "cy"])
SPAN = 60
OFFSETS = st.integers(0, SPAN)
RANGES = st.lists(
    st.tuples(OFFSETS, st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    min_size=1,
    max_size=4,
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the model sees it."""

    state: State = State.AVAILABLE
    deliveries: int = 0
    owner: str = NO_OWNER
    deadline_ms: int = NEVER_MS


FRESH = Message()


class CursorLife(RuleBasedStateMachine):
    """One cursor, three readers."""

    @initialize(
        limit=st.sampled_from([None, 1, 3]),
        on_rejected=st.sampled_from(GiveUp),
        on_deliveries=st.sampled_from(GiveUp),
        start=st.sampled_from([0, 7]),
    )
    def open(
        self, limit: int | None, on_rejected: GiveUp, on_deliveries: GiveUp, start: int
    ) -> None:
        self.policy = DeadLetterPolicy(
            deliveries_max=limit, on_rejected=on_rejected, on_deliveries=on_deliveries
        )
        self.cursor = AckCursor(start, self.policy)
        self.first_start = start
        self.journal: list[bytes] = []
        self.now_ms = 1_000
        # The model: messages that are not as fresh as on the first day, and where it all begins.
        self.messages: dict[int, Message] = {}
        self.start = start

    def __init__(self) -> None:
        super().__init__()
        # Blocks so small that most changes reach over several.
        self.block_runs_max = runs.BLOCK_RUNS_MAX
        runs.BLOCK_RUNS_MAX = 3

    def teardown(self) -> None:
        runs.BLOCK_RUNS_MAX = self.block_runs_max

    # --- what readers do ---------------------------------------------------------------------------

    @rule(
        owner=OWNERS,
        credit=st.integers(0, 20),
        upto=OFFSETS,
        lock_ms=st.sampled_from([None, 10, 100]),
        skip_before=st.sampled_from([0, 0, 0, 20]),
        dropped=st.booleans(),
    )
    def acquire(
        self,
        owner: str,
        credit: int,
        upto: int,
        lock_ms: int | None,
        skip_before: int,
        dropped: bool,
    ) -> None:
        outcome = self.cursor.acquire(
            owner=owner,
            credit=credit,
            upto=upto,
            now_ms=self.now_ms,
            lock_ms=lock_ms,
            skip_before=skip_before,
        )
        free = [
            offset
            for offset in range(max(self.start, skip_before), upto)
            if self.at(offset).state is State.AVAILABLE
        ][:credit]
        deadline_ms = NEVER_MS if lock_ms is None else self.now_ms + lock_ms
        expected = {
            offset: Message(State.ACQUIRED, self.at(offset).deliveries + 1, owner, deadline_ms)
            for offset in free
        }
        assert spread(outcome.delta) == expected
        if not dropped:
            self.take(outcome, expected)

    @rule(ranges=RANGES, owner=OWNERS)
    def settle(self, ranges: list[tuple[int, int]], owner: str) -> None:
        outcome = self.cursor.settle(ranges, owner=owner, now_ms=self.now_ms)
        held = self.check_refused(outcome, ranges, owner)
        self.take(outcome, {offset: Message(State.SETTLED) for offset in held})

    @rule(ranges=RANGES, owner=OWNERS)
    def reject(self, ranges: list[tuple[int, int]], owner: str) -> None:
        outcome = self.cursor.reject(ranges, owner=owner, now_ms=self.now_ms)
        held = self.check_refused(outcome, ranges, owner)
        self.check_letters(outcome, held, Reason.REJECTED)
        self.take(outcome, {offset: Message(State.ARCHIVED) for offset in held})

    @rule(ranges=RANGES, owner=OWNERS, counted=st.booleans())
    def release(self, ranges: list[tuple[int, int]], owner: str, counted: bool) -> None:
        outcome = self.cursor.release(ranges, owner=owner, now_ms=self.now_ms, counted=counted)
        held = self.check_refused(outcome, ranges, owner)
        self.give_back(outcome, held, counted)

    @rule(ranges=RANGES, owner=OWNERS, lock_ms=st.sampled_from([1, 50]))
    def extend(self, ranges: list[tuple[int, int]], owner: str, lock_ms: int) -> None:
        outcome = self.cursor.extend(ranges, owner=owner, now_ms=self.now_ms, lock_ms=lock_ms)
        held = self.check_refused(outcome, ranges, owner)
        until = self.now_ms + lock_ms
        self.take(
            outcome,
            {
                offset: Message(State.ACQUIRED, self.at(offset).deliveries, owner, until)
                for offset in held
            },
        )

    @rule(owner=OWNERS, counted=st.booleans())
    def leave(self, owner: str, counted: bool) -> None:
        outcome = self.cursor.release_owner(owner, counted=counted)
        held = {offset for offset, message in self.messages.items() if message.owner == owner}
        self.give_back(outcome, held, counted)

    # --- what happens to them ----------------------------------------------------------------------

    @rule(passed_ms=st.integers(0, 60))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(dropped=st.booleans())
    def expire(self, dropped: bool) -> None:
        outcome = self.cursor.expire(self.now_ms)
        due = {
            offset
            for offset, message in self.messages.items()
            if message.state is State.ACQUIRED and message.deadline_ms <= self.now_ms
        }
        if not dropped:
            self.give_back(outcome, due, counted=True)

    @rule(ranges=RANGES)
    def archive(self, ranges: list[tuple[int, int]]) -> None:
        outcome = self.cursor.archive(ranges)
        gone = {
            offset
            for first, next_ in ranges
            for offset in range(max(first, self.start), min(next_, self.cursor.end))
            if not self.at(offset).state.is_final
        }
        self.take(outcome, {offset: Message(State.ARCHIVED) for offset in gone})

    @rule(start=OFFSETS)
    def lose_the_oldest(self, start: int) -> None:
        self.take(self.cursor.move_start(start), {})
        self.move(max(start, self.start))

    @rule(start=OFFSETS)
    def start_over(self, start: int) -> None:
        self.messages.clear()
        self.start = start
        self.take(self.cursor.restart(start), {})

    @rule()
    def restart_from_journal(self) -> None:
        before = snapshot(self.cursor)
        self.cursor = AckCursor(self.first_start, self.policy)
        self.cursor.replay(decode_delta(data) for data in self.journal)
        assert snapshot(self.cursor) == before

    @rule()
    def restart_from_snapshot(self) -> None:
        before = snapshot(self.cursor)
        self.cursor = restore(encode_delta(before), self.policy)
        assert snapshot(self.cursor) == before

    # --- what always holds -------------------------------------------------------------------------

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.cursor.start == self.start
        previous = None
        position = self.cursor.start
        for run in self.cursor.runs():
            assert run.first == position
            assert run.first < run.next
            assert previous is None or previous[2:] != run[2:], "neighbours that are alike"
            for offset in range(run.first, run.next):
                assert Message(*run[2:]) == self.at(offset)
            position, previous = run.next, run
        assert position == self.cursor.end
        assert all(offset < position for offset in self.messages)

    @invariant()
    def counts(self) -> None:
        known = [self.at(offset) for offset in range(self.cursor.start, self.cursor.end)]
        for state in State:
            assert self.cursor.count(state) == sum(message.state is state for message in known)
        for owner in ("ann", "bob", "cy"):
            assert self.cursor.held_by(owner) == sum(message.owner == owner for message in known)
        assert self.cursor.run_count == len(list(self.cursor.runs()))

    # Rules and not invariants: asking drops stale hints, and a life must also go on without that.

    @rule()
    def ask_what_is_next(self) -> None:
        known = range(self.cursor.start, self.cursor.end)
        free = [offset for offset in known if self.at(offset).state is State.AVAILABLE]
        assert self.cursor.next_available() == (free[0] if free else self.cursor.end)

    @rule()
    def ask_when_to_wake(self) -> None:
        known = range(self.cursor.start, self.cursor.end)
        deadlines = [self.at(offset).deadline_ms for offset in known]
        assert self.cursor.wake_ms == min(deadlines, default=NEVER_MS)

    # --- helpers -----------------------------------------------------------------------------------

    def at(self, offset: int) -> Message:
        return self.messages.get(offset, FRESH)

    def check_refused(
        self, outcome: Outcome, ranges: list[tuple[int, int]], owner: str
    ) -> set[int]:
        named = {o for first, next_ in ranges for o in range(first, next_) if o >= self.start}
        held = {
            offset
            for offset in named
            if self.at(offset).owner == owner and self.at(offset).deadline_ms > self.now_ms
        }
        refused = [o for first, next_ in outcome.refused for o in range(first, next_)]
        assert refused == sorted(named - held)
        return held

    def give_back(self, outcome: Outcome, held: set[int], counted: bool) -> None:
        after: dict[int, Message] = {}
        exhausted = set()
        for offset in held:
            deliveries = self.at(offset).deliveries - (not counted)
            limit = self.policy.deliveries_max
            if limit is not None and deliveries >= limit:
                after[offset] = Message(State.ARCHIVED)
                exhausted.add(offset)
            else:
                after[offset] = Message(State.AVAILABLE, deliveries)
        self.check_letters(outcome, exhausted, Reason.DELIVERIES)
        self.take(outcome, after)

    def check_letters(self, outcome: Outcome, given_up: set[int], reason: Reason) -> None:
        action = self.policy.on_rejected if reason is Reason.REJECTED else self.policy.on_deliveries
        wanted = {
            (offset, self.at(offset).deliveries)
            for offset in given_up
            if action is GiveUp.DEAD_LETTER
        }
        assert letters(outcome.dead_letters, reason) == wanted

    def take(self, outcome: Outcome, expected: dict[int, Message]) -> None:
        assert spread(outcome.delta) == expected
        data = encode_delta(outcome.delta)
        assert decode_delta(data) == outcome.delta
        self.journal.append(data)
        self.cursor.apply(outcome.delta)
        if expected:
            # What lies before something known is known too.
            for offset in range(self.start, max(expected)):
                self.messages.setdefault(offset, FRESH)
        self.messages.update(expected)
        self.move(self.start)

    def move(self, start: int) -> None:
        while self.at(start).state.is_final:
            start += 1
        self.start = start
        for offset in [offset for offset in self.messages if offset < start]:
            del self.messages[offset]


def spread(delta: Delta) -> dict[int, Message]:
    """Every message a delta speaks of; each may come once."""
    found: dict[int, Message] = {}
    for run in delta.runs:
        for offset in range(run.first, run.next):
            assert offset not in found
            found[offset] = Message(*run[2:])
    return found


def letters(found: tuple[DeadLetter, ...], reason: Reason) -> set[tuple[int, int]]:
    assert all(letter.reason is reason for letter in found)
    return {
        (offset, letter.deliveries)
        for letter in found
        for offset in range(letter.first, letter.next)
    }


TestCursorLife = CursorLife.TestCase
TestCursorLife.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
