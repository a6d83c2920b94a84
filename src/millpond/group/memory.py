"""A bound over the metadata and the assignments of the members of all groups.

Kafka has none: there a member's metadata is bounded by the request that brings it, and a group by its record,
which must fit into one batch (a larger one is answered with UNKNOWN_SERVER_ERROR at the sync, as here). Each
group may so take a megabyte, and nothing bounds the number of groups.

What members send is added up; when the sum reaches the bound, what the groups really keep is counted, at most
once in a while.
"""

from collections.abc import Callable, Iterable
from typing import Any

from millpond.base import limits
from millpond.group.kind import Group
from millpond.group.messages import Command


class MemberMemory:
    """Decides whether groups may keep more of what members send. ``count`` adds up what they keep now."""

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

    def admits(self, command: Command[Any], now_ms: int) -> bool:
        """Whether groups may keep what this command carries; a little always passes."""
        size = command.kept_bytes
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


def bytes_held(groups: Iterable[Group]) -> int:
    """Return how many bytes these groups keep of what their members sent."""
    return sum(group.kept_bytes() for group in groups)
