"""Encodes a whole request or response as the contents of an Envelope (KIP-590): header and body, no size."""

import struct
from collections.abc import Iterable

from millpond.base.errors import RemoteProtocolError
from millpond.wire.kafka.api import APIS
from millpond.wire.kafka.connection import Request, ServerConnection
from millpond.wire.kafka.primitives import BytesLike
from millpond.wire.shape import NEED_DATA

_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")
_NO_NAME = -1


def wrap_request(request: Request) -> bytes:
    """Encode the request as its client sent it, without the tags of its header."""
    name = None if request.client_id is None else request.client_id.encode()
    out = bytearray(
        _HEADER.pack(
            request.api_key,
            request.api_version,
            request.correlation_id,
            _NO_NAME if name is None else len(name),
        )
    )
    out += name or b""
    flexible_from = APIS[request.api_key].flexible_from
    if flexible_from is not None and request.api_version >= flexible_from:
        out.append(0)  # no tags
    out += request.body
    return bytes(out)


def unwrap_request(data: BytesLike) -> Request:
    """Decode what ``wrap_request`` wrote. Raises ``RemoteProtocolError``."""
    connection = ServerConnection()
    connection.receive_data(_SIZE.pack(len(data)))
    connection.receive_data(data)
    request = connection.next_event()
    if request is NEED_DATA:
        raise RemoteProtocolError("an envelope holds no whole request")
    return request


def wrap_response(request: Request, payload: Iterable[BytesLike]) -> bytes:
    """Encode the response as it would be sent to the request's client."""
    return b"".join(ServerConnection().frame_response(request, *payload))[_SIZE.size :]


def unwrap_response(request: Request, data: BytesLike) -> bytes:
    """Return the body of what ``wrap_response`` wrote. Raises ``RemoteProtocolError`` for another
    request's.
    """
    start = b"".join(ServerConnection().frame_response(request))[_SIZE.size :]
    if bytes(data[: len(start)]) != start:
        raise RemoteProtocolError("an envelope holds the answer to another request")
    return bytes(data[len(start) :])
