"""Groups in a whole broker: real engine, real sessions, bytes in and out, storage in memory, virtual time."""

import asyncio
import logging
from typing import Any
from uuid import UUID

import pytest

from millpond.base.errors import NotLeader
from millpond.engine.api import OFFSETS_TOPIC
from millpond.engine.coordinators.group_host import GroupHost
from millpond.group.memory import MemberMemory, bytes_held
from millpond.group.offsets import partition_for
from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from millpond.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.heartbeat import HeartbeatRequest
from millpond.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from millpond.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from millpond.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from millpond.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from millpond.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    MemoryClient,
    batch,
    memory_broker,
    produce,
    produced,
)
from tests.support.storage.faulty_storage import FaultyStorage

GROUP = "readers"
NO_DELAY: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "3",
}


class Reader:
    """A consumer by hand, with a connection of its own."""

    def __init__(self, broker: MemoryBroker, instance_id: str | None = None) -> None:
        self.client: MemoryClient = broker.client()
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.members: list[str] = []

    async def find(self) -> None:
        answer = await self.client.ask(
            ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[GROUP])
        )
        assert answer.coordinators[0].error_code == 0

    def send_join(self, *, session_timeout_ms: int = 10_000) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t")],
        )
        self.client.send(ApiKey.JOIN_GROUP, 9, request)

    async def join(self, **fields: Any) -> None:
        """Both rounds of a join, until it is answered."""
        self.send_join(**fields)
        answer = await self.client.receive()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.send_join(**fields)
            answer = await self.client.receive()
        self.take(answer)

    def take(self, answer: Any) -> None:
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self.is_leader = answer.leader == answer.member_id
        self.members = [member.member_id for member in answer.members]

    def send_sync(self) -> None:
        plan = [SyncGroupRequestAssignment(one, f"for {one}".encode()) for one in self.members]
        request = SyncGroupRequest(
            GROUP,
            self.generation,
            self.member_id,
            self.instance_id,
            "consumer",
            "range",
            plan if self.is_leader else [],
        )
        self.client.send(ApiKey.SYNC_GROUP, 5, request)

    async def sync(self) -> bytes:
        self.send_sync()
        answer = await self.client.receive()
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return bytes(answer.assignment)

    async def settle(self) -> None:
        await self.find()
        await self.join()
        assert await self.sync() == f"for {self.member_id}".encode()

    async def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id)
        return ErrorCode((await self.client.ask(ApiKey.HEARTBEAT, 4, request)).error_code)

    async def commit(self, offset: int, *, topic: str = "t") -> ErrorCode:
        self.send_commit(offset, topic=topic)
        answer = await self.client.receive()
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def send_commit(self, offset: int, *, topic: str = "t") -> None:
        positions = [OffsetCommitRequestPartition(0, offset, -1, "note")]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(topic, partitions=positions)],
        )
        self.client.send(ApiKey.OFFSET_COMMIT, 9, request)

    async def leave(self) -> ErrorCode:
        request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id)])
        answer = await self.client.ask(ApiKey.LEAVE_GROUP, 5, request)
        return ErrorCode(answer.members[0].error_code)


async def committed(broker: MemoryBroker, topic: str = "t") -> int:
    asked = [OffsetFetchRequestTopics(topic, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=asked)])
    answer = await broker.client().ask(ApiKey.OFFSET_FETCH, 9, request)
    (group,) = answer.groups
    return int(group.topics[0].partitions[0].committed_offset)


async def described(broker: MemoryBroker) -> Any:
    answer = await broker.client().ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([GROUP]))
    return answer.groups[0]


# --- life -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_the_first_question_for_a_coordinator_makes_the_offsets_topic(version: int) -> None:
    async with memory_broker() as broker:
        request = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP])
        answer = await broker.client().ask(ApiKey.FIND_COORDINATOR, version, request)
        found = answer if version < 4 else answer.coordinators[0]
        assert (found.error_code, found.node_id) == (0, 1)
        assert (found.host, found.port) == ("broker.test", 9092)
        topic = broker.engine.metadata.image.topics[OFFSETS_TOPIC]
        assert len(topic.partitions) == 50
        config = broker.engine.partitions.config_of(OFFSETS_TOPIC)
        assert config.cleanup_policy == {"compact"}
        assert config.segment_bytes == 104_857_600


