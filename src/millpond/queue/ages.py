"""How long messages of a queue may wait: the shorter of the queue's limit and the message's own.

Nothing here reads the log: where the age of a message is not known, the answer is a ``Need``.
"""

from collections.abc import Sequence

from millpond.cursor.runs import NEVER_MS
from millpond.queue.known import ASKED_AT_A_TIME, KnownMessages, Meta, Need, asked
from millpond.queue.lane import Lane
from millpond.queue.settings import QueueSettings


class Ages:
    """The ages of one queue's messages."""

    def __init__(
        self, known: KnownMessages, lanes: Sequence[Lane], settings: QueueSettings
    ) -> None:
        self._known = known
        self._lanes = lanes
        # Whether some message came with a TTL of its own.
        self._has_ttl = False
        self.configure(settings)

    def configure(self, settings: QueueSettings) -> None:
        self._limit_ms = settings.message_ttl_ms
        self._is_delayed = settings.is_delayed
        # Whether a message may have waited too long.
        self.are_watched = not self._is_delayed and (self._has_ttl or self._limit_ms is not None)

    def note_ttl(self) -> None:
        """Some message came with a TTL of its own."""
        self._has_ttl = True
        self.are_watched = not self._is_delayed

    def expires_ms(self, meta: Meta) -> int:
        """When a message has waited too long."""
        ttl_ms, limit_ms = meta.ttl_ms, self._limit_ms
        if ttl_ms is None or (limit_ms is not None and limit_ms < ttl_ms):
            ttl_ms = limit_ms
        return NEVER_MS if ttl_ms is None else meta.published_ms + ttl_ms

    def late(self, number: int, first: int, upto: int, most: int, now_ms: int) -> int | Need:
        """How many ready messages of a lane, from the first on, have waited too long; at most ``most``."""
        known, late = self._known, 0
        for low, next_ in self._lanes[number].ready_within(first, upto):
            for offset in range(low, next_):
                meta = known.get((number, offset))
                if meta is None:
                    return asked(number, offset, next_, late)
                if self.expires_ms(meta) > now_ms:
                    return late
                late += 1
                if late >= most:
                    return late
        return late

    def timely(self, count: int, new: Sequence[int], now_ms: int) -> int | Need:
        """How many of the messages that are next may be delivered together. The first may be.

        ``new``: by lane, from where on messages were not offered to consumers; their ages do not count.
        """
        lanes = self._lanes
        number = next(one for one in reversed(range(len(lanes))) if lanes[one].ready)
        head = lanes[number].head()
        assert head is not None
        upto = min(head.next, head.first + count)
        if not self._has_ttl:
            # All may wait for the same time, and later messages came later.
            return upto - head.first
        old = min(upto, max(head.first + 1, new[number]))
        if old - head.first > ASKED_AT_A_TIME:
            upto = old = head.first + ASKED_AT_A_TIME
        for offset in range(head.first + 1, old):
            meta = self._known.get((number, offset))
            if meta is None:
                return Need(number, offset, old)
            if self.expires_ms(meta) <= now_ms:
                return offset - head.first
        return upto - head.first
