"""One partition of which this node has a replica: its log, its leader epoch and its high watermark.

The high watermark is the first offset that readers may not see yet, and what an acknowledgement of all
replicas waits for. A leader moves it to where every in-sync replica has everything (``leadership.py``); a
follower takes it from its leader, as far as its own log goes (``following.py``). What a replica "has" is a
matter of the flush policy: with ``os`` what is in its page cache, with ``group`` what an fsync has made
durable. It never goes back, except where an unclean election took committed records away.

A leader that is alone, with a log whose page cache counts, is *direct*: its appends are committed when they
return, and cost nothing for replication.

Three kinds of others are told: *watchers* (readers that wait for data; told how many bytes came),
*end watchers* (followers that wait for whatever is appended, and for news of the high watermark) and
*confirmations* (writers that wait for one offset). All are plain calls made on the thread that runs the
log. Knows no clock, no loop and no protocol.
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

# Kafka's default of replica.lag.time.max.ms, for a partition that nobody told another.
_LAG_MS_MAX = 30_000

# Appends that wait to be committed are remembered one by one up to here, the rest in one sum.
_PENDING_MAX = 1024


class Watcher(Protocol):
    """Someone who waits for readable data."""

    def on_advance(self, added_bytes: int) -> None:
        """The high watermark moved over this many bytes."""
        ...

    def on_gone(self) -> None:
        """The partition is not here any more, or not led here; ask again to hear why."""
        ...


class EndWatcher(Protocol):
    """A follower that waits at the end of the log."""

    def on_append(self, added_bytes: int) -> None:
        """The log grew."""
        ...

    def on_committed(self) -> None:
        """The high watermark moved."""
        ...

    def on_gone(self) -> None:
        """The partition is not led here any more."""
        ...


class Change(Enum):
    """What news of a partition mean for this node's replica."""

    NOTHING = "nothing"  # it goes on as it was
    ADJUSTED = "adjusted"  # it leads on, with other replicas or other ones in sync
    LEADS = "leads"  # it leads in a new epoch, perhaps not for the first time
    FOLLOWS = "follows"  # it follows, somebody else or in another epoch
    HANDED_OVER = "handed over"  # it led, and follows now
    GONE = "gone"  # the replica is not here any more


