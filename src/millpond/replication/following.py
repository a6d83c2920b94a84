"""A follower's handling of its leader's responses: append records, truncate divergent ones.

A follower fetches from the end of its log and names the epoch of its last record. If the leader's log has
another record there, the response names the latest epoch that both may share and where it ended, and the
follower truncates its log to that place. That is repeated until their logs agree. What is truncated was never
committed, unless an unclean election made a replica lead that lacked it. That is logged, because then
acknowledged records are lost.
"""

import logging
from enum import Enum

from millpond.base.errors import InvalidRecord
from millpond.base.ids import NO_EPOCH, LeaderEpoch, Offset
from millpond.record.batch import iter_batches
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)


class FollowStep(Enum):
    """What a response changed in the follower's log."""

    NOTHING = "nothing"
    APPENDED = "appended"
    CUT = "cut"


def take(
    partition: Partition,
    records: bytes | bytearray | memoryview,
    *,
    high_watermark: Offset,
    log_start: Offset,
    now_ms: int,
) -> FollowStep:
    """Append the leader's records, then adopt its high watermark and log start offset."""
    assert not partition.is_leader
    step = FollowStep.NOTHING
    if len(records):
        _check_epochs(partition, records)
        _begin_with(partition, records)
        info = partition.log.append_as_follower(records, now_ms=now_ms)
        if info.bytes:
            step = FollowStep.APPENDED
            partition.note_append(info.bytes)
    end = partition.log.end_offset
    partition.advance(min(high_watermark, end))
    if log_start > partition.log.start_offset:
        partition.log.delete_records(min(log_start, partition.high_watermark))
    return step


def cut_back(partition: Partition, epoch: LeaderEpoch, end_offset: Offset) -> FollowStep:
    """Truncate the log where it diverges from the leader's, in which ``epoch`` ended at ``end_offset``.

    If the follower does not have that epoch it truncates to the end of the epoch before, and fetches again.
    """
    own_epoch, own_end = partition.log.epoch_end_offset(epoch)
    if own_epoch == NO_EPOCH:
        target = end_offset
    elif own_epoch < epoch:
        target = own_end
    else:
        target = min(own_end, end_offset)
    return _truncate(partition, target)


def start_over(partition: Partition, *, leader_start: Offset, leader_end: Offset) -> FollowStep:
    """Restart the log at the leader's, which does not reach this log's end.

    If everything here is older than the leader's first record, the log is emptied and begins there; if the
    leader's log is shorter, which an unclean election makes possible, the rest is truncated.
    """
    end = partition.log.end_offset
    if end < leader_start:
        log.info(
            "partition=%s-%d: the leader begins at %d and this log ends at %d; restarting the log there",
            partition.topic,
            partition.index,
            leader_start,
            end,
        )
        partition.log.truncate_fully_and_start_at(leader_start)
        partition.on_truncated()
        return FollowStep.CUT
    if 0 <= leader_end < end:
        return _truncate(partition, leader_end)
    return FollowStep.NOTHING


def _begin_with(partition: Partition, records: bytes | bytearray | memoryview) -> None:
    """Start an empty log at its first batch, which may begin below the leader's log start offset:
    DeleteRecords deletes single records, but batches are kept whole.
    """
    log_ = partition.log
    if log_.start_offset < log_.end_offset:
        return
    first = next(iter_batches(records), None)
    if first is not None and first[1].base_offset < log_.end_offset <= first[1].last_offset:
        log_.truncate_fully_and_start_at(first[1].base_offset)
        partition.on_truncated()


def _truncate(partition: Partition, offset: Offset) -> FollowStep:
    before = partition.log.end_offset
    committed = partition.high_watermark
    partition.log.truncate_to(max(offset, 0))
    after = partition.log.end_offset
    if after == before:
        return FollowStep.NOTHING
    if partition.on_truncated():
        log.error(
            "partition=%s-%d epoch=%d: records %d to %d were cut off, though everything below %d was "
            "committed: a replica that lacked them was elected (unclean.leader.election.enable, or it lost "
            "them in a crash)",
            partition.topic,
            partition.index,
            partition.leader_epoch,
            after,
            before - 1,
            committed,
        )
    else:
        log.info(
            "partition=%s-%d epoch=%d: records %d to %d were never committed and are cut off",
            partition.topic,
            partition.index,
            partition.leader_epoch,
            after,
            before - 1,
        )
    return FollowStep.CUT


def _check_epochs(partition: Partition, records: bytes | bytearray | memoryview) -> None:
    """Check that the records' epochs do not decrease and do not exceed the leader's."""
    latest = partition.log.latest_epoch
    for _position, header in iter_batches(records):
        if not latest <= header.leader_epoch <= partition.leader_epoch:
            raise InvalidRecord(
                f"partition {partition.topic}-{partition.index}: a batch of epoch "
                f"{header.leader_epoch} cannot follow epoch {latest} in epoch {partition.leader_epoch}"
            )
        latest = header.leader_epoch
