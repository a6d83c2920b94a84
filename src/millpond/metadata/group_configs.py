"""The settings a group can have, and the broker setting that gives each its default.

Names, types, defaults and bounds are Apache Kafka 4.x's; dead letters are KIP-1191's. A group need not exist
to have settings: they are set before its first member comes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from millpond.base.errors import InvalidConfig
from millpond.metadata.config_def import ConfigDef, ConfigType, Value
from millpond.metadata.configs import ConfigEntry, ConfigSource, ConfigSynonym, UnknownConfig

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"
READ_COMMITTED: Final = "read_committed"


def _group(
    name: str,
    kind: ConfigType,
    default: bool | int | str,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
) -> ConfigDef:
    return ConfigDef(
        name=name,
        type=kind,
        default=default,
        doc=doc,
        choices=choices,
        minimum=minimum,
        dynamic=True,
    )


_INT, _STRING, _BOOLEAN = ConfigType.INT, ConfigType.STRING, ConfigType.BOOLEAN

GROUP_CONFIGS: Final[dict[str, ConfigDef]] = {
    row.name: row
    for row in (
        _group("consumer.session.timeout.ms", _INT, 45_000,
               "When a silent member of a consumer group is gone.", minimum=1),
        _group("consumer.heartbeat.interval.ms", _INT, 5_000,
               "How often a member of a consumer group speaks up.", minimum=1),
        _group("consumer.assignment.interval.ms", _INT, 1_000,
               "How often the targets of a consumer group are made anew at most.", minimum=0),
        _group("share.session.timeout.ms", _INT, 45_000,
               "When a silent member of a share group is gone.", minimum=1),
        _group("share.heartbeat.interval.ms", _INT, 5_000,
               "How often a member of a share group speaks up.", minimum=1),
        _group("share.record.lock.duration.ms", _INT, 30_000,
               "How long a member of a share group may keep a record without a word.", minimum=1),
        _group("share.delivery.count.limit", _INT, 5,
               "How often a share group is given a record before it is given up.", minimum=2),
        _group("share.partition.max.record.locks", _INT, 2_000,
               "How many records of a partition a share group may hold at once.", minimum=1),
        _group("share.auto.offset.reset", _STRING, LATEST,
               "Where a share group begins: earliest, latest or by_duration:PT1H."),
        _group("share.isolation.level", _STRING, "read_uncommitted",
               "Whether a share group is given records of open and aborted transactions.",
               choices=("read_committed", "read_uncommitted")),
        _group("share.renew.acknowledge.enable", _BOOLEAN, True,
               "Whether members of a share group may ask for more time."),
        _group("streams.session.timeout.ms", _INT, 45_000,
               "When a silent member of a streams group is gone.", minimum=1),
        _group("streams.heartbeat.interval.ms", _INT, 5_000,
               "How often a member of a streams group speaks up.", minimum=1),
        _group("streams.num.standby.replicas", _INT, 0,
               "How many processes besides follow the state of each task.", minimum=0),
        _group("streams.initial.rebalance.delay.ms", _INT, 3_000,
               "How long a new streams group waits for more members.", minimum=0),
        _group("streams.assignment.interval.ms", _INT, 1_000,
               "How often the targets of a streams group are made anew at most.", minimum=0),
        _group("errors.deadletterqueue.topic.name", _STRING, "",
               "The topic that gets what a share group gives up; empty: none."),
    )
}  # fmt: skip

# The broker setting behind each.
BROKER_SETTINGS: Final[dict[str, str]] = {
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
}

# The broker settings between which each must be.
_BOUNDS: Final[dict[str, tuple[str | None, str]]] = {
    "consumer.session.timeout.ms": (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    "consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.assignment.interval.ms": (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    "share.record.lock.duration.ms": (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "streams.session.timeout.ms": (
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    "streams.heartbeat.interval.ms": (
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
    "streams.assignment.interval.ms": (
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
}

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?"
)


def group_config_def(name: str) -> ConfigDef:
    """The group setting of this name. Raises ``InvalidConfig``."""
    definition = GROUP_CONFIGS.get(name)
    if definition is None:
        raise UnknownConfig(f"Unknown group config name: {name}", "")
    return definition


def check_group_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Read and check settings that are to be set on a group."""
    parsed = {name: group_config_def(name).parse(text) for name, text in overrides.items()}
    reset = parsed.get("share.auto.offset.reset")
    if reset is not None:
        reset_age_ms(str(reset))
    return parsed


def check_group_bounds(overrides: Mapping[str, str], broker: Mapping[str, Any]) -> None:
    """Refuse what the broker does not let a group have. Raises ``InvalidConfig``."""
    for name, (lowest, highest) in _BOUNDS.items():
        if name not in overrides:
            continue
        value = int(overrides[name])
        if lowest is not None and value < broker[lowest]:
            raise InvalidConfig(f"{name} must be greater than or equal to {lowest}")
        if value > broker[highest]:
            raise InvalidConfig(f"{name} must be less than or equal to {highest}")


def reset_age_ms(reset: str) -> int | None:
    """The age, in ms, that ``by_duration:`` names; None for the other two. Raises ``InvalidConfig``."""
    if reset in {EARLIEST, LATEST}:
        return None
    text = reset.removeprefix(BY_DURATION)
    found = _DURATION.fullmatch(text) if reset.startswith(BY_DURATION) else None
    if found is None or text.endswith(("P", "T")):
        raise InvalidConfig(
            f"Invalid value {reset} for share.auto.offset.reset: earliest, latest or "
            "by_duration:PnDTnHnMn.nS"
        )
    part = {name: float(value) for name, value in found.groupdict().items() if value}
    seconds = part.get("days", 0) * 86_400 + part.get("hours", 0) * 3_600
    return round((seconds + part.get("minutes", 0) * 60 + part.get("seconds", 0)) * 1000)


def group_setting(name: str, overrides: Mapping[str, str], broker: Mapping[str, Any]) -> Any:
    """The value in force for a group."""
    definition = GROUP_CONFIGS[name]
    if name in overrides:
        return definition.parse(overrides[name])
    behind = BROKER_SETTINGS.get(name)
    return definition.default if behind is None else broker[behind]


def describe_group(
    overrides: Mapping[str, str], broker: Mapping[str, Any], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """A group's settings as they stand; all of them, or those of ``names`` that exist."""
    wanted = GROUP_CONFIGS if names is None else [name for name in names if name in GROUP_CONFIGS]
    return [_entry(GROUP_CONFIGS[name], overrides, broker) for name in wanted]


def _entry(
    definition: ConfigDef, overrides: Mapping[str, str], broker: Mapping[str, Any]
) -> ConfigEntry:
    name = definition.name
    synonyms: list[ConfigSynonym] = []
    if name in overrides:
        synonyms.append(ConfigSynonym(name=name, value=overrides[name], source=ConfigSource.GROUP))
    behind = BROKER_SETTINGS.get(name)
    value = definition.default if behind is None else broker[behind]
    text = definition.render(value)
    synonyms.append(ConfigSynonym(name=behind or name, value=text, source=ConfigSource.DEFAULT))
    return ConfigEntry(
        definition=definition,
        value=synonyms[0].value,
        source=synonyms[0].source,
        read_only=False,
        synonyms=tuple(synonyms),
    )
