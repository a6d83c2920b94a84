"""What the metadata log says: facts, and who votes."""

from collections.abc import Iterator
from typing import NamedTuple

from millpond.base.ids import Offset
from millpond.engine.raft_log import DiskRaftLog
from millpond.log.config import LogConfig
from millpond.metadata.records import MetadataRecord, decode_record
from millpond.raft.control import voter_sets_in
from millpond.raft.voters import VoterSet
from millpond.record.batch import iter_batches
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

_READ_BYTES = 1024 * 1024


class FactBatch(NamedTuple):
    """The facts of one batch (none in a batch of the quorum's own) and where the next one begins."""

    records: list[MetadataRecord]
    voters: list[tuple[Offset, VoterSet]]
    next_offset: Offset


def read_batches(log: DiskRaftLog, offset: Offset, upto: Offset) -> Iterator[FactBatch]:
    """Every batch from this offset on and below ``upto``. Raises ``CorruptLog``."""
    while offset < upto:
        data = log.read(offset, upto=upto, bytes_max=_READ_BYTES)
        before = offset
        for position, header in iter_batches(data):
            records: list[MetadataRecord] = []
            voters: list[tuple[Offset, VoterSet]] = []
            if header.is_control:
                voters += voter_sets_in(data[position : position + header.size])
            else:
                records += [
                    decode_record(record.value)
                    for record in decode_batch(data, position)
                    if record.offset >= offset and record.value is not None
                ]
            offset = header.next_offset
            yield FactBatch(records, voters, offset)
        assert offset > before, "a read that must give one batch gave none"
