"""Decodes fetched records into columns, and handles batches whose records cannot be read."""

from collections.abc import Iterator

from millpond.base.errors import UnreadableBatch
from millpond.record.columns import Columns, iter_columns
from millpond.spark.loss import LossPolicy
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Lost, Range, Reason


def readable_columns(
    wanted: Range, fetched: Fetched, lose: LossPolicy, *, headers: bool, check_crcs: bool
) -> Iterator[Columns]:
    """Yield the fetched columns without the batches that cannot be read, if the query may skip them."""
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
            # The records before it in the same chunk were not yielded yet: decode again, up to there.
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
