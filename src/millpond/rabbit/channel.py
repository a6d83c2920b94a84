"""A channel's own memory: which message each delivery tag was, and which publishes are still to be confirmed.

Tags count up from 1 for each channel. ``take`` turns what a client says of tags into messages of queues; a
tag that is not out is an error, as in RabbitMQ. Confirms say as much as they can at once: everything up to
a number.

What is out may be millions: a client without a prefetch that never acknowledges gets all there is. So tags
lie in chunks of neighbours, each an offset and a pointer to whose it is; a chunk goes with its last tag.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from millpond.base.errors import UnknownDeliveryTag
from millpond.cursor.ack import Range
from millpond.queue.consumers import UNLIMITED


class Held(NamedTuple):
    """A message that was handed out on a channel."""

    queue: str
    owner: str
    lane: int
    offset: int


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one queue, lane and owner."""

    queue: str
    owner: str
    lane: int
    ranges: tuple[Range, ...]


# Tags in a chunk, as a power of two: few enough that one tag which stays out keeps little, and many enough
# that a chunk's own size is nothing beside theirs.
_CHUNK_BITS = 6
_CHUNK = 1 << _CHUNK_BITS
_IN_CHUNK = _CHUNK - 1

# Owners of which nothing is out are forgotten when there are so many.
_SOURCES_MIN = 16


class _Source:
    """Whose messages are: a queue's, an owner's, a lane's; ``count`` of them are out."""

    __slots__ = ("count", "place")

    def __init__(self, place: tuple[str, str, int]) -> None:
        self.place = place
        self.count = 0


class _Chunk:
    """Neighbouring tags; those that are not out have no source."""

    __slots__ = ("count", "low", "offsets", "sources")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.sources: list[_Source | None] = []
        self.count = 0
        # None below is out.
        self.low = 0

    def put(self, index: int, offset: int, source: _Source) -> None:
        missing = index - len(self.sources)
        if missing >= 0:
            self.offsets.extend([0] * (missing + 1))
            self.sources += [None] * (missing + 1)
        assert self.sources[index] is None
        self.offsets[index] = offset
        self.sources[index] = source
        self.low = min(self.low, index)
        self.count += 1
        source.count += 1

    def has(self, index: int) -> bool:
        return index < len(self.sources) and self.sources[index] is not None

    def indexes(self, upto: int = _CHUNK) -> list[int]:
        """Of those that are out, in order."""
        some = self.sources[self.low : upto]
        return [index for index, one in enumerate(some, self.low) if one is not None]


