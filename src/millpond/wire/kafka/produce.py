"""The broker's hand-written codec of Produce.

Records are views of the request's frame, never copies, writable so that the log can patch offsets in place.
Topics and partitions are tuples: one request may name thousands, and their order is the order of the
response. The generated codec (``messages/produce.py``) reads and writes the same bytes and serves clients.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base import limits
from millpond.wire.kafka.primitives import (
    DECODE_ERRORS,
    ENCODE_ERRORS,
    NO_ID,
    malformed,
    overrun,
    pack_compact_count,
    pack_compact_string,
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_string,
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    too_many_partitions,
    unencodable,
    uuid_of,
)

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13

# (partition, records or None if the client sent null)
ProducePartition: TypeAlias = tuple[int, memoryview | None]
# (name, or None where the version has ids; topic id, or None where it has names; partitions)
ProduceTopic: TypeAlias = tuple[str | None, UUID | None, list[ProducePartition]]

_unpack_hi = Struct(">hi").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_ib = Struct(">iB").unpack_from
_unpack_u = Struct(">16s").unpack_from
_pack_i = Struct(">i").pack
_pack_ii = Struct(">ii").pack
_pack_v3 = Struct(">ihqq").pack
_pack_v5 = Struct(">ihqqq").pack
# If no record errors, no error message and (flexible) no tags follow.
_pack_v8_plain = Struct(">ihqqqih").pack
_pack_v9_plain = Struct(">ihqqqBBB").pack


class ProduceRequest:
    """A decoded produce request. ``acks`` is 0, 1 or -1; the front-end refuses others."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        topics: list[ProduceTopic],
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


class ProducedPartition(NamedTuple):
    """The result for one partition's records."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    leader_id: int = (
        -1
    )  # with leader_epoch: the present leader, for a client that asked another node
    leader_epoch: int = -1


# (name, topic id, partitions); which of the first two is written depends on the version
ProducedTopic: TypeAlias = tuple[str | None, UUID | None, Sequence[ProducedPartition]]
# (node id, host, port, rack)
NodeEndpoint: TypeAlias = tuple[int, str, int, str | None]


def decode_produce(data: memoryview, version: int) -> ProduceRequest:
    """Decode the request's body, versions 3 to 13."""
    try:
        if version >= FLEXIBLE_FROM:
            return _decode_flexible(data, version)
        return _decode_classic(data)
    except DECODE_ERRORS as error:
        raise malformed("ProduceRequest", version, error) from None


