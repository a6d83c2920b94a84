"""One socket: publishers take turns, who comes too often waits, and a certificate names its user."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from millpond.engine.runtime.turns import LITTLE_BYTES, Turns
from millpond.server import stream_transport
from millpond.server.connections import Connections
from millpond.server.stream_transport import Origin, StreamTransport, gathered


class Session:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.is_busy = False
        self.is_awaited = True

    def data_received(self, data: bytes) -> int:
        self.heard.append(data)
        return data.count(b".")

    def eof_received(self) -> bool:
        return False

    def send_close(self) -> None:
        pass

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def connection_lost(self) -> None:
        pass


class Frontend:
    """Makes one session. Its node's quota of connections admits a client at once, or after ``wait_ms``."""

    def __init__(self, wait_ms: int = 0) -> None:
        self.made = Session()
        self.name = "?"
        self._wait_ms = wait_ms

    def connection_wait_ms(self, _host: str) -> int:
        return self._wait_ms

    def session(self, _writer: object, origin: Origin) -> Session:
        self.name = origin.certified_name
        return self.made


class Everybody:
    def admit(self, _connection: object, _host: str, *, may_be_node: bool = False) -> bool:
        return True

    def wait_ms(self) -> int:
        return 0

    def leave(self, _connection: object) -> None:
        pass


class Stream(asyncio.Transport):
    """A socket that is always full of bytes, unless it is not read from."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.is_aborted = False
        self.is_tls = False
        self.is_half_closed = False

    def abort(self) -> None:
        self.is_aborted = True

    def can_write_eof(self) -> bool:
        return not self.is_tls

    def write_eof(self) -> None:
        assert not self.is_tls
        self.is_half_closed = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_half_closed

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def made_by(
    frontend: Frontend,
    turns: Turns | None = None,
    name_of: Callable[[asyncio.Transport], str] | None = None,
    *,
    has_heartbeats: bool = False,
) -> StreamTransport:
    return StreamTransport(
        frontend.session,
        cast("Connections", Everybody()),
        turns or Turns(),
        quota_wait_ms=frontend.connection_wait_ms,
        name_of=name_of,
        has_heartbeats=has_heartbeats,
    )


def connected() -> tuple[StreamTransport, Stream, Session]:
    frontend, stream = Frontend(), Stream()
    connection = made_by(frontend)
    connection.connection_made(stream)
    return connection, stream, frontend.made


@pytest.fixture(autouse=True)
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_transport, "_READ_BYTES_A_TURN", 4)
    # Nothing is little.
    monkeypatch.setattr(stream_transport, "LITTLE_BYTES", 0)


def test_much_at_once_is_handed_on_turn_by_turn() -> None:
    async def story() -> None:
        connection, stream, session = connected()
        connection.data_received(b"abcdefghij")
        assert session.heard == [b"abcd"]
        assert not stream.is_read
        await asyncio.sleep(0)
        assert session.heard == [b"abcd", b"efgh"]
        await asyncio.sleep(0)
        assert session.heard == [b"abcd", b"efgh", b"ij"]
        assert stream.is_read

    asyncio.run(story())


def test_a_mistake_in_a_later_turn_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        connection, stream, session = connected()
        connection.data_received(b"x" * (stream_transport._READ_BYTES_A_TURN + 1))

        def fail(_data: bytes) -> None:
            raise RuntimeError("by mistake")

        monkeypatch.setattr(session, "data_received", fail)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.is_aborted

    asyncio.run(story())


def test_many_small_reads_are_a_turn_too() -> None:
    async def story() -> None:
        connection, stream, session = connected()
        connection.data_received(b"abc")
        assert stream.is_read
        connection.data_received(b"d")
        assert not stream.is_read
        await asyncio.sleep(0)
        assert stream.is_read
        assert session.heard == [b"abc", b"d"]

    asyncio.run(story())


def test_many_small_messages_are_a_turn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dot is a message here; how many bytes a turn is follows from how many came before."""
    monkeypatch.setattr(stream_transport, "_READ_BYTES_A_TURN", 100)
    monkeypatch.setattr(stream_transport, "PIECE_BYTES_MIN", 2)
    monkeypatch.setattr(stream_transport, "_MESSAGES_A_TURN", 4)

    async def story() -> None:
        connection, stream, session = connected()
        connection.data_received(b"." * 8)
        assert not stream.is_read
        connection.data_received(b"." * 6)
        assert not stream.is_read
        connection.data_received(b"." + b"-" * 60)
        for _turn in range(8):
            await asyncio.sleep(0)
        assert session.heard == [b"." * 8, b"....", b"...-", b"-" * 5, b"-" * 54]
        assert stream.is_read

    asyncio.run(story())


