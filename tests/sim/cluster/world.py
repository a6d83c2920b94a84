"""A world: nodes, a network, clients and the checks that run while they live. One seed decides everything."""

import gc
import logging
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Self

from millpond.metadata.configs import Value, broker_config_def
from millpond.replication.partition import Partition
from tests.sim.cluster.admin import Admin
from tests.sim.cluster.client import Client
from tests.sim.cluster.consumers import Consumer
from tests.sim.cluster.copier import Copier
from tests.sim.cluster.history import History
from tests.sim.cluster.keeper import Keeper
from tests.sim.cluster.members import Member, Team
from tests.sim.cluster.network import Network
from tests.sim.cluster.node import Node
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.trace import Broken, Trace
from tests.support.time.sim_loop import ProcessLoop, Scheduler, Stuck

# The time-outs of sessions are Kafka's. Those of the quorum and of replication are longer in most worlds, and
# long polls with them, so that quiet times cost little; some worlds have Kafka's.
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "controller.quorum.fetch.timeout.ms": "12000",
    "controller.quorum.request.timeout.ms": "6000",
    "controller.quorum.retry.backoff.ms": "300",
    "replica.fetch.wait.max.ms": "8000",
    "replica.lag.time.max.ms": "15000",
    "broker.heartbeat.interval.ms": "3000",
    "broker.silence.timeout.ms": "9000",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.enable": "false",
    "group.consumer.session.timeout.ms": "12000",
    "group.consumer.min.session.timeout.ms": "12000",
    "group.consumer.heartbeat.interval.ms": "5000",
}

_LONGER = (
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.ms",
    "replica.lag.time.max.ms",
    "broker.heartbeat.interval.ms",
    "broker.silence.timeout.ms",
)

# Segments that close and are compacted while somebody looks.
_SMALL_SEGMENTS = {"log.segment.bytes": "3000"}
_COMPACTING = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "20000",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What kind of world a seed makes."""

    nodes: int = 1
    # How many of them vote from the beginning, at most.
    voters: int = 3
    has_default_timeouts: bool = False
    power: bool = False
    # Whether power is lost by one node at a time, whose disk has what the operating system cared to write.
    # What is acknowledged by two of three is not lost by that.
    lone_power: bool = False
    # What may strike (anything, if not said), and how many seconds pass between two strikes.
    plagues: tuple[str, ...] = ()
    fault_pause: float = 11.0
    # Whether segments are so small that some are closed, whether logs are compacted, whether consumers
    # share partitions as members of a group.
    small_segments: bool = False
    compacts: bool = False
    has_members: bool = False
    # Log directories of each node, each on a disk of its own.
    disks: int = 1
    settings: Mapping[str, str] | None = None


class World:
    """Made, lived in, closed."""

    def __new__(cls, *_arguments: object, **_named: object) -> Self:
        """After the earlier ones are gone."""
        _forget_earlier_worlds()
        return super().__new__(cls)

    def __init__(self, seed: int, shape: Shape, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.shape = shape
        self.scheduler = Scheduler()
        self.scheduler.on_error = self._on_error
        self.trace = Trace(self.scheduler, keep=keep_trace)
        self.chance = Random(f"{seed}/fate")
        self.network = Network(self.scheduler, Random(f"{seed}/network"), self.trace)
        self.history = History()
        self.fate = self.scheduler.loop("fate")
        self.outside = self.scheduler.loop("clients")
        self.settings = self._parsed(shape)
        self.nodes = [self._node(number) for number in range(1, shape.nodes + 1)]
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.copiers: list[Copier] = []
        self.admins: list[Admin] = []
        self.keepers: list[Keeper] = []
        self.teams: list[Team] = []
        self.members: list[Member] = []
        # Told of every change of a high watermark, with the one before.
        self.on_high_watermark: Callable[[Partition, int, int], None] = lambda *_change: None
        self._failure: BaseException | None = None
        self._clients = 0

    def _parsed(self, shape: Shape) -> dict[str, Value]:
        settings = dict(_SETTINGS)
        if shape.has_default_timeouts:
            for name in _LONGER:
                del settings[name]
        if shape.power:
            settings["log.flush.policy"] = "group"
        if shape.lone_power:
            settings["min.insync.replicas"] = "2"
        if shape.nodes > 1:
            voters = min(shape.nodes, shape.voters)
            settings["controller.quorum.voters"] = ",".join(
                f"{number}@node{number}:9092" for number in range(1, voters + 1)
            )
        if shape.small_segments or shape.compacts:
            settings |= _SMALL_SEGMENTS
        if shape.compacts:
            settings |= _COMPACTING
        settings |= shape.settings or {}
        return {name: broker_config_def(name).parse(text) for name, text in settings.items()}

    def _node(self, number: int) -> Node:
        node = Node(
            number,
            network=self.network,
            settings={**self.settings},
            seed=self.seed,
            rack=f"rack{number % 2}",
            has_peers=self.shape.nodes > 1,
            disks=self.shape.disks,
        )
        node.find = lambda node_id: self.nodes[node_id - 1]
        return node

    # --- time -----------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.scheduler.now - 1000.0

    def run_for(self, seconds: float) -> None:
        """Let the world live; raises what broke."""
        self.scheduler.run_until(self.scheduler.now + seconds)
        if self._failure is not None:
            raise self._failure

    def finish(self, work: Coroutine[Any, Any, Any], *, within: float, what: str) -> Any:
        """Live until some work of a client is done; it must be, in time."""
        task = self.outside.create_task(work)
        end = self.scheduler.now + within
        while not task.done():
            if self.scheduler.now >= end:
                raise Broken(f"{what} is not done after {within} s without faults")
            self.run_for(0.25)
        return task.result()

    def after(self, seconds: float, call: Any, *args: Any) -> None:
        """Fate strikes later."""
        self.fate.call_later(seconds, call, *args)

    def figures(self) -> dict[str, int]:
        """What it came to."""
        counts = self.trace.counts
        return {
            "lives": 1,
            "virtual seconds": round(self.now),
            "steps": self.scheduler.steps,
            "records acknowledged by all": self.history.acknowledged,
            "records read": self.history.reads,
            "writes acknowledged": counts["acked"],
            "positions committed": counts["committed"],
            "transactions ended": counts["ended"],
            "changes of assignments": counts["assigned"],
            "voters removed": counts["voters removed"],
            "voters added": counts["voters added"],
            "messages between nodes": counts["ask"],
            "starts of nodes": counts["start"],
            "ends seen by controllers": counts["end seen"],
            **{name: n for name, n in counts.items() if name.startswith("fault: ")},
        }

    def close(self) -> None:
        """The end; nothing is left behind but what was seen."""
        with warnings.catch_warnings():
            # What was killed before its first step was never awaited, as it should be.
            warnings.simplefilter("ignore", RuntimeWarning)
            self.scheduler.close()
            for node in self.nodes:
                node.forget()
            self.producers.clear()
            self.consumers.clear()
            self.copiers.clear()
            self.admins.clear()
            self.keepers.clear()
            self.teams.clear()
            self.members.clear()

    # --- clients --------------------------------------------------------------------------------

    def client(self) -> Client:
        """Somebody who knows the nodes' addresses and nothing else."""
        self._clients += 1
        chance = Random(f"{self.seed}/client {self._clients}")
        return Client(self.network, self.outside, self.nodes, chance)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """A client lives on its own; what it finds broken breaks the world."""
        self.outside.create_task(self._guard(work))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - everything that a client cannot bear is a finding
            self.fail(error)

    # --- what goes wrong ------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """The first failure counts."""
        if self._failure is None:
            self.trace.note("BROKEN", f"{error!r}")
            self._failure = error

    def _on_error(self, loop: ProcessLoop, what: dict[str, Any]) -> None:
        for node in self.nodes:
            if node.loop is loop and node.has_crashed:
                return
        error = what.get("exception")
        self.fail(error or Broken(f"{loop.name}: {what.get('message')}"))


