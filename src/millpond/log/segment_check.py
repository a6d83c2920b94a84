"""One pass over a segment that may hold anything: what is sound, where it ends, what is damaged.

Every batch is checked (size, format, checksum, offsets) and noted in the segment's indexes, in the producers
and in the epochs, as if it were appended now. Where the check fails above the recovery point, the segment
ends (``torn``); below it, the damage is noted and stepped over. The caller decides what to do about either.
"""

from millpond.base.ids import Offset
from millpond.base.limits import SEGMENT_OFFSET_SPAN_MAX
from millpond.log.leader_epochs import LeaderEpochs
from millpond.log.producer_state import ProducerState
from millpond.log.replay import replay_producer
from millpond.log.scan import BrokenChain, find_batch, iter_data
from millpond.log.segment import Damage, Segment
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader, check_crc


class SegmentCheck:
    """One pass over a segment that may hold anything."""

    def __init__(
        self,
        segment: Segment,
        epochs: LeaderEpochs,
        producers: ProducerState,
        *,
        recovery_point: Offset,
        offset_bound: Offset | None,
        gaps_below: Offset,
    ) -> None:
        self._segment = segment
        self._epochs = epochs
        self._producers = producers
        self._recovery_point = recovery_point
        self._gaps_below = gaps_below
        span_end = segment.base_offset + SEGMENT_OFFSET_SPAN_MAX + 1
        self._offset_bound = span_end if offset_bound is None else min(offset_bound, span_end)
        self._aborted: list[AbortedTransaction] = []
        self.damage: list[Damage] = []
        self.torn: BrokenChain | None = None

    def run(self) -> None:
        """Note every sound batch in the segment's indexes; stop at a torn tail, step over damage."""
        segment = self._segment
        segment.begin_rebuild()
        segment.damage = ()
        position = 0
        while position < segment.size:
            try:
                for at, header, data in iter_data(segment.log, position):
                    position = at
                    self._check(at, header, data)
                    self._note(at, header, data)
                break
            except BrokenChain as broken:
                if segment.next_offset >= self._recovery_point:
                    self.torn = broken
                    break
                position = self._step_over(broken)
        segment.txn_index.rewrite(self._aborted)

    def _check(self, position: int, header: BatchHeader, data: memoryview) -> None:
        if not check_crc(data, 0, header):
            raise BrokenChain(
                position, f"wrong checksum of the batch at offset {header.base_offset}"
            )
        expected = self._segment.next_offset
        # The base offset is not under the checksum: what stands before it must say that it is right.
        follows = header.base_offset == expected or (
            expected < header.base_offset <= self._gaps_below
        )
        if not follows or header.last_offset >= self._offset_bound:
            raise BrokenChain(
                position,
                f"offsets {header.base_offset} to {header.last_offset} where {expected} must follow",
            )

    def _note(self, position: int, header: BatchHeader, data: memoryview) -> None:
        self._segment.note(position, header.size, header.last_offset, header.max_timestamp)
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset, save=False)
        aborted = replay_producer(self._producers, header, data)
        if aborted is not None:
            self._aborted.append(aborted)

    def _step_over(self, broken: BrokenChain) -> int:
        """Find the next sound batch after damage, note the damage, answer where to go on."""
        segment = self._segment
        first_offset = segment.next_offset
        found = find_batch(
            segment.log,
            broken.position + 1,
            offset_min=first_offset,
            offset_bound=self._offset_bound,
        )
        if found is None:
            # Offsets up to the next segment, or to the recovery point, were stored here.
            end, next_offset = segment.size, max(self._recovery_point, first_offset)
            next_offset = min(next_offset, self._offset_bound)
        else:
            end, next_offset = found
        segment.next_offset = next_offset
        self.damage.append(Damage(broken.position, end, first_offset, next_offset, broken.reason))
        return end
