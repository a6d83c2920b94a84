"""Dead letters of share groups (KIP-1191): copies of records that a group gave up.

A copy keeps key, value, headers and time of the record and says in further headers where it comes from and
why it was given up. It goes to a partition that this node leads, before the fact that gives the record up is
written; where this node leads none, to another leader, which is asked again for a while. What cannot be
copied is reported and left out: a topic that is missing or full must not keep a group from going on.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from millpond.base.errors import MillpondError, UnreadableBatch
from millpond.base.ids import TopicPartition
from millpond.base.limits import APPENDED_DECOMPRESSED_BYTES_MAX
from millpond.cursor.dead_letter import DeadLetter, Reason
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import Record, decode_stored
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)

_READ_BYTES = 1024 * 1024

_REASONS = {
    Reason.REJECTED: "the record was rejected by a consumer",
    Reason.DELIVERIES: "the record was delivered as often as it may be",
}


def bury(
    engine: "Engine",
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
            count = (
                len(engine.image.topics[topic].partitions) if topic in engine.image.topics else 0
            )
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
                for record in _records(engine, partition, letter)
            ]
            if copies:
                batch = build_batch(copies)
                home = TopicPartition(topic, _home(engine, topic, partition.index % count))
                if _is_led_here(engine, home):
                    engine.append(*home, batch, acks=-1, internal=True)
                else:
                    engine.tasks.spawn(
                        _send(engine, home, bytes(batch), f"group={group_id} partition={place}"),
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


def _home(engine: "Engine", topic: str, preferred: int) -> int:
    """A partition of the topic for dead letters that this node leads; the preferred one if it can be."""
    node = engine.node.node_id
    states = engine.image.topics[topic].partitions
    turned = [*range(preferred, len(states)), *range(preferred)]
    return next((index for index in turned if states[index].leader == node), preferred)


def _is_led_here(engine: "Engine", home: TopicPartition) -> bool:
    states = engine.image.topics[home.topic].partitions
    return states[home.partition].leader == engine.node.node_id


async def _send(engine: "Engine", home: TopicPartition, batch: bytes, whose: str) -> None:
    try:
        await engine.partition_calls.append(home, batch)
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


def _records(engine: "Engine", partition: Partition, letter: DeadLetter) -> Iterator[Record]:
    offset = max(letter.first, partition.log.start_offset)
    while offset < letter.next:
        data = engine.read_now(partition, offset, bytes_max=_READ_BYTES).records
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
