"""Streams groups in a whole broker: it makes the application's topics, or says why not, and restarts."""

import asyncio
from typing import Any

from millpond.metadata.features import STREAMS_VERSION
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.list_groups import ListGroupsRequest
from millpond.wire.kafka.messages.streams_group_describe import StreamsGroupDescribeRequest
from millpond.wire.kafka.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from millpond.wire.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.cluster.memory_broker import MemoryBroker, MemoryClient, memory_broker
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

APP = "word-count"
MISSING_INTERNAL = 3
SETTINGS: dict[str, Any] = {
    "group_streams_initial_rebalance_delay_ms": "0",
    "group_streams_assignment_interval_ms": "0",
    "offsets_topic_num_partitions": "3",
}


async def member(broker: MemoryBroker) -> MemoryClient:
    client = broker.client()
    answer = await client.ask(
        ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[APP])
    )
    assert answer.coordinators[0].error_code == 0
    return client


async def join(client: MemoryClient, **config: str) -> Any:
    configs = [KeyValue(name.replace("_", "."), value) for name, value in config.items()]
    part = Subtopology("0", ["lines"], state_changelog_topics=[TopicInfo("counts", 0, 1, configs)])
    return await client.ask(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        StreamsGroupHeartbeatRequest(
            group_id=APP,
            member_id="one",
            rebalance_timeout_ms=60_000,
            topology=Topology(0, [part]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
        ),
    )


async def beat(client: MemoryClient, epoch: int) -> Any:
    request = StreamsGroupHeartbeatRequest(group_id=APP, member_id="one", member_epoch=epoch)
    return await client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request)


def test_the_broker_makes_what_the_application_needs_and_keeps_the_group() -> None:
    storage = FaultyStorage()

    async def life() -> int:
        async with memory_broker(storage, **SETTINGS) as broker:
            await broker.create("lines", 3)
            client = await member(broker)
            first = await join(client, cleanup_policy="compact")
            assert [one.status_code for one in first.status] == [MISSING_INTERNAL]
            await asyncio.sleep(1)
            made = broker.engine.metadata.image.topics["counts"]
            assert len(made.partitions) == 3
            now = await beat(client, first.member_epoch)
            assert not now.status
            assert [tasks.partitions for tasks in now.active_tasks] == [[0, 1, 2]]
            return int(now.member_epoch)

    async def afterwards(epoch: int) -> None:
        async with memory_broker(storage, **SETTINGS) as broker:
            client = await member(broker)
            describe = StreamsGroupDescribeRequest([APP])
            (group,) = (await client.ask(ApiKey.STREAMS_GROUP_DESCRIBE, 0, describe)).groups
            assert (group.group_state, group.members[0].member_epoch) == ("Stable", epoch)
            now = await beat(client, epoch)
            assert (now.error_code, now.member_epoch, now.active_tasks) == (0, epoch, None)
            listed = await client.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest([], ["streams"]))
            assert [(one.group_id, one.group_state) for one in listed.groups] == [(APP, "Stable")]

    run(afterwards(run(life())))


async def test_members_are_told_why_a_topic_could_not_be_made() -> None:
    async with memory_broker(**SETTINGS) as broker:
        await broker.create("lines", 1)
        client = await member(broker)
        epoch = (await join(client, cleanup_policy="never")).member_epoch
        await asyncio.sleep(1)
        (status,) = (await beat(client, epoch)).status
        assert status.status_code == MISSING_INTERNAL
        assert "Internal topics are missing: counts; Creation failed: counts (" in (
            status.status_detail
        )


async def test_a_broker_whose_feature_is_off_knows_no_streams_groups() -> None:
    async with memory_broker(**SETTINGS) as broker:
        client = await member(broker)
        off = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(STREAMS_VERSION, 0, upgrade_type=2)]
        )
        assert (await client.ask(ApiKey.UPDATE_FEATURES, 1, off)).error_code == 0
        assert (await join(client)).error_code == ErrorCode.UNSUPPORTED_VERSION
