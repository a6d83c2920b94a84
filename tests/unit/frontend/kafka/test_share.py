"""Share groups through real sessions and a real engine: who gets which record, how often, until when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from millpond.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from millpond.wire.kafka.messages.list_groups import ListGroupsRequest
from millpond.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from millpond.wire.kafka.messages.share_fetch import FetchPartition, FetchTopic
from millpond.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    memory_broker,
    produce,
    produced,
    records_of,
)
from tests.support.kafka.share_reader import (
    ACCEPT,
    GAP,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    ShareReader,
    configure,
    taken,
    values,
)
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import virtual_loop

STATE = {"share_coordinator_state_topic_num_partitions": "1"}
LOCK_S = 30


async def write(broker: MemoryBroker, *texts: str, topic: str = "t", partition: int = 0) -> None:
    """All of them in one batch."""
    client = broker.client()
    data = batch(*(text.encode() for text in texts))
    client.send(ApiKey.PRODUCE, 9, produce(data, topic=topic, partition=partition))
    assert produced(client.answer()).error_code == 0


@asynccontextmanager
async def pool(
    *texts: str, storage: FaultyStorage | None = None, **settings: str
) -> AsyncIterator[tuple[MemoryBroker, UUID]]:
    """A broker whose topic t holds these records, and a group that begins with the first of them."""
    async with memory_broker(storage, **STATE) as broker:
        topic_id = await broker.create("t")
        for text in texts:
            await write(broker, text)
        await configure(broker, share_auto_offset_reset="earliest", **settings)
        yield broker, topic_id


async def test_members_share_the_records_of_one_partition() -> None:
    async with pool("a", "b", "c") as (broker, topic_id):
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        assert await ann.join() == {topic_id: [0]}
        assert await bob.join() == {topic_id: [0]}

        first = await ann.fetch(records_max=2)
        assert (taken(first), values(first)) == ([(0, 1), (1, 1)], [b"a", b"b"])
        assert first.acquisition_lock_timeout_ms == LOCK_S * 1000
        second = await bob.fetch()
        assert (taken(second), values(second)) == ([(2, 1)], [b"c"])
        assert await ann.take() == []


async def test_an_accepted_record_is_done_and_a_released_one_comes_again() -> None:
    async with pool("a", "b", "c") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert len(await ann.take()) == 3

        assert await ann.take((0, 2, [ACCEPT, RELEASE, REJECT])) == [(1, 2)]
        assert await ann.take((1, 1, [ACCEPT])) == []
        assert await ann.take() == []


async def test_a_lock_that_ends_gives_the_record_to_whoever_waits() -> None:
    async with pool("a") as (broker, topic_id):
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        assert await ann.take() == [(0, 1)]
        began = virtual_loop().now

        assert await bob.take(wait_ms=120_000) == [(0, 2)]

        assert virtual_loop().now - began == pytest.approx(LOCK_S, abs=0.1)
        assert await ann.say((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert await bob.say((0, 0, [ACCEPT])) == ErrorCode.NONE


async def test_a_lock_can_be_renewed() -> None:
    async with pool("a") as (broker, topic_id):
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        await ann.take()
        await asyncio.sleep(LOCK_S - 1)

        assert await ann.say((0, 0, [RENEW]), is_renew_ack=True) == ErrorCode.NONE

        assert await bob.take(wait_ms=(LOCK_S - 2) * 1000) == []
        assert await bob.take(wait_ms=5_000) == [(0, 2)]


async def test_renewing_can_be_forbidden() -> None:
    async with pool("a", share_renew_acknowledge_enable="false") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        await ann.take()
        assert await ann.say((0, 0, [RENEW]), is_renew_ack=True) == ErrorCode.INVALID_REQUEST


async def test_a_reader_waits_for_new_records_and_for_ones_given_back() -> None:
    async with pool("a") as (broker, topic_id):
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        await ann.take()
        bob.client.send(ApiKey.SHARE_FETCH, 2, bob.request(wait_ms=20_000))
        assert await ann.say((0, 0, [RELEASE])) == ErrorCode.NONE
        assert taken(await bob.client.receive()) == [(0, 2)]

        cy = ShareReader(broker, "cy", topic_id)
        cy.client.send(ApiKey.SHARE_FETCH, 2, cy.request(wait_ms=20_000))
        await write(broker, "b")
        assert taken(await cy.client.receive()) == [(1, 1)]


async def test_a_record_is_given_up_after_so_many_deliveries_and_kept_as_a_dead_letter() -> None:
    async with pool("poison", "fine", "bad") as (broker, topic_id):
        await configure(
            broker,
            share_delivery_count_limit="2",
            errors_deadletterqueue_topic_name="dlq.pool",
        )
        await broker.create("dlq.pool")
        ann = ShareReader(broker, "ann", topic_id)
        await ann.take()
        assert await ann.take((0, 2, [RELEASE, ACCEPT, REJECT])) == [(0, 2)]
        assert await ann.take((0, 0, [RELEASE])) == []

        partition = broker.engine.partitions.partition("dlq.pool", 0)
        data = broker.engine.partitions.read_now(partition, 0, bytes_max=1 << 20).records
        letters = records_of(data)
        assert [letter.value for letter in letters] == [b"bad", b"poison"]
        assert dict(letters[1].headers)["__dlq.errors.offset"] == b"0"
        assert dict(letters[1].headers)["__dlq.errors.delivery.count"] == b"2"
        assert dict(letters[0].headers)["__dlq.errors.group"] == GROUP.encode()


async def test_one_wrong_word_undoes_the_whole_acknowledgement() -> None:
    async with pool("a", "b") as (broker, topic_id):
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        await ann.take()
        await bob.take()

        assert await bob.say((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert await ann.say((0, 5, [ACCEPT])) == ErrorCode.INVALID_REQUEST
        assert await ann.say((0, 1, [ACCEPT, 9])) == ErrorCode.INVALID_REQUEST
        assert await ann.say((1, 0, [ACCEPT])) == ErrorCode.INVALID_REQUEST
        assert await ann.say((0, 1, [1, 1, 1])) == ErrorCode.INVALID_REQUEST
        assert await ann.say((1, 1, [1]), (0, 0, [1])) == ErrorCode.INVALID_REQUEST
        assert await ann.say((0, 1, [])) == ErrorCode.INVALID_REQUEST
        assert await ann.say((0, 1, [ACCEPT])) == ErrorCode.NONE


async def test_a_session_goes_on_with_its_next_epoch_only() -> None:
    async with pool("a") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)

        async def code(**fields: Any) -> int:
            answer = await ann.client.ask(ApiKey.SHARE_FETCH, 2, ann.request(**fields))
            return int(answer.error_code)

        assert await code(share_session_epoch=4) == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await ann.say((0, 0, [ACCEPT]), epoch=3) == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await ann.say((0, 0, [1]), epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        first = ann.request((0, 0, [ACCEPT]))
        answer = await ann.client.ask(ApiKey.SHARE_FETCH, 2, first)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        await ann.take()
        assert await code(share_session_epoch=2) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ann.take((0, 0, [GAP])) == []


async def test_the_end_of_a_session_or_of_its_connection_gives_records_back() -> None:
    async with pool("a") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert await ann.take() == [(0, 1)]
        await ann.fetch(share_session_epoch=-1)

        bob = ShareReader(broker, "bob", topic_id)
        assert await bob.take() == [(0, 2)]
        bob.client.session.connection_lost()

        cy = ShareReader(broker, "cy", topic_id)
        assert await cy.take() == [(0, 3)]


async def test_an_unknown_topic_is_said_and_the_rest_is_served() -> None:
    async with pool("a") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        ann.topic_id = UUID(int=77)
        (one,) = (await ann.fetch()).responses
        assert one.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_words_of_records_that_were_never_handed_out() -> None:
    async with pool() as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert await ann.take() == []
        assert await ann.say((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        await write(broker, "a")
        assert await ann.take() == [(0, 1)]
        assert await ann.say((7, 7, [ACCEPT])) == ErrorCode.INVALID_REQUEST


async def delete(broker: MemoryBroker, topic: str) -> None:
    await broker.engine.topic_admin.delete_topics([(topic, None)])


async def test_what_is_said_of_records_of_a_deleted_topic_is_said_of_an_unknown_one() -> None:
    async with pool("a") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert await ann.take() == [(0, 1)]
        await delete(broker, "t")
        assert await ann.say((0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_ID
        (one,) = (await ann.fetch((0, 0, [ACCEPT]))).responses
        codes = one.partitions[0].error_code, one.partitions[0].acknowledge_error_code
        assert codes == (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_a_deleted_topic_does_not_make_its_reader_ask_without_end() -> None:
    """It is told once, at once; from then on its requests wait as if nothing had come."""

    async with pool() as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert await ann.take() == []
        await delete(broker, "t")
        clock = broker.engine.runtime.clock
        times = []
        for _each in range(3):
            began = clock.monotonic_ms()
            (one,) = (await ann.fetch(wait_ms=500)).responses
            assert one.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
            times.append(clock.monotonic_ms() - began)
        assert times[0] < 500 <= min(times[1:])


async def test_a_deleted_topic_is_no_reason_to_hurry_while_another_may_have_records() -> None:
    async with pool() as (broker, topic_id):
        other_id = await broker.create("u")
        ann = ShareReader(broker, "ann", topic_id)
        assert await ann.take() == []
        ann.topic_id = other_id
        wanted = [FetchTopic(topic_id=other_id, partitions=[FetchPartition(0, [])])]
        assert await ann.take(topics=wanted) == []
        await delete(broker, "t")
        await ann.fetch(wait_ms=60_000)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(ann.fetch(wait_ms=60_000))
            await asyncio.sleep(1)
            assert not waiting.done()
            await write(broker, "news", topic="u")
        codes = {
            topic.topic_id: topic.partitions[0].error_code for topic in waiting.result().responses
        }
        assert codes == {topic_id: ErrorCode.UNKNOWN_TOPIC_ID, other_id: ErrorCode.NONE}


async def test_a_limit_is_rounded_up_to_a_batch_unless_it_is_exact() -> None:
    async with pool() as (broker, topic_id):
        await write(broker, *(str(number) for number in range(10)))
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        assert len(await ann.take(records_max=3, share_acquire_mode=1)) == 3
        assert len(await bob.take(records_max=3)) == 7


async def test_a_group_holds_no_more_records_than_it_may() -> None:
    async with pool("a", "b", "c", share_partition_max_record_locks="2") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert len(await ann.take()) == 2
        assert await ann.take() == []
        assert await ann.take((0, 0, [ACCEPT])) == [(2, 1)]


async def test_what_was_said_outlives_the_broker_and_what_was_held_does_not() -> None:
    storage = FaultyStorage()
    async with pool("a", "b", "c", storage=storage) as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        await ann.take()
        assert await ann.say((0, 1, [ACCEPT, RELEASE])) == ErrorCode.NONE
    async with memory_broker(storage, **STATE) as broker:
        bob = ShareReader(broker, "bob", topic_id)
        assert await bob.take() == [(1, 2), (2, 1)]


async def test_snapshots_replace_updates_and_the_rest_is_cut() -> None:
    storage = FaultyStorage()
    few = {"share_coordinator_snapshot_update_records_per_snapshot": "3"} | STATE
    texts = [str(number) for number in range(150)]
    async with memory_broker(storage, **few) as broker:
        topic_id = await broker.create("t")
        await configure(broker, share_auto_offset_reset="earliest")
        await write(broker, *texts)
        ann = ShareReader(broker, "ann", topic_id)
        assert len(await ann.take()) == 150
        for offset in range(1, 149):
            word = ACCEPT if offset % 3 else RELEASE
            assert await ann.say((offset, offset, [word])) == ErrorCode.NONE
        broker.engine.share.prune()
        log = broker.engine.partitions.partition("__share_group_state", 0).log
        assert log.end_offset - log.start_offset == 1
    async with memory_broker(storage, **few) as broker:
        bob = ShareReader(broker, "bob", topic_id)
        again = [(offset, 2) for offset in range(3, 149, 3)]
        assert await bob.take() == [(0, 1), *again, (149, 1)]


async def test_a_group_that_begins_with_the_latest_misses_nothing_after_its_first_member() -> None:
    async with memory_broker(None, **STATE) as broker:
        topic_id = await broker.create("t")
        await write(broker, "before")
        ann = ShareReader(broker, "ann", topic_id)
        await ann.join()
        await write(broker, "after")
        assert values(await ann.fetch()) == [b"after"]


async def test_a_group_may_begin_with_what_is_not_too_old() -> None:
    async with memory_broker(None, **STATE) as broker:
        topic_id = await broker.create("t")
        now = broker.clock.now_ms()
        for age_ms in (7_200_000, 60_000):
            data = batch(b"x", timestamp_ms=now - age_ms)
            broker.engine.partitions.append("t", 0, bytearray(data))
        await configure(broker, share_auto_offset_reset="by_duration:PT1H")
        assert await ShareReader(broker, "ann", topic_id).take() == [(1, 1)]


async def test_what_the_log_lost_is_not_waited_for() -> None:
    async with pool("a", "b", "c") as (broker, topic_id):
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        assert len(await ann.take(records_max=1)) == 1
        broker.engine.partitions.delete_records("t", 0, 2)
        assert await bob.take() == [(2, 1)]
        assert await ann.say((0, 0, [ACCEPT])) == ErrorCode.NONE


# --- members ---------------------------------------------------------------------------------------


async def test_members_come_go_and_fall_silent() -> None:
    async with memory_broker(None, **STATE) as broker:
        topic_id = await broker.create("t", partitions=2)
        ann, bob = (ShareReader(broker, name, topic_id) for name in ("ann", "bob"))
        assert await ann.join() == {topic_id: [0, 1]}
        assert await bob.join() == {topic_id: [1]}
        told = await ann.heartbeat()
        assert told.assignment.topic_partitions[0].partitions == [0]
        assert (await ann.heartbeat()).assignment is None
        assert told.heartbeat_interval_ms == 5_000

        assert (await bob.heartbeat(epoch=-1)).member_epoch == -1
        assert (await bob.heartbeat(epoch=3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await ann.heartbeat()
        assert (await ann.heartbeat(epoch=99)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        await asyncio.sleep(46)
        assert await bob.join() == {topic_id: [0, 1]}
        assert (await ann.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_new_partitions_are_shared_too() -> None:
    async with memory_broker(None, **STATE) as broker:
        ann = ShareReader(broker, "ann", UUID(int=0))
        assert await ann.join("later") == {}
        topic_id = await broker.create("later", partitions=2)
        told = await ann.heartbeat()
        assert told.assignment.topic_partitions[0].partitions == [0, 1]
        assert told.assignment.topic_partitions[0].topic_id == topic_id


@pytest.mark.parametrize(
    ("name", "epoch", "topics"),
    [("", 0, ["t"]), ("ann", -2, None), ("ann", 0, None), ("ann", 0, [])],
)
async def test_a_heartbeat_that_makes_no_sense_is_refused(
    name: str, epoch: int, topics: list[str] | None
) -> None:
    async with memory_broker(None, **STATE) as broker:
        reader = ShareReader(broker, name, UUID(int=0))
        answer = await reader.heartbeat(topics, epoch=epoch)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        client = broker.client()
        listed = await client.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert listed.groups == []


async def test_sense_is_asked_for_before_whose_group_it_is() -> None:
    """A group without a name may be one that only stores offsets; a sharer is told about the name."""

    async with memory_broker(None, **STATE) as broker:
        await broker.create("t")
        client = broker.client()
        await client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=""))
        position = OffsetCommitRequestPartition(0, 1)
        commit = OffsetCommitRequest(
            "", topics=[OffsetCommitRequestTopic("t", partitions=[position])]
        )
        stored = await client.ask(ApiKey.OFFSET_COMMIT, 8, commit)
        assert stored.topics[0].partitions[0].error_code == ErrorCode.NONE
        nameless = ShareReader(broker, "ann", UUID(int=0), group="")
        answer = await nameless.heartbeat(["t"], epoch=0)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_a_full_group_takes_nobody() -> None:
    async with memory_broker(None, **STATE, group_share_max_size="1") as broker:
        topic_id = await broker.create("t")
        await ShareReader(broker, "ann", topic_id).join()
        answer = await ShareReader(broker, "bob", topic_id).heartbeat(["t"], epoch=0)
        assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# --- looking and administering ---------------------------------------------------------------------


async def test_a_group_is_described_listed_and_deleted() -> None:
    async with pool("a") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        await ann.join()
        client = broker.client()
        asked = ShareGroupDescribeRequest(group_ids=[GROUP, "nobody"])
        known, unknown = (await client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, asked)).groups
        assert (known.group_state, known.assignor_name) == ("Stable", "simple")
        (member,) = known.members
        assert member.assignment.topic_partitions[0].topic_name == "t"
        assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND

        delete = DeleteGroupsRequest(groups_names=[GROUP])
        (result,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, delete)).results
        assert result.error_code == ErrorCode.NON_EMPTY_GROUP
        await ann.heartbeat(epoch=-1)
        kind = ListGroupsRequest(types_filter=["share"])
        (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5, kind)).groups
        assert (listed.group_id, listed.group_type, listed.group_state) == (
            GROUP,
            "share",
            "Empty",
        )
        (result,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, delete)).results
        assert result.error_code == ErrorCode.NONE
        assert (await client.ask(ApiKey.LIST_GROUPS, 5, kind)).groups == []


async def test_offsets_are_described_altered_and_deleted() -> None:
    async with pool("a", "b", "c") as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        await ann.join()
        await ann.take()
        await ann.say((0, 0, [ACCEPT]), (2, 2, [ACCEPT]))
        client = broker.client()

        async def described(group: str = GROUP) -> Any:
            asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
            request = DescribeShareGroupOffsetsRequest(groups=[asked])
            answer = await client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request)
            return answer.groups[0]

        one = (await described()).topics[0].partitions[0]
        assert (one.start_offset, one.lag) == (1, 1)
        assert (await described("nobody")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

        where = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
        alter = AlterShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=[AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[where])],
        )
        answer = await client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, alter)
        assert answer.error_code == ErrorCode.NON_EMPTY_GROUP
        await ann.heartbeat(epoch=-1)
        answer = await client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, alter)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        bob = ShareReader(broker, "bob", topic_id)
        assert await bob.take() == [(0, 1), (1, 1), (2, 1)]

        forget = DeleteShareGroupOffsetsRequest(
            group_id=GROUP, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        )
        answer = await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, forget)
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert (await described()).topics == []


async def test_a_deleted_topic_takes_its_state_along() -> None:
    async with pool("a") as (broker, topic_id):
        await ShareReader(broker, "ann", topic_id).take()
        await broker.engine.topic_admin.delete_topics([("t", None)])
        assert list(broker.engine.share.list()) == []


async def test_a_classic_member_cannot_join_a_share_group() -> None:
    async with pool("a") as (broker, topic_id):
        await ShareReader(broker, "ann", topic_id).take()
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id="bob",
            protocol_type="consumer",
            protocols=protocols,
        )
        answer = await broker.client().ask(ApiKey.JOIN_GROUP, 9, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        # As Kafka answers.
        assert answer.member_id == ""


async def test_the_coordinator_of_share_state_is_found() -> None:
    async with memory_broker(None, **STATE) as broker:
        client = broker.client()
        request = FindCoordinatorRequest(
            key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"]
        )
        answer = await client.ask(ApiKey.FIND_COORDINATOR, 6, request)
        assert answer.coordinators[0].error_code == ErrorCode.NONE
        assert "__share_group_state" in broker.engine.metadata.image.topics


async def test_a_full_disk_refuses_what_a_member_says_and_forgets_nothing() -> None:
    storage = FaultyStorage()
    async with pool("a", "b", storage=storage) as (broker, topic_id):
        ann = ShareReader(broker, "ann", topic_id)
        assert len(await ann.take()) == 2
        storage.capacity = storage.used
        assert await ann.say((0, 0, [ACCEPT])) != ErrorCode.NONE
        storage.capacity = None
        await broker.engine.disk.online()
        assert await ann.say((0, 1, [ACCEPT, RELEASE])) == ErrorCode.NONE
        assert await ann.take() == [(1, 2)]
