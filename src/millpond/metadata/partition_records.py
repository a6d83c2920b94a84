"""Facts about partitions: where their replicas are, who leads, who is in sync. In Kafka's own encoding."""

from dataclasses import dataclass
from uuid import UUID

from millpond.base.kafka_encoding import I8, I32, Reader, compact_int32s, compact_uuids, tagged

NO_LEADER = -1
LEADER_UNCHANGED = -2

# Ids that name no directory, as Kafka reserves them (KIP-858).
# The replica lies in a directory that the metadata have not been told of: they were written before any was.
NO_DIRECTORY = UUID(int=0)
# The node that keeps the replica has not chosen a directory yet, or has not said which.
UNASSIGNED_DIRECTORY = UUID(int=1)
# The replica lies in a directory that is offline, and which one that is cannot be said.
LOST_DIRECTORY = UUID(int=2)
_RESERVED_DIRECTORIES = 100


def is_reserved_directory(directory: UUID) -> bool:
    """Whether this id can be no directory's own."""
    return directory.int < _RESERVED_DIRECTORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition exists (type 3; version 1, or 2 where eligible leaders are named)."""

    partition_id: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[UUID, ...] = ()
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    # The leader was elected though it may lack something, and has not said yet that it is through with that.
    recovering: bool = False
    # Replicas that were in sync when fewer than min.insync.replicas were left (KIP-966).
    eligible_leaders: tuple[int, ...] = ()
    last_known_leaders: tuple[int, ...] = ()

    @property
    def version(self) -> int:
        """The lowest version that can say it all."""
        return 2 if self.eligible_leaders or self.last_known_leaders else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition changed (type 5; version 1, or 2 where eligible leaders are named). None and -2 mean
    unchanged.

    A leader given, even the same one, starts a new leader epoch.
    """

    partition_id: int
    topic_id: UUID
    isr: tuple[int, ...] | None = None
    leader: int = LEADER_UNCHANGED
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    recovering: bool | None = None
    directories: tuple[UUID, ...] | None = None
    eligible_leaders: tuple[int, ...] | None = None
    last_known_leaders: tuple[int, ...] | None = None

    @property
    def version(self) -> int:
        """The lowest version that can say it all."""
        return 1 if self.eligible_leaders is None and self.last_known_leaders is None else 2


def put_partition(out: bytearray, record: PartitionRecord) -> None:
    """Write the fields."""
    out += I32.pack(record.partition_id)
    out += record.topic_id.bytes
    out += compact_int32s(record.replicas)
    out += compact_int32s(record.isr)
    out += compact_int32s(record.removing)
    out += compact_int32s(record.adding)
    out += I32.pack(record.leader)
    out += I32.pack(record.leader_epoch)
    out += I32.pack(record.partition_epoch)
    out += compact_uuids(record.directories)
    tags = [(0, I8.pack(1))] if record.recovering else []
    tags += _ints_tag(1, record.eligible_leaders or None)
    tags += _ints_tag(2, record.last_known_leaders or None)
    out += tagged(*tags)


def put_partition_change(out: bytearray, record: PartitionChangeRecord) -> None:
    """Write the fields."""
    out += I32.pack(record.partition_id)
    out += record.topic_id.bytes
    tags = _ints_tag(0, record.isr)
    if record.leader != LEADER_UNCHANGED:
        tags.append((1, I32.pack(record.leader)))
    tags += _ints_tag(2, record.replicas)
    tags += _ints_tag(3, record.removing)
    tags += _ints_tag(4, record.adding)
    if record.recovering is not None:
        tags.append((5, I8.pack(record.recovering)))
    tags += _ints_tag(6, record.eligible_leaders)
    tags += _ints_tag(7, record.last_known_leaders)
    if record.directories is not None:
        tags.append((8, compact_uuids(record.directories)))
    out += tagged(*tags)


def get_partition(reader: Reader, version: int) -> PartitionRecord:
    """Read the fields."""
    partition_id, topic_id = reader.int32(), reader.uuid()
    replicas, isr = reader.compact_int32s(), reader.compact_int32s()
    removing, adding = reader.compact_int32s(), reader.compact_int32s()
    leader, leader_epoch = reader.int32(), reader.int32()
    partition_epoch = reader.int32()
    directories = reader.compact_uuids() if version >= 1 else ()
    tags = reader.tagged_fields()
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=directories,
        removing=removing,
        adding=adding,
        recovering=0 in tags and Reader(tags[0]).int8() == 1,
        eligible_leaders=Reader(tags[1]).compact_int32s() if 1 in tags else (),
        last_known_leaders=Reader(tags[2]).compact_int32s() if 2 in tags else (),
    )


def get_partition_change(reader: Reader, _version: int) -> PartitionChangeRecord:
    """Read the fields."""
    partition_id, topic_id = reader.int32(), reader.uuid()
    tags = reader.tagged_fields()
    recovery = Reader(tags[5]).int8() if 5 in tags else -1
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=_ints(tags, 0),
        leader=Reader(tags[1]).int32() if 1 in tags else LEADER_UNCHANGED,
        replicas=_ints(tags, 2),
        removing=_ints(tags, 3),
        adding=_ints(tags, 4),
        recovering=None if recovery == -1 else recovery == 1,
        directories=Reader(tags[8]).compact_uuids() if 8 in tags else None,
        eligible_leaders=_ints(tags, 6),
        last_known_leaders=_ints(tags, 7),
    )


def _ints_tag(tag: int, values: tuple[int, ...] | None) -> list[tuple[int, bytes]]:
    if values is None:
        return []
    return [(tag, compact_int32s(values))]


def _ints(tags: dict[int, bytes], tag: int) -> tuple[int, ...] | None:
    return Reader(tags[tag]).compact_int32s() if tag in tags else None
