"""The same requests to Millpond and to Apache Kafka get the same answers.

Each test is a chapter: a list of requests told to both brokers, byte for byte the same, in every version that
Kafka offers. Answers are compared field by field, but for what differs by nature (ids, ports, the wording of
error messages) and for what is declared here with its reason.
"""

import random
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import crc32c
import pytest

from millpond.record.builder import build_batch
from millpond.record.compression import Compression
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages import alter_configs as whole
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.messages.create_partitions import (
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
from millpond.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from millpond.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from millpond.wire.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from millpond.wire.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from millpond.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from millpond.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from millpond.wire.kafka.primitives import Message
from tests.interop.peers import Peer
from tests.interop.topics import MORNING_MS
from tests.support.kafka.wire_client import ConnectionEnded, WireClient
from tests.support.processes.ports import wait_until
from tests.support.storage.poison import BROKEN_COMPRESSION, POISON, STRICTER, poisoned, sealed

# Fields in which each broker says things in its own words, or that depend on the moment.
WORDING = ("throttle_time_ms", "error_message", "documentation", "batch_index_error_message")

FUTURE_MS = 4_102_444_800_000  # 2100

# Kafka skips over keys and values of compressed records, and does not look where a record should end.
LENIENT = "record length too small by one"

NO_TOPIC_ID = uuid.UUID(int=0xDEAD)

# Settings of Kafka 4.3 that Millpond's table may lack, and settings of ours that Kafka lacks.
OWN_SETTINGS = {"flush.policy", "millpond.delay.enable", "unreadable.records"}

# What every client of Kafka 4.x counts on; groups, transactions and security have their own tests.
CORE_APIS = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}

# Versions that came after the release of Kafka that the tests run.
NEWER = {ApiKey.API_VERSIONS: (0, 5)}  # KIP-1242

# Kafka answers these at its controllers' listener only; a node of ours has one listener for all, unless told.
OF_CONTROLLERS = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ALTER_PARTITION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.UPDATE_RAFT_VOTER,
}


@pytest.fixture
def tell(broker: Peer, kafka: Peer) -> "Tell":
    """Tell a chapter to both brokers and compare."""
    return Tell(broker, kafka)


class Tell:
    """Runs a chapter against both brokers and requires the same answers."""

    def __init__(self, broker: Peer, kafka: Peer) -> None:
        self._peers = (broker, kafka)

    def __call__(
        self, chapter: "Callable[[Teller], None]", declared: Mapping[str, str] | None = None
    ) -> None:
        """`declared` has a pattern for each difference that is meant, and the reason for it."""
        versions = offered(self._peers[1])
        ours, theirs = (self._tell(peer, chapter, versions) for peer in self._peers)
        assert list(ours) == list(theirs)
        differing = [
            f"{label}: {difference}"
            for label in ours
            for difference in differences(ours[label], theirs[label])
        ]
        patterns = list(declared or ())
        meant = {line for line in differing if any(re.search(one, line) for one in patterns)}
        if len(meant) < len(differing):
            lines = "\n".join(line for line in differing if line not in meant)
            pytest.fail(f"Millpond and Kafka differ:\n{lines}", pytrace=False)
        if self._peers[0].is_millpond:
            gone = [one for one in patterns if not any(re.search(one, line) for line in meant)]
            assert not gone, f"declared, but there is no such difference any more: {gone}"

    @staticmethod
    def _tell(
        peer: Peer, chapter: "Callable[[Teller], None]", versions: dict[int, tuple[int, int]]
    ) -> dict[str, Any]:
        with WireClient(peer.port) as link:
            teller = Teller(link, versions, data=peer.data)
            chapter(teller)
            return teller.answers


