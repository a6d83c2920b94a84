"""How clients introduce themselves, rightly and wrongly, and the bytes that come before anybody is known."""

from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.content import FRAME_OVERHEAD, PROTOCOL_HEADER, method_frame
from millpond.wire.amqp.methods import ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from millpond.wire.amqp.sasl import AMQPLAIN, amqplain_response, plain_response
from tests.interop.amqp.raw_scenes import frame

GREETINGS: dict[str, ConnectOptions] = {
    "as everybody does": ConnectOptions(),
    "with a table": ConnectOptions(
        mechanism=AMQPLAIN, response=amqplain_response("guest", "guest")
    ),
    "with a wrong password": ConnectOptions(password="wrong"),
    "with a wrong password, in a table": ConnectOptions(
        mechanism=AMQPLAIN, response=amqplain_response("guest", "wrong")
    ),
    "with a wrong password, not to be told": ConnectOptions(
        password="wrong", client_properties={"capabilities": {}}
    ),
    "as nobody": ConnectOptions(user="nobody"),
    "as nobody with no password": ConnectOptions(user="", password=""),
    "in a way that there is not": ConnectOptions(mechanism="GSSAPI", response=b""),
    "by a certificate without one": ConnectOptions(mechanism="EXTERNAL", response=b""),
    "with half a response": ConnectOptions(response=b"\0guest"),
    "with a table that lacks something": ConnectOptions(
        mechanism=AMQPLAIN, response=b"\x05LOGINS\0\0\0\5guest"
    ),
    "for a virtual host that there is not": ConnectOptions(virtual_host="/elsewhere"),
    "with too many channels": ConnectOptions(channel_max=60_000),
    "with any number of channels": ConnectOptions(channel_max=0),
    "with frames that are too large": ConnectOptions(frame_max=1_000_000),
    "with frames of any size": ConnectOptions(frame_max=0),
    "with the smallest frames": ConnectOptions(frame_max=4_096),
}

_HELLO = method_frame(0, ConnectionStartOk(response=plain_response("guest", "guest")))
_TUNED = method_frame(0, ConnectionTuneOk(channel_max=10, frame_max=131_072, heartbeat=0))


def _hello(size: int) -> bytes:
    """A login whose frame has so many bytes within."""
    empty = _login(b"")
    hello = _login(b"x" * (size - (len(empty) - FRAME_OVERHEAD)))
    assert len(hello) == size + FRAME_OVERHEAD
    return hello


def _login(padding: bytes) -> bytes:
    response = plain_response("guest", "guest")
    return method_frame(
        0, ConnectionStartOk(client_properties={"padding": padding}, response=response)
    )


FIRST_BYTES: dict[str, bytes] = {
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "a newer AMQP": b"AMQP\x00\x01\x00\x00",
    "AMQP 0-9": b"AMQP\x01\x01\x00\x09",
    "AMQP 0-8": b"AMQP\x01\x01\x08\x00",
    "an unknown AMQP": b"AMQP\x00\x00\x09\x02",
    "a header only": PROTOCOL_HEADER,
    "a channel before the login": PROTOCOL_HEADER + frame(1, 1, b"\x00\x14\x00\x0a\x00"),
    "opening before the login": PROTOCOL_HEADER + method_frame(0, ConnectionOpen()),
    "a frame over the limit before the login": PROTOCOL_HEADER + b"\x01\x00\x00\x00\x01\x00\x00",
    "the largest frame before the login": PROTOCOL_HEADER
    + _hello(4_096)
    + _TUNED
    + method_frame(0, ConnectionOpen()),
    "a frame that is a byte too large before the login": PROTOCOL_HEADER + _hello(4_097),
    "opening before the limits": PROTOCOL_HEADER + _HELLO + method_frame(0, ConnectionOpen()),
    "a channel before opening": PROTOCOL_HEADER
    + _HELLO
    + _TUNED
    + frame(1, 1, b"\x00\x14\x00\x0a\x00"),
    "all at once": PROTOCOL_HEADER + _HELLO + _TUNED + method_frame(0, ConnectionOpen()),
}
