"""The records of groups in ``__consumer_offsets``: encoded, applied again after a restart, and logged."""

import logging
from collections.abc import Mapping, Sequence

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
from millpond.record.builder import build_batch
from millpond.record.control import EndTxnMarker
from millpond.record.records import Record

log = logging.getLogger(__name__)

# The error for a client when the log does not take a record: retry here, or find the coordinator again.
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
    """Return the error for clients when the log could not take a group's records for this reason."""
    return next((_REFUSALS[kind] for kind in type(error).__mro__ if kind in _REFUSALS), GroupError)


def encode_batch(records: Sequence[GroupRecord], now_ms: int) -> bytearray:
    """Encode records as one batch; offsets committed in a transaction are a batch of their producer."""
    rows = [(now_ms, *kinds.encode(record), ()) for record in records]
    first = records[0]
    if isinstance(first, OffsetPended):
        return build_batch(
            rows,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            transactional=True,
        )
    return build_batch(rows)


def replay_record(coordinator: GroupCoordinator, header: BatchHeader, record: Record) -> None:
    """Apply a record of the log. Raises ``MalformedData``."""
    if header.is_control:
        _replay_marker(coordinator, header, record)
        return
    assert record.key is not None
    found = kinds.decode(record.key, record.value)
    if isinstance(found, ForeignRecord):
        coordinator.foreign_records += 1
        return
    if header.is_transactional and isinstance(found, OffsetCommitted):
        found = OffsetPended(
            group_id=found.group_id,
            topic=found.topic,
            partition=found.partition,
            value=found.value,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
        )
    coordinator.replay(found)


def _replay_marker(coordinator: GroupCoordinator, header: BatchHeader, record: Record) -> None:
    try:
        marker = EndTxnMarker.parse(record)
    except MalformedData:
        return  # a control record of another kind does not concern groups
    coordinator.end_transaction(header.producer_id, committed=marker.committed)


def report(records: Sequence[GroupRecord]) -> None:
    """Log changes of groups for the operator. Commits of offsets are not logged."""
    for record in records:
        notice = record.notice()
        if notice is not None:
            log.log(logging.DEBUG if notice.is_detail else logging.INFO, "%s", notice.text)
