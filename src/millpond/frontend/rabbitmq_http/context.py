"""What handlers use: declarations, queues, connections, and the request."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from millpond.base import errors
from millpond.engine.api.queues import Counts
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.amqp.identity import RABBITMQ_VERSION
from millpond.frontend.amqp.session import AmqpSession
from millpond.frontend.rabbitmq_http.access import Visitor, enter
from millpond.frontend.rabbitmq_http.http import (
    Refused,
    Request,
    Response,
    bad_request,
    not_authorised,
    not_found,
    said,
)
from millpond.frontend.rabbitmq_http.listing import listed, shown
from millpond.rabbit.broker import Broker, VirtualHostState
from millpond.rabbit.commands import Command, Decision, Principal, Store
from millpond.rabbit.names import is_hidden
from millpond.rabbit.records import Fact, Queue

# The RabbitMQ whose management API this is; its answers are in `tests/interop/amqp/rabbitmq_http.json`.
API_VERSION = RABBITMQ_VERSION
# Queues of other nodes that are counted at the same time.
COUNTED_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerInfo:
    """A listener, as the overview shows it."""

    protocol: str
    host: str
    port: int


class HandlerContext:
    """The context of all handlers of a node."""

    def __init__(self, frontend: AmqpFrontend, doors: Callable[[], Iterable[ListenerInfo]]) -> None:
        self.frontend = frontend
        self.doors = doors
        self.started_ms = frontend.engine.runtime.clock.now_ms()

    @property
    def broker(self) -> Broker:
        return self.frontend.queues.broker

    @property
    def node(self) -> str:
        """This node's name as RabbitMQ's tools write it."""
        return self.node_name(self.frontend.engine.info.node_id)

    @property
    def cluster_id(self) -> str:
        return self.frontend.engine.info.cluster_id

    def node_name(self, node_id: int) -> str:
        return f"millpond@{node_id}"

    @property
    def sessions(self) -> list[AmqpSession]:
        """The open connections of users."""
        return sorted(
            (one for one in self.frontend.sessions if one.user and one.is_open),
            key=lambda session: session.name,
        )

    async def ask(self, command: Command) -> Decision:
        """Carry out a command. Raises ``Refused``."""
        try:
            return await self.frontend.queues.ask(command)
        except errors.BrokerRefusal as error:
            raise refusal(error) from None

    async def store(self, fact: Fact) -> None:
        """Store a record of an administrator. Raises ``Refused``."""
        await self.ask(Store(fact=fact))

    async def counts(self, queues: Sequence[Queue]) -> list[Counts]:
        """Return the counts of queues, wherever they are; None where the node cannot be reached."""
        found: list[Counts] = []
        for first in range(0, len(queues), COUNTED_AT_ONCE):
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(self._count(queue))
                    for queue in queues[first : first + COUNTED_AT_ONCE]
                ]
            found += [one.result() for one in asked]
        return found

    async def _count(self, queue: Queue) -> Counts:
        try:
            return await self.frontend.queues.find(queue.vhost, queue.name).glance()
        except errors.MillpondError:
            return Counts(0, 0)

    def home(self, queue: Queue) -> str | None:
        """Return the node that hosts a queue; None while none does."""
        host = self.frontend.queues.host_of(queue)
        return self.node_name(host) if host >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of one user, and what its path names."""

    context: HandlerContext
    request: Request
    visitor: Visitor
    place: Mapping[str, str]

    @property
    def broker(self) -> Broker:
        return self.context.broker

    @property
    def vhost(self) -> str:
        return self.place["vhost"]

    @property
    def name(self) -> str:
        return self.place["name"]

    @property
    def asker(self) -> Principal:
        visitor = self.visitor
        return Principal(vhost=self.vhost, user=visitor.name, scopes=visitor.scopes)

    def rooms(self, *, to_look: bool = False) -> VirtualHostState:
        """Return the virtual host of the path. Raises ``Refused``."""
        rooms = enter(self.broker, self.visitor, self.vhost, to_look=to_look)
        if rooms is None:
            raise not_found()
        return rooms

    def details(self, count: int) -> dict[str, Any]:
        """How fast a count changes, which is not looked at; with the history that was asked for.

        A history has one sample, the count of now. Raises ``Refused``.
        """
        query = self.request.query
        wanted = [query[name] for name in ("lengths_age", "lengths_incr") if name in query]
        if not wanted:
            return {"rate": 0.0}
        if len(wanted) < 2 or not all(one.isdecimal() and int(one) for one in wanted):
            raise bad_request("lengths_age and lengths_incr must both be numbers over 0")
        now_ms = self.context.frontend.engine.runtime.clock.now_ms()
        return {
            "rate": 0.0,
            "samples": [{"sample": count, "timestamp": now_ms}],
            "avg_rate": 0.0,
            "avg": float(count),
        }

    def list(self, rows: Iterable[Mapping[str, Any]]) -> Response:
        """Answer with a list: its page, order and columns."""
        return said(listed(rows, self.request.query))

    def show(self, row: Mapping[str, Any]) -> Response:
        return said(shown(row, self.request.query))


def shown_queues(rooms: VirtualHostState) -> list[Queue]:
    """Return the queues of a virtual host by name, without internal ones."""
    return [rooms.queues[name] for name in sorted(rooms.queues) if not is_hidden(name)]


Handler = Callable[[Call], Awaitable[Response]]


def refusal(error: errors.BrokerRefusal) -> Refused:
    """Return the answer to a refused command, as RabbitMQ's HTTP API has it."""
    match error:
        case errors.AccessRefused() | errors.VirtualHostRefused():
            return not_authorised("Access refused.")
        case errors.UnknownResource():
            return Refused(HTTPStatus.NOT_FOUND, "not_found", str(error))
        case errors.UnknownVirtualHost():
            return not_found()
        case _:
            return bad_request(str(error))
