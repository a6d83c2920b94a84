"""The records of transactions in ``__transaction_state``, in Kafka's own schemas.

The key is a version and a transactional id; the value is everything the coordinator knows of it, so the last
record of an id *is* its state. A null value is a tombstone. We write version 1 of the value (tagged fields;
what Kafka writes since ``transaction.version`` 1) and read versions 0 and 1.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from millpond.base.errors import InvalidRequest, MalformedData
from millpond.base.kafka_encoding import (
    NO_TAGS,
    Reader,
    compact_array,
    compact_int32s,
    compact_string,
    tagged,
)

KEY_VERSION = 0
VALUE_VERSION = 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

# Lengths in the key are signed 16-bit numbers.
TRANSACTIONAL_ID_BYTES_MAX = 2**15 - 1

_TAG_PREVIOUS_PRODUCER_ID = 0
_TAG_NEXT_PRODUCER_ID = 1
_TAG_CLIENT_VERSION = 2

Place: TypeAlias = tuple[str, int]  # topic, partition


class Status(IntEnum):
    """The state of a transactional id, by its number in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Return the name that administrators see."""
        return "".join(word.capitalize() for word in self.name.split("_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStored:
    """The state of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status
    partitions: frozenset[Place] = frozenset()
    updated_ms: int
    started_ms: int = -1
    # The previous producer id, if its epochs were used up.
    previous_producer_id: int = NO_PRODUCER_ID
    # The next producer id, if ending this transaction uses up the epochs.
    next_producer_id: int = NO_PRODUCER_ID
    # The generation of the client's protocol; from 2 on each end bumps the epoch (KIP-890).
    client_version: int = 0
    # The epoch before this one, to recognise the retry of a bump. Not in the log.
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and the markers may not all be written."""
        return self.status in {Status.PREPARE_COMMIT, Status.PREPARE_ABORT}

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self.status in {Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionForgotten:
    """The transactional id was deleted."""

    transactional_id: str


TransactionRecord: TypeAlias = TransactionStored | TransactionForgotten


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Encode a record as a key and a value (None for a tombstone)."""
    name = record.transactional_id.encode()
    if len(name) > TRANSACTIONAL_ID_BYTES_MAX:
        raise InvalidRequest(f"a transactional id of {len(name)} bytes does not fit a record")
    key = struct.pack(">hh", KEY_VERSION, len(name)) + name
    return key, None if isinstance(record, TransactionForgotten) else _value(record)


def decode(key: bytes, value: bytes | None) -> TransactionRecord:
    """Decode a record. Raises ``MalformedData``."""
    reader = Reader(key)
    if (version := reader.int16()) != KEY_VERSION:
        raise MalformedData(f"version {version} of a transaction key is not known")
    transactional_id = reader.string()
    if value is None:
        return TransactionForgotten(transactional_id=transactional_id)
    return _decode_value(transactional_id, Reader(value))


# --- writing --------------------------------------------------------------------------------------


def _value(record: TransactionStored) -> bytes:
    return b"".join(
        (
            struct.pack(
                ">hqhib",
                VALUE_VERSION,
                record.producer_id,
                record.producer_epoch,
                record.timeout_ms,
                record.status,
            ),
            _partitions(record),
            struct.pack(">qq", record.updated_ms, record.started_ms),
            _tags(record),
        )
    )


def _partitions(record: TransactionStored) -> bytes:
    if record.status == Status.EMPTY:
        return b"\x00"  # null: no partitions were added
    return compact_array(
        compact_string(topic) + compact_int32s(index for _, index in places) + NO_TAGS
        for topic, places in groupby(sorted(record.partitions), key=itemgetter(0))
    )


def _tags(record: TransactionStored) -> bytes:
    tags = [
        (tag, struct.pack(">q", producer_id))
        for tag, producer_id in (
            (_TAG_PREVIOUS_PRODUCER_ID, record.previous_producer_id),
            (_TAG_NEXT_PRODUCER_ID, record.next_producer_id),
        )
        if producer_id != NO_PRODUCER_ID
    ]
    if record.client_version:
        tags.append((_TAG_CLIENT_VERSION, struct.pack(">h", record.client_version)))
    return tagged(*tags)


# --- reading --------------------------------------------------------------------------------------


def _decode_value(transactional_id: str, reader: Reader) -> TransactionStored:
    version = reader.int16()
    if version not in {0, 1}:
        raise MalformedData(f"version {version} of a transaction record is not known")
    flexible = version >= 1
    producer_id, epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    try:
        status = Status(reader.int8())
    except ValueError as error:
        raise MalformedData(f"transaction {transactional_id!r}: {error}") from None
    partitions = frozenset(_decode_partitions(reader, flexible))
    updated_ms, started_ms = reader.int64(), reader.int64()
    tags = reader.tagged_fields() if flexible else {}
    client_version = _tagged_number(tags, _TAG_CLIENT_VERSION, 0)
    ended_with_bump = client_version >= 2 and status not in {Status.EMPTY, Status.ONGOING}
    return TransactionStored(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        status=status,
        partitions=partitions,
        updated_ms=updated_ms,
        started_ms=started_ms,
        previous_producer_id=_tagged_number(tags, _TAG_PREVIOUS_PRODUCER_ID, NO_PRODUCER_ID),
        next_producer_id=_tagged_number(tags, _TAG_NEXT_PRODUCER_ID, NO_PRODUCER_ID),
        client_version=client_version,
        last_producer_epoch=epoch - 1 if ended_with_bump else NO_PRODUCER_EPOCH,
    )


def _decode_partitions(reader: Reader, flexible: bool) -> list[Place]:
    if not flexible:
        return [place for _ in range(_old_length(reader)) for place in _old_topic(reader)]
    return [place for topic in reader.compact_array(lambda: _topic(reader)) for place in topic]


def _topic(reader: Reader) -> list[Place]:
    topic, indexes = reader.compact_string(), reader.compact_int32s()
    reader.tagged_fields()
    return [(topic, index) for index in indexes]


def _old_topic(reader: Reader) -> list[Place]:
    topic = reader.string()
    return [(topic, reader.int32()) for _ in range(_old_length(reader))]


def _old_length(reader: Reader) -> int:
    """Read the length of an array, where null counts as empty."""
    length = reader.int32()
    if length > reader.size:
        raise MalformedData(f"a transaction record announces {length} entries")
    return length


def _tagged_number(tags: dict[int, bytes], tag: int, default: int) -> int:
    data = tags.get(tag)
    return default if data is None else int.from_bytes(data, "big", signed=True)
