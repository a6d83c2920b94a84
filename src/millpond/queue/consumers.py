"""Whose turn it is: consumers by priority, in turns among equals, as far as each may have more.

A consumer with a prefetch of n holds at most n messages that it has not settled; one without acknowledgements
has no limit. A single active consumer gets everything while it is there; an exclusive one is alone.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from millpond.base.errors import QueueInUse
from millpond.base.fields import Table

# More than a consumer can hold.
UNLIMITED = 2**31

# A turn is more than one message where all consumers will have several turns of that size.
_ROUNDS = 4
_SHARE_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer of a queue. ``owner`` is unique: what it holds is found by it.

    ``channel`` is the channel that it is of; when that goes, all that its consumers hold goes back.
    """

    owner: str
    channel: str
    tag: str
    no_ack: bool = False
    exclusive: bool = False
    prefetch: int = 0
    priority: int = 0
    arguments: Table = field(default_factory=dict)


class Turn(NamedTuple):
    """A consumer that may have messages, how many, and its place among those of its priority."""

    consumer: Consumer
    most: int
    place: int


class Consumers:
    """The consumers of one queue."""

    def __init__(self, *, single_active: bool = False) -> None:
        self.single_active = single_active
        self._all: dict[str, Consumer] = {}
        # By priority, the highest first; in each the next one is in front.
        self._turns: dict[int, deque[Consumer]] = {}
        self._active: Consumer | None = None

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._all.values())

    @property
    def active(self) -> Consumer | None:
        """The one that gets everything, if there is to be only one."""
        return self._active if self.single_active else None

    def check(self, queue: str, *, exclusive: bool) -> None:
        """Raise ``QueueInUse`` if another consumer may not come. ``queue`` is what clients call it."""
        taken = any(one.exclusive for one in self._all.values())
        if taken or (exclusive and (self._all or self.single_active)):
            raise QueueInUse(f"{queue} in exclusive use")

    def add(self, consumer: Consumer) -> None:
        assert consumer.owner not in self._all
        self._all[consumer.owner] = consumer
        self._turns.setdefault(consumer.priority, deque()).append(consumer)
        self._turns = dict(sorted(self._turns.items(), reverse=True))
        if self._active is None:
            self._active = consumer

    def remove(self, owner: str) -> Consumer | None:
        """None if there was no such consumer."""
        gone = self._all.pop(owner, None)
        if gone is None:
            return None
        turns = self._turns[gone.priority]
        turns.remove(gone)
        if not turns:
            del self._turns[gone.priority]
        if self._active is gone:
            self._active = next((line[0] for line in self._turns.values()), None)
        return gone

    def of_channel(self, channel: str) -> list[Consumer]:
        return [one for one in self._all.values() if one.channel == channel]

    def next(self, room: Callable[[Consumer], int], ready: int) -> Turn | None:
        """The consumer whose turn it is and how many messages it may have now; None if there is none.

        If other consumers of its priority have room it is one message, and a few if many are ``ready``; then
        the others have their turns. Consumers see no difference but in speed. The turn is taken with
        ``served``: until then the answer stays the same.
        """
        if self.single_active:
            if self._active is None:
                return None
            free = room(self._active)
            return Turn(self._active, free, 0) if free > 0 else None
        for turns in self._turns.values():
            found = _next(turns, room, ready)
            if found is not None:
                return found
        return None

    def served(self, turn: Turn) -> None:
        """A consumer has had its turn: the one behind it is next."""
        if not self.single_active:
            self._turns[turn.consumer.priority].rotate(-1 - turn.place)


def _next(turns: deque[Consumer], room: Callable[[Consumer], int], ready: int) -> Turn | None:
    for place, consumer in enumerate(turns):
        free = room(consumer)
        if free <= 0:
            continue
        if len(turns) == 1 or free == 1:
            return Turn(consumer, free, place)
        share = min(_SHARE_MAX, ready // (_ROUNDS * len(turns)))
        if share > 1:
            return Turn(consumer, min(free, share), place)
        alone = all(room(other) <= 0 for other in turns if other is not consumer)
        return Turn(consumer, free if alone else 1, place)
    return None
