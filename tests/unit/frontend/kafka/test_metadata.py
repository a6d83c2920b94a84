"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions: what clients learn about the
broker.
"""

from dataclasses import replace
from uuid import UUID

import pytest

from millpond.engine.api import Image, TopicImage
from millpond.frontend.kafka.all_topics import LISTS_MAX, AllTopics
from millpond.frontend.kafka.convert import NOT_ASKED
from millpond.frontend.kafka.handlers import HANDLERS
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from millpond.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from millpond.wire.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster.memory_broker import memory_broker

CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


def _announced(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


@pytest.mark.parametrize("version", range(5))
async def test_what_is_announced_is_what_has_a_handler(version: int) -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.API_VERSIONS, version, CLIENT)
        announced = _announced(client.answer())
        expected = {int(one.api_key): (one.min_version, one.max_version) for one in HANDLERS}
        # Old librdkafka reads its compression support from the minimum of Produce.
        expected[ApiKey.PRODUCE] = (0, 13)
        # Nobody has subscribed to metrics, so clients are not invited to push them.
        del expected[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS], expected[ApiKey.PUSH_TELEMETRY]
        assert announced == expected


async def test_a_version_of_the_future_is_answered_in_version_0_with_what_there_is() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        known = client.frame(ApiKey.API_VERSIONS, 4, CLIENT)
        future = known[:6] + (99).to_bytes(2, "big") + known[8:]
        client.session.data_received(future)
        answer = client.answer()
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert ApiKey.API_VERSIONS in _announced(answer)
        assert not client.is_closed


async def test_a_client_must_have_a_name_that_can_be_printed() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        for name in ("", "-x", "a b", "x\n"):
            request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
            client.send(ApiKey.API_VERSIONS, 3, request)
            assert client.answer().error_code == ErrorCode.INVALID_REQUEST


def _ask(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )


@pytest.mark.parametrize("version", range(14))
async def test_every_version_tells_the_broker_and_its_topics(version: int) -> None:
    async with memory_broker() as broker:
        topic_id = await broker.create("t", partitions=2)
        client = broker.client()
        client.send(ApiKey.METADATA, version, _ask("t"))
        answer = client.answer()
        (node,) = answer.brokers
        assert (node.node_id, node.host, node.port) == (1, "broker.test", 9092)
        (topic,) = answer.topics
        assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "t", 2)
        assert topic.partitions[1].partition_index == 1
        assert topic.partitions[1].leader_id == 1
        assert topic.partitions[1].replica_nodes == [1]
        assert topic.partitions[1].isr_nodes == [1]
        if version >= 1:
            assert answer.controller_id == 1
        if version >= 2:
            assert answer.cluster_id == broker.engine.info.cluster_id
        if version >= 7:
            assert topic.partitions[1].leader_epoch == 0
        if version >= 8:
            assert topic.topic_authorized_operations == NOT_ASKED
        if version >= 10:
            assert topic.topic_id == topic_id


async def test_all_topics_none_and_some() -> None:
    async with memory_broker() as broker:
        await broker.create("a")
        await broker.create("b")
        client = broker.client()
        client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        client.send(ApiKey.METADATA, 12, _ask())
        client.send(ApiKey.METADATA, 12, _ask("b", "b"))
        client.send(ApiKey.METADATA, 0, _ask())  # in version 0 nothing means everything
        names = [[topic.name for topic in answer.topics] for answer in client.answers()]
        assert names == [["a", "b"], [], ["b"], ["a", "b"]]


async def test_an_unknown_topic_is_said_to_be_unknown_unless_asking_makes_it() -> None:
    async with memory_broker(num_partitions="3") as broker:
        client = broker.client()
        (topic,) = (await client.ask(ApiKey.METADATA, 12, _ask("new"))).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        (topic,) = (await client.ask(ApiKey.METADATA, 12, _ask("new", create=True))).topics
        assert (topic.error_code, len(topic.partitions)) == (0, 3)
        assert broker.engine.partitions.partition("new", 2).log.end_offset == 0


async def test_asking_makes_nothing_when_the_broker_does_not_allow_it() -> None:
    async with memory_broker(auto_create_topics_enable="false") as broker:
        answer = await broker.client().ask(ApiKey.METADATA, 12, _ask("new", create=True))
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not broker.engine.metadata.image.topics


async def test_two_clients_that_ask_for_the_same_new_topic_get_the_same_one() -> None:
    async with memory_broker() as broker:
        one, two = broker.client(), broker.client()
        for client in (one, two):
            client.send(ApiKey.METADATA, 12, _ask("new", create=True))
        ids = {(await client.receive()).topics[0].topic_id for client in (one, two)}
        assert ids == {broker.engine.metadata.image.topics["new"].topic_id}


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "__cluster_metadata"])
async def test_a_name_that_no_topic_may_have(name: str) -> None:
    async with memory_broker() as broker:
        answer = await broker.client().ask(ApiKey.METADATA, 12, _ask(name, create=True))
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_topics_by_id() -> None:
    async with memory_broker() as broker:
        topic_id = await broker.create("t")
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(topic_id=topic_id, name=None),
                MetadataRequestTopic(topic_id=UUID(int=12345), name=None),
            ]
        )
        answer = await broker.client().ask(ApiKey.METADATA, 12, request)
        assert [(one.error_code, one.name) for one in answer.topics] == [
            (0, "t"),
            (ErrorCode.UNKNOWN_TOPIC_ID, None),
        ]


async def test_rights_are_told_when_asked_for() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        request = _ask("t")
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        answer = await broker.client().ask(ApiKey.METADATA, 9, request)
        assert answer.topics[0].topic_authorized_operations == 0b110111111000
        assert answer.cluster_authorized_operations == 0b1111110100000


async def test_internal_topics_are_marked_and_made_compact() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        answer = await client.ask(ApiKey.METADATA, 12, _ask("__consumer_offsets", create=True))
        (topic,) = answer.topics
        assert topic.is_internal
        assert len(topic.partitions) == 50
        assert broker.engine.partitions.config_of("__consumer_offsets").compacts


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(version: int) -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest())
        answer = client.answer()
        assert answer.cluster_id == broker.engine.info.cluster_id
        assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [
            (1, "broker.test", 9092)
        ]


async def test_controllers_are_not_described_here() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=2))
        assert client.answer().error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


async def test_many_partitions_are_described_page_by_page() -> None:
    async with memory_broker() as broker:
        await broker.create("a", partitions=3)
        await broker.create("b", partitions=3)
        client = broker.client()
        seen: list[tuple[str, int]] = []
        cursor: Cursor | None = None
        pages = 0
        while True:
            client.send(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor),
            )
            page = client.answer()
            pages += 1
            seen += [
                (topic.name, one.partition_index)
                for topic in page.topics
                for one in topic.partitions
            ]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [(name, index) for name in "ab" for index in range(3)]
        assert pages == 4 - 1


async def test_unknown_topics_are_named_in_a_description() -> None:
    async with memory_broker() as broker:
        await broker.create("a")
        client = broker.client()
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest("a"), TopicRequest("z")])
        client.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        codes = [(topic.name, topic.error_code) for topic in client.answer().topics]
        assert codes == [("a", 0), ("z", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_the_list_of_all_topics_is_as_new_as_the_metadata() -> None:
    async with memory_broker() as broker:
        client = broker.client()

        async def names(version: int, **fields: bool) -> list[str]:
            request = MetadataRequest(topics=None, **fields)
            answer = await client.ask(ApiKey.METADATA, version, request)
            return sorted(one.name for one in answer.topics)

        await broker.create("a")
        for version in range(1, 14):
            assert await names(version) == ["a"]
        await broker.create("b", 3)
        assert await names(12) == ["a", "b"]
        assert await names(12) == ["a", "b"]
        request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        answer = await client.ask(ApiKey.METADATA, 12, request)
        assert all(one.topic_authorized_operations != NOT_ASKED for one in answer.topics)
        answer = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        assert all(one.topic_authorized_operations == NOT_ASKED for one in answer.topics)
        assert [len(one.partitions) for one in answer.topics] == [1, 3]


def test_lists_of_all_topics_are_encoded_once_and_few_are_kept() -> None:
    encoded: list[str] = []

    def encode(topic: TopicImage) -> bytes:
        encoded.append(topic.name)
        return topic.name.encode()

    topics = {name: TopicImage(name=name, topic_id=UUID(int=1)) for name in "ab"}
    image = Image(topics=topics)
    kept = AllTopics()
    for _time in range(3):
        assert kept.encoded(image, frozenset({1}), 12, 0, encode) == b"ab"
    assert encoded == ["a", "b"]
    kept.encoded(image, frozenset({1, 2}), 12, 0, encode)
    assert encoded == ["a", "b"] * 2
    for version in range(LISTS_MAX):
        kept.encoded(image, frozenset({1, 2}), version, 0, encode)
    kept.encoded(image, frozenset({1, 2}), 12, 0, encode)
    assert encoded == ["a", "b"] * (2 + LISTS_MAX + 1)
    # Other nodes may have other directories offline.
    kept.encoded(replace(image, brokers={}), frozenset({1, 2}), 12, 0, encode)
    assert encoded == ["a", "b"] * (2 + LISTS_MAX + 2)
