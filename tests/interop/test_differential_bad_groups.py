"""Nonsense sent to groups: Millpond refuses what Kafka refuses, with the same codes, and is unharmed.

Malformed subscriptions and plans, members that were put out and commit all the same, epochs that never were,
acknowledgements of records that nobody was given.
"""

import uuid
from typing import Any

import pytest

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from millpond.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millpond.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from millpond.wire.kafka.messages.heartbeat import HeartbeatRequest
from millpond.wire.kafka.messages.leave_group import MemberIdentity
from millpond.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from millpond.wire.kafka.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from millpond.wire.kafka.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from millpond.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.interop.peers import Peer
from tests.interop.telling import tell_both
from tests.interop.test_differential import batch, produce_request
from tests.interop.test_differential_groups import (
    SUBSCRIPTION,
    GroupTeller,
    Tell,
    _offset_delete,
    tell,
)
from tests.support.kafka.wire_client import WireClient

__all__ = ["tell"]

NONSENSE = {
    "nothing": b"",
    "one byte": b"\x00",
    "a version alone": b"\x00\x00",
    "a version to come": b"\x7f\xff" + SUBSCRIPTION[2:],
    "a version before all": b"\xff\xfe" + SUBSCRIPTION[2:],
    "more than it needs": SUBSCRIPTION + b"more" * 100,
}

# Kafka 4.3 never answers the join of a member with one of these, and throws in its coordinator.
WORSE = {
    "two thousand million topics": b"\x00\x00\x7f\xff\xff\xff",
    "less than no topics": b"\x00\x00\xff\xff\xff\xfe",
    "a name that is too long": b"\x00\x00\x00\x00\x00\x01\x7f\xfft",
}


