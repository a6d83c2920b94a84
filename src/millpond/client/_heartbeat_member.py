"""A member of a group of the new protocol (KIP-848): heartbeats carry everything, the coordinator decides.

One task sends heartbeats with the subscription and the owned partitions. A response may carry a new
assignment; ``tick``, called by every poll, revokes and adds partitions, with the application's callbacks, and
the next heartbeat confirms it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

from millpond.base.ids import TopicPartition
from millpond.client._coordinators import CoordinatorLookup
from millpond.client._group_protocol import by_topic
from millpond.client._subscription import Subscription
from millpond.client.config import ConsumerConfig
from millpond.client.errors import BrokerRefused, ClientError
from millpond.client.rebalance import RebalanceListener, tell
from millpond.client.records import GroupMetadata
from millpond.wire.kafka.api import ApiKey, ErrorCode

_log = logging.getLogger("millpond.client.group")

_JOINING = 0
_LEAVING = -1
_LEAVING_FOR_A_WHILE = -2  # a static member, which will be back
_BEGIN_AGAIN = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class HeartbeatMember:
    """One consumer's membership."""

    def __init__(
        self,
        coordinator: CoordinatorLookup,
        config: ConsumerConfig,
        subscription: Subscription,
        listener: Callable[[], RebalanceListener],
        before_revoke: Callable[[], Awaitable[None]],
    ) -> None:
        assert config.group_id is not None
        self._coordinator = coordinator
        self._config = config
        self._group_id = config.group_id
        self._subscription = subscription
        self._listener = listener
        self._before_revoke = before_revoke
        self._member_id = str(uuid4())
        self._epoch = _JOINING
        self._interval_s = 0.0
        self._beating: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()  # a heartbeat is due now
        self._heard = asyncio.Event()  # a response came
        self._target: set[TopicPartition] | None = None
        self._told: tuple[Any, ...] | None = None  # the subscription that the coordinator knows
        self._is_lost = False
        self._fatal: ClientError | None = None
        self._polled_s = 0.0
        self._names: dict[UUID, str] = {}

    @property
    def metadata(self) -> GroupMetadata:
        """The member's identity in its group."""
        return GroupMetadata(
            group_id=self._group_id,
            generation_id=self._epoch,
            member_id=self._member_id,
            group_instance_id=self._config.group_instance_id,
        )

    @property
    def is_stable(self) -> bool:
        """Whether the member owns exactly its assignment."""
        return self._epoch > 0 and self._target is None and not self._is_lost

    def polled(self, now_s: float) -> None:
        """Note that the application has polled."""
        self._polled_s = now_s

    def request_rejoin(self, reason: str) -> None:
        """Send a heartbeat now, because the subscription has changed."""
        self._changed.set()

    def partitions_changed(self, counts: dict[str, int]) -> None:
        """Do nothing: the coordinator watches the topics itself."""

    async def tick(self, timeout_s: float) -> None:
        """Apply the coordinator's assignment. Waits up to ``timeout_s``, and only while nothing is
        assigned.
        """
        self._polled_s = asyncio.get_running_loop().time()
        if self._fatal is not None:
            raise self._fatal
        if self._beating is None or self._beating.done():
            self._beating = asyncio.get_running_loop().create_task(
                self._beat(), name=f"heartbeats {self._group_id}"
            )
        if self._is_lost:
            await self._lose()
        if self._epoch <= 0 and self._target is None:
            self._heard.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._heard.wait()
            except TimeoutError:
                return
            if self._fatal is not None:
                raise self._fatal
        if self._target is not None:
            await self._reconcile(self._target)

    async def leave(self) -> None:
        """Revoke everything and leave the group."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
            self._beating = None
        owned = self._subscription.assigned
        if owned and self._epoch > 0:
            await self._before_revoke()
            await tell(self._listener().on_partitions_revoked, owned)
        self._subscription.assign(())
        if self._epoch > 0:
            static = self._config.group_instance_id is not None
            self._epoch = _LEAVING_FOR_A_WHILE if static else _LEAVING
            try:
                await self._send(5.0)
            except ClientError as error:
                _log.info("group=%s: could not leave the group: %s", self._group_id, error)
        self._epoch, self._told, self._target = _JOINING, None, None

    async def _reconcile(self, target: set[TopicPartition]) -> None:
        owned = self._subscription.assigned
        gone, new = owned - target, target - owned
        if gone:
            await self._before_revoke()
            await tell(self._listener().on_partitions_revoked, gone)
        self._subscription.assign(target)
        if self._target == target:
            self._target = None
        self._changed.set()  # confirm it
        if new or not owned:
            await tell(self._listener().on_partitions_assigned, new)

    async def _lose(self) -> None:
        self._is_lost = False
        lost = self._subscription.assigned
        self._subscription.assign(())
        self._target = None
        if lost:
            await tell(self._listener().on_partitions_lost, lost)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            try:
                await self._beat_once()
            except BrokerRefused as error:
                self._fatal = error
                self._heard.set()
                return
            except ClientError as error:
                _log.warning("group=%s: heartbeat failed: %s", self._group_id, error)
            self._heard.set()
            try:
                async with asyncio.timeout(max(self._interval_s, 0.05)):
                    await self._changed.wait()
            except TimeoutError:
                pass
            if loop.time() - self._polled_s > self._config.max_poll_interval_ms / 1000:
                _log.warning(
                    "group=%s member=%s: no poll for %d ms (max.poll.interval.ms); leaving the group",
                    self._group_id,
                    self._member_id,
                    self._config.max_poll_interval_ms,
                )
                self._epoch = _LEAVING
                await self._send(5.0)
                self._epoch, self._told, self._is_lost = _JOINING, None, True
                return

    async def _beat_once(self) -> None:
        answer = await self._send(self._config.session_timeout_ms / 1000)
        if answer.error_code in _BEGIN_AGAIN:
            self._epoch, self._told, self._is_lost = _JOINING, None, True
            return
        if answer.error_code:
            raise BrokerRefused(answer.error_code, answer.error_message, subject=self._group_id)
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._target = await self._named(answer.assignment.topic_partitions)

    async def _send(self, timeout_s: float) -> Any:
        from millpond.wire.kafka.messages.consumer_group_heartbeat import (
            ConsumerGroupHeartbeatRequest,
            TopicPartitions,
        )

        cluster = self._coordinator.cluster
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._config.group_instance_id,
        )
        held = self._subscription.assigned if self._epoch != _JOINING else set()
        wanted = (tuple(sorted(self._subscription.topics)), frozenset(held))
        if self._epoch >= 0 and wanted != self._told:
            request.rack_id = self._config.client_rack or None
            request.rebalance_timeout_ms = self._config.max_poll_interval_ms
            request.subscribed_topic_names = list(wanted[0])
            request.server_assignor = self._config.group_remote_assignor
            request.topic_partitions = []
            for name, numbers in by_topic(held).items():
                info = await cluster.topic(name)
                request.topic_partitions.append(TopicPartitions(info.topic_id, numbers))
        answer = await self._coordinator.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            request,
            error_of=lambda answer: answer.error_code,
            attempts=cluster.attempts(f"heartbeat {self._group_id}", timeout_s),
        )
        if not answer.error_code:
            self._told = wanted
        return answer

    async def _named(self, given: list[Any]) -> set[TopicPartition]:
        """Return the partitions by topic name; the coordinator sends topic ids."""
        if any(item.topic_id not in self._names for item in given):
            topics = await self._coordinator.cluster.topics()
            self._names = {topic.topic_id: topic.name for topic in topics}
        return {
            TopicPartition(self._names[item.topic_id], number)
            for item in given
            if item.topic_id in self._names  # a topic that is deleted already
            for number in item.partitions
        }
