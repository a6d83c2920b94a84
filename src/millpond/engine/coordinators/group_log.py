"""What groups have left in ``__consumer_offsets``: read back, and told to operators."""

import logging
from collections.abc import Iterator, Mapping, Sequence

from millpond.base.errors import (
    BatchTooLarge,
    CoordinatorNotAvailable,
    GroupError,
    InvalidRequest,
    MalformedData,
    MillpondError,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    ProducerFenced,
    RequestTimedOut,
    ShuttingDown,
    StorageFailure,
    UnknownTopic,
)
from millpond.engine.coordinators.record_replay import MayComeBack, stored_batches
from millpond.group import kinds
from millpond.group.coordinator import GroupCoordinator
from millpond.group.messages import ErrorClass
from millpond.group.records import (
    ForeignRecord,
    GroupRecord,
    OffsetCommitted,
    OffsetPended,
)
from millpond.record.batch import BatchHeader
from millpond.record.control import EndTxnMarker
from millpond.record.records import Record
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

# What a client of the group is told when the log refuses: ask again here, or look for us anew.
_REFUSALS: Mapping[type[MillpondError], ErrorClass] = {
    UnknownTopic: CoordinatorNotAvailable,
    NotEnoughReplicas: CoordinatorNotAvailable,
    RequestTimedOut: CoordinatorNotAvailable,
    NotLeader: NotCoordinator,
    StorageFailure: NotCoordinator,
    ShuttingDown: NotCoordinator,
    ProducerFenced: ProducerFenced,
    BatchTooLarge: GroupError,
    InvalidRequest: GroupError,
}


def refusal_of(error: MillpondError) -> ErrorClass:
    """What clients are told when the log could not take a group's facts for this reason."""
    return next((_REFUSALS[kind] for kind in type(error).__mro__ if kind in _REFUSALS), GroupError)


def read_partition(
    partition: Partition, coordinator: GroupCoordinator, may_come_back: MayComeBack
) -> Iterator[int]:
    """Give the coordinator all that a partition's log says; each step tells how many records it took."""
    foreign = 0
    for header, stored in stored_batches(partition, may_come_back):
        if header.is_control:
            _read_marker(header, stored, coordinator)
        else:
            for record in stored:
                fact = _read_fact(partition, header, record)
                if isinstance(fact, ForeignRecord):
                    foreign += 1
                elif fact is not None:
                    coordinator.replay(fact)
        yield len(stored)
    if foreign:
        log.warning(
            "partition=%s-%d: holds %d records of other kinds of groups; they are kept but not used",
            partition.topic,
            partition.index,
            foreign,
        )


def _read_marker(
    header: BatchHeader, stored: Sequence[Record], coordinator: GroupCoordinator
) -> None:
    for record in stored:
        try:
            marker = EndTxnMarker.parse(record)
        except MalformedData:
            continue  # a control record of another kind says nothing of groups
        coordinator.end_transaction(header.producer_id, committed=marker.committed)


def _read_fact(
    partition: Partition, header: BatchHeader, record: Record
) -> GroupRecord | ForeignRecord | None:
    if record.key is None:
        return None
    try:
        fact = kinds.decode(record.key, record.value)
    except MalformedData as error:
        log.error(
            "partition=%s-%d offset=%d: a group record is left out: %s",
            partition.topic,
            partition.index,
            record.offset,
            error,
        )
        return None
    if header.is_transactional and isinstance(fact, OffsetCommitted):
        return OffsetPended(
            group_id=fact.group_id,
            topic=fact.topic,
            partition=fact.partition,
            value=fact.value,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
        )
    return fact


def report(records: Sequence[GroupRecord]) -> None:
    """Log what an operator would want to know of a group. Offsets are not reported."""
    for record in records:
        notice = record.notice()
        if notice is not None:
            log.log(logging.DEBUG if notice.is_detail else logging.INFO, "%s", notice.text)
