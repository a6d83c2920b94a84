"""What clients are told of partitions with several replicas: where to write, where to read, what is safe."""

import asyncio
from typing import Any

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster.memory_broker import batch, fetch, fetched, produce, produced, values_of
from tests.support.cluster.replica_nodes import ReplicaNodes, replica_nodes

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def described(nodes: ReplicaNodes, node: int) -> Any:
    """The partition t-0 as a node describes it, and the brokers."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    answer = await nodes.client(node).ask(ApiKey.METADATA, 9, request)
    return answer.topics[0].partitions[0], [broker.host for broker in answer.brokers]


def latest() -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wanted])])


def found(answer: Any) -> Any:
    return answer.topics[0].partitions[0]


async def test_every_node_tells_who_leads_and_who_is_in_sync() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.change(isr=(1, 2))
        for node in (1, 2, 3):
            one, brokers = await described(nodes, node)
            assert (one.error_code, one.leader_id, one.leader_epoch) == (0, 1, 0)
            assert (one.replica_nodes, one.isr_nodes) == ([1, 2, 3], [1, 2])
            assert one.offline_replicas == []
            assert sorted(brokers) == ["node1.test", "node2.test", "node3.test"]


async def test_without_a_leader_clients_are_told_to_ask_again() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.change(leader=-1)
        one, _brokers = await described(nodes, 2)
        assert (one.error_code, one.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_a_write_to_a_follower_is_refused_with_the_leaders_address() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        client = nodes.client(2)
        answer = await client.ask(ApiKey.PRODUCE, 10, produce(batch(b"v")))
        one = produced(answer)
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert "node 1 leads" in one.error_message
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (1, 0)
        assert [node.host for node in answer.node_endpoints] == ["node1.test"]
        assert nodes.values(2) == []


async def test_a_write_for_all_that_takes_too_long_is_kept_and_the_client_hears_that_it_is_late() -> (
    None
):
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"first")
        nodes.cut.add(frozenset({1, 3}))
        client = nodes.client(1)
        answer = await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"v"), timeout_ms=300))
        assert produced(answer).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert nodes.values(1) == [b"first", b"v"]
        # Nobody reads what is not committed.
        read = await client.ask(ApiKey.FETCH, 11, fetch(wait_ms=0))
        assert values_of(fetched(read).records) == [b"first"]
        nodes.cut.clear()


async def test_a_leader_that_is_deposed_tells_those_who_wait_where_to_go() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"first")
        nodes.cut |= {frozenset({1, 3}), frozenset({1, 2})}
        client = nodes.client(1)
        client.send(ApiKey.PRODUCE, 10, produce(batch(b"v"), timeout_ms=60_000))
        await asyncio.sleep(0.1)
        await nodes.change(leader=2)
        answer = client.answer()
        one = produced(answer)
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert one.current_leader.leader_id == 2
        assert [node.host for node in answer.node_endpoints] == ["node2.test"]


async def test_followers_serve_readers_who_can_say_where_they_are() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"v")
        client = nodes.client(3)
        read = fetched(await client.ask(ApiKey.FETCH, 11, fetch(wait_ms=500)))
        assert values_of(read.records) == [b"v"]
        old = fetched(await client.ask(ApiKey.FETCH, 10, fetch(wait_ms=500)))
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_reader_waits_at_a_follower_until_what_comes_is_committed() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        client = nodes.client(3)
        client.send(ApiKey.FETCH, 11, fetch(wait_ms=30_000))
        await asyncio.sleep(0.1)
        await nodes.write(1, b"v")
        await asyncio.sleep(0.1)
        assert values_of(fetched(client.answer()).records) == [b"v"]


async def test_a_reader_is_sent_to_the_in_sync_replica_in_its_rack() -> None:
    async with replica_nodes(replica_selector_class=SELECTOR) as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"v")
        client = nodes.client(1)

        async def near(rack: str) -> tuple[int, list[Any]]:
            one = fetched(await client.ask(ApiKey.FETCH, 11, fetch(rack_id=rack)))
            return one.preferred_read_replica, values_of(one.records)

        assert await near("rack-3") == (3, [])
        assert await near("rack-1") == (-1, [b"v"])
        assert await near("") == (-1, [b"v"])
        assert await near("nowhere") == (-1, [b"v"])
        await nodes.change(isr=(1, 2))
        nodes.cut.add(frozenset({1, 3}))
        assert await near("rack-3") == (-1, [b"v"])


async def test_a_new_leader_names_no_end_before_it_knows_what_is_committed() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"v")
        nodes.cut |= {frozenset({1, 2}), frozenset({2, 3})}
        nodes.replica(2).high_watermark = 0  # it had not heard of it when its leader was lost
        await nodes.change(leader=2)
        client = nodes.client(2)
        one = found(await client.ask(ApiKey.LIST_OFFSETS, 5, latest()))
        assert one.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        one = found(await client.ask(ApiKey.LIST_OFFSETS, 4, latest()))
        assert one.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        nodes.cut.clear()
        async with asyncio.timeout(60):
            while nodes.replica(2).high_watermark < 1:
                await asyncio.sleep(0.1)
        one = found(await client.ask(ApiKey.LIST_OFFSETS, 5, latest()))
        assert (one.error_code, one.offset) == (0, 1)
        one = found(await nodes.client(1).ask(ApiKey.LIST_OFFSETS, 5, latest()))
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
