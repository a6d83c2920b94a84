"""The leader's view of its followers: how far each has got, the in-sync replicas, the committed offset.

A follower reports its progress by fetching: its fetch offset is the end of its log. What every in-sync
replica has is committed, and the high watermark is there. The controller agrees to the in-sync set, so there
are two sets while a request is in flight: the committed one, and the requested one, which may be committed by
now. A leader counts with the union (the *maximal* set), because it must not acknowledge what a replica that
may already be electable does not have.

One request is in flight at a time. A request that was certainly refused is dropped; one with an unknown
outcome, or that came too late, stands until the metadata bring a newer state of the partition.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from millpond.base.ids import LeaderEpoch, NodeId, Offset

# Whether a node that fetched under this broker epoch may be in sync: it is up, and has not restarted since.
IsEligible = Callable[[NodeId, int], bool]

UNKNOWN: Offset = -1

# Before every time that a clock can show.
NEVER_MS = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncRequest:
    """The in-sync set that a leader requests, each replica with the broker epoch that it fetched under (or
    -1).
    """

    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]


class Pulse:
    """When a node last fetched. A fetch that omits a partition means that the follower's position there has
    not changed, so one time is enough for all the partitions that it follows.
    """

    __slots__ = ("last_ms",)

    def __init__(self) -> None:
        self.last_ms = NEVER_MS


class Follower:
    """The state of one follower in this epoch, from its fetches."""

    __slots__ = (
        "_caught_up_ms",
        "_end_when_fetched",
        "_fetched_ms",
        "_left_ms",
        "_pulse",
        "broker_epoch",
        "end_offset",
        "log_start",
        "node_id",
    )

    def __init__(self, node_id: NodeId, *, caught_up_ms: int) -> None:
        self.node_id = node_id
        self.end_offset: Offset = UNKNOWN
        self.log_start: Offset = UNKNOWN
        self.broker_epoch = -1
        # From its last fetch that named the partition; the pulse covers those that did not.
        self._caught_up_ms = self._fetched_ms = caught_up_ms
        self._end_when_fetched: Offset = UNKNOWN
        self._pulse: Pulse | None = None
        self._left_ms = NEVER_MS

    def leave(self) -> None:
        """Note that the follower left the in-sync set. It cannot return before it fetches again."""
        self._left_ms = self.fetched_ms

    @property
    def has_asked_since(self) -> bool:
        """Whether the follower has fetched since it was last removed from the in-sync set."""
        return self._left_ms == NEVER_MS or self.fetched_ms > self._left_ms

    @property
    def fetched_ms(self) -> int:
        """When the follower last fetched."""
        pulse = self._pulse
        return self._fetched_ms if pulse is None else max(self._fetched_ms, pulse.last_ms)

    @property
    def caught_up_ms(self) -> int:
        """The last time at which the follower had the whole log.

        If it had at its last fetch that named the partition, it had at every later one that did not: when the
        log grows, the next fetch is counted here.
        """
        if 0 <= self._end_when_fetched <= self.end_offset:
            return max(self._caught_up_ms, self.fetched_ms)
        return self._caught_up_ms

    def on_fetch(
        self,
        offset: Offset,
        *,
        log_start: Offset,
        leader_end: Offset,
        broker_epoch: int,
        now_ms: int,
        pulse: Pulse | None = None,
    ) -> None:
        """Note a fetch: the follower has everything below ``offset``. If that was the leader's end at its
        previous fetch, it was caught up then.

        Until the next fetch that names the partition, ``pulse`` says when the follower last fetched.
        """
        self.detach()
        if offset >= leader_end:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif 0 <= self._end_when_fetched <= offset:
            self._caught_up_ms = max(self._caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._end_when_fetched = leader_end
        self._left_ms = NEVER_MS
        self._pulse = pulse

    def detach(self) -> None:
        """Stop following the node's pulse: its later fetches no longer cover this partition."""
        self._caught_up_ms, self._fetched_ms = self.caught_up_ms, self.fetched_ms
        self._pulse = None

    def is_caught_up(self, leader_end: Offset, now_ms: int, lag_ms_max: int) -> bool:
        """Return whether the follower has the whole log, or had within ``lag_ms_max``."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_ms_max

    def renew(self, *, in_sync: bool, now_ms: int) -> None:
        """Continue with the same leader in a new epoch; an in-sync follower's lag is counted from now."""
        self._caught_up_ms = self._fetched_ms = now_ms if in_sync else NEVER_MS
        self._left_ms = NEVER_MS
        self._pulse = None


