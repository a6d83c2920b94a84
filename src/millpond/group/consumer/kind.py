"""Consumer groups for the coordinator: their commands and records, and how they come to be."""

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from millpond.base.errors import GroupNotFound
from millpond.base.kafka_encoding import Reader
from millpond.group.classic.group import ClassicGroup
from millpond.group.consumer import migration, records
from millpond.group.consumer.decisions import check_heartbeat
from millpond.group.consumer.group import ConsumerGroup
from millpond.group.consumer.image import CONSUMER
from millpond.group.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
    ResolvePatterns,
)
from millpond.group.consumer.records import ConsumerRecord, FactKind
from millpond.group.epoch_kind import EpochGroupKind
from millpond.group.epochs import AWAY_EPOCH, GONE_EPOCH, JOINING
from millpond.group.kind import Group, GroupContext, Handler, Staged, check_group_id
from millpond.group.messages import Command
from millpond.group.records import GroupRecord


class ConsumerGroupKind(EpochGroupKind[ConsumerRecord, ConsumerGroup]):
    """Decides ConsumerGroupHeartbeat. A classic group of consumers becomes one of this kind with it."""

    name: ClassVar[str] = CONSUMER
    record_types: ClassVar[tuple[type[GroupRecord], ...]] = get_args(ConsumerRecord)
    key_versions: ClassVar[frozenset[int]] = frozenset(FactKind)

    def __init__(self) -> None:
        self.commands: Mapping[type[Command[Any]], Handler] = {
            ConsumerHeartbeat: _heartbeat,
            ResolvePatterns: _resolve,
        }

    def encode(self, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, version: int, key: Reader, value: bytes | None) -> ConsumerRecord:
        return records.decode(version, key, value)

    def own(self, group: Group | None) -> ConsumerGroup | None:
        return group if isinstance(group, ConsumerGroup) else None

    def make(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id)

    def fold(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        group.apply(record)


def _heartbeat(
    command: ConsumerHeartbeat, group: Group | None, context: GroupContext
) -> ConsumerHeartbeatAnswer:
    check_heartbeat(command, context.read_settings(ConsumerSettings, command.group_id))
    check_group_id(command.group_id)
    if command.epoch not in {GONE_EPOCH, AWAY_EPOCH}:
        return _open(command, group, context).consumer_heartbeat(command, context)
    if not isinstance(group, ConsumerGroup):
        raise _not_found(command)
    return group.consumer_leave(command, context)


def _resolve(command: ResolvePatterns, group: Group | None, context: GroupContext) -> None:
    if isinstance(group, ConsumerGroup):
        group.resolve(command, context)


def _open(command: ConsumerHeartbeat, group: Group | None, context: GroupContext) -> ConsumerGroup:
    """Return the consumer group, made now if the member joins and the name is free or may be taken over."""
    if isinstance(group, ConsumerGroup):
        return group
    if command.epoch != JOINING:
        raise _not_found(command)
    if group is None:
        made = ConsumerGroup(command.group_id)
    elif group.may_be_replaced_by(CONSUMER):
        context.out.records += group.tombstones()
        made = ConsumerGroup(command.group_id)
    elif isinstance(group, ClassicGroup):
        made = _upgrade(group, context)
    else:
        raise _not_found(command)
    context.staged = Staged(made)
    return made


def _upgrade(group: ClassicGroup, context: GroupContext) -> ConsumerGroup:
    migration.check_upgrade(group, context.read_settings(ConsumerSettings, group.group_id))
    facts = migration.upgraded(group, context.topics)
    context.out.records += (*group.tombstones(), *facts)
    made = ConsumerGroup(group.group_id)
    for fact in facts:
        made.apply(fact)
    for member in group.roster:
        due_ms = context.now.steady_ms + member.session_timeout_ms
        made.deadlines.extend_session(member.member_id, due_ms)
    return made


def _not_found(command: ConsumerHeartbeat) -> GroupNotFound:
    return GroupNotFound(f"there is no consumer group {command.group_id!r}")
