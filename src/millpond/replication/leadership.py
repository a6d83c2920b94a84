"""What a leader knows of its followers: how far each has come, who counts as in sync, what is committed.

A follower tells how far it is by asking for more: its fetch offset is the end of its log. What every in-sync
replica has is committed, and the high watermark stands there. "In sync" is agreed on with the controller, so
it has two values while a wish is under way: what is committed there, and what may be by now. A leader counts
with the larger of both (the *maximal* set), because it must not acknowledge what a replica that may already
be electable does not have.

One wish is under way at a time. A wish that was refused for certain is forgotten; one whose fate is unknown,
or that came too late, stands until the metadata bring a newer state of the partition.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from millpond.base.ids import LeaderEpoch, NodeId, Offset

# Whether a node that fetched under this broker epoch may be counted as in sync: it is up, and it is the same.
IsEligible = Callable[[NodeId, int], bool]

UNKNOWN: Offset = -1

# Before every time that a clock can show.
NEVER_MS = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncRequest:
    """Which replicas a leader wants to count, each with the broker epoch that it fetched under (or -1)."""

    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]


class Pulse:
    """When a node last asked. A fetch that says nothing of a partition says that nothing has changed there,
    so one number is enough for all the partitions that it follows.
    """

    __slots__ = ("last_ms",)

    def __init__(self) -> None:
        self.last_ms = NEVER_MS


class Follower:
    """One follower, from what it asked for in this epoch."""

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
        # By its last fetch that spoke of the partition; the pulse knows of those that did not.
        self._caught_up_ms = self._fetched_ms = caught_up_ms
        self._end_when_fetched: Offset = UNKNOWN
        self._pulse: Pulse | None = None
        self._left_ms = NEVER_MS

    def leave(self) -> None:
        """It is not in sync any more. Until it asks again, it is not about to be."""
        self._left_ms = self.fetched_ms

    @property
    def has_asked_since(self) -> bool:
        """Whether it has asked since it was last struck off as out of sync."""
        return self._left_ms == NEVER_MS or self.fetched_ms > self._left_ms

    @property
    def fetched_ms(self) -> int:
        """When it last asked."""
        pulse = self._pulse
        return self._fetched_ms if pulse is None else max(self._fetched_ms, pulse.last_ms)

    @property
    def caught_up_ms(self) -> int:
        """The last time at which it had all that there was.

        If it had at its last fetch that spoke of the partition, it had at every later one that did not: when
        the log grows, the next fetch is counted here.
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
        """It has everything below this offset. If that was all when it last asked, it had all then.

        Until it speaks of the partition again, it has asked whenever ``pulse`` says so.
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
        """Later fetches of the node say nothing of this partition."""
        self._caught_up_ms, self._fetched_ms = self.caught_up_ms, self.fetched_ms
        self._pulse = None

    def is_caught_up(self, leader_end: Offset, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it has everything, or had so recently."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_ms_max

    def renew(self, *, in_sync: bool, now_ms: int) -> None:
        """The same leader goes on in a new epoch: who is in sync gets its time anew."""
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
        "seen_ms",
        "wish",
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
        # The time as it was last told; an append tells none.
        self.seen_ms = now_ms
        self.followers: dict[NodeId, Follower] = {}
        self.isr: tuple[NodeId, ...] = ()
        self.wish: InSyncRequest | None = None
        self._maximal: frozenset[NodeId] = frozenset()

    @property
    def maximal(self) -> frozenset[NodeId]:
        """Everybody who is in sync, or may be by now."""
        return self._maximal

    def assign(self, replicas: Iterable[NodeId], isr: tuple[NodeId, ...]) -> None:
        """The replicas and who of them is in sync, as agreed. A wish under way is settled by it."""
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
        """The same leader in a new epoch: its log is what it was, so what is known of others holds."""
        self.epoch_start = epoch_start
        self.seen_ms = max(self.seen_ms, now_ms)
        for follower in self.followers.values():
            follower.renew(in_sync=follower.node_id in isr, now_ms=self.seen_ms)

    def committed_end(self, own_end: Offset, leader_end: Offset) -> Offset:
        """Up to where every replica that counts has everything; ``own_end`` is what the leader itself counts.

        A follower that is about to be in sync counts too, or it could never reach a busy leader.
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
        """The lowest start of all logs that are up; unknown counts as lowest."""
        lowest = own_start
        for follower in self.followers.values():
            if follower.log_start < lowest and is_up(follower.node_id):
                lowest = follower.log_start
        return lowest

    # --- who is in sync ---------------------------------------------------------------------------

    def decide(
        self,
        now_ms: int,
        *,
        leader_end: Offset,
        high_watermark: Offset,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
    ) -> InSyncRequest | None:
        """What the leader wants to change, if anything; from now on that is under way."""
        self.seen_ms = max(self.seen_ms, now_ms)
        if self.wish is not None:
            return None
        reached = max(high_watermark, self.epoch_start)
        isr = tuple(
            node
            for node in (self._me, *self.followers)
            if node == self._me or self._belongs(self.followers[node], reached, leader_end)
        )
        if set(isr) == set(self.isr):
            return None
        self.wish = InSyncRequest(
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=isr,
            broker_epochs=tuple(
                self.followers[node].broker_epoch if node != self._me else -1 for node in isr
            ),
        )
        self._maximal = frozenset({*self.isr, *isr})
        return self.wish

    def _belongs(self, follower: Follower, reached: Offset, leader_end: Offset) -> bool:
        if follower.node_id in self.isr:
            return follower.is_caught_up(leader_end, self.seen_ms, self.lag_ms_max())
        return (
            follower.has_asked_since
            and follower.end_offset >= reached
            and self.seen_ms - follower.fetched_ms <= self.lag_ms_max()
            and self.is_eligible(follower.node_id, follower.broker_epoch)
        )

    def forget_wish(self, wish: InSyncRequest) -> None:
        """It was refused, and certainly nothing was changed."""
        if self.wish is wish:
            self._settle(self.isr)

    def _settle(self, isr: tuple[NodeId, ...]) -> None:
        self.isr = isr
        self.wish = None
        self._maximal = frozenset(isr)
