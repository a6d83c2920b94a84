"""What an application hears of its group's decisions."""

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from millpond.base.ids import TopicPartition


class RebalanceListener:
    """Derive from this. Methods may be plain or ``async``; they run inside ``poll``, never beside it."""

    def on_partitions_revoked(
        self, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """These go to another member; the last moment to commit them or to finish work on them."""

    def on_partitions_assigned(
        self, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """These are ours from now on; the moment to seek."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """These are another member's already: too late to commit."""
        return self.on_partitions_revoked(partitions)


async def tell(method: Callable[..., Any], partitions: Collection[TopicPartition]) -> None:
    """Call a plain or an ``async`` method."""
    result = method(sorted(partitions))
    if inspect.isawaitable(result):
        await result
