"""Reads batches of partitions from given positions, one long poll ahead of the reader.

A ``Fetcher`` keeps one fetch in flight to each leader (``_fetch_loop.py``), on its own connection, and starts
the next as soon as one is answered, so that reading overlaps with waiting. It returns whole batches; records
are decoded only when the application asks a batch for them.

Memory is bounded by two responses of ``max_bytes`` for each leader. Positions move when batches are returned,
and between moving them and returning there is no ``await``: cancelling a read loses nothing.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Self

from millpond.base.errors import CorruptBatch, UnreadableBatch
from millpond.base.ids import TopicPartition
from millpond.client._fetch_loop import FetchLimits, FetchLoop, RawFetch
from millpond.client.admin import EARLIEST, LATEST, Admin
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused
from millpond.record import (
    BatchHeader,
    Record,
    check_crc,
    iter_batches,
)
from millpond.record.aborted import AbortedTransactions
from millpond.record.records import decode_stored


class Isolation(IntEnum):
    """Which transactional records are visible."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class WhenOutOfRange(IntEnum):
    """What to do at a position that is not in the log."""

    RAISE = 0
    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(slots=True, kw_only=True)
class FetchedBatch:
    """One batch as it is in the log, and the log's end."""

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    from_offset: int
    high_watermark: int

    def records(self) -> list[Record]:
        """Decode the records from the requested position on; a batch may begin before it.

        Raises ``UnreadableBatch`` for a batch that does not decode; its ``next_offset`` is where to continue.
        """
        try:
            records = decode_stored(self.data)
        except UnreadableBatch as error:
            raise UnreadableBatch(
                f"{self.partition}: {error}; seek to {error.next_offset} to go on behind them",
                first_offset=error.first_offset,
                next_offset=error.next_offset,
            ) from None
        if self.from_offset > self.header.base_offset:
            return [record for record in records if record.offset >= self.from_offset]
        return records


class Fetcher:
    """Reads partitions from given offsets. Use as ``async with Fetcher(...) as fetcher:``."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        when_out_of_range: WhenOutOfRange = WhenOutOfRange.RAISE,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 16 * 1024 * 1024,
        partition_bytes: int = 1024 * 1024,
        check_crcs: bool = True,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._when_out_of_range = when_out_of_range
        self._check_crcs = check_crcs
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, int] = {}
        self._found: list[FetchedBatch] = []
        self._loop = FetchLoop(
            cluster,
            positions,
            FetchLimits(
                isolation_level=isolation,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                partition_bytes=partition_bytes,
            ),
            lane=f"fetch {id(self)}",
            take=self._take,
            move=self._reset if when_out_of_range else None,
            timeout_s=max_wait_ms / 1000 + cluster.timeout_s,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching and close the connections for it."""
        await self._loop.close()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Return the next offset of each partition."""
        return self._loop.positions

    @property
    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """Return the end of each log as its leader last reported it; unknown ones are missing."""
        return self._high_watermarks

    def at_end(self, partitions: Iterable[TopicPartition] | None = None) -> bool:
        """Return whether everything up to the last reported high watermarks has been returned."""
        return all(
            self.positions[partition] >= self._high_watermarks.get(partition, 2**63)
            for partition in (self.positions if partitions is None else partitions)
        )

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue at other positions; pending fetches are dropped."""
        await self._loop.seek(positions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from now on; pending fetches are dropped unless they still fit."""
        await self._loop.assign(positions)
        self._high_watermarks = {
            place: end for place, end in self._high_watermarks.items() if place in positions
        }

    def take_resets(self) -> dict[TopicPartition, int]:
        """Return the new positions of partitions that were out of range, since the last call."""
        resets, self._resets = self._resets, {}
        return resets

    def drop(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        self._loop.positions.pop(partition, None)
        self._high_watermarks.pop(partition, None)

    async def batches(self) -> list[FetchedBatch]:
        """Return the next batches of any partitions; empty after ``max_wait_ms`` without any.

        Raises ``BrokerRefused`` for errors that a retry does not cure (no such topic, an offset out of
        range), ``OutOfTime`` when the leaders cannot be reached for the cluster's time-out, and
        ``CorruptBatch``. Batches of other partitions that came with an error are returned first.
        """
        while self.positions:
            await self._loop.step()
            found, self._found = self._found, []
            if found or not self._loop.has_obstacle:
                return found
        return []

    async def records(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        """Yield every record, one by one, for ever; simpler and slower than ``batches``."""
        while True:
            for batch in await self.batches():
                for record in batch.records():
                    yield batch.partition, record

    # --- internals ---

    def _take(self, response: RawFetch, position: int) -> int:
        """Add the response's batches to those found. Return the next position."""
        partition, data = response.partition, response.data
        self._high_watermarks[partition] = response.high_watermark
        is_committed = self._isolation is Isolation.READ_COMMITTED
        aborted = AbortedTransactions(response.aborted) if is_committed else None
        for at, header in iter_batches(data):
            if header.next_offset <= position:
                continue
            if self._check_crcs and not check_crc(data, at, header):
                raise CorruptBatch(f"{partition}: batch at {header.base_offset} is damaged")
            batch = data[at : at + header.size]
            hidden = header.is_control
            if aborted is not None:
                hidden = aborted.hides(header, batch) or hidden
            if not hidden:
                self._found.append(
                    FetchedBatch(
                        partition=partition,
                        header=header,
                        data=batch,
                        from_offset=position,
                        high_watermark=response.high_watermark,
                    )
                )
            position = header.next_offset
        return position

    async def _reset(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the starts or the ends of logs whose positions are out of range."""
        asked = dict.fromkeys(partitions, int(self._when_out_of_range))
        positions: dict[TopicPartition, int] = {}
        for partition, found in (await Admin(self._cluster).list_offsets(asked)).items():
            if isinstance(found, BrokerRefused):
                raise found
            positions[partition] = found.offset
        self._resets.update(positions)
        return positions
