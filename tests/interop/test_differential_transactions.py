"""Transactions: the same requests to Millpond and to Apache Kafka get the same answers, wrong ones too.

Chapters as in ``test_differential``. Producer ids are each broker's own and are compared by where they come
again; epochs, offsets and states are compared as they are.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from millpond.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from millpond.wire.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from millpond.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from millpond.wire.kafka.messages.end_txn import EndTxnRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from millpond.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from millpond.wire.kafka.messages.list_transactions import ListTransactionsRequest
from millpond.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.interop.peers import Peer
from tests.interop.telling import tell_both
from tests.interop.test_differential import batch, produce_request
from tests.interop.test_differential_groups import GroupTeller
from tests.support.kafka.wire_client import WireClient

TIMES = ("transaction_start_time_ms", "last_timestamp", "log_append_time_ms")
SORTED_BY = ("transactional_id", "producer_id", "partition_index", "partition", "name")
NOBODY = 9_999_999

# What no client looks at in the answer to a refused or repeated batch.
OWN_WORDS = ("log_start_offset", "log_append_time_ms", "record_errors")


class TxnTeller(GroupTeller):
    """One broker's side, with the words of transactions."""

    def __init__(self, link: WireClient) -> None:
        super().__init__(link)
        self._producers: dict[int, str] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        asked = FindCoordinatorRequest(key="any", key_type=1)
        self.until(
            "there is a coordinator",
            lambda: link.ask(ApiKey.FIND_COORDINATOR, 3, asked).error_code == 0,
        )

    def _plain(self, value: Any, field: str = "") -> Any:
        if field.endswith("producer_id") and isinstance(value, int) and value >= 0:
            return self._producers.setdefault(value, f"producer {len(self._producers) + 1}")
        if field in TIMES and isinstance(value, int) and value > 0:
            return "<time>"
        return super()._plain(value, field)

    def make(self, topic: str, partitions: int = 1) -> None:
        self.topic_ids[topic] = self.create(topic, partitions=partitions)

    # --- requests ---------------------------------------------------------------------------------

    def init(self, label: str, name: str | None, version: int = 5, **fields: Any) -> Any:
        """InitProducerId, again as long as the broker is only busy."""
        request = InitProducerIdRequest(
            name, fields.pop("timeout_ms", 60_000), fields.pop("id", -1), fields.pop("epoch", -1)
        )
        assert not fields
        busy = {
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }
        answer: Any = None

        def is_done() -> bool:
            nonlocal answer
            answer = self.link.ask(ApiKey.INIT_PRODUCER_ID, version, request)
            return answer.error_code not in busy

        self.until(label, is_done)
        self.keep(f"init v{version}: {label}", answer)
        return answer

    def keep(self, label: str, answer: Any) -> None:
        assert label not in self.answers, f"told twice: {label}"
        self.answers[label] = self._plain(answer)

    def add(self, label: str, name: str, me: Any, version: int = 3, **fields: Any) -> Any:
        places = fields.pop("places", {})
        topics = [AddPartitionsToTxnTopic(topic, parts) for topic, parts in places.items()]
        producer_id = fields.pop("id", me.producer_id)
        epoch = fields.pop("epoch", me.producer_epoch)
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        else:
            one = AddPartitionsToTxnTransaction(
                name, producer_id, epoch, fields.pop("verify", False), topics
            )
            request = AddPartitionsToTxnRequest([one])
        assert not fields
        return self.settled(label, ApiKey.ADD_PARTITIONS_TO_TXN, version, request)

    def settled(self, label: str, api: ApiKey, version: int, request: Any) -> Any:
        """Ask again while the transaction before is only being ended."""
        answer: Any = None

        def is_done() -> bool:
            nonlocal answer
            answer = self.link.ask(api, version, request)
            return int(ErrorCode.CONCURRENT_TRANSACTIONS) not in _codes(answer)

        self.until(label, is_done)
        self.keep(f"{api.name} v{version}: {label}", answer)
        return answer

    def end(self, label: str, name: str, me: Any, version: int = 5, **fields: Any) -> Any:
        request = EndTxnRequest(
            name,
            fields.pop("id", me.producer_id),
            fields.pop("epoch", me.producer_epoch),
            fields.pop("commit", True),
        )
        assert not fields
        return self.settled(label, ApiKey.END_TXN, version, request)

    def write(self, label: str, topic: str, me: Any, version: int = 12, **fields: Any) -> Any:
        records = batch(
            [b"x"],
            producer_id=fields.pop("id", me.producer_id),
            producer_epoch=fields.pop("epoch", me.producer_epoch),
            base_sequence=fields.pop("sequence", 0),
            transactional=fields.pop("transactional", True),
        )
        request = produce_request(
            topic,
            fields.pop("partition", 0),
            records,
            topic_id=self.topic_ids.get(topic, uuid.UUID(int=0)),
            acks=-1,
        )
        request.transactional_id = fields.pop("name", topic)
        assert not fields
        return self.settled(label, ApiKey.PRODUCE, version, request)

    def offsets(self, label: str, name: str, me: Any, version: int = 5, **fields: Any) -> Any:
        position = TxnOffsetCommitRequestPartition(fields.pop("partition", 0), 5, -1, "five")
        topic = fields.pop("topic", name)
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=fields.pop("group", name),
            producer_id=fields.pop("id", me.producer_id),
            producer_epoch=fields.pop("epoch", me.producer_epoch),
            topics=[TxnOffsetCommitRequestTopic(topic, partitions=[position])],
            **fields,
        )
        return self.settled(label, ApiKey.TXN_OFFSET_COMMIT, version, request)

    def state(self, name: str) -> str:
        request = DescribeTransactionsRequest([name])
        (found,) = self.link.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
        return str(found.transaction_state)

    def look(self, label: str, name: str, topic: str) -> None:
        """What everybody can see of a transactional id and of a partition."""
        self.until("its markers are written", lambda: not self.state(name).startswith("Prepare"))
        told = self.link.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([name]))
        for one in told.transaction_states[0].topics:
            one.partitions.sort()
        self.keep(f"transaction: {label}", told)
        asked = DescribeProducersRequest([TopicRequest(topic, [0, 1])])
        found = self.link.ask(ApiKey.DESCRIBE_PRODUCERS, 0, asked)
        for part in found.topics[0].partitions:
            part.active_producers.sort(key=lambda one: one.producer_id)
        self.keep(f"producers: {label}", found)


