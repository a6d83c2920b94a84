"""Administrative requests: topics, settings, offsets, groups, nodes and the quorum.

Calls about several items return a result for each: a value, or the ``BrokerRefused`` that says why not. Calls
about one item raise it instead.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from millpond.base.ids import TopicPartition
from millpond.client._admin_cluster import ClusterCalls
from millpond.client._admin_logs import LogCalls
from millpond.client._admin_model import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ConfigEntry,
    ConfigOperation,
    CreatedTopic,
    DamageInfo,
    ElectionType,
    FeatureInfo,
    LogDirInfo,
    NewTopic,
    OffsetAt,
    QuorumInfo,
    QuorumReplica,
    Reassignment,
    ResourceType,
)
from millpond.client._admin_topics import TopicCalls
from millpond.client._where import Where, cluster_for, settings_of
from millpond.client.config import consumer_config
from millpond.client.errors import BrokerRefused
from millpond.client.groups import GroupInfo, Groups, GroupSummary
from millpond.client.records import OffsetAndMetadata

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Admin",
    "ConfigEntry",
    "ConfigOperation",
    "CreatedTopic",
    "DamageInfo",
    "ElectionType",
    "FeatureInfo",
    "LogDirInfo",
    "NewTopic",
    "OffsetAt",
    "QuorumInfo",
    "QuorumReplica",
    "Reassignment",
    "ResourceType",
]


class Admin(TopicCalls, LogCalls, ClusterCalls):
    """The administrative requests of a cluster. Use as ``async with Admin("localhost:9092") as admin:``.

    The first argument is the brokers' addresses, a dictionary of Kafka's settings, or a ``Cluster`` to share.
    """

    def __init__(self, where: Where = None, **settings: Any) -> None:
        config = consumer_config(settings_of(where), settings)
        self._cluster, self._owns_cluster = cluster_for(
            where, config, timeout_ms=config.default_api_timeout_ms
        )
        self._groups = Groups(self._cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless the cluster is shared."""
        if self._owns_cluster:
            await self._cluster.close()

    # --- groups ---

    async def list_groups(self, states: Sequence[str] = ()) -> list[GroupSummary]:
        """Return all groups by name, or those in one of these states (``Stable``, ``Empty``, ...)."""
        return await self._groups.list(states)

    async def describe_group(self, group_id: str) -> GroupInfo:
        """Return one group with its members; a group that does not exist is ``Dead``."""
        return await self._groups.describe(group_id)

    async def delete_groups(self, *group_ids: str) -> dict[str, BrokerRefused | None]:
        """Delete groups without members, and their offsets."""
        outcomes: dict[str, BrokerRefused | None] = {}
        for group_id in group_ids:
            try:
                await self._groups.delete(group_id)
                outcomes[group_id] = None
            except BrokerRefused as refusal:
                outcomes[group_id] = refusal
        return outcomes

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """Return all committed offsets of the group."""
        return await self._groups.offsets(group_id)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Set offsets of a group without members."""
        plain = {
            place: at.offset if isinstance(at, OffsetAndMetadata) else at
            for place, at in offsets.items()
        }
        await self._groups.commit(group_id, plain)

    async def delete_group_offsets(self, group_id: str, *partitions: TopicPartition) -> None:
        """Delete offsets of partitions that no member of the group reads."""
        await self._groups.delete_offsets(group_id, partitions)
