"""A channel's own memory: which message each delivery tag was, and which publishes are still to be confirmed.

Tags count up from 1 for each channel. ``take`` turns what a client says of tags into messages of queues; a
tag that is not out is an error, as in RabbitMQ. Confirms say as much as they can at once: everything up to
a number.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
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


class Deliveries:
    """What is out on a channel and not settled."""

    def __init__(self) -> None:
        self._next = 1
        self._held: dict[int, Held] = {}
        # The next tag at some times, the oldest first.
        self._marks: deque[tuple[int, int]] = deque()
        self.prefetch = 0
        # Who has what was asked for one by one; that does not count for the prefetch.
        self.asker = ""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def next_tag(self) -> int:
        """The tag of the next delivery."""
        return self._next

    @property
    def room(self) -> int:
        """How many more the channel as a whole takes."""
        if not self.prefetch:
            return UNLIMITED
        held = len(self._held)
        if self.asker:
            held -= sum(one.owner == self.asker for one in self._held.values())
        return self.prefetch - held

    def add(self, held: Held | None) -> int:
        """The next tag. None is a message that nobody has to acknowledge."""
        tag, self._next = self._next, self._next + 1
        if held is not None:
            self._held[tag] = held
        return tag

    def take(self, tag: int, *, multiple: bool) -> list[Held]:
        """The messages that are meant, in the order of their tags. Raises ``UnknownDeliveryTag``."""
        if not multiple:
            found = self._held.pop(tag, None)
            if found is None:
                raise UnknownDeliveryTag(f"unknown delivery tag {tag}")
            return [found]
        if tag == 0:
            return self.take_all()
        if tag not in self._held:
            raise UnknownDeliveryTag(f"unknown delivery tag {tag}")
        tags = []
        # Not a copy of all: much may be out behind these.
        for each in self._held:
            if each > tag:
                break
            tags.append(each)
        return [self._held.pop(each) for each in tags]

    def meant(self, tag: int, *, multiple: bool) -> list[int]:
        """The tags that ``take`` would take, in order. Raises ``UnknownDeliveryTag``."""
        if multiple and tag == 0:
            return list(self._held)
        if tag not in self._held:
            raise UnknownDeliveryTag(f"unknown delivery tag {tag}")
        return [each for each in self._held if each <= tag] if multiple else [tag]

    def restore(self, taken: Mapping[int, Held]) -> None:
        """These were taken and are out all the same."""
        self._held = dict(sorted({**self._held, **taken}.items()))

    @property
    def oldest(self) -> Held | None:
        """What is out for the longest time."""
        return next(iter(self._held.values()), None)

    def mark(self, now_ms: int) -> None:
        """It is so late now; called from time to time, for ``is_overdue``."""
        oldest = next(iter(self._held), self._next)
        while self._marks and self._marks[0][0] <= oldest:
            self._marks.popleft()
        if oldest < self._next:
            self._marks.append((self._next, now_ms))

    def is_overdue(self, now_ms: int, timeout_ms: int) -> bool:
        """Whether something was out when it was marked, so long ago, and still is."""
        oldest = next(iter(self._held), self._next)
        for tag, marked_ms in self._marks:
            if tag > oldest:
                return now_ms - marked_ms >= timeout_ms
        return False

    def take_all(self) -> list[Held]:
        taken = list(self._held.values())
        self._held.clear()
        return taken


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
