"""The settings a topic can have, and the broker settings that give each its default.

Names, types, defaults and bounds are Apache Kafka 4.x's. Two differences, both on purpose: ``segment.bytes``
may be as small as 14 bytes (Kafka 3's bound; 4.x wants 1 MiB), so that rolling can be watched in a test, and
``flush.policy``, ``millpond.delay.enable`` and ``unreadable.records`` are ours.
"""

from dataclasses import dataclass
from typing import Final

from millpond.base import limits
from millpond.metadata.config_def import INT_MAX, LONG_MAX, ConfigDef, ConfigType

_BOOLEAN, _STRING, _INT, _LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
)
_DOUBLE, _LIST = ConfigType.DOUBLE, ConfigType.LIST

COMPRESSION_CHOICES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
DELAY_ENABLE: Final = "millpond.delay.enable"
WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
HOUR_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class BrokerName:
    """A broker setting that stands behind a topic setting, and how many of the topic's units are in one."""

    name: str
    factor: int = 1


def _topic(
    name: str,
    kind: ConfigType,
    default: bool | int | float | str | tuple[str, ...],
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    effective: bool = True,
) -> ConfigDef:
    return ConfigDef(
        name=name,
        type=kind,
        default=default,
        doc=doc,
        choices=choices,
        minimum=minimum,
        maximum=maximum,
        dynamic=True,
        effective=effective,
    )


TOPIC_CONFIGS: Final[dict[str, ConfigDef]] = {
    row.name: row
    for row in (
        _topic(
            "cleanup.policy", _LIST, ("delete",),
            "What happens to old data: delete whole segments past their retention, compact to the latest "
            "record of each key, or both. Empty keeps everything.",
            choices=("delete", "compact"),
        ),
        _topic(
            "compression.gzip.level", _INT, -1,
            "Level when compression.type is gzip; -1 is the codec's own default.",
            minimum=-1, maximum=9,
        ),
        _topic(
            "compression.lz4.level", _INT, 9,
            "Level when compression.type is lz4.",
            minimum=1, maximum=17,
        ),
        _topic(
            "compression.type", _STRING, "producer",
            "How batches are stored: as the producer sent them, uncompressed, or recompressed with a codec.",
            choices=COMPRESSION_CHOICES,
        ),
        _topic(
            "compression.zstd.level", _INT, 3,
            "Level when compression.type is zstd.",
            minimum=-131072, maximum=22,
        ),
        _topic(
            "delete.retention.ms", _LONG, 24 * HOUR_MS,
            "How long a compacted topic keeps tombstones, so that slow readers still see the deletion.",
            minimum=0,
        ),
        _topic(
            "file.delete.delay.ms", _LONG, 60_000,
            "How long a removed segment's files stay on disk for readers that still hold them.",
            minimum=0,
        ),
        _topic(
            "flush.messages", _LONG, LONG_MAX,
            "Force the log to disk after this many messages.",
            minimum=1,
        ),
        _topic(
            "flush.ms", _LONG, LONG_MAX,
            "Force the log to disk when data has waited this long.",
            minimum=0,
        ),
        _topic(
            "flush.policy", _STRING, "os",
            "Millpond's own. os: acknowledge when the operating system has the data, replication protects; "
            "group: acknowledge only after an fsync, which many requests share.",
            choices=("os", "group"),
        ),
        _topic(
            "follower.replication.throttled.replicas", _LIST, (),
            "Replicas (partition:node, or *) that take no more than follower.replication.throttled.rate "
            "while they are not in sync.",
        ),
        _topic(
            "index.interval.bytes", _INT, 4096,
            "One entry in the offset index for about this many bytes of log.",
            minimum=0,
        ),
        _topic(
            "leader.replication.throttled.replicas", _LIST, (),
            "Replicas (partition:node, or *) that send no more than leader.replication.throttled.rate to "
            "replicas that are not in sync.",
        ),
        _topic(
            "local.retention.bytes", _LONG, -2,
            "Bytes kept locally when tiered storage is on.",
            minimum=-2, effective=False,
        ),
        _topic(
            "local.retention.ms", _LONG, -2,
            "Time kept locally when tiered storage is on.",
            minimum=-2, effective=False,
        ),
        _topic(
            "max.compaction.lag.ms", _LONG, LONG_MAX,
            "The longest a record may wait before it becomes a candidate for compaction.",
            minimum=1,
        ),
        _topic(
            "max.message.bytes", _INT, limits.MESSAGE_BYTES_MAX,
            "The largest record batch the topic accepts, as sent (after compression).",
            minimum=0,
        ),
        _topic(
            "message.timestamp.after.max.ms", _LONG, HOUR_MS,
            "How far ahead of the broker's clock a record's timestamp may be.",
            minimum=0,
        ),
        _topic(
            "message.timestamp.before.max.ms", _LONG, LONG_MAX,
            "How far behind the broker's clock a record's timestamp may be.",
            minimum=0,
        ),
        _topic(
            "message.timestamp.type", _STRING, "CreateTime",
            "Whose time a record carries: its producer's, or the moment of the append.",
            choices=("CreateTime", "LogAppendTime"),
        ),
        _topic(
            DELAY_ENABLE, _BOOLEAN, False,
            "Millpond's own. Records with the header millpond.delay or millpond.deliver-at are appended when "
            "they are due (docs/timers.md). Not for compacted topics. To end it set it to false; that keeps "
            "the records that are pending.",
        ),
        _topic(
            "min.cleanable.dirty.ratio", _DOUBLE, 0.5,
            "Compact when at least this share of the log has not been compacted yet.",
            minimum=0, maximum=1,
        ),
        _topic(
            "min.compaction.lag.ms", _LONG, 0,
            "The shortest time a record stays uncompacted.",
            minimum=0,
        ),
        _topic(
            "min.insync.replicas", _INT, 1,
            "acks=all is refused when fewer replicas than this are in sync.",
            minimum=1,
        ),
        _topic(
            "preallocate", _BOOLEAN, False,
            "Reserve a segment's disk space when it is created.",
            effective=False,
        ),
        _topic(
            "remote.log.copy.disable", _BOOLEAN, False,
            "Stop copying to tiered storage.",
            effective=False,
        ),
        _topic(
            "remote.log.delete.on.disable", _BOOLEAN, False,
            "Delete tiered data when tiered storage is switched off.",
            effective=False,
        ),
        _topic(
            "remote.storage.enable", _BOOLEAN, False,
            "Tiered storage for this topic.",
            effective=False,
        ),
        _topic(
            "retention.bytes", _LONG, -1,
            "Delete the oldest segments of a partition when it grows past this; -1 is no limit.",
            minimum=-1,
        ),
        _topic(
            "retention.ms", _LONG, WEEK_MS,
            "Delete segments whose newest record is older than this; -1 is no limit.",
            minimum=-1,
        ),
        _topic(
            "segment.bytes", _INT, limits.SEGMENT_BYTES_MAX,
            "Start a new segment file when the current one would grow past this.",
            minimum=14,
        ),
        _topic(
            "segment.index.bytes", _INT, 10 * 1024 * 1024,
            "The largest index file; a full index starts a new segment.",
            minimum=4,
        ),
        _topic(
            "segment.jitter.ms", _LONG, 0,
            "Spread the rolling of segments by up to this much, so that not all roll at once.",
            minimum=0,
        ),
        _topic(
            "segment.ms", _LONG, WEEK_MS,
            "Start a new segment after this time even if the current one is small.",
            minimum=1,
        ),
        _topic(
            "unclean.leader.election.enable", _BOOLEAN, False,
            "Let a replica that is behind lead when no other is left, at the price of lost records.",
        ),
        _topic(
            "unreadable.records", _STRING, "fail",
            "Millpond's own. What a reader gets at records that the disk has lost or damaged and no other "
            "replica has. fail: the error CORRUPT_MESSAGE, until the reader seeks behind them; skip: the "
            "records behind them.",
            choices=("fail", "skip"),
        ),
    )
}  # fmt: skip

