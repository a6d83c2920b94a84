"""Streams: queues that are read without being emptied, each consumer at a position of its own.

A consumer says where it begins and, if it likes, which messages it wants. It holds at most as many as its
prefetch; acknowledging makes room and does nothing else. Nothing is written to the log but messages, and
what goes goes by the topic's retention. Where messages are, and what is in them, the host finds out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from millpond.cursor.ack import Range
from millpond.cursor.runs import NEVER_MS
from millpond.queue.consumers import Consumer
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import Handout, Step


class First(NamedTuple):
    """At the oldest message."""


class Last(NamedTuple):
    """At the messages that were written last, together."""


class Next(NamedTuple):
    """At what comes from now on."""


class At(NamedTuple):
    """At an offset, or at the nearest that there is."""

    offset: int


class Since(NamedTuple):
    """At the first message of a time, or later."""

    time_ms: int


Start: TypeAlias = First | Last | Next | At | Since


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages a consumer wants, by what their publishers said of them."""

    values: frozenset[str]
    unfiltered: bool

    def wants(self, value: str | None) -> bool:
        return self.unfiltered if value is None else value in self.values


class Found(NamedTuple):
    """Messages for a consumer by lane, and whether there may be more right behind them."""

    ranges: list[tuple[int, Range]]
    has_more: bool


class StreamState(QueueState):
    """The consumers of a stream. Messages have no state here.

    The host asks how many messages a consumer may have (``free``), reads them at the consumer's position and
    says which it found (``took``).
    """

    def __init__(self, settings: QueueSettings, *, now_ms: int) -> None:
        super().__init__(settings, now_ms=now_ms)
        self._out: dict[str, int] = {}

    @property
    def ready(self) -> int:
        """Nothing waits in a stream; RabbitMQ says so too."""
        return 0

    @property
    def held(self) -> int:
        return sum(self._out.values())

    def held_by(self, owner: str) -> int:
        return self._out.get(owner, 0)

    def wake_ms(self) -> int:
        return NEVER_MS

    def consume(self, consumer: Consumer, now_ms: int) -> None:
        super().consume(consumer, now_ms)
        self._out[consumer.owner] = 0

    def free(
        self,
        consumer: Consumer,
        room: Callable[[Consumer], int],
        given: dict[tuple[str, bool], int],
    ) -> int:
        """How many messages a consumer may have. ``room`` and ``given`` are those of ``deliver``."""
        place = consumer.channel, consumer.no_ack
        held = self._out.get(consumer.owner, consumer.prefetch)
        return min(consumer.prefetch - held, room(consumer) - given.get(place, 0))

    def took(
        self, consumer: Consumer, found: Found, given: dict[tuple[str, bool], int]
    ) -> tuple[Handout, ...]:
        """These messages are the consumer's."""
        count = sum(next_ - first for _lane, (first, next_) in found.ranges)
        self._out[consumer.owner] += count
        place = consumer.channel, consumer.no_ack
        given[place] = given.get(place, 0) + count
        return tuple(
            Handout(consumer, lane, first, next_, 1) for lane, (first, next_) in found.ranges
        )

    def settle(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """Makes room."""
        if owner in self._out:
            self._out[owner] -= sum(next_ - first for first, next_ in ranges)
        return Step()

    def cancel(self, owner: str, now_ms: int) -> bool:
        gone = self.consumers.remove(owner)
        self._out.pop(owner, None)
        return gone is not None and not self.consumers

    def lose_channel(self, channel: str, now_ms: int) -> Step:
        for consumer in self.consumers.of_channel(channel):
            self.cancel(consumer.owner, now_ms)
        return Step()

    def expire(self, now_ms: int) -> Step:
        return Step()

    def drop_excess(self) -> Step:
        return Step()

    def configure(self, settings: QueueSettings) -> None:
        self._settings = settings
