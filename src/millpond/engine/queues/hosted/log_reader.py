"""Reads one partition of a queue on the node that leads it: messages, batches, what is committed.

What the disk has damaged, and what cannot be decoded, is passed over and remembered (``damaged``): it is for
the queue to count it. What another replica may have is not passed over: the reader is told to wait
(``RecordsAwaited``).
"""

import logging
from collections.abc import Iterator

from millpond.base import limits
from millpond.base.errors import (
    BatchTooLarge,
    CorruptLog,
    MessageLost,
    MillpondError,
    OffsetOutOfRange,
    RecordsAwaited,
)
from millpond.cursor.ack import Range
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.repairs import Repairs
from millpond.record.aborted import AbortedTransactions
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.inspection import decode_slice
from millpond.record.records import UNREADABLE, Record, batch_payload
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
# So many batches that are no messages may lie behind the last message of a stream.
_LOOKS_FOR_LAST = 64


class LogReader:
    """One partition, and what of it could not be read."""

    def __init__(self, partition: Partition, partitions: Partitions, repairs: Repairs) -> None:
        self.partition = partition
        self._partitions = partitions
        self._repairs = repairs
        # Records of the last read.
        self._window: dict[int, Record] = {}
        # What could not be read since the queue last looked; where everything known of that kind ends.
        self.damaged: list[Range] = []
        self._known_damage: set[int] = set()

    # --- messages out --------------------------------------------------------------------------------

    def record(self, offset: int) -> Record:
        """A message in the log. Raises ``MessageLost``."""
        record = self._window.get(offset)
        if record is None:
            self._window = self._read_window(offset)
            record = self._window.get(offset)
            if record is None:
                raise MessageLost(f"{self.partition!r} has no record at offset {offset}")
        return record

    def _read_window(self, offset: int) -> dict[int, Record]:
        """Messages from this one on. Raises ``MessageLost``."""
        try:
            read = self._partitions.read_now(self.partition, offset, bytes_max=_READ_BYTES).records
        except OffsetOutOfRange as error:
            raise MessageLost(str(error)) from None
        except CorruptLog as error:
            self.pass_damage(offset, error.next_offset, error)
            raise MessageLost(str(error)) from None
        window: dict[int, Record] = {}
        most = limits.QUEUE_WINDOW_RECORDS_MAX
        room = limits.QUEUE_WINDOW_BYTES_MAX
        for position, header in iter_batches(read):
            if header.is_control:
                continue
            is_wanted = header.base_offset <= offset < header.next_offset
            limit = limits.DECOMPRESSED_BYTES_MAX if is_wanted else room
            try:
                payload = batch_payload(read, position, header, limit=limit)
                if not is_wanted and len(window) + header.record_count > most:
                    break
                first = max(offset - header.base_offset, 0)
                window.update(
                    (one.offset, one) for one in decode_slice(payload, header, first, most)
                )
                room -= len(payload)
            except UNREADABLE as error:
                if is_wanted:
                    self.pass_damage(offset, header.next_offset, error)
                    raise MessageLost(str(error)) from None
                if isinstance(error, BatchTooLarge):
                    break  # small batches that grow: they are read when they are wanted
            if room <= 0:
                break
        return window

    def pass_damage(self, offset: int, next_: int, error: MillpondError) -> int:
        """What begins here cannot be read: it is remembered, said once, and passed over. Where to go on.

        Raises ``RecordsAwaited`` if it may be repaired.
        """
        if isinstance(error, CorruptLog):
            self._check_hopeless(offset, error)
        next_ = max(next_, offset + 1)
        self.damaged.append((offset, next_))
        if next_ not in self._known_damage:
            self._known_damage.add(next_)
            log.error(
                "partition=%s-%d: the queue goes on without offsets %d to %d: %s",
                self.partition.topic,
                self.partition.index,
                offset,
                next_ - 1,
                error,
            )
        return next_

    def _check_hopeless(self, offset: int, error: CorruptLog) -> None:
        """Raises ``RecordsAwaited`` if another replica may have what is damaged here."""
        if self._repairs.may_come_back(self.partition, offset):
            raise RecordsAwaited(f"another replica may have it: {error}") from error

    def forget_window(self) -> None:
        """Messages that were read are read again when they are wanted."""
        self._window = {}

    # --- streams -------------------------------------------------------------------------------------

    @property
    def stable_offset(self) -> int:
        """Messages below are confirmed and decided."""
        return self.partition.last_stable_offset

    def chunk(self, offset: int) -> tuple[list[Record], int]:
        """The messages of one read from an offset on, and where to go on."""
        offset, stable = max(offset, self.partition.log.start_offset), self.stable_offset
        found: list[Record] = []
        most = limits.QUEUE_WINDOW_RECORDS_MAX
        room = limits.QUEUE_WINDOW_BYTES_MAX
        try:
            for position, header, data, is_message in self._one_read(offset, stable):
                if room <= 0 or (found and len(found) + header.record_count > most):
                    return found, header.base_offset
                stable = header.next_offset
                if not is_message:
                    continue
                try:
                    payload = batch_payload(data, position, header)
                    room -= len(payload)
                    first = max(offset - header.base_offset, 0)
                    some = decode_slice(payload, header, first, most)
                    found += [one for one in some if one.offset >= offset]
                    if header.record_count > most and some and some[-1].offset + 1 < stable:
                        return found, some[-1].offset + 1  # the rest of a large batch comes next
                except UNREADABLE as error:
                    self.pass_damage(max(offset, header.base_offset), stable, error)
        except CorruptLog as error:
            return [], self.pass_damage(offset, error.next_offset, error)
        return found, stable

    def last_batch(self) -> int:
        """Where the newest messages begin that were written together; the end if there are none."""
        first, offset = self.partition.log.start_offset, self.stable_offset
        for _step in range(_LOOKS_FOR_LAST):
            if offset <= first:
                break
            base = offset - 1
            try:
                for _position, header, _data, is_message in self._one_read(base, offset):
                    if is_message:
                        return max(first, header.base_offset)
                    base = min(base, header.base_offset)
            except CorruptLog as error:
                self._check_hopeless(base, error)
            offset = base
        return self.stable_offset

    def since(self, time_ms: int) -> int:
        """Where messages of a time and later begin; the end if there are none."""
        try:
            found = self._partitions.find_offset(self.partition, time_ms, committed=True)
        except CorruptLog:
            # Which offsets are damaged is not known. Rather too much than too little.
            return self.partition.log.start_offset
        return found.offset if found.offset >= 0 else self.stable_offset

    # --- reading -------------------------------------------------------------------------------------

    def committed(
        self, offset: int, upto: int
    ) -> Iterator[tuple[int, BatchHeader, bytes | memoryview, bool]]:
        """Batches below an offset that is stable, and whether each holds messages."""
        while offset < upto:
            before = offset
            try:
                for one in self._one_read(offset, upto):
                    yield one
                    offset = one[1].next_offset
            except CorruptLog as error:
                offset = self.pass_damage(offset, min(upto, error.next_offset), error)
            if offset == before:
                return

    def _one_read(
        self, offset: int, upto: int
    ) -> Iterator[tuple[int, BatchHeader, bytes | memoryview, bool]]:
        if offset < upto:
            read = self._partitions.read_now(
                self.partition, offset, bytes_max=_READ_BYTES, committed=True
            )
            transactions = AbortedTransactions(read.aborted)
            for position, header in iter_batches(read.records):
                if header.base_offset >= upto:
                    return
                is_hidden = transactions.hides(header, read.records, position)
                yield position, header, read.records, not is_hidden

    def raw(
        self, offset: int, upto: int | None = None
    ) -> Iterator[tuple[int, BatchHeader, bytes | memoryview]]:
        """All batches up to the end of the log, confirmed or not."""
        log = self.partition.log
        upto = log.end_offset if upto is None else upto
        offset = max(offset, log.start_offset)
        while offset < upto:
            try:
                data = log.read(offset, _READ_BYTES, upto=upto).data
            except CorruptLog as error:
                offset = self.pass_damage(offset, min(upto, error.next_offset), error)
                continue
            before = offset
            for position, header in iter_batches(data):
                yield position, header, data
                offset = header.next_offset
            if offset == before:
                return