def _codes(answer: Any) -> set[int]:
    """Every error code anywhere in an answer."""
    found: set[int] = set()
    names = getattr(answer, "__slots__", ())
    for name in names:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.add(int(value))
        elif isinstance(value, list):
            for one in value:
                found |= _codes(one)
    return found


@pytest.fixture
def tell(broker: Peer, kafka: Peer) -> Callable[[Callable[[TxnTeller], None]], None]:
    """Tell a chapter to both brokers and compare."""

    def prove(peer: Peer, link: WireClient) -> None:
        if peer.is_millpond:
            # Leaders of partitions ask some of it, and Kafka without an authorizer takes all for such.
            link.prove(peer.data)

    return lambda chapter: tell_both(
        broker, kafka, TxnTeller, chapter, own_words=OWN_WORDS, prepare=prove
    )


Tell = Callable[[Callable[[TxnTeller], None]], None]


def test_a_transaction_s_life_in_both_generations(tell: Tell, topic: str) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic, partitions=2)
        for version in teller.versions(ApiKey.INIT_PRODUCER_ID):
            me = teller.init("begin", topic, version)
        teller.look("before", topic, topic)
        teller.add("a partition", topic, me, places={topic: [0]})
        teller.write("announced", topic, me, version=11)
        teller.look("first generation, open", topic, topic)
        teller.end("first generation", topic, me, version=4)
        teller.look("first generation, ended", topic, topic)
        teller.end("first generation again", topic, me, version=4)
        teller.end("first generation, but abort", topic, me, version=4, commit=False)
        teller.write("second generation", topic, me, sequence=1)
        teller.look("second generation, open", topic, topic)
        after = teller.end("second generation", topic, me)
        teller.look("second generation, ended", topic, topic)
        teller.end("second generation again", topic, me)
        teller.end("second generation, but abort", topic, me, commit=False)
        teller.write("the old epoch", topic, me, sequence=2)
        teller.write("the new epoch, old sequence", topic, after, sequence=2)
        teller.write("the new epoch", topic, after)
        teller.write("the new epoch, both partitions", topic, after, partition=1)
        last = teller.end("abort", topic, after, commit=False)
        teller.look("aborted", topic, topic)
        nothing = teller.end("nothing, aborted", topic, last, commit=False)
        teller.look("nothing, aborted", topic, topic)
        teller.end("nothing, committed", topic, nothing)
        teller.end("nothing, the old way", topic, nothing, version=4)

    tell(chapter)


