"""An immutable mapping whose changed copies are cheap.

It is a large dictionary and a small one laid over it. A change copies the small one; when that has grown,
both are merged into one large dictionary. So a chain of n changes costs about n small copies and few large
ones, and the difference between two neighbours is found without looking at every key. Any version may be
read from any thread.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

# The maximal length of the small dictionary, as a number and as a fraction of the large one.
_SMALL_MAX = 64
_SHARE = 256


class _Gone:
    """Marks a key in the small dictionary as deleted, whatever the large one holds."""


_GONE: Final = _Gone()


class Layers(Mapping[KeyT, ValueT], Generic[KeyT, ValueT]):
    """Keys are in insertion order; a key that is deleted and soon inserted again may keep its old place."""

    __slots__ = ("count", "large", "small")

    def __init__(
        self,
        large: dict[KeyT, ValueT] | None = None,
        small: dict[KeyT, ValueT | _Gone] | None = None,
        count: int | None = None,
    ) -> None:
        """Take ownership of the dictionaries: the caller may not change them afterwards."""
        self.large: dict[KeyT, ValueT] = {} if large is None else large
        self.small: dict[KeyT, ValueT | _Gone] = {} if small is None else small
        self.count = len(self.large) if count is None else count

    def __getitem__(self, key: KeyT) -> ValueT:
        found = self.small.get(key)
        if found is None:
            return self.large[key]
        if isinstance(found, _Gone):
            raise KeyError(key)
        return found

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[KeyT]:
        return (key for key, _value in self.pairs())

    def changed(self, changes: Mapping[KeyT, ValueT | None]) -> "Layers[KeyT, ValueT]":
        """Return a copy with these values; a value of None deletes its key."""
        large, small, count = self.large, dict(self.small), self.count
        for key, value in changes.items():
            was_there = small.get(key) is not _GONE if key in small else key in large
            count += (value is not None) - was_there
            if value is not None:
                small[key] = value
            elif key in large:
                small[key] = _GONE
            else:
                small.pop(key, None)
        after = Layers(large, small, count)
        if len(small) <= max(_SMALL_MAX, len(large) // _SHARE):
            return after
        return Layers(dict(after.pairs()))

    def differing(self, after: "Layers[KeyT, ValueT]") -> Iterator[KeyT]:
        """Yield the keys whose values are not the same object in both mappings."""
        if self.large is after.large:
            mine, others = self.small, after.small
            for key, value in mine.items():
                if others.get(key) is not value:
                    yield key
            yield from (key for key in others if key not in mine)
            return
        before, now = dict(self.pairs()), dict(after.pairs())
        for key, known in before.items():
            if now.get(key) is not known:
                yield key
        yield from (key for key in now if key not in before)

    def pairs(self) -> Iterator[tuple[KeyT, ValueT]]:
        """Yield the same as ``items``, faster."""
        small = self.small
        if not small:
            yield from self.large.items()
            return
        for key, value in self.large.items():
            laid = small.get(key)
            if laid is None:
                yield key, value
            elif not isinstance(laid, _Gone):
                yield key, laid
        for key, laid in small.items():
            if not isinstance(laid, _Gone) and key not in self.large:
                yield key, laid
