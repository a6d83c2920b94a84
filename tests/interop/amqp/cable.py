"""A way to a broker that can be cut, as when a cable is pulled, and used again."""

import asyncio


class Cable:
    """`async with Cable(port) as cable: cable.port` passes on what it is sent until ``cut``."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._ends: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """How many pass through it now."""
        return len(self._writers) // 2

    def cut(self) -> None:
        """Everybody who is connected is cut off; those who come later are not."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def __aenter__(self) -> "Cable":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._ends:
            await asyncio.wait(self._ends, timeout=5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ends.add(task)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        both = {writer, far_writer}
        self._writers |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, far_writer))
                group.create_task(_pass_on(far_reader, writer))
        finally:
            self._writers -= both
            self._ends.discard(task)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
