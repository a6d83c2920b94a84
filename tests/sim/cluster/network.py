"""The network between nodes, and between clients and nodes.

Messages of nodes are delayed, lost, doubled and overtake each other. A client's connection is ordered and
loses nothing, as TCP does, until something on its way is cut: then it is dead and the client finds out by
its own patience.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from millpond.base.errors import MillpondError, PeerUnreachable
from tests.sim.cluster.trace import Trace
from tests.support.sim_loop import ProcessLoop, Scheduler

# Where clients live, as far as cuts are concerned.
OUTSIDE = 0


class Network:
    """Who reaches whom, how fast, how surely."""

    def __init__(self, scheduler: Scheduler, chance: Random, trace: Trace) -> None:
        self.scheduler = scheduler
        self.chance = chance
        self.trace = trace
        # What is under way does not die with who sent it, so it is nobody's process.
        self._loop = scheduler.loop("network")
        # (from, to) that nothing passes.
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.doubling = 0.0
        self.delay_max = 0.004

    def heal(self) -> None:
        """Everything passes, quickly."""
        self.cut.clear()
        self.loss = self.doubling = 0.0
        self.delay_max = 0.004

    def after(self, delay: float, call: Callable[..., object], *args: Any) -> None:
        """Something arrives."""
        self._loop.call_later(delay, call, *args)

    def journeys(self, origin: int, to: int) -> list[float]:
        """How long a message is under way: once, twice, or never."""
        if origin != to and (origin, to) in self.cut:
            return []
        chance = self.chance
        if self.loss and chance.random() < self.loss:
            return []
        times = [chance.random() * self.delay_max + 0.0002]
        if self.doubling and chance.random() < self.doubling:
            times.append(chance.random() * 3 * self.delay_max + 0.0002)
        return times

    def passes(self, origin: int, to: int) -> bool:
        """Whether a connection can be used just now."""
        return (origin, to) not in self.cut and (to, origin) not in self.cut

    def delay(self) -> float:
        """Of a piece of a connection."""
        return self.chance.random() * self.delay_max + 0.0002


class Target(Protocol):
    """A node that can be asked."""

    def serve(
        self, request: Any, quorum: bool, reply: Callable[[Any, MillpondError | None], None]
    ) -> None:
        """Answer, some time."""
        ...


class SimPeers:
    """``Peers`` of one life of one node, by message."""

    def __init__(
        self,
        network: Network,
        own: int,
        loop: ProcessLoop,
        target: Callable[[int], "Target | None"],
    ) -> None:
        self._network = network
        self._own = own
        self._loop = loop
        self._target = target

    async def call(self, to: int, request: Any, *, timeout_ms: int) -> Any:
        """Ask a node. Raises ``PeerUnreachable`` if no answer comes, or what the peer refuses with."""
        return await self._ask(to, request, timeout_ms, quorum=False)

    async def ask_quorum(self, to: int, request: Any, *, timeout_ms: int) -> Any:
        """Ask a replica of the quorum. Raises ``PeerUnreachable``; refusals are in the answer."""
        return await self._ask(to, request, timeout_ms, quorum=True)

    async def _ask(self, to: int, request: Any, timeout_ms: int, *, quorum: bool) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        network = self._network
        what = type(request).__name__
        for delay in network.journeys(self._own, to):
            network.after(delay, self._arrive, to, _copied(request), answer, quorum)
        network.trace.note("ask", f"{self._own}>{to} {what}")
        timer = self._loop.call_later(timeout_ms / 1000, _give_up, answer, to, what)
        try:
            return await answer
        finally:
            timer.cancel()

    def _arrive(self, to: int, request: Any, answer: "asyncio.Future[Any]", quorum: bool) -> None:
        target = self._target(to)
        if target is None:
            # Nobody listens: the connection is refused, which is as quick as the way back.
            for delay in self._network.journeys(to, self._own):
                self._network.after(delay, _settle, answer, None, _refused(to))
            return
        target.serve(request, quorum, lambda result, error: self._back(to, answer, result, error))

    def _back(
        self, to: int, answer: "asyncio.Future[Any]", result: Any, error: MillpondError | None
    ) -> None:
        for delay in self._network.journeys(to, self._own):
            self._network.after(delay, _settle, answer, _copied(result), error)


def _settle(answer: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _give_up(answer: "asyncio.Future[Any]", to: int, what: str) -> None:
    if not answer.done():
        answer.set_exception(PeerUnreachable(f"node {to} did not answer {what} in time"))


def _refused(to: int) -> PeerUnreachable:
    return PeerUnreachable(f"node {to} refused the connection")


def _copied(message: Any) -> Any:
    """What arrives shares no memory with what was sent."""
    if isinstance(message, (list, tuple)) and not hasattr(message, "_fields"):
        return [_copied(one) for one in message]
    for name in ("records", "data"):
        data = getattr(message, name, None)
        if isinstance(data, (bytes, bytearray, memoryview)) and data:
            message = replace(message, **{name: bytearray(data)})
    return message
