"""Peers that are wrong: of another cluster or another time, with another's name, damaged or invented data.

Each is refused with a reason, on its side and on ours, and nothing that was acknowledged is lost or invented.
"""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from millpond.base.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    MillpondError,
    NotLeader,
    UnknownLeaderEpoch,
)
from millpond.base.ids import NodeId
from millpond.engine.api import CreateTopic, Partition
from millpond.engine.node.node import Node
from millpond.engine.peers import ReplicaFetch, ReplicaRead
from millpond.log.log_dir import WrongDirectory
from millpond.metadata.records import RESOURCE_GROUP, ConfigRecord
from millpond.raft.messages import (
    Answer,
    BeginEpoch,
    Fetch,
    FetchAnswer,
    Refusal,
    ReplicaKey,
    Request,
    SnapshotAnswer,
    Vote,
    VoteAnswer,
)
from millpond.replication.fetch_session import ReplicaPosition
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.vote import PartitionData, TopicData, VoteRequest
from tests.support.cluster.memory_broker import batch
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.cluster.memory_peers import MemoryPeers
from tests.support.time.virtual_loop import run


async def make(cluster: MemoryCluster) -> Partition:
    """Topic t on all nodes; the partition at its leader."""
    controller = await cluster.controller()
    (result,) = await controller.topic_admin.create_topics(
        [CreateTopic(name="t", replication_factor=3)]
    )
    assert result.error is None
    await cluster.until(
        lambda: all("t" in engine.metadata.image.topics for engine in cluster.engines.values())
    )
    node = cluster.image.topics["t"].partitions[0].leader
    await cluster.until(lambda: cluster.node(node).partitions.replica("t", 0).is_leader)
    return cluster.node(node).partitions.replica("t", 0)


def leader_of(cluster: MemoryCluster) -> Node:
    return cluster.node(cluster.image.topics["t"].partitions[0].leader)


def others(cluster: MemoryCluster, node: NodeId) -> list[NodeId]:
    return [one for one in cluster.engines if one != node]


# --- partitions -----------------------------------------------------------------------------------


def has_fetched(partition: Partition, node: NodeId) -> bool:
    """Whether the leader has been asked by this follower."""
    assert partition.leadership is not None
    return partition.leadership.followers[node].broker_epoch > 0


async def claim(cluster: MemoryCluster, node: NodeId, **claimed: Any) -> ReplicaRead:
    """What the leader answers a follower that says this of itself."""
    leader = leader_of(cluster)
    partition = leader.partitions.replica("t", 0)
    position = ReplicaPosition(
        topic_id=partition.topic_id,
        partition=0,
        leader_epoch=claimed.pop("leader_epoch", partition.leader_epoch),
        fetch_offset=claimed.pop("offset"),
        last_epoch=claimed.pop("last_epoch", partition.leader_epoch),
        log_start=0,
        bytes_max=1 << 20,
    )
    broker = cluster.image.brokers.get(node)
    answer = await leader.peer_handlers.answer(
        ReplicaFetch(
            node_id=node,
            broker_epoch=claimed.pop(
                "broker_epoch", broker.broker_epoch if broker is not None else -1
            ),
            wait_ms=0,
            bytes_min=1,
            bytes_max=1 << 20,
            positions=(position,),
        )
    )
    (read,) = answer.reads
    return read


async def test_followers_that_claim_what_they_never_had_commit_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with memory_cluster() as cluster:
        partition = await make(cluster)
        leader = leader_of(cluster)
        durable = leader.partitions.append("t", 0, bytearray(batch(b"a"))).durable
        assert durable is not None
        await durable
        # From now on the true followers are not heard, so what they claim is all that there is.
        for other in others(cluster, leader.info.node_id):
            cluster.network.cut |= {(other, leader.info.node_id)}
        await asyncio.sleep(0.01)
        waiting = leader.partitions.append("t", 0, bytearray(batch(b"b"))).durable
        assert waiting is not None
        end = partition.log.end_offset
        for other in others(cluster, leader.info.node_id):
            # Beyond the end, in the leader's own epoch, which no one but the leader writes.
            read = await claim(cluster, other, offset=end + 5)
            assert read.diverging == (partition.leader_epoch, end)
            assert not read.records
            # All of it, without being able to say of which epoch it is.
            read = await claim(cluster, other, offset=end, last_epoch=-1)
            assert isinstance(read.error, InvalidRequest)
            assert "names no epoch" in str(read.error)
            # All of it, in an epoch that never was.
            read = await claim(cluster, other, offset=end, last_epoch=partition.leader_epoch + 7)
            assert read.diverging is not None
            assert read.diverging[1] <= end
        assert (partition.high_watermark, waiting.done()) == (1, False)
        assert f"claims everything below {end + 5}" in caplog.text
        # The true ones come back and the record is what it was.
        cluster.network.cut.clear()
        await waiting
        assert partition.high_watermark == end


