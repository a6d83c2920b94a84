"""Groups: the same requests to Millpond and to Apache Kafka get the same answers.

Chapters as in ``test_differential``. Ids that the brokers make up are compared by where they come again:
the first one seen is #1, the next #2. Members and partitions have no order in Kafka's answers, so they are
sorted.
"""

import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.heartbeat import HeartbeatRequest
from millpond.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from millpond.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millpond.wire.kafka.messages.list_groups import ListGroupsRequest
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from millpond.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.interop.peers import Peer
from tests.interop.telling import tell_both
from tests.interop.test_differential import NO_TOPIC_ID, Teller
from tests.support.kafka.wire_client import WireClient

MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class GroupTeller(Teller):
    """One broker's side, with the words of groups."""

    def __init__(self, link: WireClient) -> None:
        super().__init__(link)
        self.seen: dict[str, str] = {}
        request = FindCoordinatorRequest(key="any")
        self.until(
            "there is a coordinator",
            lambda: link.ask(ApiKey.FIND_COORDINATOR, 3, request).error_code == 0,
        )

        # Kafka loads the partitions of __consumer_offsets one by one; so many names live in all of them.
        everywhere = DescribeGroupsRequest([str(number) for number in range(500)])
        self.until(
            "its groups are loaded",
            lambda: all(
                one.error_code == 0
                for one in link.ask(ApiKey.DESCRIBE_GROUPS, 5, everywhere).groups
            ),
        )

    def same(self, value: Any) -> Any:
        """An answer in which made-up ids are numbered and members sorted."""
        if isinstance(value, dict):
            return {name: self.same(content) for name, content in value.items()}
        if isinstance(value, list):
            told = [self.same(one) for one in value]
            return sorted(told, key=_sorting_key)
        if isinstance(value, bytes):
            return self.same(value.decode("latin-1"))
        if isinstance(value, str):
            return MADE_UP.sub(lambda found: self._number(found[0]), value)
        return value

    def _number(self, made_up: str) -> str:
        return self.seen.setdefault(made_up, f"#{len(self.seen) + 1}")

    # --- requests ---------------------------------------------------------------------------------

    def join(self, label: str, group: str, version: int = 9, **fields: Any) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=fields.pop("session_timeout_ms", 60_000),
            rebalance_timeout_ms=20_000,
            member_id=fields.pop("member_id", ""),
            group_instance_id=fields.pop("instance_id", None),
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name, metadata)
                for name, metadata in fields.pop("protocols", {"range": SUBSCRIPTION}).items()
            ],
        )
        assert not fields
        return self.ask(label, ApiKey.JOIN_GROUP, version, request)

    def sync(self, label: str, group: str, joined: Any, version: int = 5, **fields: Any) -> Any:
        plan = fields.pop("plan", {joined.member_id: b"all"})
        request = SyncGroupRequest(
            group_id=group,
            generation_id=fields.pop("generation", joined.generation_id),
            member_id=fields.pop("member_id", joined.member_id),
            group_instance_id=fields.pop("instance_id", None),
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocol_name=fields.pop("protocol", "range"),
            assignments=[SyncGroupRequestAssignment(one, part) for one, part in plan.items()],
        )
        assert not fields
        return self.ask(label, ApiKey.SYNC_GROUP, version, request)

    def heartbeat(
        self, label: str, group: str, joined: Any, version: int = 4, **fields: Any
    ) -> Any:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=fields.pop("generation", joined.generation_id),
            member_id=fields.pop("member_id", joined.member_id),
            group_instance_id=fields.pop("instance_id", None),
        )
        assert not fields
        return self.ask(label, ApiKey.HEARTBEAT, version, request)

    def leave(self, label: str, group: str, *members: MemberIdentity, version: int = 5) -> Any:
        request = LeaveGroupRequest(
            group_id=group, member_id=members[0].member_id, members=list(members)
        )
        return self.ask(label, ApiKey.LEAVE_GROUP, version, request)

    def member(self, label: str, group: str, **fields: Any) -> Any:
        """A member of a group that nobody else is in: joined and synced."""
        told = self.join(f"{label}: who am I", group, **fields)
        joined = self.join(f"{label}: I am", group, member_id=told.member_id, **fields)
        self.sync(f"{label}: my part", group, joined)
        return joined

    def commit(self, label: str, group: str, topic: str, version: int = 9, **fields: Any) -> Any:
        positions = fields.pop("positions", {0: 7})
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=fields.pop("generation", -1),
            member_id=fields.pop("member_id", ""),
            group_instance_id=fields.pop("instance_id", None),
            topics=[
                OffsetCommitRequestTopic(
                    topic,
                    fields.pop("topic_id", NO_TOPIC_ID),
                    [
                        OffsetCommitRequestPartition(
                            partition, offset, 3, fields.get("metadata", "so far")
                        )
                        for partition, offset in positions.items()
                    ],
                )
            ],
        )
        fields.pop("metadata", None)
        assert not fields
        return self.ask(label, ApiKey.OFFSET_COMMIT, version, request)

    def describe(self, label: str, *groups: str, version: int = 6) -> Any:
        request = DescribeGroupsRequest(list(groups), include_authorized_operations=True)
        return self.ask(label, ApiKey.DESCRIBE_GROUPS, version, request)

    def fetch(self, label: str, group: str, topics: dict[str, list[int]] | None) -> None:
        """Positions, asked for by name in every version that has names."""
        for version in self.versions(ApiKey.OFFSET_FETCH):
            if topics is None and version < 2:
                continue
            one = many = None
            if topics is not None:
                one = [OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
                many = [
                    OffsetFetchRequestTopics(name, NO_TOPIC_ID, parts)
                    for name, parts in topics.items()
                ]
            request = OffsetFetchRequest(
                group_id=group,
                topics=one,
                groups=[OffsetFetchRequestGroup(group, None, -1, many)],
                require_stable=True,
            )
            self.ask(label, ApiKey.OFFSET_FETCH, version, request)


# A consumer's subscription to topic "t", version 0.
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


@pytest.fixture
def tell(broker: Peer, kafka: Peer) -> Callable[[Callable[[GroupTeller], None]], None]:
    """Tell a chapter to both brokers and compare."""
    return lambda chapter: tell_both(broker, kafka, GroupTeller, chapter)


Tell = Callable[[Callable[[GroupTeller], None]], None]


def test_coordinators(tell: Tell) -> None:
    def chapter(teller: GroupTeller) -> None:
        for version in teller.versions(ApiKey.FIND_COORDINATOR):
            request = FindCoordinatorRequest(key="one", coordinator_keys=["one", "two", ""])
            teller.ask("a group's", ApiKey.FIND_COORDINATOR, version, request)
        for kind in (2, 3):
            request = FindCoordinatorRequest(key="g:t:0", key_type=kind, coordinator_keys=["g:t:0"])
            for version in (3, 5):
                label = f"of kind {kind}"
                teller.ask(label, ApiKey.FIND_COORDINATOR, version, request)

    tell(chapter)


def test_a_member_s_life_in_every_version(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        for version in teller.versions(ApiKey.JOIN_GROUP):
            group = f"{topic}-{version}"
            joined = teller.join("first", group, version)
            if version >= 4:
                joined = teller.join("with its id", group, version, member_id=joined.member_id)
            synced = min(version, 5)
            beat = min(version, 4)
            teller.heartbeat(f"before the plan, join v{version}", group, joined, beat)
            teller.sync(f"the plan, join v{version}", group, joined, synced)
            teller.sync(f"again, join v{version}", group, joined, synced)
            teller.heartbeat(f"alive, join v{version}", group, joined, beat)
            teller.describe(f"stable, join v{version}", group, version=min(version, 6))
            other = {"generation": joined.generation_id + 1}
            teller.heartbeat(f"ahead, join v{version}", group, joined, beat, **other)
            teller.sync(f"ahead, join v{version}", group, joined, synced, **other)
            stranger = {"member_id": "nobody"}
            teller.join("a stranger", group, version, **stranger)
            teller.heartbeat(f"a stranger, join v{version}", group, joined, beat, **stranger)
            teller.sync(f"a stranger, join v{version}", group, joined, synced, **stranger)
            who = MemberIdentity(joined.member_id)
            nobody = MemberIdentity("nobody")
            leave = min(version, 5)
            teller.leave(f"a stranger, join v{version}", group, nobody, version=leave)
            teller.leave(f"me, join v{version}", group, who, nobody, version=leave)
            teller.leave(f"me again, join v{version}", group, who, version=leave)
            teller.heartbeat(f"gone, join v{version}", group, joined, beat)
            teller.join("gone, again with the id", group, version, member_id=joined.member_id)
            teller.describe(f"empty, join v{version}", group, version=min(version, 6))

    tell(chapter)


def test_joins_that_are_refused(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        for version in (0, 4, 9):
            teller.join("no group", "", version)
            teller.join("session too short", topic, version, session_timeout_ms=5_999)
            teller.join("session too long", topic, version, session_timeout_ms=1_800_001)
            teller.join("no protocols", f"{topic}-none-{version}", version, protocols={})
            teller.join("no protocol type", f"{topic}-type-{version}", version, protocol_type="")
            teller.join("a member of no group", f"{topic}-no", version, member_id="nobody")
        joined = teller.member("one", topic)
        for version in (0, 4, 9):
            teller.join("another protocol", topic, version, protocols={"sticky": b""})
            teller.join("another type", topic, version, protocol_type="connect")
        teller.join("no protocols any more", topic, 9, member_id=joined.member_id, protocols={})
        for version in teller.versions(ApiKey.SYNC_GROUP):
            teller.sync("no group", "", joined, version)
            teller.sync("no such group", f"{topic}-no", joined, version)
            teller.sync("another protocol", topic, joined, version, protocol="sticky")
            teller.sync("another type", topic, joined, version, protocol_type="connect")
            teller.sync("no protocol", topic, joined, version, protocol=None)
            teller.sync("no type", topic, joined, version, protocol_type=None)
        for version in teller.versions(ApiKey.HEARTBEAT):
            teller.heartbeat("no group", "", joined, version)
            teller.heartbeat("no such group", f"{topic}-no", joined, version)
        for version in teller.versions(ApiKey.LEAVE_GROUP):
            nobody = MemberIdentity("nobody")
            teller.leave("no group", "", nobody, version=version)
            teller.leave("no such group", f"{topic}-no", nobody, version=version)

    tell(chapter)


def test_the_join_that_comes_again(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        told = teller.join("who am I", topic)
        joined = teller.join("I am", topic, member_id=told.member_id)
        again = teller.join("the answer was lost", topic, member_id=told.member_id)
        teller.sync("my part", topic, again)
        leads = teller.join("the leader again", topic, member_id=told.member_id)
        teller.sync("my new part", topic, leads, plan={})
        teller.sync("of the generation before", topic, joined)
        changed = teller.join(
            "another subscription", topic, member_id=told.member_id, protocols={"range": b"?"}
        )
        teller.sync("as before", topic, changed)
        teller.describe("now", topic)

    tell(chapter)


def test_two_members(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        first = teller.member("first", topic)
        told = teller.join("second, who am I", topic)
        with WireClient(teller.link._port) as link:
            second = GroupTeller(link)
            second.seen = teller.seen
            link.send(ApiKey.JOIN_GROUP, 9, _join_request(topic, told.member_id))
            teller.until(
                "a rebalance began",
                lambda: (
                    teller.link.ask(
                        ApiKey.HEARTBEAT,
                        4,
                        HeartbeatRequest(topic, first.generation_id, first.member_id),
                    ).error_code
                    != 0
                ),
            )
            teller.heartbeat("in a rebalance", topic, first)
            teller.sync("in a rebalance", topic, first)
            teller.describe("in a rebalance", topic)
            leader = teller.join("I too", topic, member_id=first.member_id)
            follower = link.receive().message
            teller.answers["the follower's join"] = teller._plain(follower)
            link.send(ApiKey.SYNC_GROUP, 5, _sync_request(topic, follower))
            teller.heartbeat("before the plan", topic, follower)
            teller.describe("before the plan", topic)
            plan = {leader.member_id: b"one half", follower.member_id: b"other half"}
            teller.sync("the plan", topic, leader, plan=plan)
            teller.answers["the follower's part"] = teller._plain(link.receive().message)
            teller.describe("stable", topic)
            teller.leave("the leader", topic, MemberIdentity(leader.member_id))
            last = teller.join("the follower alone", topic, member_id=follower.member_id)
            teller.sync("all", topic, last)

    tell(chapter)


def test_static_members(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        for version in (5, 7, 8, 9):
            group = f"{topic}-{version}"
            me: dict[str, Any] = {"instance_id": "mill"}
            first = teller.join("first", group, version, **me)
            teller.sync(f"plan, join v{version}", group, first, **me)
            second = teller.join("restarted", group, version, **me)
            teller.sync(f"my part again, join v{version}", group, second, plan={}, **me)
            teller.heartbeat(f"restarted, join v{version}", group, second, **me)
            teller.heartbeat(f"the old one, join v{version}", group, first, **me)
            teller.sync(f"the old one, join v{version}", group, first, **me)
            teller.join("the old one", group, version, member_id=first.member_id, **me)
            teller.heartbeat(f"an unknown one, join v{version}", group, second, instance_id="no")
            teller.describe(f"stable, join v{version}", group)
            old = MemberIdentity(first.member_id, "mill")
            teller.leave(f"the old one, join v{version}", group, old)
            gone = (MemberIdentity("", "mill"), MemberIdentity("", "no"), MemberIdentity("", None))
            teller.leave(f"by instance, join v{version}", group, *gone)

    tell(chapter)


def test_offsets_committed_and_fetched(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        topic_id = teller.create(topic, partitions=3)
        group = f"{topic}-simple"
        teller.fetch("before", group, {topic: [0, 1], f"{topic}-no": [0]})
        teller.fetch("all, before", group, None)
        for version in teller.versions(ApiKey.OFFSET_COMMIT):
            say = {"topic_id": topic_id} if version >= 10 else {}
            teller.commit(
                "simple", group, topic, version, positions={0: version, 2: 9, 3: 1, -1: 1}, **say
            )
            teller.commit("unknown topic", group, f"{topic}-no", version)
            teller.commit("too much to say", group, topic, version, metadata="x" * 4_097, **say)
            teller.commit("nothing to say", group, topic, version, metadata=None, **say)
            teller.commit("no group", "", topic, version, **say)
            member = {"generation": 5, "member_id": "nobody"}
            teller.commit("of no group", f"{topic}-no", topic, version, **member, **say)
            teller.commit("of this group", group, topic, version, **member, **say)
            only = {"member_id": "nobody"}
            teller.commit("without a generation", group, topic, version, **only, **say)
        teller.fetch("after", group, {topic: [0, 1, 2, 3], f"{topic}-no": [0]})
        teller.fetch("all, after", group, None)
        both = [
            OffsetFetchRequestGroup(
                group, None, -1, [OffsetFetchRequestTopics(topic, topic_id, [0])]
            ),
            OffsetFetchRequestGroup(f"{topic}-no", None, -1, None),
        ]
        for version in (8, 9, 10):
            request = OffsetFetchRequest(groups=both)
            teller.ask("two groups", ApiKey.OFFSET_FETCH, version, request)

    tell(chapter)


def test_members_commit(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        teller.create(topic)
        told = teller.join("who am I", topic)
        me = teller.join("I am", topic, member_id=told.member_id)
        mine = {"generation": me.generation_id, "member_id": me.member_id}
        teller.commit("before the plan", topic, topic, **mine)
        teller.sync("my part", topic, me)
        for version in range(2, 10):
            teller.commit("mine", topic, topic, version, **mine)
            teller.commit("ahead", topic, topic, version, **{**mine, "generation": 99})
            teller.commit("someone else's", topic, topic, version, **{**mine, "member_id": "no"})
            teller.commit("nobody's", topic, topic, version)
        teller.commit("static, but unknown", topic, topic, 9, **mine, instance_id="no")
        teller.fetch("after", topic, {topic: [0]})

    tell(chapter)


def test_groups_listed_described_and_deleted(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        teller.create(topic)
        simple, stable, gone = f"{topic}-simple", f"{topic}-stable", f"{topic}-no"
        teller.commit("simple", simple, topic)
        me = teller.member("stable", stable)
        for version in teller.versions(ApiKey.DESCRIBE_GROUPS):
            teller.describe("three", simple, stable, gone, version=version)
        for version in teller.versions(ApiKey.LIST_GROUPS):
            for states in ([], ["stable"], ["Empty", "NoSuchState"], ["PreparingRebalance"]):
                for types in ([], ["Classic"], ["consumer"]):
                    request = ListGroupsRequest(states_filter=states, types_filter=types)
                    listed = teller.link.ask(ApiKey.LIST_GROUPS, version, request)
                    listed.groups = sorted(
                        (one for one in listed.groups if one.group_id.startswith(topic)),
                        key=lambda one: one.group_id,
                    )
                    teller.answers[f"v{version} {states} {types}"] = teller._plain(listed)
        for version in teller.versions(ApiKey.DELETE_GROUPS):
            both = DeleteGroupsRequest([gone, stable])
            answer = teller.link.ask(ApiKey.DELETE_GROUPS, version, both)
            answer.results.sort(key=lambda one: one.group_id)
            teller.answers[f"not deleted v{version}"] = teller._plain(answer)
        _offset_delete(teller, "simple", simple, topic)
        _offset_delete(teller, "stable", stable, topic)
        _offset_delete(teller, "of a subscribed topic", stable, "t")
        _offset_delete(teller, "of no group", gone, topic)
        teller.fetch("after offsets were deleted", simple, {topic: [0]})
        teller.leave("me", stable, MemberIdentity(me.member_id))
        for group in (simple, stable):
            one = DeleteGroupsRequest([group])
            teller.ask(f"delete {group}", ApiKey.DELETE_GROUPS, 2, one)
            teller.describe(f"deleted {group}", group)

    tell(chapter)


def _sorting_key(value: Any) -> Any:
    """Members, groups and partitions have an order of their own; anything else stays where it is."""
    if not isinstance(value, dict):
        return ""
    keys = (value.get(name) for name in ("member_id", "group_id", "partition_index", "name"))
    return next((key for key in keys if key is not None), "")


def _offset_delete(teller: GroupTeller, label: str, group: str, topic: str) -> None:
    partitions = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(7)]
    topics = [
        OffsetDeleteRequestTopic(topic, partitions),
        OffsetDeleteRequestTopic(f"{topic}-no", [OffsetDeleteRequestPartition(0)]),
    ]
    answer = teller.link.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, topics))
    answer.topics.sort(key=lambda one: one.name)
    for one in answer.topics:
        one.partitions.sort(key=lambda part: part.partition_index)
    teller.answers[f"offsets deleted: {label}"] = teller._plain(answer)


def _join_request(group: str, member_id: str) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    return JoinGroupRequest(group, 10_000, 20_000, member_id, None, "consumer", protocols)


def _sync_request(group: str, joined: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group, joined.generation_id, joined.member_id, None, "consumer", "range"
    )


def test_topic_ids(tell: Tell, topic: str) -> None:
    def chapter(teller: GroupTeller) -> None:
        topic_id = teller.create(topic)
        for label, one in (("known", topic_id), ("unknown", uuid.UUID(int=77))):
            teller.commit(label, topic, "", 10, topic_id=one)
            asked = [OffsetFetchRequestTopics("", one, [0, 5])]
            group = OffsetFetchRequestGroup(topic, None, -1, asked)
            teller.ask(label, ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=[group]))

    tell(chapter)
