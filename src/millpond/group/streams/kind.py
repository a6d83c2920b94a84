"""Streams groups for the coordinator: their commands and records, and how they come to be."""

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from millpond.base.errors import GroupNotFound
from millpond.base.kafka_encoding import Reader
from millpond.group.epoch_kind import EpochGroupKind
from millpond.group.epochs import JOINING
from millpond.group.kind import Group, GroupContext, Handler, Staged, check_group_id
from millpond.group.messages import Command
from millpond.group.records import GroupRecord
from millpond.group.streams import records
from millpond.group.streams.decisions import check_heartbeat
from millpond.group.streams.group import StreamsGroup
from millpond.group.streams.image import STREAMS
from millpond.group.streams.messages import StreamsHeartbeat, StreamsHeartbeatAnswer
from millpond.group.streams.records import StreamsKind, StreamsRecord


class StreamsGroupKind(EpochGroupKind[StreamsRecord, StreamsGroup]):
    """Decides StreamsGroupHeartbeat."""

    name: ClassVar[str] = STREAMS
    record_types: ClassVar[tuple[type[GroupRecord], ...]] = get_args(StreamsRecord)
    key_versions: ClassVar[frozenset[int]] = frozenset(StreamsKind)

    def __init__(self) -> None:
        self.commands: Mapping[type[Command[Any]], Handler] = {StreamsHeartbeat: _heartbeat}

    def encode(self, record: StreamsRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, version: int, key: Reader, value: bytes | None) -> StreamsRecord:
        return records.decode(version, key, value)

    def own(self, group: Group | None) -> StreamsGroup | None:
        return group if isinstance(group, StreamsGroup) else None

    def make(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id)

    def fold(self, group: StreamsGroup, record: StreamsRecord) -> None:
        group.apply(record)


def _heartbeat(
    command: StreamsHeartbeat, group: Group | None, context: GroupContext
) -> StreamsHeartbeatAnswer:
    check_heartbeat(command)
    check_group_id(command.group_id)
    if isinstance(group, StreamsGroup):
        return group.streams_heartbeat(command, context)
    is_free = group is None or group.may_be_replaced_by(STREAMS)
    if command.epoch != JOINING or not is_free:
        reason = "not found" if group is None else "is not a streams group"
        raise GroupNotFound(f"Group {command.group_id} {reason}.")
    if group is not None:
        context.out.records += group.tombstones()
    made = StreamsGroup(command.group_id)
    context.staged = Staged(made)
    return made.streams_heartbeat(command, context, is_new=True)