async def test_fetches_of_another_time_or_of_nobodys_are_refused() -> None:
    async with memory_cluster() as cluster:
        await make(cluster)
        first = leader_of(cluster).info.node_id
        await cluster.kill(first)
        await cluster.until(
            lambda: cluster.image.topics["t"].partitions[0].leader in cluster.engines
        )
        leader = leader_of(cluster)
        partition = leader.partitions.replica("t", 0)
        await cluster.until(lambda: partition.is_leader)
        other = others(cluster, leader.info.node_id)[0]
        epoch = partition.leader_epoch
        assert epoch > 0
        refusals: list[tuple[type[MillpondError], dict[str, Any]]] = [
            (FencedLeaderEpoch, {"leader_epoch": epoch - 1}),
            (UnknownLeaderEpoch, {"leader_epoch": epoch + 1}),
            # An earlier life of the follower.
            (NotLeader, {"broker_epoch": 0}),
        ]
        for kind, claimed in refusals:
            # Its present incarnation has fetched here, so that an earlier one is known to be one.
            await cluster.until(
                lambda: set(partition.isr) == set(cluster.engines) and has_fetched(partition, other)
            )
            read = await claim(cluster, other, offset=0, last_epoch=-1, **claimed)
            assert isinstance(read.error, kind), (claimed, read)
        read = await claim(cluster, 9, offset=0, last_epoch=-1)
        assert isinstance(read.error, NotLeader)
        assert "has no replica" in str(read.error)


# --- the quorum -----------------------------------------------------------------------------------


def fact(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=RESOURCE_GROUP, resource_name="g", name=value, value="1")


async def test_voters_that_claim_what_they_never_had_agree_to_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with memory_cluster() as cluster:
        leader = await cluster.controller()
        host = leader.metadata.quorum
        voters = others(cluster, leader.info.node_id)
        keys = [cluster.node(other).metadata.quorum.key for other in voters]
        cluster.network.isolate(leader.info.node_id)
        await asyncio.sleep(0.01)
        proposed = asyncio.ensure_future(host.propose([fact("x")]))
        await asyncio.sleep(0.01)
        agreed, end = host.high_watermark, host.end_offset
        assert agreed < end
        for key in keys:
            lie = Fetch(
                epoch=host.leader_epoch,
                replica=key,
                offset=end + 5,
                last_epoch=host.leader_epoch,
            )
            answer = await host.answer(lie, wait_ms=0)
            assert isinstance(answer, FetchAnswer)
            assert answer.diverging == (host.leader_epoch, end)
            # Nor is one believed that says so of an epoch that never was.
            answer = await host.answer(
                replace(lie, offset=end, last_epoch=host.leader_epoch + 3), wait_ms=0
            )
            assert isinstance(answer, FetchAnswer)
            assert answer.diverging is not None
        assert (host.high_watermark, proposed.done()) == (agreed, False)
        assert f"claims everything below {end + 5}" in caplog.text
        cluster.network.cut.clear()
        await asyncio.wait([proposed], timeout=30)
        assert proposed.done()
        assert isinstance(proposed.exception(), MillpondError | None)


async def test_words_of_other_epochs_change_nothing() -> None:
    async with memory_cluster() as cluster:
        leader = await cluster.controller()
        host = leader.metadata.quorum
        other = others(cluster, leader.info.node_id)[0]
        key = cluster.node(other).metadata.quorum.key
        epoch = host.leader_epoch
        questions: list[tuple[Request, Refusal]] = [
            (Fetch(epoch=epoch - 1, replica=key, offset=0, last_epoch=0), Refusal.FENCED_EPOCH),
            (
                Fetch(epoch=epoch + 9, replica=key, offset=0, last_epoch=0),
                Refusal.UNKNOWN_EPOCH,
            ),
            (BeginEpoch(epoch=epoch - 1, leader=other), Refusal.FENCED_EPOCH),
        ]
        for question, refusal in questions:
            answer = await host.answer(question, wait_ms=0)
            assert (answer.refusal, answer.epoch) == (refusal, epoch), question
        # No voter votes for a candidate whose log is shorter than the committed records.
        for node in cluster.engines:
            poor = Vote(epoch=epoch, candidate=key, last_epoch=0, end_offset=1, pre_vote=True)
            vote = await cluster.node(node).metadata.quorum.answer(poor, wait_ms=0)
            assert isinstance(vote, VoteAnswer)
            assert not vote.granted
        assert host.is_active
        assert host.leader_epoch == epoch
        await host.propose([fact("still")])