@pytest.mark.parametrize("what", NONSENSE)
def test_members_whose_subscription_is_nonsense(tell: Tell, topic: str, what: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        teller.create(topic)
        member = teller.member("odd", topic, protocols={"range": NONSENSE[what]})
        mine = {"generation": member.generation_id, "member_id": member.member_id}
        teller.sync("its plan, again", topic, member, plan={member.member_id: NONSENSE[what]})
        teller.heartbeat("odd", topic, member)
        teller.describe("odd", topic)
        teller.commit("odd", topic, topic, **mine)
        _offset_delete(teller, "odd", topic, topic)
        modern = ConsumerGroupHeartbeatRequest(
            topic,
            member_id=str(uuid.UUID(int=7)),
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        if what not in ("a version to come", "more than it needs"):
            teller.ask("a newer member", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, modern)
        teller.heartbeat("still there", topic, member)
        teller.leave("odd", topic, MemberIdentity(member.member_id))
        sane = teller.member("sane", topic)
        teller.heartbeat("sane", topic, sane)
        teller.fetch("what was committed", topic, {topic: [0]})

    tell(chapter)


@pytest.mark.parametrize("what", WORSE)
def test_members_that_even_kafka_cannot_answer(broker: Peer, topic: str, what: str) -> None:
    if not broker.is_millpond:
        pytest.skip("that is why")
    with WireClient(broker.port) as link:
        teller = GroupTeller(link)
        teller.create(topic)
        member = teller.member("odd", topic, protocols={"range": WORSE[what]})
        assert teller.heartbeat("odd", topic, member).error_code == 0
        mine = {"generation": member.generation_id, "member_id": member.member_id}
        committed = teller.commit("odd", topic, topic, **mine)
        assert committed.topics[0].partitions[0].error_code == 0
        # Nobody knows what it reads, so nothing that it may read is taken away.
        _offset_delete(teller, "odd", topic, topic)
        (deleted, _) = teller.answers["offsets deleted: odd"]["topics"]
        refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert deleted["partitions"][0]["error_code"] == refused


def test_a_member_whose_session_is_over(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        teller.create(topic)
        member = teller.member("slow", topic, session_timeout_ms=6_000)
        mine = {"generation": member.generation_id, "member_id": member.member_id}
        teller.commit("in time", topic, topic, **mine)

        def is_empty() -> bool:
            request = DescribeGroupsRequest([topic])
            (found,) = teller.link.ask(ApiKey.DESCRIBE_GROUPS, 5, request).groups
            return bool(found.group_state == "Empty")

        teller.until("it is put out", is_empty)
        teller.heartbeat("too late", topic, member)
        teller.sync("too late", topic, member)
        teller.commit("too late", topic, topic, **mine, positions={0: 99})
        teller.join("too late", topic, member_id=member.member_id)
        teller.leave("too late", topic, MemberIdentity(member.member_id))
        teller.describe("empty", topic)
        teller.fetch("what was committed in time", topic, {topic: [0]})

    tell(chapter)


class ModernTeller(GroupTeller):
    """With the words of KIP-848 and KIP-932."""

    def beat(self, label: str, group: str, member: str, epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group, member, epoch, **fields)
        return self.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    def shared(self, label: str, group: str, member: str, epoch: int, **fields: Any) -> Any:
        request = ShareGroupHeartbeatRequest(group, member, epoch, **fields)
        return self.ask(label, ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)


def tell_modern(broker: Peer, kafka: Peer, chapter: Any) -> None:
    tell_both(broker, kafka, ModernTeller, chapter)


def test_heartbeats_that_make_no_sense(broker: Peer, kafka: Peer, topic: str) -> None:
    ann, bob, nobody = (str(uuid.UUID(int=number)) for number in (1, 2, 3))

    def chapter(teller: ModernTeller) -> None:
        topic_id = teller.create(topic)
        joins: dict[str, Any] = {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        }
        teller.beat("no group", "", ann, 0, **joins)
        teller.beat("no member", topic, "", 0, **joins)
        teller.beat("no time", topic, ann, 0, **{**joins, "rebalance_timeout_ms": -1})
        teller.beat("no topics", topic, ann, 0, **{**joins, "subscribed_topic_names": None})
        teller.beat(
            "nothing said of what it has", topic, ann, 0, **{**joins, "topic_partitions": None}
        )
        teller.beat("an empty rack", topic, ann, 0, **joins, rack_id="")
        teller.beat("an empty instance", topic, ann, 0, **joins, instance_id="")
        teller.beat("no such assignor", topic, ann, 0, **joins, server_assignor="no")
        teller.beat("a bad pattern", topic, ann, 0, **joins, subscribed_topic_regex="((((")
        teller.beat("an epoch before all", topic, ann, -3)
        teller.beat("a static leave of nobody", topic, ann, -2, instance_id="who")
        teller.beat("a leave of nobody", topic, nobody, -1)
        teller.beat("a member of no group", f"{topic}-no", ann, 5)
        teller.beat("well", topic, ann, 0, **joins)
        teller.until(
            "it has its partition",
            lambda: bool(
                (
                    answer := teller.link.ask(
                        ApiKey.CONSUMER_GROUP_HEARTBEAT,
                        1,
                        ConsumerGroupHeartbeatRequest(topic, ann, epoch_of(teller, topic, ann)),
                    )
                ).error_code
                == 0
                and answer.member_epoch > 0
                and members(teller, topic)[ann].assignment.topic_partitions
            ),
        )
        epoch = epoch_of(teller, topic, ann)
        teller.beat("an epoch to come", topic, ann, epoch + 5)
        teller.beat("an unknown member", topic, nobody, 1)
        teller.beat("a static leave without a name", topic, ann, -2)
        for label, generation, who in (
            ("mine", epoch, ann),
            ("an epoch ago", epoch - 1, ann),
            ("an epoch to come", epoch + 1, ann),
            ("nobody's", epoch, nobody),
            ("without an epoch", -1, ""),
        ):
            for version in (8, 9, 10):
                say = {"topic_id": topic_id} if version >= 10 else {}
                name = "" if version >= 10 else topic
                member = {"generation": generation, "member_id": who}
                teller.commit(label, topic, name, version, **member, **say)
            asked = [OffsetFetchRequestTopics(topic, partition_indexes=[0])]
            group = OffsetFetchRequestGroup(topic, who or None, generation, asked)
            request = OffsetFetchRequest(groups=[group])
            teller.ask(label, ApiKey.OFFSET_FETCH, 9, request)
        teller.ask("the classic way", ApiKey.HEARTBEAT, 4, HeartbeatRequest(topic, epoch, ann))
        teller.shared("the shared way", topic, bob, 0, subscribed_topic_names=[topic])
        teller.beat("leaves", topic, ann, -1)
        teller.beat("has left", topic, ann, epoch)
        teller.fetch("what was committed", topic, {topic: [0]})

    tell_modern(broker, kafka, chapter)


def test_sharing_that_makes_no_sense(broker: Peer, kafka: Peer, topic: str) -> None:
    ann, nobody = (str(uuid.UUID(int=number)) for number in (11, 13))

    def chapter(teller: ModernTeller) -> None:
        topic_id = teller.create(topic)

        def write() -> int:
            request = produce_request(topic, 0, batch([b"a", b"b", b"c"]))
            answer = teller.link.ask(ApiKey.PRODUCE, 9, request)
            return int(answer.responses[0].partition_responses[0].error_code)

        teller.shared("no group", "", ann, 0, subscribed_topic_names=[topic])
        teller.shared("no member", topic, "", 0, subscribed_topic_names=[topic])
        teller.shared("no topics", topic, ann, 0)
        teller.shared("an epoch before all", topic, ann, -2)
        # Not here: a member of no group. Kafka says that there is no such group; we, who do not store
        # members, must say that we do not know the member, so that it joins again after our restart.
        # Its epoch and when it gets its first partition are each broker's own.
        well = ShareGroupHeartbeatRequest(topic, ann, 0, subscribed_topic_names=[topic])
        joined = teller.link.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, well)
        assert joined.error_code == 0
        teller.shared("an unknown member", topic, nobody, 4)
        teller.shared("an epoch to come", topic, ann, 99)
        teller.join("the classic way", topic)
        beat = ConsumerGroupHeartbeatRequest(
            topic,
            nobody,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        teller.ask("the newer way", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat)

        def fetch(epoch: int) -> Any:
            request = ShareFetchRequest(
                topic,
                ann,
                epoch,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                max_records=100,
                batch_size=100,
                topics=[FetchTopic(topic_id, [FetchPartition(0)])] if epoch >= 0 else [],
            )
            return teller.link.ask(ApiKey.SHARE_FETCH, 2, request)

        def acquired() -> list[tuple[int, int]]:
            teller.link.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_again)
            return [
                (one.first_offset, one.last_offset)
                for found in fetch(0).responses
                for part in found.partitions
                for one in part.acquired_records
            ]

        beat_again = ShareGroupHeartbeatRequest(topic, ann, joined.member_epoch)
        teller.answers["no session"] = fetch(7).error_code
        teller.answers["the end of no session"] = fetch(-1).error_code
        teller.until("the group has begun, at the end", lambda: fetch(0).error_code == 0)
        teller.until("records", lambda: write() == 0 and acquired() != [])
        for number, (label, first, last, kinds) in enumerate(
            (
                ("backwards", 2, 0, [1]),
                ("of an unknown kind", 0, 0, [9]),
                ("too many kinds", 0, 2, [1, 1, 1, 1]),
                ("what was never written", 500, 510, [1]),
            )
        ):
            batches = [AcknowledgementBatch(first, last, kinds)]
            parts = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0, batches)])]
            said = ShareAcknowledgeRequest(topic, ann, number + 1, topics=parts)
            found = teller.link.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, said)
            codes = [part.error_code for one in found.responses for part in one.partitions]
            teller.answers[f"acknowledge: {label}"] = (found.error_code, codes)
        teller.shared("leaves", topic, ann, -1)

    tell_modern(broker, kafka, chapter)


def members(teller: GroupTeller, group: str) -> dict[str, Any]:
    request = ConsumerGroupDescribeRequest([group])
    (found,) = teller.link.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
    return {one.member_id: one for one in found.members}


def epoch_of(teller: GroupTeller, group: str, member: str) -> int:
    return int(members(teller, group)[member].member_epoch)
