"""Checks of incoming batches before a byte is written.

Everything here looks at buffers and settings only, so a batch that is refused has changed nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from millpond.base.errors import CorruptBatch, InvalidRecord
from millpond.base.ids import (
    NO_OFFSET,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    TimestampMs,
    TopicPartition,
)
from millpond.log.config import LogConfig
from millpond.log.segment import NewBatch
from millpond.record.batch import BatchHeader, ByteBuffer, WritableBuffer, check_crc, iter_batches
from millpond.record.builder import recompress
from millpond.record.compression import Compression
from millpond.record.validate import TopicRules


class ProducerBatch(NamedTuple):
    """A batch of a remembered producer: its header, its first offset, its place in the buffer."""

    header: BatchHeader
    offset: Offset
    position: int


class CopiedBatches(NamedTuple):
    """Whole batches of a leader's log that continue a follower's."""

    batches: list[NewBatch]
    producing: list[ProducerBatch]
    epochs: list[tuple[LeaderEpoch, Offset]]  # that begin here
    first_offset: Offset
    next_offset: Offset
    gap_end: Offset  # the end of the last gap in the leader's log; -1 if there is none
    timestamp: TimestampMs  # the largest
    size: int  # of the whole batches; the rest is an incomplete batch


def topic_codec(config: LogConfig) -> Compression | None:
    """Return the topic's own codec; None if producers choose."""
    if config.compression_type == "producer":
        return None
    if config.compression_type == "uncompressed":
        return Compression.NONE
    return Compression.named(config.compression_type)


def topic_rules(config: LogConfig) -> TopicRules:
    """Return the topic's rules for batches of clients."""
    return TopicRules(
        message_bytes_max=config.max_message_bytes,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        append_time=config.uses_append_time,
        keys_required=config.compacts,
        codec=topic_codec(config),
        level=config.compression_level,
        has_delays=config.millpond_delay_enable,
    )


def read_headers(data: ByteBuffer, topic_partition: TopicPartition) -> list[BatchHeader]:
    """Return the headers of whole batches, at least one. Raises ``InvalidRecord``."""
    headers = [header for _, header in iter_batches(data)]
    if not headers or sum(header.size for header in headers) != len(data):
        raise InvalidRecord(f"{topic_partition}: {len(data)} bytes are not whole batches")
    return headers


def bring_under_codec(
    data: WritableBuffer,
    headers: Sequence[BatchHeader],
    codec: Compression,
    *,
    level: int | None,
    topic_partition: TopicPartition,
) -> tuple[WritableBuffer, Sequence[BatchHeader]]:
    """Recompress every batch with the topic's codec; control batches are unchanged."""
    if all(header.compression == codec or header.is_control for header in headers):
        return data, headers
    changed = bytearray()
    position = 0
    for header in headers:
        if header.compression == codec or header.is_control:
            changed += data[position : position + header.size]
        else:
            changed += recompress(data, codec, position=position, level=level)
        position += header.size
    return changed, read_headers(changed, topic_partition)


def check_copied(
    data: bytes | bytearray | memoryview,
    *,
    after: Offset,
    epoch: LeaderEpoch,
    topic_partition: TopicPartition,
) -> CopiedBatches:
    """Check batches from a leader for a follower whose log ends at ``after``, with ``epoch`` as its latest.

    Raises ``InvalidRecord`` or ``CorruptBatch``. An incomplete last batch is left out.
    """
    batches: list[NewBatch] = []
    producing: list[ProducerBatch] = []
    epochs: list[tuple[LeaderEpoch, Offset]] = []
    first_offset = next_offset = after
    gap_end = NO_OFFSET
    timestamp = NO_TIMESTAMP
    end = 0
    for position, header in iter_batches(data):
        base_offset = header.base_offset
        if base_offset < next_offset or header.last_offset_delta < 0:
            raise InvalidRecord(
                f"{topic_partition}: the leader sent offset {base_offset} "
                f"where {next_offset} or more must follow"
            )
        if not check_crc(data, position, header):
            raise CorruptBatch(
                f"{topic_partition}: the batch at offset {base_offset} came with a wrong checksum"
            )
        if not batches:
            first_offset = base_offset
        if base_offset > next_offset:
            gap_end = base_offset
        if header.leader_epoch > epoch:
            epoch = header.leader_epoch
            epochs.append((epoch, base_offset))
        if header.producer_id >= 0:
            producing.append(ProducerBatch(header, base_offset, position))
        timestamp = max(timestamp, header.max_timestamp)
        next_offset = header.next_offset
        batches.append(NewBatch(position, header.size, next_offset - 1, header.max_timestamp))
        end = position + header.size
    return CopiedBatches(
        batches, producing, epochs, first_offset, next_offset, gap_end, timestamp, end
    )
