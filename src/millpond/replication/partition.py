"""One partition that has a replica on this node: its log, its leader epoch and its high watermark.

The high watermark is the first offset that readers may not see yet, and what an ``acks=all`` waits for. A
leader moves it to where every in-sync replica has everything (``leadership.py``); a follower takes it from
its leader, up to the end of its own log (``following.py``). What a replica "has" depends on the flush policy:
with ``os`` what is in its page cache, with ``group`` what an fsync has made durable. It never goes back,
except where an unclean election removed committed records.

A leader without followers, with a log whose page cache counts, is *direct*: its appends are committed when
they return, and cost nothing for replication.

Three kinds of listeners are called: *watchers* (readers that wait for data; called with the number of new
bytes), *end watchers* (followers that wait for any append, and for changes of the high watermark) and
*confirmations* (writers that wait for one offset). All are plain calls on the thread that runs the log. Knows
no clock, no loop and no protocol.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeAlias
from uuid import UUID

from millpond.base.errors import (
    FencedLeaderEpoch,
    MillpondError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    UnknownLeaderEpoch,
)
from millpond.base.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset
from millpond.log.config import LogConfig
from millpond.log.partition_log import AppendInfo, PartitionLog
from millpond.metadata.image import PartitionImage
from millpond.record.batch import BatchHeader
from millpond.replication.leadership import Follower, InSyncRequest, IsEligible, Leadership, Pulse

Confirmation: TypeAlias = Callable[[MillpondError | None], None]

# Kafka's default of replica.lag.time.max.ms, for a partition without another value.
_LAG_MS_MAX = 30_000

# Uncommitted appends are remembered one by one up to this number, the rest as one sum.
_PENDING_MAX = 1024


class Watcher(Protocol):
    """A reader that waits for readable data."""

    def on_advance(self, added_bytes: int) -> None:
        """Called when the high watermark moved over this many bytes."""
        ...

    def on_gone(self) -> None:
        """Called when the partition is no longer here, or not led here; a new request returns the reason."""
        ...


class EndWatcher(Protocol):
    """A follower that waits at the end of the log."""

    def on_append(self, added_bytes: int) -> None:
        """Called when the log grew."""
        ...

    def on_committed(self) -> None:
        """Called when the high watermark moved."""
        ...

    def on_gone(self) -> None:
        """Called when the partition is not led here any more."""
        ...


class Change(Enum):
    """What a new state of the partition means for this node's replica."""

    NOTHING = "nothing"  # no change of role
    ADJUSTED = "adjusted"  # it still leads, with other replicas or another in-sync set
    LEADS = "leads"  # it leads in a new epoch, perhaps not for the first time
    FOLLOWS = "follows"  # it follows another leader, or in another epoch
    HANDED_OVER = "handed over"  # it led, and follows now
    GONE = "gone"  # the replica is no longer on this node


