"""One simulated machine: a disk, a clock, and at most one living process with a real engine in it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.api import BrokerEndpoint
from millpond.engine.node.node import Node as Engine
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig, Value
from millpond.server.protocols import record_families
from tests.sim.cluster.network import Network, SimPeers, SimWatch
from tests.sim.cluster.trace import Trace
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.time.sim_loop import ProcessLoop, Scheduler

EPOCH_MS = 1_700_000_000_000

log = logging.getLogger(__name__)


class NodeClock:
    """A clock that may be wrong, and be set right."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.skew_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self.monotonic_ms() + self.skew_ms

    def monotonic_ms(self) -> int:
        return round(self._scheduler.now * 1000)


class NodeRng:
    """Chance of one life of a node."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid4(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


class SimThreads:
    """Threads that are none: a job is done in one step, after as long as the disk takes."""

    def __init__(self, loop: ProcessLoop, chance: Random) -> None:
        self._loop = loop
        self._chance = chance
        self.slowness = 0.002

    def one(self, name: str) -> "_SimThread":
        return _SimThread(self, self._loop)

    async def run_all(self, jobs: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        await asyncio.sleep(self.duration())
        return [_attempt(job)[1] for job in jobs]

    def duration(self) -> float:
        return self._chance.random() * self.slowness + 0.0001


class _SimThread:
    def __init__(self, threads: SimThreads, loop: ProcessLoop) -> None:
        self._threads = threads
        self._loop = loop
        self._free_at = 0.0

    def submit(
        self, job: Callable[[], object], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._free_at = max(self._free_at, self._loop.time()) + self._threads.duration()
        self._loop.call_at(self._free_at, self._work, job, done)

    def stop(self, *, wait: bool) -> None:
        pass

    def _work(
        self, job: Callable[[], object], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        done(*_attempt(job))


def _attempt(job: Callable[[], object]) -> tuple[object, BaseException | None]:
    try:
        return job(), None
    except Crash:
        raise
    except Exception as error:  # noqa: BLE001 - handed over, as a thread would
        return None, error


class Node:
    """A machine. ``start`` and ``stop`` are the operator's; ``kill`` and the rest are fate's."""

    def __init__(
        self,
        node_id: int,
        *,
        network: Network,
        settings: Mapping[str, Value],
        seed: int,
        rack: str | None = None,
        has_peers: bool = True,
        disks: int = 1,
    ) -> None:
        self.id = node_id
        self.network = network
        self.trace: Trace = network.trace
        self.storage = FaultyStorage()
        # Disks beside the first, with a log directory on each.
        self.more = [FaultyStorage() for _ in range(disks - 1)]
        self.clock = NodeClock(network.scheduler)
        self.settings = settings
        self.rack = rack
        self.has_peers = has_peers
        self.life = 0
        # How often the machine has lost its power.
        self.boots = 0
        self.loop: ProcessLoop | None = None
        self.engine: Engine | None = None
        self.threads: SimThreads | None = None
        self.frontend: KafkaFrontend | None = None
        # Whether peers are let in, which they must be before the node can join them.
        self.has_started = False
        # Whether the machine runs, with or without a process; who is told when the process ends.
        self.has_power = True
        self.held: dict[object, Callable[[], None]] = {}
        self.find: Callable[[int], Node] = lambda _id: self
        # Called with each engine before it starts, and once it has.
        self.on_made: Callable[[Node, Engine], None] = lambda _node, _engine: None
        self.on_crash: Callable[[Node], None] = lambda _node: None
        self.on_up: Callable[[Node, Engine], None] = lambda _node, _engine: None
        # Until when somebody may see bytes that the disk has changed; never, unless fate did it.
        self.rotten_until = -1.0
        self._seed = seed
        # Engines of earlier lives: nothing of them may be cleaned up while the world turns.
        self._graves: list[object] = []

    @property
    def disks(self) -> list[FaultyStorage]:
        """All of them."""
        return [self.storage, *self.more]

    @property
    def has_crashed(self) -> bool:
        """Whether the process died within a change of one of its disks."""
        return any(disk.has_crashed for disk in self.disks)

    # --- the operator ---------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self.loop is not None

    @property
    def is_serving(self) -> bool:
        """Whether clients are let in."""
        return self.frontend is not None

    def start(self) -> None:
        """Begin a life."""
        if self.loop is not None:
            return
        self.has_power = True
        self.life += 1
        loop = self.network.scheduler.loop(f"node {self.id}.{self.life}")
        loop.after_step = self._on_step
        self.loop = loop
        seed = f"{self._seed}/{self.id}.{self.life}"
        self.threads = SimThreads(loop, Random(f"{seed}/threads"))
        engine = Engine(
            log_dirs=LogDirs(
                [LogDir(disk, "data", name=f"disk {n}") for n, disk in enumerate(self.disks, 1)]
            ),
            node_id=self.id,
            cluster_id="sim",
            broker=BrokerConfig(self.settings),
            clock=self.clock,
            rng=NodeRng(seed),
            families=record_families(),
            rack=self.rack,
            peers=SimPeers(self.network, self.id, loop, self.find) if self.has_peers else None,
            watch=SimWatch(self.network, self.id, loop, self.find) if self.has_peers else None,
            threads=self.threads,
            boot_id=f"{self.id}.{self.boots}",
        )
        self.engine = engine
        self.trace.note("start", f"{self.id}.{self.life}")
        self.on_made(self, engine)
        loop.create_task(self._run(engine), name="main")

    async def _run(self, engine: Engine) -> None:
        try:
            await engine.start()
            self.has_started = True
            await engine.advertise(
                [BrokerEndpoint(name="PLAINTEXT", host=f"node{self.id}", port=9092)]
            )
        except MillpondError as error:
            self.trace.note("start-failed", f"{self.id}.{self.life} {error}")
            self._end()
            return
        frontend = KafkaFrontend(engine)
        frontend.counter_ns = lambda: 0
        self.frontend = frontend
        self.trace.note("up", f"{self.id}.{self.life}")
        self.on_up(self, engine)

    def stop(self) -> None:
        """Ask the process to end well."""
        engine, loop = self.engine, self.loop
        if engine is None or loop is None or not engine.runtime.running or self.frontend is None:
            return
        self.frontend = None
        loop.create_task(self._stop(engine), name="stop")

    async def _stop(self, engine: Engine) -> None:
        self.trace.note("stopping", f"{self.id}.{self.life}")
        try:
            clean = await engine.stop()
        except MillpondError as error:
            self.trace.note("stop-failed", f"{self.id}.{self.life} {error}")
        else:
            self.trace.note("stopped", f"{self.id}.{self.life} {clean}")
        self._end()

    # --- fate -----------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: the process is gone, the page cache is not."""
        if self.loop is not None:
            self.trace.note("kill", f"{self.id}.{self.life}")
            self._end()

    def lose_power(self, *, keep_names: bool, tail_bytes: int) -> None:
        """Everything that was not synced is gone, but for some bytes of the tails."""
        self.trace.note("power", f"{self.id}.{self.life} {keep_names} {tail_bytes}")
        self.has_power = False
        self._end()
        self.boots += 1
        for disk in self.disks:
            disk.lose_power(keep_names=keep_names, tail_bytes=tail_bytes)

    def wipe(self) -> None:
        """Somebody put an empty disk in."""
        self.trace.note("wipe", str(self.id))
        self.has_power = False
        self._end()
        self.storage = FaultyStorage()
        self.more = [FaultyStorage() for _ in self.more]
        if self.is_rotten:
            self.mend()

    def mend(self) -> None:
        """The disk is as it should be from now on; an answer may be under way."""
        self.rotten_until = self.network.scheduler.now + 20.0

    @property
    def is_rotten(self) -> bool:
        """Whether it may give out what it should not have."""
        return self.rotten_until > self.network.scheduler.now

    def rot(self, path: str, position: int, mask: int) -> None:
        """A bit of a file is another one now, until the disk is replaced."""
        self.trace.note("rot", f"{self.id} {path} {position}")
        self.storage.flip(path, position, mask)
        self.rotten_until = float("inf")

    def _end(self) -> None:
        if self.loop is not None:
            self.loop.kill()
            self._graves.append((self.loop, self.engine, self.frontend))
        self.loop = self.engine = self.frontend = self.threads = None
        self.has_started = False
        for disk in self.disks:
            disk.kill()
        held, self.held = self.held, {}
        if self.has_power:
            for lose in held.values():
                lose()

    def forget(self) -> None:
        """The world is over: let go of everything that lived here."""
        self._end()
        self._graves.clear()

    def _on_step(self) -> None:
        """After each step: a disk on which the process died has killed it."""
        if self.has_crashed:
            self.trace.note("crash-in-write", f"{self.id}.{self.life}")
            self._end()
            self.on_crash(self)

    # --- what peers ask -------------------------------------------------------------------------

    def serve(
        self, request: Any, quorum: bool, reply: Callable[[Any, MillpondError | None], None]
    ) -> None:
        """Answer a peer's message."""
        engine, loop = self.engine, self.loop
        assert engine is not None
        assert loop is not None
        answer = engine.metadata.quorum.answer if quorum else engine.peer_handlers.answer
        loop.create_task(self._serve(answer, request, reply), name=type(request).__name__)

    async def _serve(
        self,
        answer: Callable[[Any], Awaitable[Any]],
        request: Any,
        reply: Callable[[Any, MillpondError | None], None],
    ) -> None:
        try:
            result = await answer(request)
        except MillpondError as error:
            reply(None, error)
        else:
            reply(result, None)
