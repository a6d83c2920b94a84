"""Topics, settings, positions and brokers, as an administrator asks for them.

Calls about several things return an outcome for each: the result, or the ``BrokerRefused`` that says why
not. Calls about one thing raise it instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

from millpond.base.ids import TopicPartition
from millpond.client._connection import Connection
from millpond.client._model import BrokerInfo, ClusterInfo, TopicInfo
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused
from millpond.wire.kafka.api import ApiKey, ErrorCode

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

T = TypeVar("T")


class ConfigOperation(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1  # back to the default
    APPEND = 2  # to a list
    SUBTRACT = 3  # from a list


class ResourceType(IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """What the broker made of it. Numbers are -1 where an old broker does not tell."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting, its value, and where the value comes from."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: int
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """An offset found by time; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirInfo:
    """One data directory of one broker."""

    node_id: int
    path: str
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int


class Admin:
    """The administrative requests of a ``Cluster``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # --- topics ---

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> CreatedTopic:
        """Create one topic. ``BrokerRefused`` if the name is taken or a number or setting is wrong."""
        new = NewTopic(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
        )
        return _only(await self.create_topics([new], timeout_s=timeout_s))

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, CreatedTopic | BrokerRefused]:
        """Create topics, or only say whether that would work."""
        from millpond.wire.kafka.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
            CreateTopicsResponse,
        )

        attempts = self._cluster.attempts("creating topics", timeout_s)
        answer: CreateTopicsResponse = await self._cluster.ask_controller(
            ApiKey.CREATE_TOPICS,
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic.name,
                        num_partitions=topic.partitions,
                        replication_factor=topic.replication_factor,
                        configs=[
                            CreatableTopicConfig(name=name, value=value)
                            for name, value in topic.configs.items()
                        ],
                    )
                    for topic in topics
                ],
                timeout_ms=attempts.left_ms(),
                validate_only=validate_only,
            ),
            error_of=lambda answer: _first(item.error_code for item in answer.topics),
            attempts=attempts,
        )
        outcomes: dict[str, CreatedTopic | BrokerRefused] = {}
        for item in answer.topics:
            self._cluster.forget_topic(item.name)
            if item.error_code != ErrorCode.NONE:
                refusal = BrokerRefused(item.error_code, item.error_message, subject=item.name)
                outcomes[item.name] = refusal
                continue
            outcomes[item.name] = CreatedTopic(
                name=item.name,
                topic_id=item.topic_id,
                partitions=item.num_partitions,
                replication_factor=item.replication_factor,
            )
        return outcomes

    async def delete_topics(
        self, names: Sequence[str], *, timeout_s: float | None = None
    ) -> dict[str, BrokerRefused | None]:
        """Delete topics with everything in them."""
        from millpond.wire.kafka.messages.delete_topics import (
            DeleteTopicsRequest,
            DeleteTopicsResponse,
            DeleteTopicState,
        )

        attempts = self._cluster.attempts("deleting topics", timeout_s)
        answer: DeleteTopicsResponse = await self._cluster.ask_controller(
            ApiKey.DELETE_TOPICS,
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in names],  # from version 6
                topic_names=list(names),  # up to version 5
                timeout_ms=attempts.left_ms(),
            ),
            error_of=lambda answer: _first(item.error_code for item in answer.responses),
            attempts=attempts,
        )
        outcomes: dict[str, BrokerRefused | None] = {}
        for item in answer.responses:
            name = item.name or ""
            self._cluster.forget_topic(name)
            outcomes[name] = _refusal(item.error_code, item.error_message, name)
        return outcomes

    async def list_topics(
        self, *, internal: bool = False, timeout_s: float | None = None
    ) -> list[TopicInfo]:
        """All topics by name; the broker's own ones only if asked for."""
        topics = await self._cluster.topics(timeout_s=timeout_s)
        return [topic for topic in topics if internal or not topic.is_internal]

    async def describe_topic(self, name: str, *, timeout_s: float | None = None) -> TopicInfo:
        """One topic, fresh from a broker."""
        return await self._cluster.topic(name, refresh=True, timeout_s=timeout_s)

    async def create_partitions(
        self, name: str, count: int, *, validate_only: bool = False, timeout_s: float | None = None
    ) -> None:
        """Give a topic more partitions: ``count`` in all. Keys move to other partitions by that."""
        from millpond.wire.kafka.messages.create_partitions import (
            CreatePartitionsRequest,
            CreatePartitionsResponse,
            CreatePartitionsTopic,
        )

        attempts = self._cluster.attempts(f"adding partitions to {name}", timeout_s)
        answer: CreatePartitionsResponse = await self._cluster.ask_controller(
            ApiKey.CREATE_PARTITIONS,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
                timeout_ms=attempts.left_ms(),
                validate_only=validate_only,
            ),
            error_of=lambda answer: _first(item.error_code for item in answer.results),
            attempts=attempts,
        )
        self._cluster.forget_topic(name)
        for item in answer.results:
            if refusal := _refusal(item.error_code, item.error_message, item.name):
                raise refusal

    # --- settings ---

    async def describe_configs(
        self,
        name: str,
        *,
        resource: ResourceType = ResourceType.TOPIC,
        documentation: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, ConfigEntry]:
        """Every setting of a topic, or of a broker (``name`` is its number then)."""
        from millpond.wire.kafka.messages.describe_configs import (
            DescribeConfigsRequest,
            DescribeConfigsResource,
            DescribeConfigsResponse,
        )

        attempts = self._cluster.attempts(f"reading the settings of {name}", timeout_s)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource, resource_name=name, configuration_keys=None
                )
            ],
            include_documentation=documentation,
        )
        while True:
            answer: DescribeConfigsResponse
            if resource is ResourceType.BROKER and name:
                answer = await self._cluster.ask_node(
                    int(name), ApiKey.DESCRIBE_CONFIGS, request, attempts=attempts
                )
            else:
                answer = await self._cluster.ask_any(
                    ApiKey.DESCRIBE_CONFIGS, request, attempts=attempts
                )
            [result] = answer.results
            refusal = _refusal(result.error_code, result.error_message, name)
            if refusal is None:
                break
            await attempts.after(refusal)
        return {
            item.name: ConfigEntry(
                name=item.name,
                value=item.value,
                is_default=item.config_source == _SOURCE_DEFAULT,
                is_read_only=item.read_only,
                is_sensitive=item.is_sensitive,
                source=item.config_source,
                documentation=item.documentation or None,
            )
            for item in sorted(result.configs, key=lambda item: item.name)
        }

    async def alter_configs(
        self,
        name: str,
        changes: Mapping[str, str | tuple[ConfigOperation, str | None] | None],
        *,
        resource: ResourceType = ResourceType.TOPIC,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Change some settings, leave the others. A value of None goes back to the default."""
        from millpond.wire.kafka.messages.incremental_alter_configs import (
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
            IncrementalAlterConfigsResponse,
        )

        attempts = self._cluster.attempts(f"changing the settings of {name}", timeout_s)
        configs = []
        for key, change in changes.items():
            if isinstance(change, tuple):
                operation, value = change
            else:
                operation = ConfigOperation.DELETE if change is None else ConfigOperation.SET
                value = change
            configs.append(AlterableConfig(name=key, config_operation=operation, value=value))
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=resource, resource_name=name, configs=configs)
            ],
            validate_only=validate_only,
        )
        answer: IncrementalAlterConfigsResponse
        if resource is ResourceType.BROKER and name:
            answer = await self._cluster.ask_node(
                int(name), ApiKey.INCREMENTAL_ALTER_CONFIGS, request, attempts=attempts
            )
        else:
            answer = await self._cluster.ask_controller(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                request,
                error_of=lambda answer: _first(item.error_code for item in answer.responses),
                attempts=attempts,
            )
        for item in answer.responses:
            if refusal := _refusal(item.error_code, item.error_message, name):
                raise refusal

    # --- positions ---

    async def list_offsets(
        self,
        asked: Mapping[TopicPartition, int],
        *,
        isolation_level: int = 0,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAt | BrokerRefused]:
        """Offsets by time: ``EARLIEST``, ``LATEST``, ``MAX_TIMESTAMP``, or the first at or after a time."""
        from millpond.wire.kafka.messages.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsResponse,
            ListOffsetsTopic,
        )

        attempts = self._cluster.attempts("asking for offsets", timeout_s)

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAt | BrokerRefused]:
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=number,
                                timestamp=asked[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in _by_topic(partitions).items()
                ],
                timeout_ms=attempts.left_ms(),
            )
            answer: ListOffsetsResponse = await connection.request(ApiKey.LIST_OFFSETS, request)
            found: dict[TopicPartition, OffsetAt | BrokerRefused] = {}
            for topic in answer.topics:
                for item in topic.partitions:
                    partition = TopicPartition(topic.name, item.partition_index)
                    found[partition] = _refusal(item.error_code, None, str(partition)) or OffsetAt(
                        offset=item.offset,
                        timestamp=item.timestamp,
                        leader_epoch=item.leader_epoch,
                    )
            return found

        return await self._cluster.ask_leaders(asked, ask, attempts=attempts)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | BrokerRefused]:
        """Forget everything before these offsets (-1: all there is). Gives the new start of each log."""
        from millpond.wire.kafka.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsResponse,
            DeleteRecordsTopic,
        )

        attempts = self._cluster.attempts("deleting records", timeout_s)

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, int | BrokerRefused]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=number,
                                offset=before[TopicPartition(topic, number)],
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in _by_topic(partitions).items()
                ],
                timeout_ms=attempts.left_ms(),
            )
            answer: DeleteRecordsResponse = await connection.request(ApiKey.DELETE_RECORDS, request)
            found: dict[TopicPartition, int | BrokerRefused] = {}
            for topic in answer.topics:
                for item in topic.partitions:
                    partition = TopicPartition(topic.name, item.partition_index)
                    refusal = _refusal(item.error_code, None, str(partition))
                    found[partition] = item.low_watermark if refusal is None else refusal
            return found

        return await self._cluster.ask_leaders(before, ask, attempts=attempts)

    # --- brokers ---

    async def describe_cluster(self, *, timeout_s: float | None = None) -> ClusterInfo:
        """The brokers, the controller and the cluster's name."""
        from millpond.wire.kafka.messages.describe_cluster import (
            DescribeClusterRequest,
            DescribeClusterResponse,
        )

        attempts = self._cluster.attempts("describing the cluster", timeout_s)
        answer: DescribeClusterResponse = await self._cluster.ask_any(
            ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), attempts=attempts
        )
        if refusal := _refusal(answer.error_code, answer.error_message, ""):
            raise refusal
        return ClusterInfo(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers=tuple(
                BrokerInfo(node_id=item.broker_id, host=item.host, port=item.port, rack=item.rack)
                for item in sorted(answer.brokers, key=lambda item: item.broker_id)
            ),
        )

    async def describe_log_dirs(
        self, topics: Iterable[str] | None = None, *, timeout_s: float | None = None
    ) -> list[LogDirInfo]:
        """The data directories of every broker, and the bytes of each partition in them."""
        from millpond.wire.kafka.messages.describe_log_dirs import (
            DescribableLogDirTopic,
            DescribeLogDirsRequest,
            DescribeLogDirsResponse,
        )

        attempts = self._cluster.attempts("describing log directories", timeout_s)
        asked: list[DescribableLogDirTopic] | None = None
        if topics is not None:
            asked = []
            for name in topics:
                info = await self._cluster.topic(name, timeout_s=attempts.left_s())
                numbers = [item.partition for item in info.partitions]
                asked.append(DescribableLogDirTopic(topic=name, partitions=numbers))
        found = []
        for broker in (await self._cluster.info()).brokers:
            answer: DescribeLogDirsResponse = await self._cluster.ask_node(
                broker.node_id,
                ApiKey.DESCRIBE_LOG_DIRS,
                DescribeLogDirsRequest(topics=asked),
                attempts=attempts,
            )
            if refusal := _refusal(answer.error_code, None, f"broker {broker.node_id}"):
                raise refusal
            for item in answer.results:
                if refusal := _refusal(item.error_code, None, item.log_dir):
                    raise refusal
                sizes = {
                    TopicPartition(topic.name, partition.partition_index): partition.partition_size
                    for topic in item.topics
                    for partition in topic.partitions
                }
                found.append(
                    LogDirInfo(
                        node_id=broker.node_id,
                        path=item.log_dir,
                        sizes=sizes,
                        total_bytes=item.total_bytes,
                        usable_bytes=item.usable_bytes,
                    )
                )
        return found


_SOURCE_DEFAULT = 5


def _only(outcomes: Mapping[str, T | BrokerRefused]) -> T:
    [outcome] = outcomes.values()
    if isinstance(outcome, BrokerRefused):
        raise outcome
    return outcome


def _first(codes: Iterable[int]) -> int:
    return next(iter(codes), ErrorCode.NONE)


def _refusal(code: int, message: str | None, subject: str) -> BrokerRefused | None:
    return None if code == ErrorCode.NONE else BrokerRefused(code, message, subject=subject)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in partitions:
        grouped.setdefault(topic, []).append(number)
    return grouped