# First set wins. What is absent here has no broker setting behind it.
BROKER_NAMES: Final[dict[str, tuple[BrokerName, ...]]] = {
    "cleanup.policy": (BrokerName("log.cleanup.policy"),),
    "compression.gzip.level": (BrokerName("compression.gzip.level"),),
    "compression.lz4.level": (BrokerName("compression.lz4.level"),),
    "compression.type": (BrokerName("compression.type"),),
    "compression.zstd.level": (BrokerName("compression.zstd.level"),),
    "delete.retention.ms": (BrokerName("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (BrokerName("log.segment.delete.delay.ms"),),
    "flush.messages": (BrokerName("log.flush.interval.messages"),),
    "flush.ms": (
        BrokerName("log.flush.interval.ms"),
        BrokerName("log.flush.scheduler.interval.ms"),
    ),
    "flush.policy": (BrokerName("log.flush.policy"),),
    "unreadable.records": (BrokerName("log.unreadable.records"),),
    "local.retention.bytes": (BrokerName("log.local.retention.bytes"),),
    "local.retention.ms": (BrokerName("log.local.retention.ms"),),
    "index.interval.bytes": (BrokerName("log.index.interval.bytes"),),
    "max.compaction.lag.ms": (BrokerName("log.cleaner.max.compaction.lag.ms"),),
    "max.message.bytes": (BrokerName("message.max.bytes"),),
    "message.timestamp.after.max.ms": (BrokerName("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (BrokerName("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (BrokerName("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (BrokerName("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (BrokerName("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (BrokerName("min.insync.replicas"),),
    "preallocate": (BrokerName("log.preallocate"),),
    "retention.bytes": (BrokerName("log.retention.bytes"),),
    "retention.ms": (
        BrokerName("log.retention.ms"),
        BrokerName("log.retention.minutes", 60_000),
        BrokerName("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": (BrokerName("log.segment.bytes"),),
    "segment.index.bytes": (BrokerName("log.index.size.max.bytes"),),
    "segment.jitter.ms": (
        BrokerName("log.roll.jitter.ms"),
        BrokerName("log.roll.jitter.hours", HOUR_MS),
    ),
    "segment.ms": (BrokerName("log.roll.ms"), BrokerName("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (BrokerName("unclean.leader.election.enable"),),
}

assert set(BROKER_NAMES) <= set(TOPIC_CONFIGS)
assert TOPIC_CONFIGS["segment.bytes"].default == limits.SEGMENT_BYTES_MAX <= INT_MAX
