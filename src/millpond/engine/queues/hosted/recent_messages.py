"""Messages that were just published, kept in memory until they are handed out, as far as the room goes.

They are kept as they came, many at a time: most are handed out in the order in which they were published, so
that a whole batch is done when its last one has gone.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from millpond.message.hub import Message

_BYTES_MAX = 4 * 1024 * 1024
# What a message costs besides its body.
_OVERHEAD = 512


class _Batch:
    """Messages with offsets that follow each other. Those that were taken are None."""

    __slots__ = ("first", "left", "messages", "next", "size")

    def __init__(self, first: int, messages: Sequence[Message]) -> None:
        self.first = first
        self.next = first + len(messages)
        self.messages: list[Message | None] = list(messages)
        self.left = len(messages)
        self.size = sum([len(message.body) for message in messages]) + _OVERHEAD * self.left


class RecentMessages:
    """Those of one queue, by lane and offset."""

    def __init__(self, lanes: int) -> None:
        self._lanes: list[list[_Batch]] = [[] for _lane in range(lanes)]
        # In the order of their coming, with those that are done between them.
        self._order: deque[tuple[int, _Batch]] = deque()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._bytes

    def add(self, lane: int, first: int, messages: Sequence[Message]) -> None:
        """Keep these; older ones go if there is no room."""
        batch = _Batch(first, messages)
        self._lanes[lane].append(batch)
        self._order.append((lane, batch))
        self._bytes += batch.size
        while self._order and (self._bytes > _BYTES_MAX or not self._order[0][1].left):
            self._forget_oldest()

    def look(self, lane: int, offset: int) -> Message | None:
        """A message that is here; it stays."""
        batch = self._find(lane, offset)
        return None if batch is None else batch.messages[offset - batch.first]

    def take(self, lane: int, offset: int) -> Message | None:
        """A message that is here; it is not kept any longer."""
        batch = self._find(lane, offset)
        if batch is None:
            return None
        place = offset - batch.first
        message = batch.messages[place]
        if message is not None:
            batch.messages[place] = None
            batch.left -= 1
            if not batch.left:
                self._drop(lane, batch)
        return message

    def clear(self) -> None:
        for batches in self._lanes:
            batches.clear()
        self._order.clear()
        self._bytes = 0

    def _find(self, lane: int, offset: int) -> _Batch | None:
        batches = self._lanes[lane]
        if not batches or offset < batches[0].first:
            return None
        batch = batches[0]
        if offset >= batch.next:
            batch = batches[bisect_right(batches, offset, key=_first) - 1]
        return batch if offset < batch.next else None

    def _forget_oldest(self) -> None:
        lane, batch = self._order.popleft()
        if batch.left:
            batch.left = 0
            self._drop(lane, batch)

    def _drop(self, lane: int, batch: _Batch) -> None:
        self._bytes -= batch.size
        batch.messages.clear()
        batches = self._lanes[lane]
        del batches[bisect_right(batches, batch.first, key=_first) - 1]


def _first(batch: _Batch) -> int:
    return batch.first
