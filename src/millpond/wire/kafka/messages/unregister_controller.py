"""UnregisterController request and response (api 94), versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    pack_nullable_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class UnregisterControllerRequest(Message):
    __slots__ = ("controller_id",)

    def __init__(
        self,
        controller_id: int = 0,
    ) -> None:
        self.controller_id = controller_id


class UnregisterControllerResponse(Message):
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


def encode_unregister_controller_request(m: UnregisterControllerRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.controller_id))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("UnregisterControllerRequest", version, error) from error


def decode_unregister_controller_request(data: memoryview, version: int) -> UnregisterControllerRequest:
    try:
        p = 0
        (controller_id,) = _unpack_i(data, p)
        p += 4
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return UnregisterControllerRequest(controller_id)
    except DECODE_ERRORS as error:
        raise malformed("UnregisterControllerRequest", version, error) from None


def encode_unregister_controller_response(m: UnregisterControllerResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("UnregisterControllerResponse", version, error) from error


def decode_unregister_controller_response(data: memoryview, version: int) -> UnregisterControllerResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return UnregisterControllerResponse(throttle_time_ms, error_code, error_message)
    except DECODE_ERRORS as error:
        raise malformed("UnregisterControllerResponse", version, error) from None
