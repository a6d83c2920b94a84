"""Dead letters of share groups (KIP-1191): copies of records that a group gave up.

A copy keeps key, value, headers and time of the record and says in further headers where it comes from and
why it was given up. It is forwarded to the group's topic for dead letters before the fact that gives the
record up is written. What cannot be copied is logged and left out: a topic that is missing or full must not
keep a group from going on.
"""

import logging
from collections.abc import Iterator, Sequence

from millpond.base.errors import MillpondError, UnreadableBatch
from millpond.base.limits import APPENDED_DECOMPRESSED_BYTES_MAX
from millpond.cursor.dead_letter import DeadLetter, Reason
from millpond.engine.forwarding.forwarder import Dispatch, Forwarder
from millpond.engine.forwarding.topic_destination import TopicDestination
from millpond.engine.share.services import ShareServices
from millpond.record.batch import iter_batches
from millpond.record.builder import NewRecord
from millpond.record.records import Record, decode_stored
from millpond.replication.partition import Partition

log = logging.getLogger(__name__)

_READ_BYTES = 1024 * 1024

_REASONS = {
    Reason.REJECTED: "the record was rejected by a consumer",
    Reason.DELIVERIES: "the record was delivered as often as it may be",
}


def forward_dead_letters(
    services: ShareServices,
    partition: Partition,
    dead_letters: Sequence[DeadLetter],
    *,
    group_id: str,
    topic: str,
) -> int:
    """Copy records to the topic for dead letters. Return how many were copied, or are on their way."""
    destination = TopicDestination(services, topic, partition.index)
    forwarded = 0
    for one in dead_letters:
        source = (
            f"group={group_id} partition={partition.topic}-{partition.index}: "
            f"records {one.first} to {one.next - 1}"
        )
        if not destination.exists:
            log.warning("%s: given up without a copy: there is no %s", source, destination)
            continue
        try:
            copies = [
                _copy(partition, record, one, group_id)
                for record in _records(services, partition, one)
            ]
        except MillpondError as error:
            log.warning("%s: given up without a copy: %s", source, error)
            continue
        forwarder: Forwarder[NewRecord] = Forwarder(source)
        forwarded += forwarder.forward([Dispatch(copies, [destination])] if copies else ())
    return forwarded


def _copy(partition: Partition, record: Record, why: DeadLetter, group_id: str) -> NewRecord:
    notes = (
        ("__dlq.errors.topic", partition.topic.encode()),
        ("__dlq.errors.partition", str(partition.index).encode()),
        ("__dlq.errors.offset", str(record.offset).encode()),
        ("__dlq.errors.group", group_id.encode()),
        ("__dlq.errors.delivery.count", str(why.deliveries).encode()),
        ("__dlq.errors.message", _REASONS[why.reason].encode()),
    )
    return record.timestamp, record.key, record.value, (*record.headers, *notes)


def _records(
    services: ShareServices, partition: Partition, dead_letter: DeadLetter
) -> Iterator[Record]:
    offset = max(dead_letter.first, partition.log.start_offset)
    while offset < dead_letter.next:
        data = services.partitions.read_now(partition, offset, bytes_max=_READ_BYTES).records
        after = offset
        for position, header in iter_batches(data):
            after = header.next_offset
            if header.base_offset >= dead_letter.next:
                return
            if header.is_control:
                continue
            try:
                records = decode_stored(data, position, limit=APPENDED_DECOMPRESSED_BYTES_MAX)
            except UnreadableBatch as error:
                log.warning("partition=%r: given up without a copy: %s", partition, error)
                continue
            for record in records:
                if offset <= record.offset < dead_letter.next:
                    yield record
        if after == offset:
            return
        offset = after
