"""The part of a Metadata answer that lists every topic, kept encoded for as long as it is true.

Encoding two thousand topics takes milliseconds, and many clients ask for all topics again and again. The list
depends on the topics and the nodes of the metadata image, on the nodes that serve, on the version of the
request, and on whether operations are asked for; an image never changes, so its tables of topics and nodes
say whether a list holds.
"""

from collections.abc import Callable, Mapping

from millpond.engine.api import Image, TopicImage

# Lists that are kept; clients of one cluster ask in few versions.
LISTS_MAX = 4


class AllTopics:
    """The lists that were asked for last."""

    def __init__(self) -> None:
        self._topics: Mapping[str, TopicImage] = {}
        self._brokers: Mapping[int, object] = {}
        self._up: frozenset[int] = frozenset()
        self._lists: dict[tuple[int, int], bytes] = {}

    def encoded(
        self,
        image: Image,
        up: frozenset[int],
        version: int,
        operations: int,
        encode: Callable[[TopicImage], bytes],
    ) -> bytes:
        """Every topic, one after the other, while these nodes are up."""
        lists = self._lists
        topics, brokers = image.topics, image.brokers
        if topics is not self._topics or brokers is not self._brokers or up != self._up:
            lists.clear()
            self._topics, self._brokers, self._up = topics, brokers, up
        key = version, operations
        found = lists.pop(key, None)
        if found is None:
            found = b"".join(map(encode, topics.values()))
            if len(lists) >= LISTS_MAX:
                del lists[next(iter(lists))]
        lists[key] = found  # the one that was asked for last is the last to go
        return found
