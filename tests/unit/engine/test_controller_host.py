"""Three engines under one controller: nodes come and go, leaders follow, controllers too may fail."""

import asyncio
import logging
from typing import Any
from uuid import UUID

import pytest

from millpond.base import limits
from millpond.base.errors import (
    DuplicateRegistration,
    InvalidRequest,
    NotController,
    NotLeader,
    StaleBrokerEpoch,
    UnknownTopic,
    WrongCluster,
)
from millpond.base.ids import NodeId
from millpond.engine.api import (
    RESOURCE_TOPIC,
    AlterConfigs,
    AlterOp,
    CreateTopic,
    Election,
    Image,
    PartitionImage,
    Reassignment,
)
from millpond.engine.cluster import membership
from millpond.engine.peers import (
    AllocateProducerIds,
    AlterInSync,
    AssignDirectories,
    InSyncChange,
    MakeTopics,
    NodeHeartbeat,
    PeerRequest,
    RegisterNode,
    ReplicaPlace,
)
from millpond.metadata import features
from millpond.metadata.features import SUPPORTED, FeatureRange
from millpond.metadata.fencing import FenceReason
from millpond.metadata.levels import MILLPOND_VERSION
from millpond.metadata.records import NO_LEADER, UNASSIGNED_DIRECTORY
from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster.memory_broker import batch, fetch, fetched, produce, produced
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, run


async def make(
    cluster: MemoryCluster, name: str = "t", replicas: int = 3, partitions: int = 1
) -> None:
    controller = await cluster.controller()
    command = CreateTopic(name=name, partitions=partitions, replication_factor=replicas)
    (result,) = await controller.topic_admin.create_topics([command])
    assert result.error is None
    await cluster.until(
        lambda: all(name in engine.metadata.image.topics for engine in cluster.engines.values())
    )


def led_by(cluster: MemoryCluster, node: int) -> int:
    """A partition that a node leads."""
    partitions = cluster.image.topics["t"].partitions
    return next(index for index, one in enumerate(partitions) if one.leader == node)


def first(cluster: MemoryCluster, name: str = "t") -> PartitionImage:
    return cluster.image.topics[name].partitions[0]


async def test_nodes_register_and_serve_within_a_second() -> None:
    async with memory_cluster() as cluster:
        brokers = cluster.image.brokers
        assert sorted(brokers) == [1, 2, 3]
        assert len({one.broker_epoch for one in brokers.values()}) == 3
        assert {one.rack for one in brokers.values()} == {"rack-1", "rack-2", "rack-3"}
        assert brokers[1].end_points[0].host == "node1.test"
        assert cluster.image.features["metadata.version"] == 30
        for node in (1, 2, 3):
            await cluster.node(node).membership.joined()
            assert not cluster.node(node).membership.is_fenced


async def test_a_node_that_falls_silent_is_fenced_and_others_lead_in_its_place() -> None:
    async with memory_cluster() as cluster:
        await make(cluster, partitions=6)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        await cluster.kill(victim)
        await cluster.until(lambda: not cluster.image.is_active(victim), within_s=12)
        for partition in cluster.image.topics["t"].partitions:
            assert partition.leader not in (victim, NO_LEADER)
            assert victim not in partition.isr


async def test_a_process_that_was_seen_to_end_is_fenced_long_before_its_session_is_over() -> None:
    async with memory_cluster(watched=True) as cluster:
        await make(cluster, partitions=6)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        await cluster.kill(victim)
        await cluster.until(lambda: not cluster.image.is_active(victim), within_s=1)
        assert all(
            one.leader not in (victim, NO_LEADER) for one in cluster.image.topics["t"].partitions
        )
        await cluster.start(victim)
        await cluster.until(lambda: cluster.image.is_active(victim), within_s=5)


async def test_when_the_controllers_process_ends_another_decides_and_fences_it_within_two_seconds() -> (
    None
):
    async with memory_cluster(watched=True) as cluster:
        await make(cluster, partitions=6)
        old = (await cluster.controller()).info.node_id
        await cluster.kill(old)
        await cluster.until(lambda: not cluster.image.is_active(old), within_s=2)
        assert all(
            one.leader not in (old, NO_LEADER) for one in cluster.image.topics["t"].partitions
        )