def test_taking_over_and_coming_back(tell: Tell, topic: str) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic)
        old = teller.init("old", topic)
        teller.write("old", topic, old)
        new = teller.init("new", topic)
        teller.look("the old transaction is gone", topic, topic)
        teller.write("old, fenced", topic, old, sequence=1)
        teller.add("old, fenced", topic, old, places={topic: [0]})
        for version in (1, 2, 4, 5):
            teller.end("old, fenced", topic, old, version=version)
        for version in (2, 3, 5):
            teller.offsets("old, fenced", topic, old, version=version)
        teller.init("old, by its identity", topic, id=old.producer_id, epoch=old.producer_epoch)
        again = teller.init(
            "new, by its identity", topic, id=new.producer_id, epoch=new.producer_epoch
        )
        teller.init(
            "new, by its identity, once more", topic, id=new.producer_id, epoch=new.producer_epoch
        )
        teller.init("a stranger's identity", topic, id=NOBODY, epoch=0)
        teller.init("a stranger's identity, old client", topic, version=3, id=NOBODY, epoch=0)
        teller.write("again", topic, again)
        teller.init(
            "in a transaction, by identity",
            topic,
            id=again.producer_id,
            epoch=again.producer_epoch,
        )
        teller.look("bumped in a transaction", topic, topic)
        teller.init("identity, unknown name", f"{topic}-no", id=again.producer_id, epoch=1)

    tell(chapter)


@pytest.mark.parametrize("generation", [1, 2])
def test_a_producer_that_was_too_slow(tell: Tell, topic: str, generation: int) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic)
        me = teller.init("me", topic, timeout_ms=1_500)
        if generation == 1:
            teller.add("mine", topic, me, places={topic: [0]})
        teller.write("mine", topic, me, 10 + generation)
        teller.until("its time is over", lambda: teller.state(topic) == "CompleteAbort")
        teller.look("aborted", topic, topic)
        teller.write("I write", topic, me, 10 + generation, sequence=1)
        version = 3 + generation
        teller.end("I commit", topic, me, version)
        after = teller.end("I abort", topic, me, version, commit=False)
        if generation == 2:
            teller.write("I go on", topic, after)
            teller.end("I go on", topic, after)
        identity = {"id": me.producer_id, "epoch": me.producer_epoch}
        teller.init("I come back", topic, **identity)
        teller.look("at the end", topic, topic)

    tell(chapter)


def test_what_is_refused(tell: Tell, topic: str) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic)
        me = teller.init("me", topic)
        for timeout_ms in (0, -1, 900_000, 900_001):
            teller.init(f"a time-out of {timeout_ms}", f"{topic}-t", timeout_ms=timeout_ms)
        teller.init("an empty name", "")
        teller.init("an epoch without an id", f"{topic}-t", id=-1, epoch=3)
        teller.init("an id without an epoch", f"{topic}-t", id=3, epoch=-1)
        for version in teller.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
            one = {topic: [0]}
            teller.add("an unknown name", f"{topic}-no", me, version, places=one)
            teller.add("an unknown id", topic, me, version, places=one, id=NOBODY)
            teller.add("an old epoch", topic, me, version, places=one, epoch=7)
            teller.add("an unknown topic", topic, me, version, places={**one, f"{topic}-no": [0]})
            teller.add("an unknown partition", topic, me, version, places={topic: [0, 7]})
            teller.add("nothing", topic, me, version, places={})
            teller.add("an empty name", "", me, version, places=one)
        teller.add("verify", topic, me, 5, places={topic: [0]}, verify=True)
        for version in teller.versions(ApiKey.END_TXN):
            teller.end("an unknown name", f"{topic}-no", me, version)
            teller.end("an unknown id", topic, me, version, id=NOBODY)
            teller.end("an old epoch", topic, me, version, epoch=7)
            teller.end("an empty name", "", me, version)
        for version in teller.versions(ApiKey.ADD_OFFSETS_TO_TXN):
            for label, name, group in (
                ("unknown name", f"{topic}-no", "g"),
                ("no group", topic, ""),
                ("well", topic, "g"),
            ):
                request = AddOffsetsToTxnRequest(name, me.producer_id, me.producer_epoch, group)
                teller.settled(label, ApiKey.ADD_OFFSETS_TO_TXN, version, request)
        for version in teller.versions(ApiKey.TXN_OFFSET_COMMIT):
            teller.offsets("unknown name", f"{topic}-no", me, version, topic=topic)
            teller.offsets("unknown id", topic, me, version, id=NOBODY)
            teller.offsets("old epoch", topic, me, version, epoch=7)
            teller.offsets("no group", topic, me, version, group="")
            teller.offsets("unknown topic", topic, me, version, topic=f"{topic}-no")
            teller.offsets("unknown partition", topic, me, version, partition=9)
            if version >= 3:
                teller.offsets(
                    "a stranger's generation",
                    topic,
                    me,
                    version,
                    generation_id_or_member_epoch=3,
                    member_id="who",
                )
        teller.look("after", topic, topic)

    tell(chapter)


