"""VotersRecord message, versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct
from uuid import UUID

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NO_ID,
    NOT_GIVEN,
    pack_compact_count,
    pack_compact_string,
    read_compact_count,
    read_compact_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_H = Struct(">H")
_pack_H, _unpack_H = _H.pack, _H.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_hh = Struct(">hh")
_pack_hh, _unpack_hh = _hh.pack, _hh.unpack_from
_iu = Struct(">i16s")
_pack_iu, _unpack_iu = _iu.pack, _iu.unpack_from


class Endpoint(Message):
    __slots__ = ("name", "host", "port")

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class KRaftVersionFeature(Message):
    __slots__ = ("min_supported_version", "max_supported_version")

    def __init__(
        self,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class Voter(Message):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature")

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: UUID = NO_ID,
        endpoints: list[Endpoint] = NOT_GIVEN,
        kraft_version_feature: KRaftVersionFeature = NOT_GIVEN,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints: list[Endpoint] = [] if endpoints is NOT_GIVEN else endpoints
        self.kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature() if kraft_version_feature is NOT_GIVEN else kraft_version_feature


class VotersRecord(Message):
    __slots__ = ("version", "voters")

    def __init__(
        self,
        version: int = 0,
        voters: list[Voter] = NOT_GIVEN,
    ) -> None:
        self.version = version
        self.voters: list[Voter] = [] if voters is NOT_GIVEN else voters


def encode_voters_record(m: VotersRecord, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.version))
        values_1 = m.voters
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_iu(m_2.voter_id, m_2.voter_directory_id.bytes))
            values_3 = m_2.endpoints
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.name))
                add(pack_compact_string(m_4.host))
                add(_pack_H(m_4.port))
                add(b"\x00")
            m_5 = m_2.kraft_version_feature
            add(_pack_hh(m_5.min_supported_version, m_5.max_supported_version))
            add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("VotersRecord", version, error) from error


def decode_voters_record(data: memoryview, version: int) -> VotersRecord:
    try:
        p = 0
        (version_,) = _unpack_h(data, p)
        p += 2
        count, p = read_compact_count(data, p, 27)
        voters: list[Voter] = []
        for _ in range(count):
            voter_id_1, voter_directory_id_1 = _unpack_iu(data, p)
            p += 20
            voter_directory_id_1 = uuid_of(voter_directory_id_1)
            count, p = read_compact_count(data, p, 5)
            endpoints_1: list[Endpoint] = []
            for _ in range(count):
                name_2, p = read_compact_string(data, p)
                host_2, p = read_compact_string(data, p)
                (port_2,) = _unpack_H(data, p)
                p += 2
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                endpoints_1.append(Endpoint(name_2, host_2, port_2))
            min_supported_version_3, max_supported_version_3 = _unpack_hh(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            kraft_version_feature_1 = KRaftVersionFeature(min_supported_version_3, max_supported_version_3)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            voters.append(Voter(voter_id_1, voter_directory_id_1, endpoints_1, kraft_version_feature_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return VotersRecord(version_, voters)
    except DECODE_ERRORS as error:
        raise malformed("VotersRecord", version, error) from None
