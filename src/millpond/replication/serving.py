"""How a leader receives a follower's fetch: who may ask, whether the logs agree, how far the follower is.

The leader learns a follower's end from the offset that it asks for, before it answers. A fetch of another
epoch is refused in both directions: an older one comes from a follower that has not heard of this leader, a
newer one shows that this leader was replaced and has not heard of it.
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
    """Note how far the follower is; or the epoch and its end to which it must look back first.

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
        # Whoever has a record that has an epoch has that epoch, too.
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
    """Where a reader whose last record has this epoch must look back to; None if the logs agree (KIP-595)."""
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
