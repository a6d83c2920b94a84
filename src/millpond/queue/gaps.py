"""Offsets of a log that are no messages: ranges in order, packed.

Where messages come one at a time while others are settled, there is a gap for each message, so a gap is two
varints: how far it begins behind the end of the one before, and its length. That is two bytes where neither
is above 127. They lie in blocks with sums, so that looking far ahead, or passing many, goes by blocks; the
first gap is kept as numbers, since it is looked at for every message.

A snapshot holds the same bytes.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from millpond.base.varint import VARLONG_BYTES_MAX, decode_unsigned, encode_unsigned
from millpond.cursor.ack import Range

BLOCK_GAPS_MAX = 2_048


@dataclass(frozen=True, slots=True)
class PackedGaps:
    """Gaps as bytes; the first distance is from an offset that is known where it is kept."""

    count: int = 0
    data: bytes = b""


class _Block:
    """Some gaps behind the first: distances begin at ``start``; ``end`` is the end of the last.

    ``count`` and ``offsets`` are of those that were not passed, whose bytes begin at ``position``.
    """

    __slots__ = ("count", "data", "end", "offsets", "position", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.data = bytearray()
        self.position = 0
        self.count = 0
        self.offsets = 0

    @property
    def messages(self) -> int:
        return self.end - self.start - self.offsets

    def __iter__(self) -> Iterator[Range]:
        end, position = self.start, self.position
        for _gap in range(self.count):
            (end, next_), position = _decode(self.data, position, end)
            yield end, next_
            end = next_


class Gaps:
    """Ranges in order; none begins where the one before ends."""

    __slots__ = ("_blocks", "_end", "count", "first", "next", "offsets")

    def __init__(self) -> None:
        # How many there are, and how many offsets in them.
        self.count = 0
        self.offsets = 0
        # The first of them, if there is one.
        self.first = self.next = 0
        self._end = 0
        self._blocks: deque[_Block] = deque()

    # --- looking -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Range]:
        return self.from_(0)

    def from_(self, offset: int) -> Iterator[Range]:
        """Those that end behind an offset."""
        if self.count and self.next > offset:
            yield self.first, self.next
        for block in self._blocks:
            if block.end > offset:
                yield from (gap for gap in block if gap[1] > offset)

    def reach(self, start: int, count: int) -> int:
        """The offset behind so many messages from ``start`` on, which lies before all gaps."""
        if not self.count or start + count <= self.first:
            return start + count
        count -= self.first - start
        position = self.next
        for block in self._blocks:
            if count > block.messages:
                count -= block.messages
                position = block.end
                continue
            for first, next_ in block:
                if position + count <= first:
                    return position + count
                count -= first - position
                position = next_
        return position + count

    def packed(self, base: int, most: int) -> tuple[PackedGaps, int | None]:
        """They as bytes, the first distance counted from ``base``; where those begin that are too many."""
        if not self.count:
            return PackedGaps(), None
        parts = [encode_unsigned(self.first - base), encode_unsigned(self.next - self.first)]
        count, rest = 1, None
        for block in self._blocks:
            if count + block.count > most:
                rest = next(iter(block))[0]
                break
            count += block.count
            parts.append(bytes(memoryview(block.data)[block.position :]))
        return PackedGaps(count, b"".join(parts)), rest

    # --- changing ------------------------------------------------------------------------------------

    def append(self, first: int, next_: int) -> None:
        """One more, behind the others."""
        assert self._end < first < next_ or not self.count
        size = next_ - first
        if not self.count:
            self.first, self.next = first, next_
        else:
            blocks = self._blocks
            # By its bytes: of a queue that is never quite empty most gaps of the last block were passed.
            if not blocks or len(blocks[-1].data) >= 2 * BLOCK_GAPS_MAX:
                blocks.append(_Block(self._end))
            block, distance = blocks[-1], first - self._end
            if distance < 0x80 and size < 0x80:
                block.data.append(distance)
                block.data.append(size)
            else:
                block.data += encode_unsigned(distance)
                block.data += encode_unsigned(size)
            block.count += 1
            block.offsets += size
            block.end = next_
        self._end = next_
        self.count += 1
        self.offsets += size

    def pop(self) -> Range:
        """The first is passed."""
        gap = self.first, self.next
        self._forget_first()
        return gap

    def drop(self, offset: int) -> None:
        """Those that end at an offset or before it are passed."""
        while self.count and self.next <= offset:
            blocks = self._blocks
            while blocks and blocks[0].end <= offset:
                block = blocks.popleft()
                self.count -= block.count
                self.offsets -= block.offsets
            self._forget_first()

    def _forget_first(self) -> None:
        self.count -= 1
        self.offsets -= self.next - self.first
        if not self.count:
            return
        block = self._blocks[0]
        (self.first, self.next), block.position = _decode(block.data, block.position, block.start)
        block.start = self.next
        block.count -= 1
        block.offsets -= self.next - self.first
        if not block.count:
            self._blocks.popleft()

    def _add(self, block: _Block) -> None:
        self._blocks.append(block)
        self._end = block.end
        self.count += block.count
        self.offsets += block.offsets

    @classmethod
    def unpacked(cls, packed: PackedGaps, base: int) -> "Gaps":
        """Again as they were."""
        gaps = cls()
        if not packed.count:
            return gaps
        data, left = packed.data, packed.count - 1
        (first, next_), position = _decode(data, 0, base)
        gaps.append(first, next_)
        while left:
            block = _Block(gaps._end)
            block.count = min(left, BLOCK_GAPS_MAX)
            end = skip(data, position, block.count)
            block.data += data[position:end]
            if end - position == 2 * block.count:
                block.offsets = sum(block.data[1::2])
                block.end += sum(block.data)
            else:
                sizes = [(next_ - first, next_) for first, next_ in block]
                block.offsets = sum(size for size, _next in sizes)
                block.end = sizes[-1][1]
            gaps._add(block)
            left -= block.count
            position = end
        return gaps


def skip(data: bytes, position: int, count: int) -> int:
    """Where so many packed gaps end that begin at a position. Raises ``MalformedVarint``."""
    while count:
        some = min(count, BLOCK_GAPS_MAX)
        part = data[position : position + 2 * some]
        if len(part) == 2 * some and part.isascii():
            # Each number is one byte.
            position += 2 * some
        else:
            for _number in range(2 * some):
                _value, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        count -= some
    return position


def _decode(data: bytes | bytearray, position: int, start: int) -> tuple[Range, int]:
    distance, size = data[position], data[position + 1]
    if distance < 0x80 and size < 0x80:
        position += 2
    else:
        distance, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
        size, position = decode_unsigned(data, position, VARLONG_BYTES_MAX)
    first = start + distance
    return (first, first + size), position
