"""The source's options, parsed once and checked before anything is read.

Every invalid option is reported here, by its name, before a broker is contacted. The result is plain data
that can be pickled to executors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from millpond.base.ids import TopicPartition
from millpond.spark.errors import WrongOption
from millpond.spark.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    Where,
    names,
    parse_partitions,
    parse_times,
    parse_where,
)
from millpond.spark.option_table import check_names

# Queries with an unbounded first batch fail on their own backlog. A million small records are a few seconds
# of work for one core and some hundred megabytes in flight.
OFFSETS_PER_TRIGGER_DEFAULT = 1_000_000

# How long the source waits for brokers that are away before the query fails (and can be restarted from its
# checkpoint): long enough for a restart, Spark's own network time-out.
BROKER_TIMEOUT_S_DEFAULT = 120.0

TRIGGER_DELAY_MS_DEFAULT = 15 * 60 * 1000  # as in the official connector

SMALL_BATCH_OFFSETS_DEFAULT = 1000  # more than that justifies a task for each partition

PARTITION_FETCH_BYTES_DEFAULT = 4 * 1024 * 1024  # one Arrow batch of about ten thousand records
FETCH_BYTES_DEFAULT = 50 * 1024 * 1024  # Java's fetch.max.bytes


class Isolation(IntEnum):
    """Which transactional records are read; the numbers of Kafka's protocol."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class NoMatch(IntEnum):
    """What to do when no record is at or after a starting time."""

    ERROR = 0
    LATEST = 1


@dataclass(frozen=True, slots=True)
class Topics:
    """``subscribe``: all partitions of these topics."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"subscribe={','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """``subscribePattern``: all partitions of the topics whose whole name matches."""

    pattern: str

    def __str__(self) -> str:
        return f"subscribePattern={self.pattern}"

    def matches(self, topic: str) -> bool:
        """Return whether the pattern matches the whole name."""
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class Partitions:
    """``assign``: exactly these partitions."""

    places: frozenset[TopicPartition]

    def __str__(self) -> str:
        return f"assign={names(self.places)}"


Subscription: TypeAlias = Topics | TopicPattern | Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """How to reach the brokers."""

    bootstrap: str
    client_id: str = "millpond-spark"
    timeout_s: float = BROKER_TIMEOUT_S_DEFAULT
    request_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """The limits of fetches."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    max_bytes: int = FETCH_BYTES_DEFAULT
    partition_bytes: int = PARTITION_FETCH_BYTES_DEFAULT
    min_bytes: int = 1
    max_wait_ms: int = 500
    check_crcs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a query reads, and how."""

    subscription: Subscription
    broker: BrokerSettings | None = None  # none when segment files are read
    segments: str | None = None
    fetch: FetchSettings = field(default_factory=FetchSettings)
    starting: Where | None = None
    ending: Where = Edge.LATEST
    no_match: NoMatch = NoMatch.ERROR
    offsets_per_trigger_max: int = OFFSETS_PER_TRIGGER_DEFAULT
    offsets_per_trigger_min: int | None = None
    trigger_delay_ms_max: int = TRIGGER_DELAY_MS_DEFAULT
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    small_batch_offsets: int = SMALL_BATCH_OFFSETS_DEFAULT
    fail_on_data_loss: bool = True
    loss_report: str | None = None
    align_partitions: bool = False
    priority: tuple[str, ...] = ()
    shed_beyond: int | None = None
    include_headers: bool = False
    group_id: str | None = None
    push_filters: bool = False
    offset_tries: int = 3
    offset_retry_s: float = 1.0


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse options by case-insensitive name; ``WrongOption`` says which one is wrong and how."""
    check_names(options)
    given = _Given({name.lower(): value for name, value in options.items()})
    segments = given.text("segments")
    _check_security(given)
    parsed = SourceOptions(
        subscription=_subscription(given),
        broker=None if segments else parse_broker_settings(options),
        segments=segments,
        fetch=FetchSettings(
            isolation=Isolation[
                given.word("kafka.isolation.level", "read_uncommitted", "read_committed").upper()
            ],
            max_bytes=given.number("kafka.fetch.max.bytes", FETCH_BYTES_DEFAULT, low=1024),
            partition_bytes=given.number(
                "kafka.max.partition.fetch.bytes", PARTITION_FETCH_BYTES_DEFAULT, low=1024
            ),
            min_bytes=given.number("kafka.fetch.min.bytes", 1, low=0),
            max_wait_ms=given.number("kafka.fetch.max.wait.ms", 500, low=0),
            check_crcs=given.flag("kafka.check.crcs", True),
        ),
        starting=_where(given, "starting"),
        ending=_where(given, "ending") or Edge.LATEST,
        no_match=NoMatch[
            given.word("startingOffsetsByTimestampStrategy", "error", "latest").upper()
        ],
        offsets_per_trigger_max=given.number(
            "maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER_DEFAULT, low=1
        ),
        offsets_per_trigger_min=given.number_or_none("minOffsetsPerTrigger", low=1),
        trigger_delay_ms_max=given.duration_ms("maxTriggerDelay", TRIGGER_DELAY_MS_DEFAULT),
        partitions_min=given.number_or_none("minPartitions", low=1),
        records_per_partition_max=given.number_or_none("maxRecordsPerPartition", low=1),
        small_batch_offsets=given.number("smallBatchOffsets", SMALL_BATCH_OFFSETS_DEFAULT, low=0),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        loss_report=given.text("lossReport"),
        align_partitions=given.flag("alignPartitions", False),
        priority=_listed(given.text("priority")),
        shed_beyond=given.number_or_none("shedBeyond", low=2),
        include_headers=given.flag("includeHeaders", False),
        group_id=given.text("kafka.group.id"),
        push_filters=given.flag("pushFilters", False),
        offset_tries=given.number("fetchOffset.numRetries", 3, low=1),
        offset_retry_s=given.number("fetchOffset.retryIntervalMs", 1000, low=0) / 1000,
    )
    _check_together(given, parsed)
    return parsed