class Partition:
    """A replica. Made as a leader unless ``leader`` names another node."""

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
        """``high_watermark`` is what was last written down of it; a leader that is alone does not need it."""
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
        # Whether the controller keeps others as eligible to lead: it counts on nothing more being committed
        # here, so nothing is, whatever the settings are on this node.
        self.has_eligible = has_eligible
        self.flushes_first = flushes_first(log.config)
        self.high_watermark: Offset = min(max(high_watermark, log.start_offset), log.end_offset)
        self.watchers: dict[Watcher, None] = {}
        self.end_watchers: dict[EndWatcher, None] = {}
        # Set by the flusher while it has this partition in hand, so that requests for it coalesce.
        self.flush_queued = False
        # From here to there nobody minds when it reaches the disk (``spare``).
        self.unhurried: tuple[Offset, Offset] = (0, 0)
        self.is_retired = False
        self.is_direct = False
        # What a leader knows of others; none where there are no others.
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
        """Up to where this replica counts: the log's end, or what is flushed if the policy asks for that."""
        log = self.log
        return min(log.recovery_point, log.end_offset) if self.flushes_first else log.end_offset

    # --- who leads ----------------------------------------------------------------------------------

    def lead(self, leader_epoch: LeaderEpoch, *, now_ms: int = 0) -> None:
        """Begin to lead in this epoch. The log notes where it starts with the first record of it."""
        assert leader_epoch >= self.leader_epoch
        # If epochs in between were never heard of here, others may have led, and followers cut their logs.
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
        """Take the partition's newest agreed state; what that means for this replica.

        A state that is older than what is known already (a leader hears of its own wishes first) is nothing.
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
        """Why a client has to go elsewhere."""
        where = f"node {self.leader} leads it" if self.leader >= 0 else "nobody leads it now"
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
        """The largest epoch up to ``epoch`` that there was, and where it ended; (-1, -1) if unknown."""
        end = self.log.end_offset
        if epoch == self.leader_epoch:
            return epoch, end
        latest = self.log.latest_epoch
        if latest < epoch < self.leader_epoch:
            # The present epoch has no record yet, so the log does not know of it: it begins at the end.
            return (latest if latest >= 0 else epoch), end
        return self.log.epoch_end_offset(epoch)

    def epoch_at_start(self) -> LeaderEpoch:
        """The epoch of the log's first record; of the next one to be written if there is none."""
        epoch = self.log.epochs.epoch_at(self.log.start_offset)
        return epoch if epoch >= 0 else self.leader_epoch

    def check_epoch(self, epoch: LeaderEpoch) -> None:
        """Refuse an asker that knows an older or a newer leader; -1 means that it does not say."""
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
        """Write as the leader. Readers see it when all in-sync replicas have it; at once if there is one."""
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
        """The log grew: readers will be told when that is committed, followers are told now."""
        pending = self._pending
        if len(pending) >= _PENDING_MAX:
            added_bytes += pending.pop()[1]
        pending.append((self.log.end_offset, added_bytes))
        for watcher in tuple(self.end_watchers):
            watcher.on_append(added_bytes)

    def spare(self, first: Offset, next_: Offset) -> None:
        """What was just appended need not outlive the machine: its age is no reason for a flush."""
        begun, end = self.unhurried
        self.unhurried = (begun if end == first else first, next_)

    @property
    def is_spared(self) -> bool:
        """Whether all that no flush covers is of that kind."""
        first, next_ = self.unhurried
        return first <= self.log.recovery_point and next_ >= self.log.end_offset

    def on_flushed(self) -> None:
        """A flush finished and the log's recovery point moved."""
        flushed = min(self.log.recovery_point, self.log.end_offset)
        _confirm(self._flush_confirmations, flushed, None)
        if self.flushes_first and self.is_leader:
            self.recount()

    def on_flush_failed(self, error: MillpondError) -> None:
        """What waited for the flush was not made durable, and the log takes nothing more."""
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
        """Obey other settings from now on."""
        self.log.reconfigure(config)
        self.flushes_first = flushes_first(config)
        self._set_direct()
        if self.is_leader:
            self.recount()

    def recount(self) -> None:
        """A leader looks how far its in-sync replicas have come."""
        end = self.own_end
        if self.leadership is not None:
            if end <= self.high_watermark or self.is_under_min_isr:
                return
            end = self.leadership.committed_end(end, self.log.end_offset)
        self.advance(end)

    def advance(self, offset: Offset) -> None:
        """Everything below this offset is committed."""
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
        """The log was cut; whether that took committed records away."""
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
        """How many replicas must be in sync for a write that wants all; never more than there are."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync."""
        return len(self.isr) < self.min_isr or self.has_eligible

    def check_in_sync(self) -> None:
        """Refuse a write that wants all replicas when too few of them follow."""
        if self.has_eligible or (
            len(self.isr) < self.log.config.min_insync_replicas and self.is_under_min_isr
        ):
            raise NotEnoughReplicas(
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self.min_isr} for partition {self.topic}-{self.index}"
            )

    def _shortage(self) -> MillpondError | None:
        """Why a write that all in-sync replicas have is no success: too few of them are left."""
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
        """A follower asks for what comes at this offset: it has all before. Before it is answered."""
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
        """What the leader would like to have changed; from now on that wish is under way."""
        leadership = self.leadership
        if leadership is None:
            return None
        wish = leadership.decide(
            now_ms,
            leader_end=self.log.end_offset,
            high_watermark=self.high_watermark,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if wish is None:
            self.recount()
        return wish

    def on_wish_granted(
        self, wish: InSyncRequest, *, partition_epoch: int, isr: tuple[NodeId, ...]
    ) -> None:
        """The controller has it so now. An answer that the metadata overtook is nothing."""
        leadership = self.leadership
        if leadership is None or leadership.wish is not wish:
            return
        if partition_epoch < self.partition_epoch or wish.leader_epoch != self.leader_epoch:
            return
        self.partition_epoch = partition_epoch
        self.isr = isr
        leadership.assign(self.replicas, isr)
        self.recount()

    def on_wish_refused(self, wish: InSyncRequest) -> None:
        """The controller did certainly not do it."""
        if self.leadership is not None:
            self.leadership.forget_wish(wish)
            self.recount()

    # --- leaving ----------------------------------------------------------------------------------------

    def retire(self, error: MillpondError) -> None:
        """The partition is leaving: everyone who waits for it is told."""
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
        # A watcher may leave while it is told, hence the copy.
        for watcher in tuple(self.watchers):
            watcher.on_advance(added_bytes)


def _confirm(
    waiting: deque[tuple[Offset, Confirmation]], offset: Offset, error: MillpondError | None
) -> None:
    while waiting and waiting[0][0] <= offset:
        waiting.popleft()[1](error)


def flushes_first(config: LogConfig) -> bool:
    """Whether an acknowledgement waits for an fsync. Kafka's ``flush.messages=1`` asks for the same."""
    return config.flush_policy == "group" or config.flush_messages <= 1
