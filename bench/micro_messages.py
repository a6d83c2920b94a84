"""Kafka messages: the cost of decoding a request and encoding a response, by implementation.

Four of them do the same work on the same bytes: ours by hand, ours generated, kio, and kafka-python. Reading
starts from a whole frame's body; writing starts from plain numbers and strings, so that building an
implementation's objects is part of its cost. All results are compared before anything is timed.

    python -m bench.micro_messages [--rounds 7]
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from uuid import UUID

from millpond.wire.kafka import fetch, list_offsets, metadata, produce
from millpond.wire.kafka.connection import ClientConnection, Request, ServerConnection
from millpond.wire.kafka.messages import fetch as fetch_messages
from millpond.wire.kafka.messages import join_group as join_group_messages
from millpond.wire.kafka.messages import list_offsets as list_offsets_messages
from millpond.wire.kafka.messages import metadata as metadata_messages
from millpond.wire.kafka.messages import offset_commit as offset_commit_messages
from millpond.wire.kafka.messages import produce as produce_messages

Work = Callable[[], Any]
IMPLEMENTATIONS = ("by hand", "generated", "kio", "kafka-python")
RECORDS = bytes(16 * 1024)
PARTITIONS = range(12)
TOPIC_ID = UUID(int=0x1234)


@dataclass
class Case:
    """One row of the table; an implementation may be missing."""

    name: str
    works: dict[str, Work] = field(default_factory=dict)


class Kio:
    """kio's reader and writer of one message in one version."""

    def __init__(self, module: str, version: int, kind: str, name: str) -> None:
        serial = importlib.import_module("kio.serial")
        self.schema: Any = importlib.import_module(f"kio.schema.{module}.v{version}.{kind}")
        entity = getattr(self.schema, name)
        self._read, self._write = serial.entity_reader(entity), serial.entity_writer(entity)

    def read(self, body: bytes) -> Any:
        return self._read(body, 0)[0]

    def write(self, entity: Any) -> bytes:
        out = io.BytesIO()
        self._write(out, entity)
        return out.getvalue()


def kafka_python(part: str, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(importlib.import_module(f"kafka.protocol.{part}"), name)


def produce_request(version: int, partitions: range) -> Case:
    message = produce_messages.ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            produce_messages.TopicProduceData(
                "orders",
                TOPIC_ID,
                [produce_messages.PartitionProduceData(p, RECORDS) for p in partitions],
            )
        ],
    )
    body = produce_messages.encode_produce_request(message, version)
    frame = memoryview(bytearray(body))
    kio = Kio("produce", version, "request", "ProduceRequest")
    theirs = kafka_python("producer", "ProduceRequest")
    assert kio.write(kio.read(body)) == body
    return Case(
        f"read Produce v{version}, {len(partitions)} x 16 KiB",
        {
            "by hand": lambda: produce.decode_produce(frame, version),
            "generated": lambda: produce_messages.decode_produce_request(frame, version),
            "kio": lambda: kio.read(body),
            "kafka-python": lambda: theirs.decode(frame, version=version),
        },
    )


def produce_response(version: int, partitions: range) -> Case:
    kio = Kio("produce", version, "response", "ProduceResponse")
    theirs = kafka_python("producer", "ProduceResponse")
    none = importlib.import_module("kio.schema.errors").ErrorCode.none

    def by_hand() -> bytes:
        results = [produce.ProducedPartition(p, 0, 1000 + p, -1, 0) for p in partitions]
        return produce.encode_produce_response([("orders", None, results)], 0, version)

    def generated() -> bytes:
        results = [
            produce_messages.PartitionProduceResponse(p, 0, 1000 + p, -1, 0) for p in partitions
        ]
        topic = produce_messages.TopicProduceResponse("orders", partition_responses=results)
        return produce_messages.encode_produce_response(
            produce_messages.ProduceResponse([topic], 0), version
        )

    def by_kio() -> bytes:
        schema = kio.schema
        results = tuple(
            schema.PartitionProduceResponse(
                index=p,
                error_code=none,
                base_offset=1000 + p,
                log_append_time=None,
                log_start_offset=0,
                record_errors=(),
                error_message=None,
            )
            for p in partitions
        )
        topic = schema.TopicProduceResponse(name="orders", partition_responses=results)
        return kio.write(
            schema.ProduceResponse(responses=(topic,), throttle_time=datetime.timedelta())
        )

    def by_kafka_python() -> bytes:
        inner = theirs.TopicProduceResponse
        results = [
            inner.PartitionProduceResponse(
                index=p,
                error_code=0,
                base_offset=1000 + p,
                log_append_time_ms=-1,
                log_start_offset=0,
                record_errors=[],
                error_message=None,
                version=version,
            )
            for p in partitions
        ]
        topic = inner(name="orders", partition_responses=results, version=version)
        response = theirs(responses=[topic], throttle_time_ms=0, version=version)
        return bytes(response.encode(version=version))

    works = {
        "by hand": by_hand,
        "generated": generated,
        "kio": by_kio,
        "kafka-python": by_kafka_python,
    }
    return Case(f"write Produce v{version} answer, {len(partitions)} partitions", works)