def parse_broker_settings(options: Mapping[str, str]) -> BrokerSettings:
    """Parse the connection settings in the ``kafka.*`` options that source and sink share."""
    given = _Given({name.lower(): value for name, value in options.items()})
    bootstrap = given.text("kafka.bootstrap.servers")
    if bootstrap is None:
        raise WrongOption(
            "option kafka.bootstrap.servers is missing; give the broker's host:port,"
            ' such as .option("kafka.bootstrap.servers", "localhost:9092")'
        )
    timeout_ms = given.number_or_none("kafkaConsumer.pollTimeoutMs", low=1) or given.number(
        "kafka.default.api.timeout.ms", int(BROKER_TIMEOUT_S_DEFAULT * 1000), low=1
    )
    return BrokerSettings(
        bootstrap=bootstrap,
        client_id=given.text("kafka.client.id") or "millpond-spark",
        timeout_s=timeout_ms / 1000,
        request_s=given.number("kafka.request.timeout.ms", 30_000, low=1) / 1000,
    )


def check_for_batch(options: SourceOptions) -> None:
    """Refuse options that a batch query may not have."""
    starting, ending = options.starting, options.ending
    if starting is Edge.LATEST:
        raise WrongOption("startingOffsets=latest: a batch query would read nothing; give earliest")
    if ending is Edge.EARLIEST:
        raise WrongOption("endingOffsets=earliest: a batch query would read nothing; give latest")
    if options.shed_beyond is not None:
        raise WrongOption("shedBeyond is for streams; a batch query reads what it is asked to")
    if isinstance(starting, AtOffsets) and LATEST in starting.offsets.values():
        raise WrongOption("startingOffsets: -1 (latest) is not for batch queries")
    if isinstance(ending, AtOffsets) and EARLIEST in ending.offsets.values():
        raise WrongOption("endingOffsets: -2 (earliest) is not for batch queries")
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_pairs("Offsets", starting.offsets, ending.offsets)
    if isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
        _check_pairs("OffsetsByTimestamp", starting.times, ending.times)


def check_for_stream(options: SourceOptions) -> None:
    """Refuse options that a streaming query may not have."""
    if options.ending is not Edge.LATEST:
        raise WrongOption("ending offsets and times are for batch queries; a stream has no end")


def _check_pairs(
    what: str, starting: Mapping[TopicPartition, int], ending: Mapping[TopicPartition, int]
) -> None:
    if starting.keys() != ending.keys():
        odd = starting.keys() ^ ending.keys()
        raise WrongOption(
            f"starting{what} and ending{what} must name the same partitions: {names(odd)}"
        )
    for place, first in starting.items():
        if 0 <= ending[place] < first:
            raise WrongOption(
                f"starting{what} is {first} for {place}, after ending{what} {ending[place]}"
            )


