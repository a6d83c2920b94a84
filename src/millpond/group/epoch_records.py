"""What the records of consumer groups (KIP-848) and streams groups (KIP-1071) have in common.

Both keep the epoch of the group, the epoch of its targets, and for each member a target and a present
assignment, in Kafka's schemas. Keys are in the older encoding, values in the flexible one. An assignment is
an array of parts (a topic id, or the name of a subtopology), each with numbers (partitions, or tasks) and, in
a present assignment, with the epoch at which the member was given each of them.
"""

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from millpond.base.kafka_encoding import NO_TAGS, Reader, compact_int32s, string, tagged
from millpond.group.records import GONE, GroupRecord, Notice

PartT = TypeVar("PartT")

# In front of every value.
VALUE_VERSION = b"\x00\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStored(GroupRecord):
    """The epoch of a group, and a hash of its topics then."""

    group_id: str
    epoch: int
    metadata_hash: int = 0

    def notice(self) -> Notice:
        text = f"group={self.group_id} epoch={self.epoch}: members or topics changed"
        return Notice(text, is_detail=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsMade(GroupRecord):
    """The group epoch for which the targets were made, and when."""

    group_id: str
    epoch: int
    made_at_ms: int = 0

    def notice(self) -> Notice:
        return Notice(f"group={self.group_id} epoch={self.epoch}: new targets")


class Tombstone(GroupRecord):
    """A record without a value."""

    __slots__ = ()

    @property
    def ends_group(self) -> bool:
        """Whether the group itself is deleted."""
        raise NotImplementedError

    def notice(self) -> Notice | None:
        return Notice(f"group={self.group_id}: {GONE}") if self.ends_group else None


# --- writing --------------------------------------------------------------------------------------


def record_key(kind: int, *names: str) -> bytes:
    """Return the key of a record: its type and the names of its group and of its member or pattern."""
    return struct.pack(">h", kind) + b"".join(map(string, names))


def epoch_value(epoch: int, tagged_number: int) -> bytes:
    """Return an epoch with a number of 64 bits in the first tagged field, which is missing if it is 0."""
    tags = tagged((0, struct.pack(">q", tagged_number))) if tagged_number else NO_TAGS
    return VALUE_VERSION + struct.pack(">i", epoch) + tags


def part_value(part: bytes, numbers: Collection[int]) -> bytes:
    """Return one part of a target."""
    return part + compact_int32s(sorted(numbers)) + NO_TAGS


def dated_part_value(part: bytes, epochs: Mapping[int, int]) -> bytes:
    """Return one part of a present assignment: numbers, and the epoch of each."""
    numbers = sorted(epochs)
    dates = compact_int32s(epochs[number] for number in numbers)
    return part + compact_int32s(numbers) + tagged((0, dates))


# --- reading --------------------------------------------------------------------------------------


def read_epoch(reader: Reader) -> tuple[int, int]:
    """Read an epoch and the number in the first tagged field."""
    epoch, data = reader.int32(), reader.tagged_fields().get(0)
    return epoch, 0 if data is None else Reader(data).int64()


def read_part(reader: Reader, read: Callable[[], PartT]) -> tuple[PartT, frozenset[int]]:
    """Read one part of a target; ``read`` reads what names it."""
    part, numbers = read(), reader.compact_int32s()
    reader.tagged_fields()
    return part, frozenset(numbers)


def read_dated_part(
    reader: Reader, read: Callable[[], PartT], epoch: int
) -> tuple[PartT, dict[int, int]]:
    """Read one part of a present assignment; numbers without an epoch of their own get this one."""
    part, numbers = read(), reader.compact_int32s()
    data = reader.tagged_fields().get(0)
    if data is not None and data != b"\x00":
        inner = Reader(data)
        epochs = inner.compact_int32s()
        if len(epochs) == len(numbers):
            return part, dict(zip(numbers, epochs, strict=True))
    # Kafka before 4.3 did not write them.
    return part, dict.fromkeys(numbers, epoch)
