"""The broker's hand-written codec of Metadata: every client sends it, and the response grows with the
cluster.

A topic is encoded separately (``encode_metadata_topic``) so that a broker with thousands of topics can cache
the bytes until the topic changes; ``encode_metadata_response`` joins topics and brokers. The generated codec
(``messages/metadata.py``) serves clients.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import TypeAlias
from uuid import UUID

from millpond.wire.kafka.primitives import (
    DECODE_ERRORS,
    ENCODE_ERRORS,
    NO_ID,
    malformed,
    pack_compact_count,
    pack_compact_string,
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_numbers,
    pack_string,
    read_compact_string,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_nullable_count,
    read_string,
    skip_tags,
    unencodable,
    uuid_of,
)

FLEXIBLE_FROM = 9
NO_OPERATIONS = -(2**31)

# (name or None, topic id or None): a client asks by one of them
WantedTopic: TypeAlias = tuple[str | None, UUID | None]
# (error code, index, leader, leader epoch, replicas, in-sync replicas, offline replicas)
MetadataPartition: TypeAlias = tuple[
    int, int, int, int, Sequence[int], Sequence[int], Sequence[int]
]
# (node id, host, port, rack)
MetadataBroker: TypeAlias = tuple[int, str, int, str | None]

_unpack_u = Struct(">16s").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_hii = Struct(">hii").pack
_pack_hiii = Struct(">hiii").pack


class MetadataRequest:
    """A decoded metadata request. ``topics`` is None for all of them."""

    __slots__ = (
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
        "topics",
    )

    def __init__(
        self,
        topics: list[WantedTopic] | None,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


def decode_metadata(data: memoryview, version: int) -> MetadataRequest:
    """Decode the request's body, versions 0 to 13."""
    try:
        if version >= FLEXIBLE_FROM:
            return _decode_flexible(data, version)
        return _decode_classic(data, version)
    except DECODE_ERRORS as error:
        raise malformed("MetadataRequest", version, error) from None


def _decode_flexible(data: memoryview, version: int) -> MetadataRequest:
    count, p = read_nullable_compact_count(data, 0, 2)
    topics: list[WantedTopic] | None = None
    if count >= 0:
        topics = []
        for _ in range(count):
            name: str | None
            topic_id = None
            if version >= 10:
                (raw,) = _unpack_u(data, p)
                topic_id = uuid_of(raw)
                if topic_id == NO_ID:
                    topic_id = None
                name, p = read_nullable_compact_string(data, p + 16)
            else:
                name, p = read_compact_string(data, p)
            p = skip_tags(data, p)
            topics.append((name, topic_id))
    auto_create = data[p] != 0
    p += 1
    cluster_operations = False
    if version <= 10:
        cluster_operations = data[p] != 0
        p += 1
    topic_operations = data[p] != 0
    skip_tags(data, p + 1)
    return MetadataRequest(topics, auto_create, cluster_operations, topic_operations)


def _decode_classic(data: memoryview, version: int) -> MetadataRequest:
    count, p = read_nullable_count(data, 0, 2)
    # In version 0 an empty list asks for all topics.
    topics: list[WantedTopic] | None = None if count < (version == 0) else []
    for _ in range(count):
        name, p = read_string(data, p)
        assert topics is not None
        topics.append((name, None))
    request = MetadataRequest(topics)
    if version >= 4:
        request.allow_auto_topic_creation = data[p] != 0
    if version >= 8:
        request.include_cluster_authorized_operations = data[p + 1] != 0
        request.include_topic_authorized_operations = data[p + 2] != 0
    return request


@lru_cache(maxsize=256)
def _partition_layout(replicas: int, in_sync: int, offline: int) -> Struct:
    """Return the layout of a partition, for one call; lengths and the empty tags are single bytes."""
    return Struct(f">hiiiB{replicas}iB{in_sync}iB{offline}iB")


def encode_metadata_topic(
    version: int,
    *,
    error_code: int,
    name: str | None,
    topic_id: UUID,
    is_internal: bool,
    partitions: Sequence[MetadataPartition],
    authorized_operations: int = NO_OPERATIONS,
) -> bytes:
    """Encode one topic for the response of this version."""
    try:
        if version < FLEXIBLE_FROM:
            return _pack_classic_topic(
                version, error_code, name, is_internal, partitions, authorized_operations
            )
        parts = [
            _pack_h(error_code),
            pack_nullable_compact_string(name)
            if version >= 12
            else pack_compact_string(name or ""),
        ]
        if version >= 10:
            parts.append(topic_id.bytes)
        parts.append(b"\x01" if is_internal else b"\x00")
        parts.append(pack_compact_count(len(partitions)))
        add = parts.append
        for code, index, leader, epoch, replicas, in_sync, offline in partitions:
            many, alive, gone = len(replicas), len(in_sync), len(offline)
            assert max(many, alive, gone) < 0x7F, "more replicas than the short form can count"
            add(
                _partition_layout(many, alive, gone).pack(
                    code,
                    index,
                    leader,
                    epoch,
                    many + 1,
                    *replicas,
                    alive + 1,
                    *in_sync,
                    gone + 1,
                    *offline,
                    0,
                )
            )
        add(_pack_i(authorized_operations) + b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("MetadataResponse", version, error) from error


def _pack_classic_topic(
    version: int,
    error_code: int,
    name: str | None,
    is_internal: bool,
    partitions: Sequence[MetadataPartition],
    authorized_operations: int,
) -> bytes:
    parts = [_pack_h(error_code), pack_string(name or "")]
    if version >= 1:
        parts.append(b"\x01" if is_internal else b"\x00")
    parts.append(pack_count(len(partitions)))
    for code, index, leader, epoch, replicas, in_sync, offline in partitions:
        if version >= 7:
            parts.append(_pack_hiii(code, index, leader, epoch))
        else:
            parts.append(_pack_hii(code, index, leader))
        for nodes in (replicas, in_sync, offline) if version >= 5 else (replicas, in_sync):
            parts += (pack_count(len(nodes)), pack_numbers(nodes, "i"))
    if version >= 8:
        parts.append(_pack_i(authorized_operations))
    return b"".join(parts)


def encode_metadata_response(
    version: int,
    *,
    brokers: Sequence[MetadataBroker],
    cluster_id: str | None,
    controller_id: int,
    topics: Iterable[bytes],
    topic_count: int,
    throttle_ms: int = 0,
    cluster_authorized_operations: int = NO_OPERATIONS,
    error_code: int = 0,
) -> bytes:
    """Encode the response's body, versions 0 to 13; ``topics`` come from ``encode_metadata_topic``."""
    flexible = version >= FLEXIBLE_FROM
    count = pack_compact_count if flexible else pack_count
    string = pack_compact_string if flexible else pack_string
    nullable_string = pack_nullable_compact_string if flexible else pack_nullable_string
    tags = b"\x00" if flexible else b""
    try:
        parts: list[bytes] = []
        if version >= 3:
            parts.append(_pack_i(throttle_ms))
        parts.append(count(len(brokers)))
        for node_id, host, port, rack in brokers:
            parts += (_pack_i(node_id), string(host), _pack_i(port))
            if version >= 1:
                parts.append(nullable_string(rack))
            parts.append(tags)
        if version >= 2:
            parts.append(nullable_string(cluster_id))
        if version >= 1:
            parts.append(_pack_i(controller_id))
        parts.append(count(topic_count))
        parts += topics
        if 8 <= version <= 10:
            parts.append(_pack_i(cluster_authorized_operations))
        if version >= 13:
            parts.append(_pack_h(error_code))
        parts.append(tags)
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("MetadataResponse", version, error) from error
