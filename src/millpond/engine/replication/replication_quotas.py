"""Throttles of replicas that are catching up, so that moving partitions leaves bandwidth for clients.

``leader.replication.throttled.rate`` bounds what this node sends to them, and
``follower.replication.throttled.rate`` what it takes, in bytes a second. Topics name the replicas that are
meant (``…throttled.replicas``: ``*``, or pairs of partition and node). A replica that is in sync is never
held back: acknowledgements wait for it.
"""

from functools import lru_cache

from millpond.base.ids import NodeId
from millpond.base.rates import SampledRate
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.runtime.runtime import Runtime
from millpond.log.config import LONG_MAX
from millpond.replication.partition import Partition

_SETTINGS = {
    "leader": ("leader.replication.throttled.rate", "leader.replication.throttled.replicas"),
    "follower": ("follower.replication.throttled.rate", "follower.replication.throttled.replicas"),
}

# A second each, as Kafka's replication.quota.window.* have it.
_WINDOWS, _WINDOW_MS = 11, 1_000


class ReplicationQuota:
    """The throttle of one direction: bytes that leaders send, or that followers fetch."""

    def __init__(
        self, side: str, *, runtime: Runtime, metadata: MetadataView, settings: NodeSettings
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._settings = settings
        self._rate_setting, self._replicas_setting = _SETTINGS[side]
        self._rate = SampledRate(samples=_WINDOWS, window_ms=_WINDOW_MS)

    @property
    def is_limited(self) -> bool:
        """Whether any replica may be throttled."""
        return self._limit < LONG_MAX

    def note(self, partition: Partition, size: int) -> None:
        """Count bytes that were transferred."""
        if size and self._limit < LONG_MAX and self._is_meant(partition):
            self._rate.record(size, self._runtime.clock.monotonic_ms())

    def holds_back(self, partition: Partition, follower: NodeId) -> bool:
        """Whether this follower gets nothing of the partition now."""
        limit = self._limit
        return (
            limit < LONG_MAX
            and follower not in partition.isr
            and self._is_meant(partition)
            and self._rate.measure(self._runtime.clock.monotonic_ms())[0] > limit
        )

    @property
    def _limit(self) -> int:
        limit: int = self._settings.get(self._rate_setting)
        return limit

    def _is_meant(self, partition: Partition) -> bool:
        text = self._metadata.image.topic_config(partition.topic).get(self._replicas_setting)
        if not text:
            return False
        meant = _replicas(text)
        return meant is None or (partition.index, partition.node_id) in meant


@lru_cache(maxsize=256)
def _replicas(text: str) -> frozenset[tuple[int, NodeId]] | None:
    """Return the pairs in "0:1,3:2"; None for all; none for what cannot be parsed."""
    if text.strip() == "*":
        return None
    pairs = set()
    for part in text.split(","):
        index, _, node = part.strip().partition(":")
        if index.isdigit() and node.isdigit():
            pairs.add((int(index), int(node)))
    return frozenset(pairs)
