"""The one table of settings and the questions that can be asked of it.

Topic settings lie over broker settings lie over defaults; ``BrokerConfig`` holds the broker's layers and
``log_config`` folds a topic's overrides over them. Rules: an unknown name is refused with the nearest known
one; values are checked where they enter and are right ever after. Knows no file format and no protocol.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from millpond.base.errors import InvalidConfig
from millpond.log.config import LogConfig
from millpond.metadata.broker_configs import (
    ACCEPTED,
    ACCEPTED_PREFIXES,
    BROKER_CONFIGS,
    SECURITY_NAMES,
    SUPPORTED,
)
from millpond.metadata.config_def import ConfigDef, ConfigType, Value
from millpond.metadata.topic_configs import BROKER_NAMES, TOPIC_CONFIGS, BrokerName

__all__ = [
    "ACCEPTED",
    "ACCEPTED_PREFIXES",
    "BROKER_CONFIGS",
    "BROKER_NAMES",
    "SECURITY_NAMES",
    "SUPPORTED",
    "TOPIC_CONFIGS",
    "BrokerConfig",
    "BrokerName",
    "ConfigDef",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "UnknownConfig",
    "Value",
    "broker_config_def",
    "check_broker_overrides",
    "check_topic_overrides",
    "describe_broker",
    "describe_topic",
    "log_config",
    "parse_value",
    "topic_config_def",
]


# Lists that can be said one by one: auth_backends.1, auth_backends.2.
_FAMILIES = tuple(one for one in BROKER_CONFIGS.values() if one.members is not None)


class UnknownConfig(InvalidConfig):
    """A name that is no setting; ``suggestion`` is empty when nothing is near."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message + suggestion)
        self.suggestion = suggestion


class ConfigSource(IntEnum):
    """Where a value came from. The numbers are those that Kafka's DescribeConfigs answers with."""

    UNKNOWN = 0
    TOPIC = 1
    NODE = 2
    CLUSTER_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A setting that had a say in a value, in the order of who wins."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting as it stands, ready to be shown. The value of a sensitive setting is ``None``."""

    definition: ConfigDef
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.definition.name


class BrokerConfig(Mapping[str, Any]):
    """Every broker setting's value in force: the node's, else the cluster's, the file's, the default.

    ``static`` is what this node was started with; the other two are altered at run time and kept in the
    metadata. All three hold values that were checked when they entered.
    """

    __slots__ = ("_layers", "_values")

    def __init__(
        self,
        static: Mapping[str, Value] | None = None,
        *,
        cluster_default: Mapping[str, str] | None = None,
        node: Mapping[str, str] | None = None,
    ) -> None:
        self._layers: tuple[tuple[ConfigSource, Mapping[str, Value]], ...] = (
            (ConfigSource.NODE, _parse_all(node or {})),
            (ConfigSource.CLUSTER_DEFAULT, _parse_all(cluster_default or {})),
            (ConfigSource.STATIC, dict(static or {})),
        )
        # What was asked for once is asked for again and again, for every request and every partition.
        self._values: dict[str, Any] = {}

    def altered(
        self, *, cluster_default: Mapping[str, str], node: Mapping[str, str]
    ) -> "BrokerConfig":
        """The same node with other run-time settings."""
        static = self._layers[2][1]
        return BrokerConfig(static, cluster_default=cluster_default, node=node)

    def with_node_id(self, node_id: int) -> "BrokerConfig":
        """The same settings under both names of the node's number, as Kafka shows them."""
        static = {**self._layers[2][1], "node.id": node_id, "broker.id": node_id}
        return BrokerConfig(static)

    def layers(self, name: str) -> Iterator[tuple[ConfigSource, Value]]:
        """Every value that the setting was given, strongest first, the default last."""
        for source, values in self._layers:
            if name in values:
                yield source, values[name]
        yield ConfigSource.DEFAULT, BROKER_CONFIGS[name].default

    def started_with(self, name: str) -> Value:
        """What holds where nothing was altered at run time."""
        static = self._layers[2][1]
        return static[name] if name in static else BROKER_CONFIGS[name].default

    def is_set(self, name: str) -> bool:
        """Whether anyone gave the setting a value."""
        return any(name in values for _, values in self._layers)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            value = self._values[name] = next(self.layers(name))[1]
            return value

    def __iter__(self) -> Iterator[str]:
        return iter(BROKER_CONFIGS)

    def __len__(self) -> int:
        return len(BROKER_CONFIGS)


