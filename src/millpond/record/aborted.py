"""Which batches a reader of committed records skips: markers, and batches of aborted transactions.

A read comes with the aborted transactions that overlap with it. Rules for the caller:

1. One ``AbortedTransactions`` for each read, which begins where the read does.
2. ``hides`` is called for the batches of the read in their order. Batches that are neither transactional nor
   control batches may be left out: it does not change what is answered for the others.
"""

from collections.abc import Iterable
from typing import TypeAlias

from millpond.record.batch import BatchHeader, ByteBuffer
from millpond.record.control import MarkerType, marker_type
from millpond.record.records import decode_batch

# (producer id, first offset), as in a fetch response.
AbortedTransaction: TypeAlias = tuple[int, int]


class AbortedTransactions:
    """Tracks which producers are inside an aborted transaction, batch by batch."""

    __slots__ = ("_pending", "_producers")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._pending = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._producers: set[int] = set()

    def hides(
        self, header: BatchHeader, buffer: ByteBuffer | None = None, position: int = 0
    ) -> bool:
        """Return whether readers skip the batch.

        With a buffer, the control batch of a producer that is inside an aborted transaction is decoded: only
        an abort marker ends it. Raises ``UNREADABLE`` if it does not decode. Without one, any control batch
        of that producer ends it, which is the same in a log that was written correctly: between the first
        record of a transaction and its marker a producer has no other.
        """
        while self._pending and self._pending[-1][1] <= header.last_offset:
            self._producers.add(self._pending.pop()[0])
        if not header.is_control:
            return header.producer_id in self._producers and header.is_transactional
        if header.producer_id in self._producers and (
            buffer is None or _is_abort(buffer, position)
        ):
            self._producers.discard(header.producer_id)
        return True


def _is_abort(buffer: ByteBuffer, position: int) -> bool:
    records = decode_batch(buffer, position)
    return bool(records) and marker_type(records[0]) == MarkerType.ABORT
