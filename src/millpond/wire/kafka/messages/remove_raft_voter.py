"""RemoveRaftVoter request and response (api 81), versions 0.

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
    pack_nullable_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iu = Struct(">i16s")
_pack_iu, _unpack_iu = _iu.pack, _iu.unpack_from


class RemoveRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")

    def __init__(
        self,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: UUID = NO_ID,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(Message):
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


def encode_remove_raft_voter_request(m: RemoveRaftVoterRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_nullable_compact_string(m.cluster_id))
        add(_pack_iu(m.voter_id, m.voter_directory_id.bytes))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("RemoveRaftVoterRequest", version, error) from error


def decode_remove_raft_voter_request(data: memoryview, version: int) -> RemoveRaftVoterRequest:
    try:
        p = 0
        cluster_id, p = read_nullable_compact_string(data, p)
        voter_id, voter_directory_id = _unpack_iu(data, p)
        p += 20
        voter_directory_id = uuid_of(voter_directory_id)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return RemoveRaftVoterRequest(cluster_id, voter_id, voter_directory_id)
    except DECODE_ERRORS as error:
        raise malformed("RemoveRaftVoterRequest", version, error) from None


def encode_remove_raft_voter_response(m: RemoveRaftVoterResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("RemoveRaftVoterResponse", version, error) from error


def decode_remove_raft_voter_response(data: memoryview, version: int) -> RemoveRaftVoterResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return RemoveRaftVoterResponse(throttle_time_ms, error_code, error_message)
    except DECODE_ERRORS as error:
        raise malformed("RemoveRaftVoterResponse", version, error) from None
