"""Settings of topics, brokers, groups and subscriptions: changed, and described with their origin."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from millpond.base.errors import InvalidRequest, UnknownTopic
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.runtime.runtime import Runtime
from millpond.metadata.client_metrics import describe_client_metrics
from millpond.metadata.configs import (
    ConfigEntry,
    ConfigSource,
    broker_config_def,
    describe_broker,
    describe_topic,
)
from millpond.metadata.controller import (
    AlterConfigs,
    ConfigResult,
    check_topic_name,
    decide_alter_configs,
)
from millpond.metadata.elections import decide_eligible
from millpond.metadata.group_configs import describe_group
from millpond.metadata.image import apply
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
)

log = logging.getLogger(__name__)


def _as_set_for_all(entry: ConfigEntry) -> ConfigEntry:
    """Return a setting as it is for all brokers, without this broker's own value."""
    shared = tuple(one for one in entry.synonyms if one.source is ConfigSource.CLUSTER_DEFAULT)
    value = shared[0].value if shared else entry.value
    return replace(entry, value=value, source=ConfigSource.CLUSTER_DEFAULT, synonyms=shared)


class SettingsAdmin:
    """Changes and describes settings."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        metadata: MetadataView,
        settings: NodeSettings,
        info: NodeInfo,
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._settings = settings
        self._info = info

    async def alter_configs(
        self, commands: Sequence[AlterConfigs], *, validate_only: bool = False
    ) -> Sequence[ConfigResult]:
        """Change settings of topics and brokers."""
        self._runtime.check_running()
        decision = decide_alter_configs(
            self._metadata.quorum.head,
            commands,
            node_id=self._info.node_id,
            effective=self._effective_setting,
            broker=self._settings.broker,
        )
        if not validate_only:
            after = apply(self._metadata.quorum.head, decision.records)
            # Eligible leaders depend on min.insync.replicas.
            changes = decide_eligible(after, self._settings.rules(after))
            await self._metadata.quorum.propose((*decision.records, *changes))
            self._say_without_effect(decision.records)
        return decision.results

    def _say_without_effect(self, records: Iterable[MetadataRecord]) -> None:
        """Log settings that are accepted and have no effect."""
        names = [
            record.name
            for record in records
            if isinstance(record, ConfigRecord)
            and record.resource_type == RESOURCE_BROKER
            and record.value is not None
            and not broker_config_def(record.name).effective
        ]
        if names:
            log.warning("accepted, no effect: %s", ", ".join(names))

    def describe_topic(self, topic: str, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return a topic's settings and the origin of each. Raises ``UnknownTopic``, ``InvalidTopicName``."""
        check_topic_name(topic)
        if topic not in self._metadata.image.topics:
            raise UnknownTopic(f"there is no topic {topic}")
        return describe_topic(
            self._metadata.image.topic_config(topic), self._settings.broker, names
        )

    def preview_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return the settings of a topic with these overrides."""
        return describe_topic(overrides, self._settings.broker)

    def describe_broker(self, broker: str, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return a broker's settings ("" for what holds for all brokers, by id otherwise)."""
        if broker not in {"", str(self._info.node_id)}:
            raise InvalidRequest(
                f"Unexpected broker id, expected {self._info.node_id} or empty string, "
                f"but received {broker}"
            )
        entries = describe_broker(self._settings.broker, names)
        if broker:
            return entries
        set_for_all = self._metadata.image.config_of(RESOURCE_BROKER, "")
        return [_as_set_for_all(entry) for entry in entries if entry.name in set_for_all]

    def describe_group(
        self, group_id: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """Return a group's settings, also if the group does not exist."""
        if not group_id:
            raise InvalidRequest("a group that has settings has a name")
        overrides = self._metadata.image.config_of(RESOURCE_GROUP, group_id)
        return describe_group(overrides, self._settings.broker, names)

    def describe_client_metrics(
        self, name: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """Return the settings of a subscription to clients' metrics, also if it does not exist."""
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return describe_client_metrics(
            self._metadata.image.config_of(RESOURCE_CLIENT_METRICS, name), names
        )

    def _effective_setting(self, resource_type: int, resource_name: str, name: str) -> str | None:
        if resource_type == RESOURCE_TOPIC:
            overrides = self._metadata.quorum.head.topic_config(resource_name)
            entries = describe_topic(overrides, self._settings.broker, [name])
        elif resource_type == RESOURCE_GROUP:
            overrides = self._metadata.quorum.head.config_of(RESOURCE_GROUP, resource_name)
            entries = describe_group(overrides, self._settings.broker, [name])
        elif resource_type == RESOURCE_CLIENT_METRICS:
            overrides = self._metadata.quorum.head.config_of(RESOURCE_CLIENT_METRICS, resource_name)
            entries = describe_client_metrics(overrides, [name])
        else:
            entries = describe_broker(self._settings.broker, [name])
        return entries[0].value if entries else None
