"""The settings a broker is started with, and where each came from.

Lowest to highest: defaults, a file (TOML, or Kafka's ``server.properties``), the environment
(``MILLPOND_LOG_SEGMENT_BYTES``), the command line. Rules: an unknown name is refused with the nearest known
one, whichever way it came; every problem of a set of settings is reported at once; a setting that changes
nothing here is accepted and said so. Opens no socket and makes no directory.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from millpond.base.errors import InvalidConfig
from millpond.base.limits import LOG_DIRS_MAX
from millpond.engine.quorum.quorum_setup import is_among_others
from millpond.metadata.configs import (
    BROKER_CONFIGS,
    SECURITY_NAMES,
    SUPPORTED,
    BrokerConfig,
    ConfigDef,
    UnknownConfig,
    Value,
    broker_config_def,
    check_connection_limits,
)
from millpond.server.endpoints import (
    Endpoint,
    Listener,
    build_listeners,
    endpoint_beside,
    other_voters,
    parse_endpoint,
)
from millpond.server.properties import read_properties
from millpond.server.protocols import protocol_named, protocol_of, protocols

ENVIRONMENT_PREFIX = "MILLPOND_"
# Variables that are options of the commands, not settings of the broker.
ENVIRONMENT_OPTIONS = frozenset(
    {
        "MILLPOND_CONFIG",
        "MILLPOND_LOG_LEVEL",
        "MILLPOND_LOG_FORMAT",
        "MILLPOND_EVENT_LOOP",
        "MILLPOND_BOOTSTRAP",
        "MILLPOND_MANAGEMENT",
        "MILLPOND_USER",
        "MILLPOND_PASSWORD",
        "MILLPOND_VHOST",
    }
)
# Every setting by its name with nothing but dots; RabbitMQ's have underscores.
_SPELLINGS = {name.replace("_", "."): name for name in BROKER_CONFIGS}
# What Kubernetes tells a container about a service that happens to be called millpond.
_ORCHESTRATED = re.compile(r"MILLPOND_(SERVICE_\w+|PORT|PORT_\w+)")


class Origin(Enum):
    """Which way a value came. Later ones win."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"
    CODE = "code"


class Given(NamedTuple):
    """One value as an operator gave it, not parsed yet."""

    name: str
    value: object
    origin: Origin
    where: str


class Source(NamedTuple):
    """Describe the source of the value in force."""

    origin: Origin
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a broker needs to know before it starts."""

    values: BrokerConfig
    sources: Mapping[str, Source]
    node_id: int
    cluster_id: str | None
    # Where partitions lie, and where the metadata log and everything else does.
    log_dirs: tuple[Path, ...]
    data: Path
    listeners: tuple[Listener, ...]
    skipped_listeners: tuple[Endpoint, ...]
    notices: tuple[str, ...]
    warnings: tuple[str, ...]

    def source_of(self, name: str) -> Source:
        """Return the source of the value in force."""
        return self.sources.get(name, Source(Origin.DEFAULT, "default"))


class InvalidSettings(InvalidConfig):
    """Everything that is wrong with a set of settings, one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load_settings(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[Given] = (),
    served: Mapping[str, str] | None = None,
    served_origin: Origin = Origin.COMMAND_LINE,
) -> Settings:
    """Gather, check and settle everything. Raises ``InvalidSettings``.

    ``served`` has one more listener for each protocol that it names, at ``host:port`` or a port of this
    machine.
    """
    problems: list[str] = []
    given: list[Given] = []
    try:
        given.extend(read_file(file) if file is not None else ())
    except InvalidConfig as error:
        problems.append(str(error))
    strangers: list[str] = []
    try:
        named, strangers = read_environment(environment or {})
        given.extend(named)
    except InvalidSettings as error:
        problems.extend(error.problems)
    given.extend(overrides)
    values, sources = _settle(given, problems)
    if problems:
        raise InvalidSettings(problems)
    remarks = [f"variable {variable} is not a setting; ignored" for variable in strangers]
    if served:
        listeners: tuple[str, ...] = BrokerConfig(values)["listeners"]
        try:
            added, no_ports = _added_listeners(served, listeners)
        except InvalidConfig as error:
            raise InvalidSettings([str(error)]) from None
        remarks.extend(no_ports)
        values["listeners"] = (*listeners, *map(str, added))
        options = ", ".join(protocol_named(name).option for name in served)
        sources["listeners"] = Source(served_origin, options)
    try:
        return _build(BrokerConfig(values), sources, remarks)
    except InvalidConfig as error:
        raise InvalidSettings(str(error).splitlines()) from None