class Teller:
    """One broker's side of a chapter: asks, and keeps the answers under their labels."""

    def __init__(
        self,
        link: WireClient,
        versions: dict[int, tuple[int, int]] | None = None,
        *,
        data: Path = Path(),
    ) -> None:
        """`versions` are what to ask in, if not all that this broker offers."""
        self.link = link
        self.data = data
        self.answers: dict[str, Any] = {}
        self._versions = offered_on(link) if versions is None else versions
        cluster = link.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        (node,) = cluster.brokers
        self.node_id = node.node_id
        self.port = node.port
        self._names = {
            "cluster_id": {cluster.cluster_id: "<cluster>"},
            "port": {node.port: "<port>"},
            "host": {node.host: "<host>"},
        }

    def versions(self, api_key: ApiKey, *, lowest: int = 0) -> range:
        """The versions to ask in."""
        low, high = self._versions[api_key]
        return range(max(low, lowest), high + 1)

    def ask(self, label: str, api_key: ApiKey, version: int, message: object) -> Any:
        """Ask, and keep the answer (or the end of the connection) for the comparison."""
        label = f"{api_key.name} v{version}: {label}"
        assert label not in self.answers, f"told twice: {label}"
        try:
            answer = self.link.ask(api_key, version, message)
        except ConnectionEnded:
            self.answers[label] = "connection closed"
            self.link.reconnect()
            return None
        except TimeoutError:
            raise TimeoutError(f"no answer to {label}") from None
        self.answers[label] = self._plain(answer)
        return answer

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for what Kafka does a moment after it has answered."""
        wait_until(condition, timeout_s=60, what=what)

    def create(self, topic: str, *, partitions: int = 1, **config: str) -> uuid.UUID:
        """Create a topic outside the comparison and wait until it has a leader."""
        settings = [
            CreatableTopicConfig(name.replace("_", "."), value) for name, value in config.items()
        ]
        request = CreateTopicsRequest([CreatableTopic(topic, partitions, 1, [], settings)], 10_000)
        (made,) = self.link.ask(ApiKey.CREATE_TOPICS, 7, request).topics
        assert made.error_code == 0, made
        self.until("the topic is there", lambda: self.has(topic, partitions))
        return uuid.UUID(bytes=made.topic_id.bytes)

    def has(self, topic: str, partitions: int) -> bool:
        """Whether the broker knows the topic with so many led partitions, and answers for them."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        (found,) = self.link.ask(ApiKey.METADATA, 12, request).topics
        led = [one for one in found.partitions if one.error_code == 0]
        if len(led) != partitions:
            return False
        asked = [ListOffsetsPartition(number, -1, -1) for number in range(partitions)]
        listed = self.link.ask(
            ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, asked)])
        )
        return all(one.error_code == 0 for one in listed.topics[0].partitions)

    def _plain(self, value: Any, field: str = "") -> Any:
        if isinstance(value, Message):
            fields = {name: getattr(value, name) for name in value.__slots__}
            return {
                name: self._plain(content, name)
                for name, content in fields.items()
                if name not in WORDING
            }
        if isinstance(value, list):
            return [self._plain(one, field) for one in value]
        if isinstance(value, memoryview | bytearray):
            value = bytes(value)
        if isinstance(value, uuid.UUID):
            return "<id>" if value.int else "<no id>"
        if field in ("producer_id", "session_id") and value > 0:
            return f"<{field}>"
        if field.endswith(("leader_id", "node_id", "broker_id", "controller_id", "_nodes")):
            return "<node>" if value == self.node_id else value
        return self._names.get(field, {}).get(value, value) if field in self._names else value


# The chapters


def test_the_same_apis_in_the_same_versions(broker: Peer, kafka: Peer) -> None:
    ours, theirs = offered(broker), offered(kafka)
    missing = [key.name for key in CORE_APIS if key not in ours]
    assert not missing
    different = {
        ApiKey(key).name: (ours[key], theirs.get(key))
        for key in ours
        if ours[key] not in (theirs.get(key), NEWER.get(ApiKey(key)))
        and not (ApiKey(key) in OF_CONTROLLERS and key not in theirs)
    }
    assert not different, f"(Millpond, Kafka): {different}"


