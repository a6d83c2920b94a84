"""Streams groups (KIP-1071): the same requests to Millpond and to Apache Kafka get the same answers.

Chapters as in ``test_differential_consumer_groups``. Where several members could have a task, the first of
them has had it before, which leaves the assignor no choice. Of what is said to people about an error only
that something is said is compared; what a status says is compared word for word.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from millpond.group import kinds
from millpond.group.records import ForeignRecord
from millpond.group.streams.records import (
    STREAMS_KEY_VERSIONS,
    StreamsGroupStored,
    StreamsRecord,
    StreamsTargetEpochStored,
)
from millpond.record.batch import iter_batches
from millpond.record.records import decode_batch
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from millpond.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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
from millpond.wire.kafka.messages.streams_group_describe import StreamsGroupDescribeRequest
from millpond.wire.kafka.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.interop.peers import Peer
from tests.interop.telling import tell_both
from tests.interop.test_differential import NO_TOPIC_ID
from tests.interop.test_differential_groups import GroupTeller
from tests.support.kafka.wire_client import WireClient

GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
STREAMS_KEYS = {version.to_bytes(2, "big") for version in STREAMS_KEY_VERSIONS}
MISSING_INTERNAL = 3
MISSING_TOPICS = "Internal topics are missing: "

Tasks = dict[str, list[int]]


class StreamsTeller(GroupTeller):
    """One broker's side, with the words of streams groups."""

    def same(self, value: Any) -> Any:
        if isinstance(value, dict) and value.get("error_message"):
            value = dict(value) | {"error_message": "<said>"}
        if isinstance(value, str) and value.startswith(MISSING_TOPICS):
            # Kafka names them in no particular order.
            names = value.removeprefix(MISSING_TOPICS).split(", ")
            value = MISSING_TOPICS + ", ".join(sorted(names))
        told = super().same(value)
        return sorted(told, key=repr) if isinstance(told, list) else told

    def begin(self, group: str, **settings: int) -> None:
        """Targets are made at once, not once a second; or as the settings say."""
        chosen = {"assignment.interval.ms": 0} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        configs = [
            AlterableConfig(f"streams.{name}", 0, str(value)) for name, value in chosen.items()
        ]
        resource = AlterConfigsResource(GROUP_RESOURCE, group, configs)
        request = IncrementalAlterConfigsRequest([resource], validate_only=False)
        (answer,) = self.link.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == 0, answer

    def beat(self, label: str, group: str, member: str, epoch: int, **fields: Any) -> Any:
        """A heartbeat with just these fields."""
        return self.ask(
            label, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, beat(group, member, epoch, fields)
        )

    def enter(self, label: str, group: str, member: str, *parts: Subtopology, **fields: Any) -> Any:
        """Join, with all that a first heartbeat needs."""
        first: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": Topology(fields.pop("topology_epoch", 0), list(parts)),
            "active": {},
            "standby": {},
            "warmup": {},
            "process_id": f"process-of-{member}",
        }
        return self.beat(label, group, member, 0, **(first | fields))

    def beat_until(
        self, label: str, group: str, member: str, epoch: int, status: int | None
    ) -> Any:
        """Heartbeats until the group has this status: a broker learns of new topics when it does."""
        answers: list[Any] = []

        def has_come() -> bool:
            at = answers[-1].member_epoch if answers else epoch
            request = beat(group, member, at, {})
            answers.append(self.link.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request))
            assert answers[-1].error_code == 0, answers[-1]
            return [one.status_code for one in answers[-1].status] == (
                [] if status is None else [status]
            )

        self.until(label, has_come)
        self.answers[label] = self._plain(answers[-1])
        return answers[-1]

    def describe_streams(self, label: str, *groups: str) -> Any:
        request = StreamsGroupDescribeRequest(list(groups), include_authorized_operations=True)
        return self.ask(label, ApiKey.STREAMS_GROUP_DESCRIBE, 0, request)

    def fetch_as(self, label: str, group: str, topic: str, member: str | None, epoch: int) -> Any:
        topics = [OffsetFetchRequestTopics(topic, NO_TOPIC_ID, [0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group, member, epoch, topics)], require_stable=True
        )
        return self.ask(label, ApiKey.OFFSET_FETCH, 9, request)