async def test_a_node_that_hears_no_controller_leads_nothing_before_others_lead_in_its_place() -> (
    None
):
    async with memory_cluster(broker_session_timeout_ms="3000") as cluster:
        await make(cluster, partitions=6)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        led = led_by(cluster, victim)
        cut_off = cluster.node(victim)
        cut_off.partitions.partition("t", led)
        knew_when_fenced: list[bool] = []

        def note(before: Image, after: Image) -> None:
            if before.is_active(victim) and not after.is_active(victim):
                knew_when_fenced.append(cut_off.membership.is_cut_off)

        cluster.node(controller).metadata.observe(note)
        cluster.network.isolate(victim)
        await cluster.until(lambda: cut_off.membership.is_cut_off, within_s=4)
        for look_up in (cut_off.partitions.partition, cut_off.partitions.replica):
            with pytest.raises(NotLeader, match="no answer of the controller"):
                look_up("t", led)
        end = cut_off.topics.partition("t", led).log.end_offset
        client = cluster.client(victim)
        written = await client.ask(ApiKey.PRODUCE, 12, produce(batch(b"v"), partition=led, acks=1))
        assert produced(written).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert cut_off.topics.partition("t", led).log.end_offset == end
        # What others lead is still read here (KIP-392): nothing of that can be lost.
        followed = next(
            index
            for index, one in enumerate(cut_off.metadata.image.topics["t"].partitions)
            if one.leader != victim and victim in one.replicas
        )
        cut_off.partitions.replica("t", followed)
        await cluster.until(lambda: not cluster.image.is_active(victim), within_s=4)
        assert knew_when_fenced == [True]
        cluster.network.cut.clear()
        await cluster.up(1, 2, 3)
        assert not cut_off.membership.is_cut_off


async def test_who_hears_only_a_deposed_controller_leads_nothing_before_others_lead_in_its_place() -> (
    None
):
    async with memory_cluster(
        5,
        auto_leader_rebalance_enable="false",
        broker_heartbeat_interval_ms="500",
        controller_quorum_fetch_timeout_ms="6000",
    ) as cluster:
        await make(cluster, partitions=10)
        old = (await cluster.controller()).info.node_id
        victim = next(node for node in cluster.storages if node != old)
        led = led_by(cluster, victim)
        await cluster.until(lambda: cluster.node(victim).topics.replica("t", led).is_leader)
        rest = [node for node in cluster.storages if node not in {old, victim}]
        for near in (old, victim):
            for far in rest:
                cluster.network.cut |= {(near, far), (far, near)}
        cut_off = cluster.node(victim).membership

        def is_led_elsewhere() -> bool:
            return any(
                cluster.node(node).metadata.image.topics["t"].partitions[led].leader != victim
                for node in rest
            )

        await cluster.until(lambda: cut_off.is_cut_off or is_led_elsewhere(), within_s=30)
        assert not is_led_elsewhere()
        await cluster.until(is_led_elsewhere, within_s=30)
        assert cut_off.is_cut_off


async def test_a_node_goes_on_where_it_was_when_the_controller_was_only_away() -> None:
    async with memory_cluster(broker_session_timeout_ms="3000") as cluster:
        await make(cluster, partitions=6)
        led = led_by(cluster, 1)
        epoch = cluster.image.topics["t"].partitions[led].leader_epoch
        for node in (1, 2, 3):
            cluster.network.isolate(node)
        await asyncio.sleep(4)
        with pytest.raises(NotLeader):
            cluster.node(1).partitions.partition("t", led)
        cluster.network.cut.clear()
        await cluster.until(lambda: not cluster.node(1).membership.is_cut_off)
        if cluster.image.topics["t"].partitions[led].leader_epoch == epoch:
            cluster.node(1).partitions.partition("t", led)


async def test_a_node_that_is_alone_needs_nobodys_word() -> None:
    async with memory_cluster(1, broker_session_timeout_ms="3000") as cluster:
        await make(cluster, replicas=1)
        await asyncio.sleep(60)
        cluster.node(1).partitions.partition("t", 0)


async def test_a_node_that_is_only_cut_off_keeps_its_lease() -> None:
    async with memory_cluster(watched=True) as cluster:
        await make(cluster)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        cluster.network.isolate(victim)
        await asyncio.sleep(2.4)
        assert cluster.node(controller).metadata.image.is_active(victim)


