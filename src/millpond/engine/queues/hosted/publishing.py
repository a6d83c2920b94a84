"""Messages published to a queue: how many are admitted, and which lane of the log each goes to."""

from collections.abc import Callable, Sequence

from millpond.engine.forwarding.kept import Taken
from millpond.engine.partitions.publish import Appended
from millpond.engine.queues.hosted.decisions import Decisions
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.engine.queues.hosted.turn import Turn
from millpond.message.hub import Message
from millpond.queue.queue_state import DROP_HEAD, QueueState


class Publishing:
    """That of one queue."""

    def __init__(
        self,
        state: QueueState,
        store: MessageStore,
        decisions: Decisions,
        turn: Turn,
        *,
        is_durable: bool,
        is_memory_low: Callable[[], bool],
        refuse: Callable[[Sequence[Message]], None],
    ) -> None:
        """``is_durable``: the queue outlives a restart. ``refuse`` dead-letters what is not admitted."""
        self._state = state
        self._store = store
        self._decisions = decisions
        self._turn = turn
        self._is_durable = is_durable
        self._is_memory_low = is_memory_low
        self._refuse = refuse

    def publish(self, messages: Sequence[Message], *, again: bool) -> Taken:
        """Append messages in order. Those that are not admitted become dead letters if the queue wants that.

        ``again``: they may be in the queue already, and be known to consumers.
        """
        admitted, to_dead_letters = self._admit(messages)
        kept = messages if admitted == len(messages) else messages[:admitted]
        lanes: dict[int, Sequence[Message]] = {}
        if len(self._store.lanes) == 1:
            if kept:
                lanes[0] = kept
        else:
            by_priority: dict[int, list[Message]] = {}
            for message in kept:
                by_priority.setdefault(self._lane_for(message), []).append(message)
            lanes.update(by_priority)
        appended = []
        for lane, some in lanes.items():
            written = self._append(lane, some)
            appended.append(written.durable)
            if again:
                info = written.info
                self._turn.repeated(lane, info.first_offset, info.last_offset + 1)
        if to_dead_letters and admitted < len(messages):
            self._refuse(messages[admitted:])
        return Taken(admitted, [durable for durable in appended if durable is not None])

    def _lane_for(self, message: Message) -> int:
        """Which partition a message goes to."""
        return self._state.lane_of(message.priority)

    def _append(self, lane: int, messages: Sequence[Message]) -> Appended:
        """Write messages; they are in the queue when ``durable`` is done. Raises what the log does."""
        synced = self._is_durable and (
            self._state.settings.keeps_all or any(message.is_persistent for message in messages)
        )
        kept = not self._is_memory_low()
        appended = self._store.append(lane, messages, synced=synced, kept=kept)
        self._turn.wake()
        return appended

    def _admit(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """How many of these may be appended, and whether the others are to become dead letters."""
        if self._state.settings.overflow == DROP_HEAD:
            return len(messages), False
        self._decisions.learn_sizes(self._state)
        coming = self._store.coming()
        answer = self._state.admit([*coming, *(len(message.body) for message in messages)])
        return max(0, answer.admitted - len(coming)), answer.to_dead_letters
