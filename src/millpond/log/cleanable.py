"""Decides whether a log is compacted now, and how far. Nothing is rewritten here."""

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.base.ids import Offset, TimestampMs
from millpond.log.config import LogConfig
from millpond.log.segment import Segment


@dataclass(frozen=True, slots=True)
class Source:
    """A closed segment as seen by a compaction plan."""

    base_offset: Offset
    next_base: Offset
    size: int


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The segments of a pass, and the offset at which the pass ends."""

    sources: list[Source]
    bound: Offset


def find_cleanable(
    closed: Sequence[tuple[Segment, Offset]],
    config: LogConfig,
    *,
    first_dirty: Offset,
    stable: Offset,
    now_ms: TimestampMs,
) -> Cleanable | None:
    """Return what a pass over closed segments, each with the base of the next, would rewrite; None: not now.

    Below ``first_dirty`` the log is compacted; below ``stable`` everything is decided and replicated.
    """
    if not closed or any(segment.damage for segment, _ in closed):
        return None
    bound = _first_uncleanable(closed, config, stable=stable, now_ms=now_ms)
    if not _is_worthwhile(closed, config, first_dirty=first_dirty, bound=bound, now_ms=now_ms):
        return None
    sources = [
        Source(segment.base_offset, next_base, segment.size)
        for segment, next_base in closed
        if segment.base_offset < bound
    ]
    return Cleanable(sources, bound)


def _first_uncleanable(
    closed: Sequence[tuple[Segment, Offset]],
    config: LogConfig,
    *,
    stable: Offset,
    now_ms: TimestampMs,
) -> Offset:
    """Return the base of the first segment that this pass must skip.

    That is one with open transactions or unreplicated records, one younger than ``min.compaction.lag.ms``, or
    the active one. Segments come with the base of the next.
    """
    for segment, next_base in closed:
        young = (
            config.min_compaction_lag_ms > 0
            and segment.largest_timestamp() > now_ms - config.min_compaction_lag_ms
        )
        if next_base > stable or young:
            return segment.base_offset
    return closed[-1][1]


def _is_worthwhile(
    closed: Sequence[tuple[Segment, Offset]],
    config: LogConfig,
    *,
    first_dirty: Offset,
    bound: Offset,
    now_ms: TimestampMs,
) -> bool:
    """Return whether enough is dirty (``min.cleanable.dirty.ratio``), or something has been dirty for too
    long.
    """
    candidates = [pair for pair in closed if pair[0].base_offset < bound]
    dirty = [segment for segment, next_base in candidates if next_base > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    if dirty_bytes == 0:
        return False
    total = sum(segment.size for segment, _ in candidates)
    if dirty_bytes / total > config.min_cleanable_dirty_ratio:
        return True
    began = [stamp for segment in dirty if (stamp := segment.first_timestamp()) > 0]
    return bool(began) and now_ms - min(began) > config.max_compaction_lag_ms