def test_api_versions_of_every_version_and_of_none(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        for version in teller.versions(ApiKey.API_VERSIONS):
            answer = teller.link.ask(
                ApiKey.API_VERSIONS, version, ApiVersionsRequest("test", "1.0")
            )
            teller.answers[f"v{version}"] = answer.error_code
        bad_name = ApiVersionsRequest("no spaces or ümlauts", "1")
        teller.answers["bad software name"] = teller.link.ask(
            ApiKey.API_VERSIONS, 3, bad_name
        ).error_code

    tell(chapter)


def test_topics_created_and_refused(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        for version in teller.versions(ApiKey.CREATE_TOPICS):
            name = f"{topic}-v{version}"
            segment = [CreatableTopicConfig("segment.bytes", "2000000")]
            asked = {
                "an ordinary topic": CreatableTopic(name, 3, 1, [], segment),
                "the same topic again": CreatableTopic(name, 3, 1),
                "a slash": CreatableTopic("a/b", 1, 1),
                "a dot": CreatableTopic(".", 1, 1),
                "empty": CreatableTopic("", 1, 1),
                "too long": CreatableTopic("x" * 250, 1, 1),
                "no partitions": CreatableTopic(f"{name}-p", 0, 1),
                "minus five partitions": CreatableTopic(f"{name}-m", -5, 1),
                "factor 0": CreatableTopic(f"{name}-f0", 1, 0),
                "factor 2": CreatableTopic(f"{name}-f2", 1, 2),
                "unknown setting": CreatableTopic(
                    f"{name}-c", 1, 1, [], [CreatableTopicConfig("no.such", "1")]
                ),
                "bad number": CreatableTopic(
                    f"{name}-n", 1, 1, [], [CreatableTopicConfig("retention.ms", "soon")]
                ),
                "number too small": CreatableTopic(
                    f"{name}-s", 1, 1, [], [CreatableTopicConfig("segment.bytes", "-1")]
                ),
                "bad choice": CreatableTopic(
                    f"{name}-b", 1, 1, [], [CreatableTopicConfig("cleanup.policy", "burn")]
                ),
                "null setting": CreatableTopic(
                    f"{name}-z", 1, 1, [], [CreatableTopicConfig("retention.ms", None)]
                ),
                "assigned": CreatableTopic(
                    f"{name}-a",
                    -1,
                    -1,
                    [CreatableReplicaAssignment(0, [teller.node_id])],
                ),
                "assigned to nobody": CreatableTopic(
                    f"{name}-u", -1, -1, [CreatableReplicaAssignment(0, [99])]
                ),
                "assigned with a gap": CreatableTopic(
                    f"{name}-g", -1, -1, [CreatableReplicaAssignment(1, [teller.node_id])]
                ),
                "assigned and counted": CreatableTopic(
                    f"{name}-t", 1, 1, [CreatableReplicaAssignment(0, [teller.node_id])]
                ),
            }
            if version >= 4:
                asked["defaults"] = CreatableTopic(f"{name}-d", -1, -1)
            for what, one in asked.items():
                if what == "the same topic again":
                    teller.until("it is there", partial(teller.has, name, 3))
                answer = teller.link.ask(
                    ApiKey.CREATE_TOPICS, version, CreateTopicsRequest([one], 10_000)
                )
                # Which settings exist is another chapter's matter.
                for made in answer.topics:
                    made.configs = sorted(
                        (setting.name, setting.value, setting.config_source)
                        for setting in made.configs or []
                        if setting.name == "segment.bytes"
                    )
                teller.answers[f"v{version}: {what}"] = teller._plain(answer)
        both = [CreatableTopic(f"{topic}-twice", 1, 1), CreatableTopic(f"{topic}-twice", 2, 1)]
        teller.ask("twice in one", ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(both, 10_000))

    tell(chapter)


def test_topics_deleted_and_grown(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        for version in teller.versions(ApiKey.CREATE_PARTITIONS):
            name = f"{topic}-grow-{version}"
            teller.create(name, partitions=2)
            for what, target, count, only in (
                ("fewer", name, 1, False),
                ("as many", name, 2, False),
                ("tried", name, 4, True),
                ("more", name, 3, False),
                ("unknown", f"{topic}-nowhere", 3, False),
                ("zero", name, 0, False),
            ):
                asked = [CreatePartitionsTopic(target, count, None)]
                growth = CreatePartitionsRequest(asked, 10_000, only)
                teller.ask(what, ApiKey.CREATE_PARTITIONS, version, growth)
        for version in teller.versions(ApiKey.DELETE_TOPICS):
            name = f"{topic}-go-{version}"
            topic_id = teller.create(name)
            if version < 6:
                names = [name, f"{topic}-nowhere"]
                request = DeleteTopicsRequest(topic_names=names, timeout_ms=9000)
            else:
                states = [
                    DeleteTopicState(None, topic_id),
                    DeleteTopicState(None, NO_TOPIC_ID),
                    DeleteTopicState(f"{topic}-nowhere"),
                ]
                request = DeleteTopicsRequest(topics=states, timeout_ms=9000)
            answer = teller.link.ask(ApiKey.DELETE_TOPICS, version, request)
            # Kafka answers in no particular order.
            teller.answers[f"delete v{version}"] = sorted(
                (one.name or "", one.error_code) for one in answer.responses
            )

    tell(chapter)


def test_metadata(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        topic_id = teller.create(topic, partitions=2)
        for version in teller.versions(ApiKey.METADATA):
            asked = [MetadataRequestTopic(name=name) for name in (topic, f"{topic}-no", "a b")]
            # Before version 4 asking makes the topic, so that only a name that cannot be is asked for.
            if version < 4:
                asked = asked[:1] + asked[2:]
            request = MetadataRequest(asked, allow_auto_topic_creation=False)
            teller.ask("known, unknown, impossible", ApiKey.METADATA, version, request)
            if version >= 1:
                teller.ask("none", ApiKey.METADATA, version, MetadataRequest([]))
            if version >= 10:
                by_id = [MetadataRequestTopic(topic_id, None)]
                teller.ask("by id", ApiKey.METADATA, version, MetadataRequest(by_id, False))
                by_id = [MetadataRequestTopic(NO_TOPIC_ID, None)]
                request = MetadataRequest(by_id, False)
                teller.ask("by unknown id", ApiKey.METADATA, version, request)
            if 8 <= version <= 10:
                request = MetadataRequest(asked[:1], False, True, True)
                teller.ask("with rights", ApiKey.METADATA, version, request)
        for version in teller.versions(ApiKey.DESCRIBE_CLUSTER):
            teller.ask("all", ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest(True))
        for names in ([topic], [topic, f"{topic}-no"], ["a b"]):
            description = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names])
            label = "+".join(names)
            teller.ask(label, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, description)
        page = DescribeTopicPartitionsRequest([TopicRequest(topic)], 1)
        teller.ask("a page of one", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, page)

    tell(chapter)


def test_produce(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        topic_id = teller.create(topic)
        small = teller.create(f"{topic}-small", max_message_bytes="200")
        compact = teller.create(f"{topic}-compact", cleanup_policy="compact")
        ids = {topic: topic_id, f"{topic}-small": small, f"{topic}-compact": compact}
        good = batch([b"one", b"two"])
        torn = bytes(good)[:-1]
        wrong_crc = bytearray(good)
        wrong_crc[-1] ^= 1
        wrong_magic = bytearray(good)
        wrong_magic[16] = 1
        future_codec = bytearray(good)
        future_codec[22] |= 7
        set_checksum(future_codec)
        wrong_count = bytearray(good)
        wrong_count[57:61] = (3).to_bytes(4, "big")
        set_checksum(wrong_count)
        cases: dict[str, tuple[str, int, bytes | bytearray | None]] = {
            "ordinary": (topic, 0, good),
            "gzip": (topic, 0, batch([b"one", b"two"], compression=Compression.GZIP)),
            "unknown partition": (topic, 7, good),
            "unknown topic": (f"{topic}-no", 0, good),
            "wrong crc": (topic, 0, wrong_crc),
            "torn": (topic, 0, torn),
            "wrong magic": (topic, 0, wrong_magic),
            "unknown codec": (topic, 0, future_codec),
            "wrong count": (topic, 0, wrong_count),
            "two batches": (topic, 0, bytes(good) + bytes(good)),
            "empty": (topic, 0, b""),
            "too large": (f"{topic}-small", 0, batch([b"x" * 300])),
            "no key, compacted": (f"{topic}-compact", 0, good),
            "no sequence, but a producer": (
                topic,
                0,
                batch([b"x"], producer_id=7, producer_epoch=0),
            ),
            "control": (topic, 0, batch([b"x"], control=True)),
            "after all that": (topic, 0, good),
        }
        for version in teller.versions(ApiKey.PRODUCE, lowest=3):
            for what, (name, partition, records) in cases.items():
                for acks in (1, -1):
                    request = produce_request(
                        name, partition, records, topic_id=ids.get(name, NO_TOPIC_ID), acks=acks
                    )
                    teller.ask(f"{what}, acks={acks}", ApiKey.PRODUCE, version, request)
            request = produce_request(topic, 0, good, topic_id=topic_id, acks=2)
            teller.ask("acks=2", ApiKey.PRODUCE, version, request)

    tell(
        chapter,
        {
            r"log_start_offset -1": (
                "Kafka tells the log's start with some refusals; no client reads it there"
            ),
            r"unknown codec.*error_code 76, Kafka -1": "Kafka fails inside, Millpond says why",
        },
    )


def test_produce_of_records_that_nobody_could_read(tell: Tell, topic: str) -> None:
    """Sound headers, right checksums, and records that are not what they say are refused, as Kafka does."""

    def chapter(teller: Teller) -> None:
        topic_id = teller.create(topic)
        compact = teller.create(f"{topic}-compact", cleanup_policy="compact")
        fresh = teller.create(f"{topic}-fresh", message_timestamp_before_max_ms="3600000")
        ids = {topic: topic_id, f"{topic}-compact": compact, f"{topic}-fresh": fresh}
        cases: dict[str, tuple[str, bytes | bytearray]] = {}
        for codec in Compression:
            for defect, make in {**POISON, **STRICTER}.items():
                cases[f"{defect}, {codec.name}"] = (
                    topic,
                    poisoned(make(), codec, timestamp=MORNING_MS),
                )
            some = [(MORNING_MS, None if n % 2 else b"k", b"v", ()) for n in range(4)]
            cases[f"some without a key, {codec.name}"] = (
                f"{topic}-compact",
                build_batch(some, compression=codec),
            )
            stamps = [MORNING_MS, FUTURE_MS, -1, FUTURE_MS]
            untimely = build_batch([(one, b"k", b"v", ()) for one in stamps], compression=codec)
            cases[f"some in the future, {codec.name}"] = (topic, untimely)
            cases[f"some in the past, {codec.name}"] = (f"{topic}-fresh", untimely)
        for codec, body in BROKEN_COMPRESSION.items():
            cases[f"broken, {codec.name}"] = (topic, sealed(1, body, codec, timestamp=MORNING_MS))
        version = teller.versions(ApiKey.PRODUCE)[-1]
        for what, (name, records) in cases.items():
            request = produce_request(name, 0, records, topic_id=ids[name], acks=-1)
            teller.ask(what, ApiKey.PRODUCE, version, request)

    tell(
        chapter,
        {
            r"log_start_offset": (
                "Kafka tells the log's start with some refusals; no client reads it there"
            ),
            r"error_code 87, Kafka -1": "Kafka fails inside, Millpond says why",
            rf"({'|'.join([*STRICTER, LENIENT])}).*(error_code 87, Kafka 0|base_offset)": (
                "Kafka stores it, and readers that believe the lengths or the offsets stop there"
            ),
        },
    )


def test_idempotent_produce(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        topic_id = teller.create(topic)
        # Apache Kafka fetches its first block of ids while it is asked for one.
        teller.until(
            "ids are there",
            lambda: (
                teller.link.ask(
                    ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000)
                ).error_code
                == 0
            ),
        )
        for version in teller.versions(ApiKey.INIT_PRODUCER_ID):
            question = InitProducerIdRequest(None, 60_000)
            teller.ask("a new id", ApiKey.INIT_PRODUCER_ID, version, question)
        producer = teller.link.ask(
            ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000)
        ).producer_id
        version = teller.versions(ApiKey.PRODUCE).stop - 1
        for what, epoch, sequence, count in (
            ("first", 0, 0, 3),
            ("second", 0, 3, 2),
            ("second again", 0, 3, 2),
            ("first again", 0, 0, 3),
            ("a gap", 0, 9, 1),
            ("third", 0, 5, 1),
            ("half of one before", 0, 4, 1),
            ("a new epoch, wrong start", 1, 6, 1),
            ("a new epoch", 1, 0, 1),
            ("the old epoch", 0, 6, 1),
            ("one", 1, 1, 1),
            ("two", 1, 2, 1),
            ("three", 1, 3, 1),
            ("four", 1, 4, 1),
            ("five", 1, 5, 1),
            ("long ago", 1, 0, 1),
            ("five back", 1, 1, 1),
        ):
            records = batch(
                [b"%d" % number for number in range(count)],
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            request = produce_request(topic, 0, records, topic_id=topic_id, acks=-1)
            teller.ask(what, ApiKey.PRODUCE, version, request)
        stranger = batch([b"x"], producer_id=producer + 500, producer_epoch=0, base_sequence=5)
        request = produce_request(topic, 0, stranger, topic_id=topic_id, acks=-1)
        teller.ask("an unknown producer in the middle", ApiKey.PRODUCE, version, request)
        teller.answers["stored"] = [
            (value, sequence) for value, sequence in stored_sequences(teller, topic, topic_id)
        ]

    tell(
        chapter,
        {
            r"(again|back).*log_append_time_ms -1": (
                "a duplicate's append time is -1, as it was the first time: the topic has none"
            ),
            r"log_start_offset -1": "told only with a success; no client reads it elsewhere",
        },
    )


def test_fetch(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        topic_id = teller.create(topic, partitions=2)
        for number in range(4):
            records = batch([b"%d" % number, b"x" * 100], compression=Compression(number))
            teller.link.ask(ApiKey.PRODUCE, 12, produce_request(topic, 0, records, acks=-1))
        for version in teller.versions(ApiKey.FETCH):

            def fetch(
                what: str,
                *partitions: FetchPartition,
                version: int = version,
                name: str = topic,
                by: uuid.UUID = topic_id,
                **others: Any,
            ) -> Any:
                fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **others}
                topics = [FetchTopic(name, by, list(partitions))] if partitions else []
                return teller.ask(
                    what, ApiKey.FETCH, version, FetchRequest(topics=topics, **fields)
                )

            def partition(number: int, offset: int, size: int = 1 << 20, epoch: int = -1) -> Any:
                return FetchPartition(
                    number,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=size,
                )

            fetch("from the start", partition(0, 0))
            fetch("from the middle of a batch", partition(0, 3))
            fetch("at the end", partition(0, 8))
            fetch("past the end", partition(0, 9))
            fetch("before the start", partition(0, -1))
            fetch("an empty partition", partition(1, 0))
            fetch("both", partition(0, 0), partition(1, 0))
            fetch("one byte", partition(0, 0, 1))
            fetch("one byte in all", partition(0, 2, 1), max_bytes=1)
            fetch("unknown partition", partition(9, 0))
            fetch("unknown topic", partition(0, 0), name=f"{topic}-no", by=NO_TOPIC_ID)
            fetch("read committed", partition(0, 0), isolation_level=1)
            if version >= 9:
                fetch("this epoch", partition(0, 4, epoch=0))
                fetch("a later epoch", partition(0, 4, epoch=5))
            if version >= 7:
                session = fetch("a new session", partition(0, 0), partition(1, 0), session_epoch=0)
                going_on = {"session_id": session.session_id}
                fetch("nothing new", session_epoch=1, **going_on)
                fetch("the wrong epoch", session_epoch=7, **going_on)
                fetch("another partition", partition(1, 0), session_epoch=2, **going_on)
                fetch("the end", session_epoch=-1, **going_on)
                fetch("no such session", session_epoch=3, session_id=12345)

    tell(chapter)


def test_list_offsets_and_epochs(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic, partitions=2)
        for number, time_ms in enumerate((10, 40, 20)):
            records = batch([b"%d" % number], time_ms=MORNING_MS + time_ms)
            teller.link.ask(ApiKey.PRODUCE, 12, produce_request(topic, 0, records, acks=-1))
        for version in teller.versions(ApiKey.LIST_OFFSETS):
            stamps = {
                "earliest": -2,
                "latest": -1,
                "max timestamp": -3,
                "earliest local": -4,
                "latest tiered": -5,
                "earliest pending upload": -6,
                "before all": MORNING_MS,
                "exact": MORNING_MS + 20,
                "between": MORNING_MS + 15,
                "after all": MORNING_MS + 41,
                "no such kind": -77,
            }
            for what, stamp in stamps.items():
                for name, number in ((topic, 0), (topic, 1), (topic, 5), (f"{topic}-no", 0)):
                    asked = [ListOffsetsTopic(name, [ListOffsetsPartition(number, -1, stamp)])]
                    label = f"{what} of {name[len(topic) :]}-{number}"
                    request = ListOffsetsRequest(-1, 0, asked, 1000)
                    teller.ask(label, ApiKey.LIST_OFFSETS, version, request)
            if version >= 4:
                asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, 9, -1)])]
                request = ListOffsetsRequest(-1, 0, asked, 1000)
                teller.ask("a later epoch", ApiKey.LIST_OFFSETS, version, request)
        for version in teller.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
            for epoch in (-1, 0, 1, 9):
                asked_epochs = [
                    OffsetForLeaderTopic(name, [OffsetForLeaderPartition(0, -1, epoch)])
                    for name in (topic, f"{topic}-no")
                ]
                request_epochs = OffsetForLeaderEpochRequest(-1, asked_epochs)
                label = f"epoch {epoch}"
                teller.ask(label, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request_epochs)

    tell(chapter)


