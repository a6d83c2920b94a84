"""Decisions of a queue carried out: what they need is read, and they are made again (``queue/known.py``)."""

from collections.abc import Callable, Iterable

from millpond.base.errors import MessageLost, StorageFailure
from millpond.cursor.runs import NEVER_MS
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.queue.known import UNREADABLE, Meta, Need
from millpond.queue.queue_state import QueueState
from millpond.queue.sizes import Sized
from millpond.queue.steps import Step


class Decisions:
    """Those of one queue."""

    def __init__(
        self,
        store: MessageStore,
        cannot_read: Callable[[StorageFailure], None],
    ) -> None:
        """``cannot_read`` hears that something is to be tried again."""
        self._store = store
        self._cannot_read = cannot_read
        # Messages that a decision of this turn needed and that cannot be read now.
        self._unreadable: list[tuple[int, int]] = []

    def carry_out(
        self,
        state: QueueState,
        decision: Callable[[], Step],
        follow: Callable[[Step], None],
    ) -> Step:
        """Make a decision until it needs nothing more, or the log cannot be read now. Return its last step.

        ``follow`` carries out each step.
        """
        step = decision()
        follow(step)
        while step.needs and self.learn(state, step.needs):
            step = decision()
            follow(step)
        return step

    def learn_sizes(self, state: QueueState) -> None:
        """Make the sum of sizes certain, if it is counted and the log can be read."""
        is_readable = True
        while is_readable and (needs := state.sizes.needs()):
            answers: list[Sized] = []
            for lane, first, next_ in needs:
                answers.append(Sized(lane, first, self._sizes(lane, first, next_)))
                is_readable = len(answers[-1].sizes) == next_ - first
                if not is_readable:
                    break
            state.sizes.learn(answers)

    def learn(self, state: QueueState, needs: Iterable[Need]) -> bool:
        """Read messages for a decision. Return whether more is known than before."""
        is_more = False
        for lane, first, next_ in needs:
            metas: list[Meta] = []
            for offset in range(first, next_):
                if (lane, offset) in self._unreadable:
                    return is_more
                metas.append(self._meta(lane, offset))
                if metas[-1] is UNREADABLE:
                    break
            state.learn(lane, first, metas)
            is_more = True
        return is_more

    def kept_bytes(self, state: QueueState, lane: int) -> int | None:
        """The size of what is not over, for a snapshot; None if it is not counted or not known."""
        held = state.sizes.held_ranges(lane)
        if held is None:
            return None
        total = state.ready_bytes
        for first, next_ in held:
            sizes = self._sizes(lane, first, next_)
            if len(sizes) < next_ - first:
                return None
            total += sum(sizes)
        return total

    def _sizes(self, lane: int, first: int, next_: int) -> list[int]:
        """Sizes of these messages, up to the first that cannot be read now."""
        sizes: list[int] = []
        try:
            for offset in range(first, next_):
                if self._unreadable and (lane, offset) in self._unreadable:
                    break
                sizes.append(self._store.size(lane, offset))
        except StorageFailure as error:
            self._unreadable.append((lane, first + len(sizes)))
            self._cannot_read(error)
        return sizes

    def forget_unreadable(self, state: QueueState) -> None:
        """What could not be read is tried again in a later turn."""
        for lane, offset in self._unreadable:
            state.known.forget(lane, offset, offset + 1)
        self._unreadable.clear()

    def _meta(self, lane: int, offset: int) -> Meta:
        try:
            message = self._store.looked_at(lane, offset)
            return Meta(len(message.body), message.received_ms, message.ttl_ms)
        except MessageLost:
            # It does not expire: it is dropped as lost, in the next turn or when it is delivered.
            return Meta(0, NEVER_MS)
        except StorageFailure as error:
            self._unreadable.append((lane, offset))
            self._cannot_read(error)
            return UNREADABLE
