"""Reads the records of pending timers from their partition of ``__timers``."""

import logging
from collections.abc import Sequence
from typing import Final

from millpond.base.errors import MalformedData, MillpondError
from millpond.base.ids import Offset
from millpond.record.batch import iter_batches
from millpond.record.records import decode_stored
from millpond.replication.partition import Partition
from millpond.timer.delayed import Delayed, decode

log = logging.getLogger(__name__)

# Read at once. Timers that were scheduled together are mostly due together.
_READ_BYTES: Final = 64 * 1024


def read_timers(partition: Partition, offsets: Sequence[Offset]) -> dict[Offset, Delayed]:
    """The records at these offsets. Those that cannot be read are left out, and the log says which."""
    wanted = sorted(offsets)
    found: dict[Offset, Delayed] = {}
    position = 0
    while position < len(wanted):
        first = wanted[position]
        try:
            after = _read_some(partition, first, set(wanted[position:]), found)
        except (MillpondError, MalformedData) as error:
            log.error(
                "partition=%s-%d offset=%d: a timer's record cannot be read and is not delivered: %s",
                partition.topic,
                partition.index,
                first,
                error,
            )
            after = first + 1
        while position < len(wanted) and wanted[position] < after:
            position += 1
    return found


def _read_some(
    partition: Partition, offset: Offset, wanted: set[Offset], found: dict[Offset, Delayed]
) -> Offset:
    """Read the batch that holds an offset, and some behind it; answers where the next begins."""
    data = partition.log.read(offset, _READ_BYTES, upto=partition.log.end_offset).data
    after = offset + 1
    last = max(wanted)
    for at, header in iter_batches(data):
        if header.base_offset > last:
            break
        after = max(after, header.next_offset)
        # A batch in which nothing is wanted is only stepped over.
        if not any(one in wanted for one in range(header.base_offset, header.next_offset)):
            continue
        for record in decode_stored(data, at):
            if record.offset in wanted and record.value is not None:
                found[record.offset] = decode(record.value)
    return after
