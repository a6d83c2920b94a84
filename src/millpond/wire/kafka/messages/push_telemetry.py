"""PushTelemetry request and response (api 72), versions 0.

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
    pack_compact_count,
    pack_compact_size,
    read_compact_bytes,
    skip_tags,
    unencodable,
    uuid_of,
)

_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_uiob = Struct(">16si?b")
_pack_uiob, _unpack_uiob = _uiob.pack, _uiob.unpack_from


class PushTelemetryRequest(Message):
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")

    def __init__(
        self,
        client_instance_id: UUID = NO_ID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


def encode_push_telemetry_request(m: PushTelemetryRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_uiob(m.client_instance_id.bytes, m.subscription_id, m.terminating, m.compression_type))
        value_1 = m.metrics
        add(pack_compact_size(value_1))
        add(value_1)
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("PushTelemetryRequest", version, error) from error


def decode_push_telemetry_request(data: memoryview, version: int) -> PushTelemetryRequest:
    try:
        p = 0
        client_instance_id, subscription_id, terminating, compression_type = _unpack_uiob(data, p)
        p += 22
        client_instance_id = uuid_of(client_instance_id)
        metrics, p = read_compact_bytes(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return PushTelemetryRequest(client_instance_id, subscription_id, terminating, compression_type, metrics)
    except DECODE_ERRORS as error:
        raise malformed("PushTelemetryRequest", version, error) from None


def encode_push_telemetry_response(m: PushTelemetryResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("PushTelemetryResponse", version, error) from error


def decode_push_telemetry_response(data: memoryview, version: int) -> PushTelemetryResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return PushTelemetryResponse(throttle_time_ms, error_code)
    except DECODE_ERRORS as error:
        raise malformed("PushTelemetryResponse", version, error) from None
