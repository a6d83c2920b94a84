"""Consumer groups (KIP-848): the same requests to Millpond and to Apache Kafka get the same answers.

Chapters as in ``test_differential_groups``. Members make up their own ids here, so these are compared as they
are; those that a broker makes up look differently. Where several members share partitions the chapters use
the ``range`` assignor, which leaves no choice. Of what is said to people about an error only that something
is said is compared.
"""

import re
import struct
from collections.abc import Callable
from typing import Any

import pytest

from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from millpond.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from millpond.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from millpond.wire.kafka.messages.join_group import JoinGroupResponse
from millpond.wire.kafka.messages.leave_group import MemberIdentity
from millpond.wire.kafka.messages.list_groups import ListGroupsRequest
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
from millpond.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.interop.peers import Peer
from tests.interop.telling import tell_both
from tests.interop.test_differential import NO_TOPIC_ID
from tests.interop.test_differential_groups import GroupTeller

GROUP_RESOURCE = 32

# How Kafka writes the ids that it makes up for members of consumer groups.
KAFKA_MADE_UP = re.compile(r"[A-Za-z0-9_-]{22}")


class ConsumerTeller(GroupTeller):
    """One broker's side, with the words of consumer groups."""

    def same(self, value: Any) -> Any:
        if isinstance(value, dict):
            told = dict(value)
            if told.get("error_message"):
                told["error_message"] = "<said>"
            if told.get("subscribed_topic_names"):
                told["subscribed_topic_names"] = sorted(told["subscribed_topic_names"])
            if KAFKA_MADE_UP.fullmatch(told.get("member_id") or ""):
                told["member_id"] = self._number(told["member_id"])
            return super().same(told)
        return super().same(value)

    def begin(self, group: str) -> None:
        """Targets are made at once, not once a second."""
        resource = AlterConfigsResource(
            GROUP_RESOURCE, group, [AlterableConfig("consumer.assignment.interval.ms", 0, "0")]
        )
        request = IncrementalAlterConfigsRequest([resource], validate_only=False)
        (answer,) = self.link.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == 0, answer

    def beat(self, label: str, group: str, member: str, epoch: int, **fields: Any) -> Any:
        """A heartbeat with just these fields."""
        owned = fields.pop("owned", None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=fields.pop("instance_id", None),
            rack_id=fields.pop("rack_id", None),
            rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", -1),
            subscribed_topic_names=fields.pop("topics", None),
            subscribed_topic_regex=fields.pop("pattern", None),
            server_assignor=fields.pop("assignor", None),
            topic_partitions=(
                None
                if owned is None
                else [TopicPartitions(topic_id, parts) for topic_id, parts in owned.items()]
            ),
        )
        version = fields.pop("version", 1)
        assert not fields
        return self.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)

    def beat_until_told(self, label: str, group: str, member: str, epoch: int) -> Any:
        """Heartbeats until the member's epoch moves: a group hears of new partitions when its broker does."""
        answers: list[Any] = []
        request = ConsumerGroupHeartbeatRequest(group, member, epoch)

        def has_moved() -> bool:
            answers.append(self.link.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request))
            assert answers[-1].error_code == 0, answers[-1]
            return bool(answers[-1].member_epoch != epoch)

        self.until(label, has_moved)
        self.answers[label] = self._plain(answers[-1])
        return answers[-1]

    def enter(self, label: str, group: str, member: str, topic: str, **fields: Any) -> Any:
        """Join, with all that a first heartbeat needs."""
        first = {"rebalance_timeout_ms": 60_000, "topics": [topic], "owned": {}}
        return self.beat(label, group, member, 0, **(first | fields))

    def describe_consumers(self, label: str, *groups: str, version: int = 1) -> Any:
        request = ConsumerGroupDescribeRequest(list(groups), include_authorized_operations=True)
        return self.ask(label, ApiKey.CONSUMER_GROUP_DESCRIBE, version, request)

    def fetch_as(self, label: str, group: str, topic: str, member: str | None, epoch: int) -> Any:
        topics = [OffsetFetchRequestTopics(topic, NO_TOPIC_ID, [0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group, member, epoch, topics)], require_stable=True
        )
        return self.ask(label, ApiKey.OFFSET_FETCH, 9, request)


@pytest.fixture
def tell(broker: Peer, kafka: Peer) -> Callable[[Callable[[ConsumerTeller], None]], None]:
    """Tell a chapter to both brokers and compare."""
    return lambda chapter: tell_both(broker, kafka, ConsumerTeller, chapter)


Tell = Callable[[Callable[[ConsumerTeller], None]], None]