# --- reading and checking -------------------------------------------------------------------------


def parse_value(definition: ConfigDef, text: str) -> Value:
    """Read one setting's text. Raises ``InvalidConfig``."""
    return definition.parse(text)


def topic_config_def(name: str) -> ConfigDef:
    """The topic setting of this name. Raises ``InvalidConfig`` with the nearest known name."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise UnknownConfig(f"Unknown topic config name: {name}.", _hint_topic(name))
    return definition


def broker_config_def(name: str) -> ConfigDef:
    """The broker setting of this name, or the list that one of its members is named after.

    Raises ``InvalidConfig`` with the nearest known name.
    """
    definition = BROKER_CONFIGS.get(name)
    if definition is not None:
        return definition
    for family in _FAMILIES:
        if name.startswith(f"{family.name}."):
            return family
    if name.startswith(ACCEPTED_PREFIXES):
        secret = any(word in name for word in ("password", "secret", "jaas", ".key"))
        return ConfigDef(
            name=name,
            type=ConfigType.PASSWORD if secret else ConfigType.STRING,
            default=None,
            doc="A setting of a part that does not exist here.",
            sensitive=secret,
            effective=False,
        )
    raise UnknownConfig(f"Unknown broker config name: {name}.", _hint_broker(name))


def check_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Read and check a topic's whole set of overrides, each alone and all together."""
    parsed = {name: topic_config_def(name).parse(text) for name, text in overrides.items()}
    shortest = parsed.get("min.compaction.lag.ms", 0)
    longest = parsed.get("max.compaction.lag.ms", TOPIC_CONFIGS["max.compaction.lag.ms"].default)
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise InvalidConfig(
            f"min.compaction.lag.ms ({shortest}) must not be more than max.compaction.lag.ms ({longest})"
        )
    if parsed.get("remote.storage.enable"):
        # A topic that is believed to be copied elsewhere, and is not, would be lost with its disks.
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote "
            "log storage."
        )
    return parsed


def check_broker_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Read and check broker settings that are to be altered at run time."""
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        definition = broker_config_def(name)
        if not definition.dynamic:
            raise InvalidConfig(
                f"{name} cannot change while the broker runs; set it at the start (file or --set)"
            )
        parsed[name] = definition.parse(text)
    check_connection_limits(parsed)
    for name in ("max.connections", "max.connection.creation.rate"):
        if parsed.get(name) == 0:
            raise InvalidConfig(f"Invalid {name} 0: no client could connect to change it again")
    return parsed


def connection_overrides(text: str) -> list[tuple[str, int]]:
    """``max.connections.per.ip.overrides`` as hosts with their limits. Raises ``InvalidConfig``."""
    found = []
    for item in filter(None, (one.strip() for one in text.split(","))):
        host, _colon, count = item.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise InvalidConfig(
                f"max.connections.per.ip.overrides: {item!r} is not an address or a host name, a colon and "
                "a number of connections"
            )
        found.append((host.strip().strip("[]"), int(count)))
    return found


def check_connection_limits(values: Mapping[str, Any]) -> None:
    """Limits of connections that make sense alone and together. Raises ``InvalidConfig``."""
    overrides = connection_overrides(values.get("max.connections.per.ip.overrides") or "")
    if values.get("max.connections.per.ip") == 0 and not overrides:
        raise InvalidConfig(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is "
            "set."
        )


# --- what is in force -----------------------------------------------------------------------------


def log_config(topic_overrides: Mapping[str, str], broker: Mapping[str, Any]) -> LogConfig:
    """Fold a topic's overrides over the broker's values over the defaults."""
    fields: dict[str, Any] = {}
    for name, field in _LOG_FIELDS.items():
        if name in topic_overrides:
            value = topic_config_def(name).parse(topic_overrides[name])
        else:
            value = _broker_value_behind(name, broker)
        fields[field] = frozenset(value) if isinstance(value, tuple) else value
    fields["producer_id_expiration_ms"] = broker.get(
        "producer.id.expiration.ms", BROKER_CONFIGS["producer.id.expiration.ms"].default
    )
    return LogConfig(**fields)


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """A topic's settings as they stand; all of them, or those of ``names`` that exist."""
    wanted = TOPIC_CONFIGS if names is None else [name for name in names if name in TOPIC_CONFIGS]
    return [_describe_topic_entry(name, overrides, broker) for name in wanted]


