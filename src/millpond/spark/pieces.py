"""The value that both ways of reading pass to the decoder."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Batches as they are in the log, and the aborted transactions in them.

    ``aborted`` holds producer id and first offset of each, as in Kafka's fetch responses.
    """

    data: memoryview
    aborted: tuple[tuple[int, int], ...]
    next_offset: int