def test_delete_records(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic)
        records = batch([b"%d" % number for number in range(20)])
        teller.link.ask(ApiKey.PRODUCE, 12, produce_request(topic, 0, records, acks=-1))
        for version in teller.versions(ApiKey.DELETE_RECORDS):
            for what, name, number, offset in (
                ("some", topic, 0, 3 + version),
                ("less", topic, 0, 1),
                ("past the end", topic, 0, 21),
                ("negative", topic, 0, -5),
                ("unknown partition", topic, 3, 1),
                ("unknown topic", f"{topic}-no", 0, 1),
            ):
                asked = [DeleteRecordsTopic(name, [DeleteRecordsPartition(number, offset)])]
                teller.ask(what, ApiKey.DELETE_RECORDS, version, DeleteRecordsRequest(asked, 9000))
        asked = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, -1)])]
        teller.ask("all", ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(asked, 9000))

    tell(chapter)


def test_settings_described_and_altered(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic, retention_ms="1000000")

        def described(what: str, version: int, *resources: DescribeConfigsResource) -> None:
            request = DescribeConfigsRequest(list(resources), include_synonyms=True)
            answer = teller.link.ask(ApiKey.DESCRIBE_CONFIGS, version, request)
            for result in answer.results:
                settings = {
                    one.name: teller._plain(one)
                    for one in result.configs
                    if one.name not in OWN_SETTINGS
                }
                result.configs = []
                label = f"{what} {result.resource_name}, v{version}"
                teller.answers[label] = teller._plain(result)
                for name in sorted(settings):
                    teller.answers[f"{label}: {name}"] = settings[name]

        def altered(
            what: str, name: str, value: str | None, operation: int = 0, **more: Any
        ) -> None:
            fields = {"resource_type": 2, "resource_name": topic, **more}
            resource = AlterConfigsResource(
                configs=[AlterableConfig(name, operation, value)], **fields
            )
            for version in teller.versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
                request = IncrementalAlterConfigsRequest([resource])
                teller.ask(what, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)

        some = ["retention.ms", "cleanup.policy", "no.such.setting"]
        for version in teller.versions(ApiKey.DESCRIBE_CONFIGS):
            described("some of a topic", version, DescribeConfigsResource(2, topic, some))
            described("all of a topic", version, DescribeConfigsResource(2, topic, None))
            described("no such topic", version, DescribeConfigsResource(2, f"{topic}-no", None))
            described("no such kind", version, DescribeConfigsResource(77, "x", None))
        altered("set", "segment.bytes", "3000000")
        altered("bad number", "segment.bytes", "3 MB")
        altered("too small", "segment.bytes", "1")
        altered("unknown", "no.such.setting", "1")
        altered("append", "cleanup.policy", "compact", 2)
        altered("subtract", "cleanup.policy", "delete", 3)
        altered("append to a number", "segment.bytes", "7", 2)
        altered("null", "segment.bytes", None)
        altered("reset", "retention.ms", None, 1)
        altered("no such operation", "retention.ms", "1", 9)
        altered("no such topic", "retention.ms", "1", resource_name=f"{topic}-no")
        altered("no such kind", "retention.ms", "1", resource_type=77)
        described("after all", 4, DescribeConfigsResource(2, topic, [*some, "segment.bytes"]))

    tell(
        chapter,
        {
            r"synonyms.*'source': 5": (
                "where a default comes from: Kafka names the broker settings that have one of their own"
            ),
            r"no such operation.*error_code 42, Kafka -1": "Kafka fails inside, Millpond says why",
        },
    )


