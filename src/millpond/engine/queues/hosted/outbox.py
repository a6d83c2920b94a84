"""Dead letters of one queue on their way to where they go.

A fact that ends a message is written only when its dead letter was sent, or, with the strategy *at least
once*, when it has arrived (``dead_letters.py``). What is too much for one turn, or cannot be read now, waits.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from millpond.base.errors import MessageLost, StorageFailure
from millpond.cursor.runs import Run, State
from millpond.engine.queues.dead_letters import AT_LEAST_ONCE, DeadLetters
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.message.hub import Message
from millpond.queue.steps import GIVEN_UP_AT_A_TIME, DeadLetter

_SENT_AT_A_TIME = 256


class Source(Protocol):
    """The queue whose messages become dead letters."""

    def note_over(self, lane: int, run: Run) -> None:
        """The dead letters of these messages were sent: now the log may say that they are over."""
        ...

    def count_lost(self, count: int, why: str) -> None: ...

    def cannot_read(self, error: StorageFailure) -> None:
        """A dead letter waits because its message cannot be read now."""
        ...


class Outbox:
    """Dead letters that were decided and are not sent."""

    def __init__(self, source: Source, store: MessageStore, dead_letters: DeadLetters) -> None:
        self._source = source
        self._store = store
        self._dead_letters = dead_letters
        # Those that wait for a turn, because they are many or cannot be read now.
        self._waiting: deque[DeadLetter] = deque()

    def __len__(self) -> int:
        """How many portions wait, besides those that must arrive and have not."""
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether every dead letter was sent, or has arrived if it must."""
        return not self._waiting and not self._dead_letters

    def take(self, dead_letters: Sequence[DeadLetter], strategy: str) -> set[tuple[int, int]]:
        """Send dead letters. Return lane and first offset of those whose fact is not to be written yet."""
        if not dead_letters:
            return set()
        if strategy == AT_LEAST_ONCE:
            self._dead_letters.take(dead_letters)
        elif (
            self._waiting or sum(one.next - one.first for one in dead_letters) > GIVEN_UP_AT_A_TIME
        ):
            # Other queues are to have their turns between.
            self._waiting += _in_parts(dead_letters)
        else:
            return {(one.lane, one.first) for one in dead_letters if not self._sent(one)}
        return {(one.lane, one.first) for one in dead_letters}

    def send_some(self) -> None:
        """Send some of the dead letters that wait for a turn."""
        sent = 0
        while self._waiting:
            dead_letter = self._waiting[0]
            sent += dead_letter.next - dead_letter.first
            if sent > GIVEN_UP_AT_A_TIME or not self._send_part(dead_letter):
                return
            self._waiting.popleft()
            self._source.note_over(
                dead_letter.lane, Run(dead_letter.first, dead_letter.next, State.ARCHIVED)
            )

    def lowest(self, lane: int) -> int:
        """The lowest offset whose message is still needed; above every offset if there is none."""
        waiting = [one.first for one in self._waiting if one.lane == lane]
        return min([*waiting, self._dead_letters.keeps(lane)])

    def close(self) -> None:
        self._dead_letters.close()
        self._waiting.clear()

    def _sent(self, dead_letter: DeadLetter) -> bool:
        """Whether all are sent; otherwise the rest waits, and what was sent is noted part by part."""
        parts = deque(_in_parts([dead_letter]))
        sent: list[DeadLetter] = []
        while parts and not self._waiting and self._send_part(parts[0]):
            sent.append(parts.popleft())
        if not parts:
            return True
        self._waiting += parts
        for part in sent:
            self._source.note_over(part.lane, Run(part.first, part.next, State.ARCHIVED))
        return False

    def _send_part(self, dead_letter: DeadLetter) -> bool:
        """Whether these could be read, and are sent."""
        lane, first, next_, reason = dead_letter
        messages, lost = list[Message](), list[tuple[int, MessageLost]]()
        for offset in range(first, next_):
            try:
                messages.append(self._store.look(lane, offset))
            except MessageLost as error:
                lost.append((offset, error))
            except StorageFailure as error:
                self._source.cannot_read(error)
                return False
        for offset, why in lost:
            self._source.count_lost(1, f"offset {offset} was to become a dead letter: {why}")
        self._dead_letters.forward(messages, reason)
        return True


def _in_parts(dead_letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    for dead_letter in dead_letters:
        for first in range(dead_letter.first, dead_letter.next, _SENT_AT_A_TIME):
            next_ = min(dead_letter.next, first + _SENT_AT_A_TIME)
            yield dead_letter._replace(first=first, next=next_)
