"""Every wire has one shape (``wire/shape.py``), and this suite holds each of them to it.

However bytes are cut, the events are the same; bytes that break the protocol give one kind of error, after
which nothing else comes; what a peer announces or sends beyond a limit is refused before it is kept. A new
protocol adds one entry to ``WIRES``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

import pytest
from examples.line_pubsub import LineWire
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from millpond.base.errors import RemoteProtocolError
from millpond.wire.amqp import events as amqp
from millpond.wire.amqp.content import FRAME_START
from millpond.wire.amqp.order import Offer
from millpond.wire.amqp.server import ServerConnection as AmqpServer
from millpond.wire.http import server as http
from millpond.wire.kafka import connection as kafka
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from millpond.wire.shape import NEED_DATA, Receiving, events_of
from tests.property.wire.amqp.test_stream import flat as flat_amqp
from tests.property.wire.amqp.test_stream import steps as amqp_steps
from tests.support.amqp.amqp_pair import Pair

LIMIT_BYTES = 20_000


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One end of a protocol, with limits of about ``LIMIT_BYTES``."""

    connect: Callable[[], Receiving[Any]]
    # Bytes that a correct peer sends.
    streams: st.SearchStrategy[bytes]
    # Bytes, endless, whose first part is over a limit.
    too_large: Callable[[], Iterator[bytes]]
    # The events that are complete; the owner's part of the conversation is played here.
    take: Callable[[Any], Iterator[Any]] = events_of
    # Events as values, without the grouping that depends on how the bytes came.
    flat: Callable[[list[Any]], list[Any]] = list
    # Whether an event says that the peer broke the protocol and the connection ends.
    is_violation: Callable[[Any], bool] = lambda _event: False
    # Whether an event may come after that.
    is_end: Callable[[Any], bool] = lambda _event: False


# --- Kafka --------------------------------------------------------------------------------------------------


def _kafka_requests(client: kafka.ClientConnection, count: int) -> list[bytes]:
    return [client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("a", "1")) for _ in range(count)]


@st.composite
def kafka_requests(draw: st.DrawFn) -> bytes:
    client = kafka.ClientConnection(draw(st.none() | st.text(max_size=8)))
    frames = []
    for payload in draw(st.lists(st.binary(max_size=40), max_size=6)):
        spec = APIS[draw(st.sampled_from(sorted(APIS)))]
        version = draw(st.integers(spec.min_version, spec.max_version))
        frames.append(client.send(spec.key, version, payload * draw(st.sampled_from((1, 1, 300)))))
    return b"".join(frames)


def kafka_client() -> kafka.ClientConnection:
    client = kafka.ClientConnection(response_bytes_max=LIMIT_BYTES)
    _kafka_requests(client, 5)
    return client


def kafka_responses(count: int) -> bytes:
    server = kafka.ServerConnection()
    server.receive_data(b"".join(_kafka_requests(kafka.ClientConnection(), count)))
    body = APIS[ApiKey.API_VERSIONS].encode_response(ApiVersionsResponse(), 3)
    return b"".join(b"".join(server.frame_response(request, body)) for request in events_of(server))


def kafka_too_large() -> Iterator[bytes]:
    yield (10 * LIMIT_BYTES).to_bytes(4, "big")
    while True:
        yield bytes(1000)


def flat_kafka(events: list[Any]) -> list[Any]:
    return [
        (one.api_key, one.api_version, one.correlation_id, one.client_id, bytes(one.body))
        if isinstance(one, kafka.Request)
        else (one.correlation_id, one.message)
        for one in events
    ]


# --- AMQP ---------------------------------------------------------------------------------------------------

OFFER = Offer(body_bytes_max=LIMIT_BYTES)


def amqp_too_large() -> Iterator[bytes]:
    yield FRAME_START.pack(1, 1, 2**31)
    while True:
        yield bytes(1000)


def is_amqp_violation(event: Any) -> bool:
    if isinstance(event, amqp.Violated):
        return event.error.is_hard
    return isinstance(event, amqp.HeaderRefused)


# --- HTTP ---------------------------------------------------------------------------------------------------