def test_settings_replaced_as_a_whole(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic, retention_ms="1000000", segment_bytes="2000000")
        cases: dict[str, tuple[int, str, list[whole.AlterableConfig]]] = {
            "one": (2, topic, [whole.AlterableConfig("retention.ms", "2000000")]),
            "bad number": (2, topic, [whole.AlterableConfig("retention.ms", "soon")]),
            "unknown": (2, topic, [whole.AlterableConfig("no.such", "1")]),
            "no such topic": (2, f"{topic}-no", [whole.AlterableConfig("retention.ms", "1")]),
            "no such kind": (77, topic, []),
        }
        for version in teller.versions(ApiKey.ALTER_CONFIGS):
            for what, (kind, name, settings) in cases.items():
                for only in (True, False):
                    request = whole.AlterConfigsRequest(
                        [whole.AlterConfigsResource(kind, name, settings)], only
                    )
                    label = f"{what}, validate_only={only}"
                    teller.ask(label, ApiKey.ALTER_CONFIGS, version, request)
        asked = [DescribeConfigsResource(2, topic, ["retention.ms", "segment.bytes"])]
        answer = teller.link.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(asked))
        teller.answers["after all"] = {
            one.name: (one.value, one.config_source) for one in answer.results[0].configs
        }

    tell(chapter)


