"""What a task would read, without Arrow: the values in the pieces that a reader hands to the decoder."""

from collections.abc import Iterable
from struct import unpack_from

from millpond.record.columns import iter_columns
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Range


def values(pieces: Iterable[Fetched], wanted: Range) -> list[tuple[int, str]]:
    """Offset and value of every record of a range."""
    found: list[tuple[int, str]] = []
    for piece in pieces:
        for columns in iter_columns(
            piece.data, first=wanted.first, end=wanted.end, aborted=piece.aborted
        ):
            offsets = unpack_from(f"{columns.count}q", columns.offsets)
            ends = unpack_from(f"{columns.count + 1}i", columns.values.offsets)
            data = bytes(columns.values.data)
            found += [
                (offset, data[ends[row] : ends[row + 1]].decode())
                for row, offset in enumerate(offsets)
            ]
    return found
