"""Share groups (KIP-932) whose topic is deleted, and made again: Millpond and Apache Kafka answer the same.

Chapters as in ``test_differential``. Brokers forget a deleted topic a moment after they have answered, each
in its own time: a chapter asks until the answer is the settled one.
"""

import base64
import uuid
from collections.abc import Sequence
from typing import Any

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages import share_acknowledge, share_fetch
from millpond.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from millpond.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.interop.peers import Peer
from tests.interop.test_differential import Tell, Teller, batch, produce_request, tell
from tests.support.processes.java_host import JavaHost

__all__ = ["tell"]

GROUP_RESOURCE = 32
ACCEPT, RELEASE = 1, 2
FINAL = -1
MOVING = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Member:
    """A member of a share group with its share session, by hand."""

    def __init__(self, teller: Teller, group: str) -> None:
        self.teller = teller
        self.group = group
        # As Kafka writes ids.
        self.member_id = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
        self.member_epoch = 0
        self.session_epoch = 0

    def begin_at_the_start(self) -> None:
        settings = [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
        resource = AlterConfigsResource(GROUP_RESOURCE, self.group, settings)
        request = IncrementalAlterConfigsRequest([resource], validate_only=False)
        (answer,) = self.teller.link.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == 0, answer

        def has_coordinator() -> bool:
            asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
            (found,) = self.teller.link.ask(ApiKey.FIND_COORDINATOR, 4, asked).coordinators
            return bool(found.error_code == 0)

        self.teller.until("the group has a coordinator", has_coordinator)

    def beat(self, *topics: str) -> Any:
        """A heartbeat; with topics it is the first, or says that others are wanted."""
        request = ShareGroupHeartbeatRequest(
            self.group, self.member_id, self.member_epoch, None, list(topics) or None
        )
        answer = self.teller.link.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        if answer.error_code == 0:
            self.member_epoch = answer.member_epoch
        else:
            assert ErrorCode(answer.error_code) in MOVING, answer
        return answer

    def beat_until(self, what: str, wanted: Sequence[uuid.UUID], *topics: str) -> None:
        """Heartbeats until the member has exactly these topics."""

        def is_assigned() -> bool:
            assignment = self.beat(*(topics if self.member_epoch == 0 else ())).assignment
            return assignment is not None and [
                one.topic_id for one in assignment.topic_partitions
            ] == list(wanted)

        self.teller.until(what, is_assigned)

    def fetch(
        self,
        topics: Sequence[uuid.UUID] = (),
        *,
        words: Sequence[tuple[uuid.UUID, int, int, int]] = (),
        forgotten: Sequence[uuid.UUID] = (),
        epoch: int | None = None,
        wait_ms: int = 500,
    ) -> Any:
        """The next request of the session."""
        said = {
            topic_id: [share_fetch.AcknowledgementBatch(first, last, [kind])]
            for topic_id, first, last, kind in words
        }
        request = share_fetch.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
            topics=[
                share_fetch.FetchTopic(one, [share_fetch.FetchPartition(0, said.get(one, []))])
                for one in dict.fromkeys((*topics, *said))
            ],
            forgotten_topics_data=[share_fetch.ForgottenTopic(one, [0]) for one in forgotten],
        )
        answer = self.teller.link.ask(ApiKey.SHARE_FETCH, 2, request)
        if answer.error_code == 0:
            self.session_epoch += 1
        return answer

    def fetch_until_given(self, topics: Sequence[uuid.UUID]) -> list[tuple[int, int, int]]:
        """What is handed out, once something is."""
        found: list[tuple[int, int, int]] = []

        def is_given() -> bool:
            answer = self.fetch(topics if self.session_epoch == 0 else ())
            assert answer.error_code == 0, answer
            found.extend(given(answer))
            return bool(found)

        self.teller.until("records are handed out", is_given)
        return found

    def say(self, topic_id: uuid.UUID, first: int, last: int, epoch: int | None = None) -> Any:
        """Accept without fetching."""
        batches = [share_acknowledge.AcknowledgementBatch(first, last, [ACCEPT])]
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id, [share_acknowledge.AcknowledgePartition(0, batches)]
                )
            ],
        )
        answer = self.teller.link.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
        if answer.error_code == 0:
            self.session_epoch += 1
        return answer


def given(answer: Any) -> list[tuple[int, int, int]]:
    """First and last offset and delivery count of all that an answer hands out."""
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for topic in answer.responses
        for one in topic.partitions
        for run in one.acquired_records
    ]


def is_fetch(answer: Any) -> bool:
    return isinstance(answer, share_fetch.ShareFetchResponse)


def codes(answer: Any, **names: uuid.UUID) -> Any:
    """The codes of an answer, with topics by the names that the chapter gives them.

    Kafka names partitions in a fetch, too, of which it has nothing to say: these are left out.
    """
    topics = {topic_id: name for name, topic_id in names.items()}
    partitions = sorted(
        (
            topics.get(topic.topic_id, "?"),
            one.partition_index,
            ErrorCode(one.error_code).name,
            ErrorCode(getattr(one, "acknowledge_error_code", 0)).name,
        )
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code or getattr(one, "acknowledge_error_code", 0) or not is_fetch(answer)
    )
    return ErrorCode(answer.error_code).name, partitions