class Deliveries:
    """What is out on a channel and not settled."""

    def __init__(self) -> None:
        self._next = 1
        self._count = 0
        # By what their tags have in common; in the order of tags, unless ``_is_mixed``.
        self._chunks: dict[int, _Chunk] = {}
        self._is_mixed = False
        self._sources: dict[tuple[str, str, int], _Source] = {}
        self._sources_max = _SOURCES_MIN
        # Where the last tag is, and whose it is; the tag that may be added there without a look.
        self._chunk = _Chunk()
        self._number = self._likely = -1
        self._source = _Source(("", "", 0))
        # The next tag at some times, the oldest first.
        self._marks: deque[tuple[int, int]] = deque()
        self.prefetch = 0
        # Messages that were taken and count all the same, until that is committed; without the asker's.
        self._aside = 0
        # Who has what was asked for one by one; that does not count for the prefetch.
        self.asker = ""

    def __len__(self) -> int:
        return self._count

    @property
    def next_tag(self) -> int:
        """The tag of the next delivery."""
        return self._next

    @property
    def room(self) -> int:
        """How many more the channel as a whole takes."""
        if not self.prefetch:
            return UNLIMITED
        held = self._count + self._aside
        if self.asker:
            held -= sum(one.count for one in self._sources.values() if one.place[1] == self.asker)
        return self.prefetch - held

    def add(self, held: Held | None) -> int:
        """The next tag. None is a message that needs no acknowledgement."""
        tag = self._next
        self._next = tag + 1
        if held is not None:
            queue, owner, lane, offset = held
            source, chunk = self._source, self._chunk
            if source.place != (queue, owner, lane):
                source = self._source = self._source_of((queue, owner, lane))
            if tag != self._likely:
                self._begin_chunk(tag)
                self._chunk.put(tag & _IN_CHUNK, offset, source)
            else:
                chunk.offsets.append(offset)
                chunk.sources.append(source)
                chunk.count += 1
                source.count += 1
            self._likely = self._next if self._next & _IN_CHUNK else -1
            self._count += 1
        return tag

    def take(self, tag: int, *, multiple: bool) -> list[Held]:
        """The messages that are meant, in the order of their tags. Raises ``UnknownDeliveryTag``."""
        if multiple and tag == 0:
            return self.take_all()
        if not self._is_out(tag):
            raise UnknownDeliveryTag(f"unknown delivery tag {tag}")
        last, index = tag >> _CHUNK_BITS, tag & _IN_CHUNK
        if not multiple:
            return self._pop(last, (index,), is_prefix=False)
        taken: list[Held] = []
        for number in self._numbers(last):
            upto = index + 1 if number == last else _CHUNK
            taken += self._pop(number, self._chunks[number].indexes(upto), is_prefix=True)
        return taken

    def set_aside(self, tag: int, *, multiple: bool) -> dict[int, Held]:
        """As ``take``, by their tags; they go on counting for the prefetch, until ``settle_aside``."""
        tags = self.meant(tag, multiple=multiple)
        taken = dict(zip(tags, self.take(tag, multiple=multiple), strict=True))
        self._aside += self._counted(taken)
        return taken

    def settle_aside(self, taken: Mapping[int, Held]) -> None:
        """What was set aside is over."""
        self._aside -= self._counted(taken)

    def _counted(self, taken: Mapping[int, Held]) -> int:
        return sum(held.owner != self.asker for held in taken.values())

    def meant(self, tag: int, *, multiple: bool) -> list[int]:
        """The tags that ``take`` would take, in order. Raises ``UnknownDeliveryTag``."""
        if multiple and tag == 0:
            return list(self._tags(self._next))
        if not self._is_out(tag):
            raise UnknownDeliveryTag(f"unknown delivery tag {tag}")
        return list(self._tags(tag)) if multiple else [tag]

    def restore(self, taken: Mapping[int, Held]) -> None:
        """These were set aside and are out again."""
        self._aside -= self._counted(taken)
        for tag, held in taken.items():
            chunk = self._chunk_of(tag)
            chunk.put(tag & _IN_CHUNK, held.offset, self._source_of(held[:3]))
            self._count += 1

    @property
    def oldest(self) -> Held | None:
        """What is out for the longest time."""
        tag = next(self._tags(self._next), None)
        if tag is None:
            return None
        chunk, index = self._chunks[tag >> _CHUNK_BITS], tag & _IN_CHUNK
        source = chunk.sources[index]
        assert source is not None
        return Held(*source.place, chunk.offsets[index])

    def mark(self, now_ms: int) -> None:
        """It is so late now; called from time to time, for ``is_overdue``."""
        oldest = next(self._tags(self._next), self._next)
        while self._marks and self._marks[0][0] <= oldest:
            self._marks.popleft()
        if oldest < self._next:
            self._marks.append((self._next, now_ms))

    def is_overdue(self, now_ms: int, timeout_ms: int) -> bool:
        """Whether something was out when it was marked, so long ago, and still is."""
        oldest = next(self._tags(self._next), self._next)
        for tag, marked_ms in self._marks:
            if tag > oldest:
                return now_ms - marked_ms >= timeout_ms
        return False

    def take_all(self) -> list[Held]:
        taken: list[Held] = []
        for number in self._numbers(self._next):
            taken += self._pop(number, self._chunks[number].indexes(), is_prefix=True)
        return taken

    # --- chunks --------------------------------------------------------------------------------------

    def _source_of(self, place: tuple[str, str, int]) -> _Source:
        source = self._sources.get(place)
        if source is None:
            if len(self._sources) >= self._sources_max:
                self._sources = {one: of for one, of in self._sources.items() if of.count}
                self._sources_max = max(_SOURCES_MIN, 2 * len(self._sources))
            source = self._sources[place] = _Source(place)
        return source

    def _begin_chunk(self, tag: int) -> None:
        """Tags go on in another chunk, or later in this."""
        number = tag >> _CHUNK_BITS
        last = self._chunks.get(self._number)
        # What was taken may be out again, in another chunk than the one that was full.
        if number != self._number and last is not None and not last.count:
            del self._chunks[self._number]
        self._chunk, self._number = self._chunk_of(tag), number

    def _chunk_of(self, tag: int) -> _Chunk:
        number = tag >> _CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = _Chunk()
            self._is_mixed = self._is_mixed or tag + 1 < self._next
        return chunk

    def _pop(self, number: int, indexes: Sequence[int], *, is_prefix: bool) -> list[Held]:
        """``is_prefix``: they are all up to the last of them."""
        chunk = self._chunks[number]
        sources, offsets = chunk.sources, chunk.offsets
        taken = []
        for index in indexes:
            source = sources[index]
            assert source is not None
            sources[index] = None
            source.count -= 1
            queue, owner, lane = source.place
            taken.append(Held(queue, owner, lane, offsets[index]))
        if indexes and (is_prefix or indexes[0] == chunk.low):
            chunk.low = indexes[-1] + 1
        chunk.count -= len(indexes)
        self._count -= len(indexes)
        # Tags go on in the last one.
        if not chunk.count and (number != self._number or len(sources) == _CHUNK):
            del self._chunks[number]
        return taken

    def _is_out(self, tag: int) -> bool:
        chunk = self._chunks.get(tag >> _CHUNK_BITS)
        return chunk is not None and chunk.has(tag & _IN_CHUNK)

    def _numbers(self, last: int) -> list[int]:
        """Chunks up to this one, in order."""
        if self._is_mixed:
            self._chunks = dict(sorted(self._chunks.items()))
            self._is_mixed = False
        found = []
        # Not all: much may be out behind these.
        for number in self._chunks:
            if number > last:
                break
            found.append(number)
        return found

    def _tags(self, upto: int) -> Iterator[int]:
        """What is out up to a tag, in order."""
        if self._is_mixed:
            self._numbers(0)
        for number, chunk in self._chunks.items():
            base = number << _CHUNK_BITS
            if base > upto:
                break
            for index in chunk.indexes(upto - base + 1):
                yield base + index


