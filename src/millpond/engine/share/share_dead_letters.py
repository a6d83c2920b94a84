"""Dead letters of share groups (KIP-1191): copies of records that a group gave up.

A copy keeps key, value, headers and time of the record and says in further headers where it comes from and
why it was given up. It goes to a partition that this node leads, before the fact that gives the record up is
written; where this node leads none, to another leader, which is asked again for a while. What cannot be
copied is reported and left out: a topic that is missing or full must not keep a group from going on.
"""

import logging
from collections.abc import Iterator, Sequence

from millpond.base.errors import MillpondError, UnreadableBatch
from millpond.base.ids import TopicPartition
from millpond.base.limits import APPENDED_DECOMPRESSED_BYTES_MAX
from millpond.cursor.dead_letter import DeadLetter, Reason
from millpond.engine.share.services import ShareServices
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import Record, decode_stored
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

_READ_BYTES = 1024 * 1024

_REASONS = {
    Reason.REJECTED: "the record was rejected by a consumer",
    Reason.DELIVERIES: "the record was delivered as often as it may be",
}


def bury(
    services: ShareServices,
    partition: Partition,
    letters: Sequence[DeadLetter],
    *,
    group_id: str,
    topic: str,
) -> int:
    """Copy these records to the topic for dead letters; how many were, or are on their way."""
    place = f"{partition.topic}-{partition.index}"
    buried = 0
    for letter in letters:
        try:
            topics = services.metadata.image.topics
            count = len(topics[topic].partitions) if topic in topics else 0
            if not count:
                log.warning(
                    "group=%s partition=%s: records %d to %d are given up without a copy: "
                    "there is no topic %s",
                    group_id,
                    place,
                    letter.first,
                    letter.next - 1,
                    topic,
                )
                continue
            copies = [
                (
                    record.timestamp,
                    record.key,
                    record.value,
                    (*record.headers, *_notes(partition, record, letter, group_id)),
                )
                for record in _records(services, partition, letter)
            ]
            if copies:
                batch = build_batch(copies)
                home = TopicPartition(topic, _home(services, topic, partition.index % count))
                if _is_led_here(services, home):
                    services.partitions.append(*home, batch, acks=-1, internal=True)
                else:
                    services.runtime.tasks.spawn(
                        _send(services, home, bytes(batch), f"group={group_id} partition={place}"),
                        name="dead letters",
                    )
                buried += len(copies)
        except MillpondError as error:
            log.warning(
                "group=%s partition=%s: records %d to %d are given up without a copy: %s",
                group_id,
                place,
                letter.first,
                letter.next - 1,
                error,
            )
    return buried


def _home(services: ShareServices, topic: str, preferred: int) -> int:
    """A partition of the topic for dead letters that this node leads; the preferred one if it can be."""
    node = services.info.node_id
    states = services.metadata.image.topics[topic].partitions
    turned = [*range(preferred, len(states)), *range(preferred)]
    return next((index for index in turned if states[index].leader == node), preferred)


def _is_led_here(services: ShareServices, home: TopicPartition) -> bool:
    states = services.metadata.image.topics[home.topic].partitions
    return states[home.partition].leader == services.info.node_id


async def _send(services: ShareServices, home: TopicPartition, batch: bytes, whose: str) -> None:
    try:
        await services.partition_calls.append(home, batch)
    except MillpondError as error:
        log.warning("%s: records are given up without a copy: %s", whose, error)


def _notes(
    partition: Partition, record: Record, letter: DeadLetter, group_id: str
) -> tuple[tuple[str, bytes], ...]:
    return (
        ("__dlq.errors.topic", partition.topic.encode()),
        ("__dlq.errors.partition", str(partition.index).encode()),
        ("__dlq.errors.offset", str(record.offset).encode()),
        ("__dlq.errors.group", group_id.encode()),
        ("__dlq.errors.delivery.count", str(letter.deliveries).encode()),
        ("__dlq.errors.message", _REASONS[letter.reason].encode()),
    )


def _records(services: ShareServices, partition: Partition, letter: DeadLetter) -> Iterator[Record]:
    offset = max(letter.first, partition.log.start_offset)
    while offset < letter.next:
        data = services.partitions.read_now(partition, offset, bytes_max=_READ_BYTES).records
        after = offset
        for position, header in iter_batches(data):
            after = header.next_offset
            if header.base_offset >= letter.next:
                return
            if header.is_control:
                continue
            try:
                records = decode_stored(data, position, limit=APPENDED_DECOMPRESSED_BYTES_MAX)
            except UnreadableBatch as error:
                log.warning("partition=%r: given up without a copy: %s", partition, error)
                continue
            for record in records:
                if offset <= record.offset < letter.next:
                    yield record
        if after == offset:
            return
        offset = after
