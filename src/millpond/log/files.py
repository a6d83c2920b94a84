"""The names of a partition's files.

A segment is four files named by its first offset in twenty digits; a producer snapshot is named by the offset
that it covers everything below. A file that is being written, replaced or deleted has a second suffix.
"""

from collections.abc import Iterable

from millpond.base.ids import Offset

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
SNAPSHOT_SUFFIX = ".snapshot"

CLEANED_SUFFIX = ".cleaned"  # written by compaction, not yet decided
SWAP_SUFFIX = ".swap"  # decided, not yet in place
DELETED_SUFFIX = ".deleted"  # out of use
TEMPORARY_SUFFIX = ".tmp"  # a small file that is being written

_DIGITS = 20


def segment_name(base_offset: Offset) -> str:
    """Return the twenty digits that name a segment's files."""
    return f"{base_offset:020d}"


class Listing:
    """The names in a partition's directory, by kind."""

    __slots__ = ("_by_suffix", "others")

    def __init__(self, names: Iterable[str]) -> None:
        self.others: set[str] = set()
        self._by_suffix: dict[str, list[Offset]] = {}
        for name in names:
            if name[:_DIGITS].isdecimal() and name[_DIGITS : _DIGITS + 1] == ".":
                self._by_suffix.setdefault(name[_DIGITS:], []).append(int(name[:_DIGITS]))
            else:
                self.others.add(name)

    def offsets(self, suffix: str) -> list[Offset]:
        """Return the offsets of the files with exactly this suffix, ascending."""
        found = self._by_suffix.get(suffix)
        if found is None:
            return []
        found.sort()
        return found

    def names_ending(self, suffix: str) -> list[str]:
        """Return all names that end with a suffix, sorted."""
        numbered = [
            segment_name(offset) + full
            for full, offsets in self._by_suffix.items()
            if full.endswith(suffix)
            for offset in offsets
        ]
        return sorted(numbered + [name for name in self.others if name.endswith(suffix)])
