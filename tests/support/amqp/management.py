"""The management API of a broker in memory: requests in, answers out, no sockets."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.rabbitmq_http.context import ListenerInfo
from millpond.frontend.rabbitmq_http.frontend import Management
from millpond.frontend.rabbitmq_http.http import Request, Response
from tests.support.amqp.memory_amqp import AmqpMemoryBroker, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage


class ManagedNode:
    """The management of one node."""

    def __init__(self, frontend: AmqpFrontend) -> None:
        doors = [
            ListenerInfo(protocol="amqp", host="127.0.0.1", port=5672),
            ListenerInfo(protocol="http", host="127.0.0.1", port=15672),
        ]
        self._management = Management(frontend, lambda: doors)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        *,
        login: str | None = "guest:guest",
        peer: str = "127.0.0.1:1",
        reason: str = "",
    ) -> Response:
        data = json.dumps(body).encode() if isinstance(body, dict) else body or b""
        code = base64.b64encode((login or "").encode()).decode()
        return await self._management.answer(
            Request(
                method=method,
                target=f"/api/{path}",
                authorization=f"Basic {code}" if login is not None else "",
                body=data,
                peer=peer,
                reason=reason,
            )
        )

    async def ask_at(self, target: str) -> Response:
        """A page that is not of the API, by a client that does not log in."""
        return await self._management.answer(
            Request(method="GET", target=target, authorization="", body=b"", peer="127.0.0.1:1")
        )

    async def get(self, path: str, **options: Any) -> Any:
        """What is there, read as JSON."""
        answer = await self.ask("GET", path, **options)
        assert answer.status == 200, answer
        return json.loads(answer.body)

    async def do(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        """Something that must work."""
        answer = await self.ask(method, path, body)
        assert answer.status < 300, answer


class ManagedBroker(ManagedNode):
    """A broker with AMQP clients and its management."""

    def __init__(self, amqp: AmqpMemoryBroker) -> None:
        super().__init__(amqp.frontend)
        self.amqp = amqp


@asynccontextmanager
async def managed_broker(storage: FaultyStorage | None = None) -> AsyncIterator[ManagedBroker]:
    async with memory_amqp(storage) as amqp:
        yield ManagedBroker(amqp)
