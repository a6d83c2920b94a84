"""The broker's hand-written codec of ListOffsets.

Monitoring tools and Spark send it for every partition at every step. The generated codec
(``messages/list_offsets.py``) serves clients.
"""

from collections.abc import Sequence
from struct import Struct
from typing import TypeAlias

from millpond.wire.kafka.primitives import (
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    pack_compact_count,
    pack_compact_string,
    pack_count,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    skip_tags,
    unencodable,
)

FLEXIBLE_FROM = 6

# Special values of a timestamp.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

# (partition, the client's leader epoch or -1, time)
WantedOffset: TypeAlias = tuple[int, int, int]
# (partition, error code, timestamp, offset, leader epoch)
FoundOffset: TypeAlias = tuple[int, int, int, int, int]

_unpack_i = Struct(">i").unpack_from
_unpack_ib = Struct(">ib").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iiq = Struct(">iiq").unpack_from
_iter_iiqx = Struct(">iiqx").iter_unpack
_pack_i = Struct(">i").pack
_pack_v1 = Struct(">ihqq").pack
_pack_v4 = Struct(">ihqqi").pack
_pack_v6 = Struct(">ihqqiB").pack


class ListOffsetsRequest:
    """The requested offsets. ``topics`` holds (name, [(partition, leader epoch, time), …])."""

    __slots__ = ("isolation_level", "replica_id", "timeout_ms", "topics")

    def __init__(
        self,
        replica_id: int,
        isolation_level: int,
        topics: list[tuple[str, list[WantedOffset]]],
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms


def decode_list_offsets(data: memoryview, version: int) -> ListOffsetsRequest:
    """Decode the request's body, versions 1 to 11."""
    try:
        if version >= FLEXIBLE_FROM:
            return _decode_flexible(data, version)
        return _decode_classic(data, version)
    except DECODE_ERRORS as error:
        raise malformed("ListOffsetsRequest", version, error) from None


def _decode_flexible(data: memoryview, version: int) -> ListOffsetsRequest:
    replica_id, isolation_level = _unpack_ib(data, 0)
    count, p = read_compact_count(data, 5, 3)
    topics: list[tuple[str, list[WantedOffset]]] = []
    for _ in range(count):
        name, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 17)
        wanted: list[WantedOffset] = []
        stop = p + 17 * count
        if any(data[p + 16 : stop : 17]):
            for _ in range(count):
                partition, epoch, time = _unpack_iiq(data, p)
                p = skip_tags(data, p + 16)
                wanted.append((partition, epoch, time))
        else:
            # No version defines tags here yet: each partition has the same size.
            wanted += _iter_iiqx(data[p:stop])
            p = stop
        p = skip_tags(data, p)
        topics.append((name, wanted))
    timeout_ms = 0
    if version >= 10:
        (timeout_ms,) = _unpack_i(data, p)
        p += 4
    skip_tags(data, p)
    return ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms)


def _decode_classic(data: memoryview, version: int) -> ListOffsetsRequest:
    isolation_level = 0
    if version >= 2:
        replica_id, isolation_level = _unpack_ib(data, 0)
        p = 5
    else:
        (replica_id,) = _unpack_i(data, 0)
        p = 4
    count, p = read_count(data, p, 6)
    topics: list[tuple[str, list[WantedOffset]]] = []
    for _ in range(count):
        name, p = read_string(data, p)
        count, p = read_count(data, p, 12)
        wanted: list[WantedOffset] = []
        for _ in range(count):
            if version >= 4:
                partition, epoch, time = _unpack_iiq(data, p)
                p += 16
            else:
                partition, time = _unpack_iq(data, p)
                epoch = -1
                p += 12
            wanted.append((partition, epoch, time))
        topics.append((name, wanted))
    return ListOffsetsRequest(replica_id, isolation_level, topics)


def encode_list_offsets_response(
    topics: Sequence[tuple[str, Sequence[FoundOffset]]], throttle_ms: int, version: int
) -> bytes:
    """Encode the response's body, versions 1 to 11."""
    try:
        parts: list[bytes] = []
        if version >= 2:
            parts.append(_pack_i(throttle_ms))
        if version >= FLEXIBLE_FROM:
            parts.append(pack_compact_count(len(topics)))
            for name, found in topics:
                parts += (pack_compact_string(name), pack_compact_count(len(found)))
                parts += [_pack_v6(*offset, 0) for offset in found]
                parts.append(b"\x00")
            parts.append(b"\x00")
        else:
            parts.append(pack_count(len(topics)))
            for name, found in topics:
                parts += (pack_string(name), pack_count(len(found)))
                if version >= 4:
                    parts += [_pack_v4(*offset) for offset in found]
                else:
                    parts += [_pack_v1(*offset[:4]) for offset in found]
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListOffsetsResponse", version, error) from error
