"""Rebuilds state from batches: producers, and aborted transactions.

A readable snapshot saves most of the work. Damage in a segment ends the replay of that segment; reads and
verification report it. Nothing here decides anything about the log.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from millpond.base.errors import CorruptLog
from millpond.base.ids import Offset
from millpond.log.chain import ANYWHERE, BrokenChain
from millpond.log.producer_state import ProducerState
from millpond.log.segment import Segment
from millpond.log.snapshots import Snapshots
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader
from millpond.record.control import EndTxnMarker
from millpond.record.records import UNREADABLE, decode_batch

_log = logging.getLogger(__name__)


def rebuild_producers(
    segments: Iterable[Segment], snapshots: Snapshots, *, end_offset: Offset
) -> ProducerState:
    """Return the producers at ``end_offset``: from the latest readable snapshot, and the batches after it."""
    producers = ProducerState()
    for wrong in snapshots.load_latest(producers, end_offset):
        _log.warning("%s; the producers are rebuilt from the batches", wrong)
    if producers.end_offset < end_offset:
        for segment in segments:
            _replay_segment(producers, segment, end_offset)
    producers.advance(end_offset)
    return producers


def replay_producer(
    producers: ProducerState, header: BatchHeader, data: memoryview
) -> AbortedTransaction | None:
    """Apply a batch that is in the log already. Return an aborted transaction that it ended."""
    aborted = None
    if header.producer_id >= 0:
        if not header.is_marker:
            producers.apply(header, header.base_offset)
        elif not header.record_count:
            producers.apply_epoch(header)  # Compaction emptied it, and kept it for this.
        else:
            try:
                marker = EndTxnMarker.parse(decode_batch(data)[0])
                aborted = producers.apply_marker(header, header.base_offset, marker)
            except UNREADABLE:
                pass  # A control record of another kind.
    producers.advance(header.next_offset)
    return aborted


def rebuild_aborted(segments: Sequence[Segment], snapshots: Snapshots) -> list[AbortedTransaction]:
    """Return the aborted transactions whose markers are in the last of the segments, from the batches."""
    *before, segment = segments
    producers = rebuild_producers(before, snapshots, end_offset=segment.base_offset)
    aborted: list[AbortedTransaction] = []
    for _, header, data in segment.iter_data():
        ended = replay_producer(producers, header, data)
        if ended is not None:
            aborted.append(ended)
    return aborted


def derive(
    segments: Sequence[Segment], snapshots: Snapshots, start: Offset
) -> tuple[ProducerState, dict[Offset, list[AbortedTransaction]]]:
    """Return the producers at the end of the segments, and the aborted transactions whose markers are in each
    of those from ``start`` on, by their base offsets. Every batch is checked.

    Raises ``DerivedOverDamage``: nothing is known then.
    """
    producers = ProducerState()
    snapshots.load_latest(producers, start)
    found: dict[Offset, list[AbortedTransaction]] = {}
    bases = [segment.base_offset for segment in segments]
    for segment in segments[max(0, bisect_right(bases, producers.end_offset) - 1) :]:
        if segment.damage or segment.is_suspect:
            raise DerivedOverDamage(segment.base_offset)
        aborted: list[AbortedTransaction] = []
        try:
            _follow_checked(producers, segment, aborted)
        except BrokenChain as broken:
            raise DerivedOverDamage(segment.base_offset) from broken
        if segment.base_offset >= start:
            found[segment.base_offset] = aborted
    return producers, found


class DerivedOverDamage(CorruptLog):
    """A segment cannot be read, so nothing can be derived from it."""

    def __init__(self, base_offset: Offset) -> None:
        super().__init__(f"the segment at {base_offset} cannot be read")
        self.base_offset = base_offset


def _follow_checked(
    producers: ProducerState, segment: Segment, aborted: list[AbortedTransaction]
) -> None:
    expected = segment.base_offset
    for position, header, data in segment.iter_data():
        ANYWHERE.check(position, header, data, expected)
        expected = header.next_offset
        if header.base_offset >= producers.end_offset:
            ended = replay_producer(producers, header, data)
            if ended is not None:
                aborted.append(ended)


def _replay_segment(producers: ProducerState, segment: Segment, end_offset: Offset) -> None:
    """Apply the batches of one segment that the producers have not seen."""
    try:
        found = segment.find(max(producers.end_offset, segment.base_offset))
        if found is None:
            return
        for _, header, data in segment.iter_data(found.position):
            if header.base_offset >= end_offset:
                return
            if header.base_offset >= producers.end_offset:
                replay_producer(producers, header, data)
    except BrokenChain:
        return  # Reads and verification report the damage.
