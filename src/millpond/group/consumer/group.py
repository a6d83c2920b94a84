"""One consumer group (KIP-848): what the coordinator asks of it, decided by ``decisions``.

Members of the classic protocol may be in it too (``classic_members``). When the last member of the consumer
protocol leaves them, the group becomes a classic one (``migration``).
"""

from collections.abc import Sequence

from millpond.base.errors import MemberIdRequired, MillpondError
from millpond.group.consumer import classic_members, migration
from millpond.group.consumer.decisions import Decisions
from millpond.group.consumer.image import ConsumerGroupImage, ConsumerMember
from millpond.group.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ConsumerSettings,
    ResolvePatterns,
)
from millpond.group.epochs import AWAY_EPOCH
from millpond.group.kind import GroupContext, Staged
from millpond.group.messages import (
    NO_MEMBER_ID,
    ErrorClass,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Sync,
    SyncAnswer,
)


class ConsumerGroup(ConsumerGroupImage):
    """A consumer group and its verbs."""

    # --- members of the consumer protocol -----------------------------------------------------------

    def consumer_heartbeat(
        self, command: ConsumerHeartbeat, context: GroupContext
    ) -> ConsumerHeartbeatAnswer:
        """A member joins or is alive. Raises the error that the member is told."""
        return self._decisions(context).heartbeat(command)

    def consumer_leave(
        self, command: ConsumerHeartbeat, context: GroupContext
    ) -> ConsumerHeartbeatAnswer:
        """A member leaves, for a while if it is static. Raises the error that the member is told."""
        decisions = self._decisions(context)
        member = decisions.leaver(command)
        if command.epoch == AWAY_EPOCH:
            decisions.go_away(member)
        else:
            self._fence(decisions, [member], context)
        return ConsumerHeartbeatAnswer(member_id=command.member_id, epoch=command.epoch)

    def resolve(self, command: ResolvePatterns, context: GroupContext) -> None:
        """Take over the topics that patterns match."""
        self._decisions(context).resolve(command)

    # --- members of the classic protocol ------------------------------------------------------------

    def join(self, command: Join, context: GroupContext) -> None:
        out = context.out
        decisions = self._decisions(context)
        try:
            classic_members.check_join(decisions, command)
            has_no_id = command.member_id == NO_MEMBER_ID
            if has_no_id and command.member_id_required and command.instance_id is None:
                answer = JoinAnswer(error=MemberIdRequired, member_id=command.fresh_id)
            else:
                answer = self._join(decisions, command, context)
        except MillpondError as error:
            out.records.clear()
            answer = JoinAnswer(error=type(error), member_id=command.member_id)
        out.joins.append((command.ticket, answer))

    def _join(self, decisions: Decisions, command: Join, context: GroupContext) -> JoinAnswer:
        answer, downgrade = classic_members.join(decisions, command, context.settings.members_max)
        if downgrade is not None:
            classic = migration.downgraded(
                self,
                context.topics,
                context.settings,
                joining=downgrade.joining,
                since_ms=context.now.wall_ms,
            )
            gone = migration.tombstones(self, downgrade.replaced, answer.member_id)
            context.out.records += (*gone, classic.record())
            context.staged = Staged(classic, rebalance=downgrade.rebalance)
        return answer

    def sync(self, command: Sync, context: GroupContext) -> None:
        try:
            answer = classic_members.sync(self._decisions(context), command)
        except MillpondError as error:
            answer = SyncAnswer(error=type(error))
        context.out.syncs.append((command.ticket, answer))

    def heartbeat(self, command: Heartbeat, context: GroupContext) -> ErrorClass | None:
        try:
            return classic_members.heartbeat(self._decisions(context), command)
        except MillpondError as error:
            return type(error)

    def leave(self, command: Leave, context: GroupContext) -> tuple[ErrorClass | None, ...]:
        decisions = self._decisions(context)
        members, results = classic_members.leavers(decisions, command.members)
        self._fence(decisions, members, context)
        return results

    # --- time and the log ---------------------------------------------------------------------------

    def resume(self, context: GroupContext) -> None:
        settings = context.read_settings(ConsumerSettings, self.group_id)
        self.start_sessions(context.now, settings.session_timeout_ms)

    def expire(self, context: GroupContext) -> None:
        decisions = self._decisions(context)
        self._fence(decisions, self.take_late(context.now), context)

    def store_failed(self, error: ErrorClass, context: GroupContext) -> None:
        self.is_resolving = False

    def lookup_cancelled(self) -> None:
        self.is_resolving = False

    def _decisions(self, context: GroupContext) -> Decisions:
        settings = context.read_settings(ConsumerSettings, self.group_id)
        return Decisions(self, context.topics, settings, context.now, context.out)

    def _fence(
        self, decisions: Decisions, members: Sequence[ConsumerMember], context: GroupContext
    ) -> None:
        """Remove members; if only those of the classic protocol are left, the group becomes a classic one."""
        settings, members_max = decisions.settings, context.settings.members_max
        if not members or not migration.may_downgrade(self, members, settings, members_max):
            decisions.fence(members)
            return
        classic = migration.downgraded(
            self,
            context.topics,
            context.settings,
            leaving=[member.member_id for member in members],
            since_ms=context.now.wall_ms,
        )
        context.out.records += (*self.tombstones(), classic.record())
        context.staged = Staged(classic, rebalance=True)
