"""One partition led by this node: its log, its leader epoch and its high watermark.

The high watermark is the first offset that readers may not see yet, and what an acknowledgement
waits for. With the flush policy ``os`` it follows the log's end as soon as the bytes are in the
page cache; with ``group`` it follows what an fsync has made durable. It never goes back.

Two kinds of others are told when it moves: *watchers* (readers that wait for data; told how many
bytes came) and *confirmations* (writers that wait for one offset). Both are plain calls made on the
thread that runs the log. Knows no clock, no loop and no protocol.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias
from uuid import UUID

from millpond.base.errors import (
    FencedLeaderEpoch,
    MillpondError,
    NotEnoughReplicas,
    UnknownLeaderEpoch,
)
from millpond.base.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset
from millpond.log.config import LogConfig
from millpond.log.partition_log import AppendInfo, PartitionLog
from millpond.record.batch import BatchHeader

Confirmation: TypeAlias = Callable[[MillpondError | None], None]


class Watcher(Protocol):
    """Someone who waits for readable data."""

    def on_advance(self, added_bytes: int) -> None:
        """The high watermark moved over this many bytes."""
        ...

    def on_gone(self) -> None:
        """The partition is not here any more; ask again to hear why."""
        ...


class Partition:
    """The leader's view of a partition. One node: it is its own in-sync replica set."""

    __slots__ = (
        "_confirmations",
        "_pending_bytes",
        "flush_queued",
        "flushes_first",
        "high_watermark",
        "index",
        "is_retired",
        "isr",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
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
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.isr = isr
        self.flushes_first = flushes_first(log.config)
        self.high_watermark: Offset = (
            min(log.recovery_point, log.end_offset) if self.flushes_first else log.end_offset
        )
        self.watchers: dict[Watcher, None] = {}
        # Set by the flusher while it has this partition in hand, so that requests for it coalesce.
        self.flush_queued = False
        self.is_retired = False
        self._pending_bytes = 0
        self._confirmations: deque[tuple[Offset, Confirmation]] = deque()

    def __repr__(self) -> str:
        return (
            f"<Partition {self.topic}-{self.index} epoch={self.leader_epoch} "
            f"hw={self.high_watermark} end={self.log.end_offset}>"
        )

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset that a reader of committed transactions may not see yet."""
        return self.log.stable_below(self.high_watermark)

    def lead(self, leader_epoch: LeaderEpoch) -> None:
        """Begin to lead in this epoch. The log notes where it starts with the first record of it."""
        assert leader_epoch >= self.leader_epoch
        self.leader_epoch = leader_epoch

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

    def append(
        self,
        data: bytearray | memoryview,
        *,
        now_ms: int,
        headers: list[BatchHeader] | None = None,
    ) -> AppendInfo:
        """Write as the leader. Readers may see it at once, or after the flush that the policy asks for."""
        log = self.log
        info = log.append_as_leader(
            data, leader_epoch=self.leader_epoch, now_ms=now_ms, headers=headers
        )
        if not info.duplicate:
            if self.flushes_first:
                self._pending_bytes += info.bytes
            else:
                self.high_watermark = log.end_offset
                if self.watchers:
                    self._wake(info.bytes)
        return info

    def on_flushed(self) -> None:
        """A flush finished and the log's recovery point moved."""
        if self.flushes_first:
            self._advance(min(self.log.recovery_point, self.log.end_offset))

    def on_flush_failed(self, error: MillpondError) -> None:
        """What waited for the flush was not made durable, and the log takes nothing more."""
        if self.flushes_first:
            self._fail_confirmations(error)

    def confirm_at(self, offset: Offset, confirm: Confirmation) -> None:
        """Call back when the high watermark reaches this offset, or when it never will."""
        if self.high_watermark >= offset:
            confirm(None)
        else:
            self._confirmations.append((offset, confirm))

    def reconfigure(self, config: LogConfig) -> None:
        """Obey other settings from now on."""
        self.log.reconfigure(config)
        was_first, self.flushes_first = self.flushes_first, flushes_first(config)
        if was_first and not self.flushes_first:
            self._advance(self.log.end_offset)

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

    def check_in_sync(self) -> None:
        """Refuse a write that wants all replicas when too few of them follow."""
        wanted = self.log.config.min_insync_replicas
        if len(self.isr) < wanted:
            raise NotEnoughReplicas(
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {wanted} for partition {self.topic}-{self.index}"
            )

    def retire(self, error: MillpondError) -> None:
        """The partition is leaving: everyone who waits for it is told."""
        self.is_retired = True
        self._fail_confirmations(error)
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher.on_gone()

    def _advance(self, offset: Offset) -> None:
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        added, self._pending_bytes = self._pending_bytes, 0
        confirmations = self._confirmations
        while confirmations and confirmations[0][0] <= offset:
            confirmations.popleft()[1](None)
        if self.watchers:
            self._wake(added)

    def _fail_confirmations(self, error: MillpondError) -> None:
        waiting, self._confirmations = self._confirmations, deque()
        for _offset, confirm in waiting:
            confirm(error)

    def _wake(self, added_bytes: int) -> None:
        # A watcher may leave while it is told, hence the copy.
        for watcher in tuple(self.watchers):
            watcher.on_advance(added_bytes)


def flushes_first(config: LogConfig) -> bool:
    """Whether an acknowledgement waits for an fsync. Kafka's ``flush.messages=1`` asks for the same."""
    return config.flush_policy == "group" or config.flush_messages <= 1
