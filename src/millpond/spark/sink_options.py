"""The options of queries that write, by the official connector's names, and their columns.

Everything is checked on the driver before the first row is written, so that a mistake costs an error message
and not a failed stage.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millpond.base.errors import MillpondError
from millpond.client._model import parse_bootstrap
from millpond.record import Compression
from millpond.spark.errors import WrongOption
from millpond.spark.sink_errors import WrongColumns

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"

DEFAULT_PREFIX = "millpond-spark"

# A query that is killed leaves its transactions open until it is restarted, or until this time-out; consumers
# with ``read_committed`` wait for them. A broker's own limit is 15 minutes unless it is changed.
TRANSACTION_TIMEOUT_MS = 300_000
DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000
BATCH_BYTES = 256 * 1024

_KNOWN = (
    "kafka.bootstrap.servers",
    "topic",
    "delivery",
    "transactionalIdPrefix",
    "txnAppId",
    "txnVersion",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.client.id",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.request.timeout.ms",
    "kafka.security.protocol",
    "kafka.transaction.timeout.ms",
    # Spark's own options, which reach the sink too.
    "checkpointLocation",
    "path",
    "queryName",
    "outputMode",
    "includeHeaders",
)
# Tuning of Java's producer that has no meaning here and does no harm.
_WITHOUT_MEANING = frozenset(
    {
        "kafka.buffer.memory",
        "kafka.connections.max.idle.ms",
        "kafka.enable.idempotence",
        "kafka.linger.ms",
        "kafka.max.block.ms",
        "kafka.max.in.flight.requests.per.connection",
        "kafka.max.request.size",
        "kafka.metadata.max.age.ms",
        "kafka.metadata.max.idle.ms",
        "kafka.partitioner.class",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.retries",
        "kafka.retry.backoff.max.ms",
        "kafka.retry.backoff.ms",
        "kafka.send.buffer.bytes",
    }
)
_REFUSED = {
    "kafka.key.serializer": "keys are bytes or text; use DataFrame operations, such as CAST(key AS STRING)",
    "kafka.value.serializer": "values are bytes or text; use DataFrame operations, such as to_json",
    "kafka.interceptor.classes": "interceptors change records behind Spark's back",
    "kafka.transactional.id": "the sink makes one for each task; say transactionalIdPrefix",
}

_BYTES = ("string", "binary")
_HEADERS = "array<struct<key:string,value:binary>>"
_COLUMN_TYPES: dict[str, tuple[str, ...]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """A sink's settings, checked."""

    bootstrap: str
    topic: str | None = None
    delivery: str = EXACTLY_ONCE
    transactional_id_prefix: str = DEFAULT_PREFIX
    compression: Compression = Compression.NONE
    batch_bytes: int = BATCH_BYTES
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    client_id: str = DEFAULT_PREFIX
    txn_app_id: str | None = None
    txn_version: int | None = None

    @property
    def is_exactly_once(self) -> bool:
        """Whether rows are written in transactions."""
        return self.delivery == EXACTLY_ONCE

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "SinkOptions":
        """Parse Spark's options, whose names are case-insensitive. ``WrongOption`` names the invalid one."""
        options = {name.lower(): value for name, value in given.items()}
        _check_names(options)
        delivery = options.get("delivery", EXACTLY_ONCE).lower()
        if delivery not in {EXACTLY_ONCE, AT_LEAST_ONCE}:
            raise WrongOption(
                f"option delivery is {EXACTLY_ONCE} or {AT_LEAST_ONCE}, not {delivery!r}"
            )
        if options.get("kafka.acks", "all") not in {"all", "-1"}:
            raise WrongOption("option kafka.acks is all: a sink that does not wait loses records")
        app, version = options.get("txnappid"), options.get("txnversion")
        if (app is None) != (version is None):
            raise WrongOption("the options txnAppId and txnVersion go together")
        return cls(
            bootstrap=_bootstrap(options),
            topic=options.get("topic"),
            delivery=delivery,
            transactional_id_prefix=options.get("transactionalidprefix", DEFAULT_PREFIX),
            compression=_compression(options.get("kafka.compression.type", "none")),
            batch_bytes=_number(options, "kafka.batch.size", BATCH_BYTES),
            transaction_timeout_ms=_number(
                options, "kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS
            ),
            delivery_timeout_ms=_number(options, "kafka.delivery.timeout.ms", DELIVERY_TIMEOUT_MS),
            request_timeout_ms=_number(options, "kafka.request.timeout.ms", REQUEST_TIMEOUT_MS),
            client_id=options.get("kafka.client.id", DEFAULT_PREFIX),
            txn_app_id=app,
            txn_version=None if version is None else _number(options, "txnVersion", 0, least=0),
        )


def check_schema(schema: Any, options: SinkOptions) -> None:
    """Check that rows of this ``StructType`` can be records. Columns of other names are ignored."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    where = f"topic={options.topic}: " if options.topic else ""
    if "value" not in found:
        raise WrongColumns(
            f'{where}there is no column "value" (string or binary); the columns are'
            f" {', '.join(found) or 'none'}. to_json(struct(*)) AS value makes one"
        )
    if options.topic is None and "topic" not in found:
        raise WrongColumns(
            'where to? Say .option("topic", "name") or give a column "topic" (string)'
        )
    for name, accepted in _COLUMN_TYPES.items():
        if name in found and found[name] not in accepted:
            raise WrongColumns(
                f'{where}column "{name}" is {found[name]}; a record takes {" or ".join(accepted)}'
            )


def _check_names(options: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in _KNOWN}
    for name in options:
        if name in known or name in _WITHOUT_MEANING:
            continue
        if name in _REFUSED:
            raise WrongOption(f"option {name} is not supported: {_REFUSED[name]}")
        close = known.get(f"kafka.{name}")
        if close is None:
            found = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            close = known[found[0]] if found else None
        raise WrongOption(
            f"the sink has no option {name!r}" + (f"; did you mean {close}?" if close else "")
        )
    protocol = options.get("kafka.security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise WrongOption(f"option kafka.security.protocol is PLAINTEXT here, not {protocol}")


def _bootstrap(options: Mapping[str, str]) -> str:
    bootstrap = options.get("kafka.bootstrap.servers", "").strip()
    if not bootstrap:
        raise WrongOption(
            'option kafka.bootstrap.servers is missing: .option("kafka.bootstrap.servers", "host:9092")'
        )
    try:
        parse_bootstrap(bootstrap)
    except MillpondError as error:
        raise WrongOption(f"option kafka.bootstrap.servers: {error}") from None
    return bootstrap


def _compression(name: str) -> Compression:
    try:
        return Compression[name.upper()]
    except KeyError:
        codecs = ", ".join(codec.name.lower() for codec in Compression)
        raise WrongOption(
            f"option kafka.compression.type is one of {codecs}, not {name!r}"
        ) from None


def _number(options: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    said = options.get(name.lower())
    if said is None:
        return default
    try:
        number = int(said)
    except ValueError:
        number = least - 1
    if number < least:
        raise WrongOption(f"option {name} is a whole number from {least} on, not {said!r}")
    return number
