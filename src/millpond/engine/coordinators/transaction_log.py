"""The records of transactions in ``__transaction_state``, and transactions that no coordinator knows."""

import logging
from collections.abc import Callable, Iterable, Sequence

from millpond.base.errors import (
    BatchTooLarge,
    CoordinatorNotAvailable,
    InvalidRequest,
    MillpondError,
    NotCoordinator,
    NotLeader,
)
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.log.producer_state import Producer
from millpond.record.batch import BatchHeader
from millpond.record.builder import build_batch
from millpond.record.records import Record
from millpond.txn import records
from millpond.txn.coordinator import TransactionCoordinator
from millpond.txn.records import Place, TransactionRecord, TransactionStored

log = logging.getLogger(__name__)


def encode_batch(stored: Sequence[TransactionRecord], now_ms: int) -> bytearray:
    """Encode records as one batch."""
    return build_batch([(now_ms, *records.encode(record), ()) for record in stored])


def replay_record(coordinator: TransactionCoordinator, header: BatchHeader, record: Record) -> None:
    """Apply a record of the log. Raises ``MalformedData``."""
    if header.is_control:
        return
    assert record.key is not None
    coordinator.apply(records.decode(record.key, record.value))


def refusal_of(stored: Sequence[TransactionRecord], error: MillpondError) -> MillpondError:
    """Return the error for the client when the log does not take the state of its transaction."""
    if isinstance(error, (BatchTooLarge, InvalidRequest)):
        return error
    log.warning(
        "transaction=%s: its state could not be written: %s", stored[0].transactional_id, error
    )
    kind = NotCoordinator if isinstance(error, NotLeader) else CoordinatorNotAvailable
    return kind(str(error))


def abort_orphans(
    services: CoordinatorServices,
    known: Iterable[TransactionStored],
    write_marker: Callable[..., object],
) -> None:
    """Abort transactions that are open in partitions and that no coordinator knows.

    Only on a node that is alone can they exist, and only that node can know: in a cluster a leader does not
    append before the coordinator's record is committed.
    """
    if len(services.metadata.image.brokers) > 1:
        return
    coordinated: dict[int, TransactionStored] = {
        one.producer_id: one for one in known if not one.is_idle
    }
    for partition in list(services.topics):
        if partition.log.producers.first_open_offset() < 0:
            continue
        place = partition.topic, partition.index
        for producer in list(partition.log.active_producers()):
            found = coordinated.get(producer.producer_id)
            is_known = found is not None and place in found.partitions
            if producer.txn_first_offset >= 0 and not is_known:
                _abort_orphan(write_marker, place, producer)


def _abort_orphan(write_marker: Callable[..., object], place: Place, producer: Producer) -> None:
    log.warning(
        "partition=%s-%d producer=%d epoch=%d: a transaction is open since offset %d and no "
        "coordinator knows it; aborting it",
        *place,
        producer.producer_id,
        producer.epoch,
        producer.txn_first_offset,
    )
    try:
        write_marker(
            place,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=False,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
    except MillpondError as error:
        log.error("partition=%s-%d: the marker could not be written: %s", *place, error)