def _decode_flexible(data: memoryview, version: int) -> ProduceRequest:
    end = len(data)
    transactional_id, p = None, 1
    if data[0] != 0:
        transactional_id, p = read_nullable_compact_string(data, 0)
    acks, timeout_ms = _unpack_hi(data, p)
    topic_count, p = read_compact_count(data, p + 6, 3)
    room = limits.REQUEST_PARTITIONS_MAX - topic_count
    topics: list[ProduceTopic] = []
    for _ in range(topic_count):
        name = topic_id = None
        if version >= TOPIC_IDS_FROM:
            (raw,) = _unpack_u(data, p)
            topic_id = uuid_of(raw)
            p += 16
        else:
            name, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 6)
        room -= count
        if room < 0:
            raise too_many_partitions()
        partitions: list[ProducePartition] = []
        for _ in range(count):
            index, size = _unpack_ib(data, p)
            p += 5
            if size > 0x7F:
                size, p = read_uvarint(data, p - 1)
            if size == 0:
                partitions.append((index, None))
            else:
                stop = p + size - 1
                if stop > end:
                    raise overrun(size - 1, end - p)
                partitions.append((index, data[p:stop]))
                p = stop
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        p = skip_tags(data, p)
        topics.append((name, topic_id, partitions))
    skip_tags(data, p)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_classic(data: memoryview) -> ProduceRequest:
    end = len(data)
    transactional_id, p = read_nullable_string(data, 0)
    acks, timeout_ms = _unpack_hi(data, p)
    topic_count, p = read_count(data, p + 6, 6)
    room = limits.REQUEST_PARTITIONS_MAX - topic_count
    topics: list[ProduceTopic] = []
    for _ in range(topic_count):
        name, p = read_string(data, p)
        count, p = read_count(data, p, 8)
        room -= count
        if room < 0:
            raise too_many_partitions()
        partitions: list[ProducePartition] = []
        for _ in range(count):
            index, size = _unpack_ii(data, p)
            p += 8
            if size < 0:
                partitions.append((index, None))
                continue
            stop = p + size
            if stop > end:
                raise overrun(size, end - p)
            partitions.append((index, data[p:stop]))
            p = stop
        topics.append((name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_response(
    topics: Sequence[ProducedTopic],
    throttle_ms: int,
    version: int,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Encode the response's body, versions 3 to 13."""
    try:
        parts: list[bytes] = []
        add = parts.append
        if version >= FLEXIBLE_FROM:
            add(pack_compact_count(len(topics)))
            for name, topic_id, partitions in topics:
                if version >= TOPIC_IDS_FROM:
                    add((topic_id or NO_ID).bytes)
                else:
                    add(pack_compact_string(name or ""))
                add(pack_compact_count(len(partitions)))
                for partition in partitions:
                    add(_pack_flexible(partition, version))
                add(b"\x00")
            add(_pack_i(throttle_ms))
            if node_endpoints and version >= 10:
                add(pack_tags([(0, pack_node_endpoints(node_endpoints))]))
            else:
                add(b"\x00")
        else:
            add(pack_count(len(topics)))
            for name, _, partitions in topics:
                add(pack_string(name or ""))
                add(pack_count(len(partitions)))
                for partition in partitions:
                    add(_pack_classic(partition, version))
            add(_pack_i(throttle_ms))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ProduceResponse", version, error) from error


def _pack_flexible(partition: ProducedPartition, version: int) -> bytes:
    index, error_code, base, time, start, record_errors, text, leader_id, leader_epoch = partition
    has_leader = version >= 10 and (leader_id != -1 or leader_epoch != -1)
    if not (record_errors or text is not None or has_leader):
        return _pack_v9_plain(index, error_code, base, time, start, 1, 0, 0)
    parts = [
        _pack_v5(index, error_code, base, time, start),
        pack_compact_count(len(record_errors)),
    ]
    for batch_index, message in record_errors:
        parts += (_pack_i(batch_index), pack_nullable_compact_string(message), b"\x00")
    parts.append(pack_nullable_compact_string(text))
    if has_leader:
        parts.append(pack_tags([(0, _pack_ii(leader_id, leader_epoch) + b"\x00")]))
    else:
        parts.append(b"\x00")
    return b"".join(parts)


def _pack_classic(partition: ProducedPartition, version: int) -> bytes:
    index, error_code, base, time, start, record_errors, text, _, _ = partition
    if version < 5:
        return _pack_v3(index, error_code, base, time)
    if version < 8:
        return _pack_v5(index, error_code, base, time, start)
    if not (record_errors or text is not None):
        return _pack_v8_plain(index, error_code, base, time, start, 0, -1)
    parts = [_pack_v5(index, error_code, base, time, start), pack_count(len(record_errors))]
    for batch_index, message in record_errors:
        parts += (_pack_i(batch_index), pack_nullable_string(message))
    parts.append(pack_nullable_string(text))
    return b"".join(parts)


def pack_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the tagged list of leaders' addresses that Produce and Fetch share (KIP-951)."""
    parts = [pack_compact_count(len(endpoints))]
    for node_id, host, port, rack in endpoints:
        parts += (
            _pack_i(node_id),
            pack_compact_string(host),
            _pack_i(port),
            pack_nullable_compact_string(rack),
            b"\x00",
        )
    return b"".join(parts)