def fetch_request(version: int, partitions: range) -> Case:
    message = fetch_messages.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[
            fetch_messages.FetchTopic(
                "orders",
                TOPIC_ID,
                [
                    fetch_messages.FetchPartition(p, 3, 1000, partition_max_bytes=1 << 20)
                    for p in partitions
                ],
            )
        ],
    )
    body = fetch_messages.encode_fetch_request(message, version)
    frame = memoryview(bytearray(body))
    kio = Kio("fetch", version, "request", "FetchRequest")
    theirs = kafka_python("consumer", "FetchRequest")
    assert kio.write(kio.read(body)) == body
    return Case(
        f"read Fetch v{version}, {len(partitions)} partitions",
        {
            "by hand": lambda: fetch.decode_fetch(frame, version),
            "generated": lambda: fetch_messages.decode_fetch_request(frame, version),
            "kio": lambda: kio.read(body),
            "kafka-python": lambda: theirs.decode(frame, version=version),
        },
    )


def fetch_response(version: int, partitions: range) -> Case:
    kio = Kio("fetch", version, "response", "FetchResponse")
    theirs = kafka_python("consumer", "FetchResponse")
    none = importlib.import_module("kio.schema.errors").ErrorCode.none

    def by_hand() -> list[Any]:
        results = [fetch.FetchedPartition(p, 0, 2000, 2000, 0, RECORDS) for p in partitions]
        return fetch.encode_fetch_response([("orders", None, results)], version)

    def generated() -> bytes:
        results = [
            fetch_messages.PartitionData(
                p, 0, 2000, 2000, 0, aborted_transactions=None, records=RECORDS
            )
            for p in partitions
        ]
        topic = fetch_messages.FetchableTopicResponse("orders", partitions=results)
        return fetch_messages.encode_fetch_response(
            fetch_messages.FetchResponse(responses=[topic]), version
        )

    def by_kio() -> bytes:
        schema = kio.schema
        results = tuple(
            schema.PartitionData(
                partition_index=p,
                error_code=none,
                high_watermark=2000,
                last_stable_offset=2000,
                log_start_offset=0,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=RECORDS,
            )
            for p in partitions
        )
        topic = schema.FetchableTopicResponse(topic="orders", partitions=results)
        response = schema.FetchResponse(
            throttle_time=datetime.timedelta(), error_code=none, session_id=0, responses=(topic,)
        )
        return kio.write(response)

    def by_kafka_python() -> bytes:
        inner = theirs.FetchableTopicResponse
        results = [
            inner.PartitionData(
                partition_index=p,
                error_code=0,
                high_watermark=2000,
                last_stable_offset=2000,
                log_start_offset=0,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=RECORDS,
                version=version,
            )
            for p in partitions
        ]
        topic = inner(topic="orders", partitions=results, version=version)
        response = theirs(
            throttle_time_ms=0, error_code=0, session_id=0, responses=[topic], version=version
        )
        return bytes(response.encode(version=version))

    works = {
        "by hand": by_hand,
        "generated": generated,
        "kio": by_kio,
        "kafka-python": by_kafka_python,
    }
    return Case(f"write Fetch v{version} answer, {len(partitions)} x 16 KiB", works)


