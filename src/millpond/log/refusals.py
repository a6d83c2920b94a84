"""Batches of idempotent producers that a log refused and that the producers will send again.

A producer has several batches in flight. When one of them is refused for a temporary reason (a disk failure,
too few in-sync replicas) and the reason is gone before the next one is read, the next one must not be
appended, because the first is missing before it; and it must not be answered with an error that makes the
producer begin a new epoch, because then it sends again what other leaders have already appended. So every
batch after a refused one gets the same error as that one, until the refused one has come again.

A producer that gives up the refused batch continues with a higher epoch, and that is always accepted. Knows
batch headers, no files and no clock.
"""

from collections.abc import Iterable
from typing import NamedTuple

from millpond.base.errors import MillpondError
from millpond.base.ids import ProducerId
from millpond.base.limits import REFUSED_PRODUCERS_MAX
from millpond.record.batch import NO_SEQUENCE, BatchHeader


class _Refused(NamedTuple):
    epoch: int
    first_sequence: int
    error: type[MillpondError]


class Refusals:
    """For each producer the first batch that it has to send again."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[ProducerId, _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def note(self, headers: Iterable[BatchHeader], error: MillpondError) -> None:
        """Note that these batches were refused with this error; the earliest refusal of an epoch counts."""
        for header in headers:
            if header.producer_id < 0 or header.base_sequence == NO_SEQUENCE:
                continue
            known = self._first.get(header.producer_id)
            if known is not None and known.epoch >= header.producer_epoch:
                continue
            if known is None and len(self._first) >= REFUSED_PRODUCERS_MAX:
                del self._first[next(iter(self._first))]
            self._first[header.producer_id] = _Refused(
                header.producer_epoch, header.base_sequence, type(error)
            )

    def check(self, header: BatchHeader, expected: int | None) -> None:
        """Check that this batch may be processed. Raises the error of the refused batch before it.

        ``expected`` is the sequence number with which the log lets the producer continue in this epoch; None
        if it does not know the producer. If that is not the refused one, the refused batch has reached the
        log another way.
        """
        refused = self._first.get(header.producer_id)
        if refused is None or header.is_marker or header.producer_epoch < refused.epoch:
            return
        if header.producer_epoch > refused.epoch:
            return
        if header.base_sequence in {refused.first_sequence, NO_SEQUENCE}:
            return
        if expected not in {None, refused.first_sequence}:
            del self._first[header.producer_id]
            return
        raise refused.error(
            f"producer {header.producer_id} epoch {header.producer_epoch} sends sequence "
            f"{header.base_sequence}; its batch with sequence {refused.first_sequence} was refused and "
            "has to be sent again first"
        )

    def on_appended(self, header: BatchHeader) -> None:
        """Note that the batch is in the log: nothing is missing before the next one."""
        self._first.pop(header.producer_id, None)

    def clear(self) -> None:
        """Forget everything: another node leads, and refused batches are sent to it."""
        self._first.clear()