def _check_together(given: "_Given", parsed: SourceOptions) -> None:
    least = parsed.offsets_per_trigger_min
    if least is not None and least > parsed.offsets_per_trigger_max:
        raise WrongOption(
            f"minOffsetsPerTrigger={least} is more than"
            f" maxOffsetsPerTrigger={parsed.offsets_per_trigger_max}"
        )
    if parsed.priority and parsed.align_partitions:
        raise WrongOption("priority and alignPartitions contradict each other: give one of them")
    if isinstance(parsed.subscription, Topics):
        strange = [name for name in parsed.priority if name not in parsed.subscription.names]
        if strange:
            raise WrongOption(f"priority names {', '.join(strange)}, which subscribe does not")
    if parsed.segments and given.text("kafka.bootstrap.servers"):
        raise WrongOption(
            "segments reads files and kafka.bootstrap.servers a broker: give one of them"
        )
    if parsed.segments and parsed.group_id:
        raise WrongOption(
            "segments reads files: there is no broker for the offsets of kafka.group.id"
        )


def _check_security(given: "_Given") -> None:
    protocol = given.text("kafka.security.protocol")
    if protocol is not None and protocol.upper() != "PLAINTEXT":
        raise WrongOption(f"kafka.security.protocol={protocol}: this source speaks PLAINTEXT only")


def _subscription(given: "_Given") -> Subscription:
    ways = ("subscribe", "subscribePattern", "assign")
    chosen = [name for name in ways if given.has(name)]
    if len(chosen) != 1:
        how_many = "one" if not chosen else f"only one (not {' and '.join(chosen)})"
        raise WrongOption(f"give {how_many} of the options subscribe, subscribePattern and assign")
    text = given.text(chosen[0])
    if text is None:
        raise WrongOption(f"option {chosen[0]} is empty")
    if chosen[0] == "assign":
        return Partitions(parse_partitions("assign", text))
    if chosen[0] == "subscribe":
        topics = _listed(text)
        if not topics:
            raise WrongOption(f"subscribe={text!r} names no topic")
        return Topics(topics)
    try:
        re.compile(text)
    except re.error as error:
        raise WrongOption(f"subscribePattern={text!r} is no pattern: {error}") from None
    return TopicPattern(text)


def _listed(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas, without duplicates."""
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _where(given: "_Given", side: str) -> Where | None:
    """Return one side's position. One time for all overrides times, times override offsets, as officially."""
    text = given.text(f"{side}Timestamp")
    if text is not None:
        return AtTime(given.number(f"{side}Timestamp", 0, low=0))
    text = given.text(f"{side}OffsetsByTimestamp")
    if text is not None:
        return parse_times(f"{side}OffsetsByTimestamp", text)
    text = given.text(f"{side}Offsets")
    return None if text is None else parse_where(f"{side}Offsets", text)


_DURATION = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?", re.IGNORECASE)
_MILLISECONDS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


class _Given:
    """Option texts by lower-case name, with typed access."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def has(self, name: str) -> bool:
        return name.lower() in self._texts

    def text(self, name: str) -> str | None:
        return (self._texts.get(name.lower()) or "").strip() or None

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in {"true", "false"}:
            raise WrongOption(f"{name}={text!r}: write true or false")
        return text.lower() == "true"

    def word(self, name: str, default: str, *others: str) -> str:
        text = (self.text(name) or default).lower()
        if text not in {default, *others}:
            raise WrongOption(f"{name}={text!r}: write {' or '.join((default, *others))}")
        return text

    def number(self, name: str, default: int, *, low: int) -> int:
        found = self.number_or_none(name, low=low)
        return default if found is None else found

    def number_or_none(self, name: str, *, low: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise WrongOption(f"{name}={text!r}: write a whole number") from None
        if value < low:
            raise WrongOption(f"{name}={value}: must be at least {low}")
        return value

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        match = _DURATION.fullmatch(text)
        if match is None:
            raise WrongOption(f"{name}={text!r}: write a time such as 500ms, 30s or 15m")
        unit = (match[2] or "ms").lower()
        return int(int(match[1]) * (86_400_000 if unit == "d" else _MILLISECONDS[unit]))
