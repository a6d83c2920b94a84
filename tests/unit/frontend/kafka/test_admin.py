"""Topics, settings, positions and log directories through the admin APIs, in every version."""

from typing import Any
from uuid import UUID

import pytest

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages import (
    alter_configs,
    describe_producers,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
)
from millpond.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from millpond.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from millpond.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from millpond.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from millpond.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from millpond.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.list_config_resources import ListConfigResourcesRequest
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from millpond.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    MemoryClient,
    batch,
    fetch,
    fetched,
    memory_broker,
    produce,
    produced,
    values_of,
)
from tests.support.time.virtual_loop import LoopClock

TOPIC, BROKER = 2, 4


def _topic(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)


async def _create(client: MemoryClient, *topics: CreatableTopic, version: int = 7) -> list[Any]:
    request = CreateTopicsRequest(topics=list(topics))
    return list((await client.ask(ApiKey.CREATE_TOPICS, version, request)).topics)


# --- creating ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_in_every_version(version: int) -> None:
    async with memory_broker() as broker:
        config = CreatableTopicConfig(name="retention.ms", value="1000")
        topic = _topic("t", 3, configs=[config])
        (result,) = await _create(broker.client(), topic, version=version)
        assert (result.name, result.error_code) == ("t", 0)
        made = broker.engine.metadata.image.topics["t"]
        assert len(made.partitions) == 3
        assert broker.engine.partitions.config_of("t").retention_ms == 1000
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            configs = {one.name: (one.value, one.config_source) for one in result.configs}
            assert configs["retention.ms"] == ("1000", 1)
            assert configs["segment.bytes"] == ("1073741824", 5)
        if version >= 7:
            assert result.topic_id == made.topic_id


async def test_minus_one_means_the_brokers_defaults() -> None:
    async with memory_broker(num_partitions="4") as broker:
        (result,) = await _create(broker.client(), _topic("t", -1, -1))
        assert (result.num_partitions, result.replication_factor) == (4, 1)


async def test_asking_only_creates_nothing() -> None:
    async with memory_broker() as broker:
        request = CreateTopicsRequest(topics=[_topic("t")], validate_only=True)
        answer = await broker.client().ask(ApiKey.CREATE_TOPICS, 7, request)
        assert answer.topics[0].error_code == 0
        assert "t" not in broker.engine.metadata.image.topics


