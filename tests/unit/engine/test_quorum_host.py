"""Three engines that agree: on who leads, on the facts, and on them again after whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from millpond.base.errors import NotController
from millpond.base.ids import NodeId, TopicPartition
from millpond.engine.node.node import Node
from millpond.engine.quorum import quorum_driver
from millpond.engine.quorum.metadata_log import METADATA_LOG_CONFIG
from millpond.engine.quorum.quorum_host import QuorumHost
from millpond.engine.quorum.quorum_view import describe_quorum
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.image_records import image_records
from millpond.metadata.records import (
    RESOURCE_GROUP,
    ConfigRecord,
    MetadataRecord,
    encode_record,
)
from millpond.raft.messages import Fetch, FetchAnswer, ReplicaKey
from millpond.raft.voters import Voter
from millpond.record.builder import build_batch
from millpond.server.protocols import record_families
from tests.support.cluster.memory_broker import SeededRng, memory_broker
from tests.support.cluster.memory_peers import MemoryNetwork
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop

VOTERS = (1, 2, 3)


class PausableClock(LoopClock):
    """A clock that has gone on while its node was stopped."""

    paused_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.paused_ms


class Cluster:
    """Engines on storages that outlive them."""

    def __init__(self, voters: Iterable[NodeId] = VOTERS) -> None:
        self.network = MemoryNetwork()
        self.storages: dict[NodeId, FaultyStorage] = {}
        self.engines = self.network.engines
        self.clocks: dict[NodeId, PausableClock] = {}
        self._voters = tuple(f"{node}@node{node}:9092" for node in voters)
        virtual_loop().busy = lambda: any(
            engine.flusher.is_busy or engine.disk.is_busy for engine in self.engines.values()
        )

    async def start(self, node: NodeId) -> Node:
        """A life of a node."""
        storage = self.storages.setdefault(node, FaultyStorage())
        self.clocks[node] = PausableClock(virtual_loop())
        engine = Node(
            log_dirs=LogDirs([LogDir(storage, "data")]),
            node_id=node,
            cluster_id="cluster",
            broker=BrokerConfig({"controller.quorum.voters": self._voters}),
            clock=self.clocks[node],
            rng=SeededRng(node),
            families=record_families(),
            peers=self.network.peers_of(node),
        )
        self.network.join(node, engine)
        await engine.start()
        return engine

    async def stop(self, node: NodeId) -> None:
        """A clean stop."""
        engine = self.engines[node]
        await engine.stop()
        self.network.leave(node)

    async def kill(self, node: NodeId) -> None:
        """The process is gone, and what was not synced with it."""
        engine = self.engines[node]
        self.network.leave(node)
        engine.metadata.quorum.halt()
        await engine.runtime.tasks.stop()
        await engine.flusher.drained()
        self.storages[node].lose_power()

    def host(self, node: NodeId) -> QuorumHost:
        return self.engines[node].metadata.quorum

    async def leader(self) -> NodeId:
        """Whoever decides, once somebody does."""
        while True:
            for node, engine in self.engines.items():
                if engine.metadata.quorum.is_active:
                    return node
            await asyncio.sleep(0.01)

    async def propose(self, value: int) -> None:
        """Make a fact true, whoever leads."""
        while True:
            try:
                await self.host(await self.leader()).propose([fact(value)])
            except NotController:
                await asyncio.sleep(0.05)
            else:
                return

    async def agreed(self, *values: int) -> None:
        """Wait until every living node knows these facts."""
        while not all(
            set(map(str, values)) <= known(engine.metadata.quorum)
            for engine in self.engines.values()
        ):
            await asyncio.sleep(0.01)


def fact(value: int) -> MetadataRecord:
    return ConfigRecord(resource_type=RESOURCE_GROUP, resource_name="g", name=str(value), value="1")


def known(host: QuorumHost) -> set[str]:
    return set(host.image.config_of(RESOURCE_GROUP, "g"))


@asynccontextmanager
async def cluster(nodes: Iterable[NodeId] = VOTERS) -> AsyncIterator[Cluster]:
    made = Cluster()
    for node in nodes:
        await made.start(node)
    try:
        yield made
    finally:
        for node in tuple(made.engines):
            await made.stop(node)


async def test_three_nodes_elect_one_and_agree() -> None:
    async with cluster() as nodes:
        leader = await nodes.leader()
        await nodes.propose(1)
        await nodes.agreed(1)
        for node in VOTERS:
            host = nodes.host(node)
            await host.caught_up()
            assert host.leader_id == leader
            assert host.is_active == (node == leader)


async def test_a_node_that_does_not_lead_says_who_does() -> None:
    async with cluster() as nodes:
        leader = await nodes.leader()
        await nodes.propose(1)
        await nodes.agreed(1)
        other = next(node for node in VOTERS if node != leader)
        with pytest.raises(NotController, match=f"node {leader} does"):
            await nodes.host(other).propose([fact(2)])


async def test_facts_outlive_the_leader_that_was_told() -> None:
    async with cluster() as nodes:
        await nodes.propose(1)
        first = await nodes.leader()
        await nodes.kill(first)
        await nodes.propose(2)
        second = await nodes.leader()
        assert second != first
        await nodes.agreed(1, 2)
        await nodes.start(first)
        await nodes.agreed(1, 2)
        assert not nodes.host(first).is_active


async def test_everybody_loses_power_and_nothing_is_lost() -> None:
    async with cluster() as nodes:
        for value in range(5):
            await nodes.propose(value)
        for node in VOTERS:
            await nodes.kill(node)
        for node in VOTERS:
            await nodes.start(node)
        await nodes.agreed(*range(5))
        await nodes.propose(5)
        await nodes.agreed(*range(6))


async def test_a_leader_that_is_cut_off_stops_leading_and_its_proposal_fails() -> None:
    async with cluster() as nodes:
        await nodes.propose(1)
        first = await nodes.leader()
        nodes.network.isolate(first)
        with pytest.raises(NotController):
            await nodes.host(first).propose([fact(2)])
        assert not nodes.host(first).is_active
        alone = nodes.engines.pop(first)
        await nodes.propose(3)
        nodes.network.cut.clear()
        nodes.engines[first] = alone
        await nodes.agreed(1, 3)
        assert "2" not in known(alone.metadata.quorum)


async def test_fetches_that_waited_while_a_leader_was_stopped_do_not_back_it() -> None:
    async with cluster() as nodes:
        leader = await nodes.leader()
        await nodes.propose(1)
        await nodes.agreed(1)
        await asyncio.sleep(1)
        host = nodes.host(leader)
        host.check_backed()
        stopped_ms = nodes.clocks[leader].monotonic_ms()
        nodes.clocks[leader].paused_ms = 5_000
        # What the others sent before is read now, before or after the event loop has seen how late it is.
        for pause in (0.0, 0.2):
            await asyncio.sleep(pause)
            for other in set(VOTERS) - {leader}:
                follower = nodes.host(other)
                fetch = Fetch(
                    epoch=follower.leader_epoch,
                    replica=follower.key,
                    offset=0,
                    last_epoch=0,
                    high_watermark=0,
                )
                answer = await nodes.network.peers_of(other).ask_quorum(
                    leader, fetch, timeout_ms=1_000
                )
                assert isinstance(answer, FetchAnswer)
                assert answer.records
            assert host.backed_ms <= stopped_ms
            with pytest.raises(NotController, match="has not heard of a majority for"):
                host.check_backed()
        # It leads on, since they had no chance to be heard, and is backed as soon as they are.
        await asyncio.sleep(1)
        assert host.is_active
        host.check_backed()


async def test_a_leader_that_stops_hands_over_without_a_timeout() -> None:
    async with cluster() as nodes:
        await nodes.propose(1)
        first = await nodes.leader()
        await nodes.agreed(1)
        stopped_at = virtual_loop().now
        await nodes.stop(first)
        assert await nodes.leader() != first
        # Elections after silence take a second at the least.
        assert virtual_loop().now - stopped_at < 0.5


async def test_no_majority_no_leader_but_the_storage_is_open() -> None:
    async with cluster([1]) as nodes:
        await asyncio.sleep(60)
        host = nodes.host(1)
        assert not host.is_active
        assert not host.is_caught_up
        await nodes.start(2)
        assert await nodes.leader() in {1, 2}
        await host.caught_up()


async def test_a_node_that_was_away_for_long_loads_a_snapshot_and_hears_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as nodes:
        await nodes.propose(1)
        leader = await nodes.leader()
        await nodes.agreed(1)
        away = next(node for node in VOTERS if node != leader)
        nodes.network.isolate(away)
        engine = nodes.engines.pop(away)
        heard: list[MetadataRecord] = []
        engine.metadata.quorum.on_commit(lambda records, _before, _after: heard.extend(records))
        for value in range(2, 40):
            await nodes.propose(value)
            if value % 10 == 0:
                for other in nodes.engines.values():
                    await other.metadata.quorum.take_snapshot()
        monkeypatch.setattr(quorum_driver, "SNAPSHOT_PIECE_BYTES", 100)
        nodes.network.cut.clear()
        nodes.engines[away] = engine
        await nodes.agreed(*range(1, 40))
        assert engine.metadata.quorum.log.start_offset > 0
        assert {fact(value) for value in range(2, 40)} <= set(heard)
        await nodes.propose(40)
        await nodes.agreed(40)
        await nodes.kill(away)
        await nodes.start(away)
        await nodes.agreed(*range(1, 41))


async def test_an_observer_follows_and_becomes_a_voter() -> None:
    async with cluster() as nodes:
        await nodes.propose(1)
        await nodes.start(4)
        await nodes.agreed(1)
        assert not nodes.host(4).replica.is_voter
        leader = nodes.host(await nodes.leader())
        newcomer = nodes.host(4)
        while newcomer.key not in observers(leader):
            await asyncio.sleep(0.01)
        await leader.add_voter(Voter(key=newcomer.key))
        await nodes.agreed(1)
        while not newcomer.replica.is_voter:
            await asyncio.sleep(0.01)
        # Two of the first three go; the newcomer's vote is needed, and it leads or follows.
        gone = [node for node in VOTERS if nodes.host(node) is not leader][:1]
        await nodes.kill(gone[0])
        await nodes.propose(2)
        await nodes.agreed(2)


def observers(host: QuorumHost) -> set[ReplicaKey]:
    described = describe_quorum(host.replica, monotonic_ms=0, now_ms=0)
    return {one.key for one in described.observers}


async def test_leadership_is_told_after_all_that_was_agreed_is_known() -> None:
    async with cluster() as nodes:
        for value in range(10):
            await nodes.propose(value)
        first = await nodes.leader()
        told: list[tuple[bool, set[str]]] = []

        def listen(host: QuorumHost) -> Callable[[bool, int], None]:
            return lambda is_active, _epoch: told.append((is_active, known(host)))

        for node in VOTERS:
            if node != first:
                nodes.host(node).on_leadership(listen(nodes.host(node)))
        await nodes.kill(first)
        await nodes.leader()
        assert told == [(True, {str(value) for value in range(10)})]


async def test_the_directory_is_part_of_who_a_replica_is() -> None:
    async with cluster() as nodes:
        keys = {nodes.host(node).key for node in VOTERS}
        assert len({key.directory for key in keys}) == len(VOTERS)
        assert all(isinstance(key.directory, UUID) for key in keys)


# --- one node -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_clean", [True, False])
async def test_data_of_a_node_that_knew_no_quorum_opens(*, is_clean: bool) -> None:
    """Facts from the first offset on, no word of leaders, no vote."""

    async with memory_broker() as broker:
        await broker.create("orders", partitions=2)
        await broker.engine.producer_ids.first_identity()
        image = broker.engine.metadata.image
    storage = FaultyStorage()
    directory = LogDir(storage, "data")
    directory.open(1, "cluster", now_ms=0, config_for=lambda _topic: METADATA_LOG_CONFIG)
    log = directory.create(TopicPartition("__cluster_metadata", 0), METADATA_LOG_CONFIG, now_ms=0)
    for record in image_records(image):
        batch = build_batch([(0, None, encode_record(record), ())])
        log.append_as_leader(batch, leader_epoch=0, now_ms=0)
    if is_clean:
        assert directory.close(now_ms=0)
    else:
        storage.kill()
    async with memory_broker(storage) as again:
        assert set(again.engine.metadata.image.topics) == {"orders"}
        assert again.engine.metadata.image.next_producer_id == image.next_producer_id
        assert again.engine.metadata.quorum.is_active
        given, _epoch = await again.engine.producer_ids.first_identity()
        assert given == image.next_producer_id
    async with memory_broker(storage) as third:
        assert set(third.engine.metadata.image.topics) == {"orders"}
        assert third.engine.metadata.image.next_producer_id > given


async def test_a_node_alone_leads_when_it_has_started() -> None:
    storage = FaultyStorage()
    epochs = []
    for _ in range(3):
        async with memory_broker(storage) as broker:
            assert broker.engine.metadata.quorum.is_active
            epochs.append(broker.engine.metadata.quorum.leader_epoch)
        storage.lose_power()
    assert epochs == [1, 2, 3]
