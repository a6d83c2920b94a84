"""Whatever bytes a client sends: an answer or a closed connection, and nobody else is harmed."""

import logging
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.frontend.kafka.handlers import HANDLERS
from millpond.wire.kafka.api import APIS, ApiKey
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    fetch,
    fetched,
    memory_broker,
    produce,
    produced,
    values_of,
)
from tests.support.time.virtual_loop import run

_APIS = sorted(HANDLERS, key=lambda one: one.api_key)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame with a sound header and any body, of any API and version, served or not."""
    handler = draw(st.sampled_from(_APIS))
    version = draw(st.integers(handler.min_version, handler.max_version))
    body = draw(st.binary(max_size=200))
    header = handler.api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
    header += draw(st.binary(min_size=4, max_size=4)) + b"\xff\xff"
    if APIS[handler.api_key].is_flexible(version):
        header += b"\x00"
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A sound request with a few bytes changed, cut off or put in."""
    message = draw(
        st.sampled_from(
            [
                (ApiKey.PRODUCE, 9, produce(batch(b"value"))),
                (ApiKey.FETCH, 12, fetch(0, wait_ms=0)),
            ]
        )
    )
    body = bytearray(APIS[message[0]].encode_request(message[2], message[1]))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body) - 1))
        match draw(st.sampled_from(["change", "cut", "put"])):
            case "change":
                body[at] = draw(st.integers(0, 255))
            case "cut":
                del body[at : at + draw(st.integers(1, 8))]
            case _:
                body[at:at] = draw(st.binary(min_size=1, max_size=8))
        if not body:
            break
    header = message[0].to_bytes(2, "big") + message[1].to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0"
    return (len(header) + len(body)).to_bytes(4, "big") + header + bytes(body)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data cut at these positions."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in pairwise(places)]


class Listener:
    """A writer that only counts."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.is_closed = False
        self.session = broker.frontend.session(self, listener="PLAINTEXT")

    def writelines(self, buffers: object) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


@given(
    data=st.lists(st.one_of(frames(), spoilt(), st.binary(max_size=100)), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 2000), max_size=5),
)
@settings(max_examples=60)
def test_no_bytes_break_the_broker(data: list[bytes], cuts: list[int]) -> None:
    async def story() -> None:
        async with memory_broker() as broker:
            await broker.create("safe")
            await broker.create("t")
            bad = Listener(broker)
            for piece in pieces(b"".join(data), cuts):
                bad.session.data_received(piece)
            bad.session.connection_lost()

            good = broker.client()
            good.send(ApiKey.PRODUCE, 9, produce(batch(b"fine"), topic="safe"))
            assert produced(good.answer()).error_code == 0
            good.send(ApiKey.FETCH, 12, fetch(0, topic="safe", wait_ms=0))
            assert values_of(fetched(good.answer()).records) == [b"fine"]

    caught: list[logging.LogRecord] = []

    class Trap(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                caught.append(record)

    trap = Trap()
    logging.getLogger("millpond").addHandler(trap)
    try:
        run(story())
    finally:
        logging.getLogger("millpond").removeHandler(trap)
    # A mistake of ours would have been answered politely; it is a mistake all the same.
    if caught:
        pytest.fail("\n".join(trap.format(record) for record in caught))