_HERE = CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
_ELSEWHERE = CreatableReplicaAssignment(partition_index=0, broker_ids=[9])


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (_topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (_topic("ta.ken", 1), 0),
        (_topic("a.b"), ErrorCode.INVALID_TOPIC_EXCEPTION),  # a_b exists
        (_topic("bad name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (_topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (_topic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (_topic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (_topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (_topic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (_topic("t", 1_000_000), ErrorCode.POLICY_VIOLATION),
        (_topic("t", -1, -1, assignments=[_HERE]), 0),
        (_topic("t", -1, -1, assignments=[_ELSEWHERE]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (_topic("t", 1, -1, assignments=[_HERE]), ErrorCode.INVALID_REQUEST),
        (
            _topic("t", configs=[CreatableTopicConfig("no.such.setting", "1")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            _topic("t", configs=[CreatableTopicConfig("retention.ms", "soon")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            _topic("t", configs=[CreatableTopicConfig("retention.ms", None)]),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
)
async def test_what_cannot_be_created_is_refused_and_says_why(
    topic: CreatableTopic, code: int
) -> None:
    async with memory_broker() as broker:
        await broker.create("taken")
        await broker.create("a_b")
        (result,) = await _create(broker.client(), topic)
        assert result.error_code == code
        assert bool(result.error_message) == bool(code)


async def test_each_topic_of_a_request_stands_alone_and_a_name_given_twice_fails() -> None:
    async with memory_broker() as broker:
        results = await _create(
            broker.client(),
            _topic("good"),
            _topic("twice"),
            _topic("bad name"),
            _topic("twice"),
        )
        codes = {result.name: result.error_code for result in results}
        assert codes == {
            "good": 0,
            "twice": ErrorCode.INVALID_REQUEST,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert set(broker.engine.metadata.image.topics) == {"good"}


async def test_create_and_use_in_one_breath() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        request = CreateTopicsRequest(topics=[_topic("t")])
        client.send(ApiKey.CREATE_TOPICS, 7, request)
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v")))
        assert (await client.receive()).topics[0].error_code == 0
        assert produced(await client.receive()).error_code == 0


# --- growing and deleting ------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_grows(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=4, assignments=None)]
        )
        answer = await broker.client().ask(ApiKey.CREATE_PARTITIONS, version, request)
        assert answer.results[0].error_code == 0
        assert len(broker.engine.metadata.image.topics["t"].partitions) == 4
        assert broker.engine.partitions.partition("t", 3).high_watermark == 0


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("nowhere", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[1]], 0),
        ("t", 100_000, None, ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_a_topic_grows_only_as_it_can(
    name: str, count: int, assignments: list[list[int]] | None, code: int
) -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        given = (
            None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=one) for one in assignments]
        )
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)]
        )
        answer = await broker.client().ask(ApiKey.CREATE_PARTITIONS, 3, request)
        assert answer.results[0].error_code == code


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_topic_is_deleted_with_its_files(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"v")))
        client.answer()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"])
        answer = await client.ask(ApiKey.DELETE_TOPICS, version, request)
        assert [(one.name, one.error_code) for one in answer.responses] == [("t", 0)]
        assert not broker.engine.metadata.image.topics
        assert not [name for name in broker.storage.files() if name.startswith("data/t-0/")]


async def test_topics_are_deleted_by_id_and_unknown_ones_are_named() -> None:
    async with memory_broker() as broker:
        topic_id = await broker.create("t")
        request = DeleteTopicsRequest(
            topics=[
                DeleteTopicState(topic_id=topic_id),
                DeleteTopicState(topic_id=UUID(int=777)),
                DeleteTopicState(name="nowhere"),
            ]
        )
        answer = await broker.client().ask(ApiKey.DELETE_TOPICS, 6, request)
        assert [(one.name, one.error_code) for one in answer.responses] == [
            ("t", 0),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
            ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]


async def test_a_deleted_topic_comes_back_empty_and_without_its_settings() -> None:
    async with memory_broker() as broker:
        old_id = await broker.create("t", retention_ms="5")
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"old")))
        client.answer()
        await broker.engine.topic_admin.delete_topics([("t", None)])
        new_id = await broker.create("t")
        assert new_id != old_id
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=0))
        assert fetched(client.answer()).high_watermark == 0
        assert broker.engine.partitions.config_of("t").retention_ms != 5


async def test_deletion_can_be_forbidden() -> None:
    async with memory_broker(delete_topic_enable="false") as broker:
        await broker.create("t")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        answer = await broker.client().ask(ApiKey.DELETE_TOPICS, 6, request)
        assert answer.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert "t" in broker.engine.metadata.image.topics


# --- settings --------------------------------------------------------------------------------------


async def _describe(
    broker: MemoryBroker, kind: int, name: str, keys: list[str] | None = None, version: int = 4
) -> Any:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    answer = await broker.client().ask(ApiKey.DESCRIBE_CONFIGS, version, request)
    return answer.results[0]


async def _alter(
    broker: MemoryBroker, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=op, value=value)
            for key, op, value in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    answer = await broker.client().ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    return answer.responses[0]


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topics_settings_are_described_with_their_source(version: int) -> None:
    async with memory_broker(log_segment_bytes="1048576") as broker:
        await broker.create("t", retention_ms="1000")
        result = await _describe(broker, TOPIC, "t", version=version)
        found = {one.name: one for one in result.configs}
        assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("1000", 1)
        assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == (
            "1048576",
            4,
        )
        synonyms = [(one.name, one.source) for one in found["segment.bytes"].synonyms]
        assert synonyms == [("log.segment.bytes", 4), ("log.segment.bytes", 5)]
        if version >= 3:
            assert found["retention.ms"].config_type == 5  # LONG
            assert found["retention.ms"].documentation


