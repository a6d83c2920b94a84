"""What a leader remembers of a producer: its epoch and its last five batches."""

from collections import deque

from millpond.record import BatchHeader
from millpond.wire.kafka.api import ErrorCode


class ProducerState:
    """One producer id at one partition."""

    def __init__(self) -> None:
        self._epoch = -1
        self._recent: deque[tuple[int, int, int]] = deque(maxlen=5)  # first, last sequence, offset

    def check(self, header: BatchHeader) -> int | ErrorCode | None:
        """The offset of a batch that was here before, an error, or None for what may be appended."""
        if header.producer_epoch < self._epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        first, last = header.base_sequence, header.last_sequence
        if self._epoch < 0:
            return None  # Kafka takes any sequence from a producer that it does not know
        if header.producer_epoch > self._epoch:
            return None if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for known_first, known_last, offset in self._recent:
            if (known_first, known_last) == (first, last):
                return offset
        expected = (self._recent[-1][1] + 1) & 0x7FFFFFFF
        return None if first == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def keep(self, header: BatchHeader, offset: int) -> None:
        """It was appended."""
        if header.producer_epoch != self._epoch:
            self._epoch = header.producer_epoch
            self._recent.clear()
        self._recent.append((header.base_sequence, header.last_sequence, offset))