def test_log_directories(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic, partitions=2)
        records = batch([b"one", b"two"])
        teller.link.ask(ApiKey.PRODUCE, 12, produce_request(topic, 0, records, acks=-1))
        for version in teller.versions(ApiKey.DESCRIBE_LOG_DIRS):
            for what, name, partitions in (
                ("both", topic, [0, 1]),
                ("one", topic, [0]),
                ("unknown partition", topic, [9]),
                ("unknown topic", f"{topic}-no", [0]),
            ):
                asked = DescribeLogDirsRequest([DescribableLogDirTopic(name, partitions)])
                answer = teller.link.ask(ApiKey.DESCRIBE_LOG_DIRS, version, asked)
                (found,) = answer.results
                teller.answers[f"{what} v{version}"] = (
                    answer.error_code,
                    found.error_code,
                    (found.total_bytes > 0, found.usable_bytes > 0),
                    sorted(
                        (one.name, two.partition_index, two.partition_size, two.offset_lag)
                        for one in found.topics
                        for two in one.partitions
                    ),
                )

    tell(chapter)


def test_the_same_bytes_on_disk(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic, segment_bytes=str(1024 * 1024))
        chance = random.Random(4711)
        for number in range(300):
            records = batch(
                [b"%d" % number, chance.randbytes(5000)],
                time_ms=MORNING_MS + number * 7 % 50,
                compression=Compression(number % 5),
            )
            teller.link.ask(ApiKey.PRODUCE, 12, produce_request(topic, 0, records, acks=-1))
        directory = teller.data / f"{topic}-0"
        closed, active = sorted(directory.glob("*.log"))
        teller.answers["names"] = closed.name, active.name
        teller.answers["closed"] = closed.read_bytes()
        teller.answers["active"] = active.read_bytes()
        # How a broker keeps the indexes of an active segment is its own affair.
        teller.answers["index"] = closed.with_suffix(".index").read_bytes()
        teller.answers["timeindex"] = closed.with_suffix(".timeindex").read_bytes()
        teller.answers["snapshot"] = active.with_suffix(".snapshot").read_bytes()
        teller.answers["epochs"] = (directory / "leader-epoch-checkpoint").read_bytes()

    tell(chapter)


