"""What a watch on another node's listener takes for its end, and what not."""

import asyncio
import socket

import pytest

from millpond.peer.watch import is_refused, until_refused


def test_the_end_of_a_process_is_seen_when_nobody_listens_any_more() -> None:
    async def story() -> None:
        reached = asyncio.Event()
        writers: list[asyncio.StreamWriter] = []

        def on_connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            reached.set()

        server = await asyncio.start_server(on_connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        watch = asyncio.ensure_future(until_refused("127.0.0.1", port))
        await reached.wait()
        server.close()
        writers[0].close()
        async with asyncio.timeout(60):
            assert await watch is True

    asyncio.run(story())


def test_whether_anybody_listens_is_known_at_once() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            assert not await is_refused("127.0.0.1", port)
        assert await is_refused("127.0.0.1", port)

    asyncio.run(story())


def test_a_connection_that_is_merely_closed_is_made_again() -> None:
    async def story() -> None:
        reached: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_server(
            lambda _reader, writer: reached.put_nowait(writer), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        watch = asyncio.ensure_future(until_refused("127.0.0.1", port))
        (await reached.get()).close()
        again = await reached.get()
        assert not watch.done()
        watch.cancel()
        again.close()
        server.close()

    asyncio.run(story())


def test_a_listener_that_keeps_no_connection_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        paused, never = asyncio.Event(), asyncio.Event()

        async def pause(_seconds: float) -> None:
            paused.set()
            await never.wait()

        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        monkeypatch.setattr(asyncio, "sleep", pause)
        port = server.sockets[0].getsockname()[1]
        watch = asyncio.ensure_future(until_refused("127.0.0.1", port))
        async with asyncio.timeout(60):
            await paused.wait()
        watch.cancel()
        server.close()

    asyncio.run(story())


def test_a_host_that_refuses_from_the_first_never_showed_the_node() -> None:
    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
            assert await until_refused("127.0.0.1", taken.getsockname()[1]) is False

    asyncio.run(story())