def metadata_response(version: int, topics: int, partitions: int) -> Case:
    kio = Kio("metadata", version, "response", "MetadataResponse")
    theirs = kafka_python("metadata", "MetadataResponse")
    none = importlib.import_module("kio.schema.errors").ErrorCode.none

    names = [(f"topic-{n}", UUID(int=n + 1)) for n in range(topics)]
    blocks: dict[str, bytes] = {}

    def block(name: str, topic_id: UUID) -> bytes:
        return metadata.encode_metadata_topic(
            version,
            error_code=0,
            name=name,
            topic_id=topic_id,
            is_internal=False,
            partitions=[(0, p, 1, 5, (1,), (1,), ()) for p in range(partitions)],
        )

    def respond(encoded: list[bytes]) -> bytes:
        return metadata.encode_metadata_response(
            version,
            brokers=[(1, "localhost", 9092, None)],
            cluster_id="cluster",
            controller_id=1,
            topics=encoded,
            topic_count=len(encoded),
        )

    def by_hand() -> bytes:
        return respond([block(name, topic_id) for name, topic_id in names])

    def remembered() -> bytes:
        return respond([blocks.get(name) or block(name, topic_id) for name, topic_id in names])

    def generated() -> bytes:
        return metadata_messages.encode_metadata_response(
            metadata_messages.MetadataResponse(
                brokers=[metadata_messages.MetadataResponseBroker(1, "localhost", 9092)],
                cluster_id="cluster",
                controller_id=1,
                topics=[
                    metadata_messages.MetadataResponseTopic(
                        0,
                        name,
                        topic_id,
                        partitions=[
                            metadata_messages.MetadataResponsePartition(0, p, 1, 5, [1], [1], [])
                            for p in range(partitions)
                        ],
                    )
                    for name, topic_id in names
                ],
            ),
            version,
        )

    def by_kio() -> bytes:
        schema = kio.schema
        return kio.write(
            schema.MetadataResponse(
                throttle_time=datetime.timedelta(),
                brokers=(
                    schema.MetadataResponseBroker(
                        node_id=1, host="localhost", port=9092, rack=None
                    ),
                ),
                cluster_id="cluster",
                controller_id=1,
                topics=tuple(
                    schema.MetadataResponseTopic(
                        error_code=none,
                        name=name,
                        topic_id=topic_id,
                        is_internal=False,
                        partitions=tuple(
                            schema.MetadataResponsePartition(
                                error_code=none,
                                partition_index=p,
                                leader_id=1,
                                leader_epoch=5,
                                replica_nodes=(1,),
                                isr_nodes=(1,),
                                offline_replicas=(),
                            )
                            for p in range(partitions)
                        ),
                    )
                    for name, topic_id in names
                ),
            )
        )

    def by_kafka_python() -> bytes:
        inner = theirs.MetadataResponseTopic
        response = theirs(
            throttle_time_ms=0,
            brokers=[
                theirs.MetadataResponseBroker(
                    node_id=1, host="localhost", port=9092, rack=None, version=version
                )
            ],
            cluster_id="cluster",
            controller_id=1,
            topics=[
                inner(
                    error_code=0,
                    name=name,
                    topic_id=topic_id,
                    is_internal=False,
                    partitions=[
                        inner.MetadataResponsePartition(
                            error_code=0,
                            partition_index=p,
                            leader_id=1,
                            leader_epoch=5,
                            replica_nodes=[1],
                            isr_nodes=[1],
                            offline_replicas=[],
                            version=version,
                        )
                        for p in range(partitions)
                    ],
                    authorized_operations=None,
                    version=version,
                )
                for name, topic_id in names
            ],
            version=version,
        )
        return bytes(response.encode(version=version))

    blocks.update({name: block(name, topic_id) for name, topic_id in names})
    assert remembered() == by_hand()
    works = {
        "by hand": by_hand,
        "generated": generated,
        "kio": by_kio,
        "kafka-python": by_kafka_python,
        "remembered": remembered,
    }
    return Case(f"write Metadata v{version} answer, {topics} topics x {partitions}", works)


def list_offsets_request(version: int, partitions: range) -> Case:
    message = list_offsets_messages.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets_messages.ListOffsetsTopic(
                "orders", [list_offsets_messages.ListOffsetsPartition(p, 3, -1) for p in partitions]
            )
        ],
    )
    body = list_offsets_messages.encode_list_offsets_request(message, version)
    frame = memoryview(bytearray(body))
    kio = Kio("list_offsets", version, "request", "ListOffsetsRequest")
    theirs = kafka_python("consumer", "ListOffsetsRequest")
    assert kio.write(kio.read(body)) == body
    return Case(
        f"read ListOffsets v{version}, {len(partitions)} partitions",
        {
            "by hand": lambda: list_offsets.decode_list_offsets(frame, version),
            "generated": lambda: list_offsets_messages.decode_list_offsets_request(frame, version),
            "kio": lambda: kio.read(body),
            "kafka-python": lambda: theirs.decode(frame, version=version),
        },
    )


