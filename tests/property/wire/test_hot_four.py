"""The codecs written by hand speak the same bytes as the generated ones, in every version."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.wire.kafka import fetch, list_offsets, metadata, produce
from millpond.wire.kafka.messages import fetch as fetch_messages
from millpond.wire.kafka.messages import list_offsets as list_offsets_messages
from millpond.wire.kafka.messages import metadata as metadata_messages
from millpond.wire.kafka.messages import produce as produce_messages
from millpond.wire.kafka.primitives import NO_ID, BytesLike
from tests.property.wire.instances import instances

SOME = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def _raw(value: BytesLike | None) -> bytes | None:
    return None if value is None else bytes(value)


def _name_and_id(topic: Any, name: str, version: int, ids_from: int) -> tuple[Any, Any]:
    return (None, topic.topic_id) if version >= ids_from else (name, None)


@pytest.mark.parametrize("version", range(3, 14))
@SOME
@given(data=st.data())
def test_produce_request(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("Produce", "request", version))
    body = memoryview(bytearray(produce_messages.encode_produce_request(message, version)))
    read = produce.decode_produce(body, version)
    assert (read.transactional_id, read.acks, read.timeout_ms) == (
        message.transactional_id,
        message.acks,
        message.timeout_ms,
    )
    assert [
        (name, topic_id, [(index, _raw(records)) for index, records in partitions])
        for name, topic_id, partitions in read.topics
    ] == [
        (
            *_name_and_id(topic, topic.name, version, 13),
            [(p.index, _raw(p.records)) for p in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    for _, _, partitions in read.topics:
        for _, records in partitions:
            assert records is None or not records.readonly


@pytest.mark.parametrize("version", range(3, 14))
@SOME
@given(data=st.data())
def test_produce_response(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("Produce", "response", version))
    topics = [
        (
            topic.name,
            topic.topic_id,
            [
                produce.ProducedPartition(
                    p.index,
                    p.error_code,
                    p.base_offset,
                    p.log_append_time_ms,
                    p.log_start_offset,
                    [(e.batch_index, e.batch_index_error_message) for e in p.record_errors],
                    p.error_message,
                    p.current_leader.leader_id,
                    p.current_leader.leader_epoch,
                )
                for p in topic.partition_responses
            ],
        )
        for topic in message.responses
    ]
    endpoints = [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints]
    assert produce.encode_produce_response(
        topics, message.throttle_time_ms, version, endpoints
    ) == produce_messages.encode_produce_response(message, version)


@pytest.mark.parametrize("version", range(4, 19))
@SOME
@given(data=st.data())
def test_fetch_request(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("Fetch", "request", version))
    read = fetch.decode_fetch(
        memoryview(fetch_messages.encode_fetch_request(message, version)), version
    )
    for name in [
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "rack_id",
        "cluster_id",
    ]:
        assert getattr(read, name) == getattr(message, name), name
    state = message.replica_state
    assert read.replica_id == (state.replica_id if version >= 15 else message.replica_id)
    assert read.replica_epoch == state.replica_epoch
    assert read.topics == [
        (
            *_name_and_id(topic, topic.topic, version, 13),
            [
                fetch.FetchPartition(
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                    p.replica_directory_id,
                    p.high_watermark,
                )
                for p in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    assert read.forgotten == [
        (*_name_and_id(topic, topic.topic, version, 13), topic.partitions)
        for topic in message.forgotten_topics_data
    ]


def _unless(value: tuple[int, int]) -> tuple[int, int] | None:
    return None if value == (-1, -1) else value


@pytest.mark.parametrize("version", range(4, 19))
@SOME
@given(data=st.data())
def test_fetch_response(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("Fetch", "response", version))
    topics = []
    held = []
    for topic in message.responses:
        partitions = []
        for p in topic.partitions:
            p.records = p.records or b""
            if p.records:
                held.append(p.records)
            aborted = p.aborted_transactions
            partitions.append(
                fetch.FetchedPartition(
                    p.partition_index,
                    p.error_code,
                    p.high_watermark,
                    p.last_stable_offset,
                    p.log_start_offset,
                    p.records,
                    None
                    if aborted is None
                    else [(txn.producer_id, txn.first_offset) for txn in aborted],
                    p.preferred_read_replica,
                    leader=_unless((p.current_leader.leader_id, p.current_leader.leader_epoch)),
                    diverging=_unless((p.diverging_epoch.epoch, p.diverging_epoch.end_offset)),
                    snapshot=_unless((p.snapshot_id.end_offset, p.snapshot_id.epoch)),
                )
            )
        topics.append((topic.topic, topic.topic_id, partitions))
    endpoints = [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints]
    buffers = fetch.encode_fetch_response(
        topics,
        version,
        throttle_ms=message.throttle_time_ms,
        error_code=message.error_code,
        session_id=message.session_id,
        node_endpoints=endpoints,
    )
    assert b"".join(buffers) == fetch_messages.encode_fetch_response(message, version)
    passed_on = {id(buffer) for buffer in buffers}
    assert all(id(records) in passed_on for records in held), "record data was copied"


@pytest.mark.parametrize("version", range(14))
@SOME
@given(data=st.data())
def test_metadata_request(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("Metadata", "request", version))
    read = metadata.decode_metadata(
        memoryview(metadata_messages.encode_metadata_request(message, version)), version
    )
    if message.topics is None or (version == 0 and not message.topics):
        assert read.topics is None
    else:
        assert read.topics == [
            (t.name, None if t.topic_id == NO_ID else t.topic_id) for t in message.topics
        ]
    for name in (
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    ):
        assert getattr(read, name) == getattr(message, name), name


@pytest.mark.parametrize("version", range(14))
@SOME
@given(data=st.data())
def test_metadata_response(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("Metadata", "response", version))
    topics = [
        metadata.encode_metadata_topic(
            version,
            error_code=t.error_code,
            name=t.name,
            topic_id=t.topic_id,
            is_internal=t.is_internal,
            partitions=[
                (
                    p.error_code,
                    p.partition_index,
                    p.leader_id,
                    p.leader_epoch,
                    p.replica_nodes,
                    p.isr_nodes,
                    p.offline_replicas,
                )
                for p in t.partitions
            ],
            authorized_operations=t.topic_authorized_operations,
        )
        for t in message.topics
    ]
    assert metadata.encode_metadata_response(
        version,
        brokers=[(b.node_id, b.host, b.port, b.rack) for b in message.brokers],
        cluster_id=message.cluster_id,
        controller_id=message.controller_id,
        topics=topics,
        topic_count=len(topics),
        throttle_ms=message.throttle_time_ms,
        cluster_authorized_operations=message.cluster_authorized_operations,
        error_code=message.error_code,
    ) == metadata_messages.encode_metadata_response(message, version)


@pytest.mark.parametrize("version", range(1, 12))
@SOME
@given(data=st.data())
def test_list_offsets_request(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("ListOffsets", "request", version))
    read = list_offsets.decode_list_offsets(
        memoryview(list_offsets_messages.encode_list_offsets_request(message, version)), version
    )
    assert (read.replica_id, read.isolation_level, read.timeout_ms) == (
        message.replica_id,
        message.isolation_level,
        message.timeout_ms,
    )
    assert read.topics == [
        (t.name, [(p.partition_index, p.current_leader_epoch, p.timestamp) for p in t.partitions])
        for t in message.topics
    ]


@pytest.mark.parametrize("version", range(1, 12))
@SOME
@given(data=st.data())
def test_list_offsets_response(version: int, data: st.DataObject) -> None:
    message: Any = data.draw(instances("ListOffsets", "response", version))
    topics = [
        (
            t.name,
            [
                (p.partition_index, p.error_code, p.timestamp, p.offset, p.leader_epoch)
                for p in t.partitions
            ],
        )
        for t in message.topics
    ]
    assert list_offsets.encode_list_offsets_response(
        topics, message.throttle_time_ms, version
    ) == list_offsets_messages.encode_list_offsets_response(message, version)


def test_unknown_tags_are_skipped_everywhere() -> None:
    """A newer client may say more than we know; what we know must still be read."""
    unknown = b"\x01\x63\x02hi"  # one field, tag 99, two bytes
    topic = UUID(int=5).bytes
    body = b"".join(
        (
            b"\x00\x00\x01\x00\x00\x00\x64",  # no transaction, acks 1, 100 ms
            b"\x02" + topic,  # one topic
            b"\x02\x00\x00\x00\x07\x04abc" + unknown,  # partition 7, three bytes of records
            unknown,
            unknown,
        )
    )
    request = produce.decode_produce(memoryview(body), 13)
    assert [(t[1], [(i, _raw(r)) for i, r in t[2]]) for t in request.topics] == [
        (UUID(int=5), [(7, b"abc")])
    ]
    generated = produce_messages.decode_produce_request(memoryview(body), 13)
    assert _raw(generated.topic_data[0].partition_data[0].records) == b"abc"


def _with_tags(plain: bytes, tagged: int, unknown: bytes, size: int, count: int) -> bytes:
    """``count`` partitions of ``size`` bytes and empty tags, one of which has an unknown tag."""
    return b"".join(plain[:size] + (unknown if n == tagged else b"\x00") for n in range(count))


@pytest.mark.parametrize("tagged", range(3))
def test_partitions_with_and_without_tags_may_be_mixed(tagged: int) -> None:
    unknown = b"\x01\x63\x02hi"
    fetch_partition = bytes(range(32))
    body = b"".join(
        (
            bytes(17 + 8),
            b"\x02\x02t\x04" + _with_tags(fetch_partition, tagged, unknown, 32, 3) + b"\x00",
            b"\x01\x01\x00",
        )
    )
    (topic,) = fetch.decode_fetch(memoryview(body), 12).topics
    assert [partition.partition for partition in topic[2]] == [0x00010203] * 3
    assert len(set(topic[2])) == 1

    body = (
        bytes(5)
        + b"\x02\x02t\x04"
        + _with_tags(bytes(range(16)), tagged, unknown, 16, 3)
        + b"\x00\x00"
    )
    ((name, wanted),) = list_offsets.decode_list_offsets(memoryview(body), 7).topics
    assert (name, wanted) == ("t", [(0x00010203, 0x04050607, 0x08090A0B0C0D0E0F)] * 3)
