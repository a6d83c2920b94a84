"""The application's callbacks for rebalances."""

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from millpond.base.ids import TopicPartition


class RebalanceListener:
    """Derive from this. Methods may be plain or ``async``; they run inside ``poll``, never concurrently with
    it.
    """

    def on_partitions_revoked(
        self, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """Called before partitions go to another member: the last moment to commit or finish work on them."""

    def on_partitions_assigned(
        self, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """Called after partitions were assigned: the moment to seek."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called when partitions belong to another member already: too late to commit."""
        return self.on_partitions_revoked(partitions)


async def tell(method: Callable[..., Any], partitions: Collection[TopicPartition]) -> None:
    """Call a plain or an ``async`` method."""
    result = method(sorted(partitions))
    if inspect.isawaitable(result):
        await result
