"""How many bytes are ready in a queue, counted only where the queue has a limit to them.

A size that is not known when its message becomes ready or is handed out is applied to the sum when the host
has looked it up (``needs``); until then the sum is not certain and no message is dropped for its size.

When the sum is lost (messages went whose size can no longer be read, or counting begins), all ready messages
are added up anew, in the order of the log, as their sizes become known. When a log was read from a snapshot
on, the snapshot's sum and what changed since are enough, if that is less to look at than all ready messages.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from millpond.cursor.ack import Range
from millpond.cursor.runs import Run, State
from millpond.queue.known import ASKED_AT_A_TIME, KnownMessages, Need
from millpond.queue.lane import Lane


class _Change(NamedTuple):
    """Messages that became ready (``sign`` 1) or are no longer ready (-1), with unknown sizes."""

    sign: int
    lane: int
    first: int
    next: int


class Sized(NamedTuple):
    """The sizes of messages that follow each other."""

    lane: int
    first: int
    sizes: Sequence[int]


class ReadyBytes:
    """The sum for one queue."""

    def __init__(self, known: KnownMessages, lanes: Sequence[Lane], *, is_counted: bool) -> None:
        self._known = known
        self._lanes = lanes
        self.is_counted = is_counted
        self.total = 0
        self._changes: deque[_Change] = deque()
        self._recount: _Recount | None = None
        self._loading: _Loading | None = None
        # Sizes that were just told, until they are applied.
        self._told: dict[tuple[int, int], int] = {}

    @property
    def is_certain(self) -> bool:
        """Whether every size that counts is known."""
        return not self._changes and self._recount is None

    def needs(self) -> tuple[Need, ...]:
        """The messages whose sizes are needed next; none if the sum is certain."""
        if self._changes:
            return _first_of(Need(*change[1:]) for change in self._changes)
        return () if self._recount is None else _first_of(self._recount.rest())

    def learn(self, answers: Iterable[Sized]) -> None:
        """The sizes of messages, mostly in the order in which they were asked for."""
        changes = self._changes
        for lane, first, sizes in answers:
            head = changes[0] if changes else None
            next_ = first + len(sizes)
            if head is None or head[1:3] != (lane, first) or next_ > head.next:
                self._told.update(((lane, one), size) for one, size in enumerate(sizes, first))
                continue
            self._add(head.sign * sum(sizes))
            if next_ < head.next:
                changes[0] = head._replace(first=next_)
            else:
                changes.popleft()
        self.resolve()
        self._told.clear()

    def resolve(self) -> None:
        """Go on with what has become known."""
        changes = self._changes
        while changes:
            sign, lane, first, next_ = changes[0]
            first, size = self._sum(lane, first, next_)
            self._add(sign * size)
            if first < next_:
                changes[0] = _Change(sign, lane, first, next_)
                return
            changes.popleft()
        if self._recount is not None and self._recount.is_finished():
            self.total, self._recount = self._recount.total, None

    def came(self, lane: int, first: int, next_: int, size: int | None = None) -> None:
        """These messages are ready. ``size`` is their sum, if it is known."""
        if not self.is_counted:
            return
        if self._loading is None:
            self._change(1, lane, first, next_, size)
        else:
            self._loading.came.append((lane, first, next_))

    def went(self, lane: int, first: int, next_: int) -> None:
        """These messages are no longer ready."""
        if self.is_counted:
            self._change(-1, lane, first, next_, None)

    def recount(self) -> None:
        """Add up all ready messages anew."""
        self._changes.clear()
        self._recount = None
        if self.is_counted:
            self._recount = _Recount(self._size, self._lanes)
            self.resolve()

    def clear(self) -> None:
        """Nothing is ready any more."""
        self.total, self._recount = 0, None
        self._changes.clear()

    def _change(self, sign: int, lane: int, first: int, next_: int, size: int | None) -> None:
        if self._recount is not None:
            # What lies ahead of the recount is counted when it gets there.
            upto = self._recount.below(lane, first, next_)
            if upto < next_:
                _known, ahead = self._sum(lane, upto, next_)
                self.total += sign * ahead
                next_, size = upto, None
        if size is None:
            first, size = self._sum(lane, first, next_)
            if first < next_:
                self._append(_Change(sign, lane, first, next_))
        self._add(sign * size)

    def _append(self, change: _Change) -> None:
        last = self._changes[-1] if self._changes else None
        if last is not None and (*last[:2], last.next) == change[:3]:
            # Messages mostly come and go in order.
            self._changes[-1] = last._replace(next=change.next)
        else:
            self._changes.append(change)

    def _add(self, size: int) -> None:
        self.total += size
        if self._recount is not None:
            self._recount.total += size

    def _sum(self, lane: int, first: int, next_: int) -> tuple[int, int]:
        """The size of these messages up to the first whose size is not known, and which that is."""
        total = 0
        for offset in range(first, next_):
            size = self._size(lane, offset)
            if size is None:
                return offset, total
            total += size
        return max(first, next_), total

    def _size(self, lane: int, offset: int) -> int | None:
        size = self._told.get((lane, offset)) if self._told else None
        return self._known.size(lane, offset) if size is None else size

    # --- snapshots and loading -----------------------------------------------------------------------

    def held_ranges(self, lane: int) -> list[Range] | None:
        """The messages that a snapshot counts besides the ready ones; None if it says nothing of sizes."""
        if not self.is_counted or len(self._lanes) > 1 or not self.is_certain:
            return None
        runs = self._lanes[lane].cursor.runs()
        return [(run.first, run.next) for run in runs if run.state is State.ACQUIRED]

    def begin_load(self) -> None:
        self._loading = _Loading(len(self._lanes))

    def restored(self, lane: int, kept_bytes: int | None) -> None:
        """A snapshot says this of a lane."""
        if self._loading is not None:
            self._loading.known[lane] = kept_bytes

    def ended(self, lane: int, runs: Sequence[Run]) -> None:
        """Note which messages a fact ends, before it is applied."""
        if self._loading is not None and self.is_counted:
            ended = self._lanes[lane].not_over(runs)
            self._loading.went += [(lane, first, next_) for first, next_ in ended]

    def lost(self, lane: int) -> None:
        """Messages are gone whose size cannot be read any more."""
        if self._loading is None:
            self.recount()
        else:
            self._loading.known[lane] = None

    def end_load(self, ready: int) -> None:
        """The whole log was told, and no message is held; ``ready`` messages are ready."""
        loading, self._loading = self._loading, None
        if not self.is_counted:
            return
        known = None if loading is None else loading.known_bytes
        if loading is None or known is None or loading.changes > ready:
            self.recount()
            return
        self.total = known
        self._changes.extend(_Change(1, *one) for one in loading.came)
        self._changes.extend(_Change(-1, *one) for one in loading.went)
        self.resolve()


class _Recount:
    """All ready messages added up in the order of the log, as far as their sizes are known."""

    def __init__(self, size: Callable[[int, int], int | None], lanes: Sequence[Lane]) -> None:
        """``size`` of a message, by lane and offset; None if it is not known."""
        self._size = size
        self._lanes = lanes
        # Ready messages of lower lanes, and of this one below this offset, are in ``total``.
        self._lane = 0
        self._offset = 0
        self.total = 0

    def below(self, lane: int, first: int, next_: int) -> int:
        """Up to where these messages have been passed."""
        if lane != self._lane:
            return next_ if lane < self._lane else first
        return max(first, min(next_, self._offset))

    def is_finished(self) -> bool:
        """Pass the messages that are known. Return whether all have been passed."""
        while self._lane < len(self._lanes):
            for _lane, first, next_ in self.rest():
                for offset in range(first, next_):
                    size = self._size(self._lane, offset)
                    if size is None:
                        self._offset = offset
                        return False
                    self.total += size
                self._offset = next_
            self._lane, self._offset = self._lane + 1, 0
        return True

    def rest(self) -> Iterator[Need]:
        """The ready messages of the present lane that have not been passed."""
        lane = self._lanes[self._lane]
        for first, next_ in lane.ready_within(self._offset, lane.end):
            yield Need(self._lane, first, next_)


class _Loading:
    """What changed since the snapshots."""

    def __init__(self, lanes: int) -> None:
        # What the snapshots said, by lane.
        self.known: list[int | None] = [None] * lanes
        self.came: list[tuple[int, int, int]] = []
        self.went: list[tuple[int, int, int]] = []

    @property
    def known_bytes(self) -> int | None:
        known = [one for one in self.known if one is not None]
        return sum(known) if len(known) == len(self.known) else None

    @property
    def changes(self) -> int:
        """How many messages would have to be looked at."""
        return sum(next_ - first for _lane, first, next_ in (*self.came, *self.went))


def _first_of(needs: Iterable[Need]) -> tuple[Need, ...]:
    """As many of these messages as are asked for at a time."""
    found: list[Need] = []
    left = ASKED_AT_A_TIME
    for need in needs:
        if left <= 0:
            break
        found.append(need._replace(next=min(need.next, need.first + left)))
        left -= need.next - need.first
    return tuple(found)