def offset_commit_request(version: int, partitions: range) -> Case:
    inner = offset_commit_messages
    message = inner.OffsetCommitRequest(
        "group",
        5,
        "consumer-1-7d0e6d0c",
        topics=[
            inner.OffsetCommitRequestTopic(
                name="orders",
                partitions=[
                    inner.OffsetCommitRequestPartition(p, 1000, 3, committed_metadata="")
                    for p in partitions
                ],
            )
        ],
    )
    body = inner.encode_offset_commit_request(message, version)
    frame = memoryview(bytearray(body))
    kio = Kio("offset_commit", version, "request", "OffsetCommitRequest")
    theirs = kafka_python("consumer", "OffsetCommitRequest")
    assert kio.write(kio.read(body)) == body
    return Case(
        f"read OffsetCommit v{version}, {len(partitions)} partitions",
        {
            "generated": lambda: inner.decode_offset_commit_request(frame, version),
            "kio": lambda: kio.read(body),
            "kafka-python": lambda: theirs.decode(frame, version=version),
        },
    )


def join_group_request(version: int) -> Case:
    inner = join_group_messages
    message = inner.JoinGroupRequest(
        "group",
        45_000,
        300_000,
        "consumer-1-7d0e6d0c",
        protocol_type="consumer",
        protocols=[
            inner.JoinGroupRequestProtocol("range", bytes(60)),
            inner.JoinGroupRequestProtocol("cooperative-sticky", bytes(60)),
        ],
    )
    body = inner.encode_join_group_request(message, version)
    frame = memoryview(bytearray(body))
    kio = Kio("join_group", version, "request", "JoinGroupRequest")
    theirs = kafka_python("consumer", "JoinGroupRequest")
    assert kio.write(kio.read(body)) == body
    return Case(
        f"read JoinGroup v{version}, 2 protocols",
        {
            "generated": lambda: inner.decode_join_group_request(frame, version),
            "kio": lambda: kio.read(body),
            "kafka-python": lambda: theirs.decode(frame, version=version),
        },
    )


def frames() -> Case:
    """The connection alone: a stream of pipelined requests split into bodies."""
    client = ClientConnection("bench")
    chunk = b"".join(client.send(0, 9, RECORDS) for _ in range(4))

    def cut() -> int:
        server = ServerConnection()
        server.receive_data(chunk)
        count = 0
        while isinstance(server.next_event(), Request):
            count += 1
        assert count == 4
        return count

    return Case("cut 4 pipelined frames of 16 KiB", {"by hand": cut})


def cases() -> list[Case]:
    return [
        produce_request(9, range(1)),
        produce_request(9, PARTITIONS),
        produce_response(9, range(1)),
        produce_response(9, PARTITIONS),
        fetch_request(12, PARTITIONS),
        fetch_response(12, range(1)),
        fetch_response(12, PARTITIONS),
        metadata_response(12, 10, 3),
        list_offsets_request(7, PARTITIONS),
        offset_commit_request(8, PARTITIONS),
        join_group_request(7),
        frames(),
    ]


def check(case: Case) -> None:
    """Check that all writers have written the same bytes."""
    if not case.name.startswith("write"):
        return
    written = {
        name: b"".join(made) if isinstance(made := work(), list) else made
        for name, work in case.works.items()
    }
    assert len(set(written.values())) == 1, f"{case.name}: {sorted(written)} differ"


def microseconds(work: Work) -> float:
    """Return microseconds of processor time: other work on the machine disturbs it least."""
    repeats, started = 0, time.process_time()
    while time.process_time() - started < 0.02:
        for _ in range(10):
            work()
        repeats += 10
    return 1e6 * (time.process_time() - started) / repeats


def measure(case: Case, rounds: int) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in case.works}
    for _ in range(rounds):
        for name, work in case.works.items():
            samples[name].append(microseconds(work))
    return {name: median(times) for name, times in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro_messages")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print("| µs each | " + " | ".join(IMPLEMENTATIONS) + " |")
    print("|---|" + "--:|" * len(IMPLEMENTATIONS))
    for case in cases():
        check(case)
        times = measure(case, options.rounds)
        row = [f"{times[name]:.1f}" if name in times else "-" for name in IMPLEMENTATIONS]
        extra = (
            f" ({times['remembered']:.1f} with remembered topics)" if "remembered" in times else ""
        )
        print(f"| {case.name} | {row[0]}{extra} | {' | '.join(row[1:])} |")


if __name__ == "__main__":
    main()
