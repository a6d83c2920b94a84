"""A consumer's subscription, assignment and positions. Pure.

``position`` is the offset after the last record given to the application, which is what may be committed; the
fetcher keeps its own positions. A partition without a position waits for its committed offset or for a reset.
"""

import re
from collections.abc import Iterable, Mapping

from millpond.base.ids import TopicPartition
from millpond.client.errors import WrongState
from millpond.client.records import OffsetAndMetadata


class Subscription:
    """The state of one consumer's subscription."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self._positions: dict[TopicPartition, int | None] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.is_manual = False
        self.version = 0  # grows whenever the partitions or positions to fetch change

    @property
    def uses_group(self) -> bool:
        """Whether the group decides the assignment."""
        return self.pattern is not None or (bool(self.topics) and not self.is_manual)

    @property
    def assigned(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._positions)

    @property
    def paused(self) -> set[TopicPartition]:
        """The assigned partitions that are paused."""
        return set(self._paused)

    @property
    def without_position(self) -> set[TopicPartition]:
        """The assigned partitions whose position is not known yet."""
        return {place for place, position in self._positions.items() if position is None}

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Subscribe as a member of the group. Raises ``WrongState`` if partitions were assigned manually."""
        if self.is_manual:
            raise WrongState("partitions were assigned by hand; call unsubscribe() first")
        self.topics = frozenset(topics)
        self.pattern = pattern

    def match(self, topics: Iterable[str]) -> bool:
        """Match the pattern against topics. Return True if the result has changed."""
        assert self.pattern is not None
        found = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        changed = found != self.topics
        self.topics = found
        return changed

    def assign_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions."""
        if self.uses_group:
            raise WrongState("topics are subscribed; call unsubscribe() first")
        self.is_manual = True
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; positions of partitions that stay are kept."""
        wanted = set(partitions)
        self._positions = {place: self._positions.get(place) for place in sorted(wanted)}
        self._paused &= wanted
        self.version += 1

    def clear(self) -> None:
        """Drop the subscription and the assignment."""
        self.topics = frozenset()
        self.pattern = None
        self.is_manual = False
        self.assign(())

    def position(self, place: TopicPartition) -> int | None:
        """Return the next offset for the application; None if it is not known yet."""
        self.require(place)
        return self._positions[place]

    def seek(self, place: TopicPartition, offset: int | None) -> None:
        """Continue at this offset; None: look it up again."""
        self.require(place)
        self._positions[place] = offset
        self._epochs.pop(place, None)
        self.version += 1

    def advance(self, place: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Note that the application was given everything below ``offset``."""
        if place in self._positions:
            self._positions[place] = offset
            if leader_epoch >= 0:
                self._epochs[place] = leader_epoch

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions for now."""
        for place in places:
            self.require(place)
            self._paused.add(place)
        self.version += 1

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """Fetch these partitions again."""
        self._paused -= set(places)
        self.version += 1

    def to_fetch(self) -> dict[TopicPartition, int]:
        """Return the positions to fetch: every partition with a position that is not paused."""
        return {
            place: position
            for place, position in self._positions.items()
            if position is not None and place not in self._paused
        }

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return every known position."""
        return {
            place: OffsetAndMetadata(position, "", self._epochs.get(place, -1))
            for place, position in self._positions.items()
            if position is not None
        }

    def require(self, place: TopicPartition) -> None:
        """Raise ``WrongState`` for a partition that is not assigned."""
        if place not in self._positions:
            raise WrongState(f"{place} is not assigned to this consumer")


def plain_offsets(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Normalise offsets from the application."""
    return {
        TopicPartition(*place): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
        for place, at in offsets.items()
    }