def delete(teller: Teller, topic: str) -> None:
    """Delete, and wait until the broker has forgotten it."""
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
    (gone,) = teller.link.ask(ApiKey.DELETE_TOPICS, 5, request).responses
    assert gone.error_code == 0, gone

    def is_gone() -> bool:
        asked = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        (found,) = teller.link.ask(ApiKey.METADATA, 12, asked).topics
        return bool(found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    teller.until("the topic is gone", is_gone)


def write(teller: Teller, topic: str, *values: bytes) -> None:
    for value in values:
        request = produce_request(topic, 0, batch([value]))
        (answer,) = teller.link.ask(ApiKey.PRODUCE, 9, request).responses
        assert answer.partition_responses[0].error_code == 0


# Kafka 4.3.1 gives up a whole ShareFetch that reads nothing but topics it does not know, with an error that
# says nothing (and counts the request, so that the member has to begin a new session). Here the member hears
# which topic is unknown, as the protocol has it, and its session goes on.
DECLARED = {
    r"^(fetched|old words)\b.*UNKNOWN_TOPIC_ID.*Kafka \('UNKNOWN_SERVER_ERROR'": "Kafka fails as a whole",
}


def deleted_under_a_member(teller: Teller, topic: str) -> tuple[uuid.UUID, Member]:
    """Give three records of a topic to a member and delete the topic; return its id and the member."""
    old = teller.create(topic)
    write(teller, topic, b"a", b"b", b"c")
    ann = Member(teller, f"{topic}-pool")
    ann.begin_at_the_start()
    ann.beat_until("the topic is assigned", [old], topic)
    teller.answers["given"] = ann.fetch_until_given([old])
    delete(teller, topic)
    return old, ann


def test_a_topic_that_is_deleted_under_a_share_group(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        old, ann = deleted_under_a_member(teller, topic)
        teller.answers["accepted"] = codes(ann.say(old, 0, 0), old=old)
        with_words = ann.fetch(words=[(old, 1, 1, ACCEPT)])
        teller.answers["fetched with words"] = codes(with_words, old=old)
        ann.session_epoch = 0
        teller.answers["fetched anew"] = codes(ann.fetch([old]), old=old)
        ann.session_epoch = 0
        teller.answers["nothing fetched"] = codes(ann.fetch(), old=old)
        teller.answers["accepted again"] = codes(ann.say(old, 1, 1), old=old)
        ann.beat_until("nothing is assigned", [])
        teller.answers["forgotten"] = codes(ann.fetch(forgotten=[old]), old=old)
        teller.answers["after it is forgotten"] = codes(ann.fetch(), old=old)
        teller.answers["accepted late"] = codes(ann.say(old, 2, 2), old=old)
        teller.answers["end"] = codes(ann.fetch(epoch=FINAL), old=old)

    tell(chapter, declared=DECLARED)


def test_a_topic_that_is_deleted_and_made_again_under_a_share_group(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        old, ann = deleted_under_a_member(teller, topic)
        new = teller.create(topic)
        write(teller, topic, b"x", b"y")
        teller.answers["accepted"] = codes(ann.say(old, 0, 0), old=old, new=new)
        teller.answers["fetched"] = codes(ann.fetch(), old=old, new=new)
        ann.session_epoch = 0
        ann.beat_until("the new topic is assigned", [new])
        # What was held of the old one is not taken for the new one.
        teller.answers["given anew"] = ann.fetch_until_given([new])
        teller.answers["accepted old"] = codes(ann.say(old, 1, 1), old=old, new=new)
        teller.answers["accepted anew"] = codes(ann.say(new, 0, 1), old=old, new=new)
        teller.answers["accepted twice"] = codes(ann.say(new, 0, 1), old=old, new=new)
        both = ann.fetch(words=[(old, 2, 2, ACCEPT)])
        teller.answers["old words, new records"] = codes(both, old=old, new=new)
        teller.answers["end"] = codes(ann.fetch(epoch=FINAL), old=old, new=new)

    tell(chapter, declared=DECLARED)


def test_what_is_said_of_topics_that_never_were(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        there = teller.create(topic)
        never = uuid.UUID(int=0xDEAD)
        ann = Member(teller, f"{topic}-pool")
        ann.begin_at_the_start()
        ann.beat_until("the topic is assigned", [there], topic)
        teller.answers["fetched"] = codes(ann.fetch([never]), never=never)
        ann.session_epoch = 0
        teller.answers["session"] = codes(ann.fetch([there]), there=there)
        teller.answers["accepted"] = codes(ann.say(never, 0, 0), never=never)
        teller.answers["of another"] = codes(ann.say(there, 0, 0), there=there)
        write(teller, topic, b"a")
        teller.answers["given"] = ann.fetch_until_given([there])
        teller.answers["beyond"] = codes(ann.say(there, 7, 7), there=there)
        teller.answers["end"] = codes(ann.say(never, 0, 0, epoch=FINAL), never=never)

    tell(chapter, declared=DECLARED)


def test_kafkas_share_consumer_outlives_its_topic(
    broker: Peer, kafka: Peer, java_host: JavaHost, topic: str
) -> None:
    ours, theirs = (
        java_host.run("Shares.deleted", one.bootstrap, topic) for one in (broker, kafka)
    )
    assert ours == theirs
    assert ours == [
        "held [0, 1, 2]",
        "commit: UnknownTopicIdException",
        "given of the new topic: [10, 11, 12]",
        "commit: accepted",
    ]
