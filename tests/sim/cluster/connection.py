"""A client's connections: Kafka's bytes between a client and the sessions of real front-ends."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.session import KafkaSession
from millpond.wire.kafka.connection import ClientConnection, Response
from millpond.wire.kafka.primitives import BytesLike
from millpond.wire.shape import NEED_DATA
from tests.sim.cluster.network import OUTSIDE, Network
from tests.sim.cluster.node import Node
from tests.support.time.sim_loop import ProcessLoop


class Disconnected(Exception):
    """No answer: the node is not there, or did not answer in time. The request may have been carried out."""


class Connection:
    """One connection to one life of a node."""

    def __init__(self, network: Network, loop: ProcessLoop, node: Node) -> None:
        self._network = network
        self._loop = loop
        self._node = node
        self._life = node.life
        self._wire = ClientConnection("sim")
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._session: KafkaSession | None = None
        self._last_arrival = [0.0, 0.0]
        self.is_dead = False
        self.is_reading_paused = False

    async def ask(self, api_key: int, version: int, message: object, *, timeout: float) -> Any:
        """Send a request and wait for its answer. Raises ``Disconnected``."""
        if self.is_dead:
            raise Disconnected
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(answer)
        self._travel(0, self._reach, self._wire.send(api_key, version, message))
        timer = self._loop.call_later(timeout, self.close)
        try:
            return await answer
        finally:
            timer.cancel()

    def close(self) -> None:
        """Give up; everyone who waits is told."""
        if self.is_dead:
            return
        self.is_dead = True
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            if not answer.done():
                answer.set_exception(Disconnected())
        session, self._session = self._session, None
        if session is not None and self._node.life == self._life and self._node.loop is not None:
            self._network.after(self._network.delay(), self._leave, session)

    def _leave(self, session: KafkaSession) -> None:
        if self._node.life == self._life and self._node.loop is not None:
            self._node.loop.call_soon(session.connection_lost)

    def _travel(self, direction: int, call: Callable[..., object], *args: Any) -> None:
        """In order, whatever the delay."""
        if self.is_dead or not self._network.passes(OUTSIDE, self._node.id):
            return
        now = self._network.scheduler.now
        arrival = max(now + self._network.delay(), self._last_arrival[direction] + 1e-6)
        self._last_arrival[direction] = arrival
        self._network.after(arrival - now, call, *args)

    # --- at the node ------------------------------------------------------------------------------

    def _reach(self, data: bytes) -> None:
        node = self._node
        if node.life != self._life or node.frontend is None or node.loop is None:
            self._travel(1, self.close)
            return
        node.loop.call_soon(self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        node = self._node
        if self.is_dead or node.frontend is None:
            return
        if self._session is None:
            self._session = node.frontend.session(
                _Writer(self), listener="PLAINTEXT", peer="client:1"
            )
        self._session.data_received(data)

    def write(self, data: bytes) -> None:
        """The node answers."""
        self._travel(1, self._receive, data)

    def hang_up(self) -> None:
        """The node ends the connection."""
        self._travel(1, self.close)

    # --- at the client ----------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        if self.is_dead:
            return
        self._wire.receive_data(data)
        try:
            while (event := self._wire.next_event()) is not NEED_DATA:
                assert isinstance(event, Response)
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(event.message)
        except MillpondError:
            self.close()


class _Writer:
    """The node's end, as a session sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def writelines(self, buffers: Sequence[BytesLike]) -> None:
        self._connection.write(b"".join(buffers))

    def pause_reading(self) -> None:
        self._connection.is_reading_paused = True

    def resume_reading(self) -> None:
        self._connection.is_reading_paused = False

    def close(self) -> None:
        self._connection.hang_up()
