"""Administrative requests about topics and settings."""

from collections.abc import Mapping, Sequence

from millpond.client._admin_model import (
    ConfigEntry,
    ConfigOperation,
    CreatedTopic,
    NewTopic,
    ResourceType,
    first,
    only,
    refusal_of,
)
from millpond.client._model import TopicInfo
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused
from millpond.wire.kafka.api import ApiKey, ErrorCode

_SOURCE_DEFAULT = 5


class TopicCalls:
    """A part of ``Admin``."""

    _cluster: Cluster

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
        return only(await self.create_topics([new], timeout_s=timeout_s))

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, CreatedTopic | BrokerRefused]:
        """Create topics, or only check whether that would work."""
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
            error_of=lambda answer: first(item.error_code for item in answer.topics),
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
        """Delete topics with their records."""
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
            error_of=lambda answer: first(item.error_code for item in answer.responses),
            attempts=attempts,
        )
        outcomes: dict[str, BrokerRefused | None] = {}
        for item in answer.responses:
            name = item.name or ""
            self._cluster.forget_topic(name)
            outcomes[name] = refusal_of(item.error_code, item.error_message, name)
        return outcomes

    async def list_topics(
        self, *, internal: bool = False, timeout_s: float | None = None
    ) -> list[TopicInfo]:
        """Return all topics by name; internal topics only if requested."""
        topics = await self._cluster.topics(timeout_s=timeout_s)
        return [topic for topic in topics if internal or not topic.is_internal]

    async def describe_topic(self, name: str, *, timeout_s: float | None = None) -> TopicInfo:
        """Return one topic with new metadata from a broker."""
        return await self._cluster.topic(name, refresh=True, timeout_s=timeout_s)

    async def create_partitions(
        self, name: str, count: int, *, validate_only: bool = False, timeout_s: float | None = None
    ) -> None:
        """Increase the number of a topic's partitions to ``count``. Keys then map to other partitions."""
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
            error_of=lambda answer: first(item.error_code for item in answer.results),
            attempts=attempts,
        )
        self._cluster.forget_topic(name)
        for item in answer.results:
            if refusal := refusal_of(item.error_code, item.error_message, item.name):
                raise refusal

    async def describe_configs(
        self,
        name: str,
        *,
        resource: ResourceType = ResourceType.TOPIC,
        documentation: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, ConfigEntry]:
        """Return every setting of a topic, or of a broker (``name`` is its id then)."""
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
            refusal = refusal_of(result.error_code, result.error_message, name)
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

    async def describe_topic_setting(
        self, names: Sequence[str], setting: str, *, timeout_s: float | None = None
    ) -> dict[str, str | None]:
        """Return one setting of many topics; a topic deleted meanwhile is left out."""
        from millpond.wire.kafka.messages.describe_configs import (
            DescribeConfigsRequest,
            DescribeConfigsResource,
            DescribeConfigsResponse,
        )

        answer: DescribeConfigsResponse = await self._cluster.ask_any(
            ApiKey.DESCRIBE_CONFIGS,
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=ResourceType.TOPIC,
                        resource_name=name,
                        configuration_keys=[setting],
                    )
                    for name in names
                ]
            ),
            attempts=self._cluster.attempts(f"reading {setting} of topics", timeout_s),
        )
        return {
            result.resource_name: item.value
            for result in answer.results
            if result.error_code == ErrorCode.NONE
            for item in result.configs
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
        """Change some settings, keep the others. A value of None restores the default."""
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
                error_of=lambda answer: first(item.error_code for item in answer.responses),
                attempts=attempts,
            )
        for item in answer.responses:
            if refusal := refusal_of(item.error_code, item.error_message, name):
                raise refusal
