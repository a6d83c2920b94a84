"""Disks fail for a while and come back; writers that have several batches on their way do not notice more
than a pause, nothing stands twice, and every node is in sync again without having been started anew."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.sim.cluster.client import Client, Refused, check
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.history import History, Place
from tests.sim.cluster.node import EPOCH_MS, Node
from tests.sim.cluster.producers import PASSING, PRODUCE_VERSION
from tests.sim.cluster.story import create, persistently, read_all
from tests.sim.cluster.trace import Broken, Trace
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import Shape, World
from tests.support.storage.faulty_storage import FaultyStorage

_TOPIC = "strict"
_PARTITIONS = 3
_FAULTS = 8
_PATIENCE = 120.0
# A batch waits no longer for a disk that fails: the bound for leadership (2 s), a heartbeat that was under
# way, the client's own pauses.
_WAIT_MAX = 3.0
# In so much time a node whose disk is well again is in sync again.
_BACK = 40.0
_IN_FLIGHT = 5
_BACKOFF = 0.1
_PAUSE = 0.4

# With Kafka's own time-outs, since it is about how long things take.
FAILING_DISKS = Shape(
    nodes=3, has_default_timeouts=True, settings={"replica.fetch.wait.max.ms": "500"}
)
# The same with two log directories on each node, of which one fails.
FAILING_DIRECTORIES = replace(FAILING_DISKS, disks=2)


@dataclass(slots=True)
class _Batch:
    """What is to stand in a partition, once."""

    values: list[bytes]
    sequence: int
    first_sent: float = -1.0
    answer: int | None = None  # an error code, or 0


class PipelinedProducer:
    """Idempotent, with up to five batches of each partition on their way, as librdkafka has them.

    After a refusal that passes it waits until nothing is on its way and sends what is not acknowledged
    again, with the same sequences. A batch of which it is told that its sequence does not follow, though one
    before it is not acknowledged, makes it begin a new epoch: everything that is not acknowledged, of every
    partition, is numbered anew. That is how a leader that answers so makes duplicates at others.
    """

    def __init__(
        self, name: str, client: Client, history: History, trace: Trace, loop_time: "TimeOf"
    ) -> None:
        self.name = name
        self._client = client
        self._history = history
        self._trace = trace
        self._time = loop_time
        self._identity: tuple[int, int] | None = None
        self._unacked: dict[int, deque[_Batch]] = {n: deque() for n in range(_PARTITIONS)}
        self._next = dict.fromkeys(range(_PARTITIONS), 0)
        self._count = 0
        self._must_bump = False
        self.stopping = False
        self.longest = 0.0

    async def run(self) -> None:
        """Until told to stop and everything is acknowledged."""
        while not self.stopping or any(self._unacked.values()):
            await self._know_identity()
            async with asyncio.TaskGroup() as tasks:
                for partition in range(_PARTITIONS):
                    tasks.create_task(self._serve(partition))
            if self._must_bump:
                self._bump()

    async def _know_identity(self) -> None:
        if self._identity is not None:
            return
        response = await persistently(
            lambda: self._client.ask_any(
                ApiKey.INIT_PRODUCER_ID,
                4,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            )
        )
        if response.error_code == 0:
            self._identity = response.producer_id, response.producer_epoch

    def _bump(self) -> None:
        self._must_bump = False
        assert self._identity is not None
        self._trace.note("bump", f"{self.name} from {self._identity}")
        self._identity = self._identity[0], self._identity[1] + 1
        for partition, batches in self._unacked.items():
            self._next[partition] = 0
            for batch in batches:
                batch.sequence, self._next[partition] = (
                    self._next[partition],
                    self._next[partition] + len(batch.values),
                )

    async def _serve(self, partition: int) -> None:
        """One round with one partition: send several, take the answers."""
        chance = self._client.chance
        batches = self._unacked[partition]
        while not self.stopping and len(batches) < _IN_FLIGHT and chance.random() < 0.8:
            count = chance.randrange(1, 3)
            values = [f"{self.name}.{self._count + n}".encode() for n in range(count)]
            self._count += count
            batches.append(_Batch(values, self._next[partition]))
            self._next[partition] += count
            for value in values:
                self._history.attempt((_TOPIC, partition), value)
        if not batches or self._identity is None:
            await asyncio.sleep(0.2 * chance.random())
            return
        try:
            leader, _epoch = await self._client.leader(_TOPIC, partition)
        except (Disconnected, Refused):
            await asyncio.sleep(_BACKOFF)
            return
        async with asyncio.TaskGroup() as tasks:
            for batch in tuple(batches):
                tasks.create_task(self._send(partition, leader, batch))
                # The next one leaves a moment later: what becomes of a disk happens in between.
                await asyncio.sleep(0.02 * chance.random())
        self._take(partition)
        if batches:
            self._client.forget_leader(_TOPIC, partition)
            await asyncio.sleep(_BACKOFF)
        else:
            await asyncio.sleep(_PAUSE * chance.random())

    async def _send(self, partition: int, leader: int, batch: _Batch) -> None:
        assert self._identity is not None
        producer_id, epoch = self._identity
        batch.answer = None
        if batch.first_sent < 0:
            batch.first_sent = self._time()
        records = build_batch(
            [(EPOCH_MS, None, value, ()) for value in batch.values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.sequence,
        )
        try:
            response = await self._client.ask(
                leader,
                ApiKey.PRODUCE,
                PRODUCE_VERSION,
                ProduceRequest(
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[
                        TopicProduceData(
                            name=_TOPIC,
                            partition_data=[
                                PartitionProduceData(index=partition, records=bytes(records))
                            ],
                        )
                    ],
                ),
            )
        except Disconnected:
            return
        (topic,) = response.responses
        (produced,) = topic.partition_responses
        batch.answer = produced.error_code
        if produced.error_code == 0:
            for number, value in enumerate(batch.values):
                offset = produced.base_offset + number if produced.base_offset >= 0 else -1
                self._history.acknowledge((_TOPIC, partition), value, offset)
        else:
            self._trace.note("refused", f"{self.name} {batch.sequence} {produced.error_code}")

    def _take(self, partition: int) -> None:
        batches = self._unacked[partition]
        while batches and batches[0].answer == 0:
            done = batches.popleft()
            self.longest = max(self.longest, self._time() - done.first_sent)
        for number, batch in enumerate(batches):
            code = batch.answer
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if number == 0:
                    raise Broken(f"{self.name}: a leader lacks what it has acknowledged")
                self._must_bump = True
            elif code not in {None, 0} and code not in PASSING:
                check(code or 0)


class TimeOf:
    """The world's clock, as a client may read it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self) -> float:
        return self._world.now