def grouped(held: Iterable[Held]) -> Iterator[Group]:
    """By queue, lane and owner, neighbours joined, so that each group is one verb."""
    offsets: dict[tuple[str, str, int], list[int]] = {}
    for one in held:
        offsets.setdefault((one.queue, one.owner, one.lane), []).append(one.offset)
    for (queue, owner, lane), found in offsets.items():
        yield Group(queue, owner, lane, tuple(_ranges(sorted(found))))


def _ranges(offsets: list[int]) -> Iterator[Range]:
    first = next_ = offsets[0]
    for offset in offsets:
        if offset > next_:
            yield first, next_
            first = offset
        next_ = offset + 1
    yield first, next_


class Answer(NamedTuple):
    """What a publisher hears: yes or no to one number, or to all up to it."""

    number: int
    multiple: bool
    is_yes: bool


class Confirms:
    """Publishes of a channel in confirm mode, numbered from 1."""

    def __init__(self) -> None:
        self._next = 1
        # Everything below was answered.
        self._low = 1
        self._answered: list[tuple[int, int]] = []

    def number(self, count: int = 1) -> int:
        """Numbers for publishes that came together; the first of them."""
        first, self._next = self._next, self._next + count
        return first

    def answer(self, first: int, next_: int, *, is_yes: bool = True) -> list[Answer]:
        """Publishes ``first`` up to ``next_`` are kept, or are not; each is said once."""
        assert self._low <= first < next_ <= self._next
        in_order = first == self._low
        heappush(self._answered, (first, next_))
        while self._answered and self._answered[0][0] == self._low:
            self._low = heappop(self._answered)[1]
        if in_order:
            # RabbitMQ says no with the wide form wherever it is true.
            return [Answer(next_ - 1, next_ - first > 1 or not is_yes, is_yes)]
        return [Answer(number, False, is_yes) for number in range(first, next_)]
