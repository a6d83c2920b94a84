"""Sequences against a leader that forgets nothing: in order, once, whatever is lost on the way."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Accumulator, Batch
from millpond.client._sequences import Identity, Sequences, Verdict
from millpond.record import build_batch, read_header
from millpond.wire.kafka.api import ErrorCode
from tests.support.kafka.fake_producers import ProducerState

PLACE = TopicPartition("t", 0)
IN_FLIGHT = 5


class Story:
    """A producer's queues and numbers, a wire that keeps its order, and a leader."""

    def __init__(self) -> None:
        self.accumulator = Accumulator(batch_bytes=1, linger_s=0.0, memory_bytes=1 << 30)
        self.sequences = Sequences()
        self.sequences.adopt(Identity(7, 0))
        self.wire: deque[tuple[Batch, tuple[int, int, int]]] = deque()
        self.leader = ProducerState()
        self.log: list[int] = []
        self.given_up: list[int] = []
        self.count = 0

    def add(self) -> None:
        record = (0, None, b"%d" % self.count, ())
        self.accumulator.append(PLACE, record, 1, 0.0)
        self.count += 1

    def send(self) -> bool:
        batch = self.accumulator.first(PLACE)
        if batch is None or len(self.wire) >= IN_FLIGHT or not self.sequences.may_send(batch):
            return False
        self.accumulator.take(PLACE)
        self.sequences.number(batch)
        batch.on_wire = True
        assert batch.identity is not None
        self.wire.append((batch, (*batch.identity, batch.sequence)))
        return True

    def answer(self, *, arrives: bool, answered: bool) -> None:
        """The oldest request reaches the leader or not, and its answer reaches us or not."""
        if not self.wire:
            return
        batch, (producer_id, epoch, sequence) = self.wire.popleft()
        verdict = self._append(batch, producer_id, epoch, sequence) if arrives else None
        batch.on_wire = False
        if not arrives or not answered:
            self.lose_connection(batch)
        elif isinstance(verdict, ErrorCode):
            if self.sequences.refused(batch) is Verdict.SEND_AGAIN:
                self.again(batch)
            else:
                self.give_up(batch)
        else:
            self.sequences.taken(batch)
            self.accumulator.drop(batch)

    def answers_lost(self) -> None:
        """Everything on the wire reaches the leader, and no answer reaches us."""
        if self.wire:
            for batch, numbers in self.wire:
                self._append(batch, *numbers)
            self.lose_connection(self.wire.popleft()[0])

    def answer_not_now(self) -> None:
        """The oldest request is refused for a reason that passes; those behind it reach the leader."""
        if self.wire:
            batch, _ = self.wire.popleft()
            batch.on_wire = False
            self.again(batch)

    def _append(
        self, batch: Batch, producer_id: int, epoch: int, sequence: int
    ) -> int | ErrorCode | None:
        header = read_header(
            build_batch(
                batch.records,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )
        verdict = self.leader.check(header)
        if verdict is None:
            self.leader.keep(header, len(self.log))
            self.log.extend(int(record[2] or b"-1") for record in batch.records)
        return verdict

    def lose_connection(self, first: Batch) -> None:
        """Everything on the wire is lost with it, before it reached the leader."""
        lost = [first, *(batch for batch, _ in self.wire)]
        self.wire.clear()
        for batch in lost:
            batch.on_wire = False
        for batch in lost:
            self.again(batch)

    def again(self, batch: Batch) -> None:
        batch.attempts += 1
        self.accumulator.put_back(batch, 0.0)

    def give_up_first(self) -> None:
        batch = self.accumulator.first(PLACE)
        if batch is not None:
            self.give_up(batch)

    def give_up(self, batch: Batch) -> None:
        self.accumulator.drop(batch)
        self.sequences.given_up(batch)
        self.given_up.extend(int(record[2] or b"-1") for record in batch.records)

    def finish(self) -> None:
        for _ in range(10_000):
            if not self.accumulator.unfinished:
                return
            while self.send():
                pass
            self.answer(arrives=True, answered=True)
        raise AssertionError("it never comes to an end")


OUTCOMES = ["ok", "not now", "lost before", "lost after", "all lost after", "give up"]
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, IN_FLIGHT), st.sampled_from(OUTCOMES)), max_size=25
)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_in_order_once_and_nothing_missing(steps: Sequence[tuple[int, int, str]]) -> None:
    """Each step adds some records, sends some batches, and lets one thing happen."""
    story = Story()
    for adds, sends, outcome in steps:
        for _ in range(adds):
            story.add()
        for _ in range(sends):
            story.send()
        match outcome:
            case "ok":
                story.answer(arrives=True, answered=True)
            case "not now":
                story.answer_not_now()
            case "lost before":
                story.answer(arrives=False, answered=False)
            case "lost after":
                story.answer(arrives=True, answered=False)
            case "all lost after":
                story.answers_lost()
            case _:
                story.give_up_first()
    story.finish()
    assert all(first < second for first, second in pairwise(story.log))  # in order, so none twice
    missing = set(range(story.count)) - set(story.log)
    assert missing <= set(story.given_up)