def beat(
    group: str, member: str, epoch: int, fields: dict[str, Any]
) -> StreamsGroupHeartbeatRequest:
    owned = fields.pop("owned", None)
    if owned is not None:
        fields |= {"active": owned[0], "standby": owned[1], "warmup": {}}
    endpoint, tags = fields.pop("endpoint", None), fields.pop("client_tags", None)
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=fields.pop("endpoint_epoch", 0),
        instance_id=fields.pop("instance_id", None),
        rack_id=fields.pop("rack_id", None),
        rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", -1),
        topology=fields.pop("topology", None),
        active_tasks=task_ids(fields.pop("active", None)),
        standby_tasks=task_ids(fields.pop("standby", None)),
        warmup_tasks=task_ids(fields.pop("warmup", None)),
        process_id=fields.pop("process_id", None),
        user_endpoint=None if endpoint is None else Endpoint(*endpoint),
        client_tags=None if tags is None else [KeyValue(*pair) for pair in tags.items()],
        task_offsets=fields.pop("task_offsets", None),
        task_end_offsets=fields.pop("task_end_offsets", None),
        shutdown_application=fields.pop("shutdown", False),
    )
    assert not fields
    return request


def task_ids(tasks: Tasks | None) -> list[TaskIds] | None:
    return None if tasks is None else [TaskIds(part, numbers) for part, numbers in tasks.items()]


def part(number: int, *sources: str, **fields: Any) -> Subtopology:
    """A subtopology."""
    return Subtopology(
        subtopology_id=str(number),
        source_topics=list(sources),
        source_topic_regex=fields.pop("patterns", []),
        state_changelog_topics=fields.pop("changelogs", []),
        repartition_sink_topics=fields.pop("sinks", []),
        repartition_source_topics=fields.pop("repartitions", []),
        copartition_groups=fields.pop("together", []),
    )


@pytest.fixture
def tell(broker: Peer, kafka: Peer) -> Callable[[Callable[[StreamsTeller], None]], None]:
    """Tell a chapter to both brokers and compare."""
    return lambda chapter: tell_both(broker, kafka, StreamsTeller, chapter)


Tell = Callable[[Callable[[StreamsTeller], None]], None]


