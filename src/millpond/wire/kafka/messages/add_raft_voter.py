"""AddRaftVoter request and response (api 80), versions 0-1.

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
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_H = Struct(">H")
_pack_H, _unpack_H = _H.pack, _H.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iiu = Struct(">ii16s")
_pack_iiu, _unpack_iiu = _iiu.pack, _iiu.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


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


class AddRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")

    def __init__(
        self,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: UUID = NO_ID,
        listeners: list[Listener] = NOT_GIVEN,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners: list[Listener] = [] if listeners is NOT_GIVEN else listeners
        self.ack_when_committed = ack_when_committed


class AddRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


def encode_add_raft_voter_request(m: AddRaftVoterRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_nullable_compact_string(m.cluster_id))
        add(_pack_iiu(m.timeout_ms, m.voter_id, m.voter_directory_id.bytes))
        values_1 = m.listeners
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            add(pack_compact_string(m_2.host))
            add(_pack_H(m_2.port))
            add(b"\x00")
        if version >= 1:
            add(_pack_o(m.ack_when_committed))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AddRaftVoterRequest", version, error) from error


def decode_add_raft_voter_request(data: memoryview, version: int) -> AddRaftVoterRequest:
    try:
        p = 0
        cluster_id, p = read_nullable_compact_string(data, p)
        timeout_ms, voter_id, voter_directory_id = _unpack_iiu(data, p)
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
        if version >= 1:
            ack_when_committed = data[p] != 0
            p += 1
        else:
            ack_when_committed = True
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AddRaftVoterRequest(cluster_id, timeout_ms, voter_id, voter_directory_id, listeners, ack_when_committed)
    except DECODE_ERRORS as error:
        raise malformed("AddRaftVoterRequest", version, error) from None


def encode_add_raft_voter_response(m: AddRaftVoterResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AddRaftVoterResponse", version, error) from error


def decode_add_raft_voter_response(data: memoryview, version: int) -> AddRaftVoterResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AddRaftVoterResponse(throttle_time_ms, error_code, error_message)
    except DECODE_ERRORS as error:
        raise malformed("AddRaftVoterResponse", version, error) from None
