"""All groups of one coordinator: commands in, facts and answers out.

``decide`` never changes what the log is the truth of (committed offsets, which groups exist, stable
assignments); it says which facts would. The host appends them and then calls ``apply``, or,
if that failed, decides ``StoreFailed``. After a restart ``replay`` of the same facts, in order, gives
the same state; ``resume`` then starts the members' sessions.

The host lets no other command in between a decision and its ``apply`` or ``StoreFailed``. So a group that is
decided on but not written yet can be kept aside (``_staged``) until then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from millpond.base import limits
from millpond.base.errors import (
    GroupNotFound,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    MillpondError,
    RebalanceInProgress,
    UnknownMember,
)
from millpond.group import migration, mixed, offset_decisions
from millpond.group.classic import ClassicGroup
from millpond.group.consumer import ConsumerGroup, ConsumerMember
from millpond.group.consumer_decisions import JOINING, Decisions, check_heartbeat
from millpond.group.consumer_records import ConsumerRecord, FactForgotten, FactKind
from millpond.group.epochs import AWAY_EPOCH, GONE_EPOCH
from millpond.group.messages import (
    NO_MEMBER_ID,
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
    Decision,
    DeleteGroup,
    ErrorClass,
    Expire,
    ExpireOffsets,
    ForgetOffsets,
    ForgetTopic,
    GroupSettings,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Now,
    Outbox,
    PendOffsets,
    ResolvePatterns,
    StoreFailed,
    Sync,
    SyncAnswer,
)
from millpond.group.offset_decisions import AnyGroup
from millpond.group.offsets import OffsetTable
from millpond.group.records import (
    CommittedOffset,
    GroupForgotten,
    GroupRecord,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendingEnded,
)
from millpond.group.streams import StreamsGroup
from millpond.group.streams_decisions import StreamsDecisions
from millpond.group.streams_decisions import check_heartbeat as check_streams_heartbeat
from millpond.group.streams_messages import (
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    StreamsSettings,
)
from millpond.group.streams_records import (
    StreamsCurrentStored,
    StreamsForgotten,
    StreamsGroupStored,
    StreamsKind,
    StreamsMemberStored,
    StreamsRecord,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    TopologyStored,
)
from millpond.group.topics import TopicView

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class _Staged:
    """The group that the facts of a decision will make."""

    group: AnyGroup
    # Whether its members shall join again at once.
    rebalance: bool = False
    # The group that it replaced already, to be put back if the facts cannot be written.
    instead_of: ConsumerGroup | StreamsGroup | None = None


def _default_settings(_group_id: str) -> ConsumerSettings:
    return ConsumerSettings()


def _default_streams_settings(_group_id: str) -> StreamsSettings:
    return StreamsSettings()


class GroupCoordinator:
    """Groups by name, and their offsets."""

    def __init__(
        self,
        settings: GroupSettings,
        consumer_settings: Callable[[str], ConsumerSettings] = _default_settings,
        topics: TopicView | None = None,
        streams_settings: Callable[[str], StreamsSettings] = _default_streams_settings,
    ) -> None:
        self.settings = settings
        self.consumer_settings = consumer_settings
        self.streams_settings = streams_settings
        # What is around the groups; the host replaces it when topics change.
        self.topics = topics or TopicView()
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = OffsetTable()
        # The group that the facts of the last decision make: its deadlines, or how to go on with it.
        self._staged: _Staged | None = None

    # --- deciding ---------------------------------------------------------------------------------

    def decide(self, command: Command[AnswerT], now: Now) -> Decision[AnswerT]:
        """What shall happen. Raises a MillpondError for commands that are refused as a whole."""
        out = Outbox()
        if not isinstance(command, StoreFailed):
            self._staged = None
        try:
            answer = self._dispatch(command, now, out)
        except MillpondError:
            # Nobody will look patterns up for a command that is refused.
            for group_id, _patterns in out.patterns:
                group = self.groups.get(group_id)
                if isinstance(group, ConsumerGroup):
                    group.is_resolving = False
            raise
        return Decision(answer=cast("AnswerT", answer), outbox=out)

    def _dispatch(self, command: Command[AnswerT], now: Now, out: Outbox) -> object:
        match command:
            case ConsumerHeartbeat():
                return self._consumer_heartbeat(command, now, out)
            case StreamsHeartbeat():
                return self._streams_heartbeat(command, now, out)
            case Join():
                self._join(command, now, out)
            case Sync():
                self._sync(command, now, out)
            case Heartbeat():
                return self._heartbeat(command, now, out)
            case Leave():
                return self._leave(command, now, out)
            case CommitOffsets():
                group = self.groups.get(command.group_id)
                return offset_decisions.commit(command, group, self.settings, now, out)
            case PendOffsets():
                group = self.groups.get(command.group_id)
                return offset_decisions.pend(command, group, self.settings, now, out)
            case ForgetOffsets():
                existing = self._existing(command.group_id)
                return offset_decisions.forget(command, existing, self.offsets, out)
            case _:
                self._dispatch_upkeep(command, now, out)
        return None

    def _dispatch_upkeep(self, command: Command[AnswerT], now: Now, out: Outbox) -> None:
        match command:
            case DeleteGroup():
                self._delete_group(command, out)
            case ForgetTopic():
                self._forget_topic(command, out)
            case Expire():
                self._expire(command, now, out)
            case ExpireOffsets():
                group = self.groups.get(command.group_id)
                if group is not None:
                    offset_decisions.expire(group, self.offsets, self.settings, now, out)
            case ResolvePatterns():
                consumers = self.groups.get(command.group_id)
                if isinstance(consumers, ConsumerGroup):
                    self._decisions(consumers, now, out).resolve(command)
            case StoreFailed():
                self._store_failed(command, now, out)
            case _:
                raise AssertionError(f"nobody decides {type(command).__name__}")

    def _decisions(self, group: ConsumerGroup, now: Now, out: Outbox) -> Decisions:
        return Decisions(group, self.topics, self.consumer_settings(group.group_id), now, out)

    # --- consumer groups --------------------------------------------------------------------------

    def _consumer_heartbeat(
        self, command: ConsumerHeartbeat, now: Now, out: Outbox
    ) -> ConsumerHeartbeatAnswer:
        check_heartbeat(command, self.consumer_settings(command.group_id))
        if len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
            raise InvalidGroupId(f"a group's name may have {limits.GROUP_ID_CHARS_MAX} characters")
        if command.epoch in {GONE_EPOCH, AWAY_EPOCH}:
            return self._consumer_leave(command, now, out)
        group = self._consumer_group(command, now, out)
        return self._decisions(group, now, out).heartbeat(command)

    def _consumer_group(self, command: ConsumerHeartbeat, now: Now, out: Outbox) -> ConsumerGroup:
        group = self.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if command.epoch != JOINING or isinstance(group, StreamsGroup):
            raise GroupNotFound(f"there is no consumer group {command.group_id!r}")
        if group is None:
            made = ConsumerGroup(command.group_id)
        elif not group.members:
            out.records.append(GroupForgotten(group_id=command.group_id))
            made = ConsumerGroup(command.group_id)
        else:
            made = self._upgrade(group, now, out)
        self._staged = _Staged(made)
        return made

    def _upgrade(self, group: ClassicGroup, now: Now, out: Outbox) -> ConsumerGroup:
        settings = self.consumer_settings(group.group_id)
        migration.check_upgrade(group, settings)
        made, facts = migration.upgraded(group, self.topics)
        out.records += (GroupForgotten(group_id=group.group_id), *facts)
        for member in group.roster:
            due_ms = now.steady_ms + member.session_timeout_ms
            made.deadlines.extend_session(member.member_id, due_ms)
        return made

    def _consumer_leave(
        self, command: ConsumerHeartbeat, now: Now, out: Outbox
    ) -> ConsumerHeartbeatAnswer:
        group = self.groups.get(command.group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupNotFound(f"there is no consumer group {command.group_id!r}")
        decisions = self._decisions(group, now, out)
        member = decisions.leaver(command)
        if command.epoch == AWAY_EPOCH:
            decisions.go_away(member)
        else:
            self._fence(decisions, [member])
        return ConsumerHeartbeatAnswer(member_id=command.member_id, epoch=command.epoch)

    def _fence(self, decisions: Decisions, members: list[ConsumerMember]) -> None:
        """Members are gone; if only those of the classic protocol are left, the group is a classic one."""
        group, settings = decisions.group, decisions.settings
        members_max = self.settings.members_max
        if not members or not migration.may_downgrade(group, members, settings, members_max):
            decisions.fence(members)
            return
        classic = migration.downgraded(
            group,
            self.topics,
            self.settings,
            leaving=[member.member_id for member in members],
            since_ms=decisions.now.wall_ms,
        )
        decisions.out.records += (*group.tombstones(), classic.record())
        self._staged = _Staged(classic, rebalance=True)

    # --- streams groups ---------------------------------------------------------------------------

    def _streams_heartbeat(
        self, command: StreamsHeartbeat, now: Now, out: Outbox
    ) -> StreamsHeartbeatAnswer:
        check_streams_heartbeat(command)
        if len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
            raise InvalidGroupId(f"a group's name may have {limits.GROUP_ID_CHARS_MAX} characters")
        group = self.groups.get(command.group_id)
        if command.epoch == JOINING and (
            group is None or (isinstance(group, ClassicGroup) and not group.members)
        ):
            if group is not None:
                out.records.append(GroupForgotten(group_id=command.group_id))
            made = StreamsGroup(command.group_id)
            self._staged = _Staged(made)
            return self._streams_decisions(made, now, out, is_new=True).heartbeat(command)
        if not isinstance(group, StreamsGroup):
            reason = "not found" if group is None else "is not a streams group"
            raise GroupNotFound(f"Group {command.group_id} {reason}.")
        decisions = self._streams_decisions(group, now, out)
        return (decisions.leave if command.epoch == GONE_EPOCH else decisions.heartbeat)(command)

    def _streams_decisions(
        self, group: StreamsGroup, now: Now, out: Outbox, *, is_new: bool = False
    ) -> StreamsDecisions:
        settings = self.streams_settings(group.group_id)
        return StreamsDecisions(group, self.topics, settings, now, out, is_new)

    # --- classic groups, and members of that protocol elsewhere -----------------------------------

    def _join(self, command: Join, now: Now, out: Outbox) -> None:
        if error := self._check_join(command):
            answer = JoinAnswer(error=error, member_id=command.member_id)
            out.joins.append((command.ticket, answer))
            return
        group = self.groups.get(command.group_id)
        if isinstance(group, StreamsGroup) and group.members:
            out.joins.append((command.ticket, JoinAnswer(error=InconsistentGroupProtocol)))
            return
        if isinstance(group, (ConsumerGroup, StreamsGroup)):
            if isinstance(group, ConsumerGroup) and group.members:
                self._join_consumers(group, command, now, out)
                return
            if command.member_id != NO_MEMBER_ID:
                answer = JoinAnswer(error=UnknownMember, member_id=command.member_id)
                out.joins.append((command.ticket, answer))
                return
        elif group is not None:
            group.join(command, now, out)
            return
        self._join_new(group, command, now, out)

    def _join_new(
        self, empty: ConsumerGroup | StreamsGroup | None, command: Join, now: Now, out: Outbox
    ) -> None:
        group = ClassicGroup(command.group_id, self.settings, since_ms=now.wall_ms)
        group.join(command, now, out)
        if group.is_deserted:
            return  # refused; there is nothing to remember
        self.groups[command.group_id] = group
        if not out.records:
            # Kafka too writes a new group down before its first generation is complete.
            out.records.append(
                GroupStored(
                    group_id=command.group_id,
                    protocol_type="",
                    generation=0,
                    protocol=None,
                    leader=None,
                    state_since_ms=now.wall_ms,
                )
            )
        if empty is not None:
            # A group of another kind without members becomes a classic one.
            out.records[:0] = empty.tombstones()
            self._staged = _Staged(group, instead_of=empty)

    def _check_join(self, command: Join) -> ErrorClass | None:
        if not command.group_id or len(command.group_id) > limits.GROUP_ID_CHARS_MAX:
            return InvalidGroupId
        lowest, highest = self.settings.session_timeout_ms_min, self.settings.session_timeout_ms_max
        if not lowest <= command.session_timeout_ms <= highest:
            return InvalidSessionTimeout
        if command.member_id != NO_MEMBER_ID and command.group_id not in self.groups:
            return UnknownMember
        return None

    def _join_consumers(self, group: ConsumerGroup, command: Join, now: Now, out: Outbox) -> None:
        decisions = self._decisions(group, now, out)
        try:
            mixed.check_join(decisions, command)
            is_stranger = command.member_id == NO_MEMBER_ID
            if is_stranger and command.member_id_required and command.instance_id is None:
                answer = JoinAnswer(error=MemberIdRequired, member_id=command.fresh_id)
            else:
                answer = self._join_as_one(decisions, command)
        except MillpondError as error:
            out.records.clear()
            answer = JoinAnswer(error=type(error), member_id=command.member_id)
        out.joins.append((command.ticket, answer))

    def _join_as_one(self, decisions: Decisions, command: Join) -> JoinAnswer:
        answer, downgrade = mixed.join(decisions, command, self.settings.members_max)
        if downgrade is not None:
            group = decisions.group
            classic = migration.downgraded(
                group,
                self.topics,
                self.settings,
                joining=downgrade.joining,
                since_ms=decisions.now.wall_ms,
            )
            gone = migration.tombstones(group, downgrade.replaced, answer.member_id)
            decisions.out.records += (*gone, classic.record())
            self._staged = _Staged(classic, rebalance=downgrade.rebalance)
        return answer

    def _sync(self, command: Sync, now: Now, out: Outbox) -> None:
        group = self.groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            group.sync(command, now, out)
            return
        if group is None or isinstance(group, StreamsGroup):
            answer = SyncAnswer(error=UnknownMember if command.group_id else InvalidGroupId)
        else:
            try:
                answer = mixed.sync(self._decisions(group, now, out), command)
            except MillpondError as error:
                answer = SyncAnswer(error=type(error))
        out.syncs.append((command.ticket, answer))

    def _heartbeat(self, command: Heartbeat, now: Now, out: Outbox) -> ErrorClass | None:
        group = self.groups.get(command.group_id)
        if group is None or isinstance(group, StreamsGroup):
            return UnknownMember if command.group_id else InvalidGroupId
        if isinstance(group, ClassicGroup):
            return group.heartbeat(command, now)
        try:
            return mixed.heartbeat(self._decisions(group, now, out), command)
        except MillpondError as error:
            return type(error)

    def _leave(self, command: Leave, now: Now, out: Outbox) -> tuple[ErrorClass | None, ...]:
        if not command.group_id:
            raise InvalidGroupId("a group needs a name")
        group = self.groups.get(command.group_id)
        if group is None or isinstance(group, StreamsGroup):
            return (UnknownMember,) * len(command.members)
        if isinstance(group, ClassicGroup):
            return group.leave(command.members, now, out)
        decisions = self._decisions(group, now, out)
        members, results = mixed.leavers(decisions, command.members)
        self._fence(decisions, members)
        return results

    # --- upkeep -----------------------------------------------------------------------------------

    def _delete_group(self, command: DeleteGroup, out: Outbox) -> None:
        group = self._existing(command.group_id)
        if error := group.check_deletable():
            raise error(f"group {command.group_id!r} has members")
        offset_decisions.forget_all(command.group_id, self.offsets, out)
        offset_decisions.forget_group(group, out)

    def _forget_topic(self, command: ForgetTopic, out: Outbox) -> None:
        partitions = self.offsets.of_group(command.group_id).get(command.topic, {})
        out.records.extend(
            offset_decisions.forgotten(command.group_id, command.topic, partition)
            for partition in partitions
        )

    def _expire(self, command: Expire, now: Now, out: Outbox) -> None:
        group = self.groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            group.expire(now, out)
        elif isinstance(group, StreamsGroup):
            self._streams_decisions(group, now, out).expire()
        elif group is not None:
            decisions = self._decisions(group, now, out)
            self._fence(decisions, group.take_late(now))

    def _store_failed(self, command: StoreFailed, now: Now, out: Outbox) -> None:
        staged, self._staged = self._staged, None
        group = self.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            group.is_resolving = False
        elif isinstance(group, ClassicGroup):
            group.store_failed(command.error, now, out)
            if not group.is_stored:
                del self.groups[command.group_id]
                if staged is not None and staged.instead_of is not None:
                    self.groups[command.group_id] = staged.instead_of

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, facts: Iterable[GroupRecord], now: Now) -> Outbox:
        """Facts are in the log: make them so, and say whom that answers."""
        out = Outbox()
        staged, self._staged = self._staged, None
        for fact in facts:
            group = self.groups.get(fact.group_id)
            if isinstance(fact, GroupStored):
                if isinstance(group, ClassicGroup):
                    group.stored(fact, now, out)
                    continue
                if staged is not None and isinstance(staged.group, ClassicGroup):
                    self.groups[fact.group_id] = staged.group
                    staged.group.take_over(now, out, rebalance=staged.rebalance)
                    continue
            elif isinstance(fact, GroupForgotten) and isinstance(group, ClassicGroup):
                # Who waits in a classic group that is one no more has to join again.
                group.disband(RebalanceInProgress, out)
            self.replay(fact)
        if staged is not None and isinstance(staged.group, ConsumerGroup):
            made = self.groups.get(staged.group.group_id)
            if isinstance(made, ConsumerGroup):
                made.inherit(staged.group)
        elif staged is not None and isinstance(staged.group, StreamsGroup):
            streams = self.groups.get(staged.group.group_id)
            if isinstance(streams, StreamsGroup):
                streams.inherit(staged.group)
        return out

    def replay(self, record: GroupRecord) -> None:
        """A fact read back from the log."""
        match record:
            case OffsetCommitted() | OffsetPended():
                if record.group_id not in self.groups:
                    # Offsets without members: a simple group, used by readers that assign themselves.
                    group = ClassicGroup(
                        record.group_id, self.settings, since_ms=record.value.committed_at_ms
                    )
                    group.is_stored = True
                    self.groups[record.group_id] = group
                self.offsets.apply(record)
            case OffsetForgotten():
                self.offsets.apply(record)
            case GroupStored():
                self.groups[record.group_id] = ClassicGroup.restore(record, self.settings)
            case GroupForgotten():
                if isinstance(self.groups.get(record.group_id), ClassicGroup):
                    del self.groups[record.group_id]
            case (
                StreamsGroupStored()
                | StreamsMemberStored()
                | StreamsTargetEpochStored()
                | StreamsTargetStored()
                | StreamsCurrentStored()
                | TopologyStored()
                | StreamsForgotten()
            ):
                self._replay_streams(record)
            case _:
                self._replay_consumer(record)

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        group = self.groups.get(record.group_id)
        if isinstance(record, FactForgotten):
            if not isinstance(group, ConsumerGroup):
                return
            group.apply(record)
            if record.kind is FactKind.GROUP:
                del self.groups[record.group_id]
            return
        if not isinstance(group, ConsumerGroup):
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
        group.apply(record)

    def _replay_streams(self, record: StreamsRecord) -> None:
        group = self.groups.get(record.group_id)
        if isinstance(record, StreamsForgotten):
            if not isinstance(group, StreamsGroup):
                return
            group.apply(record)
            if record.kind is StreamsKind.GROUP:
                del self.groups[record.group_id]
            return
        if not isinstance(group, StreamsGroup):
            group = self.groups[record.group_id] = StreamsGroup(record.group_id)
        group.apply(record)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker is in the log, now or since before the start."""
        for group_id in self.offsets.pending_groups(producer_id):
            self.offsets.apply(
                PendingEnded(group_id=group_id, producer_id=producer_id, committed=committed)
            )

    def resume(self, now: Now) -> Outbox:
        """All facts are read: from now on members must be heard of."""
        out = Outbox()
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                settings = self.consumer_settings(group.group_id)
                group.resume(now, settings.session_timeout_ms)
            elif isinstance(group, StreamsGroup):
                group.resume(now, self.streams_settings(group.group_id).session_timeout_ms)
            else:
                group.resume(now, out)
        return out

    # --- reading ----------------------------------------------------------------------------------

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self.offsets.of_group(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorClass | None:
        """May this member read the group's offsets now?"""
        group = self.groups.get(group_id)
        return None if group is None else group.check_fetch(member_id, epoch)

    def _existing(self, group_id: str) -> AnyGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupNotFound(f"group {group_id!r} does not exist")
        return group