def test_a_member_s_life(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=3)
        group = f"{topic}-life"
        teller.begin(group)
        app = part(0, topic)
        about = {"rack_id": "r", "client_tags": {"zone": "a", "cluster": "b"}}
        epoch = teller.enter("join", group, "one", app, **about).member_epoch
        teller.describe_streams("with one member", group)
        teller.beat("alive", group, "one", epoch)
        teller.describe_streams("alive", group)
        owned = {"0": [0, 1, 2]}
        teller.beat("with what it owns", group, "one", epoch, owned=(owned, {}))
        teller.beat("tasks that are not", group, "one", epoch, owned=({"0": [3]}, {}))
        teller.beat("a part that is not", group, "one", epoch, owned=({"7": [0]}, {}))
        teller.beat("ahead", group, "one", epoch + 1)
        teller.beat("behind", group, "one", epoch - 1)
        teller.beat("a stranger", group, "nobody", epoch)
        teller.beat("no such group", f"{group}-no", "one", epoch)
        teller.enter("join again", group, "one", app, **about)
        teller.enter("another topology", group, "one", app, part(1, topic))
        teller.enter("a later topology", group, "one", app, topology_epoch=1)
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
        teller.beat("other tags", group, "one", epoch, client_tags={"zone": "c"})
        teller.describe_streams("after that", group)
        parts = [OffsetDeleteRequestPartition(0)]
        delete = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, parts)])
        teller.ask("of a topic that is read", ApiKey.OFFSET_DELETE, 0, delete)
        teller.ask("with members", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
        teller.beat("leave", group, "one", -1)
        teller.beat("leave again", group, "one", -1)
        teller.describe_streams("empty", group)
        teller.enter("back", group, "one", app)
        teller.beat("leave for good", group, "one", -1)
        teller.ask("of a topic that nobody reads", ApiKey.OFFSET_DELETE, 0, delete)
        teller.commit("unnamed, empty", group, topic, 9)
        teller.ask("empty", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
        teller.describe_streams("gone", group, "")

    tell(chapter)


def test_heartbeats_that_are_refused(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic)
        app = part(0, topic)
        teller.enter("no group", "", "one", app)
        teller.enter("blank group", " ", "one", app)
        teller.enter("no member", topic, "", app)
        teller.enter("an instance", topic, "one", app, instance_id="me")
        teller.enter("blank rack", topic, "one", app, rack_id="")
        teller.enter("no time-out", topic, "one", app, rebalance_timeout_ms=-1)
        teller.enter("owning", topic, "one", app, active={"0": [0]})
        teller.enter("following", topic, "one", app, standby={"0": [0]})
        teller.enter("warming up", topic, "one", app, warmup={"0": [0]})
        teller.enter("owned unsaid", topic, "one", app, active=None, standby=None, warmup=None)
        teller.enter("no topology", topic, "one", app, topology=None)
        teller.enter("patterns", topic, "one", part(0, topic, patterns=["a.*"]))
        teller.enter("offsets", topic, "one", app, task_offsets=[TaskOffset("0", 0, 1)])
        teller.enter("ends", topic, "one", app, task_end_offsets=[])
        changelog = TopicInfo(f"{topic}-changelog", partitions=3)
        teller.enter("a fixed changelog", topic, "one", part(0, topic, changelogs=[changelog]))
        teller.enter("a broker's topic", topic, "one", part(0, "__consumer_offsets"))
        teller.enter("an odd topic", topic, "one", part(0, "no/topic"))
        teller.enter("nothing to read", topic, "one", part(0))
        loop = TopicInfo(f"{topic}-loop")
        round_trip = part(0, repartitions=[loop], sinks=[loop.name])
        teller.enter("a loop", topic, "one", round_trip)
        teller.enter("nobody writes", topic, "one", part(0, topic, repartitions=[loop]))
        astray = [CopartitionGroup([3])]
        teller.enter("copartitioned with nothing", topic, "one", part(0, topic, together=astray))
        teller.enter("a negative epoch", topic, "one", app, topology_epoch=-1)
        teller.enter("twice the same", topic, "one", app, app)
        teller.beat("odd epoch", topic, "one", -3)
        teller.beat("away", topic, "one", -2)
        teller.beat("some tasks", topic, "one", 3, active={})
        teller.beat("a topology", topic, "one", 3, topology=Topology(0, [app]))
        teller.beat("leaving no group", topic, "one", -1)
        teller.describe_streams("nothing of that", topic)

    tell(chapter)


def test_internal_topics_are_made(tell: Tell, topic: str) -> None:
    source = f"{topic}-lines"
    words, counts = f"{topic}-words-repartition", f"{topic}-counts-changelog"
    split = part(0, source, sinks=[words])
    compacted = [KeyValue("cleanup.policy", "compact"), KeyValue("segment.bytes", "1048576")]
    count = part(
        1,
        repartitions=[TopicInfo(words, 0, 1, [KeyValue("cleanup.policy", "delete")])],
        changelogs=[TopicInfo(counts, 0, 1, compacted)],
    )

    def chapter(teller: StreamsTeller) -> None:
        group = f"{topic}-app"
        teller.begin(group)
        epoch = teller.enter("without a source", group, "one", split, count).member_epoch
        teller.describe_streams("without a source", group)
        waiting = teller.beat("still without", group, "one", epoch)
        teller.create(source, partitions=3)
        now = teller.beat_until("its source", group, "one", waiting.member_epoch, MISSING_INTERNAL)
        now = teller.beat_until("all topics", group, "one", now.member_epoch, None)
        assert teller.has(words, 3)
        assert teller.has(counts, 3)
        teller.describe_streams("with all topics", group)
        resources = [
            DescribeConfigsResource(TOPIC_RESOURCE, name, ["cleanup.policy", "segment.bytes"])
            for name in (words, counts)
        ]
        teller.ask("how they look", ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources))
        owned = {"0": [0, 1, 2], "1": [0, 1, 2]}
        teller.beat("it runs", group, "one", now.member_epoch, owned=(owned, {}))
        teller.describe_streams("it runs", group)
        for name in (source, words):
            teller.commit(name, group, name, member_id="one", generation=now.member_epoch)
        teller.beat("leave", group, "one", -1)

    tell(chapter)


def test_topics_that_do_not_fit(tell: Tell, topic: str) -> None:
    left, right = f"{topic}-left", f"{topic}-right"

    def chapter(teller: StreamsTeller) -> None:
        teller.create(left, partitions=2)
        teller.create(right, partitions=3)
        joined = part(0, left, right, together=[CopartitionGroup([0, 1])])
        for label, app in {
            "two sources": joined,
            "a fixed repartition": part(
                0,
                left,
                sinks=[f"{topic}-fixed"],
                repartitions=[TopicInfo(f"{topic}-fixed", 5)],
                together=[CopartitionGroup([0], [], [0])],
            ),
            "a topic of another size": part(
                0, left, sinks=[right], repartitions=[TopicInfo(right)]
            ),
            "many that are missing": part(0, *(f"{topic}-no{number}" for number in range(5))),
        }.items():
            group = f"{topic}-{label.replace(' ', '-')}"
            teller.begin(group)
            epoch = teller.enter(label, group, "one", app).member_epoch
            teller.describe_streams(label, group)
            teller.beat(f"{label}, again", group, "one", epoch)
            teller.describe_streams(f"{label}, again", group)
            states = ListGroupsRequest(["stable", "empty", "assigning"], ["streams"])
            answer = teller.link.ask(ApiKey.LIST_GROUPS, 5, states)
            assert group not in {one.group_id for one in answer.groups}
            teller.beat(f"{label}, leave", group, "one", -1)

    tell(chapter)


def test_two_members_hand_over(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=4)
        store = f"{topic}-store-changelog"
        teller.create(store, partitions=4)
        group = f"{topic}-two"
        teller.begin(group, num_standby_replicas=1)
        app = part(0, topic, changelogs=[TopicInfo(store)])
        one = teller.enter("a", group, "a", app).member_epoch
        two = teller.enter("b", group, "b", app).member_epoch
        teller.describe_streams("b waits", group)
        teller.beat("b, still waiting", group, "b", two)
        teller.beat("a, to be told", group, "a", one)
        teller.describe_streams("a must give up", group)
        everything = {"0": [0, 1, 2, 3]}
        teller.beat("a, still owning", group, "a", one, owned=(everything, {}))
        for label, at in (("of its epoch", one), ("of b's epoch", two)):
            teller.commit(f"a, {label}", group, topic, member_id="a", generation=at)
        given = teller.beat("a has given up", group, "a", one, owned=({"0": [0, 1]}, {}))
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
        kept = {"0": [0, 1]}
        teller.beat("the answer was lost", group, "a", one, owned=(kept, {}))
        teller.beat("a, lost and wrong", group, "a", one, owned=(everything, {}))
        teller.beat("b gets its part", group, "b", two, owned=({}, {}))
        teller.beat("b has it", group, "b", two, owned=({"0": [2, 3]}, {"0": [0, 1]}))
        teller.beat("a follows", group, "a", given.member_epoch, owned=(kept, {"0": [2, 3]}))
        teller.describe_streams("stable", group)
        teller.beat("a leaves", group, "a", -1)
        teller.describe_streams("without a", group)
        alone = teller.beat("b, alone", group, "b", two)
        teller.describe_streams("b gives up following", group)
        teller.beat("b, ready", group, "b", alone.member_epoch, owned=({"0": [2, 3]}, {}))
        teller.describe_streams("b has all", group)

    tell(chapter)


def test_two_threads_of_one_process(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=4)
        group = f"{topic}-threads"
        teller.begin(group)
        here = {"process_id": "p"}
        one = teller.enter("a", group, "a", part(0, topic), **here).member_epoch
        two = teller.enter("b", group, "b", part(0, topic), **here).member_epoch
        teller.beat("a is told", group, "a", one)
        teller.beat("a has given up", group, "a", one, owned=({"0": [0, 1]}, {}))
        teller.beat("b gets its part", group, "b", two)
        teller.describe_streams("both", group)

    tell(chapter)


def test_a_shutdown_of_all(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=2)
        group = f"{topic}-shutdown"
        teller.begin(group)
        one = teller.enter("a", group, "a", part(0, topic)).member_epoch
        two = teller.enter("b", group, "b", part(0, topic)).member_epoch
        teller.beat("a asks", group, "a", one, shutdown=True)
        teller.beat("b hears", group, "b", two)
        teller.beat("b asks too", group, "b", two, shutdown=True)
        teller.beat("b goes", group, "b", -1)
        teller.enter("c hears", group, "c", part(0, topic))
        teller.beat("a goes", group, "a", -1)
        teller.beat("c goes, asking", group, "c", -1, shutdown=True)
        teller.enter("a new beginning", group, "d", part(0, topic))

    tell(chapter)


def test_where_applications_answer(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=3)
        teller.create(f"{topic}-small", partitions=1)
        group = f"{topic}-endpoints"
        teller.begin(group)
        app = part(0, topic, f"{topic}-small")
        one = teller.enter("a", group, "a", app, endpoint=("host-a", 8001)).member_epoch
        teller.beat("a, knowing nothing", group, "a", one, endpoint_epoch=-1)
        teller.beat("a, knowing all", group, "a", one, endpoint_epoch=0)
        two = teller.enter("b", group, "b", app, endpoint=("host-b", 65_535)).member_epoch
        teller.beat("a is told", group, "a", one)
        gone = teller.beat("a has given up", group, "a", one, owned=({"0": [0, 1]}, {}))
        now = teller.beat("b gets its part", group, "b", two, endpoint_epoch=1)
        known = now.endpoint_information_epoch
        teller.beat("b knows", group, "b", two, endpoint_epoch=known)
        teller.beat("a is behind", group, "a", gone.member_epoch, endpoint_epoch=known - 1)
        teller.enter("c has none", group, "c", app)
        teller.describe_streams("all", group)

    tell(chapter)


def test_a_new_group_waits_for_more(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=2)
        group = f"{topic}-delay"
        # Long enough for a busy machine to see the group wait.
        teller.begin(group, initial_rebalance_delay_ms=10_000)
        one = teller.enter("a", group, "a", part(0, topic)).member_epoch
        teller.enter("b", group, "b", part(0, topic))
        teller.beat("a, waiting", group, "a", one)
        teller.describe_streams("waiting", group)

        def has_targets() -> bool:
            request = StreamsGroupDescribeRequest([group])
            (now,) = teller.link.ask(ApiKey.STREAMS_GROUP_DESCRIBE, 0, request).groups
            return bool(now.assignment_epoch == now.group_epoch)

        teller.until("targets are made", has_targets)
        request = beat(group, "a", one, {})
        answer = teller.link.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request)
        assert not answer.status
        assert [len(tasks.partitions) for tasks in answer.active_tasks] == [1]
        teller.beat("a, as before", group, "a", answer.member_epoch)

    tell(chapter)