class Partition:
    """A replica. Created as a leader unless ``leader`` names another node."""

    __slots__ = (
        "_confirmations",
        "_flush_confirmations",
        "_is_eligible",
        "_lag_ms_max",
        "_pending",
        "end_watchers",
        "flush_queued",
        "flushes_first",
        "has_eligible",
        "high_watermark",
        "index",
        "is_direct",
        "is_leader",
        "is_retired",
        "isr",
        "leader",
        "leader_epoch",
        "leadership",
        "log",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
        "unhurried",
        "watchers",
    )

    def __init__(
        self,
        *,
        topic: str,
        index: int,
        topic_id: UUID,
        log: PartitionLog,
        leader_epoch: LeaderEpoch,
        isr: tuple[NodeId, ...],
        node_id: NodeId | None = None,
        replicas: tuple[NodeId, ...] | None = None,
        leader: NodeId | None = None,
        partition_epoch: int = 0,
        high_watermark: Offset = 0,
        now_ms: int = 0,
        lag_ms_max: Callable[[], int] = lambda: _LAG_MS_MAX,
        is_eligible: IsEligible = lambda node, broker_epoch: True,
        has_eligible: bool = False,
    ) -> None:
        """``high_watermark`` is the last checkpointed one; a leader without followers does not need it."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.replicas = isr if replicas is None else replicas
        self.node_id = isr[0] if node_id is None else node_id
        self.leader = self.node_id if leader is None else leader
        self.is_leader = self.leader == self.node_id
        # Whether the controller keeps a list of eligible leaders: it relies on nothing more being committed
        # here, so nothing is, whatever this node's settings are.
        self.has_eligible = has_eligible
        self.flushes_first = flushes_first(log.config)
        self.high_watermark: Offset = min(max(high_watermark, log.start_offset), log.end_offset)
        self.watchers: dict[Watcher, None] = {}
        self.end_watchers: dict[EndWatcher, None] = {}
        # Set by the flusher while it handles this partition, so that requests for it coalesce.
        self.flush_queued = False
        # This range need not be flushed because of its age (``spare``).
        self.unhurried: tuple[Offset, Offset] = (0, 0)
        self.is_retired = False
        self.is_direct = False
        # The leader's view of its followers; None without followers.
        self.leadership: Leadership | None = None
        self._lag_ms_max = lag_ms_max
        self._is_eligible = is_eligible
        # (end, bytes) of appends above the high watermark.
        self._pending: deque[tuple[Offset, int]] = deque()
        self._confirmations: deque[tuple[Offset, Confirmation]] = deque()
        self._flush_confirmations: deque[tuple[Offset, Confirmation]] = deque()
        if self.is_leader:
            self._take_office(now_ms)
        else:
            self._set_direct()

    def __repr__(self) -> str:
        role = "leads" if self.is_leader else f"follows {self.leader}"
        return (
            f"<Partition {self.topic}-{self.index} {role} epoch={self.leader_epoch} "
            f"hw={self.high_watermark} end={self.log.end_offset}>"
        )

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset that a reader of committed transactions may not see yet."""
        return self.log.stable_below(self.high_watermark)

    @property
    def own_end(self) -> Offset:
        """Up to where this replica counts itself: the log's end, or the flushed end if the policy requires
        that.
        """
        log = self.log
        return min(log.recovery_point, log.end_offset) if self.flushes_first else log.end_offset

    # --- leader and follower ------------------------------------------------------------------------

    def lead(self, leader_epoch: LeaderEpoch, *, now_ms: int = 0) -> None:
        """Begin to lead in this epoch. The log notes its start offset with the first record of it."""
        assert leader_epoch >= self.leader_epoch
        # If this node missed epochs in between, others may have led, and followers truncated their logs.
        renewed = self.is_leader and leader_epoch <= self.leader_epoch + 1
        self.leader = self.node_id
        self.leader_epoch = leader_epoch
        self.is_leader = True
        if renewed and self.leadership is not None:
            self.leadership.begin_epoch(self.log.end_offset, self.isr, now_ms)
        elif not renewed:
            self.leadership = None
        self._take_office(now_ms)

    def assume(self, state: PartitionImage, *, now_ms: int) -> Change:
        """Adopt the partition's newest committed state. Return what that means for this replica.

        A state that is older than the known one (a leader learns the result of its own requests first) is
        ignored.
        """
        if state.partition_epoch >= self.partition_epoch:
            self.has_eligible = bool(state.eligible_leaders)
        if (
            state.partition_epoch <= self.partition_epoch
            and state.leader_epoch <= self.leader_epoch
        ):
            if self.is_leader:
                self.recount()
            return Change.NOTHING
        new_epoch = state.leader_epoch != self.leader_epoch
        led = self.is_leader
        self.partition_epoch = state.partition_epoch
        self.replicas, self.isr = state.replicas, state.isr
        if state.leader == self.node_id:
            if new_epoch or not led:
                self.lead(state.leader_epoch, now_ms=now_ms)
                return Change.LEADS
            self._take_office(now_ms)
            return Change.ADJUSTED
        if not new_epoch and not led and state.leader == self.leader:
            return Change.NOTHING
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        if not led:
            return Change.FOLLOWS
        self.is_leader = False
        self.leadership = None
        self._set_direct()
        self._send_away(self.not_leader())
        return Change.HANDED_OVER

    def not_leader(self) -> NotLeader:
        """Return the error that sends a client to the leader."""
        where = f"node {self.leader} leads it" if self.leader >= 0 else "it has no leader now"
        return NotLeader(
            f"partition {self.topic}-{self.index}: {where}, in epoch {self.leader_epoch}; ask for "
            "the metadata again"
        )

    def _take_office(self, now_ms: int) -> None:
        if any(node != self.node_id for node in self.replicas):
            if self.leadership is None:
                self.leadership = Leadership(
                    self.node_id,
                    epoch_start=self.log.end_offset,
                    now_ms=now_ms,
                    lag_ms_max=self._lag_ms_max,
                    is_eligible=self._is_eligible,
                )
            self.leadership.assign(self.replicas, self.isr)
        else:
            self.leadership = None
        self._set_direct()
        self.recount()

    def _set_direct(self) -> None:
        self.is_direct = self.is_leader and self.leadership is None and not self.flushes_first

    # --- leader epochs --------------------------------------------------------------------------------

    def epoch_end_offset(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch up to ``epoch`` in the log, and where it ended; (-1, -1) if unknown."""
        end = self.log.end_offset
        if epoch == self.leader_epoch:
            return epoch, end
        latest = self.log.latest_epoch
        if latest < epoch < self.leader_epoch:
            # The present epoch has no record yet, so the log does not know it: it begins at the end.
            return (latest if latest >= 0 else epoch), end
        return self.log.epoch_end_offset(epoch)

    def epoch_at_start(self) -> LeaderEpoch:
        """Return the epoch of the log's first record; the present one if the log is empty."""
        epoch = self.log.epochs.epoch_at(self.log.start_offset)
        return epoch if epoch >= 0 else self.leader_epoch

    def check_epoch(self, epoch: LeaderEpoch) -> None:
        """Refuse a request with an older or newer leader epoch; -1 means that the client does not say."""
        if epoch in {NO_EPOCH, self.leader_epoch}:
            return
        if epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"partition {self.topic}-{self.index} is led in epoch {self.leader_epoch}, not {epoch}"
            )
        raise UnknownLeaderEpoch(
            f"partition {self.topic}-{self.index} is led in epoch {self.leader_epoch}; "
            f"epoch {epoch} is not known here"
        )

    # --- appending ------------------------------------------------------------------------------------

    def append(
        self,
        data: bytearray | memoryview,
        *,
        now_ms: int,
        headers: list[BatchHeader] | None = None,
    ) -> AppendInfo:
        """Append as the leader. Readers see it when all in-sync replicas have it; at once if there is only
        one.
        """
        log = self.log
        if self.is_direct:
            info = log.append_as_leader(
                data, leader_epoch=self.leader_epoch, now_ms=now_ms, headers=headers
            )
            if not info.duplicate:
                self.high_watermark = log.end_offset
                if self.watchers:
                    self._wake(info.bytes)
            return info
        if not self.is_leader:
            raise self.not_leader()
        info = log.append_as_leader(
            data, leader_epoch=self.leader_epoch, now_ms=now_ms, headers=headers
        )
        if not info.duplicate:
            self.note_append(info.bytes)
            if not self.flushes_first:
                self.recount()
        return info

    def note_append(self, added_bytes: int) -> None:
        """Note that the log grew: tell followers now, and readers when it is committed."""
        pending = self._pending
        if len(pending) >= _PENDING_MAX:
            added_bytes += pending.pop()[1]
        pending.append((self.log.end_offset, added_bytes))
        for watcher in tuple(self.end_watchers):
            watcher.on_append(added_bytes)

    def spare(self, first: Offset, next_: Offset) -> None:
        """Mark what was just appended as not needing to survive a crash: its age is no reason for a flush."""
        begun, end = self.unhurried
        self.unhurried = (begun if end == first else first, next_)

    @property
    def is_spared(self) -> bool:
        """Whether everything that is not flushed is marked by ``spare``."""
        first, next_ = self.unhurried
        return first <= self.log.recovery_point and next_ >= self.log.end_offset

    def on_flushed(self) -> None:
        """Handle a finished flush: the log's recovery point moved."""
        flushed = min(self.log.recovery_point, self.log.end_offset)
        _confirm(self._flush_confirmations, flushed, None)
        if self.flushes_first and self.is_leader:
            self.recount()

    def on_flush_failed(self, error: MillpondError) -> None:
        """Fail everything that waits for the flush; the log accepts no more appends."""
        self._fail(self._flush_confirmations, error)
        if self.flushes_first:
            self._fail(self._confirmations, error)

    def confirm_at(self, offset: Offset, confirm: Confirmation) -> None:
        """Call back when the high watermark reaches this offset, or when it never will."""
        if self.high_watermark >= offset:
            confirm(self._shortage())
        else:
            self._confirmations.append((offset, confirm))

    def confirm_flushed_at(self, offset: Offset, confirm: Confirmation) -> None:
        """Call back when a flush of this log has reached this offset, or when none will."""
        if self.log.recovery_point >= offset:
            confirm(None)
        else:
            self._flush_confirmations.append((offset, confirm))

    def reconfigure(self, config: LogConfig) -> None:
        """Apply new settings."""
        self.log.reconfigure(config)
        self.flushes_first = flushes_first(config)
        self._set_direct()
        if self.is_leader:
            self.recount()

    def recount(self) -> None:
        """Recompute the high watermark from the in-sync replicas' progress."""
        end = self.own_end
        if self.leadership is not None:
            if end <= self.high_watermark or self.is_under_min_isr:
                return
            end = self.leadership.committed_end(end, self.log.end_offset)
        self.advance(end)

    def advance(self, offset: Offset) -> None:
        """Move the high watermark to ``offset``."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        added = 0
        pending = self._pending
        while pending and pending[0][0] <= offset:
            added += pending.popleft()[1]
        if self._confirmations:
            _confirm(self._confirmations, offset, self._shortage())
        if self.watchers:
            self._wake(added)
        for watcher in tuple(self.end_watchers):
            watcher.on_committed()

    def on_truncated(self) -> bool:
        """Handle a truncation. Return whether it removed committed records."""
        end = self.log.end_offset
        self._pending = deque(one for one in self._pending if one[0] <= end)
        lost = end < self.high_watermark
        if lost:
            self.high_watermark = end
        self.high_watermark = max(self.high_watermark, min(self.log.start_offset, end))
        return lost

    # --- in-sync replicas -------------------------------------------------------------------------------

    @property
    def min_isr(self) -> int:
        """How many replicas must be in sync for ``acks=all``; never more than there are."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than ``min.insync.replicas``."""
        return len(self.isr) < self.min_isr or self.has_eligible

    def check_in_sync(self) -> None:
        """Refuse an ``acks=all`` write when too few replicas are in sync."""
        if self.has_eligible or (
            len(self.isr) < self.log.config.min_insync_replicas and self.is_under_min_isr
        ):
            raise NotEnoughReplicas(
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self.min_isr} for partition {self.topic}-{self.index}"
            )

    def _shortage(self) -> MillpondError | None:
        """Return why an ``acks=all`` write that all in-sync replicas have still fails: too few of them are
        left.
        """
        leadership = self.leadership
        if leadership is None or len(leadership.maximal) >= self.min_isr:
            return None
        return NotEnoughReplicasAfterAppend(
            f"partition {self.topic}-{self.index}: the write stands, but only {list(self.isr)} are in "
            f"sync and min.insync.replicas is {self.min_isr}"
        )

    def on_follower(
        self,
        node: NodeId,
        *,
        fetch_offset: Offset,
        log_start: Offset,
        broker_epoch: int,
        now_ms: int,
        pulse: Pulse | None = None,
    ) -> Follower:
        """Note a follower's fetch before it is answered: it has everything below ``fetch_offset``."""
        leadership = self.leadership
        follower = leadership.followers.get(node) if leadership is not None else None
        if leadership is None or follower is None:
            raise NotLeader(
                f"partition {self.topic}-{self.index}: node {node} has no replica of it; "
                f"nodes {list(self.replicas)} have"
            )
        if 0 <= broker_epoch < follower.broker_epoch:
            raise NotLeader(
                f"partition {self.topic}-{self.index}: node {node} asks under broker epoch "
                f"{broker_epoch} and has asked under {follower.broker_epoch}"
            )
        leadership.seen_ms = max(leadership.seen_ms, now_ms)
        follower.on_fetch(
            fetch_offset,
            log_start=log_start,
            leader_end=self.log.end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
            pulse=pulse,
        )
        self.recount()
        return follower

    def wanted_in_sync(self, now_ms: int) -> InSyncRequest | None:
        """Return the change of the in-sync set that the leader requests, and mark it as in flight."""
        leadership = self.leadership
        if leadership is None:
            return None
        request = leadership.decide(
            now_ms,
            leader_end=self.log.end_offset,
            high_watermark=self.high_watermark,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if request is None:
            self.recount()
        return request

    def on_in_sync_granted(
        self, request: InSyncRequest, *, partition_epoch: int, isr: tuple[NodeId, ...]
    ) -> None:
        """Adopt the controller's response. A response older than the known metadata is ignored."""
        leadership = self.leadership
        if leadership is None or leadership.request is not request:
            return
        if partition_epoch < self.partition_epoch or request.leader_epoch != self.leader_epoch:
            return
        self.partition_epoch = partition_epoch
        self.isr = isr
        leadership.assign(self.replicas, isr)
        self.recount()

    def on_in_sync_refused(self, request: InSyncRequest) -> None:
        """Drop a request that the controller has certainly refused."""
        if self.leadership is not None:
            self.leadership.drop_request(request)
            self.recount()

    # --- closing ----------------------------------------------------------------------------------------

    def retire(self, error: MillpondError) -> None:
        """Close the partition: every waiting reader, follower and writer is told."""
        self.is_retired = True
        self._fail(self._flush_confirmations, error)
        self._send_away(error)

    def _send_away(self, error: MillpondError) -> None:
        self._fail(self._confirmations, error)
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher.on_gone()
        end_watchers, self.end_watchers = self.end_watchers, {}
        for end_watcher in end_watchers:
            end_watcher.on_gone()

    def _fail(self, waiting: deque[tuple[Offset, Confirmation]], error: MillpondError) -> None:
        failed = list(waiting)
        waiting.clear()
        for _offset, confirm in failed:
            confirm(error)

    def _wake(self, added_bytes: int) -> None:
        # A watcher may unregister while it is called, hence the copy.
        for watcher in tuple(self.watchers):
            watcher.on_advance(added_bytes)


def _confirm(
    waiting: deque[tuple[Offset, Confirmation]], offset: Offset, error: MillpondError | None
) -> None:
    while waiting and waiting[0][0] <= offset:
        waiting.popleft()[1](error)


def flushes_first(config: LogConfig) -> bool:
    """Return whether an acknowledgement waits for an fsync. Kafka's ``flush.messages=1`` asks for the
    same.
    """
    return config.flush_policy == "group" or config.flush_messages <= 1
