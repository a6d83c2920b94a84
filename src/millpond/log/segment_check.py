"""One pass over a segment in an unknown state: finds sound batches, the torn tail and damage.

Every batch is checked (size, format, checksum, offsets) and noted in the segment's indexes, in the producers
and in the epochs, as if it were appended now. Where the check fails above the recovery point, the segment
ends (``torn``); below it, the damage is recorded and skipped. The caller decides what to do about either.

A batch behind a gap is noted when another one follows it: nothing else confirms its offset, and one that is
far too high must neither hide the next one nor make it look as if it had never been synced.
"""

from millpond.base.ids import Offset
from millpond.log.chain import BrokenChain, ChainRule, Misplaced, segment_bound
from millpond.log.leader_epochs import LeaderEpochs
from millpond.log.producer_state import ProducerState
from millpond.log.replay import replay_producer
from millpond.log.scan import find_batch, iter_data
from millpond.log.segment import Damage, Segment
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader


class SegmentCheck:
    """One pass over a segment in an unknown state."""

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
        # The base offset is not under the checksum: the batches before it must confirm it.
        self._rule = ChainRule(
            offset_bound=segment_bound(segment.base_offset, offset_bound), gaps_below=gaps_below
        )
        # The last batch, if it is behind a gap.
        self._jumped: tuple[int, BatchHeader, memoryview] | None = None
        self._aborted: list[AbortedTransaction] = []
        self.damage: list[Damage] = []
        self.torn: BrokenChain | None = None

    def run(self) -> None:
        """Note every sound batch in the segment's indexes; stop at a torn tail, skip damage."""
        segment = self._segment
        segment.begin_rebuild()
        segment.damage = ()
        position = 0
        while position < segment.size:
            try:
                for at, header, data in iter_data(segment.log, position):
                    position = at
                    self._take(at, header, data)
                break
            except BrokenChain as broken:
                start = self._damage_start(broken)
                if segment.next_offset >= self._recovery_point:
                    self.torn = broken
                    break
                position = self._step_over(broken, start)
        self._note_jumped()
        segment.txn_index.rewrite(self._aborted)

    def _take(self, position: int, header: BatchHeader, data: memoryview) -> None:
        expected = self._segment.next_offset
        if self._jumped is not None:
            expected = self._jumped[1].next_offset
        self._rule.check(position, header, data, expected)
        self._note_jumped()
        if header.base_offset == expected:
            self._note(position, header, data)
        else:
            self._jumped = position, header, data

    def _note_jumped(self) -> None:
        if self._jumped is not None:
            self._note(*self._jumped)
            self._jumped = None

    def _damage_start(self, broken: BrokenChain) -> int:
        """Return where damage begins. Of a batch that jumps and one that contradicts it, either may be
        wrong.
        """
        is_synced = self._segment.next_offset < self._recovery_point
        contradicts = isinstance(broken, Misplaced) and broken.stepped_back
        if self._jumped is None or not (is_synced and contradicts):
            self._note_jumped()
            return broken.position
        position, self._jumped = self._jumped[0], None
        return position

    def _note(self, position: int, header: BatchHeader, data: memoryview) -> None:
        self._segment.note(position, header.size, header.last_offset, header.max_timestamp)
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset, save=False)
        aborted = replay_producer(self._producers, header, data)
        if aborted is not None:
            self._aborted.append(aborted)

    def _step_over(self, broken: BrokenChain, start: int) -> int:
        """Find the next sound batch after damage and record the damage. Return where to continue."""
        segment = self._segment
        first_offset = segment.next_offset
        found = find_batch(
            segment.log,
            broken.position + 1,
            offset_min=first_offset,
            offset_bound=self._rule.offset_bound,
        )
        if found is None:
            # Offsets up to the next segment, or to the recovery point, were stored here.
            end, next_offset = segment.size, max(self._recovery_point, first_offset)
            next_offset = min(next_offset, self._rule.offset_bound)
        else:
            end, next_offset = found
        segment.next_offset = next_offset
        self.damage.append(Damage(start, end, first_offset, next_offset, broken.reason))
        return end
