"""A member of a group of the classic protocol: join, sync, heartbeat, leave.

Joining runs in a task, because it may take as long as the slowest member; ``tick``, called by every poll,
starts it, waits a little for it, and applies the result. Callbacks of the application run in ``tick`` only,
so they never run while the application processes records. Heartbeats continue between polls, until the
application has not polled for ``max.poll.interval.ms``: then the member leaves, and its partitions go to
other members.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from millpond.base.ids import TopicPartition
from millpond.client._coordinators import CoordinatorLookup
from millpond.client._group_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from millpond.client._subscription import Subscription
from millpond.client.assignors import Assignor
from millpond.client.config import ConsumerConfig
from millpond.client.errors import BrokerRefused, ClientError
from millpond.client.rebalance import RebalanceListener, tell
from millpond.client.records import GroupMetadata
from millpond.wire.kafka.api import ApiKey, ErrorCode

_log = logging.getLogger("millpond.client.group")

_JOIN_AGAIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
_HINTS = {
    ErrorCode.FENCED_INSTANCE_ID: "another consumer runs with the same group.instance.id",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members have no assignor in common;"
    " give them the same partition.assignment.strategy",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside of what the broker allows"
    " (group.min.session.timeout.ms to group.max.session.timeout.ms)",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full (group.max.size)",
}


@dataclass(frozen=True, slots=True)
class _Joined:
    generation: int
    member_id: str
    assignor: Assignor
    partitions: set[TopicPartition]
    is_leader: bool
    counts: dict[str, int]


class ClassicMember:
    """One consumer's membership. ``before_revoke`` commits, if automatic commits are enabled."""

    def __init__(
        self,
        coordinator: CoordinatorLookup,
        config: ConsumerConfig,
        subscription: Subscription,
        assignors: list[Assignor],
        listener: Callable[[], RebalanceListener],
        before_revoke: Callable[[], Awaitable[None]],
    ) -> None:
        assert config.group_id is not None
        self._coordinator = coordinator
        self._config = config
        self._group_id = config.group_id
        self._subscription = subscription
        self._assignors = assignors
        self._is_cooperative = all(item.is_cooperative for item in assignors)
        self._listener = listener
        self._before_revoke = before_revoke
        self._member_id = ""
        self._generation = -1
        self._joining: asyncio.Task[_Joined] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._rejoin: str | None = "the consumer subscribed"
        self._is_prepared = False
        self._is_lost = False
        self._fatal: ClientError | None = None
        self._had: set[TopicPartition] = set()  # before it was revoked, for sticky assignors
        self._counts: dict[str, int] = {}
        self._is_leader = False
        self._polled_s = 0.0

    @property
    def metadata(self) -> GroupMetadata:
        """The member's identity in its group."""
        return GroupMetadata(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._config.group_instance_id,
        )

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no rebalance is pending."""
        return self._generation >= 0 and self._rejoin is None

    def polled(self, now_s: float) -> None:
        """Note that the application has polled."""
        self._polled_s = now_s

    def request_rejoin(self, reason: str) -> None:
        """Rejoin the group: the subscription or the topics have changed."""
        self._rejoin = self._rejoin or reason

    def partitions_changed(self, counts: dict[str, int]) -> None:
        """Rejoin as the leader if topics of its plan have other numbers of partitions now."""
        known = {topic: count for topic, count in counts.items() if topic in self._counts}
        if self._is_leader and known != self._counts:
            self.request_rejoin("topics changed")

    async def tick(self, timeout_s: float) -> None:
        """Continue a pending rebalance, for at most ``timeout_s``. Raises the error that ends the
        membership.
        """
        self._polled_s = asyncio.get_running_loop().time()
        if self._fatal is not None:
            raise self._fatal
        if self._is_lost:
            await self._lose()
        if self._rejoin is None and self._joining is None:
            return
        if self._joining is None:
            await self._prepare()
            self._joining = asyncio.get_running_loop().create_task(
                self._join_until_done(), name=f"join {self._group_id}"
            )
        await asyncio.wait([self._joining], timeout=timeout_s)
        if self._joining.done():
            done, self._joining = self._joining, None
            try:
                joined = done.result()
            except ClientError as error:
                self._generation = -1
                if isinstance(error, BrokerRefused):
                    self._fatal = error
                self.request_rejoin("the last try failed")
                raise
            await self._apply(joined)

    async def leave(self) -> None:
        """Revoke everything and leave the group. A static member only stops: it may return within its
        session.
        """
        for task in (self._joining, self._beating):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        self._joining = self._beating = None
        owned = self._subscription.assigned
        if owned and self._generation >= 0:
            await self._before_revoke()
            await tell(self._listener().on_partitions_revoked, owned)
        self._subscription.assign(())
        if self._config.group_instance_id is None and self._member_id:
            await self._send_leave("the consumer closes")
        self._generation, self._member_id = -1, ""
        self._rejoin = self._rejoin or "the consumer subscribed"

    # --- a rebalance, step by step ---

    async def _prepare(self) -> None:
        """Revoke before joining what the protocol requires: everything, or what is no longer subscribed."""
        if self._is_prepared:
            return
        owned = self._subscription.assigned
        going = owned
        if self._is_cooperative:
            going = {place for place in owned if place.topic not in self._subscription.topics}
        if going:
            await self._before_revoke()
            await tell(self._listener().on_partitions_revoked, going)
            self._subscription.assign(owned - going)
        self._is_prepared = True

    async def _apply(self, joined: _Joined) -> None:
        self._generation, self._member_id = joined.generation, joined.member_id
        self._is_leader, self._counts = joined.is_leader, joined.counts
        self._is_prepared = False
        owned = self._subscription.assigned
        gone, new = owned - joined.partitions, joined.partitions - owned
        _log.info(
            "group=%s member=%s generation=%d: reads %s",
            self._group_id,
            self._member_id,
            self._generation,
            ", ".join(map(str, sorted(joined.partitions))) or "nothing",
        )
        if (
            gone
        ):  # cooperative: moved to other members, which get it once this one has joined without it
            await self._before_revoke()
            await tell(self._listener().on_partitions_revoked, gone)
            self._subscription.assign(owned - gone)
            self.request_rejoin("partitions were let go")
        self._subscription.assign(joined.partitions)
        self._had = set() if self._is_cooperative else joined.partitions
        if self._beating is None or self._beating.done():
            self._beating = asyncio.get_running_loop().create_task(
                self._beat(), name=f"heartbeats {self._group_id}"
            )
        await tell(self._listener().on_partitions_assigned, new)

    async def _lose(self) -> None:
        self._is_lost = False
        self._generation = -1
        self._is_prepared = True  # nothing left to revoke before joining
        lost = self._subscription.assigned
        self._subscription.assign(())
        self.request_rejoin("the group had gone on without us")
        if lost:
            await tell(self._listener().on_partitions_lost, lost)

    # --- requests ---

    async def _join_until_done(self) -> _Joined:
        while True:
            reason, self._rejoin = self._rejoin, None
            joined = await self._join_once(reason or "again")
            if joined is not None:
                return joined
            await asyncio.sleep(0)

    async def _join_once(self, reason: str) -> _Joined | None:
        from millpond.wire.kafka.messages.join_group import (
            JoinGroupRequest,
            JoinGroupRequestProtocol,
        )

        metadata = encode_subscription(
            self._subscription.topics,
            self._subscription.assigned or self._had,
            self._generation,
            self._config.client_rack,
        )
        answer = await self._ask(
            ApiKey.JOIN_GROUP,
            JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=self._config.session_timeout_ms,
                rebalance_timeout_ms=self._config.max_poll_interval_ms,
                member_id=self._member_id,
                group_instance_id=self._config.group_instance_id,
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=item.name, metadata=metadata)
                    for item in self._assignors
                ],
                reason=reason,
            ),
            timeout_ms=self._config.max_poll_interval_ms,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return None
        if answer.error_code in _JOIN_AGAIN:
            self._forget_self(answer.error_code)
            return None
        self._refuse(answer.error_code)
        self._member_id = answer.member_id
        assignor = next(item for item in self._assignors if item.name == answer.protocol_name)
        is_leader = answer.leader == answer.member_id
        counts: dict[str, int] = {}
        plan: dict[str, list[TopicPartition]] = {}
        if is_leader and not answer.skip_assignment:
            counts, plan = await self._plan(answer, assignor)
        return await self._sync(answer, assignor, is_leader, counts, plan)

    async def _plan(
        self, answer: Any, assignor: Assignor
    ) -> tuple[dict[str, int], dict[str, list[TopicPartition]]]:
        """Compute the assignment of all members, as the group's leader."""
        members = {
            item.member_id: decode_subscription(bytes(item.metadata), item.group_instance_id)
            for item in answer.members
        }
        wanted = {topic for member in members.values() for topic in member.topics}
        counts = {
            topic.name: len(topic.partitions)
            for topic in await self._coordinator.cluster.topics()
            if topic.name in wanted
        }
        return counts, assignor.assign(members, counts)

    async def _sync(
        self,
        joined: Any,
        assignor: Assignor,
        is_leader: bool,
        counts: dict[str, int],
        plan: dict[str, list[TopicPartition]],
    ) -> _Joined | None:
        from millpond.wire.kafka.messages.sync_group import (
            SyncGroupRequest,
            SyncGroupRequestAssignment,
        )

        answer = await self._ask(
            ApiKey.SYNC_GROUP,
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._config.group_instance_id,
                protocol_type="consumer",
                protocol_name=assignor.name,
                assignments=[
                    SyncGroupRequestAssignment(member, encode_assignment(given))
                    for member, given in plan.items()
                ],
            ),
            timeout_ms=self._config.max_poll_interval_ms,
        )
        if answer.error_code in _JOIN_AGAIN:
            self._forget_self(answer.error_code)
            return None
        self._refuse(answer.error_code)
        return _Joined(
            joined.generation_id,
            joined.member_id,
            assignor,
            decode_assignment(bytes(answer.assignment)),
            is_leader,
            counts,
        )

    async def _beat(self) -> None:
        """Send heartbeats until the member leaves or is removed."""
        from millpond.wire.kafka.messages.heartbeat import HeartbeatRequest

        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._config.heartbeat_interval_ms / 1000)
            if self._joining is not None or self._generation < 0:
                continue
            if loop.time() - self._polled_s > self._config.max_poll_interval_ms / 1000:
                _log.warning(
                    "group=%s member=%s: no poll for %d ms (max.poll.interval.ms); leaving the group",
                    self._group_id,
                    self._member_id,
                    self._config.max_poll_interval_ms,
                )
                await self._send_leave("no poll within max.poll.interval.ms")
                self._member_id = ""
                self._is_lost = True
                return
            request = HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._config.group_instance_id,
            )
            try:
                answer = await self._ask(
                    ApiKey.HEARTBEAT, request, timeout_ms=self._config.session_timeout_ms
                )
            except ClientError as error:
                _log.warning("group=%s: heartbeat failed: %s", self._group_id, error)
                continue
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.request_rejoin("the group rebalances")
            elif answer.error_code == ErrorCode.FENCED_INSTANCE_ID:
                self._fatal = self._refusal(answer.error_code)
                return
            elif answer.error_code and request.generation_id == self._generation:
                self._member_id = ""
                self._is_lost = True
                return

    async def _send_leave(self, reason: str) -> None:
        from millpond.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity

        request = LeaveGroupRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            members=[MemberIdentity(self._member_id, self._config.group_instance_id, reason)],
        )
        try:
            await self._ask(ApiKey.LEAVE_GROUP, request, timeout_ms=5_000)
        except ClientError as error:
            _log.info("group=%s: could not leave the group: %s", self._group_id, error)

    async def _ask(self, api_key: ApiKey, request: object, *, timeout_ms: int) -> Any:
        timeout_s = timeout_ms / 1000 + 5
        attempts = self._coordinator.cluster.attempts(
            f"{api_key.name.lower().replace('_', ' ')} {self._group_id}",
            timeout_s,
            request_s=timeout_s,
        )
        return await self._coordinator.ask(
            api_key, request, error_of=lambda answer: answer.error_code, attempts=attempts
        )

    def _forget_self(self, code: int) -> None:
        """Reset the identity: the coordinator does not know this member. A rebalance meanwhile keeps it."""
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._member_id, self._generation = "", -1

    def _refuse(self, code: int) -> None:
        if code:
            raise self._refusal(code)

    def _refusal(self, code: int) -> BrokerRefused:
        known = code in _HINTS
        return BrokerRefused(
            code, _HINTS[ErrorCode(code)] if known else None, subject=self._group_id
        )
