"""KRaftVersionRecord message, versions 0.

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

_hh = Struct(">hh")
_pack_hh, _unpack_hh = _hh.pack, _hh.unpack_from


class KRaftVersionRecord(Message):
    __slots__ = ("version", "kraft_version")

    def __init__(
        self,
        version: int = 0,
        kraft_version: int = 0,
    ) -> None:
        self.version = version
        self.kraft_version = kraft_version


def encode_kraft_version_record(m: KRaftVersionRecord, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_hh(m.version, m.kraft_version))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("KRaftVersionRecord", version, error) from error


def decode_kraft_version_record(data: memoryview, version: int) -> KRaftVersionRecord:
    try:
        p = 0
        version_, kraft_version = _unpack_hh(data, p)
        p += 4
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return KRaftVersionRecord(version_, kraft_version)
    except DECODE_ERRORS as error:
        raise malformed("KRaftVersionRecord", version, error) from None
