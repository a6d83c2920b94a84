"""A client may ask any node: what only the controller can do reaches it, and its answer comes back."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millpond.base.errors import InvalidRequest, NotController, UnsupportedVersion
from millpond.engine.api import MILLPOND_VERSION
from millpond.engine.node.node import Node
from millpond.frontend.kafka import forwarding
from millpond.frontend.kafka.forwarding import FORWARDED
from millpond.frontend.kafka.handlers import HANDLERS
from millpond.metadata.levels import NEWEST
from millpond.metadata.records import FeatureLevelRecord
from millpond.peer.forwarded_request import ForwardedRequest
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.envelope import (
    unwrap_request,
    unwrap_response,
    wrap_request,
    wrap_response,
)
from millpond.wire.kafka.messages import (
    alter_partition_reassignments,
    api_versions,
    delete_topics,
    describe_cluster,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    unregister_broker,
)
from millpond.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.cluster.memory_broker import MemoryBroker, MemoryClient
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster


def client_of(cluster: MemoryCluster, engine: Node) -> MemoryClient:
    frontend = cluster.frontends[engine.info.node_id]
    return MemoryClient(cast("MemoryBroker", SimpleNamespace(frontend=frontend)))


async def elsewhere(cluster: MemoryCluster) -> tuple[Node, MemoryClient]:
    """A node that is not the controller, and a client of it."""
    controller = await cluster.controller()
    other = next(one for one in cluster.engines.values() if one is not controller)
    return other, client_of(cluster, other)


def create(*names: str, replicas: int = 3) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name, 2, replicas, configs=[]) for name in names]
    )


def creation(name: str) -> Request:
    """The bytes of a client that creates a topic."""
    body = APIS[ApiKey.CREATE_TOPICS].encode_request(create(name), 7)
    return Request(ApiKey.CREATE_TOPICS, 7, 7, "c", memoryview(body), len(body))


async def test_a_topic_made_at_any_node_is_there_at_once() -> None:
    async with memory_cluster() as cluster:
        other, client = await elsewhere(cluster)
        answer = await client.ask(ApiKey.CREATE_TOPICS, 7, create("t"))
        assert [one.error_code for one in answer.topics] == [0]
        assert "t" in other.metadata.image.topics
        answer = await client.ask(ApiKey.CREATE_TOPICS, 7, create("t"))
        assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        gone = delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="t")])
        answer = await client.ask(ApiKey.DELETE_TOPICS, 6, gone)
        assert answer.responses[0].error_code == 0
        assert "t" not in other.metadata.image.topics


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_finds_its_way(version: int) -> None:
    async with memory_cluster() as cluster:
        _, client = await elsewhere(cluster)
        answer = await client.ask(ApiKey.CREATE_TOPICS, version, create("a", "b"))
        assert [one.error_code for one in answer.topics] == [0, 0]


async def test_without_a_controller_a_client_is_told_to_look_for_one() -> None:
    async with memory_cluster() as cluster:
        other, client = await elsewhere(cluster)
        for node in (1, 2, 3):
            if node != other.info.node_id:
                await cluster.kill(node)
        answer = await client.ask(ApiKey.CREATE_TOPICS, 7, create("t"))
        assert answer.topics[0].error_code in {
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.REQUEST_TIMED_OUT,
        }


async def test_an_observer_has_no_vote_and_sends_on_what_is_to_be_decided() -> None:
    async with memory_cluster() as cluster:
        observer = await cluster.start(4)
        await cluster.up(1, 2, 3, 4)
        client = client_of(cluster, observer)
        answer = await client.ask(ApiKey.CREATE_TOPICS, 7, create("t", replicas=4))
        assert [one.error_code for one in answer.topics] == [0]
        assert 4 not in observer.metadata.quorum.voters.ids
        assert "t" in observer.metadata.image.topics
        # One voter and the observer are two of four nodes, and no majority of the voters.
        for node in (1, 2):
            await cluster.kill(node)
        answer = await client.ask(ApiKey.CREATE_TOPICS, 7, create("u", replicas=2))
        assert answer.topics[0].error_code != ErrorCode.NONE
        assert not observer.metadata.is_controller
        await cluster.start(1)
        await cluster.until(
            lambda: any(one.metadata.is_controller for one in cluster.engines.values())
        )
        assert not observer.metadata.is_controller
        await cluster.start(2)


def test_a_version_that_is_sent_on_belongs_to_a_level() -> None:
    newest = {handler.api_key: handler.max_version for handler in HANDLERS}
    for api_key, by_level in forwarding.FORWARDED.items():
        assert by_level[-1] == newest[api_key], (
            f"{api_key.name}: a new version is what a new level of millpond.version brings"
        )
        assert list(by_level) == sorted(by_level)
        assert len(by_level) <= NEWEST + 1


async def test_while_an_old_node_may_be_the_controller_clients_hear_of_no_version_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grown = {**forwarding.FORWARDED, ApiKey.CREATE_TOPICS: (5, 7)}
    monkeypatch.setattr(forwarding, "FORWARDED", grown)

    async def newest(client: MemoryClient) -> int:
        ask = api_versions.ApiVersionsRequest(
            client_software_name="test", client_software_version="1"
        )
        answer = await client.ask(ApiKey.API_VERSIONS, 4, ask)
        versions = {one.api_key: one.max_version for one in answer.api_keys}
        return int(versions[ApiKey.CREATE_TOPICS])

    async with memory_cluster() as cluster:
        other, client = await elsewhere(cluster)
        controller = await cluster.controller()
        for level, expected in ((0, 5), (1, 7)):
            fact = FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=level)
            await controller.metadata.quorum.propose([fact])
            await cluster.until(
                lambda level=level: other.metadata.image.features.get(MILLPOND_VERSION, 0) == level  # type: ignore[misc]
            )
            assert await newest(client) == expected


async def test_a_controller_that_does_not_know_a_version_says_so() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        newer = wrap_request(Request(ApiKey.CREATE_TOPICS, 99, 7, "c", memoryview(b""), 0))
        with pytest.raises(UnsupportedVersion, match="upgrade it"):
            await controller.peer_handlers.answer(ForwardedRequest(request=newer, client=""))


async def test_a_request_is_not_sent_on_twice() -> None:
    async with memory_cluster() as cluster:
        other, _ = await elsewhere(cluster)
        with pytest.raises(NotController):
            await other.peer_handlers.answer(ForwardedRequest(request=b"", client=""))
        controller = await cluster.controller()
        fetch = wrap_request(Request(ApiKey.METADATA, 12, 7, "c", memoryview(b""), 0))
        with pytest.raises(InvalidRequest):
            await controller.peer_handlers.answer(ForwardedRequest(request=fetch, client=""))


async def test_a_controller_that_resigns_does_not_send_a_request_on() -> None:
    """The first node asks the next controller; what the old one sent on could be executed much later."""

    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        old = controller.info.node_id
        others = [node for node in cluster.engines if node != old]
        cluster.network.cut |= {(old, node) for node in others}
        cluster.network.cut |= {(node, old) for node in others}
        asked = asyncio.ensure_future(
            controller.peer_handlers.answer(
                ForwardedRequest(request=wrap_request(creation("t")), client="")
            )
        )
        await cluster.until(
            lambda: any(cluster.engines[node].metadata.is_controller for node in others)
        )
        cluster.network.cut.clear()
        with pytest.raises(NotController):
            await asked
        assert "t" not in cluster.image.topics


async def test_partitions_are_moved_listed_and_elected_from_any_node() -> None:
    async with memory_cluster(4) as cluster:
        _, client = await elsewhere(cluster)
        await client.ask(ApiKey.CREATE_TOPICS, 7, create("t", replicas=2))
        replicas = cluster.image.topics["t"].partitions[0].replicas
        target = [node for node in (1, 2, 3, 4) if node not in replicas]
        move = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name="t",
                    partitions=[
                        alter_partition_reassignments.ReassignablePartition(
                            partition_index=0, replicas=target
                        )
                    ],
                )
            ]
        )
        answer = await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, move)
        assert answer.responses[0].partitions[0].error_code == 0
        listing = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
        answer = await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing)
        (topic,) = answer.topics
        (one,) = topic.partitions
        assert (topic.name, one.partition_index) == ("t", 0)
        assert sorted(one.adding_replicas) == target
        assert sorted(one.removing_replicas) == sorted(replicas)
        await cluster.until(lambda: not cluster.image.topics["t"].partitions[0].is_reassigning)
        answer = await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing)
        assert answer.topics == []
        election = elect_leaders.ElectLeadersRequest(
            topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0, 9])]
        )
        answer = await client.ask(ApiKey.ELECT_LEADERS, 2, election)
        assert [one.error_code for one in answer.replica_election_results[0].partition_result] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


async def test_settings_of_topics_go_to_the_controller_and_those_of_loggers_stay() -> None:
    async with memory_cluster() as cluster:
        other, client = await elsewhere(cluster)
        await client.ask(ApiKey.CREATE_TOPICS, 7, create("t"))

        def alter(kind: int, name: str, setting: str, value: str) -> Any:
            return incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[
                            incremental_alter_configs.AlterableConfig(
                                name=setting, config_operation=0, value=value
                            )
                        ],
                    )
                ]
            )

        answer = await client.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alter(2, "t", "retention.ms", "77")
        )
        assert answer.responses[0].error_code == 0
        await cluster.until(
            lambda: other.metadata.image.topic_config("t").get("retention.ms") == "77"
        )
        own = str(other.info.node_id)
        answer = await client.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alter(8, own, "millpond.nothing", "INFO")
        )
        assert "expected" not in (answer.responses[0].error_message or "")


async def test_every_node_tells_of_the_same_cluster() -> None:
    async with memory_cluster() as cluster:
        controller = await cluster.controller()
        for engine in cluster.engines.values():
            client = client_of(cluster, engine)
            answer = await client.ask(
                ApiKey.DESCRIBE_CLUSTER, 2, describe_cluster.DescribeClusterRequest()
            )
            assert answer.controller_id == controller.info.node_id
            assert {(one.broker_id, one.host, one.rack) for one in answer.brokers} == {
                (node, f"node{node}.test", f"rack-{node}") for node in (1, 2, 3)
            }


async def test_a_node_that_stopped_is_told_of_only_to_who_asks_and_can_be_forgotten() -> None:
    async with memory_cluster() as cluster:
        other, client = await elsewhere(cluster)
        controller = await cluster.controller()
        third = next(
            node for node in (1, 2, 3) if node not in (other.info.node_id, controller.info.node_id)
        )
        await cluster.stop(third)
        await cluster.until(lambda: other.metadata.image.brokers[third].fenced)
        request = describe_cluster.DescribeClusterRequest()
        answer = await client.ask(ApiKey.DESCRIBE_CLUSTER, 2, request)
        assert third not in {one.broker_id for one in answer.brokers}
        request = describe_cluster.DescribeClusterRequest(include_fenced_brokers=True)
        answer = await client.ask(ApiKey.DESCRIBE_CLUSTER, 2, request)
        assert {one.broker_id: one.is_fenced for one in answer.brokers}[third]
        forget = unregister_broker.UnregisterBrokerRequest(broker_id=third)
        answer = await client.ask(ApiKey.UNREGISTER_BROKER, 0, forget)
        assert answer.error_code == 0
        await cluster.until(lambda: third not in other.metadata.image.brokers)
        answer = await client.ask(ApiKey.UNREGISTER_BROKER, 0, forget)
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_topic_is_made_at_first_use_at_any_node() -> None:
    async with memory_cluster() as cluster:
        _, client = await elsewhere(cluster)
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="first")])
        answer = await client.ask(ApiKey.METADATA, 12, request)
        assert [(one.name, one.error_code) for one in answer.topics] == [("first", 0)]


def test_a_request_and_its_answer_come_out_of_their_envelope_as_they_went_in() -> None:
    for version in range(8):
        request = Request(ApiKey.CREATE_TOPICS, version, 42, "client", memoryview(b"body"), 9)
        out = unwrap_request(wrap_request(request))
        assert (out.api_key, out.api_version, out.correlation_id) == (19, version, 42)
        assert (out.client_id, bytes(out.body)) == ("client", b"body")
        assert unwrap_response(request, wrap_response(request, (b"an", b"swer"))) == b"answer"


def test_what_is_sent_on_is_something_that_is_served() -> None:
    assert {one.api_key for one in HANDLERS} >= FORWARDED.keys()
