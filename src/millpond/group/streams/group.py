"""One streams group (KIP-1071): what the coordinator asks of it, decided by ``decisions``."""

from millpond.group.epochs import GONE_EPOCH
from millpond.group.kind import GroupContext
from millpond.group.streams.decisions import StreamsDecisions
from millpond.group.streams.image import StreamsGroupImage
from millpond.group.streams.messages import (
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    StreamsSettings,
)


class StreamsGroup(StreamsGroupImage):
    """A streams group and its verbs."""

    def streams_heartbeat(
        self, command: StreamsHeartbeat, context: GroupContext, *, is_new: bool = False
    ) -> StreamsHeartbeatAnswer:
        """A member joins, is alive or leaves. Raises the error that the member is told."""
        decisions = self._decisions(context, is_new=is_new)
        if command.epoch == GONE_EPOCH:
            return decisions.leave(command)
        return decisions.heartbeat(command)

    def resume(self, context: GroupContext) -> None:
        settings = context.read_settings(StreamsSettings, self.group_id)
        self.start_sessions(context.now, settings.session_timeout_ms)

    def expire(self, context: GroupContext) -> None:
        self._decisions(context).expire()

    def _decisions(self, context: GroupContext, *, is_new: bool = False) -> StreamsDecisions:
        settings = context.read_settings(StreamsSettings, self.group_id)
        return StreamsDecisions(self, context.topics, settings, context.now, context.out, is_new)
