"""The settings of producers and consumers, with Kafka's names and Kafka's defaults.

Every field's Kafka name is its own with dots for underscores: ``linger_ms`` is ``linger.ms``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from millpond.client._options import anything, choice, flag, listing, number, parse_options, text
from millpond.client.errors import BadConfig

ACKS_ALL = -1
ACKS_LEADER = 1
ACKS_NONE = 0

_CODECS = {"none", "gzip", "snappy", "lz4", "zstd"}
_INT = 2**31 - 1
IN_FLIGHT_MAX_IDEMPOTENT = 5  # a broker remembers the last five batches of a producer


def _acks(name: str, value: object) -> int:
    known = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": ACKS_NONE, "1": ACKS_LEADER}
    found = known.get(str(value).strip().lower())
    if found is None:
        raise BadConfig(f"{name} is 0, 1 or all, not {value!r}")
    return found


def _plain(name: str, value: object) -> str:
    if str(value).upper() != "PLAINTEXT":
        raise BadConfig(f"{name}: this client speaks PLAINTEXT only, not {value!r}")
    return "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """The settings of a producer."""

    bootstrap_servers: str | Sequence[str] = anything("localhost:9092")
    client_id: str = text("millpond")
    security_protocol: str = anything("PLAINTEXT", parse=_plain)
    acks: int = anything(ACKS_ALL, parse=_acks)
    enable_idempotence: bool | None = anything()
    transactional_id: str | None = text(None)
    transaction_timeout_ms: int = number(60_000, low=1, high=_INT)
    batch_size: int = number(16_384, high=_INT)
    linger_ms: float = anything(5)
    max_request_size: int = number(1_048_576, low=1, high=_INT)
    buffer_memory: int = number(33_554_432, low=1)
    max_block_ms: int = number(60_000)
    max_in_flight_requests_per_connection: int = number(5, low=1, high=1000)
    compression_type: str = choice("none", _CODECS)
    compression_level: int | None = anything()
    retries: int = number(_INT, high=_INT)
    retry_backoff_ms: int = number(100)
    retry_backoff_max_ms: int = number(1_000)
    delivery_timeout_ms: int = number(120_000, low=1)
    request_timeout_ms: int = number(30_000, low=1)
    metadata_max_age_ms: int = number(300_000)
    socket_connection_setup_timeout_ms: int = number(10_000, low=1)
    partitioner_class: object = anything(None)
    partitioner_ignore_keys: bool = flag(False)
    partitioner_adaptive_partitioning_enable: bool = flag(True)
    interceptor_classes: tuple[Any, ...] = listing()
    key_serializer: object = anything(None)
    value_serializer: object = anything(None)

    def __post_init__(self) -> None:
        try:
            linger = float(self.linger_ms)
        except (TypeError, ValueError):
            linger = -1.0
        if linger < 0:
            raise BadConfig(f"linger.ms is a number of milliseconds, not {self.linger_ms!r}")
        object.__setattr__(self, "linger_ms", linger)
        wanted = self.enable_idempotence
        if isinstance(wanted, str):
            wanted = wanted.strip().lower() == "true"
        possible = (
            self.acks == ACKS_ALL
            and self.retries > 0
            and self.max_in_flight_requests_per_connection <= IN_FLIGHT_MAX_IDEMPOTENT
        )
        if (wanted or self.transactional_id is not None) and not possible:
            raise BadConfig(
                "an idempotent producer needs acks=all, retries above 0 and at most"
                f" {IN_FLIGHT_MAX_IDEMPOTENT} requests in flight; change these or set"
                " enable.idempotence=false"
            )
        if wanted is False and self.transactional_id is not None:
            raise BadConfig("a transactional producer is idempotent; leave enable.idempotence out")
        object.__setattr__(self, "enable_idempotence", possible if wanted is None else wanted)
        if self.delivery_timeout_ms < self.linger_ms:
            raise BadConfig("delivery.timeout.ms is less than linger.ms: nothing could be sent")

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry sequence numbers; on unless another setting rules it out."""
        return bool(self.enable_idempotence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The settings of a consumer."""

    bootstrap_servers: str | Sequence[str] = anything("localhost:9092")
    client_id: str = text("millpond")
    security_protocol: str = anything("PLAINTEXT", parse=_plain)
    group_id: str | None = text(None)
    group_instance_id: str | None = text(None)
    group_protocol: str = choice("classic", {"classic", "consumer"})
    group_remote_assignor: str | None = text(None)
    partition_assignment_strategy: tuple[Any, ...] = listing()
    auto_offset_reset: str = choice("latest", {"latest", "earliest", "none"})
    enable_auto_commit: bool = flag(True)
    auto_commit_interval_ms: int = number(5_000, low=1)
    session_timeout_ms: int = number(45_000, low=1, high=_INT)
    heartbeat_interval_ms: int = number(3_000, low=1, high=_INT)
    max_poll_interval_ms: int = number(300_000, low=1, high=_INT)
    max_poll_records: int = number(500, low=1)
    isolation_level: str = choice("read_uncommitted", {"read_uncommitted", "read_committed"})
    fetch_min_bytes: int = number(1, high=_INT)
    fetch_max_bytes: int = number(52_428_800, low=1, high=_INT)
    fetch_max_wait_ms: int = number(500, high=_INT)
    max_partition_fetch_bytes: int = number(1_048_576, low=1, high=_INT)
    check_crcs: bool = flag(True)
    request_timeout_ms: int = number(30_000, low=1)
    default_api_timeout_ms: int = number(60_000, low=1)
    retry_backoff_ms: int = number(100)
    retry_backoff_max_ms: int = number(1_000)
    metadata_max_age_ms: int = number(300_000)
    socket_connection_setup_timeout_ms: int = number(10_000, low=1)
    exclude_internal_topics: bool = flag(True)
    allow_auto_create_topics: bool = flag(True)
    client_rack: str = text("")
    interceptor_classes: tuple[Any, ...] = listing()
    key_deserializer: object = anything(None)
    value_deserializer: object = anything(None)

    def __post_init__(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise BadConfig("heartbeat.interval.ms must be less than session.timeout.ms")
        if self.group_instance_id is not None and self.group_id is None:
            raise BadConfig("group.instance.id needs a group.id")


_ALIASES = {
    "request.required.acks": "acks",  # the producer of Kafka 0.8
    "compression.codec": "compression.type",
    "compression": "compression.type",
    "partitioner": "partitioner.class",
    "interceptors": "interceptor.classes",
    "idempotent": "enable.idempotence",
}
_CONSUMER_ALIASES = {
    "partitioner": "partitioner.class",
    "interceptors": "interceptor.classes",
    "assignors": "partition.assignment.strategy",
    "max.fetch.bytes": "fetch.max.bytes",
}


def producer_config(given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> ProducerConfig:
    """Return a producer's settings; consumer settings are ignored."""
    return parse_options(
        ProducerConfig, given, keywords, aliases=_ALIASES, elsewhere=_names(ConsumerConfig)
    )


def consumer_config(given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> ConsumerConfig:
    """Return a consumer's settings; producer settings are ignored."""
    return parse_options(
        ConsumerConfig, given, keywords, aliases=_CONSUMER_ALIASES, elsewhere=_names(ProducerConfig)
    )


def _names(kind: type[Any]) -> set[str]:
    return {item.name.replace("_", ".") for item in fields(kind)}
