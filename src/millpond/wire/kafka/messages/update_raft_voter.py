"""UpdateRaftVoter request and response (api 82), versions 0.

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
    pack_nullable_compact_string,
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    read_tag,
    read_uvarint,
    skip_tags,
    unencodable,
    uuid_of,
    wrong_tag_size,
)

_H = Struct(">H")
_pack_H, _unpack_H = _H.pack, _H.unpack_from
_hh = Struct(">hh")
_pack_hh, _unpack_hh = _hh.pack, _hh.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iiu = Struct(">ii16s")
_pack_iiu, _unpack_iiu = _iiu.pack, _iiu.unpack_from


class Listener(Message):
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


class UpdateRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "current_leader_epoch", "voter_id", "voter_directory_id", "listeners", "kraft_version_feature")

    def __init__(
        self,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: UUID = NO_ID,
        listeners: list[Listener] = NOT_GIVEN,
        kraft_version_feature: KRaftVersionFeature = NOT_GIVEN,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners: list[Listener] = [] if listeners is NOT_GIVEN else listeners
        self.kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature() if kraft_version_feature is NOT_GIVEN else kraft_version_feature


class CurrentLeader(Message):
    __slots__ = ("leader_id", "leader_epoch", "host", "port")

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "current_leader")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: CurrentLeader = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader: CurrentLeader = CurrentLeader() if current_leader is NOT_GIVEN else current_leader


def encode_update_raft_voter_request(m: UpdateRaftVoterRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_nullable_compact_string(m.cluster_id))
        add(_pack_iiu(m.current_leader_epoch, m.voter_id, m.voter_directory_id.bytes))
        values_1 = m.listeners
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            add(pack_compact_string(m_2.host))
            add(_pack_H(m_2.port))
            add(b"\x00")
        m_3 = m.kraft_version_feature
        add(_pack_hh(m_3.min_supported_version, m_3.max_supported_version))
        add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("UpdateRaftVoterRequest", version, error) from error


def decode_update_raft_voter_request(data: memoryview, version: int) -> UpdateRaftVoterRequest:
    try:
        p = 0
        cluster_id, p = read_nullable_compact_string(data, p)
        current_leader_epoch, voter_id, voter_directory_id = _unpack_iiu(data, p)
        p += 24
        voter_directory_id = uuid_of(voter_directory_id)
        count, p = read_compact_count(data, p, 5)
        listeners: list[Listener] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            host_1, p = read_compact_string(data, p)
            (port_1,) = _unpack_H(data, p)
            p += 2
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            listeners.append(Listener(name_1, host_1, port_1))
        min_supported_version_2, max_supported_version_2 = _unpack_hh(data, p)
        p += 4
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        kraft_version_feature = KRaftVersionFeature(min_supported_version_2, max_supported_version_2)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return UpdateRaftVoterRequest(cluster_id, current_leader_epoch, voter_id, voter_directory_id, listeners, kraft_version_feature)
    except DECODE_ERRORS as error:
        raise malformed("UpdateRaftVoterRequest", version, error) from None


def encode_update_raft_voter_response(m: UpdateRaftVoterResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        tags_1: list[tuple[int, bytes]] = []
        if m.current_leader != CurrentLeader():
            parts_2: list[BytesLike] = []
            add_2 = parts_2.append
            m_3 = m.current_leader
            add_2(_pack_ii(m_3.leader_id, m_3.leader_epoch))
            add_2(pack_compact_string(m_3.host))
            add_2(_pack_i(m_3.port))
            add_2(b"\x00")
            tags_1.append((0, b"".join(parts_2)))
        add(pack_tags(tags_1))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("UpdateRaftVoterResponse", version, error) from error


def decode_update_raft_voter_response(data: memoryview, version: int) -> UpdateRaftVoterResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        current_leader: CurrentLeader = CurrentLeader()
        if data[p] == 0:
            p += 1
        else:
            tag_count, p = read_uvarint(data, p)
            for _ in range(tag_count):
                tag, p, stop = read_tag(data, p)
                if tag == 0:
                    leader_id_1, leader_epoch_1 = _unpack_ii(data, p)
                    p += 8
                    host_1, p = read_compact_string(data, p)
                    (port_1,) = _unpack_i(data, p)
                    p += 4
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    current_leader = CurrentLeader(leader_id_1, leader_epoch_1, host_1, port_1)
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                p = stop
        return UpdateRaftVoterResponse(throttle_time_ms, error_code, current_leader)
    except DECODE_ERRORS as error:
        raise malformed("UpdateRaftVoterResponse", version, error) from None
