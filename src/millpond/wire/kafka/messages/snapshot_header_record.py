"""SnapshotHeaderRecord message, versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    skip_tags,
    unencodable,
)

_hq = Struct(">hq")
_pack_hq, _unpack_hq = _hq.pack, _hq.unpack_from


class SnapshotHeaderRecord(Message):
    __slots__ = ("version", "last_contained_log_timestamp")

    def __init__(
        self,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp


def encode_snapshot_header_record(m: SnapshotHeaderRecord, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_hq(m.version, m.last_contained_log_timestamp))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SnapshotHeaderRecord", version, error) from error


def decode_snapshot_header_record(data: memoryview, version: int) -> SnapshotHeaderRecord:
    try:
        p = 0
        version_, last_contained_log_timestamp = _unpack_hq(data, p)
        p += 10
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return SnapshotHeaderRecord(version_, last_contained_log_timestamp)
    except DECODE_ERRORS as error:
        raise malformed("SnapshotHeaderRecord", version, error) from None
