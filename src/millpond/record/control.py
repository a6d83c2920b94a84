"""Control records: entries for the log's own use, in batches that consumers skip.

The key of a control record is its version and type; the value depends on the type. Only the markers that
end a transaction are written here; the other types have names for tools that show logs.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, not a function)

from millpond.base.errors import CorruptBatch
from millpond.record.builder import build_batch
from millpond.record.records import Record

_KEY = Struct(">hh")
_END_TXN_VALUE = Struct(">hi")
_VERSION = 0


class MarkerType(IntEnum):
    """Types of control records by their number in the key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnMarker:
    """The end of a producer's transaction: its records before this marker are committed or aborted."""

    committed: bool
    coordinator_epoch: int

    @property
    def type(self) -> MarkerType:
        return MarkerType.COMMIT if self.committed else MarkerType.ABORT

    def build(
        self,
        *,
        timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> bytearray:
        """Return the marker as a batch, ready to append."""
        key = _KEY.pack(_VERSION, self.type)
        value = _END_TXN_VALUE.pack(_VERSION, self.coordinator_epoch)
        return build_batch(
            [(timestamp, key, value, ())],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=True,
            control=True,
            leader_epoch=leader_epoch,
        )

    @classmethod
    def parse(cls, record: Record) -> "EndTxnMarker":
        """Decode a marker. Raises ``CorruptBatch`` if the record is not one."""
        kind = marker_type(record)
        if kind not in (MarkerType.COMMIT, MarkerType.ABORT):
            raise CorruptBatch(
                f"control record {kind} at offset {record.offset} does not end a transaction"
            )
        try:
            version, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value or b"")
        except StructError:
            raise CorruptBatch(f"marker at offset {record.offset} has no value") from None
        if version < _VERSION:
            raise CorruptBatch(f"marker at offset {record.offset} has version {version}")
        return cls(committed=kind == MarkerType.COMMIT, coordinator_epoch=coordinator_epoch)


def marker_type(record: Record) -> MarkerType | int:
    """Return the type of a control record; a plain number if the type is unknown."""
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
    except StructError:
        raise CorruptBatch(f"control record at offset {record.offset} has no type") from None
    if version < _VERSION:
        raise CorruptBatch(f"control record at offset {record.offset} has version {version}")
    try:
        return MarkerType(kind)
    except ValueError:
        return int(kind)
