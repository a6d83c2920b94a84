"""Reads the records of pending timers from their partition of ``__timers``."""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from millpond.base.errors import CorruptLog, MalformedData, UnreadableBatch
from millpond.base.ids import Offset
from millpond.engine.coordinators.record_replay import MayComeBack
from millpond.record.batch import iter_batches
from millpond.record.records import decode_stored
from millpond.replication.partition import Partition
from millpond.timer.delayed import Delayed, decode

log = logging.getLogger(__name__)

# Read at once: a few batches, because timers that were scheduled together are often due together.
_READ_BYTES: Final = 16 * 1024
# Read at once where many records are wanted that lie near each other.
_READ_BYTES_DENSE: Final = 128 * 1024
_DENSE_COUNT: Final = 16
_DENSE_SPAN: Final = 1_000


def read_timers(
    partition: Partition, offsets: Sequence[Offset], may_come_back: MayComeBack
) -> dict[Offset, Delayed]:
    """The records at these offsets. Those that are lost are left out, and the log says which.

    Raises ``StorageFailure`` while the disk cannot be read, and ``CorruptLog`` for what another replica may
    still give back.
    """
    wanted = sorted(offsets)
    found: dict[Offset, Delayed] = {}
    position = 0
    while position < len(wanted):
        try:
            position = _read_some(partition, wanted, position, found)
        except (CorruptLog, MalformedData, UnreadableBatch) as error:
            at = wanted[position]
            if isinstance(error, CorruptLog) and may_come_back(partition, at):
                raise
            log.error(
                "partition=%s-%d offset=%d: a timer's record cannot be read and is not delivered: %s",
                partition.topic,
                partition.index,
                wanted[position],
                error,
            )
            position += 1
    return found


def _read_some(
    partition: Partition, wanted: Sequence[Offset], position: int, found: dict[Offset, Delayed]
) -> int:
    """Read the batch that holds the offset at a position, and some behind it; answers the next position."""
    near = wanted[min(position + _DENSE_COUNT, len(wanted) - 1)] - wanted[position]
    is_dense = len(wanted) - position > _DENSE_COUNT and near < _DENSE_SPAN
    size = _READ_BYTES_DENSE if is_dense else _READ_BYTES
    data = partition.log.read(wanted[position], size, upto=partition.log.end_offset).data
    begun = position
    for at, header in iter_batches(data):
        if position == len(wanted):
            break
        following = bisect_left(wanted, header.next_offset, position)
        # A batch in which nothing is wanted is only stepped over.
        if following > position:
            here = set(wanted[position:following])
            for record in decode_stored(data, at):
                if record.offset in here and record.value is not None:
                    found[record.offset] = decode(record.value)
            position = following
    return max(position, begun + 1)
