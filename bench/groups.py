"""Cells of groups, transactions, commits and share groups: `python -m bench groups`."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from confluent_kafka import Producer
from tests.support.kafka.wire_client import WireClient

from bench import java_perf
from bench.brokers import Broker
from bench.group_life import Crowd, find_coordinator
from bench.model import Cell, Metric, Values, percentile
from bench.raw_client import BenchmarkError, RawClient, frame
from bench.throughput import _client, _ensure_topic, _measured, rdkafka
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from millpond.wire.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from millpond.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

PARTITIONS = 12
MEMBERS = (1, 2, 6)
SIZE = 100
GROUP_MESSAGES = 1_000_000
CROWD_PARTITIONS = 1_000
CROWDS = (1, 20, 200)
TRANSACTIONS = 200
TRANSACTION_MESSAGES = 100
COMMITS = 2_000
SHARE_MESSAGES = 60_000
SHARE_RECORDS_MAX = 500
SHARE_CROWD = 4
SHARE_CROWD_MESSAGES = 400_000

# Members learn of changes with their heartbeats: with the default of 5 s both brokers take five times as
# long.
PROPERTIES = {
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}

RATES = (
    Metric(key="msgs_per_s", label="messages", unit="msgs/s", target=1.0, charted=True),
    Metric(key="cpu_s_per_gb", label="broker CPU", unit="s/GB", higher_is_better=False),
)


def cells() -> Iterator[Cell]:
    for count in MEMBERS:
        yield _group_cell(count)
    for count in CROWDS:
        yield _crowd_cell(count)
    for count in (1, TRANSACTION_MESSAGES):
        yield _transaction_cell(count)
    for partitions in (1, PARTITIONS):
        yield _commit_cell(partitions)
    for each in (False, True):
        yield _share_cell(each=each)
    yield _share_crowd_cell()


# --- consuming in a group -------------------------------------------------------------------------


def _group_cell(members: int) -> Cell:
    topic = "group-consume"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, PARTITIONS)
        _fill(broker, topic, GROUP_MESSAGES, PARTITIONS)
        return {}

    def run(broker: Broker) -> Values:
        def read() -> Values:
            return rdkafka(
                *("group", f"127.0.0.1:{broker.port}", topic, "--count", str(GROUP_MESSAGES)),
                *("--size", str(SIZE), "--partitions", str(PARTITIONS)),
                *("--members", str(members)),
            )

        return _measured(broker, GROUP_MESSAGES * SIZE, read)

    return Cell(
        name=f"group-consume/m{members}",
        section="Consumer groups (KIP-848)",
        title=f"librdkafka, 100 B, 12 partitions, {members} member{'s' * (members > 1)}",
        metrics=RATES,
        prepare=prepare,
        run=run,
        seconds=5.0,
    )


def _fill(broker: Broker, topic: str, wanted: int, partitions: int) -> None:
    with _client(broker) as raw:
        have = raw.end_offsets(topic, partitions)
        if have < wanted:
            raw.fill(topic, records=wanted - have, size=SIZE, partitions=partitions)
        if raw.end_offsets(topic, partitions) < wanted:
            raise BenchmarkError(f"{topic} could not be filled")


# --- rebalancing ----------------------------------------------------------------------------------


def _crowd_cell(count: int) -> Cell:
    topic = "crowd"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, CROWD_PARTITIONS)
        return {}

    def run(broker: Broker) -> Values:
        crowd = Crowd(broker.port, f"crowd-{uuid.uuid4()}", topic, partitions=CROWD_PARTITIONS)
        cpu = _cpu(broker)
        try:
            values = {"join_s": crowd.join(count)}
            if count > 1:
                values["leave_s"] = crowd.leave()
            values["cpu_s"] = _cpu(broker) - cpu
            return values
        finally:
            crowd.close()

    return Cell(
        name=f"rebalance/m{count}",
        section="Consumer groups (KIP-848)",
        title=f"{count} member{'s' * (count > 1)} over 1,000 partitions",
        metrics=(
            Metric(
                key="join_s",
                label="all join until settled",
                unit="s",
                higher_is_better=False,
                target=1.0,
                charted=True,
            ),
            Metric(
                key="leave_s", label="one leaves until settled", unit="s", higher_is_better=False
            ),
            Metric(key="cpu_s", label="broker CPU", unit="s", higher_is_better=False),
        ),
        prepare=prepare,
        run=run,
        seconds=6.0 if count > 1 else 2.0,
    )


def _cpu(broker: Broker) -> float:
    from bench.machine import cpu_seconds_of

    return cpu_seconds_of(broker.pid)


# --- transactions ---------------------------------------------------------------------------------


def _transaction_cell(messages: int) -> Cell:
    topic = "transactions"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, PARTITIONS)
        return {}

    def run(broker: Broker) -> Values:
        settings = {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "transactional.id": f"bench-{uuid.uuid4()}",
            "linger.ms": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(30)
        payload = b"x" * SIZE
        _transact(producer, topic, payload, messages)
        times = sorted(_transact(producer, topic, payload, messages) for _ in range(TRANSACTIONS))
        return {
            "txn_per_s": TRANSACTIONS / sum(times),
            "p50_ms": median(times) * 1e3,
            "p99_ms": percentile(times, 0.99) * 1e3,
        }

    return Cell(
        name=f"transactions/{messages}",
        section="Transactions",
        title=f"librdkafka, {messages} message{'s' * (messages > 1)} of 100 B in each",
        metrics=(
            Metric(
                key="txn_per_s",
                label="transactions",
                unit="txn/s",
                target=1.0,
                charted=True,
            ),
            Metric(key="p50_ms", label="p50", unit="ms", higher_is_better=False),
            Metric(key="p99_ms", label="p99", unit="ms", higher_is_better=False),
        ),
        prepare=prepare,
        run=run,
        seconds=3.0,
    )


def _transact(producer: Producer, topic: str, payload: bytes, messages: int) -> float:
    started = time.perf_counter()
    producer.begin_transaction()
    for number in range(messages):
        producer.produce(topic, payload, partition=number % PARTITIONS)
    producer.commit_transaction(30)
    return time.perf_counter() - started


# --- offsets --------------------------------------------------------------------------------------


def _commit_cell(partitions: int) -> Cell:
    topic = "commits"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, PARTITIONS)
        return {}

    def run(broker: Broker) -> Values:
        group = f"bench-{uuid.uuid4()}"
        with WireClient(broker.port) as link:
            find_coordinator(link, group)
        with _client(broker) as raw:
            request = _commit_frame(group, topic, partitions)
            _commit_until_ready(raw, request)
            for _ in range(COMMITS // 5):
                raw.call(request)
            times = []
            for _ in range(COMMITS):
                started = time.perf_counter()
                raw.call(request)
                times.append(time.perf_counter() - started)
        times.sort()
        return {
            "commits_per_s": COMMITS / sum(times),
            "p50_us": median(times) * 1e6,
            "p99_us": percentile(times, 0.99) * 1e6,
        }

    return Cell(
        name=f"commit/p{partitions}",
        section="Offsets",
        title=f"commit of {partitions} partition{'s' * (partitions > 1)}, one in flight",
        metrics=(
            Metric(key="commits_per_s", label="commits", unit="/s", target=1.0, charted=True),
            Metric(key="p50_us", label="p50", unit="µs", higher_is_better=False),
            Metric(key="p99_us", label="p99", unit="µs", higher_is_better=False),
        ),
        prepare=prepare,
        run=run,
        seconds=2.0,
    )


def _commit_frame(group: str, topic: str, partitions: int) -> bytes:
    """Return the frame of OffsetCommit 7 of a group without members."""

    def string(text: str) -> bytes:
        return struct.pack(">h", len(text)) + text.encode()

    body = string(group) + struct.pack(">ihh", -1, 0, -1) + struct.pack(">i", 1) + string(topic)
    body += struct.pack(">i", partitions)
    for number in range(partitions):
        body += struct.pack(">iqi", number, 1, -1) + string("")
    return frame(8, 7, body)


def _commit_until_ready(raw: RawClient, request: bytes) -> None:
    """Retry while Kafka loads its offsets topic, at the first commit."""
    deadline = time.perf_counter() + 60
    while True:
        answer = bytes(raw.call(request))
        (code,) = struct.unpack(">h", answer[-2:])
        if code == 0:
            return
        if time.perf_counter() > deadline:
            raise BenchmarkError(f"OffsetCommit answered error {code}")
        time.sleep(0.05)


# --- share groups ---------------------------------------------------------------------------------


def _share_cell(*, each: bool) -> Cell:
    topic = "share"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, 1)
        _fill(broker, topic, SHARE_MESSAGES, 1)
        return {}

    def run(broker: Broker) -> Values:
        with WireClient(broker.port) as link:
            reader = ShareReader(link, f"bench-{uuid.uuid4()}", topic, each=each)
            reader.join()
            return _measured(broker, SHARE_MESSAGES * SIZE, lambda: reader.read(SHARE_MESSAGES))

    how = "each record by itself" if each else "as ranges"
    return Cell(
        name=f"share/{'each' if each else 'ranges'}",
        section="Share groups",
        title=f"one member, 100 B, 500 records a fetch, accepted {how}",
        metrics=RATES,
        prepare=prepare,
        run=run,
        seconds=4.0,
    )


def _share_crowd_cell() -> Cell:
    """Four producers write while the four members of a share group of Java's client read."""
    topic = "share-crowd"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, SHARE_CROWD)
        return {}

    def produce(broker: Broker) -> None:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "linger.ms": 5})
        for number in range(SHARE_CROWD_MESSAGES // SHARE_CROWD):
            while True:
                try:
                    producer.produce(topic, bytes(SIZE), partition=number % SHARE_CROWD)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()

    def run(broker: Broker) -> Values:
        group = f"bench-{uuid.uuid4()}"
        with WireClient(broker.port) as link:
            _read_from_start(link, group)
        with ThreadPoolExecutor(SHARE_CROWD) as pool:
            produced = [pool.submit(produce, broker) for _ in range(SHARE_CROWD)]
            values = java_perf.share_consume(
                f"127.0.0.1:{broker.port}",
                topic,
                group=group,
                members=SHARE_CROWD,
                count=SHARE_CROWD_MESSAGES,
                size=SIZE,
            )
            for one in produced:
                one.result()
        return values

    return Cell(
        name="share/java/crowd",
        section="Share groups",
        title="four producers, four members of Java's client, 100 B, while records are written",
        metrics=RATES[:1],
        prepare=prepare,
        run=run,
        seconds=15.0,
    )


def _read_from_start(link: WireClient, group: str) -> None:
    setting = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = AlterConfigsResource(32, group, [setting])
    link.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))


