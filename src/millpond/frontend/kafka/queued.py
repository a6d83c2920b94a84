"""``queued.max.request.bytes``: one bound over the requests of all connections that wait for their answers.

While the bound is reached no connection begins to read another request; what has begun is read to its end
and carried out, or nothing would ever be let go. So the memory of requests is the bound and one request more
for each connection that had begun.
"""

from typing import Protocol


class Reader(Protocol):
    """What a session offers: to look again whether it may read."""

    def look_again(self) -> None:
        """The bound was reached, or is no longer."""
        ...


class QueuedBytes:
    """How much waits, of whom."""

    __slots__ = ("_bytes_max", "_held", "total")

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0
        self._bytes_max = bytes_max
        self._held: dict[Reader, int] = {}
        self.total = 0

    @property
    def is_full(self) -> bool:
        """Whether nobody may begin to read."""
        return self.total >= self._bytes_max

    def note(self, reader: Reader, held: int) -> None:
        """A connection holds so many bytes now."""
        was_full = self.is_full
        self.total += held - self._held.get(reader, 0)
        self._held[reader] = held
        self._tell(was_full)

    def forget(self, reader: Reader) -> None:
        """A connection is gone."""
        was_full = self.is_full
        self.total -= self._held.pop(reader, 0)
        self._tell(was_full)

    def _tell(self, was_full: bool) -> None:
        if self.is_full != was_full:
            for reader in tuple(self._held):
                reader.look_again()