def _added_listeners(
    served: Mapping[str, str], listeners: Iterable[str]
) -> tuple[list[Endpoint], list[str]]:
    """Return the listeners that options ask for, and remarks on those that find no port.

    A protocol that is opened with another one is, too, unless it has a listener. Raises ``InvalidConfig``.
    """
    there = {protocol_of(text.partition("://")[0].upper())[0].name for text in listeners}
    added: dict[str, Endpoint] = {}
    remarks: list[str] = []
    for protocol in protocols():
        if protocol.name in served:
            asked = parse_endpoint(served[protocol.name], setting=protocol.option)
            if asked.name:
                raise InvalidConfig(
                    f"{protocol.option}: {served[protocol.name]!r} names a listener; write host:port, for "
                    f"example {protocol.default_address}, or add it to the listeners"
                )
            added[protocol.name] = Endpoint(
                name=protocol.listener, host=asked.host, port=asked.port
            )
        elif protocol.port_distance and protocol.requires in added and protocol.name not in there:
            beside = endpoint_beside(protocol, added[protocol.requires])
            if beside is not None:
                added[protocol.name] = beside
                continue
            option = protocol_named(protocol.requires).option
            remarks.append(
                f"{option} {served[protocol.requires]}: no {protocol.title}, its port would be above 65535; "
                f"say where it is to be by {protocol.option} HOST:PORT"
            )
    return list(added.values()), remarks


def given_in_code(settings: Mapping[str, object]) -> list[Given]:
    """Settings of an embedded broker, by Kafka's names or with underscores for dots."""
    return [
        Given(_known_spelling(name), value, Origin.CODE, "settings")
        for name, value in settings.items()
    ]


def given_on_command_line(assignment: str, *, option: str) -> Given:
    """``name=value`` of ``--set`` or ``--override``. Raises ``InvalidConfig``."""
    name, equals, value = assignment.partition("=")
    if not equals or not name.strip():
        raise InvalidConfig(f"{option} {assignment}: write name=value")
    return Given(name.strip(), value, Origin.COMMAND_LINE, f"{option} {name.strip()}")


# --- reading files and the environment ------------------------------------------------------------