@st.composite
def http_requests(draw: st.DrawFn) -> bytes:
    requests = []
    for body in draw(st.lists(st.binary(max_size=300), max_size=4)):
        method = draw(st.sampled_from(["GET", "PUT", "POST", "DELETE"]))
        head = f"{method} /api/x%2F{len(body)}?a=b HTTP/1.1\r\nHost: here\r\nX-Reason: none\r\n"
        if draw(st.booleans()):
            requests.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        else:
            requests.append(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            size = draw(st.integers(1, 100))
            for start in range(0, len(body), size):
                piece = body[start : start + size]
                requests.append(b"%x\r\n%b\r\n" % (len(piece), piece))
            requests.append(b"0\r\n\r\n")
    return b"".join(requests)


def take_http(connection: http.ServerConnection) -> Iterator[Any]:
    """Answer each request, so that the next one is read."""
    for event in events_of(connection):
        yield event
        if isinstance(event, http.RequestEnd):
            connection.send_response(204, [], b"")
            assert connection.start_next()


def flat_http(events: list[Any]) -> list[Any]:
    found: list[Any] = []
    for event in events:
        if isinstance(event, http.BodyPiece):
            if isinstance(found[-1], bytearray):
                found[-1] += event.data
            else:
                found.append(bytearray(event.data))
        else:
            found.append(event)
    return found


def http_too_large() -> Iterator[bytes]:
    yield b"PUT / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"100\r\n%b\r\n" % bytes(256)


WIRES = {
    "kafka server": Wire(
        connect=lambda: kafka.ServerConnection(LIMIT_BYTES, LIMIT_BYTES),
        streams=kafka_requests(),
        too_large=kafka_too_large,
        flat=flat_kafka,
    ),
    "kafka client": Wire(
        connect=kafka_client,
        streams=st.integers(0, 5).map(kafka_responses),
        too_large=kafka_too_large,
        flat=flat_kafka,
    ),
    "amqp server": Wire(
        connect=lambda: Pair(OFFER).opened(1, 2).server,
        streams=st.lists(amqp_steps(), max_size=6).map(b"".join),
        too_large=amqp_too_large,
        flat=flat_amqp,
        is_violation=is_amqp_violation,
        is_end=lambda event: isinstance(event, amqp.ConnectionClosed),
    ),
    "amqp server, protocol header": Wire(
        connect=lambda: AmqpServer(OFFER),
        streams=st.just(b"AMQP\x00\x00\x09\x01"),
        too_large=lambda: chain([b"AMQP\x00\x00\x09\x01"], amqp_too_large()),
        flat=flat_amqp,
        is_violation=is_amqp_violation,
    ),
    "amqp client": Wire(
        connect=lambda: Pair(OFFER).opened(1, 2).client,
        streams=st.just(b"\x08\x00\x00\x00\x00\x00\x00\xce" * 3),
        too_large=amqp_too_large,
        flat=flat_amqp,
        is_violation=is_amqp_violation,
        is_end=lambda event: isinstance(event, amqp.ConnectionClosed),
    ),
    "http server": Wire(
        connect=lambda: http.ServerConnection(
            head_bytes_max=LIMIT_BYTES, body_bytes_max=LIMIT_BYTES
        ),
        streams=http_requests(),
        too_large=http_too_large,
        take=take_http,
        flat=flat_http,
    ),
    "lines (examples/line_pubsub.py)": Wire(
        connect=lambda: LineWire(LIMIT_BYTES),
        streams=st.lists(st.binary(max_size=40), max_size=6).map(b"\r\n".join),
        too_large=lambda: repeat(b"x" * 1000),
    ),
}

ALL = pytest.mark.parametrize("wire", WIRES.values(), ids=list(WIRES))
PIECES = st.lists(st.integers(0, 400), min_size=1, max_size=20).filter(any)


def cut(stream: bytes, sizes: list[int]) -> Iterator[bytes]:
    position = number = 0
    while position < len(stream):
        size = sizes[number % len(sizes)]
        yield stream[position : position + size]
        position += size
        number += 1


def is_refused(wire: Wire, connection: Receiving[Any], pieces: Iterator[bytes]) -> bool:
    """Feed bytes until the connection refuses them. Return whether it does."""
    for piece in pieces:
        connection.receive_data(piece)
        try:
            if any(map(wire.is_violation, wire.take(connection))):
                return True
        except RemoteProtocolError:
            return True
    return False


def check_is_over(wire: Wire, connection: Receiving[Any], stream: bytes) -> None:
    """A connection that has refused bytes goes on refusing: later bytes give no events."""
    for _ in range(2):
        connection.receive_data(stream)
        try:
            later = list(wire.take(connection))
        except RemoteProtocolError:
            continue
        assert all(map(wire.is_end, later)), later


def check_cuts(wire: Wire, data: st.DataObject, sizes: list[int], is_eager: bool) -> None:
    stream = data.draw(wire.streams)
    whole, pieces = wire.connect(), wire.connect()
    whole.receive_data(stream)
    expected = list(wire.take(whole))
    seen: list[Any] = []
    for piece in cut(stream, sizes):
        pieces.receive_data(piece)
        if is_eager:
            seen += wire.take(pieces)
    seen += wire.take(pieces)
    assert wire.flat(seen) == wire.flat(expected)
    for connection in (whole, pieces):
        connection.receive_data(b"")
        assert connection.next_event() is NEED_DATA


def check_garbage(wire: Wire, data: st.DataObject, sizes: list[int], noise: bytes) -> None:
    stream = data.draw(wire.streams)
    damaged = bytearray(stream + noise)
    for _ in range(data.draw(st.integers(0, 4)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    connection = wire.connect()
    if is_refused(wire, connection, cut(bytes(damaged), sizes)):
        check_is_over(wire, connection, stream)


def check_limits(wire: Wire) -> None:
    fed = 0

    def pieces() -> Iterator[bytes]:
        nonlocal fed
        for piece in wire.too_large():
            fed += len(piece)
            if fed > 2 * LIMIT_BYTES:
                return
            yield piece

    connection = wire.connect()
    assert is_refused(wire, connection, pieces())
    check_is_over(wire, connection, b"\x00" * 1000)


given_cuts = given(data=st.data(), sizes=PIECES, is_eager=st.booleans())
given_garbage = given(data=st.data(), sizes=PIECES, noise=st.binary(max_size=300))


@ALL
@given_cuts
def test_however_bytes_are_cut_the_events_are_the_same(
    wire: Wire, data: st.DataObject, sizes: list[int], is_eager: bool
) -> None:
    check_cuts(wire, data, sizes, is_eager)


@ALL
@given_garbage
def test_garbage_gives_one_kind_of_error(
    wire: Wire, data: st.DataObject, sizes: list[int], noise: bytes
) -> None:
    check_garbage(wire, data, sizes, noise)


@ALL
def test_limits_hold(wire: Wire) -> None:
    check_limits(wire)


# --- planted bugs -------------------------------------------------------------------------------------------


class Dropping(kafka.ServerConnection):
    """Loses a byte that comes alone."""

    def receive_data(self, data: Any) -> None:
        if len(data) != 1:
            super().receive_data(data)


class Failing(kafka.ServerConnection):
    """Raises another kind of error."""

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except RemoteProtocolError as error:
            raise ValueError from error


class Forgetting(kafka.ServerConnection):
    """Goes on after an error."""

    def next_event(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return super().next_event()


class Unlimited(kafka.ServerConnection):
    """Has a limit of its own."""

    def __init__(self) -> None:
        super().__init__()


ONE_BUG = settings(phases=[Phase.generate], report_multiple_bugs=False, max_examples=200)


@pytest.mark.parametrize(
    ("planted", "check"),
    [
        (Dropping, ONE_BUG(given_cuts(check_cuts))),
        (Failing, ONE_BUG(given_garbage(check_garbage))),
        (Forgetting, ONE_BUG(given_garbage(check_garbage))),
        (Unlimited, check_limits),
    ],
    ids=lambda value: value.__name__,
)
def test_planted_bugs_are_found(planted: Callable[[], Any], check: Callable[..., None]) -> None:
    wire = replace(WIRES["kafka server"], connect=planted)
    with pytest.raises((AssertionError, ValueError, RemoteProtocolError)):
        check(wire=wire)