async def test_a_share_groups_state_is_asked_for_by_partition() -> None:
    async with memory_broker() as broker:
        for version in (3, 6):
            request = FindCoordinatorRequest(key="g", key_type=2, coordinator_keys=["g"])
            answer = await broker.client().ask(ApiKey.FIND_COORDINATOR, version, request)
            found = answer if version < 4 else answer.coordinators[0]
            assert found.error_code == ErrorCode.INVALID_REQUEST


async def test_a_disk_without_room_for_the_topic_is_no_coordinator_yet() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, **NO_DELAY) as broker:
        storage.capacity = storage.used
        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        answer = await broker.client().ask(ApiKey.FIND_COORDINATOR, 4, request)
        assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        storage.capacity = None
        await Reader(broker).find()


async def test_who_did_not_ask_for_the_coordinator_is_sent_to_ask() -> None:
    async with memory_broker() as broker:
        reader = Reader(broker)
        reader.send_join()
        assert reader.client.answer().error_code == ErrorCode.NOT_COORDINATOR
        reader.send_sync()
        assert reader.client.answer().error_code == ErrorCode.NOT_COORDINATOR
        await broker.create("t")
        assert await reader.commit(1) == ErrorCode.NOT_COORDINATOR


async def test_two_members_share_and_one_takes_over() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        first, second = Reader(broker), Reader(broker)
        await first.settle()
        second.send_join()
        second.member_id = second.client.answer().member_id
        second.send_join()
        assert second.client.answers() == []  # parked until the first joins again
        assert await first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        await first.join()
        second.take(second.client.answer())
        assert first.members == [first.member_id, second.member_id]
        second.send_sync()
        assert second.client.answers() == []  # parked until the plan is there
        assert await first.sync() == f"for {first.member_id}".encode()
        assert bytes(second.client.answer().assignment) == f"for {second.member_id}".encode()

        assert await first.leave() == 0
        assert await second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        await second.join()
        assert second.members == [second.member_id]


async def test_a_silent_member_is_found_out_by_the_clock() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        reader = Reader(broker)
        await reader.settle()
        for _ in range(4):
            await asyncio.sleep(9)
            assert await reader.heartbeat() == 0
        await asyncio.sleep(10.01)
        assert await reader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await described(broker)).group_state == "Empty"


async def test_a_silent_member_that_cannot_be_removed_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0

    async with memory_broker(**NO_DELAY) as broker:
        reader = Reader(broker)
        await reader.settle()

        def refuse(_host: GroupHost, _command: object) -> None:
            nonlocal tries
            tries += 1
            assert tries < 100, "again at once, for ever"
            raise NotLeader("for a while")

        monkeypatch.setattr(GroupHost, "perform", refuse)
        await asyncio.sleep(30)
        monkeypatch.undo()
        assert tries > 10
        await asyncio.sleep(2)
        assert (await described(broker)).group_state == "Empty"


async def test_a_new_group_waits_three_seconds_for_company() -> None:
    async with memory_broker() as broker:
        loop = asyncio.get_running_loop()
        reader = Reader(broker)
        await reader.find()
        began = loop.time()
        await reader.join()
        assert loop.time() - began == pytest.approx(3, abs=0.01)


async def test_a_member_whose_connection_breaks_is_waited_for_and_then_missed() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        first, second = Reader(broker), Reader(broker)
        await first.settle()
        second.send_join()
        second.member_id = second.client.answer().member_id
        second.send_join()
        second.client.session.connection_lost()  # while its join is parked
        await first.join()
        assert first.members == [first.member_id, second.member_id]
        await first.sync()
        for _ in range(2):
            await asyncio.sleep(5.1)
            code = await first.heartbeat()
        assert code == ErrorCode.REBALANCE_IN_PROGRESS
        await first.join()
        assert first.members == [first.member_id]