def test_a_member_s_life(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        topic_id = teller.create(topic, partitions=3)
        group = f"{topic}-life"
        teller.begin(group)
        joined = teller.enter("join", group, "one", topic)
        epoch = joined.member_epoch
        teller.describe_consumers("with one member", group)
        teller.describe_consumers("with one member", group, version=0)
        teller.beat("alive", group, "one", epoch)
        owned = {topic_id: [0, 1, 2]}
        teller.beat("with what it owns", group, "one", epoch, owned=owned)
        everything = {"rebalance_timeout_ms": 60_000, "topics": [topic], "owned": owned}
        teller.beat("with everything", group, "one", epoch, **everything)
        teller.beat("ahead", group, "one", epoch + 1)
        teller.beat("behind", group, "one", epoch - 1)
        teller.beat("a stranger", group, "nobody", epoch)
        teller.beat("no such group", f"{group}-no", "one", epoch)
        teller.enter("join again", group, "one", topic)
        for version in (8, 9):
            for label, who, at in (
                ("right", "one", epoch),
                ("ahead", "one", epoch + 1),
                ("behind", "one", epoch - 1),
                ("nobody", "nobody", epoch),
                ("unnamed", "", -1),
            ):
                teller.commit(label, group, topic, version, member_id=who, generation=at)
        teller.fetch_as("right", group, topic, "one", epoch)
        teller.fetch_as("behind", group, topic, "one", epoch - 1)
        teller.fetch_as("a stranger", group, topic, "nobody", epoch)
        teller.fetch_as("unnamed", group, topic, None, -1)
        teller.beat("another topic as well", group, "one", epoch, topics=[topic, f"{topic}-no"])
        teller.describe_consumers("after that", group)
        parts = [OffsetDeleteRequestPartition(0)]
        delete = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, parts)])
        teller.ask("of a topic that is read", ApiKey.OFFSET_DELETE, 0, delete)
        teller.ask("with members", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
        teller.beat("leave", group, "one", -1)
        teller.beat("leave again", group, "one", -1)
        teller.describe_consumers("empty", group)
        teller.ask("of a topic that nobody reads", ApiKey.OFFSET_DELETE, 0, delete)
        teller.commit("unnamed, empty", group, topic, 9)
        teller.ask("empty", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
        teller.describe_consumers("gone", group)

    tell(chapter)


def test_heartbeats_that_are_refused(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        teller.create(topic)
        for version in (0, 1):
            one = {"version": version}
            teller.enter("no group", "", "one", topic, **one)
            teller.enter("blank group", " ", "one", topic, **one)
            teller.enter("blank instance", topic, "one", topic, instance_id=" ", **one)
            teller.enter("blank rack", topic, "one", topic, rack_id="", **one)
            teller.enter("no time-out", topic, "one", topic, rebalance_timeout_ms=-1, **one)
            teller.enter("owning", topic, "one", topic, owned={NO_TOPIC_ID: [0]}, **one)
            teller.enter("owned unsaid", topic, "one", topic, owned=None, **one)
            teller.enter("no topics", topic, "one", topic, topics=None, **one)
            teller.enter("odd assignor", topic, "one", topic, assignor="sticky", **one)
            teller.enter("bad pattern", topic, "one", topic, pattern="a(b", **one)
            teller.beat("odd epoch", topic, "one", -3, **one)
            teller.beat("away without an instance", topic, "one", -2, **one)
            teller.beat("leaving nameless", topic, "", -1, **one)
            teller.beat("alive nameless", topic, "", 3, **one)
            teller.beat("leaving no group", topic, "one", -1, **one)
        teller.enter("joining nameless", topic, "", topic)
        named = teller.enter("joining nameless", f"{topic}-0", "", topic, version=0)
        teller.beat("leaving", f"{topic}-0", named.member_id, -1, version=0)
        teller.describe_consumers("nothing of that", topic)

    tell(chapter)


def test_two_members_hand_over(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        topic_id = teller.create(topic, partitions=4)
        group = f"{topic}-two"
        teller.begin(group)
        by_range = {"assignor": "range"}
        one = teller.enter("a", group, "a", topic, **by_range).member_epoch
        two = teller.enter("b", group, "b", topic, **by_range).member_epoch
        teller.describe_consumers("b waits", group)
        teller.beat("b, still waiting", group, "b", two)
        teller.beat("a, to be told", group, "a", one)
        teller.describe_consumers("a must give up", group)
        teller.beat("a, still owning", group, "a", one, owned={topic_id: [0, 1, 2, 3]})
        for label, at in (("of its epoch", one), ("of b's epoch", two)):
            teller.commit(f"a, {label}", group, topic, member_id="a", generation=at)
        given = teller.beat("a has given up", group, "a", one, owned={topic_id: [0, 1]})
        # The epoch before will do for what the member has had since then.
        for label, position in (("kept", {0: 5}), ("given up", {2: 5})):
            teller.commit(
                f"a, {label}, of the epoch before",
                group,
                topic,
                member_id="a",
                generation=one,
                positions=position,
            )
        teller.beat("the answer was lost", group, "a", one, owned={topic_id: [0, 1]})
        teller.beat("b gets its part", group, "b", two, owned={})
        owned = {topic_id: [2, 3]}
        teller.beat("b has it", group, "b", two, owned=owned)
        teller.describe_consumers("stable", group)
        teller.beat("a leaves", group, "a", -1)
        teller.describe_consumers("without a", group)
        teller.beat("b, alone", group, "b", two)
        teller.describe_consumers("b has all", group)
        more = CreatePartitionsRequest([CreatePartitionsTopic(topic, 6, None)], 10_000, False)
        teller.link.ask(ApiKey.CREATE_PARTITIONS, 3, more)
        teller.until("the topic has grown", lambda: teller.has(topic, 6))
        grown = teller.beat_until_told("b, more partitions", group, "b", two + 1)
        teller.beat("b, its epoch", group, "b", grown.member_epoch)
        assert given.member_epoch == two

    tell(chapter)


def test_static_members(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        teller.create(topic, partitions=2)
        group = f"{topic}-static"
        teller.begin(group)
        me = {"instance_id": "me"}
        epoch = teller.enter("join", group, "one", topic, **me).member_epoch
        teller.enter("another, too soon", group, "two", topic, **me)
        teller.beat("as another", group, "two", epoch, **me)
        teller.beat("another leaves for it", group, "two", -1, **me)
        teller.beat("alive", group, "one", epoch, **me)
        teller.beat("unknown instance", group, "one", epoch, instance_id="you")
        teller.beat("away", group, "one", -2, **me)
        teller.describe_consumers("away", group)
        teller.commit("while away", group, topic, member_id="one", generation=epoch)
        back = teller.enter("back", group, "two", topic, **me)
        teller.describe_consumers("back", group)
        teller.beat("the old one", group, "one", epoch, **me)
        teller.beat("alive again", group, "two", back.member_epoch, **me)
        teller.beat("leaves", group, "two", -1, **me)
        teller.describe_consumers("empty", group)

    tell(chapter)


def test_patterns(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        topic_id = teller.create(f"{topic}-a", partitions=2)
        teller.create(f"{topic}-b", partitions=1)
        group = f"{topic}-pattern"
        teller.begin(group)
        pattern = {"topics": None, "pattern": f"{topic}-[ax]"}
        joined = teller.enter("join", group, "one", topic, **pattern)

        def is_resolved() -> bool:
            request = ConsumerGroupDescribeRequest([group])
            (now,) = teller.link.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
            return bool(now.group_epoch > joined.member_epoch)

        teller.until("the pattern is looked up", is_resolved)
        now = teller.beat("what it means", group, "one", joined.member_epoch)
        teller.beat("has it", group, "one", now.member_epoch, owned={topic_id: [0, 1]})
        teller.describe_consumers("with a pattern", group)
        teller.beat("a bad one", group, "one", now.member_epoch, pattern="[")
        teller.beat("no pattern", group, "one", now.member_epoch, pattern="", topics=[])
        teller.describe_consumers("without", group)

    tell(chapter)


def test_kinds_of_groups(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        teller.create(topic, partitions=2)
        consumers, classic, connect = (f"{topic}-{kind}" for kind in ("new", "old", "connect"))
        teller.begin(consumers)
        epoch = teller.enter("join", consumers, "one", topic).member_epoch
        member = teller.member("old", classic)
        teller.member("connect", connect, protocol_type="connect", protocols={"range": b"?"})
        for version in (5, 6):
            teller.describe("a consumer group", consumers, version=version)
        teller.describe_consumers("a classic group", classic)
        teller.beat("in a classic group", classic, member.member_id, member.generation_id)
        teller.enter("join a group that is no consumers'", connect, "one", topic)
        teller.heartbeat("classic, in a consumer group", consumers, member, member_id="one")
        teller.sync("classic, in a consumer group", consumers, member, member_id="one")
        teller.leave("a stranger", consumers, MemberIdentity("nobody"))
        teller.join("connect, in a consumer group", consumers, protocol_type="connect")
        for types in (["consumer"], ["classic"], ["Consumer", "classic"], ["share"]):
            for states in ([], ["Stable"], ["Assigning", "Reconciling"]):
                request = ListGroupsRequest(states, types)
                answer = teller.link.ask(ApiKey.LIST_GROUPS, 5, request)
                rows = [one for one in answer.groups if one.group_id.startswith(topic)]
                label = f"{'+'.join(types)} {'+'.join(states)}"
                teller.answers[f"LIST_GROUPS: {label}"] = sorted(
                    [one.group_id, one.group_type, one.group_state, one.protocol_type]
                    for one in rows
                )
        teller.beat("leave", consumers, "one", -1)
        joined = teller.join("an empty consumer group becomes classic", consumers)
        again = teller.join("with its id", consumers, member_id=joined.member_id)
        teller.sync("the plan", consumers, again)
        teller.describe("a classic group now", consumers)
        teller.leave("and leaves", consumers, MemberIdentity(joined.member_id))
        teller.enter("an empty classic group becomes new", consumers, "one", topic)
        teller.describe_consumers("a consumer group again", consumers)
        assert epoch > 0

    tell(chapter)


def test_the_name_of_a_share_group_is_taken(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        teller.create(topic)
        sharers, consumers = f"{topic}-share", f"{topic}-consumers"
        first = ShareGroupHeartbeatRequest(
            group_id=sharers, member_id="one", member_epoch=0, subscribed_topic_names=[topic]
        )
        teller.until(
            "there is a share group",
            lambda: teller.link.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, first).error_code == 0,
        )
        teller.join("classic", sharers)
        teller.join("classic, with an id", sharers, member_id="one")
        nobody = JoinGroupResponse(member_id="one", generation_id=1)
        teller.sync("classic", sharers, nobody)
        teller.heartbeat("classic", sharers, nobody)
        teller.leave("classic", sharers, MemberIdentity("one"))
        teller.enter("consumer", sharers, "one", topic)
        teller.beat("consumer, leaving", sharers, "one", -1)
        teller.commit("unnamed", sharers, topic)
        teller.fetch_as("unnamed", sharers, topic, None, -1)
        teller.describe("as a classic group", sharers)
        teller.describe_consumers("as a consumer group", sharers)
        teller.enter("join", consumers, "one", topic)
        other = ShareGroupHeartbeatRequest(
            group_id=consumers, member_id="two", member_epoch=0, subscribed_topic_names=[topic]
        )
        answer = teller.link.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, other)
        teller.answers["SHARE_GROUP_HEARTBEAT: of consumers"] = int(answer.error_code)

    tell(chapter)


def test_a_group_goes_over_and_back(tell: Tell, topic: str) -> None:
    def chapter(teller: ConsumerTeller) -> None:
        teller.create(topic, partitions=4)
        group = f"{topic}-over"
        teller.begin(group)
        said = {"range": subscription(topic)}
        told = teller.join("old: who am I", group, protocols=said)
        old = teller.join("old: I am", group, member_id=told.member_id, protocols=said)
        everything = {old.member_id: assignment(topic, range(4))}
        teller.sync("old: all", group, old, plan=everything)
        joined = teller.enter("new: join", group, "zz", topic, assignor="range")
        teller.describe_consumers("mixed", group)
        teller.describe("mixed", group)
        teller.heartbeat("old: must join again", group, old)
        teller.sync("old: too late", group, old)
        owned = {"range": subscription(topic, range(4))}
        owning = teller.join("old: owning", group, member_id=old.member_id, protocols=owned)
        teller.sync("old: keeps a part", group, owning)
        teller.heartbeat("old: must say that it gave up", group, owning)
        fewer = {"range": subscription(topic, range(2))}
        gave = teller.join("old: gave up", group, member_id=old.member_id, protocols=fewer)
        teller.sync("old: its part", group, gave)
        teller.heartbeat("old: content", group, gave)
        teller.commit("old", group, topic, member_id=old.member_id, generation=gave.generation_id)
        teller.commit("old, behind", group, topic, member_id=old.member_id, generation=1)
        teller.beat("new: gets its part", group, "zz", joined.member_epoch, owned={})
        teller.describe_consumers("mixed and stable", group)
        stranger = teller.join("another old one", group, protocols=said)
        teller.join("with another protocol", group, protocols={"sticky": subscription(topic)})
        teller.beat("new: leaves", group, "zz", -1)
        teller.describe_consumers("downgraded", group)
        teller.heartbeat("old: a rebalance", group, gave)
        back = teller.join("old: joins", group, member_id=old.member_id, protocols=fewer)
        teller.sync("old: all again", group, back, plan=everything)
        teller.describe("classic again", group)
        assert stranger.member_id

    tell(chapter)


def subscription(topic: str, owned: range | None = None) -> bytes:
    """A consumer's subscription, version 1 if it says what it owns."""
    name = topic.encode()
    head = struct.pack(">hih", 0 if owned is None else 1, 1, len(name)) + name + b"\xff" * 4
    return head if owned is None else head + _partitions(name, owned)


def assignment(topic: str, partitions: range) -> bytes:
    """A consumer's assignment, version 0."""
    return b"\x00\x00" + _partitions(topic.encode(), partitions) + b"\xff" * 4


def _partitions(name: bytes, numbers: range) -> bytes:
    head = struct.pack(">ih", 1, len(name)) + name
    return head + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
