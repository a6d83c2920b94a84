"""DeleteRecords among several replicas: it is done when every replica that is up has moved its log's start.

A follower hears of its leader's start with an answer and says its own with the next fetch. The lowest start
of the leader and of all followers on nodes that are up is the *low watermark*: no record below it comes back,
whichever of them leads next. Nodes that are down do not count; they move their start when they follow again.
"""

import asyncio

from millpond.base.errors import RequestTimedOut
from millpond.base.ids import Offset
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.replication.partition import Partition

_Wait = tuple[Offset, "asyncio.Future[None]"]


class Deletions:
    """Requests that wait until replicas have moved their log starts."""

    def __init__(
        self,
        *,
        metadata: MetadataView,
    ) -> None:
        self._metadata = metadata
        self._waits: dict[Partition, list[_Wait]] = {}

    def low_watermark(self, partition: Partition) -> Offset:
        """Return the offset below which no replica that is up has records; -1 while one is unknown."""
        own = partition.log.start_offset
        if partition.leadership is None:
            return own
        brokers = self._metadata.image.brokers
        return partition.leadership.lowest_start(
            own, lambda node: node in brokers and not brokers[node].fenced
        )

    def begin(self, partition: Partition) -> None:
        """Wake waiting followers: the leader's start has moved."""
        for watcher in tuple(partition.end_watchers):
            watcher.on_committed()

    async def done(self, partition: Partition, upto: Offset, *, timeout_ms: int) -> Offset:
        """Wait until the low watermark is there; the low watermark.

        Raises ``NotLeader`` if this node leads no more, ``RequestTimedOut``.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waits = self._waits.setdefault(partition, [])
        wait = (upto, future)
        waits.append(wait)
        self.look(partition)
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                await future
        except TimeoutError:
            raise RequestTimedOut(
                f"partition {partition.topic}-{partition.index}: the records are deleted at the leader, "
                f"but not every replica has moved its start to {upto} yet"
            ) from None
        finally:
            waits.remove(wait)
            if not waits:
                self._waits.pop(partition, None)
        return self.low_watermark(partition)

    def look(self, partition: Partition) -> None:
        """Check the waiting requests after a follower's fetch or a change of the leader."""
        waits = self._waits.get(partition)
        if not waits:
            return
        low = self.low_watermark(partition)
        for upto, future in waits:
            if future.done():
                continue
            if not partition.is_leader or partition.is_retired:
                future.set_exception(partition.not_leader())
            elif low >= upto:
                future.set_result(None)

    def look_at_all(self) -> None:
        """Check the waiting requests after a change of the nodes."""
        for partition in tuple(self._waits):
            self.look(partition)
