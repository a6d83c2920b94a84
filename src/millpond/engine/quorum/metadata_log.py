"""The metadata log: opens it, and reads its records and voters."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.base.ids import Offset, TimestampMs, TopicPartition
from millpond.engine.quorum.raft_log import DiskRaftLog
from millpond.log.config import LogConfig
from millpond.log.log_dir import LogDir
from millpond.log.partition_log import PartitionLog
from millpond.metadata.controller import METADATA_TOPIC
from millpond.metadata.records import MetadataRecord, decode_record
from millpond.raft.control import voter_sets_in
from millpond.raft.voters import VoterSet
from millpond.record.batch import check_crc, iter_batches
from millpond.record.records import decode_batch

# The metadata log loses its beginning to snapshots only, is flushed before every answer, and must take the
# facts of the largest request in one batch, which makes that request happen as a whole or not at all.
METADATA_LOG_CONFIG = LogConfig(
    retention_ms=-1,
    retention_bytes=-1,
    flush_policy="group",
    max_message_bytes=64 * 1024 * 1024,
    message_timestamp_after_max_ms=2**63 - 1,
)

METADATA_KEY = TopicPartition(METADATA_TOPIC, 0)

_TOPIC_ID = UUID(int=1)  # Kafka's own for this topic
_READ_BYTES = 1024 * 1024


class FactBatch(NamedTuple):
    """The facts of one batch (none in a batch of the quorum's own) and where the next one begins."""

    records: list[MetadataRecord]
    voters: list[tuple[Offset, VoterSet]]
    next_offset: Offset


def open_metadata_log(log_dir: LogDir, now_ms: TimestampMs) -> PartitionLog:
    """Open the metadata log of a directory, creating it if there is none. Raises ``StorageFailure``."""
    if METADATA_KEY in log_dir.unreadable:
        # A new log would forget every topic and give out producer ids twice.
        raise StorageFailure(f"the metadata cannot be read: {log_dir.unreadable[METADATA_KEY]}")
    known = log_dir.logs.get(METADATA_KEY)
    if known is not None:
        return known
    return log_dir.create(METADATA_KEY, METADATA_LOG_CONFIG, _TOPIC_ID, now_ms=now_ms)


def _damaged(log: DiskRaftLog, offset: Offset, why: str) -> CorruptLog:
    """Without its metadata a node does not start, so what helps with a topic does not help here."""
    return CorruptLog(
        f"{log.log.directory}: the metadata at offset {offset} are damaged ({why}). If other nodes of the "
        "cluster are alive, empty the directories of this node and let it join anew; if it is alone, restore "
        "a copy of its directories"
    )


def read_batches(log: DiskRaftLog, offset: Offset, upto: Offset) -> Iterator[FactBatch]:
    """Yield every batch from this offset on and below ``upto``. Raises ``CorruptLog``."""
    while offset < upto:
        try:
            data = log.read(offset, upto=upto, bytes_max=_READ_BYTES)
        except CorruptLog as error:
            raise _damaged(log, offset, "the file of the log is damaged there") from error
        before = offset
        for position, header in iter_batches(data):
            if not check_crc(data, position, header):
                raise _damaged(log, header.base_offset, "wrong checksum")
            records: list[MetadataRecord] = []
            voters: list[tuple[Offset, VoterSet]] = []
            if header.is_control:
                voters += voter_sets_in(data[position : position + header.size])
            else:
                records += [
                    decode_record(record.value, log.families)
                    for record in decode_batch(data, position)
                    if record.offset >= offset and record.value is not None
                ]
            offset = header.next_offset
            yield FactBatch(records, voters, offset)
        assert offset > before, "a read that must give one batch gave none"