def read_file(path: Path) -> list[Given]:
    """A TOML file or a Kafka properties file, by its suffix. Raises ``InvalidConfig``."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidConfig(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InvalidConfig(f"{path}: is a directory, not a file of settings") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: cannot be read: {error}") from None
    if path.suffix == ".toml":
        return _read_toml(text, path)
    if path.suffix in {".properties", ".conf", ".cfg"}:
        return _read_properties(text, path)
    raise InvalidConfig(f"{path}: call it .toml, or .properties if it is written as Kafka's")


def read_environment(environment: Mapping[str, str]) -> tuple[list[Given], list[str]]:
    """Settings from ``MILLPOND_*`` variables, and the variables that resemble no setting at all.

    Raises ``InvalidSettings`` for a name that looks like a misspelt setting. Others are left alone: the
    prefix is not ours alone (images, test runs and orchestrators set variables of their own).
    """
    names = {environment_name(name): name for name in BROKER_CONFIGS}
    given: list[Given] = []
    strangers: list[str] = []
    problems: list[str] = []
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in ENVIRONMENT_OPTIONS:
            continue
        if _ORCHESTRATED.fullmatch(variable):
            continue
        name = names.get(variable)
        if name is not None:
            given.append(
                Given(name, environment[variable], Origin.ENVIRONMENT, f"variable {variable}")
            )
            continue
        dotted = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        try:
            broker_config_def(dotted)
        except UnknownConfig as error:
            if error.suggestion:
                problems.append(f"variable {variable}: {error}")
            else:
                strangers.append(variable)
    if problems:
        raise InvalidSettings(problems)
    return given, strangers


def environment_name(name: str) -> str:
    """The variable that sets a setting."""
    return ENVIRONMENT_PREFIX + name.replace(".", "_").upper()


def _read_toml(text: str, path: Path) -> list[Given]:
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(
            f"{path}: not valid TOML: {error}. "
            'If two names begin alike, put them in quotes: "max.connections.per.ip" = 10'
        ) from None
    return [Given(name, value, Origin.FILE, str(path)) for name, value in _flatten(document, "")]


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _read_properties(text: str, path: Path) -> list[Given]:
    try:
        properties = read_properties(text)
    except InvalidConfig as error:
        raise InvalidConfig(f"{path}: {error}") from None
    return [
        Given(key, value, Origin.FILE, f"{path} line {line}") for key, value, line in properties
    ]


def _known_spelling(name: str) -> str:
    """``log_segment_bytes`` as a keyword argument means ``log.segment.bytes``."""
    dotted = name.replace("_", ".")
    return _SPELLINGS.get(dotted, name if "." in name else dotted)


# --- settling -------------------------------------------------------------------------------------


def _settle(
    given: Iterable[Given], problems: list[str]
) -> tuple[dict[str, Value], dict[str, Source]]:
    """The last value of each name wins; all are checked, so that a bad one cannot hide under a good one."""
    values: dict[str, Value] = {}
    sources: dict[str, Source] = {}
    members: dict[str, dict[str, str]] = {}
    for name, raw, origin, where in given:
        try:
            definition = broker_config_def(name)
            if definition.members is not None and name != definition.name:
                place, one = definition.member(name, raw)
                members.setdefault(definition.name, {})[place] = one
                sources[definition.name] = Source(origin, where)
                continue
            blank = _is_blank(raw, definition)
            value = None if blank else definition.from_native(raw)
        except InvalidConfig as error:
            problems.append(f"{where}: {error}")
            continue
        if value is None:
            values.pop(name, None)
            sources.pop(name, None)
            continue
        values[name] = value
        sources[name] = Source(origin, where)
    for name, said in members.items():
        # One by one says more than a list.
        values[name] = tuple(said[place] for place in sorted(said))
    return values, sources


def _is_blank(raw: object, definition: ConfigDef) -> bool:
    """Kafka's files leave a value blank to mean "not set"; a list of choices may really be empty."""
    return isinstance(raw, str) and not raw.strip() and not definition.choices


def _build(values: BrokerConfig, sources: Mapping[str, Source], remarks: Iterable[str]) -> Settings:
    problems: list[str] = []
    listeners: list[Listener] = []
    skipped: list[Endpoint] = []
    log_dirs: tuple[Path, ...] = ()
    node_id = 0
    try:
        node_id = _node_id(values)
    except InvalidConfig as error:
        problems.append(str(error))
    is_alone = not other_voters(values["controller.quorum.voters"], node_id)
    try:
        listeners, skipped = build_listeners(
            listeners=values["listeners"],
            advertised=values["advertised.listeners"],
            security_map=values["listener.security.protocol.map"],
            controller_names=values["controller.listener.names"],
            is_alone=is_alone,
        )
        _check_inter_broker(values, listeners)
        check_connection_limits(values)
    except InvalidConfig as error:
        problems.append(str(error))
    try:
        log_dirs = _log_dirs(values)
    except InvalidConfig as error:
        problems.append(str(error))
    try:
        is_among_others(values, node_id)
    except InvalidConfig as error:
        problems.append(str(error))
    problems.extend(_contradictions(values))
    if problems:
        raise InvalidSettings(problems)
    notices, warnings = _remarks(values, sources, skipped, is_alone=is_alone)
    notices.extend(
        f"listener {listener.bind} can be reached from other machines, and {_let_in(listener)}"
        for listener in listeners
        if not listener.bind.is_loopback
    )
    notices.extend(_idle_settings(values, sources, listeners))
    warnings.extend(remarks)
    return Settings(
        values=values.with_node_id(node_id),
        sources=dict(sources),
        node_id=node_id,
        cluster_id=values["cluster.id"],
        log_dirs=log_dirs,
        data=_metadata_dir(values, log_dirs),
        listeners=tuple(listeners),
        skipped_listeners=tuple(skipped),
        notices=tuple(notices),
        warnings=tuple(warnings),
    )


