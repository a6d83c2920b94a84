"""Measures decoding publishes and encoding deliveries: `python -m bench.micro_amqp_codec`."""

from collections.abc import Callable
from functools import partial
from time import process_time

from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.content import DeliveryWriter, content_frames, method_frame
from millpond.wire.amqp.events import Publishes
from millpond.wire.amqp.methods import BasicPublish
from millpond.wire.amqp.order import Offer
from millpond.wire.amqp.properties import Properties, decode_properties, encode_properties
from millpond.wire.amqp.server import ServerConnection
from millpond.wire.shape import received

MESSAGES = 100_000
READ_BYTES = 64 * 1024
FRAME_MAX = 131_072


def opened() -> ServerConnection:
    """Return a server's connection with channel 1 open."""
    server, client = ServerConnection(Offer()), ClientConnection(ConnectOptions())
    _exchange(client, server)
    server.accept_login()
    _exchange(client, server)
    server.accept_open()
    client.open_channel(1)
    _exchange(client, server)
    return server


def _exchange(client: ClientConnection, server: ServerConnection) -> None:
    while True:
        to_server = b"".join(client.data_to_send())
        received(server, to_server)
        to_client = b"".join(server.data_to_send())
        received(client, to_client)
        if not to_server and not to_client:
            return


def publishes(body: bytes, keys: int) -> bytes:
    """Return many publishes in a row, to ``keys`` routing keys."""
    properties = encode_properties(Properties(content_type="text/plain", delivery_mode=2))
    out = bytearray()
    for number in range(MESSAGES):
        method = BasicPublish(exchange="orders", routing_key=f"order.{number % keys}")
        out += method_frame(1, method)
        out += content_frames(1, properties, body, FRAME_MAX)
    return bytes(out)


def decode(stream: bytes, *, look: bool) -> None:
    server = opened()
    count = 0
    for start in range(0, len(stream), READ_BYTES):
        for event in received(server, stream[start : start + READ_BYTES]):
            assert isinstance(event, Publishes)
            count += len(event.messages)
            if look:
                for message in event.messages:
                    decode_properties(message.properties)
    assert count == MESSAGES


def deliver(body: bytes) -> None:
    writer = DeliveryWriter(1, "ctag1.0123456789abcdef", FRAME_MAX)
    properties = encode_properties(Properties(content_type="text/plain", delivery_mode=2))
    out: list[bytes] = []
    for tag in range(1, MESSAGES + 1):
        out.append(writer.write(tag, "orders", "order.7", properties, body))
        if not tag % 256:
            b"".join(out)
            out.clear()


def measure(what: str, act: Callable[[], None]) -> None:
    best = float("inf")
    for _round in range(5):
        started = process_time()
        act()
        best = min(best, process_time() - started)
    print(f"{what:<58} {MESSAGES / best:>12,.0f}/s {1e6 * best / MESSAGES:>7.2f} µs")


def main() -> None:
    for size in (12, 1024):
        body = b"x" * size
        one, many = publishes(body, 1), publishes(body, 5_000)
        measure(f"decode publishes, {size} B, one routing key", partial(decode, one, look=False))
        measure(
            f"decode publishes, {size} B, one routing key, properties too",
            partial(decode, one, look=True),
        )
        measure(
            f"decode publishes, {size} B, 5,000 routing keys", partial(decode, many, look=False)
        )
        measure(f"encode deliveries, {size} B", partial(deliver, body))


if __name__ == "__main__":
    main()
