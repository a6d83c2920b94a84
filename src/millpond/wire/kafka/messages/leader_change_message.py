"""LeaderChangeMessage message, versions 0-1.

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
    read_compact_count,
    skip_tags,
    unencodable,
    uuid_of,
)

_hi = Struct(">hi")
_pack_hi, _unpack_hi = _hi.pack, _hi.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_iu = Struct(">i16s")
_pack_iu, _unpack_iu = _iu.pack, _iu.unpack_from


class Voter(Message):
    __slots__ = ("voter_id", "voter_directory_id")

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: UUID = NO_ID,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessage(Message):
    __slots__ = ("version", "leader_id", "voters", "granting_voters")

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: list[Voter] = NOT_GIVEN,
        granting_voters: list[Voter] = NOT_GIVEN,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters: list[Voter] = [] if voters is NOT_GIVEN else voters
        self.granting_voters: list[Voter] = [] if granting_voters is NOT_GIVEN else granting_voters


def encode_leader_change_message(m: LeaderChangeMessage, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_hi(m.version, m.leader_id))
        values_1 = m.voters
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            if version >= 1:
                add(_pack_iu(m_2.voter_id, m_2.voter_directory_id.bytes))
            else:
                add(_pack_i(m_2.voter_id))
            add(b"\x00")
        values_3 = m.granting_voters
        add(pack_compact_count(len(values_3)))
        for m_4 in values_3:
            if version >= 1:
                add(_pack_iu(m_4.voter_id, m_4.voter_directory_id.bytes))
            else:
                add(_pack_i(m_4.voter_id))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("LeaderChangeMessage", version, error) from error


def decode_leader_change_message(data: memoryview, version: int) -> LeaderChangeMessage:
    try:
        p = 0
        version_, leader_id = _unpack_hi(data, p)
        p += 6
        count, p = read_compact_count(data, p, 5)
        voters: list[Voter] = []
        for _ in range(count):
            if version >= 1:
                voter_id_1, voter_directory_id_1 = _unpack_iu(data, p)
                p += 20
                voter_directory_id_1 = uuid_of(voter_directory_id_1)
            else:
                (voter_id_1,) = _unpack_i(data, p)
                p += 4
                voter_directory_id_1 = NO_ID
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            voters.append(Voter(voter_id_1, voter_directory_id_1))
        count, p = read_compact_count(data, p, 5)
        granting_voters: list[Voter] = []
        for _ in range(count):
            if version >= 1:
                voter_id_2, voter_directory_id_2 = _unpack_iu(data, p)
                p += 20
                voter_directory_id_2 = uuid_of(voter_directory_id_2)
            else:
                (voter_id_2,) = _unpack_i(data, p)
                p += 4
                voter_directory_id_2 = NO_ID
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            granting_voters.append(Voter(voter_id_2, voter_directory_id_2))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return LeaderChangeMessage(version_, leader_id, voters, granting_voters)
    except DECODE_ERRORS as error:
        raise malformed("LeaderChangeMessage", version, error) from None