def describe_broker(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """The broker's settings as they stand; all of them, or those of ``names`` that exist."""
    wanted = BROKER_CONFIGS if names is None else [name for name in names if name in BROKER_CONFIGS]
    return [_describe_broker_entry(BROKER_CONFIGS[name], broker) for name in wanted]


def _describe_topic_entry(
    name: str, overrides: Mapping[str, str], broker: BrokerConfig
) -> ConfigEntry:
    definition = TOPIC_CONFIGS[name]
    synonyms: list[ConfigSynonym] = []
    if name in overrides:
        synonyms.append(ConfigSynonym(name=name, value=overrides[name], source=ConfigSource.TOPIC))
    effective: str | None = overrides.get(name)
    for behind in BROKER_NAMES.get(name, ()):
        behind_definition = BROKER_CONFIGS[behind.name]
        for source, value in broker.layers(behind.name):
            if value is None:
                continue
            text = behind_definition.render(value)
            synonyms.append(ConfigSynonym(name=behind.name, value=text, source=source))
            if effective is None:
                effective = definition.render(_scaled(value, behind.factor))
    if not synonyms:
        text = definition.render(definition.default)
        synonyms.append(ConfigSynonym(name=name, value=text, source=ConfigSource.DEFAULT))
        effective = text
    return ConfigEntry(
        definition=definition,
        value=effective,
        source=synonyms[0].source,
        read_only=False,
        synonyms=tuple(synonyms),
    )


def _describe_broker_entry(definition: ConfigDef, broker: BrokerConfig) -> ConfigEntry:
    layers = list(broker.layers(definition.name))
    shown = [
        ConfigSynonym(
            name=definition.name,
            value=None if definition.sensitive else definition.render(value),
            source=source,
        )
        for source, value in layers
        if value is not None or source is not ConfigSource.DEFAULT
    ]
    return ConfigEntry(
        definition=definition,
        value=None if definition.sensitive else definition.render(layers[0][1]),
        source=layers[0][0],
        read_only=not definition.dynamic,
        synonyms=tuple(shown),
    )


def _broker_value_behind(name: str, broker: Mapping[str, Any]) -> Value:
    for behind in BROKER_NAMES.get(name, ()):
        definition = BROKER_CONFIGS[behind.name]
        value = broker.get(behind.name, definition.default)
        if value is not None:
            return _scaled(value, behind.factor)
    return TOPIC_CONFIGS[name].default


def _scaled(value: Value, factor: int) -> Value:
    # A negative number means "no limit" in every unit.
    if factor != 1 and isinstance(value, int) and value > 0:
        return value * factor
    return value


def _parse_all(texts: Mapping[str, str]) -> dict[str, Value]:
    return {name: broker_config_def(name).parse(text) for name, text in texts.items()}


# --- suggestions ----------------------------------------------------------------------------------


def _hint_topic(name: str) -> str:
    for topic_name, behind in BROKER_NAMES.items():
        if name in {broker_name.name for broker_name in behind}:
            return f" That is a broker setting; for a topic it is called {topic_name}."
    return _nearest(name, TOPIC_CONFIGS)


def _hint_broker(name: str) -> str:
    behind = BROKER_NAMES.get(name)
    if behind is not None:
        return f" That is a topic setting; for the broker it is called {behind[0].name}."
    return _nearest(name, SUPPORTED) or _nearest(name, ACCEPTED)


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f" Did you mean {' or '.join(found)}?" if found else ""


# Topic settings that the log itself obeys, by their field in LogConfig.
_LOG_FIELDS: dict[str, str] = {
    name: field
    for name in TOPIC_CONFIGS
    if (field := name.replace(".", "_")) in LogConfig.__dataclass_fields__
}
