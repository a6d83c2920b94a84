"""What groups must know of topics: which there are, their ids and how many partitions they have.

A ``TopicView`` is a value that the host makes of the cluster's metadata and gives to the coordinator when
topics have changed. Nothing here changes.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID


class TopicShape(NamedTuple):
    """What an assignor must know of a topic."""

    topic_id: UUID
    partitions: int


def _nowhere(_key: object) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """The topics of the cluster now."""

    find: Callable[[str], TopicShape | None] = _nowhere
    name_of: Callable[[UUID], str | None] = _nowhere
    names: Iterable[str] = ()
    # Grows with each change of any topic.
    version: int = 0
    # The version in which a topic was last added: patterns may stand for more since then.
    created_version: int = 0

    @classmethod
    def of(cls, shapes: Mapping[str, TopicShape], version: int = 0) -> "TopicView":
        """Return a view of just these topics."""
        names = {shape.topic_id: name for name, shape in shapes.items()}
        return cls(
            find=shapes.get,
            name_of=names.get,
            names=tuple(shapes),
            version=version,
            created_version=version,
        )

    def ids(self, names: Iterable[str]) -> dict[UUID, int]:
        """The ids of those of these topics that exist, with their partition counts; in order of names."""
        found = (self.find(name) for name in sorted(names))
        return {shape.topic_id: shape.partitions for shape in found if shape is not None}

    def fingerprint(self, names: Iterable[str]) -> int:
        """A number that changes when one of these topics appears, disappears or grows; 0 if none exists.

        Kafka keeps a number of its own making here. Finding another one it makes the assignment anew, once.
        """
        digest = blake2b(digest_size=8)
        empty = True
        for name in sorted(names):
            shape = self.find(name)
            if shape is not None:
                empty = False
                digest.update(name.encode() + b"\0" + shape.topic_id.bytes)
                digest.update(struct.pack(">i", shape.partitions))
        return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPattern:
    """The topics that a pattern matches, as of a version of the topics and a time."""

    topics: frozenset[str] = field(default_factory=frozenset)
    version: int = 0
    resolved_at_ms: int = 0