def _let_in(listener: Listener) -> str:
    """Which clients a listener lets in."""
    if not listener.protocol.has_logins:
        return "every client is let in"
    return "users log in there" + ("" if listener.is_tls else ", with passwords in plain text")


def _log_dirs(values: BrokerConfig) -> tuple[Path, ...]:
    texts: tuple[str, ...] = values["log.dirs"] or (values["log.dir"],)
    if len(texts) > LOG_DIRS_MAX:
        raise InvalidConfig(
            f"log.dirs: {len(texts)} directories are named, and at most {LOG_DIRS_MAX} are possible"
        )
    found: dict[Path, str] = {}
    for text in texts:
        path = Path(text).expanduser()
        other = found.setdefault(path.resolve(), text)
        if other is not text:
            raise InvalidConfig(
                f"log.dirs: {other} and {text} are the same directory; name it once"
            )
    return tuple(Path(text).expanduser() for text in texts)


def _metadata_dir(values: BrokerConfig, log_dirs: tuple[Path, ...]) -> Path:
    text: str | None = values["metadata.log.dir"]
    if text is None:
        return log_dirs[0]
    path = Path(text).expanduser()
    same = (one for one in log_dirs if one.resolve() == path.resolve())
    return next(same, path)


def _node_id(values: BrokerConfig) -> int:
    older = values["broker.id"]
    if older is None or older == -1:
        return int(values["node.id"])
    if values.is_set("node.id") and values["node.id"] != older:
        raise InvalidConfig(
            f"broker.id={older} and node.id={values['node.id']} are two names of one number; keep one of them"
        )
    return int(older)


def _check_inter_broker(values: BrokerConfig, listeners: Iterable[Listener]) -> None:
    name = values["inter.broker.listener.name"]
    known = [listener.name for listener in listeners]
    if name is not None and name.upper() not in known:
        raise InvalidConfig(
            f"inter.broker.listener.name: {name} is not one of the listeners ({', '.join(known)})"
        )


def _contradictions(values: BrokerConfig) -> Iterator[str]:
    for low, high in (
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        ("message.max.bytes", "socket.request.max.bytes"),
    ):
        if values[low] > values[high]:
            yield f"{low} ({values[low]}) must not be more than {high} ({values[high]})"


def _remarks(
    values: BrokerConfig,
    sources: Mapping[str, Source],
    skipped: Iterable[Endpoint],
    *,
    is_alone: bool,
) -> tuple[list[str], list[str]]:
    idle = [
        name for name in sources if name not in SUPPORTED and not _changes_nothing(name, values)
    ]
    notices: list[str] = []
    warnings: list[str] = []
    unprotected = [name for name in idle if name in SECURITY_NAMES]
    without_effect = [name for name in idle if name not in SECURITY_NAMES]
    if without_effect:
        notices.append(f"accepted, no effect: {', '.join(without_effect)}")
    if unprotected:
        warnings.append(
            "security settings are not enforced yet, every client is let in: "
            + ", ".join(unprotected)
        )
    notices.extend(f"listener {endpoint} not opened: it is for controllers" for endpoint in skipped)
    if "controller" in values["process.roles"] and "broker" not in values["process.roles"]:
        warnings.append(
            "process.roles=controller: a node here is a broker, too, and holds partitions"
        )
    if is_alone and values["default.replication.factor"] > 1:
        warnings.append(
            f"default.replication.factor={values['default.replication.factor']} on a single node: "
            "topics that do not ask for one replica will be refused"
        )
    return notices, warnings


def _idle_settings(
    values: BrokerConfig, sources: Iterable[str], listeners: Iterable[Listener]
) -> Iterator[str]:
    """Name the settings that were given for protocols that no listener has."""
    there = {listener.protocol for listener in listeners}
    for protocol in protocols():
        if protocol in there:
            continue
        idle = [
            name
            for name in sources
            if name.startswith(protocol.settings) and not _changes_nothing(name, values)
        ]
        if idle:
            yield f"no listener speaks {protocol.title}, so these have no effect: {', '.join(idle)}"


def _changes_nothing(name: str, values: BrokerConfig) -> bool:
    """Set to what it is anyway: not worth a line."""
    return name in BROKER_CONFIGS and values[name] == BROKER_CONFIGS[name].default