class Leadership:
    """The followers of one partition, in one or more epochs of the same leader."""

    __slots__ = (
        "_maximal",
        "_me",
        "epoch_start",
        "followers",
        "is_eligible",
        "isr",
        "lag_ms_max",
        "request",
        "seen_ms",
    )

    def __init__(
        self,
        me: NodeId,
        *,
        epoch_start: Offset,
        now_ms: int,
        lag_ms_max: Callable[[], int],
        is_eligible: IsEligible,
    ) -> None:
        self._me = me
        self.epoch_start = epoch_start
        self.lag_ms_max = lag_ms_max
        self.is_eligible = is_eligible
        # The latest time given to this object; appends do not bring one.
        self.seen_ms = now_ms
        self.followers: dict[NodeId, Follower] = {}
        self.isr: tuple[NodeId, ...] = ()
        self.request: InSyncRequest | None = None
        self._maximal: frozenset[NodeId] = frozenset()

    @property
    def maximal(self) -> frozenset[NodeId]:
        """The replicas that are in sync, or may be by now."""
        return self._maximal

    def assign(self, replicas: Iterable[NodeId], isr: tuple[NodeId, ...]) -> None:
        """Set the committed replicas and in-sync set. This resolves a request in flight."""
        others = [node for node in replicas if node != self._me]
        self.followers = {
            node: self.followers.get(node)
            or Follower(node, caught_up_ms=self.seen_ms if node in isr else NEVER_MS)
            for node in others
        }
        for node in self.isr:
            if node not in isr and node in self.followers:
                self.followers[node].leave()
        self._settle(isr)

    def begin_epoch(self, epoch_start: Offset, isr: tuple[NodeId, ...], now_ms: int) -> None:
        """Continue as leader in a new epoch: the log is unchanged, so the followers' progress remains
        valid.
        """
        self.epoch_start = epoch_start
        self.seen_ms = max(self.seen_ms, now_ms)
        for follower in self.followers.values():
            follower.renew(in_sync=follower.node_id in isr, now_ms=self.seen_ms)

    def committed_end(self, own_end: Offset, leader_end: Offset) -> Offset:
        """Return the offset up to which every counted replica has the log; ``own_end`` is the leader's own.

        A follower that is about to join the in-sync set counts too, or it could never catch up with a busy
        leader.
        """
        lowest = own_end
        for follower in self.followers.values():
            if follower.end_offset < lowest and (
                follower.node_id in self._maximal
                or (
                    follower.has_asked_since
                    and follower.is_caught_up(leader_end, self.seen_ms, self.lag_ms_max())
                    and self.is_eligible(follower.node_id, follower.broker_epoch)
                )
            ):
                lowest = follower.end_offset
        return lowest

    def lowest_start(self, own_start: Offset, is_up: Callable[[NodeId], bool]) -> Offset:
        """Return the lowest start of the logs of all live replicas; an unknown start counts as lowest."""
        lowest = own_start
        for follower in self.followers.values():
            if follower.log_start < lowest and is_up(follower.node_id):
                lowest = follower.log_start
        return lowest

    # --- the in-sync set --------------------------------------------------------------------------

    def decide(
        self,
        now_ms: int,
        *,
        leader_end: Offset,
        high_watermark: Offset,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
    ) -> InSyncRequest | None:
        """Return the change of the in-sync set that the leader requests, if any, and mark it as in flight."""
        self.seen_ms = max(self.seen_ms, now_ms)
        if self.request is not None:
            return None
        reached = max(high_watermark, self.epoch_start)
        isr = tuple(
            node
            for node in (self._me, *self.followers)
            if node == self._me or self._belongs(self.followers[node], reached, leader_end)
        )
        if set(isr) == set(self.isr):
            return None
        self.request = InSyncRequest(
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=isr,
            broker_epochs=tuple(
                self.followers[node].broker_epoch if node != self._me else -1 for node in isr
            ),
        )
        self._maximal = frozenset({*self.isr, *isr})
        return self.request

    def _belongs(self, follower: Follower, reached: Offset, leader_end: Offset) -> bool:
        if follower.node_id in self.isr:
            return follower.is_caught_up(leader_end, self.seen_ms, self.lag_ms_max())
        return (
            follower.has_asked_since
            and follower.end_offset >= reached
            and self.seen_ms - follower.fetched_ms <= self.lag_ms_max()
            and self.is_eligible(follower.node_id, follower.broker_epoch)
        )

    def drop_request(self, request: InSyncRequest) -> None:
        """Drop a request that was certainly refused."""
        if self.request is request:
            self._settle(self.isr)

    def _settle(self, isr: tuple[NodeId, ...]) -> None:
        self.isr = isr
        self.request = None
        self._maximal = frozenset(isr)
