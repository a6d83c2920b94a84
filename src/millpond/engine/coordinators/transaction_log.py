"""What transactions have left: in ``__transaction_state``, read back; and in partitions, open by mistake."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from millpond.base.errors import MalformedData, MillpondError
from millpond.engine.coordinators.record_replay import MayComeBack, stored_batches
from millpond.log.producer_state import Producer
from millpond.replication.partition import Partition
from millpond.txn import records
from millpond.txn.coordinator import TransactionCoordinator
from millpond.txn.records import Place, TransactionStored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)


def read_partition(
    partition: Partition, coordinator: TransactionCoordinator, may_come_back: MayComeBack
) -> Iterator[int]:
    """Give the coordinator all that a partition's log says; each step tells how many records it took."""
    for header, stored in stored_batches(partition, may_come_back):
        for record in stored if not header.is_control else ():
            if record.key is None:
                continue
            try:
                coordinator.apply(records.decode(record.key, record.value))
            except MalformedData as error:
                log.error(
                    "partition=%s-%d offset=%d: a transaction record is left out: %s",
                    partition.topic,
                    partition.index,
                    record.offset,
                    error,
                )
        yield len(stored)


def abort_orphans(engine: "Engine", known: "Iterable[TransactionStored]") -> None:
    """End transactions that partitions hold open and that nobody will ever end.

    Only a node that is alone can know that, and only there can it be: others do not append before
    the coordinator's fact is safe.
    """
    if len(engine.image.brokers) > 1:
        return
    coordinated: dict[int, TransactionStored] = {
        one.producer_id: one for one in known if not one.is_idle
    }
    for partition in list(engine.topics):
        if partition.log.producers.first_open_offset() < 0:
            continue
        place = partition.topic, partition.index
        for producer in list(partition.log.active_producers()):
            found = coordinated.get(producer.producer_id)
            is_known = found is not None and place in found.partitions
            if producer.txn_first_offset >= 0 and not is_known:
                _abort_orphan(engine, place, producer)


def _abort_orphan(engine: "Engine", place: Place, producer: Producer) -> None:
    log.warning(
        "partition=%s-%d producer=%d epoch=%d: a transaction is open since offset %d and nobody "
        "coordinates it; aborting it",
        *place,
        producer.producer_id,
        producer.epoch,
        producer.txn_first_offset,
    )
    try:
        engine.transactions.write_marker(
            place,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=False,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
    except MillpondError as error:
        log.error("partition=%s-%d: the marker could not be written: %s", *place, error)