async def test_a_stopping_broker_sends_those_who_wait_away() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        first, second, third = Reader(broker), Reader(broker), Reader(broker)
        await first.settle()
        second.send_join()
        second.member_id = second.client.answer().member_id
        second.send_join()
        await first.join()
        second.take(second.client.answer())
        second.send_sync()
        broker.engine.groups.stop()
        assert second.client.answer().error_code == ErrorCode.NOT_COORDINATOR
        assert await first.heartbeat() == ErrorCode.NOT_COORDINATOR
        third.send_join()
        assert third.client.answer().error_code == ErrorCode.NOT_COORDINATOR
        await broker.create("t")
        assert await first.commit(1) == ErrorCode.NOT_COORDINATOR


# --- restarts -------------------------------------------------------------------------------------


async def test_a_restart_keeps_offsets_generations_and_assignments() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, **NO_DELAY) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(42) == 0
    async with memory_broker(storage, **NO_DELAY) as broker:
        assert await committed(broker) == 42
        reader.client = broker.client()
        assert await reader.heartbeat() == 0
        assert await reader.sync() == f"for {reader.member_id}".encode()
        assert await reader.commit(43) == 0
        assert await committed(broker) == 43
        await asyncio.sleep(10.01)  # the session began anew with the broker
        assert await reader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_killed_broker_has_lost_no_acknowledged_commit() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, **NO_DELAY) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        for offset in range(20):
            assert await reader.commit(offset) == 0
        after_kill = storage.copy()
    after_kill.kill()
    async with memory_broker(after_kill, **NO_DELAY) as broker:
        assert await committed(broker) == 19


async def test_with_flushes_first_power_may_fail_after_any_acknowledged_commit() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, log_flush_policy="group", **NO_DELAY) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        reader.send_commit(7)
        assert reader.client.answers() == []  # the flusher has not been there yet
        assert (await reader.client.receive()).topics[0].partitions[0].error_code == 0
        dark = storage.copy()
    dark.lose_power()
    async with memory_broker(dark, log_flush_policy="group", **NO_DELAY) as broker:
        assert await committed(broker) == 7
        reader.client = broker.client()
        assert await reader.heartbeat() == 0


async def test_what_cannot_be_read_is_said_and_the_rest_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, **NO_DELAY) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(5) == 0
        home = partition_for(GROUP, 3)
        strange = [
            (0, b"\x00\x01broken", b"value", ()),
            (0, None, b"no key", ()),
            (0, b"\x00\x0b\x00\x07readers", b"a group of another kind", ()),
        ]
        broker.engine.partitions.append(OFFSETS_TOPIC, home, build_batch(strange), internal=True)
        assert await reader.commit(6) == 0
    with caplog.at_level(logging.WARNING):
        async with memory_broker(storage, **NO_DELAY) as broker:
            assert await committed(broker) == 6
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert f"{OFFSETS_TOPIC}-{home}" in said
    assert "left out" in said
    assert "1 records of other kinds of groups" in said


async def test_clients_may_not_write_facts_about_groups() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        client = broker.client()
        await Reader(broker).find()
        request = produce(batch(b"forged"), topic=OFFSETS_TOPIC)
        answer = await client.ask(ApiKey.PRODUCE, 9, request)
        assert produced(answer).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# --- a log that refuses ---------------------------------------------------------------------------


async def test_a_full_disk_refuses_commits_and_plans_and_heals() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage, **NO_DELAY) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(1) == 0
        storage.capacity = storage.used
        assert await reader.commit(2) == ErrorCode.NOT_COORDINATOR
        assert await committed(broker) == 1
        await reader.join()
        reader.send_sync()
        assert reader.client.answer().error_code == ErrorCode.NOT_COORDINATOR
        storage.capacity = None
        await broker.engine.disk.online()
        await reader.join()
        await reader.sync()
        assert await reader.commit(3) == 0


# --- topics come and go ---------------------------------------------------------------------------


