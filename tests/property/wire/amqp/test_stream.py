"""However a stream is cut it says the same; whatever it says, a connection survives it."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.wire.amqp.content import DeliveryWriter, content_frames, method_frame
from millpond.wire.amqp.events import (
    Acks,
    ContentReceived,
    Event,
    MethodReceived,
    Publishes,
    Violated,
)
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicReturn,
    QueueBind,
)
from millpond.wire.amqp.properties import encode_properties
from millpond.wire.shape import received
from tests.property.wire.amqp import made
from tests.support.amqp.amqp_pair import Pair

bodies = st.binary(max_size=40) | st.integers(8_000, 20_000).map(lambda size: b"y" * size)
channels = st.sampled_from([1, 2])


@st.composite
def steps(draw: st.DrawFn) -> bytes:
    channel = draw(channels)
    kind = draw(st.sampled_from(["publish", "publish", "publish", "ack", "method"]))
    if kind == "publish":
        method = draw(made.methods(BasicPublish))
        assert isinstance(method, BasicPublish)
        method.immediate = False
        properties = encode_properties(draw(made.properties))
        frames = content_frames(channel, properties, draw(bodies), 8192)
        return method_frame(channel, method) + frames
    kinds = (BasicAck,) if kind == "ack" else (BasicConsume, QueueBind)
    return method_frame(channel, draw(made.methods(*kinds)))


def flat(events: list[Event]) -> list[object]:
    """Events without the grouping that depends on how the bytes came."""
    out: list[object] = []
    for event in events:
        if isinstance(event, Publishes):
            out += [(event.channel, message) for message in event.messages]
        elif isinstance(event, Acks):
            out += [(event.channel, ack) for ack in event.acks]
        elif isinstance(event, MethodReceived):
            out.append((event.channel, event.method))
        else:
            out.append(repr(event))
    return out


@settings(deadline=None)
@given(st.lists(steps(), max_size=12), st.integers(0, 2**32))
def test_a_stream_says_the_same_however_it_is_cut(parts: list[bytes], seed: int) -> None:
    stream = b"".join(parts)
    whole = flat(received(Pair().opened(1, 2).server, stream))
    assert len(whole) == len(parts)
    chance = random.Random(seed)
    server = Pair().opened(1, 2).server
    pieces: list[Event] = []
    position = 0
    while position < len(stream):
        size = chance.choice((1, 7, 8, 20, 100, 9000))
        pieces += received(server, stream[position : position + size])
        position += size
    assert flat(pieces) == whole
    assert server.unread_bytes == 0


@settings(deadline=None)
@given(st.lists(steps(), min_size=1, max_size=6), st.data())
def test_damage_is_a_violation_or_another_message(parts: list[bytes], data: st.DataObject) -> None:
    stream = bytearray(b"".join(parts))
    for _damage in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(stream) - 1))
        stream[place] = data.draw(st.integers(0, 255))
    server = Pair().opened(1, 2).server
    events = received(server, bytes(stream))
    assert sum(isinstance(event, Violated) and event.error.is_hard for event in events) <= 1
    received(server, bytes(stream))
    server.data_to_send()


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_garbage_from_the_first_byte(parts: list[bytes]) -> None:
    server = Pair().server
    for part in parts:
        received(server, part)


@given(made.methods(BasicDeliver, BasicReturn), made.properties, bodies)
def test_a_client_reads_what_a_server_sends(
    method: BasicDeliver | BasicReturn, properties: object, body: bytes
) -> None:
    pair = Pair().opened(1)
    encoded = encode_properties(properties)  # type: ignore[arg-type]
    pair.server.send_content(1, method, encoded, body)
    pair.turn()
    (event,) = pair.at_client
    assert isinstance(event, ContentReceived)
    assert tuple(event.content) == (method, encoded, body)


@given(made.methods(BasicDeliver), bodies, st.sampled_from([0, 8192, 131_072]))
def test_the_quick_way_to_write_a_delivery_writes_the_same(
    method: BasicDeliver, body: bytes, frame_max: int
) -> None:
    writer = DeliveryWriter(5, method.consumer_tag, frame_max)
    properties = b"\x10\x00\x02"
    for _again in range(2):
        written = writer.write(
            method.delivery_tag,
            method.exchange,
            method.routing_key,
            properties,
            body,
            redelivered=method.redelivered,
        )
        slowly = method_frame(5, method) + content_frames(5, properties, body, frame_max)
        assert written == slowly