# Small words that the chapters use


def offered(peer: Peer) -> dict[int, tuple[int, int]]:
    """The versions of every API that a broker offers."""
    with WireClient(peer.port) as link:
        return offered_on(link)


def offered_on(link: WireClient) -> dict[int, tuple[int, int]]:
    """The same, over a connection that is there already."""
    answer = link.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"))
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Every place where two answers differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name in ours:
            yield from differences(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path} {ours!r}, Kafka {theirs!r}"


def batch(values: list[bytes], *, time_ms: int = MORNING_MS, **fields: Any) -> bytearray:
    """A record batch without keys, always the same bytes for the same arguments."""
    return build_batch([(time_ms, None, value, ()) for value in values], **fields)


def set_checksum(records: bytearray) -> None:
    """Make a changed batch's checksum right again."""
    records[17:21] = crc32c.crc32c(bytes(records[21:])).to_bytes(4, "big")


def produce_request(
    topic: str,
    partition: int,
    records: bytes | bytearray | None,
    *,
    topic_id: uuid.UUID = NO_TOPIC_ID,
    acks: int = 1,
) -> ProduceRequest:
    """A produce request to one partition."""
    data = [PartitionProduceData(partition, records)]
    return ProduceRequest(None, acks, 10_000, [TopicProduceData(topic, topic_id, data)])


def stored_sequences(teller: Teller, topic: str, topic_id: uuid.UUID) -> Iterator[tuple[int, int]]:
    """Offset and first sequence number of every batch of partition 0."""
    from millpond.record.batch import iter_batches

    asked = [FetchTopic(topic, topic_id, [FetchPartition(0, partition_max_bytes=1 << 20)])]
    request = FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=asked)
    answer = teller.link.ask(ApiKey.FETCH, 16, request)
    for _, header in iter_batches(answer.responses[0].partitions[0].records):
        yield header.base_offset, header.base_sequence
