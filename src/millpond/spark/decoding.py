"""Records of what was fetched as columns, and what happens to batches whose records cannot be read."""

from collections.abc import Iterator

from millpond.base.errors import UnreadableBatch
from millpond.record.columns import Columns, iter_columns
from millpond.spark.loss import LossPolicy
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Lost, Range, Reason


def readable_columns(
    wanted: Range, fetched: Fetched, lose: LossPolicy, *, headers: bool, check_crcs: bool
) -> Iterator[Columns]:
    """What was fetched, without the batches that cannot be read, if the query may go on without them."""
    position, end = wanted.first, wanted.end
    unreadable: UnreadableBatch | None = None
    while True:
        try:
            for columns in iter_columns(
                fetched.data,
                first=position,
                end=end if unreadable is None else unreadable.first_offset,
                headers=headers,
                microseconds=True,
                aborted=fetched.aborted,
                check_crcs=check_crcs,
            ):
                yield columns
                position = max(position, columns.next_offset)
        except UnreadableBatch as error:
            # What lies before it in the same chunk was not given out yet: once more, up to there.
            unreadable = error
            lose([_unreadable(wanted, error)])
        else:
            if unreadable is None:
                return
            position, unreadable = unreadable.next_offset, None


def _unreadable(wanted: Range, error: UnreadableBatch) -> Lost:
    return Lost(
        topic=wanted.topic,
        partition=wanted.partition,
        first=max(error.first_offset, wanted.first),
        end=min(error.next_offset, wanted.end),
        reason=Reason.UNREADABLE,
    )