async def test_single_settings_brokers_and_what_does_not_exist() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        one = await _describe(broker, TOPIC, "t", ["retention.ms"])
        assert [config.name for config in one.configs] == ["retention.ms"]
        node = await _describe(broker, BROKER, "1", ["num.partitions"])
        assert [(config.name, config.value) for config in node.configs] == [("num.partitions", "1")]
        for kind, name, code in (
            (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (BROKER, "9", ErrorCode.INVALID_REQUEST),
            (77, "t", ErrorCode.INVALID_REQUEST),
        ):
            assert (await _describe(broker, kind, name)).error_code == code


async def test_settings_are_set_deleted_appended_and_subtracted() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        engine = broker.engine

        assert (await _alter(broker, TOPIC, "t", ("retention.ms", 0, "42"))).error_code == 0
        assert engine.partitions.partition("t", 0).log.config.retention_ms == 42

        await _alter(broker, TOPIC, "t", ("cleanup.policy", 2, "compact"))
        assert engine.partitions.config_of("t").cleanup_policy == {"delete", "compact"}
        await _alter(broker, TOPIC, "t", ("cleanup.policy", 3, "delete"))
        assert engine.partitions.config_of("t").cleanup_policy == {"compact"}

        await _alter(broker, TOPIC, "t", ("retention.ms", 1, None), ("cleanup.policy", 1, None))
        assert engine.partitions.config_of("t").retention_ms == 7 * 24 * 60 * 60 * 1000
        assert engine.metadata.image.topic_config("t") == {}


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "t", ("retention.ms", 0, "often"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", 2, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", 0, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retenton.ms", 0, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "nowhere", ("retention.ms", 0, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "9", ("log.retention.ms", 0, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.dirs", 0, "/elsewhere"), ErrorCode.INVALID_REQUEST),
        (16, "m", ("interval.ms", 0, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_change_that_cannot_be_is_refused(
    kind: int, name: str, change: tuple[str, int, str | None], code: int
) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        result = await _alter(broker, kind, name, change)
        assert result.error_code == code
        assert result.error_message


async def test_a_resource_changes_as_a_whole_or_not_at_all() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        result = await _alter(
            broker, TOPIC, "t", ("retention.ms", 0, "42"), ("segment.bytes", 0, "x")
        )
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert broker.engine.metadata.image.topic_config("t") == {}


async def test_broker_settings_reach_topics_that_have_none_of_their_own() -> None:
    async with memory_broker() as broker:
        await broker.create("plain")
        await broker.create("own", retention_ms="7")
        await _alter(broker, BROKER, "", ("log.retention.ms", 0, "1000"))
        await _alter(broker, BROKER, "1", ("log.retention.ms", 0, "2000"))
        retention = {
            name: broker.engine.partitions.partition(name, 0).log.config.retention_ms
            for name in ("plain", "own")
        }
        assert retention == {"plain": 2000, "own": 7}
        entry = (await _describe(broker, BROKER, "1", ["log.retention.ms"])).configs[0]
        assert (entry.value, entry.config_source) == ("2000", 2)
        # What all brokers were given, not what this one has; min.insync.replicas is always there.
        for_all = {one.name: one for one in (await _describe(broker, BROKER, "")).configs}
        assert for_all.keys() == {"log.retention.ms", "min.insync.replicas"}
        retained = for_all["log.retention.ms"]
        assert (retained.value, retained.config_source) == ("1000", 3)


@pytest.mark.parametrize("version", range(3))
async def test_the_old_way_to_alter_replaces_everything(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t", retention_ms="1", segment_ms="2")
        request = alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[alter_configs.AlterableConfig(name="retention.ms", value="3")],
                )
            ]
        )
        answer = await broker.client().ask(ApiKey.ALTER_CONFIGS, version, request)
        assert answer.responses[0].error_code == 0
        assert broker.engine.metadata.image.topic_config("t") == {"retention.ms": "3"}


