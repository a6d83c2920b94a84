"""The settings of a topic's log. Kafka's defaults, plus the flush policy, which is ours."""

from dataclasses import dataclass

from millpond.base import limits
from millpond.base.ids import Offset

DAY_MS = 24 * 60 * 60 * 1000
LONG_MAX = 2**63 - 1
# Kafka's default level of lz4 stands for its fast mode; every other is a level of the high-compression mode.
LZ4_LEVEL_FAST = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings that the log core reads; units are in the names."""

    segment_bytes: int = limits.SEGMENT_BYTES_MAX
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    preallocate: bool = False  # accepted; appends to the page cache gain nothing from it

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000

    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX

    max_message_bytes: int = limits.MESSAGE_BYTES_MAX
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = LZ4_LEVEL_FAST
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000

    flush_policy: str = "os"
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX

    producer_id_expiration_ms: int = DAY_MS
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    # Whether producers may have records appended later.
    millpond_delay_enable: bool = False
    # What consumers get where records are lost: "fail" or "skip".
    unreadable_records: str = "fail"

    @property
    def compression_level(self) -> int | None:
        """The level of the topic's own codec; None for the codec's default."""
        match self.compression_type:
            case "gzip":
                return self.compression_gzip_level
            case "lz4" if self.compression_lz4_level != LZ4_LEVEL_FAST:
                return self.compression_lz4_level
            case "zstd":
                return self.compression_zstd_level
            case _:
                return None

    @property
    def compacts(self) -> bool:
        """Whether compaction may remove old values of a key."""
        return "compact" in self.cleanup_policy

    def gaps_below(self, cleaner_offset: Offset) -> Offset:
        """Return below which offset records may be missing without a loss, if compaction has been up to
        there.

        Anywhere in a log that is compacted or ever was, here or on a leader that it was copied from: passes
        remove some records above the offset that they record.
        """
        return LONG_MAX if self.compacts or cleaner_offset > 0 else 0

    @property
    def deletes(self) -> bool:
        """Whether retention may delete old segments."""
        return "delete" in self.cleanup_policy

    @property
    def uses_append_time(self) -> bool:
        """Whether the broker's clock replaces the producer's."""
        return self.message_timestamp_type == "LogAppendTime"
