"""What every registered protocol keeps to: a new one is tested here by being registered.

It needs a line in ``FIRST_REQUEST`` below, the bytes that a client sends first and that are answered.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from examples.line_pubsub import LINES

import millpond
from millpond.server.app import Server
from millpond.server.clock import SystemClock
from millpond.server.config import InvalidSettings, given_in_code, load_settings
from millpond.server.protocols import (
    KAFKA,
    WireProtocol,
    protocol_named,
    protocols,
    register,
    unregister,
)
from millpond.server.rng import SystemRng

FIRST_REQUEST = {
    "kafka": bytes.fromhex("0000000e 0012 0000 00000007 0004") + b"wait",
    "amqp": b"AMQP\x00\x00\x09\x01",
    "http": b"GET /api/overview HTTP/1.1\r\nHost: x\r\n\r\n",
    "lines": b"hello\n",
}
# Only to end what hangs.
HANGS_S = 60

every_protocol = pytest.mark.parametrize(
    "protocol", [*protocols(), LINES], ids=lambda one: one.name
)


@pytest.fixture(autouse=True)
def lines_are_registered() -> Iterator[None]:
    """One more protocol, which nothing else knows of."""
    register(LINES)
    yield
    unregister(LINES.name)


@asynccontextmanager
async def running(
    path: Path, protocol: WireProtocol, **settings: object
) -> AsyncIterator[tuple[Server, tuple[str, int]]]:
    """A node that serves one protocol, and those that it requires, at any free ports."""
    names = {protocol.name, protocol.requires} - {"", KAFKA.name}
    given = {"log.dirs": str(path / "data"), "listeners": "127.0.0.1:0"} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    server = Server(
        load_settings(
            overrides=given_in_code(given),
            served=dict.fromkeys(names, "127.0.0.1:0"),
        ),
        clock=SystemClock(),
        rng=SystemRng(),
    )
    await server.start()
    try:
        (address,) = server.addresses(protocol.name)
        host, _, port = address.rpartition(":")
        yield server, (host, int(port))
    finally:
        await server.stop()


class Client:
    """One connection on which the first request was sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, protocol: WireProtocol, address: tuple[str, int]) -> "Client":
        client = cls(*await asyncio.open_connection(*address))
        with suppress(ConnectionError):  # it may be refused already
            client._writer.write(FIRST_REQUEST[protocol.name])
            await client._writer.drain()
        return client

    async def is_answered(self) -> bool:
        try:
            return bool(await self._reader.read(1))
        except ConnectionError:
            return False

    async def some(self, size: int = 65_536) -> bytes:
        """Some bytes of an answer, the first one at least."""
        return await self._reader.read(size)

    async def rest(self) -> bytes:
        """Whatever comes until the broker ends the connection."""
        try:
            return await self._reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, HANGS_S))


@every_protocol
def test_it_opens_at_any_free_port_and_says_which(tmp_path: Path, protocol: WireProtocol) -> None:
    async def story() -> None:
        async with running(tmp_path, protocol) as (server, address):
            assert address[1] > 0
            client = await Client.connect(protocol, address)
            assert await client.is_answered()
            client.close()
            (listener,) = server.listeners(protocol.name)
            assert listener.protocol is protocol
            assert f":{address[1]}" in listener.url

    run(story())


@every_protocol
@pytest.mark.parametrize("setting", ["max_connections", "max_connections_per_ip"])
def test_a_connection_beyond_a_limit_is_refused(
    tmp_path: Path, protocol: WireProtocol, setting: str
) -> None:
    async def story() -> None:
        async with running(tmp_path, protocol, **{setting: 2}) as (server, address):
            first, second = [await Client.connect(protocol, address) for _ in range(2)]
            assert await first.is_answered()
            assert await second.is_answered()
            third = await Client.connect(protocol, address)
            assert await third.rest() == b""
            await _until(lambda: len(server.connections) == 2)
            first.close()
            await _until(lambda: len(server.connections) == 1)
            fourth = await Client.connect(protocol, address)
            assert await fourth.is_answered()
            for client in (second, third, fourth):
                client.close()

    run(story())


@every_protocol
def test_connections_that_come_too_fast_are_not_answered(
    tmp_path: Path, protocol: WireProtocol
) -> None:
    async def story() -> None:
        settings = {"max_connection_creation_rate": 1, "quota_window_num": 2}
        async with running(tmp_path, protocol, **settings) as (_server, address):
            clients = [await Client.connect(protocol, address) for _ in range(20)]
            answered = [await client.is_answered() for client in clients]
            assert answered[0]
            assert not answered[-1]
            for client in clients:
                client.close()

    run(story())


@every_protocol
def test_a_stop_ends_idle_connections_and_those_that_wait(
    tmp_path: Path, protocol: WireProtocol
) -> None:
    async def story() -> None:
        async with running(tmp_path, protocol) as (server, address):
            silent = await asyncio.open_connection(*address)
            answered = await Client.connect(protocol, address)
            assert await answered.is_answered()
            unread = await Client.connect(protocol, address)
            await _until(lambda: len(server.connections) == 3)
            # The time that requests under way may take is bounded, so this returns.
            assert await server.stop()
            assert len(server.connections) == 0
            with suppress(ConnectionError):
                await silent[0].read()
            for client in (answered, unread):
                await client.rest()
                client.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*address)
            silent[1].close()

    run(story())


@every_protocol
def test_a_stop_lets_an_answer_under_way_leave(tmp_path: Path, protocol: WireProtocol) -> None:
    async def story() -> None:
        async with running(tmp_path, protocol) as (server, address):
            other = await Client.connect(protocol, address)
            expected = await other.some()
            client = await Client.connect(protocol, address)
            begun = await client.some(1)
            await server.stop()
            assert (begun + await client.rest()).startswith(expected)
            other.close()
            client.close()

    run(story())


def test_a_new_protocol_is_a_listener_an_option_and_an_argument() -> None:
    with millpond.Broker(lines=True) as broker:
        (address,) = broker.addresses("lines")
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), HANGS_S) as link:
            link.sendall(b"PUB greetings hello\n")
            assert link.recv(5) == b"OK 0\n"
    settings = load_settings(overrides=given_in_code({"listeners": "9092,LINES_2://127.0.0.1:0"}))
    assert [one.protocol for one in settings.listeners] == [KAFKA, LINES]
    with pytest.raises(InvalidSettings, match=r"did you mean LINES\?"):
        load_settings(overrides=given_in_code({"listeners": "9092,LINE://127.0.0.1:0"}))


def test_every_protocol_has_a_first_request_here() -> None:
    assert set(FIRST_REQUEST) >= {protocol.name for protocol in protocols()}


def test_protocols_that_are_required_come_first() -> None:
    names = [protocol.name for protocol in protocols()]
    for protocol in protocols():
        if protocol.requires:
            assert names.index(protocol.requires) < names.index(protocol.name)
            assert protocol_named(protocol.requires).option


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)
