"""Reads the records of an internal topic back, batch by batch, in order.

A batch that cannot be decoded is reported and skipped, so that it does not hide the rest; records that
another replica may still have are waited for.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    CorruptLog,
    MalformedData,
    UnsupportedCompression,
)
from millpond.base.ids import Offset
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.records import Record, decode_batch
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

# Bytes of a partition that are read at once.
_READ_BYTES = 4 * 1024 * 1024


MayComeBack: TypeAlias = Callable[[Partition, Offset], bool]


def stored_batches(
    partition: Partition, may_come_back: MayComeBack
) -> Iterator[tuple[BatchHeader, Sequence[Record]]]:
    """Yield every batch to the log's end, open and aborted transactions included.

    Records above the high watermark are included, because the leader's log is the truth, and so are records
    that are appended meanwhile. Raises ``CorruptLog`` at damaged records that a repair may bring back; others
    are skipped, with an error in the log.
    """
    offset = partition.log.start_offset
    while offset < partition.log.end_offset:
        try:
            data = partition.log.read(offset, _READ_BYTES, upto=partition.log.end_offset).data
        except CorruptLog as error:
            if error.next_offset <= offset or may_come_back(partition, offset):
                raise
            log.error(
                "partition=%s-%d: offsets %d to %d are lost (%s); the rest is served without them",
                partition.topic,
                partition.index,
                offset,
                error.next_offset - 1,
                error,
            )
            offset = error.next_offset
            continue
        after = offset
        for position, header in iter_batches(data):
            after = header.next_offset
            try:
                records = decode_batch(data, position)
            except (MalformedData, BatchTooLarge, UnsupportedCompression) as error:
                log.error(
                    "partition=%s-%d offset=%d: a batch cannot be read: %s",
                    partition.topic,
                    partition.index,
                    header.base_offset,
                    error,
                )
                continue
            yield header, records
        if after == offset:
            raise CorruptBatch(f"no batch at offset {offset}")
        offset = after
