"""The check that a write in a transaction needs first: its coordinator must know the partition (KIP-890)."""

from collections.abc import Iterator, Mapping
from itertools import chain

from millpond.base.errors import MillpondError
from millpond.engine.api import Partition
from millpond.engine.api.transactions import (
    Admission,
    Place,
    Write,
    refusal_of_write,
)
from millpond.frontend.kafka.handler import Context
from millpond.frontend.kafka.producer_versions import produce_abilities
from millpond.record.batch import read_header
from millpond.wire.kafka.produce import ProduceRequest


def admission_of(context: Context, produce: ProduceRequest, version: int) -> Admission | None:
    """The question that a request's writes need; None if there is nothing to ask."""
    assert produce.transactional_id is not None
    writes = chain.from_iterable(
        _writes(context, produce, number) for number in range(len(produce.topics))
    )
    return context.engine.transactions.admission(
        produce.transactional_id, list(writes), joins=produce_abilities(version).joins_transactions
    )


def _writes(context: Context, produce: ProduceRequest, number: int) -> Iterator[Write]:
    """The writes to one topic. What cannot be found or read is refused when it is appended."""
    name, topic_id, partitions = produce.topics[number]
    engine = context.engine
    for index, records in partitions:
        try:
            topic = (
                engine.partitions.topic_by_id(topic_id).name if topic_id is not None else name or ""
            )
            header = read_header(records or b"")
            partition = engine.partitions.partition(topic, index)
        except MillpondError:
            continue
        if header.is_transactional:
            yield Write(partition, header.producer_id, header.producer_epoch)


def check_admitted(
    refused: Mapping[Place, MillpondError], partition: Partition, version: int
) -> None:
    """Raise what a producer of this version is told of a write that its coordinator refused."""
    error = refused.get((partition.topic, partition.index))
    if error is not None:
        raise refusal_of_write(error, produce_abilities(version))
