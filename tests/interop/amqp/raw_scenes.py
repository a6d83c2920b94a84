"""Bytes that no client should send, on a connection whose channel 1 is open."""

from millpond.wire.amqp.content import END, FRAME_START, content_frames, method_frame
from millpond.wire.amqp.methods import (
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionStartOk,
    ConnectionUpdateSecret,
    QueueDeclare,
)


def frame(kind: int, channel: int, payload: bytes, end: bytes = END) -> bytes:
    return FRAME_START.pack(kind, channel, len(payload)) + payload + end


def header(class_id: int, size: int, properties: bytes = b"\x00\x00", weight: int = 0) -> bytes:
    fixed = class_id.to_bytes(2, "big") + weight.to_bytes(2, "big") + size.to_bytes(8, "big")
    return frame(2, 1, fixed + properties)


PUBLISH = method_frame(1, BasicPublish(routing_key="nowhere"))
CONTENT = content_frames(1, b"\x00\x00", b"x", 131_072)

RAW_SCENES: dict[str, bytes] = {
    "a kind of frame that there is not": frame(9, 1, b""),
    "a kind of frame that there is not, longer": frame(9, 1, b"a" * 20),
    "a frame over the limit": FRAME_START.pack(1, 1, 200_000) + b"x" * 10,
    "a frame with a wrong end": frame(1, 1, b"abcd", b"\x00"),
    "a method with a wrong end": frame(1, 1, BasicQos().encode(), b"\x00"),
    "a header for the connection": frame(2, 0, b"\x00" * 14),
    "a body without a method": frame(3, 1, b"abc"),
    "a header without a method": header(60, 1),
    "a method where a header should be": PUBLISH + method_frame(1, BasicQos()),
    "a body where a header should be": PUBLISH + frame(3, 1, b"abc"),
    "a header of another class": PUBLISH + header(50, 0),
    "a header with a weight": PUBLISH + header(60, 2, weight=1),
    "a header that is too short": PUBLISH + frame(2, 1, b"\x00\x3c"),
    "a method where a body should be": PUBLISH + header(60, 2) + method_frame(1, BasicQos()),
    "a channel that is not open": method_frame(7, BasicQos()),
    "closing a channel that is not open": method_frame(7, ChannelClose()),
    "a channel opened twice": method_frame(1, ChannelOpen()),
    "a channel's method for the connection": method_frame(0, QueueDeclare()),
    "a connection's method for a channel": method_frame(1, ConnectionClose()),
    "logging in again": method_frame(0, ConnectionStartOk()),
    "a server's method for the connection": method_frame(0, ConnectionBlocked()),
    "a server's method": method_frame(1, ChannelFlowOk(active=True)),
    "a server's method with content": method_frame(1, BasicDeliver()) + CONTENT,
    "confirming what was not asked": method_frame(1, ChannelCloseOk()),
    "a method that goes on": frame(1, 1, BasicQos().encode() + b"\x00"),
    "a method that is cut off": frame(1, 1, BasicQos().encode()[:-1]),
    "a method of two bytes": frame(1, 1, b"\x00\x3c"),
    "a name that is no text": frame(1, 1, b"\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x00"),
    "a method that there is not": frame(1, 1, b"\x00\x3c\x00\x63"),
    "a table that is none": frame(1, 1, b"\x00\x32\x00\x0a\x00\x00\x01q\x00\x00\x00\x00\x03\x01a!"),
    "a heartbeat on a channel": frame(8, 1, b""),
    "a heartbeat that says something": frame(8, 0, b"x"),
    "a body that is longer than announced": PUBLISH
    + header(60, 2)
    + frame(3, 1, b"abc")
    + method_frame(1, BasicQos()),
    "a body in pieces": PUBLISH
    + header(60, 2)
    + frame(3, 1, b"a")
    + frame(3, 1, b"b")
    + method_frame(1, BasicQos()),
    "a body that is too large": PUBLISH + header(60, 2**40) + method_frame(1, BasicQos()),
    "a header with more flags": PUBLISH
    + header(60, 0, b"\x00\x01\x00\x00")
    + method_frame(1, BasicQos()),
    "properties that are cut off": PUBLISH + header(60, 0, b"\x80\x00\x05a"),
    "a new secret": method_frame(0, ConnectionUpdateSecret(new_secret=b"x", reason="old")),
    "no channel": method_frame(0, ChannelOpen()),
    "closing with an answer": method_frame(1, ChannelClose(reply_code=200)),
    "hanging up with an answer": method_frame(0, ConnectionClose(reply_code=200)),
    "an immediate publish": method_frame(1, BasicPublish(immediate=True)) + CONTENT,
    "stopping the flow": method_frame(1, ChannelFlow(active=False)),
}
