"""Records of share groups in ``__share_group_state``, in Kafka's schemas.

A share partition is a group's view of one partition. Its state is a snapshot followed by updates: where it
starts, and state batches, which say for a run of offsets whether they are available, acknowledged or
archived, and how often they were delivered. That a record is held by a member is not written: after a
restart it is available again.

A snapshot replaces what was before. Updates have one key for all of them and add up, so this topic may be
cut below the snapshots but never compacted. A snapshot without a value ends the share partition.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base import varint
from millpond.base.errors import InvalidRequest, MalformedData

SNAPSHOT_KEY = 0
UPDATE_KEY = 1

# Kafka's numbers for a record's state.
AVAILABLE = 0
ACKNOWLEDGED = 2
ARCHIVED = 4

START_UNCHANGED = -1

_SNAPSHOT_HEAD = struct.Struct(">hiiiqqq")
_UPDATE_HEAD = struct.Struct(">hiiq")
_BATCH = struct.Struct(">qqbh")
_KEY_TAIL = struct.Struct(">16si")
_VALUE_VERSION = 0
_DELIVERIES_MAX = 2**15 - 1


class ShareKey(NamedTuple):
    """A group's view of one partition."""

    group_id: str
    topic_id: UUID
    partition: int


class StateBatch(NamedTuple):
    """Offsets, both included, in one state."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshot:
    """The whole state of a share partition."""

    key: ShareKey
    snapshot_epoch: int
    state_epoch: int = 0
    leader_epoch: int = 0
    start: int
    created_ms: int = -1
    written_ms: int = -1
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """What has changed since the last record."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int = 0
    start: int = START_UNCHANGED
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareForgotten:
    """The group no longer reads the partition."""

    key: ShareKey


ShareRecord: TypeAlias = ShareSnapshot | ShareUpdate | ShareForgotten


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and its value, None for a tombstone."""
    match record:
        case ShareSnapshot():
            head = _SNAPSHOT_HEAD.pack(
                _VALUE_VERSION,
                record.snapshot_epoch,
                record.state_epoch,
                record.leader_epoch,
                record.start,
                record.created_ms,
                record.written_ms,
            )
            return _key(SNAPSHOT_KEY, record.key), head + _encode_batches(record.batches)
        case ShareUpdate():
            head = _UPDATE_HEAD.pack(
                _VALUE_VERSION, record.snapshot_epoch, record.leader_epoch, record.start
            )
            return _key(UPDATE_KEY, record.key), head + _encode_batches(record.batches)
        case ShareForgotten():
            return _key(SNAPSHOT_KEY, record.key), None


def decode(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Read a record back; None for a tombstone of updates, which the one of the snapshot implies.

    MalformedData if the bytes cannot be one.
    """
    try:
        kind, where = _decode_key(key)
        if value is None:
            return ShareForgotten(key=where) if kind == SNAPSHOT_KEY else None
        if kind == SNAPSHOT_KEY:
            return _decode_snapshot(where, value)
        return _decode_update(where, value)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedData(f"a share group's record cannot be read: {error}") from None


def _key(kind: int, key: ShareKey) -> bytes:
    name = key.group_id.encode()
    if len(name) > 2**15 - 1:
        raise InvalidRequest(f"a group's name of {len(name)} bytes does not fit a record")
    head = struct.pack(">hh", kind, len(name))
    return head + name + _KEY_TAIL.pack(key.topic_id.bytes, key.partition)


def _encode_batches(batches: tuple[StateBatch, ...]) -> bytes:
    parts = [varint.encode_unsigned(len(batches) + 1)]
    for first, last, state, deliveries in batches:
        parts.append(_BATCH.pack(first, last, state, min(deliveries, _DELIVERIES_MAX)) + b"\x00")
    parts.append(b"\x00")  # no tagged fields
    return b"".join(parts)


def _decode_key(key: bytes) -> tuple[int, ShareKey]:
    kind, size = struct.unpack_from(">hh", key)
    if kind not in {SNAPSHOT_KEY, UPDATE_KEY} or size < 0:
        raise MalformedData(f"a share group's record has a key of kind {kind}")
    topic_id, partition = _KEY_TAIL.unpack_from(key, 4 + size)
    name = bytes(key[4 : 4 + size]).decode()
    return kind, ShareKey(name, UUID(bytes=topic_id), partition)


def _decode_snapshot(key: ShareKey, value: bytes) -> ShareSnapshot:
    version, snapshot_epoch, state_epoch, leader_epoch, start, created_ms, written_ms = (
        _SNAPSHOT_HEAD.unpack_from(value)
    )
    _check_version(version)
    return ShareSnapshot(
        key=key,
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start=start,
        created_ms=created_ms,
        written_ms=written_ms,
        batches=_decode_batches(value, _SNAPSHOT_HEAD.size),
    )


def _decode_update(key: ShareKey, value: bytes) -> ShareUpdate:
    version, snapshot_epoch, leader_epoch, start = _UPDATE_HEAD.unpack_from(value)
    _check_version(version)
    return ShareUpdate(
        key=key,
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start=start,
        batches=_decode_batches(value, _UPDATE_HEAD.size),
    )


def _check_version(version: int) -> None:
    if version != _VALUE_VERSION:
        raise MalformedData(f"version {version} of a share group's record is not known")


def _decode_batches(value: bytes, position: int) -> tuple[StateBatch, ...]:
    length, position = varint.decode_unsigned(value, position)
    if (length - 1) * (_BATCH.size + 1) > len(value) - position:
        raise MalformedData(f"a share group's record announces {length - 1} batches")
    batches = []
    for _ in range(length - 1):
        batch = StateBatch(*_BATCH.unpack_from(value, position))
        if batch.first > batch.last or batch.state not in {AVAILABLE, ACKNOWLEDGED, ARCHIVED}:
            raise MalformedData(f"a share group's record holds {batch}")
        batches.append(batch)
        position = _skip_tags(value, position + _BATCH.size)
    return tuple(batches)


def _skip_tags(value: bytes, position: int) -> int:
    count, position = varint.decode_unsigned(value, position)
    for _ in range(count):
        _tag, position = varint.decode_unsigned(value, position)
        size, position = varint.decode_unsigned(value, position)
        position += size
    return position