class ErrorLines(logging.Handler):
    """A node that logs a traceback has a bug, whatever it does next."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        line = record.getMessage().splitlines()[0]
        world.trace.note("log", line)
        if "its process has ended" in line:
            world.trace.counts["end seen"] += 1
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if not any(node.has_crashed for node in world.nodes):
                world.fail(error)


def _forget_earlier_worlds() -> None:
    """A world is full of circles, and nobody collects while another one turns.

    What is older than this world is not looked at again: that would cost more than the world itself.
    """
    with warnings.catch_warnings():
        # What was killed before its first step was never awaited, as it should be.
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()
    gc.freeze()


@contextmanager
def _watched(world: World) -> Iterator[None]:
    """Changes of high watermarks are told to the world, in the moment in which they happen."""
    slot: Any = Partition.__dict__["high_watermark"]
    get, put = slot.__get__, slot.__set__

    def tell(partition: Partition, high: int) -> None:
        try:
            before = get(partition)
        except AttributeError:
            pass  # it is just being made
        else:
            world.on_high_watermark(partition, before, high)
        put(partition, high)

    patched: Any = Partition
    patched.high_watermark = property(get, tell)
    try:
        yield
    finally:
        patched.high_watermark = slot


def live(world: World, story: Callable[[World], None]) -> World:
    """Run a story in a world, with the collector off (it would run at times of its own) and logs watched."""
    root = logging.getLogger("millpond")
    propagates = root.propagate
    handler = ErrorLines(world)
    root.addHandler(handler)
    root.propagate = False
    collects = gc.isenabled()
    gc.disable()
    try:
        with _watched(world):
            story(world)
    except Stuck as stuck:
        raise Broken(str(stuck)) from stuck
    finally:
        root.removeHandler(handler)
        root.propagate = propagates
        world.close()
        if collects:
            gc.enable()
    return world
