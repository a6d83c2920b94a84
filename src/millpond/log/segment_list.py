"""The segments of a log in order: finds the one that holds an offset, and reads from it.

Rules:

* Segments are in the order of their base offsets; the last one is active, the others are closed.
* A read stays within one segment and takes one call to the disk once the position is known.
* Bytes that were written and not yet synced were checked on their way in and are in the page cache.
  Everything else may have come from a disk, so it is checked on every read; damage is recorded and refused.

It knows nothing of producers, epochs or flushing.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.base.ids import Offset, TimestampMs, TopicPartition
from millpond.log.chain import BrokenChain, SteppedBack, find_bad_batch
from millpond.log.damage import write_damage
from millpond.log.segment import Damage, Found, Segment, TimedOffset
from millpond.log.storage import Storage
from millpond.record.batch import HEADER_BYTES, LAST_OFFSET_DELTA_OFFSET

_log = logging.getLogger(__name__)

_LAST_OFFSET_DELTA = slice(LAST_OFFSET_DELTA_OFFSET, LAST_OFFSET_DELTA_OFFSET + 4)


class ReadSlice(NamedTuple):
    """Batches as bytes. The last may be incomplete, as in every fetch response."""

    data: bytes
    first_batch_offset: Offset  # of the first batch, which may begin before the requested offset
    position: int  # in the segment's file; -1 if there was nothing to read


NOTHING = ReadSlice(b"", -1, -1)


# Missing ranges of one log that the node's log reports; a truncated file may have many more.
_TOLD_MAX = 100


class SegmentList:
    """Segments and their base offsets in parallel lists."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        topic_partition: TopicPartition,
        segments: list[Segment],
        *,
        on_damage: Callable[[TopicPartition], None],
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._topic_partition = topic_partition
        self._on_damage = on_damage
        self.items = segments
        # Ranges that were reported as missing: once each, up to a maximum.
        self._told: set[tuple[Offset, Offset]] = set()
        self.bases: list[Offset] = [segment.base_offset for segment in segments]

    @property
    def damage(self) -> list[Damage]:
        """The ranges that are known to be unreadable."""
        return [damage for segment in self.items for damage in segment.damage]

    # --- changing -----------------------------------------------------------------------------

    def push(self, segment: Segment) -> None:
        """Add a new active segment."""
        assert not self.bases or segment.base_offset > self.bases[-1]
        self.items.append(segment)
        self.bases.append(segment.base_offset)

    def splice(self, first: int, count: int, segments: list[Segment]) -> list[Segment]:
        """Replace segments with others. Return the replaced ones."""
        replaced = self.items[first : first + count]
        self.items[first : first + count] = segments
        self.bases[first : first + count] = [segment.base_offset for segment in segments]
        return replaced

    def slot_of(self, offset: Offset) -> int:
        """Return the index of the segment that holds, or would hold, an offset."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def closed(self) -> list[tuple[Segment, Offset]]:
        """Return the closed segments, each with the base of the next."""
        return list(zip(self.items[:-1], self.bases[1:], strict=True))

    # --- reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        upto: Offset,
        at_least_one: bool,
        end_offset: Offset,
        synced_below: Offset,
        gaps_below: Offset,
    ) -> ReadSlice:
        """Return batches from the one with the offset on. Offsets below ``gaps_below`` may be missing.

        The offset is in the log and below ``upto``. Raises ``CorruptLog``.
        """
        segment = self.items[-1]
        if offset >= segment.base_offset:
            boundary = end_offset
            found = self._find(segment, offset, boundary)
            if found is None:
                segment.check_damage(offset, segment.size, segment.size)
                return NOTHING
        else:
            slot = bisect_right(self.bases, offset) - 1
            segment = self.items[slot]
            boundary = self.bases[slot + 1]
            found = self._find(segment, offset, boundary)
            while found is None:
                # The rest of this segment was removed, by compaction or by damage.
                if segment.damage:
                    segment.check_damage(offset, segment.size, segment.size)
                if offset >= gaps_below:
                    raise self._hole(segment, offset, boundary)
                slot += 1
                if self.bases[slot] >= upto:
                    return NOTHING
                segment = self.items[slot]
                last = slot + 1 == len(self.items)
                boundary = end_offset if last else self.bases[slot + 1]
                found = self._find(segment, segment.base_offset, boundary)
                if found is None and last:
                    return NOTHING
        position, size = found
        end = segment.log.size
        if upto < boundary:
            end = self._find_end(segment, position, upto, boundary)
        if segment.damage:
            end = segment.check_damage(offset, position, end)
        if max_bytes < size and at_least_one:
            max_bytes = size
        max_bytes = min(max_bytes, end - position)
        if max_bytes <= 0:
            return NOTHING
        data = segment.log.read(position, max_bytes)
        is_trusted = offset >= synced_below and segment is self.items[-1]
        is_short = len(data) < max_bytes  # the file was truncated
        whole_to = max_bytes if is_short else (size if size <= max_bytes else 0)
        if (not is_trusted or is_short) and (
            bad := find_bad_batch(data, boundary, gaps_below, whole_to=whole_to)
        ) is not None:
            data = self._before(bad, data, segment, offset, position, boundary)
        first = int.from_bytes(data[:8], "big")
        if len(data) < HEADER_BYTES:
            return ReadSlice(data, first, position)  # the limit is too small for any useful bytes
        if first > offset and (first >= boundary or offset >= gaps_below):
            raise self._hole(segment, offset, min(first, boundary))
        if not is_trusted and first + int.from_bytes(data[_LAST_OFFSET_DELTA], "big") < offset:
            raise self._hole(segment, offset, offset + 1)
        return ReadSlice(data, first, position)

    def offset_for_time(
        self, timestamp_ms: TimestampMs, start_offset: Offset
    ) -> TimedOffset | None:
        """Return the first record that is not earlier than the time given."""
        for segment in self.items:
            if segment.largest_timestamp() >= timestamp_ms:
                found = segment.find_time(timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp(self, start_offset: Offset) -> TimedOffset | None:
        """Return the record with the largest time; the first one if several have it."""
        segments = [segment for segment in self.items if segment.size]
        if not segments:
            return None
        latest = max(segments, key=lambda segment: segment.largest_timestamp())
        if latest.largest_timestamp() < 0:
            return None
        return latest.find_time(latest.largest_timestamp(), start_offset)

    def _find(self, segment: Segment, offset: Offset, boundary: Offset) -> Found | None:
        """Return the batch that holds the offset; damage on the way to it is recorded."""
        try:
            return segment.find(offset)
        except BrokenChain as broken:
            self._note_damage(segment, broken, boundary)
            segment.check_damage(offset, broken.position, broken.position)
            return segment.find(offset)

    def _find_end(self, segment: Segment, position: int, upto: Offset, boundary: Offset) -> int:
        """Return where the batch begins that holds ``upto``; damage on the way to it ends the read before."""
        try:
            bound = segment.find(upto)
        except BrokenChain as broken:
            self._note_damage(segment, broken, boundary)
            return max(position, broken.position)
        return segment.log.size if bound is None else bound.position

    def _before(
        self,
        bad: BrokenChain,
        data: bytes,
        segment: Segment,
        offset: Offset,
        position: int,
        boundary: Offset,
    ) -> bytes:
        """Return the bytes before a bad batch. Raises ``CorruptLog`` if there are none."""
        if isinstance(bad, SteppedBack):
            sound = bad.position
            first = int.from_bytes(data[:8], "big")
            if not sound and segment.expected_at(position, first) == first:
                sound = (
                    bad.wrong
                )  # Two contradict each other, and the batches before confirm the first.
            if not sound:
                raise self._hole(segment, offset, offset + 1)
            self.suspect(segment)
            return data[:sound]
        broken = BrokenChain(position + bad.position, bad.reason)
        self._note_damage(segment, broken, boundary)
        found = data[: segment.check_damage(offset, position, broken.position) - position]
        if not found:
            raise self._hole(segment, offset, offset + 1)
        return found

    def _note_damage(self, segment: Segment, broken: BrokenChain, boundary: Offset) -> None:
        """Record damage of a segment and log it."""
        damage = segment.note_damage(broken, boundary)
        _log.error(
            "partition=%s: %s is damaged: offsets %d to %d cannot be served (bytes %d to %d: %s)",
            self._topic_partition,
            segment.log_path,
            damage.first_offset,
            damage.next_offset - 1,
            damage.position,
            damage.end,
            damage.reason,
        )
        self.save_damage()
        self._on_damage(self._topic_partition)

    def save_damage(self) -> None:
        """Write the damage file. If that fails, the next read there finds the damage again."""
        try:
            write_damage(self._storage, self._directory, self.items)
        except StorageFailure as failure:
            _log.warning(
                "partition=%s: cannot write down the damage: %s", self._topic_partition, failure
            )

    def suspect(self, segment: Segment) -> None:
        """Mark a segment as suspect: only a check of all of it shows what is wrong."""
        if not segment.is_suspect:
            segment.is_suspect = True
            self._on_damage(self._topic_partition)

    def _hole(self, segment: Segment, offset: Offset, next_offset: Offset) -> CorruptLog:
        self.suspect(segment)
        if (offset, next_offset) not in self._told and len(self._told) < _TOLD_MAX:
            self._told.add((offset, next_offset))
            _log.error(
                "partition=%s: offsets %d to %d were stored and are missing, behind %s; not served",
                self._topic_partition,
                offset,
                next_offset - 1,
                segment.log_path,
            )
        return CorruptLog(
            f"{self._topic_partition}: offsets {offset} to {next_offset - 1} were stored and are missing. "
            f"Read on from offset {next_offset}, restore the files from a replica or a backup, or give the "
            "range up with DeleteRecords",
            next_offset=next_offset,
        )
