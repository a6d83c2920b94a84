"""Reading back what coordinators wrote into their topics: batch by batch, in order.

What cannot be read is reported and left out, so that one bad record does not hide the rest.
"""

import logging
from collections.abc import Iterator, Sequence

from millpond.base.errors import BatchTooLarge, CorruptBatch, MalformedData, UnsupportedCompression
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.records import Record, decode_batch
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

# How much of a partition is read at once.
_READ_BYTES = 4 * 1024 * 1024


def stored_batches(partition: Partition) -> Iterator[tuple[BatchHeader, Sequence[Record]]]:
    """Every batch to the log's end, open and aborted transactions included.

    Also what the high watermark has not passed yet: to the leader the log is the truth. What is appended
    meanwhile is read as well.
    """
    offset = partition.log.start_offset
    while offset < partition.log.end_offset:
        data = partition.log.read(offset, _READ_BYTES, upto=partition.log.end_offset).data
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