class ShareReader:
    """One member of a share group that acknowledges with each fetch the records of the one before."""

    def __init__(self, link: WireClient, group: str, topic: str, *, each: bool) -> None:
        self._link = link
        self._group = group
        self._topic = topic
        self._each = each
        self._member = str(uuid.uuid4())
        self._epoch = 0
        (found,) = link.ask(
            ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=topic)])
        ).topics
        self._topic_id = found.topic_id

    def join(self) -> None:
        """Join at the start of the topic; wait until the group has its partition."""
        _read_from_start(self._link, self._group)
        epoch, deadline = 0, time.perf_counter() + 60
        while True:
            beat = ShareGroupHeartbeatRequest(
                self._group,
                self._member,
                epoch,
                subscribed_topic_names=[self._topic] if epoch == 0 else None,
            )
            answer = self._link.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat)
            if answer.error_code == 0:
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return
            if time.perf_counter() > deadline:
                raise BenchmarkError(f"no partition was assigned: error {answer.error_code}")
            time.sleep(0.05)

    def read(self, count: int) -> Values:
        """Read ``count`` records, from the first fetch to the last acknowledgement."""
        batches: list[AcknowledgementBatch] = []
        first_at, read = 0.0, 0
        deadline = time.perf_counter() + 60
        while read < count or batches:
            answer = self._fetch(batches)
            batches = []
            for one in answer.responses:
                for part in one.partitions:
                    if part.error_code or part.acknowledge_error_code:
                        codes = part.error_code, part.acknowledge_error_code
                        raise BenchmarkError(f"ShareFetch answered errors {codes}")
                    for run in part.acquired_records:
                        size = run.last_offset - run.first_offset + 1
                        read += size
                        kinds = [1] * size if self._each else [1]
                        batches.append(
                            AcknowledgementBatch(run.first_offset, run.last_offset, kinds)
                        )
            if batches and not first_at:
                first_at = time.perf_counter()
            if time.perf_counter() > deadline:
                raise BenchmarkError(f"only {read} of {count} records came")
        elapsed = time.perf_counter() - first_at
        return {"msgs_per_s": read / elapsed, "mb_per_s": read * SIZE / elapsed / 1e6}

    def _fetch(self, batches: list[AcknowledgementBatch]) -> ShareFetchResponse:
        topics = [FetchTopic(self._topic_id, [FetchPartition(0, batches)])]
        request = ShareFetchRequest(
            self._group,
            self._member,
            self._epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1 << 24,
            max_records=SHARE_RECORDS_MAX,
            batch_size=SHARE_RECORDS_MAX,
            topics=topics if self._epoch == 0 or batches else [],
        )
        answer: ShareFetchResponse = self._link.ask(ApiKey.SHARE_FETCH, 2, request)
        if answer.error_code:
            raise BenchmarkError(f"ShareFetch answered error {answer.error_code}")
        self._epoch += 1
        return answer