def test_large_buffers_are_sent_as_they_are_and_small_ones_joined() -> None:
    large, other = b"L" * 16_384, b"O" * 70_000
    found = gathered([b"a", b"b", large, b"c", other, large, b"d", b"e"])
    assert found == [b"ab", large, b"c", other, large, b"de"]
    assert found[1] is large
    assert found[3] is other


def test_a_client_that_reads_slowly_gets_every_byte_in_order() -> None:
    """The socket takes a part of what it is given; the rest goes when there is room."""

    async def story() -> None:
        frontend = Frontend()
        made: list[StreamTransport] = []

        def accept() -> StreamTransport:
            made.append(made_by(frontend))
            return made[0]

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"x")
            while not frontend.made.heard:
                await asyncio.sleep(0)
            sent = [bytes([number]) * (number * 20_000 % 90_001) for number in range(200)]
            made[0].writelines(sent[:150])
            made[0].writelines(sent[150:])
            assert made[0].is_writing
            whole = b"".join(sent)
            assert await reader.readexactly(len(whole)) == whole
            writer.close()
            await writer.wait_closed()

    asyncio.run(story())


def test_a_session_that_wants_no_more_gets_the_rest_when_it_does() -> None:
    async def story() -> None:
        connection, stream, session = connected()
        connection.data_received(b"abcdef")
        connection.pause_reading()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert session.heard == [b"abcd"]
        assert not stream.is_read
        connection.resume_reading()
        await asyncio.sleep(0)
        assert session.heard == [b"abcd", b"ef"]
        assert stream.is_read

    asyncio.run(story())


class Toll:
    """What a session hears takes so long for each byte, and is noted for all to see."""

    def __init__(self, ns_per_byte: int) -> None:
        self.ns = 0
        self.heard: list[tuple[str, bytes]] = []
        self.is_awaited = True
        self.turns = Turns(lambda: self.ns)
        self._ns_per_byte = ns_per_byte

    def connected(self, name: str) -> tuple[StreamTransport, Stream]:
        frontend, stream = Frontend(), Stream()

        def hear(data: bytes) -> int:
            frontend.made.is_awaited = self.is_awaited
            self.heard.append((name, data))
            self.ns += len(data) * self._ns_per_byte
            return 1

        frontend.made.data_received = hear  # type: ignore[method-assign]
        connection = made_by(frontend, self.turns)
        connection.connection_made(stream)
        return connection, stream

    def sizes(self, name: str) -> list[int]:
        return [len(data) for who, data in self.heard if who == name]

    def said_by(self, name: str) -> bytes:
        return b"".join(data for who, data in self.heard if who == name)


@pytest.fixture
def true_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_transport, "_READ_BYTES_A_TURN", 256 * 1024)
    monkeypatch.setattr(stream_transport, "LITTLE_BYTES", LITTLE_BYTES)


ALL = bytes(range(256)) * 800  # 200 KB, whose order shows
ACK = b"ack"


async def hurry(toll: Toll) -> StreamTransport:
    """Somebody who says little, and has done so for a while."""
    consumer, _stream = toll.connected("consumer")
    for _time in range(4):
        consumer.data_received(ACK)
    toll.heard.clear()
    return consumer


@pytest.mark.usefixtures("true_turns")
def test_a_piece_ends_when_its_time_is_over() -> None:
    async def story() -> None:
        toll = Toll(ns_per_byte=150)
        publisher, stream = toll.connected("publisher")
        publisher.data_received(ALL)
        assert not stream.is_read
        for _round in range(6):
            await asyncio.sleep(0)
        # Six milliseconds each, as soon as it is known what a byte takes.
        assert toll.sizes("publisher") == [32_768, 40_000, 40_000, 40_000, 40_000, 12_032]
        assert toll.said_by("publisher") == ALL
        assert stream.is_read

    asyncio.run(story())


@pytest.mark.usefixtures("true_turns")
def test_who_says_little_is_heard_between_short_pieces() -> None:
    async def story() -> None:
        toll = Toll(ns_per_byte=50)
        consumer = await hurry(toll)
        publisher, stream = toll.connected("publisher")
        publisher.data_received(ALL)
        while not stream.is_read:
            consumer.data_received(ACK)
            await asyncio.sleep(0)
        assert toll.said_by("publisher") == ALL
        assert max(toll.sizes("publisher")) == 10_000  # half a millisecond
        spoke = [who for who, _data in toll.heard]
        assert spoke[:7] == ["publisher", *(["consumer", "consumer", "publisher"] * 2)]
        assert "publisher publisher" not in " ".join(spoke)

    asyncio.run(story())


@pytest.mark.usefixtures("true_turns")
def test_publishers_take_turns_while_somebody_waits() -> None:
    async def story() -> None:
        toll = Toll(ns_per_byte=50)
        consumer = await hurry(toll)
        publishers = {name: toll.connected(name) for name in ("one", "other")}
        for publisher, _stream in publishers.values():
            publisher.data_received(ALL)
        while not all(stream.is_read for _publisher, stream in publishers.values()):
            consumer.data_received(ACK)
            await asyncio.sleep(0)
        spoke = [who for who, _data in toll.heard if who != "consumer"]
        # The first was heard as it came, the other not in the same round.
        assert spoke[:6] == ["one", "one", "other", "one", "other", "one"]
        assert toll.said_by("one") == toll.said_by("other") == ALL

    asyncio.run(story())


