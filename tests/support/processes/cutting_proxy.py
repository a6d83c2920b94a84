"""A way to the broker on which answers get lost: a request is carried out, and nobody hears of it."""

import asyncio
import struct
from collections import Counter

from millpond.wire.kafka.api import ApiKey


class CuttingProxy:
    """Passes on what it is sent, but for the answers to requests named in ``losses``, each so many times.

    When an answer is lost the connection is, too, as when a cable is pulled.
    """

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self.losses: Counter[ApiKey] = Counter()
        self.lost: Counter[ApiKey] = Counter()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # let the transports close

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        answers, requests = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            # One at a time is slow and simple: the answer of a request is the next thing that comes back.
            while True:
                size = await reader.readexactly(4)
                body = await reader.readexactly(struct.unpack(">i", size)[0])
                requests.write(size + body)
                size = await answers.readexactly(4)
                answer = await answers.readexactly(struct.unpack(">i", size)[0])
                api_key = ApiKey(struct.unpack_from(">h", body)[0])
                if self.losses[api_key] > 0:
                    self.losses[api_key] -= 1
                    self.lost[api_key] += 1
                    return
                writer.write(size + answer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            requests.transport.abort()
            writer.transport.abort()
            self._tasks.discard(task)