def test_kinds_of_groups(tell: Tell, topic: str) -> None:
    def chapter(teller: StreamsTeller) -> None:
        teller.create(topic, partitions=2)
        streams, classic = f"{topic}-new", f"{topic}-old"
        teller.begin(streams)
        teller.enter("join", streams, "one", part(0, topic))
        member = teller.member("old", classic)
        for version in (5, 6):
            teller.describe("a streams group", streams, version=version)
        teller.describe_streams("a classic group", classic)
        teller.enter("into a classic group", classic, "one", part(0, topic))
        consumers = ConsumerGroupHeartbeatRequest(
            group_id=streams,
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        teller.ask("a consumer comes", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumers)
        share = ShareGroupHeartbeatRequest(streams, "s", 0, None, [topic])
        teller.ask("a sharer comes", ApiKey.SHARE_GROUP_HEARTBEAT, 1, share)
        consumer = ConsumerGroupDescribeRequest([streams])
        teller.ask("as consumers", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, consumer)
        teller.join("a reader comes", streams)
        teller.join("a known reader comes", streams, member_id="one")
        teller.sync("a reader", streams, member, plan={})
        teller.heartbeat("a reader", streams, member)
        teller.leave("a reader", streams, MemberIdentity(member.member_id))
        for states, types in (([], ["streams"]), (["stable"], ["Streams"]), (["empty"], [])):
            request = ListGroupsRequest(states, types)
            answer = teller.link.ask(ApiKey.LIST_GROUPS, 5, request)
            listed = [one for one in answer.groups if one.group_id == streams]
            teller.answers[f"listed as {states} {types}"] = [one.group_type for one in listed]
            teller.answers[f"of type {states} {types}"] = [one.protocol_type for one in listed]
        teller.beat("leave", streams, "one", -1)
        teller.ask("a consumer comes, empty", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumers)
        reader = teller.member("a reader, empty", streams)
        teller.describe_streams("classic from now on", streams)
        teller.leave("the reader goes", streams, MemberIdentity(reader.member_id))
        teller.enter("streams again", streams, "one", part(0, topic))
        teller.describe_streams("streams again", streams)

    tell(chapter)


def test_the_facts_in_the_log_are_the_same(broker: Peer, kafka: Peer, topic: str) -> None:
    """What is kept of a group is byte for byte Kafka's, but for times and the number for its topics."""
    group, store = f"{topic}-facts", f"{topic}-store-changelog"
    told: list[list[StreamsRecord]] = []
    for peer in (broker, kafka):
        with WireClient(peer.port) as link:
            teller = StreamsTeller(link)
            teller.create(topic, partitions=2)
            teller.create(store, partitions=2)
            teller.begin(group, num_standby_replicas=1)
            configs = [KeyValue("cleanup.policy", "compact")]
            app = part(
                0,
                topic,
                changelogs=[TopicInfo(store, 0, 1, configs)],
                together=[CopartitionGroup([0])],
            )
            about = {"endpoint": ("h", 65_000), "client_tags": {"b": "1", "a": "2"}}
            one = teller.enter("a", group, "a", app, rack_id="r", **about).member_epoch
            two = teller.enter("b", group, "b", app).member_epoch
            teller.beat("a is told", group, "a", one)
            teller.beat("a gives up", group, "a", one, owned=({"0": [0]}, {}))
            teller.beat("b takes", group, "b", two)
            teller.beat("a goes", group, "a", -1)
            teller.beat("b goes", group, "b", -1)
            teller.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
        told.append([plain(fact) for fact in facts(peer, group)])
    ours, theirs = told
    assert len(ours) > 20
    # Targets of several members are in no particular order.
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


def facts(peer: Peer, group: str) -> Iterator[StreamsRecord]:
    """The facts of a group in a broker's log, each of which is written again as the same bytes."""
    for path in sorted(peer.data.glob("__consumer_offsets-*/*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            for record in [] if header.is_control else decode_batch(data, position):
                if record.key is None or record.key[:2] not in STREAMS_KEYS:
                    continue
                fact = kinds.decode(record.key, record.value)
                assert not isinstance(fact, ForeignRecord)
                assert kinds.encode(fact) == (record.key, record.value), fact
                if fact.group_id == group:
                    yield fact  # type: ignore[misc]


def plain(fact: StreamsRecord) -> StreamsRecord:
    """A fact without what is each broker's own."""
    if isinstance(fact, StreamsGroupStored):
        return replace(fact, metadata_hash=int(fact.metadata_hash != 0))
    if isinstance(fact, StreamsTargetEpochStored):
        return replace(fact, made_at_ms=int(fact.made_at_ms != 0))
    return fact
