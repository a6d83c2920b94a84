"""Patterns of topic exchanges: ``*`` is one word, ``#`` any number of words.

Patterns are kept in a trie by word. Matching follows all nodes that the words so far can lead to, so its cost
depends on the length of the key and the patterns that match a part of it, not on the number of patterns; many
``#`` in one pattern cost no more than their number.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

ONE, ANY = "*", "#"

TargetT = TypeVar("TargetT", bound=Hashable)


def words_of(key: str) -> list[str]:
    """Return the words of a key; an empty key has none."""
    return key.split(".") if key else []


class _Node(Generic[TargetT]):
    """A node of the trie. Children by ``*`` and ``#`` are separate from children by words."""

    __slots__ = ("any", "one", "targets", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node[TargetT]] = {}
        self.one: _Node[TargetT] | None = None
        self.any: _Node[TargetT] | None = None
        # How often each target was added; several bindings may be equal.
        self.targets: dict[TargetT, int] = {}

    def get(self, word: str) -> "_Node[TargetT] | None":
        return self.one if word == ONE else self.any if word == ANY else self.words.get(word)

    def put(self, word: str, child: "_Node[TargetT] | None") -> None:
        if word == ONE:
            self.one = child
        elif word == ANY:
            self.any = child
        elif child is None:
            del self.words[word]
        else:
            self.words[word] = child

    @property
    def is_bare(self) -> bool:
        return not self.targets and not self.words and self.one is None and self.any is None


class TopicTrie(Generic[TargetT]):
    """Targets by pattern."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Node[TargetT] = _Node()

    @property
    def is_empty(self) -> bool:
        return self._root.is_bare

    def add(self, pattern: str, target: TargetT) -> None:
        """Add a target for keys that match the pattern."""
        node = self._root
        for word in words_of(pattern):
            child = node.get(word)
            if child is None:
                child = _Node()
                node.put(word, child)
            node = child
        node.targets[target] = node.targets.get(target, 0) + 1

    def remove(self, pattern: str, target: TargetT) -> None:
        """Undo one ``add``."""
        path: list[tuple[_Node[TargetT], str]] = []
        node = self._root
        for word in words_of(pattern):
            path.append((node, word))
            child = node.get(word)
            assert child is not None
            node = child
        if node.targets[target] > 1:
            node.targets[target] -= 1
            return
        del node.targets[target]
        while path and node.is_bare:
            node, word = path.pop()
            node.put(word, None)

    def match(self, key: str) -> Iterator[TargetT]:
        """Yield all targets; a target of several patterns several times."""
        # The nodes that the words so far can lead to. Those after ``#`` stay for every word.
        places: list[_Node[TargetT]] = []
        staying: list[_Node[TargetT]] = []
        _enter(self._root, places, staying)
        for word in words_of(key):
            before, places = places, staying.copy()
            for node in before:
                child = node.words.get(word)
                if child is not None:
                    _enter(child, places, staying)
                child = node.one
                if child is not None:
                    _enter(child, places, staying)
            if not places:
                return
        for node in places:
            yield from node.targets


def _enter(
    node: _Node[TargetT] | None, places: list[_Node[TargetT]], staying: list[_Node[TargetT]]
) -> None:
    """Add a node, and those after any ``#`` that follows it, each once."""
    assert node is not None
    places.append(node)
    node = node.any
    while node is not None and node not in staying:
        staying.append(node)
        places.append(node)
        node = node.any
