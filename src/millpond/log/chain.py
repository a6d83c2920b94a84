"""Checks whether a batch may be where it is: the one rule for all readers of a segment's batches.

A segment is a chain. Each batch begins where the one before it ends, in bytes and in offsets; its checksum is
right; and it ends below the next segment. Offsets are under no checksum, so only the neighbours of a batch
confirm its offsets. ``ChainRule`` has the differences between the users:

================  =========  ====================  =======================================================
user              checksum   offsets may miss      and must end below
================  =========  ====================  =======================================================
recovery          yes        where compacted       the next segment, or the range of an index
reads             yes        where compacted       the next segment, or the log's end
compaction        yes        anywhere              the next segment
survey (repair)   yes        anywhere, examined    the next segment
repaired ranges   yes        where compacted       the damaged range; epochs must be the recorded ones
verification      yes        anywhere, reported    the range of an index
indexes           no         anywhere              the range of an index; an index is only a hint
================  =========  ====================  =======================================================

The leader epoch is in no rule. It is under no checksum, either, but a wrong epoch does not change the
records; readers are refused damaged records, and a log without another replica must not lose records because
of a number that no reader needs. Verification reports it.

Bytes and numbers in, an answer or ``BrokenChain`` out: nothing here knows files or logs.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from millpond.base.errors import CorruptBatch, CorruptLog
from millpond.base.ids import Offset
from millpond.base.limits import SEGMENT_OFFSET_SPAN_MAX
from millpond.record.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    ByteBuffer,
    check_crc,
    read_header,
)

ANY_OFFSET: Offset = 2**63 - 1
"""No bound."""

# base offset, length, magic, checksum, last offset delta
_unpack_check = Struct(">qi4xbI2xi").unpack_from


class BrokenChain(CorruptLog):
    """No batch begins where the one before it ends."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class WrongChecksum(BrokenChain):
    """A batch, or bytes that look like one, with a wrong checksum."""


class Misplaced(BrokenChain):
    """A batch whose offsets do not fit its position: its own are wrong, or, if it has ``stepped_back``, those
    of the batch before it may be.
    """

    def __init__(self, position: int, reason: str, *, stepped_back: bool) -> None:
        super().__init__(position, reason)
        self.stepped_back = stepped_back


class SteppedBack(BrokenChain):
    """Offsets in the bytes read do not follow each other.

    Everything before ``position`` is certainly right; from ``wrong`` on nothing is. If there is a batch
    between the two, it is one of two that contradict each other, and only the batches before it show which is
    right.
    """

    def __init__(self, position: int, wrong: int, reason: str) -> None:
        super().__init__(position, reason)
        self.wrong = wrong


class ChainRule(NamedTuple):
    """The positions that the batches of a segment may have."""

    offset_bound: Offset = ANY_OFFSET  # all offsets are below
    gaps_below: Offset = ANY_OFFSET  # a gap may begin below: compaction is, or has been, there

    def fits(self, base_offset: Offset, last_offset: Offset, expected: Offset) -> bool:
        """Return whether a batch may be where ``expected`` is the next offset."""
        return (
            base_offset == expected or (expected < base_offset and expected < self.gaps_below)
        ) and 0 <= base_offset <= last_offset < self.offset_bound

    def check_place(self, position: int, header: BatchHeader, expected: Offset) -> None:
        """Raise ``Misplaced`` for a batch that may not be here."""
        if not self.fits(header.base_offset, header.last_offset, expected):
            raise Misplaced(
                position,
                f"offsets {header.base_offset} to {header.last_offset} where {expected} must follow",
                stepped_back=header.base_offset < expected,
            )

    def check(self, position: int, header: BatchHeader, data: ByteBuffer, expected: Offset) -> None:
        """Raise ``WrongChecksum``, or ``Misplaced`` for a batch that may not be here."""
        if not check_crc(data, 0, header):
            raise WrongChecksum(
                position, f"wrong checksum of the batch at offset {header.base_offset}"
            )
        self.check_place(position, header, expected)


ANYWHERE = ChainRule()  # a batch only has to follow the one before it


def segment_bound(base_offset: Offset, next_base: Offset | None = None) -> Offset:
    """Return where a segment's offsets must end: at the next segment, and within the range of an index."""
    span_end = base_offset + SEGMENT_OFFSET_SPAN_MAX + 1
    return span_end if next_base is None else min(next_base, span_end)


def header_at(chunk: bytes, at: int, position: int) -> BatchHeader:
    """Return a valid batch header. Raises ``BrokenChain``, with the position in the file, if there is
    none.
    """
    try:
        header = read_header(chunk, at)
    except CorruptBatch as error:
        raise BrokenChain(position, str(error)) from None
    if header.base_offset < 0 or header.last_offset_delta < 0:
        raise BrokenChain(
            position,
            f"offsets {header.base_offset} to {header.last_offset} cannot be a batch's",
        )
    return header


def find_bad_batch(
    data: bytes,
    offset_bound: Offset = ANY_OFFSET,
    gaps_below: Offset = ANY_OFFSET,
    *,
    whole_to: int = 0,
) -> BrokenChain | None:
    """Return the first bad batch among those that are complete in these bytes.

    Up to ``whole_to`` all must be complete: a batch cut off before that is bad, too. The reader checks
    whether the first batch holds the requested offset. This runs on every read that may have come from a
    disk, so it reads five fields of each header and nothing else, and implements ``ChainRule(offset_bound,
    gaps_below)`` itself: calling the rule would double the time where offsets are missing. A property test
    compares the two.
    """
    view = memoryview(data)
    end = len(data)
    position = before = 0
    expected = -1
    while end - position >= HEADER_BYTES:
        base_offset, length, magic, crc, delta = _unpack_check(data, position)
        if length < LENGTH_MIN or magic != MAGIC:
            return BrokenChain(position, "no batch begins here")
        after = position + length + LOG_OVERHEAD
        if after > end:
            break
        if crc32c(view[position + ATTRIBUTES_OFFSET : after]) != crc:
            return BrokenChain(position, "wrong checksum")
        if base_offset != expected:
            if not position:
                if not 0 <= base_offset < offset_bound - delta:
                    return SteppedBack(0, 0, f"offset {base_offset} cannot be here")
            elif (
                base_offset < expected
                or expected >= gaps_below
                or base_offset >= offset_bound - delta
            ):
                doubtful = before if base_offset < expected else position
                reason = f"offset {base_offset} where {expected} must follow"
                return SteppedBack(doubtful, position, reason)
        expected = base_offset + delta + 1
        before, position = position, after
    if expected > offset_bound:
        return SteppedBack(before, before, f"offset {expected - 1} behind {offset_bound - 1}")
    return BrokenChain(position, "no whole batch is here") if position < whole_to else None
