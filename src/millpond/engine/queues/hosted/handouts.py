"""Messages on their way from a queue to its consumers.

What a consumer gets is decided first and handed to its sink later: when all copies of the log know that it
may have been delivered, and when its messages can be read. A consumer whose messages cannot be read gets
nothing else before them, so that its order stays; all other consumers go on.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from millpond.base.errors import MillpondError
from millpond.cursor.ack import Range
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.hosted.retries import Retries
from millpond.engine.queues.queue_handle import NEVER_READ, QueueHandle, Sink
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout

# Stands for the queue itself among those that wait for something to be readable.
_ITSELF = ""


class Giver(Protocol):
    """The queue to which messages go back that a consumer does not get."""

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None: ...

    def count_lost(self, count: int, why: str) -> None: ...

    def wake(self) -> None: ...


class Handouts:
    """Those of one queue, with the sinks of its consumers."""

    def __init__(self, giver: Giver, lanes: Sequence[QueueLog], name: str) -> None:
        """``name`` is what the log of this node calls the queue."""
        self._giver = giver
        self._lanes = lanes
        self._name = name
        self._sinks: dict[str, Sink] = {}
        # Of cancelled consumers: they may not have asked for what was handed to them.
        self._left: set[Sink] = set()
        # Decided, and held back until the copies of the log know of it.
        self._waiting: list[Handout] = []
        # By owner: what could not be read when it was handed out.
        self._unreadable: dict[str, list[Handout]] = {}
        self.retries: Retries[str] = Retries(self._try_again)
        # Whether the queue itself met something in this turn that cannot be read now.
        self.is_unread = False

    # --- consumers -----------------------------------------------------------------------------------

    def attach(self, owner: str, sink: Sink) -> None:
        self._sinks[owner] = sink

    def sink(self, owner: str) -> Sink:
        return self._sinks[owner]

    def detach(self, owner: str) -> None:
        """A consumer is cancelled. What it could not be handed goes back."""
        sink = self._sinks.pop(owner, None)
        if sink is not None:
            self._left.add(sink)
        for handout in self._forget(owner):
            self.take_back(handout)

    def lose(self, owner: str) -> Sink | None:
        """A consumer is gone with its channel: all that the channel held goes back."""
        self._forget(owner)
        return self._sinks.pop(owner, None)

    def room(self, consumer: Consumer) -> int:
        """How many more messages a consumer takes now."""
        owner = consumer.owner
        return 0 if owner in self._unreadable else self._sinks[owner].room(consumer)

    def close(self) -> None:
        self.retries.close()

    def clear(self) -> None:
        """The consumers are served by another node."""
        self._sinks.clear()

    # --- handing out ---------------------------------------------------------------------------------

    @property
    def is_held_back(self) -> bool:
        """Whether messages were decided on that consumers do not have: their room counts without them."""
        return bool(self._waiting)

    def add(self, handouts: Sequence[Handout]) -> None:
        self._waiting += handouts

    def hand_out(self, queue: QueueHandle, sinks: dict[Sink, None]) -> None:
        """Hand out, in order, what all copies know of. ``sinks`` gets those that were handed something."""
        waiting, count = self._waiting, 0
        while count < len(waiting):
            one = waiting[count]
            if not self._lanes[one.lane].marks.is_covered(one.next):
                break
            count += 1
        self._waiting = waiting[count:]
        for handout in waiting[:count]:
            self._give(queue, handout, sinks)

    def hand_out_all(self, queue: QueueHandle, sinks: dict[Sink, None]) -> None:
        """As ``hand_out``, whatever copies know: for a queue that calls nothing redelivered."""
        waiting, self._waiting = self._waiting, []
        for handout in waiting:
            self._give(queue, handout, sinks)

    def _give(self, queue: QueueHandle, handout: Handout, sinks: dict[Sink, None]) -> None:
        owner = handout.consumer.owner
        sink = self._sinks.get(owner)
        if sink is None:
            # It was cancelled since that was decided, in a turn that failed.
            self.take_back(handout)
            return
        if owner in self._unreadable:
            self._unreadable[owner].append(handout)
            return
        try:
            sink.hand_out(queue, handout)
        except MillpondError as error:
            # The other consumers are to get theirs.
            self.keep_waiting(owner, error, handout)
            return
        sinks[sink] = None
        if self.retries.is_needed:
            self.retries.worked(owner)

    # --- what cannot be read now ---------------------------------------------------------------------

    def keep_waiting(self, owner: str, error: MillpondError, *handouts: Handout) -> None:
        """A consumer gets nothing, so that nothing overtakes, until this can be read."""
        self._unreadable.setdefault(owner, []).extend(handouts)
        self.retries.failed(owner, f"a consumer of {self._name}", error)

    def cannot_read(self, error: MillpondError) -> None:
        """The queue itself reads again later, and does without it now."""
        self.is_unread = True
        self.retries.failed(_ITSELF, self._name, error)

    @property
    def is_pausing(self) -> bool:
        """Whether the queue itself is not to read now."""
        return _ITSELF in self.retries.waiting

    def could_read(self) -> None:
        """The queue itself could read all that it needed in this turn."""
        if self.retries.is_needed and not self.is_unread:
            self.retries.worked(_ITSELF)

    def _try_again(self, owner: str) -> None:
        self._waiting = [*self._unreadable.pop(owner, ()), *self._waiting]
        self._giver.wake()

    def _forget(self, owner: str) -> list[Handout]:
        self.retries.forget(owner)
        return self._unreadable.pop(owner, [])

    def take_back(self, handout: Handout) -> None:
        """A consumer has gone before it got these. Those that it need not acknowledge are over already."""
        if handout.consumer.no_ack:
            self._giver.count_lost(
                handout.next - handout.first, "their consumer went before they could be read"
            )
        else:
            offsets = handout.first, handout.next
            self._giver.requeue(handout.lane, [offsets], handout.consumer.owner)

    # --- what the log must keep ----------------------------------------------------------------------

    def lowest(self, queue: QueueHandle, lane: int) -> int:
        """The lowest offset that a sink has not asked for yet; ``NEVER_READ`` if there is none."""
        unread = [sink.unread(queue, lane) for sink in self._left.union(self._sinks.values())]
        late = [handout for some in self._unreadable.values() for handout in some]
        back = [one.first for one in (*self._waiting, *late) if one.lane == lane]
        return min([NEVER_READ, *unread, *back])

    def forget_served(self, queue: QueueHandle) -> None:
        """Forget the sinks of cancelled consumers that have asked for all that was handed to them."""
        if self._left:
            self._left = {sink for sink in self._left if self._is_owed(queue, sink)}

    def forget_cancelled(self) -> None:
        """The log loses nothing by being read: cancelled consumers need not be remembered."""
        self._left.clear()

    def _is_owed(self, queue: QueueHandle, sink: Sink) -> bool:
        return any(sink.unread(queue, lane) < NEVER_READ for lane in range(len(self._lanes)))