def disks_fail_for_a_while(world: World) -> None:
    """The story."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        for disk in node.disks:
            disk.forgets = True
        node.start()
    client = world.client()
    world.finish(
        create(world, client, _TOPIC, _PARTITIONS), within=_PATIENCE, what="making a topic"
    )
    _until_whole(world, "at the beginning")
    producers = [
        PipelinedProducer(f"w{number}", world.client(), world.history, world.trace, TimeOf(world))
        for number in range(2)
    ]
    for producer in producers:
        world.spawn(producer.run())
    world.run_for(5.0)
    lives = [node.life for node in world.nodes]
    for _ in range(_FAULTS):
        node = world.chance.choice(world.nodes)
        disk = world.chance.choice(node.disks) if node.more else node.storage
        serves_on = _serves_on(node, disk)
        _break(world, node, disk)
        world.run_for(world.chance.choice([0.05, 0.3, 2.0, 12.0]))
        if not serves_on():
            raise Broken(f"node {node.id} is fenced, and a disk without the metadata log failed")
        _mend(disk)
        world.trace.note("mended", str(node.id))
        _until_whole(world, f"after the disk of node {node.id} failed")
        world.run_for(world.chance.choice([0.1, 5.0]))
    for producer in producers:
        producer.stopping = True
    world.run_for(20.0)
    for number in range(_PARTITIONS):
        place: Place = (_TOPIC, number)
        reading = read_all(world, world.client(), place, committed=False)
        world.finish(reading, within=_PATIENCE, what="reading everything")
    world.history.check_end()
    watch.look()
    if [node.life for node in world.nodes] != lives:
        raise Broken("a node was started again")
    for producer in producers:
        if producer.longest > _WAIT_MAX:
            raise Broken(
                f"{producer.name}: a batch waited {producer.longest:.1f} s for a disk that failed"
            )


def _serves_on(node: Node, disk: FaultyStorage) -> Callable[[], bool]:
    """Whether the cluster counts on a node of which another disk than that of the metadata log fails."""
    engine = node.engine
    assert engine is not None
    return lambda: disk is node.storage or engine.metadata.image.is_active(node.id)


def _break(world: World, node: Node, storage: FaultyStorage) -> None:
    chance = world.chance
    kind = chance.choice(["full", "write", "write", "sync", "both"])
    world.trace.note("fault", f"disk {node.id} {kind}")
    world.trace.counts[f"fault: disk fails ({kind})"] += 1
    storage.write_tears = chance.choice([0, 1, 40])
    if kind == "full":
        storage.capacity = storage.used + chance.randrange(400)
    storage.fail_writes = kind in {"write", "both"}
    storage.fail_syncs = kind in {"sync", "both"}


def _mend(storage: FaultyStorage) -> None:
    storage.capacity = None
    storage.fail_writes = storage.fail_syncs = False


def _until_whole(world: World, when: str) -> None:
    end = world.now + _BACK
    while not _is_whole(world):
        if world.now > end:
            raise Broken(f"{when}: not everybody is in sync again after {_BACK} s")
        world.run_for(0.5)


def _is_whole(world: World) -> bool:
    for node in world.nodes:
        engine = node.engine
        if engine is None or not node.is_serving or engine.disk.offline:
            return False
        topic = engine.metadata.image.topics.get(_TOPIC)
        if topic is None or any(len(one.isr) < len(world.nodes) for one in topic.partitions):
            return False
    return True
