"""How large what waits in a queue is, counted only where there is a limit to it.

Sizes are looked up when messages come and go. When a log was read from a snapshot on, the snapshot's sum and
what changed since are enough, if that is less to look at than everything that waits.

A size that cannot be looked up now leaves the sum uncertain (``is_certain``) until all are added up anew.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from millpond.base.errors import StorageFailure
from millpond.cursor.runs import Run, State
from millpond.queue.lane import Lane


class Sizes(Protocol):
    """Where sizes are found."""

    def bytes_between(self, lane: int, first: int, next_: int) -> int:
        """How large these messages are together. Raises ``StorageFailure``."""
        ...


class Weights:
    """One queue's."""

    def __init__(self, sizes: Sizes, lanes: Sequence[Lane], *, is_counted: bool) -> None:
        self._sizes = sizes
        self._lanes = lanes
        self.is_counted = is_counted
        # Of what is ready.
        self.ready = 0
        # Not if a size could not be looked up since all were added up.
        self.is_certain = True
        self._loading: _Loading | None = None

    def between(self, lane: int, first: int, next_: int) -> int:
        """How large these messages are together; nothing, and no longer certain, if that is not known now."""
        try:
            return self._sizes.bytes_between(lane, first, next_)
        except StorageFailure:
            self.is_certain = False
            return 0

    def came(self, lane: int, first: int, next_: int) -> None:
        """These are ready."""
        if not self.is_counted:
            return
        if self._loading is None:
            self.ready += self.between(lane, first, next_)
        else:
            self._loading.came.append((lane, first, next_))

    def went(self, lane: int, first: int, next_: int) -> None:
        """These are not ready any more."""
        if self.is_counted:
            self.ready -= self.between(lane, first, next_)

    def recount(self) -> None:
        """Adds up what waits, message by message; if that is not known now, it stays what it was."""
        self.is_certain = True
        if not self.is_counted:
            return
        ready = 0
        for lane, first, next_ in self._ready_ranges():
            ready += self.between(lane, first, next_)
            if not self.is_certain:
                return
        self.ready = ready

    def _ready_ranges(self) -> Iterator[tuple[int, int, int]]:
        for number, lane in enumerate(self._lanes):
            for run in lane.cursor.runs():
                if run.state is State.AVAILABLE:
                    yield number, run.first, run.next
            for first, next_ in lane.fresh():
                yield number, first, next_

    def kept(self, lane: int) -> int | None:
        """The size of what is not over, for a snapshot; None if it is not counted for this lane alone."""
        if not self.is_counted or len(self._lanes) > 1:
            return None
        held = sum(
            self.between(lane, run.first, run.next)
            for run in self._lanes[lane].cursor.runs()
            if run.state is State.ACQUIRED
        )
        return self.ready + held if self.is_certain else None

    # --- loading -------------------------------------------------------------------------------------

    def begin_load(self) -> None:
        self._loading = _Loading(len(self._lanes))

    def restored(self, lane: int, kept_bytes: int | None) -> None:
        """A snapshot says this of a lane."""
        if self._loading is not None:
            self._loading.known[lane] = kept_bytes

    def ended(self, lane: int, runs: Sequence[Run]) -> None:
        """A fact, before it is applied: some of these may be over by it."""
        if self._loading is not None and self.is_counted:
            ended = self._lanes[lane].not_over(runs)
            self._loading.went += [(lane, first, next_) for first, next_ in ended]

    def lost(self, lane: int) -> None:
        """Messages are gone whose size nobody can tell."""
        if self._loading is None:
            self.recount()
        else:
            self._loading.known[lane] = None

    def end_load(self, ready: int) -> None:
        """Everything was told, and nobody holds anything; so many messages are ready."""
        loading, self._loading = self._loading, None
        if not self.is_counted:
            return
        known = None if loading is None else loading.known_bytes
        if loading is None or known is None or loading.changes > ready:
            self.recount()
            return
        came = sum(self.between(*one) for one in loading.came)
        went = sum(self.between(*one) for one in loading.went)
        self.ready = known + came - went


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
