"""Facts of protocols other than Kafka: a family of records, which the metadata keep without knowing them.

Kafka's own records are a closed list (``records.py``), and what they mean is in ``image.py``. Any other
protocol that keeps facts of the whole cluster (queues, users, znodes) has a ``RecordFamily``: the types of
its records, the level of ``millpond.version`` that they need, their bytes, and its *slice* of the image, the
value that its records fold into. A new family changes nothing here: ``Families`` is given to the node, which
reads its log and its snapshots with them.

A slice never changes; ``apply`` returns the next one. ``diff`` gives records that lead from one slice to
another, and from ``empty`` for a snapshot. For any two slices a and b, applying ``diff(a, b)`` to a gives b.

A family's record is stored as one of Kafka's: its type, version 0, and its bytes as one field. What may
change between versions of a family is in those bytes; a reader must accept what an older one wrote.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from millpond.base.kafka_encoding import NO_TAGS, Reader, compact_bytes

if TYPE_CHECKING:
    from millpond.metadata.image import Image

RecordT = TypeVar("RecordT")
SliceT = TypeVar("SliceT")

# Kafka's types are far below; a type is a signed 16-bit number in Kafka's frame.
FIRST_TYPE: Final = 20_000
LAST_TYPE: Final = 32_767
VERSION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordFamily(Generic[RecordT, SliceT]):
    """One protocol's facts. Two families are never the same, whatever they contain."""

    name: str
    # The types of its records on disk: they may be added to, never changed or given to another family.
    types: frozenset[int]
    # The level of ``millpond.version`` from which on every node can read them.
    level: int
    # The slice of a cluster that has no fact of this family.
    empty: SliceT
    type_of: Callable[[RecordT], int]
    encode: Callable[[RecordT], bytes]
    # Raises ``MalformedData``.
    decode: Callable[[int, bytes], RecordT]
    apply: Callable[[SliceT, RecordT], SliceT]
    diff: Callable[[SliceT, SliceT], Iterable[RecordT]]

    def __post_init__(self) -> None:
        assert self.types
        assert all(FIRST_TYPE <= one <= LAST_TYPE for one in self.types)

    def record(self, fact: RecordT) -> "FamilyRecord":
        """Return a fact of this family as a record of the metadata."""
        return FamilyRecord(family=self, fact=fact)

    def slice_of(self, image: "Image") -> SliceT:
        """Return what the facts of this family amount to."""
        return cast("SliceT", image.slices.get(self, self.empty))


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyRecord:
    """A fact of a family, among the records of the metadata."""

    family: RecordFamily[Any, Any]
    fact: Any

    @property
    def type(self) -> int:
        """The type of the record on disk."""
        return self.family.type_of(self.fact)


class Families:
    """The families that a node knows, each once. No two have a type in common."""

    def __init__(self, families: Iterable[RecordFamily[Any, Any]] = ()) -> None:
        self._all = tuple(dict.fromkeys(families))
        self._by_type = {kind: family for family in self._all for kind in family.types}
        assert len(self._by_type) == sum(len(family.types) for family in self._all)

    def __iter__(self) -> Iterator[RecordFamily[Any, Any]]:
        return iter(self._all)

    def of_type(self, kind: int) -> RecordFamily[Any, Any] | None:
        """Return the family that records of this type belong to."""
        return self._by_type.get(kind)


# For records of Kafka alone.
NO_FAMILIES: Final = Families()


def put_family_record(out: bytearray, record: FamilyRecord) -> None:
    """Write the fields of a record behind its frame."""
    out += compact_bytes(record.family.encode(record.fact))
    out += NO_TAGS


def get_family_record(family: RecordFamily[Any, Any], kind: int, reader: Reader) -> FamilyRecord:
    """Read what ``put_family_record`` wrote. Raises ``MalformedData``."""
    return FamilyRecord(family=family, fact=family.decode(kind, reader.compact_bytes()))


def slices_diff(before: "Image", after: "Image") -> Iterator[FamilyRecord]:
    """Yield facts that lead from the slices of one image to those of another."""
    families = {**before.slices, **after.slices}
    for family in sorted(families, key=lambda one: min(one.types)):
        old, new = family.slice_of(before), family.slice_of(after)
        if old is not new:
            for fact in family.diff(old, new):
                yield family.record(fact)
