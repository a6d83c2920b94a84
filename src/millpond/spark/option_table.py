"""The names of the source's options: our own, supported Kafka settings, and refused ones.

A pipeline that was written for the official Kafka connector finds the same names and the same errors.

An unknown option is an error that suggests the nearest known name: a misspelt ``startingOffset`` that is
silently ignored reads the wrong data for weeks.
"""

import difflib
from collections.abc import Iterable, Mapping

from millpond.spark.errors import WrongOption

SOURCE_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    # Our own options.
    "alignPartitions",
    "lossReport",
    "priority",
    "pushFilters",
    "segments",
    "shedBeyond",
    "smallBatchOffsets",
)

# Kafka settings with the same effect as in a Java consumer.
KAFKA_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.check.crcs",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.security.protocol",
)

# Kafka settings of features that this source does not have (a pool of poll results, a group's sessions,
# socket tuning); a pipeline that sets them for the official connector needs none of them.
WITHOUT_MEANING = frozenset(
    {
        "kafka.allow.auto.create.topics",
        "kafka.auto.include.jmx.reporter",
        "kafka.client.dns.lookup",
        "kafka.client.rack",
        "kafka.connections.max.idle.ms",
        "kafka.exclude.internal.topics",
        "kafka.heartbeat.interval.ms",
        "kafka.max.poll.interval.ms",
        "kafka.max.poll.records",
        "kafka.metadata.max.age.ms",
        "kafka.metric.reporters",
        "kafka.metrics.num.samples",
        "kafka.metrics.sample.window.ms",
        "kafka.partition.assignment.strategy",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.retries",
        "kafka.retry.backoff.max.ms",
        "kafka.retry.backoff.ms",
        "kafka.send.buffer.bytes",
        "kafka.session.timeout.ms",
        "kafka.socket.connection.setup.timeout.max.ms",
        "kafka.socket.connection.setup.timeout.ms",
    }
)

# Options that the official connector refuses too.
_REFUSED = {
    "kafka.auto.offset.reset": "use startingOffsets=earliest or latest; it counts when a query starts for the"
    " first time, later the checkpoint does",
    "kafka.key.deserializer": "keys are bytes; use DataFrame operations, such as CAST(key AS STRING)",
    "kafka.value.deserializer": "values are bytes; use DataFrame operations, such as CAST(value AS STRING)",
    "kafka.enable.auto.commit": "the checkpoint says what was read; kafka.group.id shows it as group offsets",
    "kafka.interceptor.classes": "interceptors change records behind Spark's back",
}


def check_names(options: Mapping[str, str], extra: Iterable[str] = ()) -> None:
    """Raise ``WrongOption`` for the first invalid name. Names are case-insensitive."""
    spellings = [*SOURCE_OPTIONS, *KAFKA_OPTIONS, *extra]
    known = {name.lower() for name in spellings} | WITHOUT_MEANING
    for name in options:
        lowered = name.lower()
        if lowered in _REFUSED:
            raise WrongOption(f"option {lowered} is not supported: {_REFUSED[lowered]}")
        if lowered not in known:
            raise WrongOption(f"there is no option {name!r}{suggestion(lowered, spellings)}")


def suggestion(name: str, spellings: Iterable[str]) -> str:
    """Return ``; did you mean …?`` or an empty string."""
    by_lower = {spelling.lower(): spelling for spelling in spellings}
    # Users often write a Kafka setting without the prefix that the connector requires.
    for candidate in (name, f"kafka.{name}"):
        if candidate in by_lower:
            return f"; did you mean {by_lower[candidate]}?"
    found = difflib.get_close_matches(name, by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""
