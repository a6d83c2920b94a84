"""Marks in the log of a queue that has copies on other nodes: what may have been handed out.

A message that is handed out before the fact of it is copied must not be called new by the next host. So the
log is told ahead: what is below the mark may have been handed out. A message is handed out when all copies
have a mark above it. Marks are written with the facts of the queue (``queue_log.py``).
"""

from collections import deque

from millpond.replication.partition import Partition

# A mark is so far ahead of what is handed out, and moved on when half of that is left: the way to the copies
# is shorter, so that hardly anything waits for it.
_AHEAD_OFFSETS = 2_048


class Marks:
    """The marks of one partition."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        # What is below may have been handed out; whether that is still to be written.
        self.mark = 0
        self.is_due = False
        # Marks that the copies may not have, each with the offset behind it; and the last that they have.
        self._unconfirmed: deque[tuple[int, int]] = deque()
        self._covered = 0
        self._covered_at = 0

    def load(self, mark: int, offset: int) -> None:
        """The log has a mark, at an offset."""
        self.mark = self._covered = mark
        self._covered_at = offset

    def written(self, next_: int) -> None:
        """The mark was appended; the log goes on at an offset."""
        self._unconfirmed.append((next_, self.mark))
        self.is_due = False

    def release(self) -> None:
        """All that was handed out is said: there is nothing to be in doubt about."""
        if self.mark:
            self.mark, self.is_due = 0, True

    def doubtful_below(self, damaged_below: int) -> int:
        """After loading: what is below may have been handed out, whatever the log says. Up to
        ``damaged_below`` there may have been a mark that cannot be read."""
        unknown = damaged_below
        if unknown and self._partition.leadership is not None:
            unknown += _AHEAD_OFFSETS
        return max(self.mark, unknown)

    def cover(self, next_: int) -> None:
        """What is below is to be handed out: say that with the next facts, unless it was said."""
        if self._partition.leadership is not None and next_ + _AHEAD_OFFSETS // 2 > self.mark:
            self.mark, self.is_due = next_ + _AHEAD_OFFSETS, True

    def is_covered(self, next_: int) -> bool:
        """Whether all copies know that what is below may have been handed out; then it may be."""
        if self._partition.leadership is None:
            return True
        marks, high = self._unconfirmed, self._partition.high_watermark
        while marks and marks[0][0] <= high:
            self._covered_at, self._covered = marks.popleft()
        return next_ <= self._covered

    def cuttable(self, start: int) -> int:
        """How much of what is over may go: not the mark that holds."""
        if not self.mark or self._partition.leadership is None:
            return start
        self.is_covered(0)
        return min(start, self._covered_at)

    def is_in_the_way(self, start: int) -> bool:
        """Whether only the mark that holds keeps the log from being cut: it is to be written again."""
        return self.cuttable(start) < start and not self._unconfirmed