async def test_what_has_settings_is_listed() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        for types, expected in (
            ([TOPIC], [("t", TOPIC)]),
            ([BROKER], [("1", BROKER)]),
            ([], [("t", TOPIC), ("1", BROKER), ("1", 8)]),
        ):
            request = ListConfigResourcesRequest(resource_types=types)
            client.send(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
            found = client.answer().config_resources
            assert [(one.resource_name, one.resource_type) for one in found] == expected
        client.send(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest([99]))
        assert client.answer().error_code == ErrorCode.UNSUPPORTED_VERSION
        client.send(ApiKey.LIST_CONFIG_RESOURCES, 0, ListConfigResourcesRequest())
        assert client.answer().config_resources == []


# --- positions -------------------------------------------------------------------------------------


async def _write(broker: MemoryBroker, *times: int) -> None:
    client = broker.client()
    for time in times:
        records = batch(b"v", timestamp_ms=LoopClock.EPOCH_MS + time)
        client.send(ApiKey.PRODUCE, 9, produce(records))
        assert produced(client.answer()).error_code == 0


def _list(broker: MemoryBroker, time: int, *, version: int = 11, **fields: Any) -> Any:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=fields.pop("topic", "t"),
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=time, **fields)],
            )
        ],
    )
    client = broker.client()
    client.send(ApiKey.LIST_OFFSETS, version, request)
    return client.answer().topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_ends_of_a_log_in_every_version(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, 10, 20, 30)
        assert _list(broker, -1, version=version).offset == 3
        assert _list(broker, -2, version=version).offset == 0


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (LoopClock.EPOCH_MS, (LoopClock.EPOCH_MS + 10, 0)),
        (LoopClock.EPOCH_MS + 11, (LoopClock.EPOCH_MS + 30, 1)),
        (LoopClock.EPOCH_MS + 30, (LoopClock.EPOCH_MS + 30, 1)),
        (LoopClock.EPOCH_MS + 31, (-1, -1)),
        (-3, (LoopClock.EPOCH_MS + 30, 1)),
        (-4, (-1, 0)),
        (-5, (-1, -1)),
        (-6, (-1, -1)),
    ],
)
async def test_offsets_by_time_and_by_place(time: int, expected: tuple[int, int]) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, 10, 30, 20)
        found = _list(broker, time)
        assert found.error_code == 0
        assert (found.timestamp, found.offset) == expected


async def test_a_position_in_what_is_not_there_is_refused() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        assert _list(broker, -1, topic="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        newer = _list(broker, -1, current_leader_epoch=4)
        assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", range(2, 5))
async def test_the_end_of_a_leaders_epoch(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, 1, 2)
    broker.storage.delete("data/.kafka_cleanshutdown")  # as after a crash
    async with memory_broker(broker.storage) as again:
        await _write(again, 3)
        found = []
        for epoch in (0, 1, 2):
            request = OffsetForLeaderEpochRequest(
                topics=[
                    OffsetForLeaderTopic(
                        topic="t",
                        partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=epoch)],
                    )
                ]
            )
            client = again.client()
            client.send(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request)
            one = client.answer().topics[0].partitions[0]
            found.append((one.error_code, one.leader_epoch, one.end_offset))
        assert found == [(0, 0, 2), (0, 1, 3), (0, -1, -1)]


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted_up_to_an_offset(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, 1, 2, 3)
        client = broker.client()

        def delete(offset: int, topic: str = "t") -> tuple[int, int]:
            wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])]
            )
            client.send(ApiKey.DELETE_RECORDS, version, request)
            one = client.answer().topics[0].partitions[0]
            return one.error_code, one.low_watermark

        assert delete(2) == (0, 2)
        assert delete(9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete(0, "u") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        client.send(ApiKey.FETCH, 12, fetch(1, wait_ms=0))
        assert fetched(client.answer()).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        client.send(ApiKey.FETCH, 12, fetch(2, wait_ms=0))
        assert len(values_of(fetched(client.answer()).records)) == 1
        assert delete(-1) == (0, 3)


async def test_records_of_a_compacted_topic_are_not_deleted_by_offset() -> None:
    async with memory_broker() as broker:
        await broker.create("t", cleanup_policy="compact")
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(0, 0)])]
        )
        client = broker.client()
        client.send(ApiKey.DELETE_RECORDS, 2, request)
        one = client.answer().topics[0].partitions[0]
        assert one.error_code == ErrorCode.POLICY_VIOLATION


