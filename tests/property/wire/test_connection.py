"""However a stream is cut, it says the same; whatever it says, only one error can come of it."""

import contextlib
import random
import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from codegen.table import Field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.base.errors import RemoteProtocolError
from millpond.wire.kafka import fetch, list_offsets, metadata, produce
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.connection import ClientConnection, Request, ServerConnection
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.primitives import NO_ID
from millpond.wire.shape import NEED_DATA
from tests.property.wire import instances as made

HOT = {
    ApiKey.PRODUCE: produce.decode_produce,
    ApiKey.FETCH: fetch.decode_fetch,
    ApiKey.METADATA: metadata.decode_metadata,
    ApiKey.LIST_OFFSETS: list_offsets.decode_list_offsets,
}
MANY = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
# Decoded objects may take this many times the bytes of their frame, and a little to begin with.
GROWTH_MAX = 64
GROWTH_START = 64 * 1024
SMALLEST = {"string": "", "uuid": NO_ID}


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


pieces = st.lists(st.integers(1, 90000), min_size=1, max_size=40)


def _events(connection: ServerConnection) -> list[tuple[object, ...]]:
    events: list[tuple[object, ...]] = []
    while isinstance(event := connection.next_event(), Request):
        events.append(
            (
                event.api_key,
                event.api_version,
                event.correlation_id,
                event.client_id,
                bytes(event.body),
                event.size,
            )
        )
    return events


def _cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    cut = []
    position = index = 0
    while position < len(stream):
        size = sizes[index % len(sizes)]
        cut.append(stream[position : position + size])
        position += size
        index += 1
    return cut


def _read_into(connection: ServerConnection, piece: bytes) -> None:
    while piece:
        buffer = connection.get_buffer()
        size = min(len(buffer), len(piece))
        buffer[:size] = piece[:size]
        connection.buffer_updated(size)
        piece = piece[size:]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Some requests on one connection, as a client of ours writes them."""
    client = ClientConnection(draw(st.none() | st.text(max_size=8)))
    frames = []
    for payload in draw(st.lists(st.binary(max_size=40), min_size=1, max_size=6)):
        key = draw(st.sampled_from(sorted(APIS)))
        spec = APIS[key]
        version = draw(st.integers(spec.min_version, spec.max_version))
        large = draw(st.sampled_from((1, 1, 1, 500, 5000)))
        frames.append(client.send(key, version, payload * large))
    return b"".join(frames)


@MANY
@given(stream=streams(), sizes=pieces, drain=st.booleans(), lent=st.integers(0, 3))
def test_any_cut_of_a_stream_gives_the_same_requests(
    stream: bytes, sizes: list[int], drain: bool, lent: int
) -> None:
    """Whether bytes are pushed, read into lent buffers, or now this and now that."""
    whole = ServerConnection()
    whole.receive_data(stream)
    expected = _events(whole)
    assert expected

    cut = ServerConnection()
    seen = []
    for number, piece in enumerate(_cut(stream, sizes)):
        if lent and number % lent == 0:
            _read_into(cut, piece)
        else:
            cut.receive_data(piece)
        if drain:
            seen += _events(cut)
    seen += _events(cut)
    assert seen == expected


@MANY
@given(stream=streams(), sizes=pieces, data=st.data())
def test_damaged_streams_end_in_one_kind_of_error(
    stream: bytes, sizes: list[int], data: st.DataObject
) -> None:
    damaged = bytearray(stream)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    connection = ServerConnection()
    try:
        for piece in _cut(bytes(damaged), sizes):
            connection.receive_data(piece)
            while isinstance(event := connection.next_event(), Request):
                _decode(event)
    except RemoteProtocolError:
        pass


@MANY
@given(noise=st.binary(max_size=200), sizes=pieces)
def test_noise_is_refused_by_both_ends(noise: bytes, sizes: list[int]) -> None:
    client = ClientConnection()
    client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    for connection in (ServerConnection(), client):
        try:
            for piece in _cut(noise, sizes):
                connection.receive_data(piece)
                while connection.next_event() is not NEED_DATA:
                    pass
        except RemoteProtocolError as error:
            connection.receive_data(b"\x00" * 100)
            with pytest.raises(RemoteProtocolError, match="^" + re.escape(str(error)) + "$"):
                connection.next_event()


def _decode(request: Request) -> None:
    spec = APIS.get(request.api_key)
    if spec is None or not spec.has_version(request.api_version):
        return
    spec.decode_request(request.body, request.api_version)
    if (decode := HOT.get(spec.key)) is not None:
        decode(request.body, request.api_version)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("name", "kind"), made.MESSAGES)
def test_no_bytes_make_a_decoder_fail_otherwise_or_grow(name: str, kind: str) -> None:
    api = made.APIS[name]
    encode, decode = made.codec_of(api, kind)
    for version in range(api.versions.first, api.versions.last + 1):
        for seed in range(12):
            chance = random.Random(seed)
            body = bytearray(encode(made.instance(name, kind, version, seed), version))
            _damage(body, chance)
            _decode_within_bounds(decode, bytes(body), version)


def _damage(body: bytearray, chance: random.Random) -> None:
    position = chance.randrange(len(body) + 1)
    match chance.randrange(4):
        case 0:
            del body[position:]
        case 1:
            body[position:] = chance.randbytes(64)
        case 2:
            huge = (b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x7f\xff", b"\x80\x00")
            body[position : position + 5] = chance.choice(huge)
        case _ if position < len(body):
            body[position] ^= 1 << chance.randrange(8)


def _decode_within_bounds(decode: Any, body: bytes, version: int) -> None:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with contextlib.suppress(RemoteProtocolError):
        decode(memoryview(body), version)
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before <= GROWTH_START + GROWTH_MAX * len(body)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("name", "kind"), made.MESSAGES)
def test_many_of_the_smallest_elements_do_not_grow(name: str, kind: str) -> None:
    """Empty elements make the most objects for the size of the frame."""
    api = made.APIS[name]
    module = made.module_of(api)
    encode, decode = made.codec_of(api, kind)
    version = api.versions.last
    message = api.messages[kind]

    def smallest(f: Field) -> Any:
        return getattr(module, f.type)() if f.is_structure else SMALLEST.get(f.type, 0)

    def try_with(**fields: Any) -> None:
        body = encode(getattr(module, message.name)(**fields), version)
        _decode_within_bounds(decode, body, version)

    for outer in message.fields_in(version):
        if outer.is_array:
            try_with(**{outer.name: [smallest(outer)] * 2000})
        if outer.is_array and outer.is_structure:
            structure = api.structures[outer.type]
            for inner in structure.fields_in(version):
                if inner.is_array:
                    holder = getattr(module, outer.type)(**{inner.name: [smallest(inner)] * 2000})
                    try_with(**{outer.name: [holder]})


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("version", [8, 9, 13])
def test_a_frame_of_empty_topics_is_refused_before_it_grows(version: int) -> None:
    count = 1_000_000
    if version >= 9:
        head = b"\x00\x00\x01\x00\x00\x00\x64" + b"\xc1\x84\x3d"
        topic = (b"" if version < 13 else b"\x00" * 15) + b"\x01\x01\x00"
    else:
        head = b"\xff\xff\x00\x01\x00\x00\x00\x64" + count.to_bytes(4, "big")
        topic = b"\x00\x00\x00\x00\x00\x00"
    body = memoryview(head + topic * count)
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with pytest.raises(RemoteProtocolError, match="names more than"):
        produce.decode_produce(body, version)
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before < GROWTH_START
