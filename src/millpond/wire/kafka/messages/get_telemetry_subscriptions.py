"""GetTelemetrySubscriptions request and response (api 71), versions 0.

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
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
    uuid_of,
)

_ihui = Struct(">ih16si")
_pack_ihui, _unpack_ihui = _ihui.pack, _ihui.unpack_from
_iio = Struct(">ii?")
_pack_iio, _unpack_iio = _iio.pack, _iio.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class GetTelemetrySubscriptionsRequest(Message):
    __slots__ = ("client_instance_id",)

    def __init__(
        self,
        client_instance_id: UUID = NO_ID,
    ) -> None:
        self.client_instance_id = client_instance_id


class GetTelemetrySubscriptionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "client_instance_id", "subscription_id", "accepted_compression_types", "push_interval_ms", "telemetry_max_bytes", "delta_temporality", "requested_metrics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: UUID = NO_ID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = NOT_GIVEN,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types: list[int] = [] if accepted_compression_types is NOT_GIVEN else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics: list[str] = [] if requested_metrics is NOT_GIVEN else requested_metrics


def encode_get_telemetry_subscriptions_request(m: GetTelemetrySubscriptionsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_u(m.client_instance_id.bytes))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("GetTelemetrySubscriptionsRequest", version, error) from error


def decode_get_telemetry_subscriptions_request(data: memoryview, version: int) -> GetTelemetrySubscriptionsRequest:
    try:
        p = 0
        (client_instance_id,) = _unpack_u(data, p)
        p += 16
        client_instance_id = uuid_of(client_instance_id)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return GetTelemetrySubscriptionsRequest(client_instance_id)
    except DECODE_ERRORS as error:
        raise malformed("GetTelemetrySubscriptionsRequest", version, error) from None


def encode_get_telemetry_subscriptions_response(m: GetTelemetrySubscriptionsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ihui(m.throttle_time_ms, m.error_code, m.client_instance_id.bytes, m.subscription_id))
        values_1 = m.accepted_compression_types
        add(pack_compact_count(len(values_1)))
        add(pack_numbers(values_1, "b"))
        add(_pack_iio(m.push_interval_ms, m.telemetry_max_bytes, m.delta_temporality))
        values_2 = m.requested_metrics
        add(pack_compact_count(len(values_2)))
        for text in values_2:
            add(pack_compact_string(text))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("GetTelemetrySubscriptionsResponse", version, error) from error


def decode_get_telemetry_subscriptions_response(data: memoryview, version: int) -> GetTelemetrySubscriptionsResponse:
    try:
        p = 0
        throttle_time_ms, error_code, client_instance_id, subscription_id = _unpack_ihui(data, p)
        p += 26
        client_instance_id = uuid_of(client_instance_id)
        count, p = read_compact_count(data, p, 1)
        accepted_compression_types, p = read_numbers(data, p, count, "b")
        push_interval_ms, telemetry_max_bytes, delta_temporality = _unpack_iio(data, p)
        p += 9
        count, p = read_compact_count(data, p, 1)
        requested_metrics: list[str] = []
        for _ in range(count):
            item, p = read_compact_string(data, p)
            requested_metrics.append(item)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return GetTelemetrySubscriptionsResponse(throttle_time_ms, error_code, client_instance_id, subscription_id, accepted_compression_types, push_interval_ms, telemetry_max_bytes, delta_temporality, requested_metrics)
    except DECODE_ERRORS as error:
        raise malformed("GetTelemetrySubscriptionsResponse", version, error) from None
