"""The quorum's own control records in Kafka's schemas: the elected leader of an epoch, and the voters."""

import struct
from collections.abc import Iterable, Iterator

from millpond.base.errors import MalformedData
from millpond.base.ids import NodeId, Offset, TimestampMs
from millpond.base.kafka_encoding import (
    I16,
    I32,
    NO_TAGS,
    U16,
    Reader,
    compact_length,
    compact_string,
)
from millpond.raft.messages import ReplicaKey
from millpond.raft.voters import Endpoint, Voter, VoterSet
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.control import MarkerType, marker_type
from millpond.record.records import decode_batch

_KEY = struct.Struct(">hh")  # version, type
_LEADER_CHANGE_VERSION = 0
_VOTERS_VERSION = 0
_NO_DIRECTORY = bytes(16)

# The range of quorum protocols that a voter supports; 1 is the first in which voters can change.
_SPOKEN = struct.Struct(">hh").pack(0, 1)


def leader_change_batch(
    leader: NodeId, voters: Iterable[NodeId], granted: Iterable[NodeId], now_ms: TimestampMs
) -> bytearray:
    """Build the first batch of an epoch. Once it is committed, everything before it is committed too."""
    out = bytearray(I16.pack(_LEADER_CHANGE_VERSION) + I32.pack(leader))
    for group in (sorted(voters), sorted(granted)):
        out += compact_length(len(group))
        for node in group:
            out += I32.pack(node)
            out += NO_TAGS
    out += NO_TAGS
    return _batch(MarkerType.LEADER_CHANGE, out, now_ms)


def voters_batch(voters: VoterSet, now_ms: TimestampMs) -> bytearray:
    """Build the batch that makes ``voters`` the voter set from its offset on."""
    out = bytearray(I16.pack(_VOTERS_VERSION))
    out += compact_length(len(voters))
    for voter in voters:
        out += I32.pack(voter.key.id)
        out += voter.key.directory.bytes if voter.key.directory else _NO_DIRECTORY
        out += compact_length(len(voter.endpoints))
        for endpoint in voter.endpoints:
            out += compact_string(endpoint.listener)
            out += compact_string(endpoint.host)
            out += U16.pack(endpoint.port)
            out += NO_TAGS
        out += _SPOKEN
        out += NO_TAGS
        out += NO_TAGS
    out += NO_TAGS
    return _batch(MarkerType.KRAFT_VOTERS, out, now_ms)


def read_voters(value: bytes) -> VoterSet:
    """Decode what ``voters_batch`` wrote. Raises ``MalformedData``."""
    reader = Reader(value)
    version = reader.int16()
    if version != _VOTERS_VERSION:
        raise MalformedData(f"voters in version {version}; this program reads {_VOTERS_VERSION}")
    voters = []
    for _ in range(reader.array_length()):
        node = reader.int32()
        directory = reader.uuid()
        endpoints = []
        for _ in range(reader.array_length()):
            listener, host = reader.compact_string(), reader.compact_string()
            endpoints.append(Endpoint(listener, host, reader.uint16()))
            reader.tagged_fields()
        reader.take(len(_SPOKEN))
        reader.tagged_fields()
        reader.tagged_fields()
        key = ReplicaKey(node, directory if directory.int else None)
        voters.append(Voter(key=key, endpoints=tuple(endpoints)))
    reader.tagged_fields()
    return VoterSet(voters)


def voter_sets_in(records: bytes) -> Iterator[tuple[Offset, VoterSet]]:
    """Yield the voter sets in these batches, with their offsets."""
    for position, header in iter_batches(records):
        if not header.is_control:
            continue
        for record in decode_batch(records, position):
            if marker_type(record) == MarkerType.KRAFT_VOTERS:
                yield record.offset, read_voters(record.value or b"")


def _batch(kind: MarkerType, value: bytearray, now_ms: TimestampMs) -> bytearray:
    record = (now_ms, _KEY.pack(0, kind), bytes(value), ())
    return build_batch([record], control=True)
