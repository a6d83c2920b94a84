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

from millpond.base.errors import MillpondError, PeerGone, PeerUnreachable
from tests.sim.cluster.trace import Trace
from tests.support.time.sim_loop import ProcessLoop, Scheduler

# Where clients live, as far as cuts are concerned.
OUTSIDE = 0

# How the server's watch over other nodes paces itself.
_PAUSE_S = 1.0
_CONNECT_S = 5.0


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
    """A machine that can be asked, if it has power and a process that listens."""

    has_power: bool
    has_started: bool
    # Who waits at the other end of a connection, and is told when the process ends.
    held: dict[object, Callable[[], None]]

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
        target: Callable[[int], Target],
    ) -> None:
        self._network = network
        self._own = own
        self._loop = loop
        self._target = target

    async def call(self, to: int, request: Any, *, timeout_ms: int) -> Any:
        """Ask a node. Raises ``PeerUnreachable`` if no answer comes, or what the peer refuses with."""
        return await self._ask(to, request, timeout_ms, quorum=False)

    async def ask_quorum(
        self, to: int, request: Any, *, timeout_ms: int, leave_by_ms: int | None = None
    ) -> Any:
        """Ask a replica of the quorum. Raises ``PeerUnreachable``; refusals are in the answer.

        There are no connections to wait for: what is asked leaves at once, whatever ``leave_by_ms`` is.
        """
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
        if not target.has_started:
            # Nobody listens: the machine says so, if it runs, and that is as quick as the way back.
            if target.has_power:
                for delay in self._network.journeys(to, self._own):
                    self._network.after(delay, _settle, answer, None, _refused(to))
            return
        target.held[answer] = lambda: self._back(to, answer, None, _lost(to))

        def reply(result: Any, error: MillpondError | None) -> None:
            target.held.pop(answer, None)
            self._back(to, answer, result, error)

        target.serve(request, quorum, reply)

    def _back(
        self, to: int, answer: "asyncio.Future[Any]", result: Any, error: MillpondError | None
    ) -> None:
        for delay in self._network.journeys(to, self._own):
            self._network.after(delay, _settle, answer, _copied(result), error)


class SimWatch:
    """``NodeWatch`` of one life of one node: sees processes end on machines that it reaches.

    As ``millpond.peer.watch`` does, with a connection that is there to be lost.
    """

    def __init__(
        self, network: Network, own: int, loop: ProcessLoop, target: Callable[[int], Target]
    ) -> None:
        self._network = network
        self._own = own
        self._loop = loop
        self._target = target

    async def until_gone(self, node: int) -> bool:
        """Return when nobody listens there; whether somebody was seen there before."""
        has_listened = False
        while True:
            lost: asyncio.Future[None] = self._loop.create_future()
            listens = await self._connect(node, lost)
            if listens is False:
                return has_listened
            if listens:
                has_listened = True
                since = self._loop.time()
                await lost
                if self._loop.time() - since >= _PAUSE_S:
                    continue
            await asyncio.sleep(_PAUSE_S)

    async def is_gone(self, node: int) -> bool:
        """Whether nobody listens there at this moment."""
        return await self._connect(node, None) is False

    async def _connect(self, node: int, lost: "asyncio.Future[None] | None") -> bool | None:
        """Whether somebody listens there; None if there is no answer."""
        answer: asyncio.Future[bool | None] = self._loop.create_future()
        if self._network.passes(self._own, node):
            self._network.after(self._network.delay(), self._reach, node, answer, lost)
        timer = self._loop.call_later(_CONNECT_S, _settle, answer, None, None)
        try:
            return await answer
        finally:
            timer.cancel()

    def _reach(
        self, node: int, answer: "asyncio.Future[bool | None]", lost: "asyncio.Future[None] | None"
    ) -> None:
        target = self._target(node)
        if not target.has_power:
            return
        if target.has_started and lost is not None:
            target.held[lost] = lambda: self._return(node, lost, None)
        self._return(node, answer, target.has_started)

    def _return(self, node: int, answer: "asyncio.Future[Any]", result: bool | None) -> None:
        if self._network.passes(self._own, node):
            self._network.after(self._network.delay(), _settle, answer, result, None)


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


def _lost(to: int) -> PeerUnreachable:
    return PeerUnreachable(f"node {to} closed the connection")


def _refused(to: int) -> PeerGone:
    return PeerGone(f"node {to}: nobody listens there")


def _copied(message: Any) -> Any:
    """What arrives shares no memory with what was sent."""
    if isinstance(message, (list, tuple)) and not hasattr(message, "_fields"):
        return [_copied(one) for one in message]
    for name in ("records", "data"):
        data = getattr(message, name, None)
        if isinstance(data, (bytes, bytearray, memoryview)) and data:
            message = replace(message, **{name: bytearray(data)})
    return message
