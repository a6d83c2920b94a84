"""Hosts share groups: their members and sessions, at the coordinator of the group.

Membership is ``group.share``; it is not written, so members join again after a restart. ``share_delivery.py``
hands out the records of the partitions that this node leads; ``share_admin.py`` answers administrators.
"""

import asyncio
import logging
from collections.abc import Iterator

from millpond.base.errors import (
    GroupNotFound,
    MillpondError,
    NotCoordinator,
)
from millpond.base.ids import NodeId
from millpond.cursor.share import (
    Acknowledgement,
    HandedOut,
)
from millpond.engine.runtime.deadlines import Deadlines
from millpond.engine.share.services import ShareServices
from millpond.engine.share.share_admin import ShareAdmin
from millpond.engine.share.share_delivery import ShareDelivery
from millpond.engine.share.share_state import ShareWaiter
from millpond.group.offsets import partition_for
from millpond.group.share.group import (
    LEAVING,
    Assignment,
    ShareGroup,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareMember,
    ShareState,
    check_heartbeat,
)
from millpond.group.topics import TopicShape
from millpond.metadata.controller import SHARE_STATE_TOPIC
from millpond.metadata.image import Image

__all__ = [
    "Acknowledgement",
    "Assignment",
    "HandedOut",
    "ShareGroups",
    "ShareHeartbeat",
    "ShareHeartbeatAnswer",
    "ShareMember",
    "ShareState",
    "ShareWaiter",
]

log = logging.getLogger(__name__)


class ShareGroups:
    """The share groups this node coordinates. ``delivery`` hands out records, ``admin`` administers."""

    def __init__(self, services: ShareServices) -> None:
        self._services = services
        self._groups: dict[str, ShareGroup] = {}
        self.delivery = ShareDelivery(services)
        self._keeper = self.delivery.keeper
        self.admin = ShareAdmin(services, self._keeper, self.delivery.remote, self._groups)
        self._deadlines = Deadlines(services.runtime.clock)
        self._prune_timer: asyncio.TimerHandle | None = None
        self._running = False

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Load the state of share partitions. The node's topics are loaded."""
        self._running = True
        self.delivery.start()
        self._services.metadata.observe(self._on_image)
        self._plan_pruning()

    def stop(self) -> None:
        """Stop watching sessions; fetches that wait are answered by the end of their sessions."""
        self._running = False
        self._deadlines.stop()
        if self._prune_timer is not None:
            self._prune_timer.cancel()
        self.delivery.stop()

    @property
    def is_ready(self) -> bool:
        """Whether the internal topics of share groups exist; ``prepare`` creates them."""
        return self._keeper.is_ready and self._services.groups.is_ready

    async def prepare(self) -> None:
        """Create the topics of states and of groups if they do not exist yet."""
        await self._keeper.prepare()
        await self._services.groups.prepare()

    def coordinator_of(self, state_key: str) -> NodeId:
        """Return the node that keeps the state of a share partition; -1 if there is none now."""
        return self._keeper.leader_of(state_key)

    # --- members ----------------------------------------------------------------------------------

    def heartbeat(self, command: ShareHeartbeat) -> ShareHeartbeatAnswer:
        """Handle a member's heartbeat. Raises the error for the member."""
        self._check_running()
        check_heartbeat(command)
        self._services.groups.check_coordinates(command.group_id)
        group = self._groups.get(command.group_id)
        if group is None:
            if self._services.groups.has_group(command.group_id):
                raise GroupNotFound(f"group {command.group_id!r} is not a share group")
            group = ShareGroup(command.group_id)
        view = self.delivery.settings_of(command.group_id)
        answer = group.heartbeat(command, self._shape, view.members, self._steady_ms())
        self._groups[command.group_id] = group
        if command.epoch != LEAVING:
            # A group that starts at the latest offset must not miss records before its first fetch.
            self.delivery.begin(command.group_id, group.members[command.member_id].assignment)
            self._watch_group(group)
            if view.dead_letters and view.dead_letters not in self._services.metadata.image.topics:
                self._services.runtime.tasks.spawn(
                    self._make_topic(view.dead_letters), name="dead-letter topic"
                )
        return answer

    def list(self) -> Iterator[tuple[str, ShareState]]:
        """Yield the id and the state of every group that this node coordinates."""
        self._check_running()
        for group_id in dict.fromkeys((*self._groups, *self.delivery.group_ids())):
            if self._services.groups.coordinator_of(group_id) == self._services.info.node_id:
                group = self._groups.get(group_id)
                yield group_id, ShareState.EMPTY if group is None else group.state

    def has_group(self, group_id: str) -> bool:
        """Whether there is a share group of this name."""
        return group_id in self._groups or self.delivery.has_state(group_id)

    def drop_groups(self, index: int, count: int) -> None:
        """Forget the groups of a partition of ``__consumer_offsets`` that another node coordinates now."""
        for group_id in tuple(self._groups):
            if partition_for(group_id, count) == index:
                del self._groups[group_id]

    # --- topics -----------------------------------------------------------------------------------

    async def _make_topic(self, name: str) -> None:
        try:
            await self._services.topic_admin.ensure_topic(name)
        except MillpondError as error:
            log.warning("topic=%s: dead letters cannot be stored: %s", name, error)

    def _on_image(self, before: Image, after: Image) -> None:
        if before.configs is not after.configs or before.topics is not after.topics:
            self.delivery.settings_changed()
        if before.topics is after.topics or not self._running:
            return
        if self._keeper.drop_if_deleted(before, after):
            return
        gone = before.topics_by_id.keys() - after.topics_by_id.keys()
        self.delivery.topics_deleted(gone)
        for group in self._groups.values():
            if group.follow(self._shape):
                for member in group.members.values():
                    self.delivery.begin(group.group_id, member.assignment)

    def _plan_pruning(self) -> None:
        interval_ms = self._services.settings.get("share.coordinator.state.topic.prune.interval.ms")
        loop = asyncio.get_running_loop()
        self._prune_timer = loop.call_later(interval_ms / 1000, self._on_prune_timer)

    def _on_prune_timer(self) -> None:
        try:
            self.prune()
        except MillpondError as error:
            log.warning("%s is not cut (%s); trying later", SHARE_STATE_TOPIC, error)
        self._plan_pruning()

    def prune(self) -> None:
        """Delete the records of the state topic that snapshots replaced."""
        self._keeper.prune()

    # --- time -------------------------------------------------------------------------------------

    def _watch_group(self, group: ShareGroup) -> None:
        self._deadlines.set(group.wake_ms, group, lambda: self._expire_members(group))

    def _expire_members(self, group: ShareGroup) -> None:
        if self._groups.get(group.group_id) is not group:
            return
        for member_id in group.expire(self._shape, self._steady_ms()):
            log.info("group=%s: the session of member %s has expired", group.group_id, member_id)
        for member in group.members.values():
            self.delivery.begin(group.group_id, member.assignment)
        self._watch_group(group)

    def _steady_ms(self) -> int:
        return self._services.runtime.clock.monotonic_ms()

    def _shape(self, name: str) -> TopicShape | None:
        topic = self._services.metadata.image.topics.get(name)
        return None if topic is None else TopicShape(topic.topic_id, len(topic.partitions))

    def _check_running(self) -> None:
        if not self._running:
            raise NotCoordinator("the broker is stopping")
