"""A cluster that grows and shrinks while it runs: a node joins without a vote, takes over replicas, is given
a vote, and one of the first is let go. What was written stays, and the new ones carry it alone."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from millpond.base.ids import NodeId
from millpond.engine.api import CreateTopic, PartitionImage, Reassignment
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from millpond.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.support.cluster.memory_broker import batch, values_of
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage

# How a newcomer is told of the quorum: by the list of those who voted at first, or by addresses only.
WAYS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "controller.quorum.voters": (),
            "controller.quorum.bootstrap.servers": ("node1:9092", "node2:9092", "node3:9092"),
            "process.roles": ("broker",),
        },
    ],
    ids=["voters", "bootstrap"],
)


def state(cluster: MemoryCluster) -> PartitionImage:
    return cluster.image.topics["t"].partitions[0]


async def write(cluster: MemoryCluster, *values: bytes) -> None:
    """Acknowledged by all in-sync replicas, whoever leads."""
    for value in values:
        await cluster.until(lambda: state(cluster).leader in cluster.engines)
        leader = cluster.node(state(cluster).leader)
        await cluster.until(lambda leader=leader: leader.partitions.replica("t", 0).is_leader)  # type: ignore[misc]
        durable = leader.partitions.append("t", 0, bytearray(batch(value))).durable
        if durable is not None:
            await durable


def values(cluster: MemoryCluster, node: NodeId) -> list[bytes]:
    partition = cluster.node(node).partitions.replica("t", 0)
    data = partition.log.read(0, 1 << 20, upto=partition.log.end_offset, at_least_one=True).data
    return [bytes(value or b"") for value in values_of(data)]


async def make(cluster: MemoryCluster, name: str, replicas: int) -> None:
    controller = await cluster.controller()
    command = CreateTopic(name=name, partitions=1, replication_factor=replicas)
    (result,) = await controller.topic_admin.create_topics([command])
    assert result.error is None
    await cluster.until(
        lambda: all(name in engine.metadata.image.topics for engine in cluster.engines.values())
    )


async def ask_quorum(cluster: MemoryCluster, key: ApiKey, version: int, message: Any) -> None:
    controller = await cluster.controller()
    answer = await cluster.client(controller.info.node_id).ask(key, version, message)
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def directory(cluster: MemoryCluster, node: NodeId) -> UUID:
    found = cluster.node(node).metadata.quorum.key.directory
    assert found is not None
    return found


async def give_vote(cluster: MemoryCluster, node: NodeId) -> None:
    await ask_quorum(
        cluster,
        ApiKey.ADD_RAFT_VOTER,
        1,
        AddRaftVoterRequest(
            cluster_id="cluster",
            timeout_ms=10_000,
            voter_id=node,
            voter_directory_id=directory(cluster, node),
            listeners=[Listener(name="PLAINTEXT", host=f"node{node}", port=9092)],
            ack_when_committed=True,
        ),
    )


async def take_vote(cluster: MemoryCluster, node: NodeId) -> None:
    await ask_quorum(
        cluster,
        ApiKey.REMOVE_RAFT_VOTER,
        0,
        RemoveRaftVoterRequest(
            cluster_id="cluster",
            voter_id=node,
            voter_directory_id=directory(cluster, node),
        ),
    )


def voters(cluster: MemoryCluster, node: NodeId) -> set[NodeId]:
    return set(cluster.node(node).metadata.quorum.voters.ids)


async def join(cluster: MemoryCluster, node: NodeId, settings: dict[str, Any]) -> None:
    cluster.own_settings[node] = settings
    await cluster.start(node)
    await cluster.up(node)


@WAYS
async def test_a_node_joins_takes_replicas_and_a_vote_and_another_leaves(
    settings: dict[str, Any],
) -> None:
    async with memory_cluster() as cluster:
        await make(cluster, "t", 3)
        await write(cluster, b"a", b"b")
        await join(cluster, 4, settings)
        assert 4 not in voters(cluster, 4)
        assert not cluster.node(4).metadata.quorum.replica.is_voter

        # A newcomer gets replicas of topics that are made, and of those that are moved to it.
        await make(cluster, "wide", 4)
        assert 4 in cluster.image.topics["wide"].partitions[0].replicas
        controller = await cluster.controller()
        leaving = next(one for one in (1, 2, 3) if one != controller.info.node_id)
        staying = [one for one in (1, 2, 3) if one != leaving]
        move = Reassignment(topic="t", partition=0, replicas=[4, *staying])
        (error,) = await controller.admin.reassign([move])
        assert error is None
        await write(cluster, b"c")
        await cluster.until(lambda: not state(cluster).is_reassigning)
        await cluster.until(lambda: set(state(cluster).isr) == {4, *staying})
        assert values(cluster, 4) == [b"a", b"b", b"c"]

        await give_vote(cluster, 4)
        await take_vote(cluster, leaving)
        everybody = {4, *staying}
        await cluster.until(lambda: all(voters(cluster, one) == everybody for one in everybody))
        assert cluster.node(4).metadata.quorum.replica.is_voter

        # Two of the first three voters are gone; the first voter set would have no majority.
        await cluster.stop(leaving)
        await cluster.kill(staying[0])
        await cluster.until(lambda: state(cluster).leader in {4, staying[1]})
        await make(cluster, "after", 1)
        await write(cluster, b"d")
        assert values(cluster, 4) == [b"a", b"b", b"c", b"d"]


async def test_a_controller_that_loses_its_vote_hands_over_and_stays_a_broker() -> None:
    async with memory_cluster() as cluster:
        await make(cluster, "t", 3)
        await write(cluster, b"a")
        await join(cluster, 4, {})
        await give_vote(cluster, 4)
        first = (await cluster.controller()).info.node_id
        await take_vote(cluster, first)
        await cluster.until(lambda: not cluster.node(first).metadata.is_controller)
        second = await cluster.controller()
        assert second.info.node_id != first
        everybody = {1, 2, 3, 4} - {first}
        await cluster.until(lambda: all(voters(cluster, one) == everybody for one in range(1, 5)))
        # It follows the metadata on, is not fenced, and its replicas count.
        await make(cluster, "after", 4)
        await asyncio.sleep(20)
        assert cluster.image.is_active(first)
        assert first in state(cluster).isr
        await write(cluster, b"b")
        await cluster.until(lambda: values(cluster, first) == [b"a", b"b"])


async def test_a_newcomer_that_restarts_finds_its_vote_and_its_replicas_again() -> None:
    async with memory_cluster() as cluster:
        await join(cluster, 4, {})
        await make(cluster, "t", 4)
        await write(cluster, b"a")
        await give_vote(cluster, 4)
        await cluster.kill(4)
        await write(cluster, b"b")
        await join(cluster, 4, {})
        assert cluster.node(4).metadata.quorum.replica.is_voter
        await cluster.until(lambda: 4 in state(cluster).isr)
        assert values(cluster, 4) == [b"a", b"b"]


async def test_a_node_that_was_started_alone_gets_company_and_may_die_in_the_end() -> None:
    async with memory_cluster(1, alone=True) as cluster:
        assert cluster.node(1).metadata.is_alone
        await make(cluster, "t", 1)
        await write(cluster, b"a")
        for node in (2, 3):
            await join(cluster, node, {"controller.quorum.voters": ("1@node1:9092",)})
        for node in (2, 3):
            await give_vote(cluster, node)
        await cluster.until(lambda: all(voters(cluster, one) == {1, 2, 3} for one in (1, 2, 3)))
        assert [one.endpoints[0].host for one in cluster.node(2).metadata.quorum.voters] == [
            "node1.test", "node2", "node3",
        ]  # fmt: skip
        move = Reassignment(topic="t", partition=0, replicas=[1, 2, 3])
        (error,) = await (await cluster.controller()).admin.reassign([move])
        assert error is None
        await cluster.until(lambda: set(state(cluster).isr) == {1, 2, 3})
        await write(cluster, b"b")

        # The first one restarts as it was started, alone by its settings, and finds the others.
        await cluster.stop(1)
        await cluster.until(lambda: state(cluster).leader in {2, 3})
        await write(cluster, b"c")
        await cluster.start(1)
        await cluster.up(1)
        await cluster.until(lambda: 1 in state(cluster).isr)
        assert not cluster.node(1).metadata.is_alone
        assert values(cluster, 1) == [b"a", b"b", b"c"]

        await cluster.kill(1)
        await cluster.until(lambda: state(cluster).leader in {2, 3})
        await make(cluster, "after", 2)
        await write(cluster, b"d")


async def test_a_node_with_company_is_fenced_when_it_falls_silent_though_it_was_first() -> None:
    async with memory_cluster(1, alone=True) as cluster:
        for node in (2, 3):
            await join(cluster, node, {"controller.quorum.voters": ("1@node1:9092",)})
            await give_vote(cluster, node)
        await cluster.until(lambda: cluster.node(1).membership.broker_epoch >= 0)
        epoch = cluster.image.brokers[1].broker_epoch
        cluster.network.isolate(1)
        await cluster.until(lambda: not cluster.node(2).metadata.image.is_active(1), within_s=30)
        assert cluster.node(1).membership.is_cut_off
        cluster.network.cut.clear()
        await cluster.up(1, 2, 3)
        assert cluster.image.brokers[1].broker_epoch == epoch


async def test_no_vote_is_taken_while_a_disk_that_will_have_to_vote_is_being_replaced() -> None:
    """The voters that stay would be written down with the disk that is gone, and never agree again."""

    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        replaced, leaving = (one for one in (1, 2, 3) if one != controller.info.node_id)
        await cluster.kill(replaced)
        cluster.storages[replaced] = FaultyStorage()
        answer = await cluster.client(controller.info.node_id).ask(
            ApiKey.REMOVE_RAFT_VOTER,
            0,
            RemoveRaftVoterRequest(
                cluster_id="cluster",
                voter_id=leaving,
                voter_directory_id=directory(cluster, leaving),
            ),
        )
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert f"[{replaced}] of them do not follow the quorum's log now" in answer.error_message

        await cluster.start(replaced)
        await cluster.up(replaced)
        await take_vote(cluster, leaving)
        await cluster.kill(leaving)
        await make(cluster, "t", 2)
        assert voters(cluster, replaced) == {controller.info.node_id, replaced}


async def with_replaced_disk(cluster: MemoryCluster) -> tuple[NodeId, NodeId, UUID]:
    """Name the voters' directories in the log, then replace the disk of one: (it, another follower, its old
    directory)."""
    controller = await cluster.controller()
    replaced, other = (one for one in (1, 2, 3) if one != controller.info.node_id)
    await take_vote(cluster, replaced)
    await give_vote(cluster, replaced)
    old = directory(cluster, replaced)
    await cluster.kill(replaced)
    cluster.storages[replaced] = FaultyStorage()
    await cluster.start(replaced)
    await cluster.up(replaced)
    new = directory(cluster, replaced)
    assert new != old
    await cluster.until(lambda: new in cluster.image.brokers[replaced].log_dirs)
    return replaced, other, old


async def ask_for_vote(
    cluster: MemoryCluster, node: NodeId, voter: UUID, *, key: ApiKey = ApiKey.ADD_RAFT_VOTER
) -> tuple[int, str]:
    """Add or remove this directory of a node as a voter; (error code, error message)."""
    controller = await cluster.controller()
    message: Any = (
        AddRaftVoterRequest(
            cluster_id="cluster",
            timeout_ms=10_000,
            voter_id=node,
            voter_directory_id=voter,
            listeners=[Listener(name="PLAINTEXT", host=f"node{node}", port=9092)],
            ack_when_committed=True,
        )
        if key is ApiKey.ADD_RAFT_VOTER
        else RemoveRaftVoterRequest(cluster_id="cluster", voter_id=node, voter_directory_id=voter)
    )
    version = 1 if key is ApiKey.ADD_RAFT_VOTER else 0
    answer = await cluster.client(controller.info.node_id).ask(key, version, message)
    return answer.error_code, answer.error_message or ""


async def test_a_disk_that_is_gone_gets_no_vote_and_the_one_that_replaced_it_does() -> None:
    """It was a voter a moment ago, and at the end of the log: neither says that it is still there."""

    async with memory_cluster() as cluster:
        replaced, other, old = await with_replaced_disk(cluster)
        removed = await ask_for_vote(cluster, replaced, old, key=ApiKey.REMOVE_RAFT_VOTER)
        assert removed == (ErrorCode.NONE, "")
        code, message = await ask_for_vote(cluster, replaced, old)
        assert code == ErrorCode.REQUEST_TIMED_OUT
        assert "does not follow the quorum's log now" in message
        assert replaced not in (await cluster.controller()).metadata.quorum.voters.ids

        await give_vote(cluster, replaced)
        await cluster.kill(other)
        await make(cluster, "t", 2)
        assert voters(cluster, replaced) == {1, 2, 3}


async def test_a_live_node_that_registers_again_is_in_sync_again_though_nothing_is_written() -> (
    None
):
    """Its leaders know its old broker epoch, and no position in its fetch session changes."""

    async with memory_cluster() as cluster:
        await make(cluster, "t", 3)
        await write(cluster, b"a")
        controller = await cluster.controller()
        forgotten = next(
            one for one in (1, 2, 3) if one not in {controller.info.node_id, state(cluster).leader}
        )
        epoch = cluster.image.brokers[forgotten].broker_epoch
        await cluster.until(lambda: set(state(cluster).isr) == {1, 2, 3})
        await controller.admin.unregister(forgotten)
        await cluster.until(
            lambda: (
                (broker := cluster.image.brokers.get(forgotten)) is not None
                and broker.broker_epoch > epoch
            )
        )
        await cluster.until(lambda: set(state(cluster).isr) == {1, 2, 3})
