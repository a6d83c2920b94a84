"""A bound over what the members of all groups say of themselves, and over what they are assigned.

Kafka has none: there a member's metadata is bounded by the request that brings it, and a group by its record,
which must fit into one batch (a larger one is answered with UNKNOWN_SERVER_ERROR at the sync, as here). Each
group may so take a megabyte, and nothing bounds the number of groups.

What a member brings is added up as it comes; when that reaches the bound, what the groups really hold is
counted, at most once in a while.
"""

from collections.abc import Callable, Iterable

from millpond.base import limits
from millpond.group.classic import ClassicGroup
from millpond.group.consumer import ConsumerGroup
from millpond.group.messages import ConsumerHeartbeat, Join, Sync
from millpond.group.offset_decisions import AnyGroup


class MemberMemory:
    """Decides whether members may bring more. ``count`` tells what all groups hold."""

    def __init__(
        self,
        count: Callable[[], int],
        bytes_max: int = limits.GROUP_MEMBER_BYTES_MAX,
    ) -> None:
        self._count = count
        self._bytes_max = bytes_max
        self._at_most = 0
        self._counted_ms: int | None = None
        self.refused = 0  # so far

    def admits(self, command: Join | Sync | ConsumerHeartbeat, now_ms: int) -> bool:
        """Whether there is room for what this brings; little always passes."""
        size = bytes_in(command)
        if size <= limits.GROUP_MEMBER_LITTLE_BYTES or self._fits(size, now_ms):
            return True
        self.refused += 1
        return False

    def _fits(self, size: int, now_ms: int) -> bool:
        if self._at_most + size > self._bytes_max:
            is_fresh = (
                self._counted_ms is not None
                and now_ms - self._counted_ms < limits.GROUP_MEMBER_COUNT_MS
            )
            if is_fresh:
                return False
            self._at_most, self._counted_ms = self._count(), now_ms
            if self._at_most + size > self._bytes_max:
                return False
        self._at_most += size
        return True


def bytes_in(command: Join | Sync | ConsumerHeartbeat) -> int:
    """How much a group would keep of a command."""
    match command:
        case Join():
            return sum(len(metadata) for _name, metadata in command.protocols)
        case Sync():
            return sum(map(len, command.assignments.values()))
        case ConsumerHeartbeat():
            return sum(map(len, command.topics or ())) + len(command.pattern or "")


def bytes_held(groups: Iterable[AnyGroup]) -> int:
    """How much these groups keep of what members brought."""
    total = 0
    for group in groups:
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                total += sum(len(metadata) for _name, metadata in member.protocols)
                total += len(member.assignment)
        elif isinstance(group, ConsumerGroup):
            for reader in group.members.values():
                total += sum(map(len, reader.wishes.topics)) + len(reader.wishes.pattern or "")
    return total
