"""Writes ``docs/configuration.md`` from the table of settings, so that the page cannot say anything else."""

from collections.abc import Iterable

from millpond.metadata.configs import (
    ACCEPTED,
    ACCEPTED_PREFIXES,
    BROKER_NAMES,
    SECURITY_NAMES,
    SUPPORTED,
    TOPIC_CONFIGS,
    ConfigDef,
)

_HEAD = """\
# Configuration

<!-- Written by `millpond config docs` from the table of settings; do not edit by hand. -->

`millpond up` needs no configuration. Everything that can be set has Apache Kafka's name for it,
or for AMQP RabbitMQ's (`rabbitmq.conf`). Settings
come from four places, each winning over the one before:

1. the defaults below;
2. a file, `millpond up --config FILE`: TOML (`.toml`), or a Kafka `server.properties` as it is;
3. environment variables: `MILLPOND_` and the name with underscores, `MILLPOND_LOG_SEGMENT_BYTES=1048576`;
4. the command line: `--listen`, `--data`, and `--set NAME=VALUE` for everything else (`--override` is the
   same, for scripts written for `kafka-server-start.sh`).

An unknown name is refused with the nearest known one. `millpond config show FILE` says what would be in
force and where each value comes from; `millpond config explain NAME` explains one setting.

In TOML, tables and dotted names are the same thing. Names that begin alike have to be in quotes:

```toml
listeners = ["PLAINTEXT://127.0.0.1:9092"]
num.partitions = 3
"max.connections" = 2000
"max.connections.per.ip" = 100

[log]
dirs = "/var/lib/millpond"
retention.hours = 48
```

Five more variables are options of the commands: `MILLPOND_CONFIG` (`--config`), `MILLPOND_LOG_LEVEL` and
`MILLPOND_LOG_FORMAT` of `millpond up`, `MILLPOND_BOOTSTRAP` of the commands that connect to a broker, and
`MILLPOND_EVENT_LOOP=asyncio`, which leaves uvloop out. Everything that is a name and a value here is also
a keyword of `millpond.Broker(...)`, with underscores for dots; a broker inside a program reads neither
files nor variables.

Where a default differs from Kafka's: `listeners` (loopback only), `log.dir`, `node.id`,
`socket.listen.backlog.size` and the two `socket.*.buffer.bytes`; the reasons are in the table.
`segment.bytes` may be smaller than Kafka 4 allows.
"""


_TOPICS = """\
## Topics

Set on a topic when it is created or later (`millpond kafka topic alter`, or any Kafka admin client). What is
not set there comes from the broker settings in the last column; the first that is set wins.
"""

_BROKER = """\
## Broker

Those marked *live* can be altered while the broker runs.
"""

_WITHOUT_EFFECT = """\
## Accepted, no effect

So that files written for Kafka can be used, these are accepted, and named in one line at the start. They
change nothing here: their part works differently, or does not exist yet. Those marked *live* can be altered
while the broker runs, as in Kafka, so that tools which do so go on; the log says then that it has no effect.
"""

_SECURITY = """\
Security settings are accepted with a **warning**, because nothing is enforced yet; a listener that asks for
TLS or SASL is refused:
"""


def configuration_page() -> str:
    """The whole page."""
    prefixes = ", ".join(f"`{prefix}`" for prefix in ACCEPTED_PREFIXES)
    sections = [
        _HEAD,
        _TOPICS,
        _topic_table(),
        _BROKER,
        _broker_table(),
        _WITHOUT_EFFECT,
        _names(_marked(name) for name in ACCEPTED if name not in SECURITY_NAMES),
        f"Names that begin with {prefixes} are accepted too.\n",
        _SECURITY,
        _names(f"`{name}`" for name in sorted(SECURITY_NAMES)),
    ]
    return "\n".join(sections)


def _topic_table() -> str:
    lines = ["| setting | default | valid | meaning | broker setting |", "|---|---|---|---|---|"]
    for definition in TOPIC_CONFIGS.values():
        behind = ", ".join(f"`{each.name}`" for each in BROKER_NAMES.get(definition.name, ()))
        lines.append(
            f"| `{definition.name}` | {_default(definition)} | {_valid(definition)} "
            f"| {_meaning(definition)} | {behind} |"
        )
    return "\n".join(lines) + "\n"


def _broker_table() -> str:
    lines = ["| setting | default | valid | meaning |", "|---|---|---|---|"]
    for definition in SUPPORTED.values():
        live = " *live*" if definition.dynamic else ""
        lines.append(
            f"| {_name(definition)}{live} | {_default(definition)} | {_valid(definition)} "
            f"| {_meaning(definition)} |"
        )
    return "\n".join(lines) + "\n"


def _name(definition: ConfigDef) -> str:
    name = f"`{definition.name}`"
    if definition.members is None:
        return name
    return f"{name}, `{definition.name}.{definition.members.value}`"


def _marked(name: str) -> str:
    return f"`{name}` (*live*)" if ACCEPTED[name].dynamic else f"`{name}`"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) + "\n"


def _default(definition: ConfigDef) -> str:
    text = definition.render(definition.default)
    return "" if not text else f"`{text}`"


def _valid(definition: ConfigDef) -> str:
    return definition.valid_values or definition.type_words


def _meaning(definition: ConfigDef) -> str:
    return definition.doc if definition.effective else f"{definition.doc} *No effect yet.*"