async def test_offsets_of_a_deleted_topic_are_gone_for_its_successor() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        await broker.create("t")
        await broker.create("u")
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(42) == 0
        assert await reader.commit(7, topic="u") == 0
        request = DeleteTopicsRequest([DeleteTopicState("t")])
        await broker.client().ask(ApiKey.DELETE_TOPICS, 6, request)
        assert await reader.commit(43) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await broker.create("t")
        assert await committed(broker) == -1
        assert await committed(broker, "u") == 7


async def test_an_offset_of_an_earlier_topic_of_the_name_is_no_offset() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        topic_id = await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        assert await reader.commit(42) == 0
        # As if the tombstone had been lost: the position names another topic's id.
        offsets = broker.engine.groups._host.coordinator(GROUP).offsets._groups[GROUP]["t"]
        offsets[0] = type(offsets[0])(offset=42, topic_id=UUID(int=topic_id.int ^ 1))
        assert await committed(broker) == -1
        everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
        answer = await broker.client().ask(ApiKey.OFFSET_FETCH, 10, everything)
        assert answer.groups[0].topics == []


async def test_without_the_offsets_topic_there_are_no_groups() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        await reader.commit(1)
        await broker.engine.topic_admin.delete_topics([(OFFSETS_TOPIC, None)])
        assert await reader.heartbeat() == ErrorCode.NOT_COORDINATOR
        reader.member_id, reader.generation = "", -1
        await reader.settle()
        assert await committed(broker) == -1


async def test_offsets_expire_by_themselves() -> None:
    short: dict[str, Any] = {
        "offsets_retention_minutes": "1",
        "offsets_retention_check_interval_ms": "10000",
    }
    async with memory_broker(**NO_DELAY, **short) as broker:
        await broker.create("t")
        reader = Reader(broker)
        await reader.settle()
        await reader.commit(42)
        await reader.leave()
        await asyncio.sleep(59)
        assert await committed(broker) == 42
        await asyncio.sleep(12)
        assert await committed(broker) == -1
        assert (await described(broker)).group_state == "Dead"


# --- deleting -------------------------------------------------------------------------------------


async def test_groups_and_offsets_are_deleted_on_request() -> None:
    async with memory_broker(**NO_DELAY) as broker:
        await broker.create("t")
        await broker.create("u")
        reader = Reader(broker)
        await reader.settle()
        await reader.commit(1)
        await reader.commit(2, topic="u")
        part = [OffsetDeleteRequestPartition(0)]
        topics = [OffsetDeleteRequestTopic(name, part) for name in ("t", "u", "v")]
        client = broker.client()
        answer = await client.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(GROUP, topics))
        assert [one.partitions[0].error_code for one in answer.topics] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        request = DeleteGroupsRequest([GROUP, "nobody", GROUP])
        answer = await client.ask(ApiKey.DELETE_GROUPS, 2, request)
        assert [(one.group_id, one.error_code) for one in answer.results] == [
            (GROUP, ErrorCode.NON_EMPTY_GROUP),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        await reader.leave()
        answer = await client.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([GROUP]))
        assert answer.results[0].error_code == 0
        assert await committed(broker) == -1


async def test_what_members_of_all_groups_bring_is_bounded() -> None:
    """Two thousand groups with half a megabyte each took a gigabyte."""

    async with memory_broker(group_initial_rebalance_delay_ms="0") as broker:
        await broker.engine.groups.prepare()
        groups = broker.engine.groups
        groups._memory = MemberMemory(lambda: bytes_held(groups._host.groups()), 1024 * 1024)
        codes = []
        for number in range(40):
            client = broker.client()
            request = JoinGroupRequest(
                group_id=f"g{number}",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", bytes(100_000))],
            )
            codes.append((await client.ask(ApiKey.JOIN_GROUP, 3, request)).error_code)
        assert codes == [0] * 10 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 30
        assert bytes_held(groups._host.groups()) <= 1024 * 1024
        # Members of ordinary size are served.
        await Reader(broker).join()
        # And when those that brought much have gone, there is room again.
        await asyncio.sleep(40)
        answer = await broker.client().ask(ApiKey.JOIN_GROUP, 3, request)
        assert answer.error_code == 0
