"""SnapshotFooterRecord message, versions 0.

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

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from


class SnapshotFooterRecord(Message):
    __slots__ = ("version",)

    def __init__(
        self,
        version: int = 0,
    ) -> None:
        self.version = version


def encode_snapshot_footer_record(m: SnapshotFooterRecord, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.version))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SnapshotFooterRecord", version, error) from error


def decode_snapshot_footer_record(data: memoryview, version: int) -> SnapshotFooterRecord:
    try:
        p = 0
        (version_,) = _unpack_h(data, p)
        p += 2
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return SnapshotFooterRecord(version_)
    except DECODE_ERRORS as error:
        raise malformed("SnapshotFooterRecord", version, error) from None