# --- the rest ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 6))
async def test_what_partitions_take_on_disk(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        await broker.create("u")
        await _write(broker, 1)
        client = broker.client()
        size = len(batch(b"v"))
        for topics, expected in (
            (None, {("t", 0, size), ("t", 1, 0), ("u", 0, 0)}),
            (
                [DescribableLogDirTopic("t", [0]), DescribableLogDirTopic("x", [0])],
                {("t", 0, size)},
            ),
        ):
            request = DescribeLogDirsRequest(topics=topics)
            client.send(ApiKey.DESCRIBE_LOG_DIRS, version, request)
            (result,) = client.answer().results
            assert result.log_dir == "/memory/data"
            assert {
                (topic.name, one.partition_index, one.partition_size)
                for topic in result.topics
                for one in topic.partitions
            } == expected
            if version >= 4:
                assert (result.total_bytes, result.usable_bytes) == (1_000_000, 400_000)


@pytest.mark.parametrize("version", range(6))
async def test_producers_get_ids_that_nobody_had(version: int) -> None:
    async with memory_broker() as broker:
        client = broker.client()
        request = InitProducerIdRequest(transactional_id=None)
        answers = [await client.ask(ApiKey.INIT_PRODUCER_ID, version, request) for _ in range(3)]
        assert [one.producer_id for one in answers] == [0, 1, 2]
        assert [one.producer_epoch for one in answers] == [0, 0, 0]


async def test_producer_ids_are_not_given_again_after_a_crash_or_beyond_a_block() -> None:
    seen: list[int] = []
    async with memory_broker() as broker:
        seen += [await broker.engine.producer_ids.next() for _ in range(1001)]
    broker.storage.delete("data/.kafka_cleanshutdown")
    async with memory_broker(broker.storage) as again:
        seen.append(await again.engine.producer_ids.next())
    assert seen == [*range(1001), 2000]


async def test_no_partition_is_on_its_way_elsewhere() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())
        answer = client.answer()
        assert (answer.error_code, answer.topics) == (0, [])


async def test_who_writes_to_a_partition() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        records = batch(b"a", b"b", producer_id=77, producer_epoch=3, base_sequence=0)
        client.send(ApiKey.PRODUCE, 9, produce(records))
        client.answer()
        request = describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0, 1])]
        )
        client.send(ApiKey.DESCRIBE_PRODUCERS, 0, request)
        here, nowhere = client.answer().topics[0].partitions
        (one,) = here.active_producers
        assert (one.producer_id, one.producer_epoch, one.last_sequence) == (77, 3, 1)
        assert one.current_txn_start_offset == -1
        assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
async def test_who_keeps_the_metadata(version: int) -> None:
    async with memory_broker() as broker:
        client = broker.client()
        wanted = [describe_quorum.PartitionData(0)]
        request = describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.TopicData("__cluster_metadata", wanted),
                describe_quorum.TopicData("t", wanted),
            ]
        )
        client.send(ApiKey.DESCRIBE_QUORUM, version, request)
        answer = client.answer()
        ours, unknown = (topic.partitions[0] for topic in answer.topics)
        assert (ours.error_code, ours.leader_id) == (0, 1)
        assert ours.high_watermark == ours.current_voters[0].log_end_offset > 0
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 2:
            assert answer.nodes[0].listeners[0].host == "broker.test"


@pytest.mark.parametrize("version", range(3))
async def test_no_election_is_needed(version: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        asked = [elect_leaders.TopicPartitions(topic="t", partitions=[0, 5])]
        request = elect_leaders.ElectLeadersRequest(topic_partitions=asked)
        answer = await client.ask(ApiKey.ELECT_LEADERS, version, request)
        (topic,) = answer.replica_election_results
        assert [one.error_code for one in topic.partition_result] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        request = elect_leaders.ElectLeadersRequest(topic_partitions=None)
        answer = await client.ask(ApiKey.ELECT_LEADERS, version, request)
        (topic,) = answer.replica_election_results
        assert (topic.topic, topic.partition_result) == ("t", [])


async def test_what_is_named_many_times_is_answered_once() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        one = DescribeConfigsResource(resource_type=2, resource_name="t")
        client.send(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[one] * 1000))
        assert len(client.answer().results) == 1
        producers = describe_producers.TopicRequest(name="t", partition_indexes=[0] * 1000)
        client.send(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            describe_producers.DescribeProducersRequest(topics=[producers] * 10),
        )
        (described,) = client.answer().topics
        assert len(described.partitions) == 1


async def test_many_partitions_have_their_new_start_written_down_at_once() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=50)
        for index in range(50):
            broker.engine.partitions.append("t", index, bytearray(batch(b"a", b"b")))
        before = broker.storage.changes
        wanted = [
            DeleteRecordsPartition(partition_index=index, offset=offset)
            for index in range(50)
            for offset in (0, 1)
        ]
        topic = DeleteRecordsTopic(name="t", partitions=wanted)
        client = broker.client()
        client.send(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[topic]))
        (deleted,) = client.answer().topics
        assert [one.low_watermark for one in deleted.partitions] == [1] * 50
        # A few changes for each partition's own file, and one checkpoint for all.
        assert broker.storage.changes - before < 50 * 5
        written = broker.storage.read_all("data/log-start-offset-checkpoint")
        assert written is not None
        assert b"t 49 1" in written
