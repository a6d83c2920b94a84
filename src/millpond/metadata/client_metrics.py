"""Client metrics (KIP-714): a subscription says which metrics the broker wants from which clients, how often.

A subscription is a resource with three settings and comes into being with the first of them. What a client is
asked for is the union of the subscriptions that fit it. Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from millpond.base.errors import InvalidConfig, InvalidPattern, InvalidRequest
from millpond.base.patterns import matcher
from millpond.metadata.config_def import ConfigDef, ConfigType
from millpond.metadata.configs import ConfigEntry, ConfigSource, ConfigSynonym

ALL_METRICS: Final = "*"
INTERVAL_MS_DEFAULT: Final = 300_000
_INTERVAL_MS = range(100, 3_600_000 + 1)

# What a client can be told by.
CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
SOFTWARE_NAME: Final = "client_software_name"
SOFTWARE_VERSION: Final = "client_software_version"
SOURCE_ADDRESS: Final = "client_source_address"
SOURCE_PORT: Final = "client_source_port"
_CLIENT_WORDS = frozenset(
    {CLIENT_INSTANCE_ID, CLIENT_ID, SOFTWARE_NAME, SOFTWARE_VERSION, SOURCE_ADDRESS, SOURCE_PORT}
)

CLIENT_METRICS_CONFIGS: Final[dict[str, ConfigDef]] = {
    row.name: row
    for row in (
        ConfigDef(
            name="interval.ms",
            type=ConfigType.INT,
            default=INTERVAL_MS_DEFAULT,
            doc="How often a client pushes, in milliseconds.",
            dynamic=True,
        ),
        ConfigDef(
            name="match",
            type=ConfigType.LIST,
            default=(),
            doc="Whom it is for: word=pattern, several with commas; all must fit. Empty: everybody.",
            dynamic=True,
        ),
        ConfigDef(
            name="metrics",
            type=ConfigType.LIST,
            default=(),
            doc="Prefixes of the names of the metrics that are wanted; * means all.",
            dynamic=True,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int


def client_metrics_config_def(name: str) -> ConfigDef:
    """The setting of this name. Raises ``InvalidRequest``."""
    definition = CLIENT_METRICS_CONFIGS.get(name)
    if definition is None:
        raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    return definition


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    """Refuse settings that are none. Raises ``InvalidRequest`` and ``InvalidConfig``."""
    for name, text in overrides.items():
        value = client_metrics_config_def(name).parse(text)
        if name == "interval.ms" and value not in _INTERVAL_MS:
            raise InvalidRequest(
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
    match_patterns(overrides.get("match", ""))


def match_patterns(text: str) -> dict[str, Callable[[str], object | None]]:
    """The patterns of a subscription's ``match``, by word. Raises ``InvalidConfig``."""
    patterns = {}
    for item in filter(None, (one.strip() for one in text.split(","))):
        word, equals, pattern = (part.strip() for part in item.partition("="))
        if word not in _CLIENT_WORDS or not equals or not pattern or "=" in pattern:
            raise InvalidConfig(f"Illegal client matching pattern: {item}")
        try:
            patterns[word] = matcher(pattern)
        except InvalidPattern as error:
            raise InvalidConfig(f"Illegal client matching pattern: {item}") from error
    return patterns


def subscription_for(
    client: Mapping[str, str], subscriptions: Iterable[Mapping[str, str]]
) -> Subscription:
    """What is asked of a client that is known by these words: the sum of all that fit."""
    metrics: dict[str, None] = {}
    interval_ms = INTERVAL_MS_DEFAULT
    for settings in subscriptions:
        patterns = match_patterns(settings.get("match", ""))
        if any(fits(client.get(word, "")) is None for word, fits in patterns.items()):
            continue
        for name in settings.get("metrics", "").split(","):
            if name.strip():
                metrics[name.strip()] = None
        interval_ms = min(interval_ms, int(settings.get("interval.ms", INTERVAL_MS_DEFAULT)))
    if ALL_METRICS in metrics:
        return Subscription(metrics=(ALL_METRICS,), interval_ms=interval_ms)
    return Subscription(metrics=tuple(metrics), interval_ms=interval_ms)


def describe_client_metrics(
    overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """A subscription's settings as they stand, whether or not there is one."""
    known = CLIENT_METRICS_CONFIGS
    wanted = known if names is None else [name for name in names if name in known]
    return [_entry(known[name], overrides.get(name)) for name in wanted]


def _entry(definition: ConfigDef, text: str | None) -> ConfigEntry:
    source = ConfigSource.DEFAULT if text is None else ConfigSource.CLIENT_METRICS
    synonyms: tuple[ConfigSynonym, ...] = ()
    if text is not None:
        synonyms = (ConfigSynonym(name=definition.name, value=text, source=source),)
    return ConfigEntry(
        definition=definition,
        value=definition.render(definition.default) if text is None else text,
        source=source,
        read_only=False,
        synonyms=synonyms,
    )
