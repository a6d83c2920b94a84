"""Patterns of words, as topic exchanges have them: ``*`` is one word, ``#`` any number of words.

Patterns are kept in a trie by word. Matching follows all places in it that the words so far can have led
to, so its cost goes with the length of the key and the patterns that match a part of it, not with how many
there are; many ``#`` in one pattern cost no more than their number.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

ONE, ANY = "*", "#"

TargetT = TypeVar("TargetT", bound=Hashable)


def words_of(key: str) -> list[str]:
    """The words of a key; an empty key has none."""
    return key.split(".") if key else []


class _Node(Generic[TargetT]):
    """A place in the trie. What lies behind ``*`` and ``#`` is apart from what lies behind words."""

    __slots__ = ("any", "one", "targets", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node[TargetT]] = {}
        self.one: _Node[TargetT] | None = None
        self.any: _Node[TargetT] | None = None
        # How often each target was added; several bindings may say the same.
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
        """A key that matches this pattern leads to the target, too."""
        node = self._root
        for word in words_of(pattern):
            child = node.get(word)
            if child is None:
                child = _Node()
                node.put(word, child)
            node = child
        node.targets[target] = node.targets.get(target, 0) + 1

    def remove(self, pattern: str, target: TargetT) -> None:
        """Takes one ``add`` back."""
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
        """All targets, those of several patterns several times."""
        # Where the words so far can have led to. Those behind ``#`` stay, whatever word comes.
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
    """Adds a place, and those behind any ``#`` that follows it, each once."""
    assert node is not None
    places.append(node)
    node = node.any
    while node is not None and node not in staying:
        staying.append(node)
        places.append(node)
        node = node.any
