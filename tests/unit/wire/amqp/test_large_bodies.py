"""Bodies that come in several reads, and bodies that leave without being copied."""

import pytest

from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.content import (
    END,
    FRAME_OVERHEAD,
    FRAME_START,
    LARGE_BODY_BYTES,
    DeliveryWriter,
    content_frames,
    method_frame,
)
from millpond.wire.amqp.events import Acks, Event, Publishes, Violated
from millpond.wire.amqp.gathering import BodyFrame, Gathering
from millpond.wire.amqp.methods import BasicAck, BasicPublish
from millpond.wire.amqp.properties import NO_PROPERTIES
from millpond.wire.amqp.server import ServerConnection
from millpond.wire.amqp.violations import ReplyCode, Violation
from millpond.wire.shape import received
from tests.support.amqp.amqp_pair import Pair

FRAME_MAX = 131_072
PIECE = FRAME_MAX - FRAME_OVERHEAD


def server(*channels: int) -> ServerConnection:
    return Pair(wish=ConnectOptions(frame_max=FRAME_MAX)).opened(*channels).server


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def publish(channel: int, body: bytes) -> bytes:
    method = BasicPublish(exchange="x", routing_key="k")
    return method_frame(channel, method) + content_frames(channel, NO_PROPERTIES, body, FRAME_MAX)


def read(connection: ServerConnection, stream: bytes, size: int) -> list[Event]:
    """What a stream says that comes in reads of one size."""
    return [
        event
        for start in range(0, len(stream), size)
        for event in received(connection, stream[start : start + size])
    ]


def bodies(events: list[Event]) -> list[bytes]:
    return [
        message.body
        for event in events
        if isinstance(event, Publishes)
        for message in event.messages
    ]


@pytest.mark.parametrize("size", [0, 1, 65_536, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 400_000])
@pytest.mark.parametrize("read_bytes", [1_000, 16_384, 65_537, 256_000])
def test_a_body_is_whole_however_the_reads_cut_it(size: int, read_bytes: int) -> None:
    connection, body = server(1), pattern(size)
    stream = publish(1, body) + publish(1, b"behind it")
    events = read(connection, stream, read_bytes)
    assert bodies(events) == [body, b"behind it"]
    assert all(type(found) is bytes for found in bodies(events))
    assert connection.unread_bytes == 0


def test_a_cut_at_every_place_around_the_frames_of_a_body() -> None:
    body = pattern(9_000)
    stream = publish(1, body) + publish(1, b"small")
    start = stream.index(FRAME_START.pack(3, 1, 9_000))
    for cut in (*range(start + 12), *range(start + 9_000, len(stream))):
        connection = server(1)
        events = received(connection, stream[:cut]) + received(connection, stream[cut:])
        assert bodies(events) == [body, b"small"]


def test_the_messages_of_one_read_come_together_behind_a_body_that_it_ends() -> None:
    connection, body = server(1), pattern(20_000)
    stream = publish(1, body)
    received(connection, stream[:10_000])
    (event,) = received(connection, stream[10_000:] + publish(1, b"1") + publish(1, b"2"))
    assert bodies([event]) == [body, b"1", b"2"]


def test_other_channels_speak_between_the_frames_of_a_body() -> None:
    connection, body = server(1, 2), pattern(PIECE + 5_000)
    stream = publish(1, body)
    second = stream.index(FRAME_START.pack(3, 1, 5_000))
    ack = method_frame(2, BasicAck(delivery_tag=7))
    events = read(connection, stream[:second] + ack + publish(2, b"b") + stream[second:], 3_000)
    assert Acks(2, [(7, False)]) in events
    assert bodies(events) == [b"b", body]


def test_a_wrong_end_of_a_body_is_named_as_if_it_had_come_at_once() -> None:
    stream = publish(1, pattern(20_000))[: -len(END)] + b"\x00" + publish(1, b"behind it")
    (at_once,) = received(server(1), stream)
    connection = server(1)
    (in_pieces,) = read(connection, stream, 700)
    assert isinstance(at_once, Violated)
    assert isinstance(in_pieces, Violated)
    assert in_pieces.error.reply_text == at_once.error.reply_text
    assert connection.is_over


def test_behind_a_frame_that_is_too_large_nothing_is_read() -> None:
    connection = server(1)
    received(connection, FRAME_START.pack(1, 1, FRAME_MAX + 1)[:6])
    (event,) = received(connection, b"\x01" + publish(1, b"x" * 100))
    assert isinstance(event, Violated)
    assert connection.is_over


def test_a_channel_that_its_owner_closes_within_a_body_loses_the_rest_of_it() -> None:
    connection, body = server(1, 2), pattern(20_000)
    stream = publish(1, body)
    received(connection, stream[:10_000])
    connection.fail(Violation(ReplyCode.NOT_FOUND, "no queue", channel=1))
    events = received(connection, stream[10_000:] + publish(2, b"other"))
    assert bodies(events) == [b"other"]
    assert connection.unread_bytes == 0


def test_pieces_cost_no_more_than_they_hold() -> None:
    """Whoever sends byte by byte, or a little of a body at the end of much else, keeps no more than that."""
    slow = BodyFrame(1, Gathering(BasicPublish()), 10_000)
    for _byte in range(10_000):
        slow.take(b"x", 0)
    assert len(slow.pieces) == 1
    little = BodyFrame(1, Gathering(BasicPublish()), 100_000)
    assert little.take(b"." * 100_000 + b"x" * 5_000, 100_000) == 105_000
    assert little.pieces == [b"x" * 5_000]
    assert isinstance(little.pieces[0], bytes)


@pytest.mark.parametrize("size", [0, 12, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, PIECE, PIECE + 1])
def test_a_delivery_in_parts_is_the_same_delivery(size: int) -> None:
    writer, body = DeliveryWriter(3, "tag", FRAME_MAX), pattern(size)
    content = 9, "x", "key", NO_PROPERTIES, body
    parts = writer.write_parts(*content, redelivered=True)
    assert b"".join(parts) == writer.write(*content, redelivered=True)
    is_large = LARGE_BODY_BYTES <= size <= PIECE
    assert any(part is body for part in parts) == is_large