def test_writes_that_are_refused(tell: Tell, topic: str) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic)
        me = teller.init("me", topic)
        for version in (9, 10, 11):
            teller.write("not announced", topic, me, version)
        for version in (10, 12):
            teller.write("no name", topic, me, version, name=None)
            teller.write("an unknown name", topic, me, version, name=f"{topic}-no")
            teller.write("an unknown id", topic, me, version, id=NOBODY)
            teller.write("an epoch to come", topic, me, version, epoch=7)
        teller.write("a gap at the start", topic, me, sequence=4)
        teller.write("first", topic, me)
        teller.write("first again", topic, me)
        teller.write("a gap", topic, me, sequence=5)
        teller.write("a step back", topic, me, sequence=-1)
        plain = {"transactional": False}
        teller.write("not transactional, in a transaction", topic, me, sequence=1, **plain)
        teller.look("after all that", topic, topic)
        after = teller.end("commit", topic, me)
        teller.look("committed", topic, topic)
        teller.write("not transactional, between", topic, after, **plain)
        teller.write("not transactional, again", topic, after, sequence=1, **plain)
        teller.look("at the end", topic, topic)

    tell(chapter)


def test_offsets_in_transactions_of_members_and_strangers(tell: Tell, topic: str) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic)
        member = teller.member("member", topic)
        me = teller.init("me", topic)
        mine = {
            "generation_id_or_member_epoch": member.generation_id,
            "member_id": member.member_id,
        }
        teller.offsets("mine", topic, me, **mine)
        teller.offsets(
            "a generation ago", topic, me, **{**mine, "generation_id_or_member_epoch": 0}
        )
        teller.offsets(
            "a generation to come", topic, me, **{**mine, "generation_id_or_member_epoch": 99}
        )
        teller.offsets("someone else", topic, me, **{**mine, "member_id": "who"})
        teller.offsets("an instance", topic, me, **mine, group_instance_id="who")
        teller.offsets("nobody's", topic, me)
        teller.fetch("while it is open", topic, {topic: [0]})
        after = teller.end("commit", topic, me)
        teller.look("committed", topic, topic)
        teller.fetch("committed", topic, {topic: [0]})
        teller.offsets("next", topic, after, **mine)
        teller.end("abort", topic, after, commit=False)
        teller.look("aborted", topic, topic)
        teller.fetch("aborted", topic, {topic: [0]})

    tell(chapter)


def test_transactions_listed_and_described(tell: Tell, topic: str) -> None:
    def chapter(teller: TxnTeller) -> None:
        teller.make(topic)
        names = [f"{topic}-{state}" for state in ("empty", "open", "done")]
        empty, still_open, done = (teller.init(name, name) for name in names)
        teller.write("open", topic, still_open, name=names[1])
        teller.write("done", topic, done, name=names[2])
        teller.end("done", names[2], done)
        teller.look("done", names[2], topic)
        filters: tuple[dict[str, Any], ...] = (
            {},
            {"state_filters": ["Ongoing"]},
            {"state_filters": ["ongoing"]},
            {"state_filters": ["Empty", "NoSuchState"]},
            {"producer_id_filters": [empty.producer_id]},
            {"producer_id_filters": [NOBODY]},
            {"duration_filter": 0},
            {"duration_filter": 9_999_999},
            {"duration_filter": -1},
            {"transactional_id_pattern": f"{topic}-(open|done)"},
            {"transactional_id_pattern": ""},
            {"transactional_id_pattern": "(((("},
        )
        for version in teller.versions(ApiKey.LIST_TRANSACTIONS):
            for number, only in enumerate(filters):
                if version < 1 and "duration_filter" in only:
                    continue
                if version < 2 and "transactional_id_pattern" in only:
                    continue
                request = ListTransactionsRequest(**only)
                found = teller.link.ask(ApiKey.LIST_TRANSACTIONS, version, request)
                ours = [one for one in found.transaction_states if one.transactional_id in names]
                found.transaction_states = sorted(ours, key=lambda one: one.transactional_id)
                found.unknown_state_filters.sort()
                teller.keep(f"list v{version} {number} {sorted(only)}", found)
        asked = DescribeTransactionsRequest([names[1], f"{topic}-no"])
        teller.ask("two", ApiKey.DESCRIBE_TRANSACTIONS, 0, asked)
        strange = DescribeProducersRequest([TopicRequest(f"{topic}-no", [0])])
        teller.ask("unknown topic", ApiKey.DESCRIBE_PRODUCERS, 0, strange)

    tell(chapter)