async def test_others_lead_in_place_of_a_node_that_was_cut_off_as_soon_as_its_lease_is_over() -> (
    None
):
    async with memory_cluster(watched=True) as cluster:
        await make(cluster, partitions=6)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        led = led_by(cluster, victim)
        client = cluster.client(victim)
        request = produce(batch(b"v"), partition=led, acks=-1)
        request.timeout_ms = 30_000
        cluster.network.isolate(victim)
        waiting = asyncio.ensure_future(client.ask(ApiKey.PRODUCE, 12, request))
        question = fetch(partition=led, offset=0, wait_ms=30_000)
        reading = asyncio.ensure_future(cluster.client(victim).ask(ApiKey.FETCH, 12, question))
        await cluster.until(
            lambda: (
                cluster.node(controller).metadata.image.topics["t"].partitions[led].leader != victim
            ),
            within_s=3.2,
        )
        # Clients that wait there, for replicas or records, are told before their own patience is over.
        async with asyncio.timeout(0.1):
            answer = await waiting
            found = await reading
        assert produced(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched(found).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # And they are not sent back to it by its own metadata.
        (topic,) = (
            await client.ask(
                ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            )
        ).topics
        told = {one.partition_index: one for one in topic.partitions}[led]
        assert (told.error_code, told.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_a_leader_goes_on_without_a_follower_that_it_does_not_reach_within_four_seconds() -> (
    None
):
    async with memory_cluster(watched=True, min_insync_replicas="2") as cluster:
        await make(cluster, partitions=6)
        await asyncio.sleep(5)
        controller = (await cluster.controller()).info.node_id
        leader, follower = (node for node in (1, 2, 3) if node != controller)
        led = led_by(cluster, leader)
        client = cluster.client(leader)
        request = produce(batch(b"v"), partition=led, acks=-1)
        request.timeout_ms = 30_000
        cluster.network.cut |= {(leader, follower), (follower, leader)}
        async with asyncio.timeout(4):
            answer = await client.ask(ApiKey.PRODUCE, 12, request)
        assert produced(answer).error_code == ErrorCode.NONE
        image = cluster.image
        assert set(image.topics["t"].partitions[led].isr) == {leader, controller}
        assert image.is_active(leader)
        assert image.is_active(follower)
        cluster.network.cut.clear()
        await cluster.until(
            lambda: all(len(one.isr) == 3 for one in cluster.image.topics["t"].partitions)
        )


@pytest.mark.parametrize("level", [2, 3])
def test_a_node_of_the_release_before_is_given_a_whole_session(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with memory_cluster() as cluster:
            await make(cluster)
            controller = (await cluster.controller()).info.node_id
            victim = next(node for node in (1, 2, 3) if node != controller)
            cluster.network.isolate(victim)
            await asyncio.sleep(6)
            assert cluster.node(controller).metadata.image.is_active(victim) == (level == 2)

    oldest = {**SUPPORTED, MILLPOND_VERSION: FeatureRange(lowest=0, highest=level, initial=2)}
    monkeypatch.setattr(membership, "SUPPORTED", oldest)
    monkeypatch.setattr(features, "SUPPORTED", oldest)
    run(story())


async def test_when_the_controller_is_cut_off_the_others_go_on_and_it_is_replaced_within_five_seconds() -> (
    None
):
    async with memory_cluster(watched=True) as cluster:
        await make(cluster, partitions=6)
        await asyncio.sleep(5)
        old = (await cluster.controller()).info.node_id
        rest = [node for node in (1, 2, 3) if node != old]
        began = asyncio.get_running_loop().time()
        lapses: list[float] = []

        def is_replaced() -> bool:
            if any(cluster.node(node).membership.is_cut_off for node in rest):
                lapses.append(asyncio.get_running_loop().time() - began)
            partitions = cluster.node(rest[0]).metadata.image.topics["t"].partitions
            return all(one.leader != old for one in partitions)

        cluster.network.isolate(old)
        await cluster.until(is_replaced, within_s=4.6)
        assert cluster.node(old).membership.is_cut_off
        assert lapses == []


async def test_a_node_that_comes_back_has_a_new_epoch_and_serves_again() -> None:
    async with memory_cluster() as cluster:
        await make(cluster)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        before = cluster.image.brokers[victim].broker_epoch
        await cluster.kill(victim)
        await cluster.start(victim)
        await cluster.until(
            lambda: (
                cluster.image.is_active(victim)
                and cluster.image.brokers[victim].broker_epoch > before
            )
        )
        await cluster.until(lambda: victim in first(cluster).isr)


async def test_a_node_that_stops_well_hands_over_before_it_goes() -> None:
    async with memory_cluster() as cluster:
        await make(cluster, partitions=6)
        controller = (await cluster.controller()).info.node_id
        leaving = next(node for node in (1, 2, 3) if node != controller)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await cluster.stop(leaving)
        assert loop.time() - began < 9, "it did not wait for its session to end"
        assert cluster.image.brokers[leaving].fenced
        assert all(
            one.leader not in (leaving, NO_LEADER) for one in cluster.image.topics["t"].partitions
        )


@pytest.mark.parametrize("last", [1, 2, 3])
def test_the_last_nodes_of_a_cluster_that_stops_wait_for_nobody(
    last: NodeId, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with memory_cluster(watched=True) as cluster:
            await make(cluster, partitions=6)
            loop = asyncio.get_running_loop()
            for node in (1, 2, 3):
                if node != last:
                    assert await cluster.stop(node)
            began = loop.time()
            assert await cluster.stop(last)
            assert loop.time() - began < limits.CONTROLLED_SHUTDOWN_ANSWER_MS_MAX / 1000 / 2

    run(story())
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("watched", "reason"), [(False, FenceReason.SILENT), (True, FenceReason.PROCESS_ENDED)]
)
async def test_the_controller_knows_why_it_fenced_a_node(
    watched: bool, reason: FenceReason
) -> None:
    async with memory_cluster(watched=watched) as cluster:
        controller = await cluster.controller()
        victim = next(node for node in (1, 2, 3) if node != controller.info.node_id)
        assert controller.admin.fencings() == {}
        await cluster.kill(victim)
        await cluster.until(lambda: not cluster.image.is_active(victim), within_s=12)
        (found,) = controller.admin.fencings().values()
        assert found.reason is reason
        assert found.silent_ms >= found.fenced_ms >= 0
        other = next(one for one in cluster.engines.values() if one is not controller)
        assert other.admin.fencings() == {}, "only the active controller knows"
        await cluster.start(victim)
        await cluster.until(lambda: cluster.image.is_active(victim), within_s=30)
        assert controller.admin.fencings() == {}


async def test_a_node_that_was_stopped_in_order_is_known_as_that() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        leaving = next(node for node in (1, 2, 3) if node != controller.info.node_id)
        assert await cluster.stop(leaving)
        assert controller.admin.fencings()[leaving].reason is FenceReason.STOPPED
        assert controller.admin.fencings()[leaving].fenced_ms >= 0


async def test_a_node_is_fenced_for_its_disk_while_it_says_so_and_joins_when_it_reads_the_metadata() -> (
    None
):
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        directory = controller.runtime.rng.uuid4()
        epoch = await controller.peer_handlers.answer(
            RegisterNode(
                node_id=4,
                cluster_id="cluster",
                incarnation_id=controller.runtime.rng.uuid4(),
                end_points=(),
                rack=None,
                log_dirs=(directory,),
            )
        )

        async def beat(*offline: UUID, offset: int = 10**6) -> None:
            await controller.peer_handlers.answer(
                NodeHeartbeat(
                    node_id=4,
                    broker_epoch=epoch,
                    metadata_offset=offset,
                    wants_fence=False,
                    wants_stop=False,
                    offline_dirs=offline,
                )
            )

        def reason() -> FenceReason | None:
            found = controller.admin.fencings().get(NodeId(4))
            return None if found is None else found.reason

        assert reason() is FenceReason.JOINING
        await beat(offset=0)
        assert reason() is FenceReason.JOINING
        await beat()
        assert reason() is None
        await beat(directory)
        assert reason() is FenceReason.DISK
        await asyncio.sleep(1)  # virtual
        await beat(directory)
        found = controller.admin.fencings()[NodeId(4)]
        assert found.fenced_ms >= 1000, "since the first time that it said so"
        assert found.silent_ms < 1000
        await beat(offset=0)
        assert reason() is FenceReason.JOINING
        await beat()
        assert reason() is None


async def test_another_controller_takes_over_and_the_old_one_decides_nothing_more() -> None:
    async with memory_cluster() as cluster:
        await make(cluster, partitions=3)
        old = await cluster.controller()
        cluster.network.isolate(old.info.node_id)
        others = [one for one in cluster.engines.values() if one is not old]
        await cluster.until(lambda: any(one.metadata.is_controller for one in others))
        new = next(one for one in others if one.metadata.is_controller)
        (made,) = await new.topic_admin.create_topics([CreateTopic(name="n", replication_factor=2)])
        assert made.error is None
        with pytest.raises(NotController):
            await old.topic_admin.create_topics([CreateTopic(name="o", replication_factor=2)])
        assert "o" not in new.metadata.image.topics
        # The old one is silent for the new one, which has given it a whole session.
        await cluster.until(lambda: not new.metadata.image.is_active(old.info.node_id), within_s=15)
        cluster.network.cut.clear()
        await cluster.up(1, 2, 3)
        assert "n" in old.metadata.image.topics
        assert "o" not in old.metadata.image.topics


async def test_what_a_node_needs_of_the_controller_it_gets_wherever_that_is() -> None:
    async with memory_cluster() as cluster:
        await cluster.controller()
        ids = [await cluster.node(node).producer_ids.next() for node in (1, 2, 3) for _ in range(2)]
        assert len(set(ids)) == 6
        for node in (1, 2, 3):
            topic = await cluster.node(node).topic_admin.ensure_topic(f"t{node}")
            assert topic.name in cluster.node(node).metadata.image.topics
        again = await cluster.node(3).topic_admin.ensure_topic("t1")
        assert again.topic_id == cluster.image.topics["t1"].topic_id


async def test_internal_topics_have_as_many_replicas_as_the_cluster_was_made_for() -> None:
    async with memory_cluster() as cluster:
        topic = await cluster.node(1).topic_admin.ensure_topic("__consumer_offsets")
        assert {len(one.replicas) for one in topic.partitions} == {3}


async def test_what_an_earlier_life_or_a_stranger_says_is_refused() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        node = next(one for one in (1, 2, 3) if one != controller.info.node_id)
        known = cluster.image.brokers[node]
        stale = known.broker_epoch - 1
        beat = NodeHeartbeat(
            node_id=node,
            broker_epoch=stale,
            metadata_offset=10**6,
            wants_fence=False,
            wants_stop=False,
        )
        questions: list[PeerRequest[Any]] = [
            beat,
            AllocateProducerIds(node_id=node, broker_epoch=stale),
            AlterInSync(node_id=node, broker_epoch=stale, changes=()),
            AssignDirectories(node_id=node, broker_epoch=stale, places=()),
        ]
        for question in questions:
            with pytest.raises(StaleBrokerEpoch):
                await controller.peer_handlers.answer(question)
        stranger = RegisterNode(
            node_id=node,
            cluster_id="cluster",
            incarnation_id=controller.runtime.rng.uuid4(),
            end_points=(),
            rack=None,
            log_dirs=(controller.runtime.rng.uuid4(),),
        )
        with pytest.raises(DuplicateRegistration):
            await controller.peer_handlers.answer(stranger)
        assert cluster.image.brokers[node] == known


async def test_one_directory_of_a_node_goes_offline_while_it_serves_from_the_other() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        other = next(one for one in (1, 2, 3) if one != controller.info.node_id)
        good, bad = controller.runtime.rng.uuid4(), controller.runtime.rng.uuid4()
        epoch = await controller.peer_handlers.answer(
            RegisterNode(
                node_id=4,
                cluster_id="cluster",
                incarnation_id=controller.runtime.rng.uuid4(),
                end_points=(),
                rack=None,
                log_dirs=(good, bad),
            )
        )

        async def beat(*offline: UUID) -> bool:
            answer = await controller.peer_handlers.answer(
                NodeHeartbeat(
                    node_id=4,
                    broker_epoch=epoch,
                    metadata_offset=10**6,
                    wants_fence=False,
                    wants_stop=False,
                    offline_dirs=offline,
                )
            )
            return answer.is_fenced

        assert not await beat()
        command = CreateTopic(name="t", assignments={0: (4, other), 1: (4, other)})
        (made,) = await controller.topic_admin.create_topics([command])
        assert made.topic_id is not None
        topic_id = made.topic_id

        def image() -> list[PartitionImage]:
            return list(controller.metadata.image.topics["t"].partitions)

        assert [one.directory_of(4) for one in image()] == [UNASSIGNED_DIRECTORY] * 2
        known = [controller.metadata.image.brokers[other].log_dirs[0]] * 2
        assert [one.directory_of(other) for one in image()] == known
        places = [
            ReplicaPlace(directory=good, topic_id=topic_id, partition=0),
            ReplicaPlace(directory=bad, topic_id=topic_id, partition=1),
            ReplicaPlace(directory=bad, topic_id=topic_id, partition=2),
        ]
        answers = await controller.peer_handlers.answer(
            AssignDirectories(node_id=4, broker_epoch=epoch, places=tuple(places))
        )
        assert [type(answers[one]) for one in places] == [type(None)] * 2 + [UnknownTopic]
        assert [one.directory_of(4) for one in image()] == [good, bad]
        assert [one.leader for one in image()] == [4, 4]

        assert not await beat(bad)
        assert [one.leader for one in image()] == [4, other]
        assert [one.isr for one in image()] == [(4, other), (other,)]
        assert list(controller.metadata.image.brokers[4].offline_dirs) == [bad]
        client = cluster.client(controller.info.node_id)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        told = await client.ask(ApiKey.METADATA, 12, asked)
        assert [one.offline_replicas for one in told.topics[0].partitions] == [[], [4]]
        assert await beat(bad, good)
        assert [one.leader for one in image()] == [other, other]
        assert not await beat()
        assert list(controller.metadata.image.brokers[4].offline_dirs) == []


async def test_more_assignments_than_one_request_may_have_are_refused() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        node = controller.info.node_id
        place = ReplicaPlace(
            directory=controller.runtime.rng.uuid4(),
            topic_id=controller.runtime.rng.uuid4(),
            partition=0,
        )
        with pytest.raises(InvalidRequest, match="at most 2000"):
            await controller.peer_handlers.answer(
                AssignDirectories(
                    node_id=node,
                    broker_epoch=cluster.image.brokers[node].broker_epoch,
                    places=(place,) * (limits.DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX + 1),
                )
            )


async def test_a_process_whose_number_another_has_taken_leads_nothing_and_speaks_only_for_itself() -> (
    None
):
    async with memory_cluster() as cluster:
        await make(cluster, replicas=1, partitions=3)
        controller = await cluster.controller()
        node = next(one for one in (1, 2, 3) if one != controller.info.node_id)
        old = cluster.node(node)
        epoch = old.membership.broker_epoch
        index = next(one.index for one in old.topics if one.topic == "t" and one.is_leader)

        # The controller has not heard of it for long enough; its number was given to another process.
        controller.controller.sessions.forget(node)
        other = await controller.peer_handlers.answer(
            RegisterNode(
                node_id=node,
                cluster_id="cluster",
                incarnation_id=controller.runtime.rng.uuid4(),
                end_points=controller.metadata.image.brokers[node].end_points,
                rack=None,
                log_dirs=controller.metadata.image.brokers[node].log_dirs,
            )
        )
        beat = NodeHeartbeat(
            node_id=node,
            broker_epoch=other,
            metadata_offset=10**6,
            wants_fence=False,
            wants_stop=False,
        )
        assert not (await controller.peer_handlers.answer(beat)).is_fenced
        await cluster.until(lambda: old.metadata.image.topics["t"].partitions[index].leader == node)

        assert (
            old.metadata.image.brokers[node].broker_epoch
            == other
            > epoch
            == old.membership.broker_epoch
        )
        assert not old.partitions.replica("t", index).is_leader
        with pytest.raises(NotLeader):
            old.partitions.partition("t", index)


async def test_a_producer_is_told_to_come_again_while_no_controller_gives_out_ids() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        left = next(one for one in (1, 2, 3) if one != controller.info.node_id)
        client = cluster.client(left)
        for node in {1, 2, 3} - {left}:
            await cluster.kill(node)
        began = asyncio.get_running_loop().time()
        answer = await client.ask(
            ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(transactional_id=None)
        )
        assert (answer.error_code, answer.producer_id) == (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            -1,
        )
        assert asyncio.get_running_loop().time() - began < 5, "clients do not wait longer"
        for node in {1, 2, 3} - {left}:
            await cluster.start(node)
        await cluster.up(1, 2, 3)
        answer = await client.ask(
            ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(transactional_id=None)
        )
        assert answer.error_code == ErrorCode.NONE


async def test_a_producer_is_told_to_come_again_by_a_node_that_has_not_registered_yet() -> None:
    async with memory_cluster() as cluster:
        node = cluster.node(1)
        known = node.membership.broker_epoch
        node.membership._epoch = known - 1
        answer = await cluster.client(1).ask(
            ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(transactional_id=None)
        )
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_node_that_is_not_the_controller_refuses_the_controllers_work() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        other = next(one for one in cluster.engines.values() if one is not controller)
        with pytest.raises(NotController):
            await other.peer_handlers.answer(AllocateProducerIds(node_id=1, broker_epoch=0))
        with pytest.raises(NotController):
            await other.peer_handlers.answer(MakeTopics(commands=()))


async def test_a_node_of_another_cluster_cannot_join() -> None:
    async with memory_cluster() as cluster:
        cluster.cluster_ids[4] = "another"
        engine = cluster.engine(4)
        cluster.network.join(4, engine)
        await engine.start()
        with pytest.raises(WrongCluster):
            await engine.join()
        assert 4 not in cluster.image.brokers


async def test_a_leader_says_who_is_in_sync_and_the_cluster_hears_it() -> None:
    async with memory_cluster() as cluster:
        await make(cluster)
        controller = await cluster.controller()
        topic = controller.metadata.image.topics["t"]
        before = topic.partitions[0]
        (result,) = await controller.peer_handlers.answer(
            AlterInSync(
                node_id=before.leader,
                broker_epoch=controller.metadata.image.brokers[before.leader].broker_epoch,
                changes=(
                    InSyncChange(
                        topic_id=topic.topic_id,
                        partition=0,
                        leader_epoch=before.leader_epoch,
                        partition_epoch=before.partition_epoch,
                        isr=(before.leader,),
                    ),
                ),
            )
        )
        assert (result.error, result.isr) == (None, (before.leader,))
        assert result.partition_epoch == before.partition_epoch + 1


async def test_a_partition_moves_while_it_is_written() -> None:
    async with memory_cluster(4) as cluster:
        await make(cluster, replicas=2)
        before = first(cluster)
        target = [node for node in (1, 2, 3, 4) if node not in before.replicas]
        controller = await cluster.controller()
        (error,) = await controller.admin.reassign(
            [Reassignment(topic="t", partition=0, replicas=target)]
        )
        assert error is None
        await cluster.until(lambda: not first(cluster).is_reassigning)
        after = first(cluster)
        assert (after.replicas, after.leader) == (tuple(target), target[0])
        assert controller.admin.reassignments(None) == []


async def test_leaders_go_back_to_their_first_replica_by_themselves_and_on_demand() -> None:
    async with memory_cluster(leader_imbalance_check_interval_seconds="30") as cluster:
        await make(cluster, partitions=3)
        controller = (await cluster.controller()).info.node_id
        victim = next(node for node in (1, 2, 3) if node != controller)
        await cluster.stop(victim)
        await cluster.start(victim)
        await cluster.until(lambda: cluster.image.is_active(victim))

        def is_preferred(index: int) -> bool:
            one = cluster.image.topics["t"].partitions[index]
            return one.leader == one.replicas[0]

        await cluster.until(lambda: all(map(is_preferred, range(3))), within_s=40)


async def test_an_election_that_is_asked_for() -> None:
    async with memory_cluster(auto_leader_rebalance_enable="false") as cluster:
        await make(cluster)
        controller = await cluster.controller()
        preferred = first(cluster).replicas[0]
        if preferred == controller.info.node_id:
            await controller.admin.reassign(
                [Reassignment(topic="t", partition=0, replicas=first(cluster).replicas[::-1])]
            )
            await cluster.until(lambda: first(cluster).replicas[0] != preferred)
            await controller.admin.elect(Election.PREFERRED, [("t", 0)])
            preferred = first(cluster).replicas[0]
        await cluster.stop(preferred)
        assert first(cluster).leader != preferred
        await cluster.start(preferred)
        await cluster.until(lambda: preferred in first(cluster).isr)
        controller = await cluster.controller()
        (result,) = await controller.admin.elect(Election.PREFERRED, [("t", 0)])
        assert result.error is None
        assert first(cluster).leader == preferred


async def test_an_old_copy_leads_once_somebody_allows_it() -> None:
    async with memory_cluster(5, auto_leader_rebalance_enable="false") as cluster:
        await make(cluster, replicas=2)
        controller = await cluster.controller()
        own = controller.info.node_id
        old, last = [node for node in (1, 2, 3, 4, 5) if node != own][:2]
        await controller.admin.reassign(
            [Reassignment(topic="t", partition=0, replicas=[old, last])]
        )
        await cluster.until(
            lambda: not first(cluster).is_reassigning and set(first(cluster).isr) == {old, last}
        )
        await cluster.stop(old)
        assert first(cluster).isr == (last,)
        await cluster.kill(last)
        await cluster.until(lambda: first(cluster).leader == NO_LEADER, within_s=15)
        await cluster.start(old)
        await cluster.until(lambda: cluster.image.is_active(old))
        assert first(cluster).leader == NO_LEADER, "what only the last one has is waited for"
        allow = AlterConfigs(
            resource_type=RESOURCE_TOPIC,
            resource_name="t",
            operations=[("unclean.leader.election.enable", AlterOp.SET, "true")],
        )
        await (await cluster.controller()).settings_admin.alter_configs([allow])
        await cluster.until(lambda: first(cluster).leader == old, within_s=5)
        assert first(cluster).isr == (old,)


async def test_a_node_that_was_the_last_in_sync_and_lost_its_disk_does_not_empty_the_others() -> (
    None
):
    async with memory_cluster(5, auto_leader_rebalance_enable="false") as cluster:
        await make(cluster, replicas=2)
        controller = await cluster.controller()
        own = controller.info.node_id
        old, last = [node for node in (1, 2, 3, 4, 5) if node != own][:2]
        await controller.admin.reassign(
            [Reassignment(topic="t", partition=0, replicas=[last, old])]
        )
        await cluster.until(
            lambda: not first(cluster).is_reassigning and set(first(cluster).isr) == {old, last}
        )
        await cluster.until(
            lambda: cluster.node(first(cluster).leader).partitions.replica("t", 0).is_leader
        )
        batch = build_batch([(LoopClock.EPOCH_MS, None, b"acknowledged", ())])
        durable = cluster.node(first(cluster).leader).partitions.append("t", 0, batch).durable
        if durable is not None:
            await durable
        await cluster.stop(old)
        await cluster.kill(last)
        await cluster.until(lambda: first(cluster).leader == NO_LEADER, within_s=15)
        assert first(cluster).eligible_leaders == (last,)

        cluster.storages[last] = FaultyStorage()
        await cluster.start(last)
        await cluster.start(old)
        await cluster.until(lambda: cluster.image.is_active(last) and cluster.image.is_active(old))
        await asyncio.sleep(5)
        assert (first(cluster).leader, first(cluster).isr) == (NO_LEADER, ())
        controller = await cluster.controller()
        await controller.admin.reassign(
            [Reassignment(topic="t", partition=0, replicas=[old, last])]
        )
        (result,) = await controller.admin.elect(Election.UNCLEAN, [("t", 0)])
        assert result.error is None
        assert first(cluster).leader == old
        await cluster.until(lambda: set(first(cluster).isr) == {old, last})
        assert cluster.node(last).partitions.replica("t", 0).log.end_offset == 1


async def test_a_voter_whose_disk_was_wiped_does_not_elect_one_that_lacks_what_was_agreed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with memory_cluster(auto_leader_rebalance_enable="false") as cluster:
        controller = await cluster.controller()
        leader = controller.info.node_id
        behind, wiped = [node for node in (1, 2, 3) if node != leader]
        cluster.network.isolate(behind)
        command = CreateTopic(name="agreed", partitions=1, replication_factor=1)
        (result,) = await controller.topic_admin.create_topics([command])
        assert result.error is None
        await cluster.kill(wiped)
        await cluster.kill(leader)
        cluster.storages[wiped] = FaultyStorage()
        cluster.network.cut.clear()
        await cluster.start(wiped)
        await asyncio.sleep(30)
        assert not any(engine.metadata.is_controller for engine in cluster.engines.values())
        assert (
            caplog.text.count("asks for a vote and gets none: the disk of this node is empty") == 1
        )

        await cluster.start(leader)
        await cluster.up(1, 2, 3)
        assert all("agreed" in engine.metadata.image.topics for engine in cluster.engines.values())
        assert not cluster.node(wiped).metadata.quorum.replica.state.is_blank


async def test_a_replica_whose_disk_was_replaced_follows_a_log_that_starts_in_the_middle_of_a_batch() -> (
    None
):
    async with memory_cluster(auto_leader_rebalance_enable="false") as cluster:
        await make(cluster)
        leader = first(cluster).leader
        wiped = next(node for node in (1, 2, 3) if node != leader)
        await cluster.until(lambda: cluster.node(leader).partitions.replica("t", 0).is_leader)
        for values in ((b"0", b"1", b"2", b"3"), (b"4",)):
            batch = build_batch([(LoopClock.EPOCH_MS, None, value, ()) for value in values])
            durable = cluster.node(leader).partitions.append("t", 0, batch).durable
            assert durable is not None
            await durable
        await cluster.kill(wiped)
        await cluster.until(lambda: wiped not in first(cluster).isr)
        assert cluster.node(leader).partitions.delete_records("t", 0, 2) == 2

        cluster.storages[wiped] = FaultyStorage()
        await cluster.start(wiped)
        await cluster.until(lambda: set(first(cluster).isr) == {1, 2, 3})

        log, of_leader = (
            cluster.node(node).partitions.replica("t", 0).log for node in (wiped, leader)
        )
        assert (log.start_offset, log.end_offset) == (2, 5)
        everything = {
            bytes(one.read(2, 1 << 20, upto=one.end_offset).data) for one in (log, of_leader)
        }
        assert len(everything) == 1
