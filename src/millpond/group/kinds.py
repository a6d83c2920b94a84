"""The kinds of groups that the coordinator keeps. A new kind is a package and a line in ``KINDS``.

Share groups are not among them: their members are not kept in ``__consumer_offsets``, and their host is
``engine/share``.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from millpond.base.kafka_encoding import Reader
from millpond.group.classic.kind import ClassicGroupKind
from millpond.group.consumer.kind import ConsumerGroupKind
from millpond.group.kind import GroupKind, Handler
from millpond.group.messages import Command
from millpond.group.records import (
    OFFSET_KEY_VERSIONS,
    ForeignRecord,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    decode_offset,
    encode_offset,
)
from millpond.group.streams.kind import StreamsGroupKind

AnyKind: TypeAlias = GroupKind[Any]


class GroupKinds:
    """Finds the kind to which a command or a record belongs."""

    def __init__(self, *kinds: AnyKind) -> None:
        self.kinds = kinds
        self.by_command: Mapping[type[Command[Any]], Handler] = {
            command: handler for kind in kinds for command, handler in kind.commands.items()
        }
        self.by_record: Mapping[type[GroupRecord], AnyKind] = {
            record: kind for kind in kinds for record in kind.record_types
        }
        self._by_key_version: Mapping[int, AnyKind] = {
            version: kind for kind in kinds for version in kind.key_versions
        }

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        """Return the record's key and its value, None for a tombstone."""
        if isinstance(record, (OffsetCommitted, OffsetPended, OffsetForgotten)):
            return encode_offset(record)
        return self.by_record[type(record)].encode(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | ForeignRecord:
        """Read a record back. Raises ``MalformedData`` if the bytes cannot be one."""
        reader = Reader(key)
        version = reader.int16()
        if version in OFFSET_KEY_VERSIONS:
            return decode_offset(reader, value)
        kind = self._by_key_version.get(version)
        if kind is None:
            return ForeignRecord(key_version=version)
        record: GroupRecord = kind.decode(version, reader, value)
        return record


KINDS = GroupKinds(
    ClassicGroupKind(),
    ConsumerGroupKind(),
    StreamsGroupKind(),
)
encode = KINDS.encode
decode = KINDS.decode
