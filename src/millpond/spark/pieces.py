"""What both ways of reading hand to the decoder."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Batches as they lie in the log, and which transactions in them were aborted.

    ``aborted`` holds producer id and first offset of each, as Kafka's Fetch answers them.
    """

    data: memoryview
    aborted: tuple[tuple[int, int], ...]
    next_offset: int
