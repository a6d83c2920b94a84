"""Settings of topics, brokers, groups and subscriptions: changed, and described with their origin."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millpond.base.errors import InvalidRequest, UnknownTopic
from millpond.log.config import LogConfig
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
from millpond.metadata.group_configs import describe_group, group_setting
from millpond.metadata.image import apply
from millpond.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
)

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)


def _as_set_for_all(entry: ConfigEntry) -> ConfigEntry:
    """What all brokers were given, whatever this one has of its own."""
    shared = tuple(one for one in entry.synonyms if one.source is ConfigSource.CLUSTER_DEFAULT)
    value = shared[0].value if shared else entry.value
    return replace(entry, value=value, source=ConfigSource.CLUSTER_DEFAULT, synonyms=shared)


class SettingsAdmin:
    """The settings in force, and the way to others."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def alter_configs(
        self, commands: Sequence[AlterConfigs], *, validate_only: bool = False
    ) -> Sequence[ConfigResult]:
        """Change settings of topics and brokers."""
        self._engine.check_running()
        decision = decide_alter_configs(
            self._engine.quorum.head,
            commands,
            node_id=self._engine.node.node_id,
            effective=self._effective_setting,
            broker=self._engine.topics.broker,
        )
        if not validate_only:
            after = apply(self._engine.quorum.head, decision.records)
            # Who is eligible to lead is so by min.insync.replicas.
            changes = decide_eligible(after, self._engine.rules(after))
            await self._engine.quorum.propose((*decision.records, *changes))
            self._say_without_effect(decision.records)
        return decision.results

    def _say_without_effect(self, records: Iterable[MetadataRecord]) -> None:
        """An administrator shall not believe that something changed which did not."""
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

    def topic_config(self, topic: str) -> LogConfig:
        """The settings in force for a topic's logs."""
        return self._engine.topics.config_of(topic)

    def describe_topic_config(
        self, topic: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """A topic's settings and where each comes from. Raises ``UnknownTopic``, ``InvalidTopicName``."""
        check_topic_name(topic)
        if topic not in self._engine.image.topics:
            raise UnknownTopic(f"there is no topic {topic}")
        return describe_topic(
            self._engine.image.topic_config(topic), self._engine.topics.broker, names
        )

    def preview_topic_config(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The settings that a topic with these overrides has."""
        return describe_topic(overrides, self._engine.topics.broker)

    def describe_broker_config(
        self, broker: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """A broker's settings ("" for what holds for all brokers, by id otherwise)."""
        if broker not in {"", str(self._engine.node.node_id)}:
            raise InvalidRequest(
                f"Unexpected broker id, expected {self._engine.node.node_id} or empty string, "
                f"but received {broker}"
            )
        entries = describe_broker(self._engine.topics.broker, names)
        if broker:
            return entries
        set_for_all = self._engine.image.config_of(RESOURCE_BROKER, "")
        return [_as_set_for_all(entry) for entry in entries if entry.name in set_for_all]

    def describe_group_config(
        self, group_id: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """A group's settings, whether or not there is such a group."""
        if not group_id:
            raise InvalidRequest("a group that has settings has a name")
        overrides = self._engine.image.config_of(RESOURCE_GROUP, group_id)
        return describe_group(overrides, self._engine.topics.broker, names)

    def describe_client_metrics_config(
        self, name: str, names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """The settings of a subscription to clients' metrics, whether or not there is one."""
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return describe_client_metrics(
            self._engine.image.config_of(RESOURCE_CLIENT_METRICS, name), names
        )

    def group_setting(self, group_id: str, name: str) -> Any:
        """The value in force of a group's setting."""
        overrides = self._engine.image.config_of(RESOURCE_GROUP, group_id)
        return group_setting(name, overrides, self._engine.topics.broker)

    def _effective_setting(self, resource_type: int, resource_name: str, name: str) -> str | None:
        if resource_type == RESOURCE_TOPIC:
            overrides = self._engine.quorum.head.topic_config(resource_name)
            entries = describe_topic(overrides, self._engine.topics.broker, [name])
        elif resource_type == RESOURCE_GROUP:
            overrides = self._engine.quorum.head.config_of(RESOURCE_GROUP, resource_name)
            entries = describe_group(overrides, self._engine.topics.broker, [name])
        elif resource_type == RESOURCE_CLIENT_METRICS:
            overrides = self._engine.quorum.head.config_of(RESOURCE_CLIENT_METRICS, resource_name)
            entries = describe_client_metrics(overrides, [name])
        else:
            entries = describe_broker(self._engine.topics.broker, [name])
        return entries[0].value if entries else None
