"""A queue whose needs are answered from a table of messages, as a host does from its log."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from millpond.cursor.ack import Range
from millpond.queue.consumers import Consumer
from millpond.queue.known import Meta, Need
from millpond.queue.queue_state import Admission, QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import Step, joined_steps


class Messages(Protocol):
    """What is in the log."""

    def meta(self, lane: int, offset: int) -> Meta: ...


class AnsweredQueue(QueueState):
    """Decisions with everything that they need; ``trim`` is what a host does behind ``deliver``."""

    def __init__(self, settings: QueueSettings, messages: Messages, *, now_ms: int) -> None:
        super().__init__(settings, now_ms=now_ms)
        self._messages = messages

    def answer(self, needs: Sequence[Need]) -> None:
        for lane, first, next_ in needs:
            assert first < next_
            self.learn(
                lane, first, [self._messages.meta(lane, offset) for offset in range(first, next_)]
            )

    def _decided(self, decision: Callable[[], Step]) -> Step:
        steps = [decision()]
        while steps[-1].needs:
            self.answer(steps[-1].needs)
            steps[-1] = steps[-1]._replace(needs=())
            steps.append(decision())
        return joined_steps(*steps)

    def _sized(self) -> None:
        while needs := self.sizes.needs():
            self.answer(needs)

    @property
    def ready_bytes(self) -> int:
        self._sized()
        return super().ready_bytes

    def kept_bytes(self, lane: int) -> int | None:
        self._sized()
        held = self.sizes.held_ranges(lane)
        if held is None:
            return None
        offsets = [offset for first, next_ in held for offset in range(first, next_)]
        return self.ready_bytes + sum(self._messages.meta(lane, one).size for one in offsets)

    def wake_ms(self) -> int:
        if self.ages.are_watched:
            for number, lane in enumerate(self.lanes):
                head = lane.head()
                if head is not None:
                    self.answer([Need(number, head.first, head.first + 1)])
        return super().wake_ms()

    def admit(self, sizes: Sequence[int]) -> Admission:
        self._sized()
        return super().admit(sizes)

    def deliver(
        self,
        now_ms: int,
        room: Callable[[Consumer], int] | None = None,
        given: dict[tuple[str, bool], int] | None = None,
    ) -> Step:
        given = {} if given is None else given
        decide = super().deliver
        return self._decided(lambda: decide(now_ms, room, given))

    def get(self, consumer: Consumer, now_ms: int) -> Step:
        decide = super().get
        return self._decided(lambda: decide(consumer, now_ms))

    def expire(self, now_ms: int) -> Step:
        decide = super().expire
        return self._decided(lambda: decide(now_ms))

    def requeued(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """Give messages back, and drop what is too much then, as a host does."""
        return joined_steps(
            self.requeue(lane, ranges, owner, now_ms), self._decided(self.drop_excess)
        )

    def configured(self, settings: QueueSettings, now_ms: int) -> Step:
        """Other settings, felt at once."""
        self.configure(settings)
        return self.trim(now_ms)

    def trim(self, now_ms: int) -> Step:
        step = joined_steps(self.expire(now_ms), self._decided(self.drop_excess))
        self.offered()
        return step
