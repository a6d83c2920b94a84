"""Whether a batch may stand where it does: the one rule that all who look at a segment's batches go by.

A segment is a chain. Each batch begins where the one before it ends, in bytes and in offsets; its checksum is
right; and it ends below the next segment. Offsets are under no checksum, so only its neighbours say whether a
batch has the right ones. What may differ from one place to another is said in ``ChainRule``:

    ================  =========  ====================  =======================================================
    who               checksum   may offsets miss      and must end below
    ================  =========  ====================  =======================================================
    recovery          yes        where compaction was  the next segment, or what an index can hold
    reads             yes        where compaction was  the next segment, or the log's end
    compaction        yes        anywhere              the next segment
    survey            yes        anywhere, and weighs  the next segment
                                 what jumps (repair)
    what others give  yes        where compaction was  the damaged range; epochs must be the remembered ones
    verification      yes        anywhere, and tells   what an index can hold
    indexes           no         anywhere              what an index can hold; an index is only a hint
    ================  =========  ====================  =======================================================

The leader epoch is in no rule. It is under no checksum, either, but the records are what they were with any;
damage is refused to readers, and a log without another replica must not lose records to a number that nobody
reads them by. Verification tells of it.

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
"""As a bound: none."""

# base offset, length, magic, checksum, last offset delta
_unpack_check = Struct(">qi4xbI2xi").unpack_from


class BrokenChain(CorruptLog):
    """No batch begins where the one before it ends."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class WrongChecksum(BrokenChain):
    """A batch, or what looks like one, is not what was written."""


class Misplaced(BrokenChain):
    """A batch has offsets that cannot be where it stands: its own are not what was written, or, if it has
    ``stepped_back``, those of the one before it may not be."""

    def __init__(self, position: int, reason: str, *, stepped_back: bool) -> None:
        super().__init__(position, reason)
        self.stepped_back = stepped_back


class SteppedBack(BrokenChain):
    """Offsets in bytes that were read do not follow each other.

    What lies before ``position`` is beyond doubt; from ``wrong`` on nothing is. If there is a batch between
    the two, it is one of two that contradict each other, and only what stands before it says which is right.
    """

    def __init__(self, position: int, wrong: int, reason: str) -> None:
        super().__init__(position, reason)
        self.wrong = wrong


class ChainRule(NamedTuple):
    """Where the batches of a segment may stand."""

    offset_bound: Offset = ANY_OFFSET  # all offsets are below
    gaps_below: Offset = ANY_OFFSET  # a gap may begin below: compaction is, or has been, there

    def fits(self, base_offset: Offset, last_offset: Offset, expected: Offset) -> bool:
        """Whether a batch may stand where ``expected`` is the next offset."""
        return (
            base_offset == expected or (expected < base_offset and expected < self.gaps_below)
        ) and 0 <= base_offset <= last_offset < self.offset_bound

    def check_place(self, position: int, header: BatchHeader, expected: Offset) -> None:
        """Raise ``Misplaced`` for a batch that may not."""
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


ANYWHERE = ChainRule()  # if it only follows what stands before it


def segment_bound(base_offset: Offset, next_base: Offset | None = None) -> Offset:
    """Where a segment's offsets must end: at the next one, and where those end that an index can hold."""
    span_end = base_offset + SEGMENT_OFFSET_SPAN_MAX + 1
    return span_end if next_base is None else min(next_base, span_end)


def header_at(chunk: bytes, at: int, position: int) -> BatchHeader:
    """The header of a batch that can be one; ``BrokenChain``, with the position in the file, if none can."""
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
    """The first batch that is not what was written, among those that are whole in these bytes.

    Up to ``whole_to`` all must be: what is cut off before is bad, too. Whether the first one holds what was
    asked for, the reader knows. It runs on every read of what may have come back from a disk, so it takes
    five fields of each header and nothing else, and says ``ChainRule(offset_bound, gaps_below)`` in its own
    words: asking the rule would double the time where offsets are missing. A property test compares the two.
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
