"""HTTP over a real socket: one request after the other, and everything within bounds."""

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from millpond.base import limits
from millpond.engine.api import BrokerEndpoint
from millpond.engine.limits.request_memory import RequestMemory
from millpond.engine.node.node import Node
from millpond.engine.queues.queues import Queues
from millpond.engine.runtime.turns import LONG_NS, Speaker, Turns
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.rabbitmq_http.context import ListenerInfo
from millpond.frontend.rabbitmq_http.frontend import Management
from millpond.frontend.rabbitmq_http.http import Response
from millpond.frontend.rabbitmq_http.session import HttpSession
from millpond.log.file_storage import FileStorage
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.server.clock import SystemClock
from millpond.server.connections import Connections
from millpond.server.protocols import record_families
from millpond.server.rng import SystemRng
from millpond.server.stream_transport import Origin, StreamTransport

LOGIN = b"Authorization: Basic " + base64.b64encode(b"guest:guest") + b"\r\n"


class Client:
    """A socket that speaks as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def sent(self) -> None:
        await self._writer.drain()

    async def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        size = int(headers.get("content-length", "0")) if has_body else 0
        _version, status, phrase = head[0].split(" ", 2)
        assert phrase == HTTPStatus(int(status)).phrase
        return int(status), headers, await self._reader.readexactly(size)

    async def is_ended(self) -> bool:
        try:
            return await self._reader.read() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def served(
    turns: Turns | None = None, memory: RequestMemory | None = None
) -> AsyncIterator[tuple[Connections, str, int]]:
    with tempfile.TemporaryDirectory() as path:
        engine = Node(
            log_dirs=LogDirs([LogDir(FileStorage(Path(path)))]),
            node_id=1,
            cluster_id=None,
            broker=BrokerConfig(),
            clock=SystemClock(),
            rng=SystemRng(),
            families=record_families(),
        )
        await engine.start()
        await engine.advertise([BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9)])
        queues = Queues(engine, AmqpCodec())
        await queues.start()
        frontend = AmqpFrontend(engine, queues)
        frontend.start()
        connections = Connections(
            clock=engine.runtime.clock, setting=BrokerConfig().__getitem__, idle_ms_max=-1
        )
        management = Management(
            frontend, lambda: [ListenerInfo(protocol="amqp", host="127.0.0.1", port=5672)]
        )
        turns = turns or Turns()
        memory = memory or RequestMemory(limits.MANAGEMENT_BODY_BYTES_MAX)

        def session(writer: StreamTransport, origin: Origin) -> HttpSession:
            return management.session(writer, peer=origin.peer, turns=turns, memory=memory)

        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: StreamTransport(session, connections, turns, quota_wait_ms=lambda _host: 0),
            "127.0.0.1",
            0,
        )
        try:
            host, port = server.sockets[0].getsockname()[:2]
            yield connections, host, port
        finally:
            server.close()
            await connections.drain(0.2)
            frontend.stop()
            queues.stop()
            await engine.stop()


@asynccontextmanager
async def client() -> AsyncIterator[Client]:
    async with served() as (_connections, host, port):
        connected = Client(*await asyncio.open_connection(host, port))
        try:
            yield connected
        finally:
            connected.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, timeout=60))


def request(path: str, *, method: str = "GET", body: bytes = b"", more: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    start = f"{method} /api/{path} HTTP/1.1\r\nHost: m\r\n".encode()
    return start + LOGIN + length + more + b"\r\n" + body


def test_requests_follow_each_other_on_one_connection() -> None:
    async def story() -> None:
        async with client() as one:
            one.send(request("queues/%2F/q", method="PUT", body=b"{}"))
            assert (await one.answer())[0] == 201
            # Two at once, one of them without waiting for its answer.
            one.send(request("whoami") + request("queues/%2F/q", method="DELETE"))
            status, headers, body = await one.answer()
            assert (status, json.loads(body)["name"]) == (200, "guest")
            assert headers["content-type"] == "application/json"
            status, headers, body = await one.answer()
            assert (status, "content-length" in headers, body) == (204, False, b"")
            one.send(request("whoami", method="HEAD"))
            status, headers, _none = await one.answer(has_body=False)
            assert (status, int(headers["content-length"]) > 0) == (200, True)
            one.send(request("whoami", more=b"Connection: close\r\n"))
            await one.answer()
            assert await one.is_ended()

    run(story())


def test_a_body_in_pieces_and_one_that_waits_to_be_invited() -> None:
    async def story() -> None:
        async with client() as one:
            pieces = b"2\r\n{}\r\n0\r\n\r\n"
            one.send(request("queues/%2F/q", method="PUT", more=b"Transfer-Encoding: chunked\r\n"))
            one.send(pieces)
            assert (await one.answer())[0] == 201
            head = request(
                "queues/%2F/q", method="PUT", more=b"Content-Length: 2\r\nExpect: 100-continue\r\n"
            )
            one.send(head)
            assert (await one.answer())[0] == 100
            one.send(b"{}")
            assert (await one.answer())[0] == 204

    run(story())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"AMQP\x00\x00\x09\x01\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /" + b"a" * limits.MANAGEMENT_HEAD_BYTES_MAX, 431),
        (
            b"PUT /api/queues/%2F/q HTTP/1.1\r\nHost: m\r\nContent-Length: 99999999999\r\n\r\n",
            413,
        ),
        (
            b"PUT /api/queues/%2F/q HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n"
            + LOGIN
            + b"\r\n"
            + (b"%x\r\n" % (limits.MANAGEMENT_BODY_BYTES_MAX + 1))
            + b"x" * (limits.MANAGEMENT_BODY_BYTES_MAX + 1),
            413,
        ),
    ],
    ids=["another protocol", "no host", "long head", "announced size", "chunked size"],
)
def test_what_is_too_much_or_no_http_is_refused_and_ended(sent: bytes, status: int) -> None:
    async def story() -> None:
        async with client() as one:
            one.send(sent)
            got, headers, body = await one.answer()
            assert (got, headers["connection"]) == (status, "close")
            assert set(json.loads(body)) == {"error", "reason"}

    run(story())


def test_one_who_sends_too_much_reads_that_it_is_too_much() -> None:
    async def story() -> None:
        async with client() as one:
            one.send(
                b"PUT /api/queues/%2F/q HTTP/1.1\r\nHost: m\r\nContent-Length: 99999999\r\n\r\n"
            )
            # It listens when it has sent more than the sockets hold: the broker has answered long before.
            for _piece in range(16):
                one.send(b"x" * 1024 * 1024)
                await one.sent()
            assert (await one.answer())[0] == 413
            assert await one.is_ended()

    run(story())


def test_a_stranger_is_not_listened_to_for_long() -> None:
    async def story() -> None:
        async with client() as one:
            start = b"POST /api/definitions HTTP/1.1\r\nHost: m\r\nContent-Length: 1000000\r\n\r\n"
            one.send(start + b" " * 200_000)
            status, _headers, _body = await one.answer()
            assert status == 401
        async with client() as one:
            one.send(request("definitions", method="POST", body=b" " * 999_998 + b"{}"))
            status, _headers, _body = await one.answer(has_body=False)
            assert status == 204

    run(story())


def test_who_dawdles_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANAGEMENT_REQUEST_S", 0)

    async def story() -> None:
        async with client() as one:
            one.send(b"GET /api/whoami HTTP/1.1\r\n")
            assert await one.is_ended()

    run(story())


def test_who_is_silent_after_an_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANAGEMENT_IDLE_S", 0)

    async def story() -> None:
        async with client() as one:
            one.send(request("whoami"))
            await one.answer()
            assert await one.is_ended()

    run(story())


def test_who_does_not_read_the_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANAGEMENT_IDLE_S", 0)
    send = HttpSession._send

    def unread(connection: HttpSession, response: Response, *, is_head: bool = False) -> None:
        send(connection, response, is_head=is_head)
        connection.pause_writing()

    async def story() -> None:
        async with client() as one:
            one.send(request("whoami"))
            await one.answer()
            assert await one.is_ended()

    monkeypatch.setattr(HttpSession, "_send", unread)
    run(story())


def test_a_stop_waits_for_the_answer() -> None:
    async def story() -> None:
        async with served() as (connections, host, port):
            one = Client(*await asyncio.open_connection(host, port))
            one.send(request("queues/%2F/q", method="PUT", body=b"{}"))
            while not any(connection.is_writing for connection in connections._open):
                await asyncio.sleep(0)
            await connections.drain()
            assert (await one.answer())[0] == 201
            assert len(connections) == 0
            one.close()

    run(story())


def test_connections_whose_answers_take_long_take_turns() -> None:
    """By a clock on which every step takes long; each connection gets its answers in order."""

    class Waits(Turns):
        waited = 0

        def wait(self, speaker: Speaker) -> None:
            self.waited += 1
            super().wait(speaker)

    async def story() -> None:
        ns = 0

        def now_ns() -> int:
            nonlocal ns
            ns += 10 * LONG_NS
            return ns

        turns = Waits(now_ns, now_ns)
        async with served(turns) as (_connections, host, port):
            clients = [Client(*await asyncio.open_connection(host, port)) for _ in range(3)]
            for one in clients:
                one.send(request("whoami") * 20)
            gone = Client(*await asyncio.open_connection(host, port))
            gone.send(request("whoami") * 20)
            await gone.answer()
            gone.close()
            for one in clients:
                for _ in range(20):
                    status, _headers, body = await one.answer()
                    assert (status, json.loads(body)["name"]) == (200, "guest")
            assert turns.waited > 20
            for one in clients:
                one.close()

    run(story())


def test_bodies_have_their_part_of_the_memory_of_requests() -> None:
    """Three bodies of which the bound has room for one: none waits for ever, and nothing is kept."""

    async def story() -> None:
        memory = RequestMemory(1024 * 1024)
        size = 900 * 1024
        async with served(memory=memory) as (connections, host, port):
            clients = [Client(*await asyncio.open_connection(host, port)) for _ in range(3)]
            body = b"{" + b" " * size + b"}"
            whole = request("definitions", method="POST", body=body)
            for one in clients:
                one.send(whole[:-1])
            while not memory.waiting:
                await asyncio.sleep(0.01)
            assert memory.total <= 2 * size + 4 * limits.REQUEST_LITTLE_BYTES
            for one in clients:
                one.send(whole[-1:])
            for one in clients:
                status, _headers, _body = await one.answer()
                assert status == HTTPStatus.NO_CONTENT
                one.close()
            while len(connections):
                await asyncio.sleep(0.01)
            assert (memory.total, memory.waiting) == (0, 0)
            assert memory.abandoned_bytes == 0, "all came whole"

    run(story())
