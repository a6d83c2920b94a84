"""What is known of messages in a queue's log: their sizes and ages, as far as the host has read them.

A decision never reads the log. Where it must know something of a message that is not known here, it changes
nothing and returns a step with ``needs``; the host reads those messages, calls ``learn`` and makes the same
call again.

This is a cache: what is forgotten is asked for again. It may be emptied when it is full, because a decision
looks at fewer messages than fit.
"""

from collections.abc import Sequence
from typing import NamedTuple

from millpond.cursor.runs import NEVER_MS

# A decision asks for so many messages at once, so that the host reads a bounded amount before it goes on.
ASKED_AT_A_TIME = 256
# More than a decision looks at: what it gives up in one step, what it asks for in advance, and the first
# message of every lane.
_KNOWN_MAX = 4_096


# A decision that looks at a head is likely to be made again for what is behind it.
_ASKED_AT_FIRST = 4


class Meta(NamedTuple):
    """What a decision may have to know of a message. ``ttl_ms`` is the message's own; None is no limit."""

    size: int
    published_ms: int
    ttl_ms: int | None = None


# The log cannot be read now: the message is not expired as far as is known, and its size is not known.
UNREADABLE = Meta(-1, NEVER_MS)


class Need(NamedTuple):
    """Messages of a lane of which a decision must know the ``Meta``."""

    lane: int
    first: int
    next: int


class KnownMessages:
    """Metas of one queue's messages, by lane and offset."""

    __slots__ = ("_metas", "get")

    def __init__(self) -> None:
        self._metas: dict[tuple[int, int], Meta] = {}
        # A bound method: it is called for every message of a queue that watches ages.
        self.get = self._metas.get

    def __len__(self) -> int:
        return len(self._metas)

    def learn(self, lane: int, first: int, metas: Sequence[Meta]) -> None:
        """Remember messages that follow each other in the log."""
        if len(self._metas) + len(metas) > _KNOWN_MAX:
            self._metas.clear()
        self._metas.update(((lane, offset), meta) for offset, meta in enumerate(metas, first))

    def forget(self, lane: int, first: int, next_: int) -> None:
        """These messages have left, or what is known of them holds no longer."""
        for offset in range(first, next_):
            self._metas.pop((lane, offset), None)

    def clear(self) -> None:
        self._metas.clear()

    def size(self, lane: int, offset: int) -> int | None:
        """How large a message is; None if that is not known."""
        meta = self._metas.get((lane, offset))
        return None if meta is None or meta.size < 0 else meta.size


def asked(number: int, offset: int, next_: int, passed: int) -> Need:
    """What is asked for when a decision has passed so many messages: few at first, then more at a time."""
    count = max(_ASKED_AT_FIRST, min(passed, ASKED_AT_A_TIME))
    return Need(number, offset, min(next_, offset + count))
