"""BrokerHeartbeat request and response (api 63), versions 0-2.

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
    NOT_GIVEN,
    pack_compact_count,
    pack_numbers,
    pack_tags,
    read_compact_count,
    read_nullable_compact_count,
    read_numbers,
    read_tag,
    read_uuids,
    read_uvarint,
    skip_tags,
    unencodable,
    wrong_tag_size,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihooo = Struct(">ih???")
_pack_ihooo, _unpack_ihooo = _ihooo.pack, _ihooo.unpack_from
_iqqoo = Struct(">iqq??")
_pack_iqqoo, _unpack_iqqoo = _iqqoo.pack, _iqqoo.unpack_from


class BrokerHeartbeatRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs", "cordoned_log_dirs", "silent_leaders", "silent_followers", "lease_ms")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[UUID] = NOT_GIVEN,
        cordoned_log_dirs: list[UUID] | None = None,
        silent_leaders: list[int] = NOT_GIVEN,
        silent_followers: list[int] = NOT_GIVEN,
        lease_ms: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs: list[UUID] = [] if offline_log_dirs is NOT_GIVEN else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs
        self.silent_leaders: list[int] = [] if silent_leaders is NOT_GIVEN else silent_leaders
        self.silent_followers: list[int] = [] if silent_followers is NOT_GIVEN else silent_followers
        self.lease_ms = lease_ms


class BrokerHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "is_caught_up", "is_fenced", "should_shut_down")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down


def encode_broker_heartbeat_request(m: BrokerHeartbeatRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_iqqoo(m.broker_id, m.broker_epoch, m.current_metadata_offset, m.want_fence, m.want_shut_down))
        tags_1: list[tuple[int, bytes]] = []
        if version >= 1 and m.offline_log_dirs:
            parts_2: list[BytesLike] = []
            add_2 = parts_2.append
            values_3 = m.offline_log_dirs
            add_2(pack_compact_count(len(values_3)))
            add_2(b"".join([value.bytes for value in values_3]))
            tags_1.append((0, b"".join(parts_2)))
        if version >= 2 and m.cordoned_log_dirs is not None:
            parts_4: list[BytesLike] = []
            add_4 = parts_4.append
            values_5 = m.cordoned_log_dirs
            if values_5 is None:
                add_4(pack_compact_count(-1))
            else:
                add_4(pack_compact_count(len(values_5)))
                add_4(b"".join([value.bytes for value in values_5]))
            tags_1.append((1, b"".join(parts_4)))
        if version >= 1 and m.silent_leaders:
            parts_6: list[BytesLike] = []
            add_6 = parts_6.append
            values_7 = m.silent_leaders
            add_6(pack_compact_count(len(values_7)))
            add_6(pack_numbers(values_7, "i"))
            tags_1.append((1000, b"".join(parts_6)))
        if version >= 1 and m.silent_followers:
            parts_8: list[BytesLike] = []
            add_8 = parts_8.append
            values_9 = m.silent_followers
            add_8(pack_compact_count(len(values_9)))
            add_8(pack_numbers(values_9, "i"))
            tags_1.append((1001, b"".join(parts_8)))
        if version >= 1 and m.lease_ms != -1:
            parts_10: list[BytesLike] = []
            add_10 = parts_10.append
            add_10(_pack_i(m.lease_ms))
            tags_1.append((1002, b"".join(parts_10)))
        add(pack_tags(tags_1))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("BrokerHeartbeatRequest", version, error) from error


def decode_broker_heartbeat_request(data: memoryview, version: int) -> BrokerHeartbeatRequest:
    try:
        p = 0
        broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down = _unpack_iqqoo(data, p)
        p += 22
        offline_log_dirs: list[UUID] = []
        cordoned_log_dirs: list[UUID] | None = None
        silent_leaders: list[int] = []
        silent_followers: list[int] = []
        lease_ms: int = -1
        if data[p] == 0:
            p += 1
        else:
            tag_count, p = read_uvarint(data, p)
            for _ in range(tag_count):
                tag, p, stop = read_tag(data, p)
                if tag == 0 and version >= 1:
                    count, p = read_compact_count(data, p, 16)
                    offline_log_dirs, p = read_uuids(data, p, count)
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                elif tag == 1 and version >= 2:
                    count, p = read_nullable_compact_count(data, p, 16)
                    if count < 0:
                        cordoned_log_dirs = None
                    else:
                        cordoned_log_dirs, p = read_uuids(data, p, count)
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                elif tag == 1000 and version >= 1:
                    count, p = read_compact_count(data, p, 4)
                    silent_leaders, p = read_numbers(data, p, count, "i")
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                elif tag == 1001 and version >= 1:
                    count, p = read_compact_count(data, p, 4)
                    silent_followers, p = read_numbers(data, p, count, "i")
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                elif tag == 1002 and version >= 1:
                    (lease_ms,) = _unpack_i(data, p)
                    p += 4
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                p = stop
        return BrokerHeartbeatRequest(broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down, offline_log_dirs, cordoned_log_dirs, silent_leaders, silent_followers, lease_ms)
    except DECODE_ERRORS as error:
        raise malformed("BrokerHeartbeatRequest", version, error) from None


def encode_broker_heartbeat_response(m: BrokerHeartbeatResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ihooo(m.throttle_time_ms, m.error_code, m.is_caught_up, m.is_fenced, m.should_shut_down))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("BrokerHeartbeatResponse", version, error) from error


def decode_broker_heartbeat_response(data: memoryview, version: int) -> BrokerHeartbeatResponse:
    try:
        p = 0
        throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down = _unpack_ihooo(data, p)
        p += 9
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return BrokerHeartbeatResponse(throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down)
    except DECODE_ERRORS as error:
        raise malformed("BrokerHeartbeatResponse", version, error) from None
