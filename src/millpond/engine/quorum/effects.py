"""The effects that a step of the replica asks for: their order, and who carries them out."""

from collections import deque
from typing import Protocol

from millpond.base.errors import CorruptBatch, StorageFailure
from millpond.base.ids import Offset
from millpond.raft.messages import Answer, Committed, Effect, FetchAnswer, SnapshotInstalled
from millpond.record.batch import check_crc, iter_batches


class Consequences(Protocol):
    """What becomes of what the replica says."""

    def carry_out(self, effect: Effect) -> None:
        """Do what it asks for; requests to peers are not among that.

        What raises is called again with the same effect, so it must be able to go on where it stopped.
        """
        ...

    def on_damaged(self, offset: Offset, damage: str) -> None:
        """The disk has damaged what this replica is to serve, the fact at this offset among it."""
        ...

    def on_unreadable(self, error: StorageFailure) -> None:
        """The disk cannot be read just now, and another replica asks for what is there."""
        ...

    def on_failed(self, reason: str) -> None:
        """This replica takes part no longer."""
        ...

    def on_suspended(self, reason: str) -> None:
        """It does not because the disk refused a write; it will again when the disk takes writes."""
        ...


def queue_effect(waiting: deque[Effect], effect: Effect) -> None:
    """Put an effect behind those that wait, which it may make superfluous: what is agreed up to a later
    offset includes the earlier one, and a snapshot that has taken the place of the log includes what the log
    no longer has."""
    if isinstance(effect, Committed):
        if waiting and isinstance(waiting[-1], Committed):
            waiting.pop()
    elif isinstance(effect, SnapshotInstalled):
        end = effect.snapshot.end_offset
        kept = [
            one
            for one in waiting
            if not isinstance(one, SnapshotInstalled)
            and not (isinstance(one, Committed) and one.high_watermark <= end)
        ]
        waiting.clear()
        waiting += kept
    waiting.append(effect)


def check_records(answer: Answer) -> None:
    """Raises ``CorruptBatch`` if records came damaged over the network."""
    if isinstance(answer, FetchAnswer) and answer.records:
        for position, header in iter_batches(answer.records):
            if not check_crc(answer.records, position, header):
                raise CorruptBatch(f"wrong checksum at offset {header.base_offset}")