@pytest.mark.usefixtures("true_turns")
@pytest.mark.parametrize("who", ["itself", "one that waits for nothing"])
def test_nobody_is_hurried_by_what_nobody_waits_for(who: str) -> None:
    async def story() -> None:
        toll = Toll(ns_per_byte=150)
        publisher, stream = toll.connected("publisher")
        quiet, _stream = toll.connected("quiet")
        for _time in range(20):
            if who == "itself":
                publisher.data_received(ACK)
            else:
                toll.is_awaited = False
                quiet.data_received(ACK)
        toll.heard.clear()
        publisher.data_received(ALL)
        while not stream.is_read:
            await asyncio.sleep(0)
        assert toll.sizes("publisher") == [32_768, 40_000, 40_000, 40_000, 40_000, 12_032]

    asyncio.run(story())


@pytest.mark.usefixtures("true_turns")
def test_a_publisher_that_is_held_in_its_turn_goes_on_where_it_was() -> None:
    async def story() -> None:
        toll = Toll(ns_per_byte=50)
        await hurry(toll)
        publisher, stream = toll.connected("publisher")
        publisher.data_received(ALL)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        said = toll.said_by("publisher")
        assert said
        publisher.pause_reading()
        for _round in range(10):
            await asyncio.sleep(0)
        assert toll.said_by("publisher") == said
        assert not stream.is_read
        publisher.resume_reading()
        for _round in range(100):
            await asyncio.sleep(0)
        assert toll.said_by("publisher") == ALL
        assert stream.is_read

    asyncio.run(story())


@pytest.mark.usefixtures("true_turns")
def test_who_is_gone_says_no_more_and_the_others_do() -> None:
    async def story() -> None:
        toll = Toll(ns_per_byte=50)
        await hurry(toll)
        gone, _stream = toll.connected("gone")
        publisher, stream = toll.connected("publisher")
        gone.data_received(ALL)
        publisher.data_received(ALL)
        gone.connection_lost(None)
        for _round in range(100):
            await asyncio.sleep(0)
        assert len(toll.sizes("gone")) == 1
        assert toll.said_by("publisher") == ALL
        assert stream.is_read

    asyncio.run(story())


@pytest.mark.usefixtures("true_turns")
def test_the_end_of_a_connection_is_not_read_before_all_that_came() -> None:
    """A client may send, close its socket and go: the loop tells of the end only to who reads."""

    async def story() -> None:
        toll = Toll(ns_per_byte=50)
        await hurry(toll)
        publisher, stream = toll.connected("publisher")
        publisher.data_received(ALL)
        while not stream.is_read:
            assert len(toll.said_by("publisher")) < len(ALL)
            await asyncio.sleep(0)
        assert toll.said_by("publisher") == ALL

    asyncio.run(story())


def test_who_comes_too_often_is_kept_waiting_and_then_left() -> None:
    async def story() -> None:
        frontend, stream = Frontend(wait_ms=20), Stream()
        connection = made_by(frontend)
        connection.connection_made(stream)
        connection.data_received(b"abc")
        assert (stream.is_read, stream.is_aborted) == (False, False)
        for _turn in range(1_000):
            if stream.is_aborted:
                break
            await asyncio.sleep(0.01)
        assert stream.is_aborted
        assert frontend.made.heard == []

    asyncio.run(story())


def test_a_session_knows_whom_the_certificate_names() -> None:
    async def story() -> None:
        frontend = Frontend()
        connection = made_by(frontend, name_of=lambda _stream: "miller")
        connection.connection_made(Stream())
        assert frontend.name == "miller"

    asyncio.run(story())


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_connection_that_is_over_is_read_until_its_client_ends_it_or_time_does(
    is_tls: bool,
) -> None:
    connection, stream, session = connected()
    stream.is_tls = is_tls
    connection.pause_reading()
    connection.finish(30)
    assert stream.is_half_closed is not is_tls
    assert stream.is_read
    connection.data_received(b"abc")
    assert session.heard == [b"abc"]
    connection.writelines([b"too late"])
    await asyncio.sleep(29)
    assert not stream.is_aborted
    await asyncio.sleep(2)
    assert stream.is_aborted


def test_connections_with_heartbeats_of_their_own_are_never_idle() -> None:
    for has_heartbeats in (False, True):
        connection = made_by(Frontend(), has_heartbeats=has_heartbeats)
        connection.touched = False
        assert connection.touched is has_heartbeats
        connection.data_received(b"x")
        assert connection.touched
