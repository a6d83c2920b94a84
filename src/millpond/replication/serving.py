"""The leader's handling of a follower's fetch: check the sender, compare the logs, note the progress.

The leader learns a follower's end from its fetch offset, before it answers. A fetch of another epoch is
refused in both directions: an older one comes from a follower that does not know this leader yet, a newer one
shows that this leader was replaced and does not know it yet.
"""

from millpond.base.errors import InvalidRequest, OffsetOutOfRange
from millpond.base.ids import LeaderEpoch, NodeId, Offset
from millpond.replication.leadership import Follower, Pulse
from millpond.replication.partition import Partition


def admit(
    partition: Partition,
    *,
    node: NodeId,
    broker_epoch: int,
    leader_epoch: LeaderEpoch,
    fetch_offset: Offset,
    last_epoch: LeaderEpoch,
    log_start: Offset,
    now_ms: int,
    pulse: Pulse | None = None,
) -> Follower | tuple[LeaderEpoch, Offset]:
    """Note the follower's progress and return it; or return the epoch and its end that it must truncate to.

    Raises ``NotLeader``, ``FencedLeaderEpoch``, ``UnknownLeaderEpoch``, ``OffsetOutOfRange``,
    ``InvalidRequest``.
    """
    if not partition.is_leader:
        raise partition.not_leader()
    partition.check_epoch(leader_epoch)
    if last_epoch >= 0:
        parting = divergence(partition, last_epoch, fetch_offset)
        if parting is not None:
            return parting
    elif fetch_offset > log_start and partition.log.epochs.epoch_at(fetch_offset - 1) >= 0:
        # A follower that has a record with an epoch has that epoch, too.
        raise InvalidRequest(
            f"partition {partition.topic}-{partition.index}: node {node} claims everything below "
            f"{fetch_offset} and names no epoch; its log is not a copy of this one"
        )
    log = partition.log
    if not log.start_offset <= fetch_offset <= log.end_offset:
        raise OffsetOutOfRange(
            f"partition {partition.topic}-{partition.index}: offset {fetch_offset} is not in "
            f"{log.start_offset} to {log.end_offset}",
            start_offset=log.start_offset,
            end_offset=log.end_offset,
        )
    return partition.on_follower(
        node,
        fetch_offset=fetch_offset,
        log_start=log_start,
        broker_epoch=broker_epoch,
        now_ms=now_ms,
        pulse=pulse,
    )


def divergence(
    partition: Partition, last_epoch: LeaderEpoch, fetch_offset: Offset
) -> tuple[LeaderEpoch, Offset] | None:
    """Return where a reader whose last record has this epoch must truncate to; None if the logs agree
    (KIP-595).
    """
    epoch, end = partition.epoch_end_offset(last_epoch)
    if epoch < 0:
        raise OffsetOutOfRange(
            f"partition {partition.topic}-{partition.index}: epoch {last_epoch} is not known here",
            start_offset=partition.log.start_offset,
            end_offset=partition.log.end_offset,
        )
    if epoch >= last_epoch and end >= fetch_offset:
        return None
    return epoch, end