async def test_requests_of_another_cluster_are_refused_as_a_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with memory_cluster() as cluster:
        leader = await cluster.controller()
        host = leader.metadata.quorum
        part = PartitionData(
            replica_epoch=host.leader_epoch + 5,
            replica_id=2,
            last_offset_epoch=host.leader_epoch,
            last_offset=10**6,
        )
        request = VoteRequest(
            cluster_id="another",
            voter_id=leader.info.node_id,
            topics=[TopicData(topic_name="__cluster_metadata", partitions=[part])],
        )
        client = cluster.client(leader.info.node_id).prove()
        answer = await client.ask(ApiKey.VOTE, 2, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert "belongs to cluster another and asks as if to this one, cluster" in caplog.text
        assert host.is_active

        # One of this cluster that is meant for a disk that was replaced is told so.
        request.cluster_id = "cluster"
        part.voter_directory_id = UUID(int=12345)
        answer = await client.ask(ApiKey.VOTE, 2, request)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
        assert host.is_active


# --- names ----------------------------------------------------------------------------------------


async def test_a_second_node_of_the_same_number_stays_outside_while_the_first_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with memory_cluster() as cluster:
        await cluster.start(4)
        await cluster.up(4)
        first = cluster.node(4)
        known = cluster.image.brokers[4]
        storage = cluster.storages.pop(4)
        second = cluster.engine(4)
        await second.start()
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await second.join()
        finally:
            second.metadata.quorum.halt()
            await second.runtime.tasks.stop()
            await second.flusher.stop()
        assert cluster.image.brokers[4] == known
        assert not first.metadata.image.brokers[4].fenced
        assert not second.runtime.running
        # Said once on each side.
        told = [one for one in caplog.messages if "Another broker is registered" in one]
        assert [one.partition(":")[0] for one in told] == ["node 4 is not let in", "node 4"]
        cluster.storages[4] = storage


async def test_a_directory_of_another_number_is_refused_and_stays_as_it_is() -> None:
    async with memory_cluster() as cluster:
        await cluster.stop(3)
        before = cluster.storages[3].read_all("data/meta.properties")
        cluster.storages[5] = cluster.storages[3]
        with pytest.raises(WrongDirectory, match="belongs to node 3, not to node 5"):
            await cluster.engine(5).start()
        assert cluster.storages[3].read_all("data/meta.properties") == before
        del cluster.storages[5]
        await cluster.start(3)
        await cluster.up(3)


# --- snapshots ------------------------------------------------------------------------------------


def test_a_snapshot_that_is_damaged_on_its_way_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = 0

    async def story() -> None:
        async with memory_cluster() as cluster:
            leader = await cluster.controller()
            away = others(cluster, leader.info.node_id)[0]
            await cluster.stop(away)
            for value in range(30):
                await leader.metadata.quorum.propose([fact(str(value))])
                if value % 10 == 9:
                    for engine in cluster.engines.values():
                        await engine.metadata.quorum.take_snapshot()
            ask = MemoryPeers.ask_quorum

            async def through_noise(
                peers: MemoryPeers, to: NodeId, request: Request, **limits_ms: Any
            ) -> Answer:
                nonlocal damaged
                answer = await ask(peers, to, request, **limits_ms)
                if isinstance(answer, SnapshotAnswer) and answer.data and damaged < 3:
                    damaged += 1
                    data = bytearray(answer.data)
                    data[len(data) // 2] ^= 4
                    return replace(answer, data=bytes(data))
                return answer

            monkeypatch.setattr(MemoryPeers, "ask_quorum", through_noise)
            # Whoever is asked has cut its log; a node without anything has to load the snapshot.
            cluster.storages.pop(away)
            engine = await cluster.start(away)
            names = {str(value) for value in range(30)}
            await cluster.until(
                lambda: names <= set(engine.metadata.quorum.image.config_of(RESOURCE_GROUP, "g"))
            )
            assert engine.metadata.quorum.log.start_offset > 0

    run(story())
    assert damaged == 3
    assert "is damaged" in caplog.text


async def test_nobody_counts_who_has_a_voters_number_and_another_disk() -> None:
    async with memory_cluster() as cluster:
        leader = await cluster.controller()
        host = leader.metadata.quorum
        other = others(cluster, leader.info.node_id)[0]
        # Changing voters writes down which disk each of them has.
        gone = others(cluster, leader.info.node_id)[1]
        await host.remove_voter(cluster.node(gone).metadata.quorum.key)
        await cluster.until(lambda: host.voters.ids == {leader.info.node_id, other})
        cluster.network.isolate(leader.info.node_id)
        await asyncio.sleep(0.01)
        proposed = asyncio.ensure_future(host.propose([fact("x")]))
        await asyncio.sleep(0.01)
        agreed = host.high_watermark
        stranger = Fetch(
            epoch=host.leader_epoch,
            replica=ReplicaKey(other, UUID(int=999)),
            offset=host.end_offset,
            last_epoch=host.leader_epoch,
        )
        await host.answer(stranger, wait_ms=0)
        assert (host.high_watermark, proposed.done()) == (agreed, False)
        cluster.network.cut.clear()
        await asyncio.wait([proposed], timeout=30)
