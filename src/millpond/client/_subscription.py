"""What a consumer reads: the topics it wants, the partitions it has, where it is in each. Pure.

``position`` is what the application has been given, which is what may be committed; how far was fetched is
the fetcher's business. A partition without a position waits for its committed offset or for a reset.
"""

import re
from collections.abc import Iterable, Mapping

from millpond.base.ids import TopicPartition
from millpond.client.errors import WrongState
from millpond.client.records import OffsetAndMetadata


class Subscription:
    """The state of one consumer's reading."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self._positions: dict[TopicPartition, int | None] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.is_manual = False
        self.version = 0  # grows whenever what is to be fetched changes

    @property
    def uses_group(self) -> bool:
        """Whether the group decides what is read."""
        return self.pattern is not None or (bool(self.topics) and not self.is_manual)

    @property
    def assigned(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._positions)

    @property
    def paused(self) -> set[TopicPartition]:
        """Those of them that are not read for the moment."""
        return set(self._paused)

    @property
    def without_position(self) -> set[TopicPartition]:
        """Those of them for which nobody knows yet where to begin."""
        return {place for place, position in self._positions.items() if position is None}

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Let the group decide. Raises ``WrongState`` if partitions were chosen by hand."""
        if self.is_manual:
            raise WrongState("partitions were assigned by hand; call unsubscribe() first")
        self.topics = frozenset(topics)
        self.pattern = pattern

    def match(self, topics: Iterable[str]) -> bool:
        """Topics that the pattern finds now; True if they are others than before."""
        assert self.pattern is not None
        found = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        changed = found != self.topics
        self.topics = found
        return changed

    def assign_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these."""
        if self.uses_group:
            raise WrongState("topics are subscribed; call unsubscribe() first")
        self.is_manual = True
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These and no others; positions of those that stay are kept."""
        wanted = set(partitions)
        self._positions = {place: self._positions.get(place) for place in sorted(wanted)}
        self._paused &= wanted
        self.version += 1

    def clear(self) -> None:
        """Want nothing, read nothing."""
        self.topics = frozenset()
        self.pattern = None
        self.is_manual = False
        self.assign(())

    def position(self, place: TopicPartition) -> int | None:
        """The next offset for the application; None if it is not known yet."""
        self.require(place)
        return self._positions[place]

    def seek(self, place: TopicPartition, offset: int | None) -> None:
        """Go on there; None: find out anew."""
        self.require(place)
        self._positions[place] = offset
        self._epochs.pop(place, None)
        self.version += 1

    def advance(self, place: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """The application was given everything below ``offset``."""
        if place in self._positions:
            self._positions[place] = offset
            if leader_epoch >= 0:
                self._epochs[place] = leader_epoch

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Do not read these for the moment."""
        for place in places:
            self.require(place)
            self._paused.add(place)
        self.version += 1

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """Read them again."""
        self._paused -= set(places)
        self.version += 1

    def to_fetch(self) -> dict[TopicPartition, int]:
        """Where to read: every partition with a position that is not paused."""
        return {
            place: position
            for place, position in self._positions.items()
            if position is not None and place not in self._paused
        }

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every known position."""
        return {
            place: OffsetAndMetadata(position, "", self._epochs.get(place, -1))
            for place, position in self._positions.items()
            if position is not None
        }

    def require(self, place: TopicPartition) -> None:
        """Raises ``WrongState`` for a partition that is not read."""
        if place not in self._positions:
            raise WrongState(f"{place} is not assigned to this consumer")


def plain_offsets(
    offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as people give them."""
    return {
        TopicPartition(*place): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
        for place, at in offsets.items()
    }
