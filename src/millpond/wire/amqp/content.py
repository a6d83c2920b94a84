"""Encodes outgoing frames: methods, contents, and deliveries, which are most of a broker's output."""

from struct import Struct
from typing import Final

from millpond.wire.amqp.fields import short_string
from millpond.wire.amqp.methods import Method

METHOD_FRAME, HEADER_FRAME, BODY_FRAME, HEARTBEAT_FRAME = 1, 2, 3, 8
FRAME_END: Final = 0xCE
END: Final = b"\xce"
# Type, channel and size come before the payload, the end marker after it.
FRAME_OVERHEAD: Final = 8
FRAME_START: Final = Struct(">BHI")
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

# The frame of a content header up to the properties: frame start, class, weight, body size.
CONTENT_START: Final = Struct(">BHIHHQ")
BASIC_CLASS: Final = 60
_CONTENT_FIXED_BYTES: Final = 12

# From this size on it pays not to copy a body.
LARGE_BODY_BYTES: Final = 16 * 1024

_DELIVER_TAIL: Final = Struct(">Q?")
_DELIVER: Final = b"\x00\x3c\x00\x3c"
# The end of the header frame, and the start of the body frame after it.
_BETWEEN: Final = Struct(">BBHI")


def method_frame(channel: int, method: Method) -> bytes:
    """Encode a method as one frame."""
    payload = method.encode()
    return FRAME_START.pack(METHOD_FRAME, channel, len(payload)) + payload + END


def content_frames(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Encode the header and the body frames; ``frame_max`` 0 means one body frame."""
    size = len(body)
    piece = frame_max - FRAME_OVERHEAD if frame_max else size
    header = CONTENT_START.pack(
        HEADER_FRAME, channel, _CONTENT_FIXED_BYTES + len(properties), BASIC_CLASS, 0, size
    )
    if not size:
        return header + properties + END
    if size <= piece:
        between = _BETWEEN.pack(FRAME_END, BODY_FRAME, channel, size)
        return b"".join((header, properties, between, body, END))
    parts = [header, properties, END]
    for start in range(0, size, piece):
        chunk = body[start : start + piece]
        parts += (FRAME_START.pack(BODY_FRAME, channel, len(chunk)), chunk, END)
    return b"".join(parts)


class DeliveryWriter:
    """Encodes deliveries to one consumer; the constant parts are encoded once."""

    __slots__ = ("_channel", "_frame_max", "_head", "_piece", "_places")

    def __init__(self, channel: int, consumer_tag: str, frame_max: int) -> None:
        self._channel = channel
        self._frame_max = frame_max
        self._piece = frame_max - FRAME_OVERHEAD if frame_max else 2**31
        self._head = _DELIVER + short_string(consumer_tag)
        self._places: dict[tuple[str, str], tuple[bytes, bytes]] = {}

    def write(
        self,
        delivery_tag: int,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
        *,
        redelivered: bool = False,
    ) -> bytes:
        """Encode method, header and body of one delivery."""
        place = self._places.get((exchange, routing_key))
        if place is None:
            place = self._place(exchange, routing_key)
        start, tail = place
        size = len(body)
        method = b"%b%b%b" % (start, _DELIVER_TAIL.pack(delivery_tag, redelivered), tail)
        if 0 < size <= self._piece:
            channel = self._channel
            return b"".join(
                (
                    method,
                    CONTENT_START.pack(2, channel, 12 + len(properties), 60, 0, size),
                    properties,
                    _BETWEEN.pack(206, 3, channel, size),
                    body,
                    END,
                )
            )
        return method + content_frames(self._channel, properties, body, self._frame_max)

    def write_parts(
        self,
        delivery_tag: int,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
        *,
        redelivered: bool = False,
    ) -> list[bytes]:
        """Return the same bytes as ``write`` in parts; a large body that fits into one frame is not
        copied.
        """
        size = len(body)
        if not LARGE_BODY_BYTES <= size <= self._piece:
            whole = self.write(
                *(delivery_tag, exchange, routing_key, properties, body), redelivered=redelivered
            )
            return [whole]
        place = self._places.get((exchange, routing_key)) or self._place(exchange, routing_key)
        channel = self._channel
        start = b"".join(
            (
                *(place[0], _DELIVER_TAIL.pack(delivery_tag, redelivered), place[1]),
                CONTENT_START.pack(2, channel, 12 + len(properties), 60, 0, size),
                properties,
                _BETWEEN.pack(206, 3, channel, size),
            )
        )
        return [start, body, END]

    def _place(self, exchange: str, routing_key: str) -> tuple[bytes, bytes]:
        tail = short_string(exchange) + short_string(routing_key)
        size = len(self._head) + _DELIVER_TAIL.size + len(tail)
        place = FRAME_START.pack(METHOD_FRAME, self._channel, size) + self._head, tail + END
        if len(self._places) >= 256:
            self._places.clear()
        self._places[exchange, routing_key] = place
        return place
