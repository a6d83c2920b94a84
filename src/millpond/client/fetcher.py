"""Reads batches of partitions from given positions, one long poll ahead of the reader.

A ``Fetcher`` keeps one fetch in flight to each leader, on its own connection, and starts the next as soon as
one is answered, so that reading overlaps with waiting. It returns whole batches; records are decoded only
when the application asks a batch for them.

Memory is bounded by two responses of ``max_bytes`` for each leader. Positions move when batches are returned,
and between moving them and returning there is no ``await``: cancelling a read loses nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Self
from uuid import UUID

from millpond.base.errors import CorruptBatch, MillpondError, UnreadableBatch
from millpond.base.ids import TopicPartition
from millpond.client._attempts import Attempts
from millpond.client.admin import EARLIEST, LATEST, Admin
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ConnectionLost
from millpond.record import (
    BatchHeader,
    MarkerType,
    Record,
    check_crc,
    decode_batch,
    iter_batches,
)
from millpond.record.control import marker_type
from millpond.record.records import decode_stored
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_TOPIC_IDS_FROM = 13
_NO_ID = UUID(int=0)


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
        self._positions = dict(positions)
        self._isolation = isolation
        self._when_out_of_range = when_out_of_range
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self._check_crcs = check_crcs
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._fetches: dict[int, asyncio.Task[FetchResponse]] = {}
        self._leaders: dict[int, list[TopicPartition]] = {}
        self._out_of_range: set[TopicPartition] = set()
        self._resets: dict[TopicPartition, int] = {}
        self._obstacle: MillpondError | None = None
        self._lane = f"fetch {id(self)}"
        self._names: dict[UUID, str] = {}
        self._attempts: Attempts | None = None

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
        fetches = list(self._fetches.values())
        self._fetches.clear()
        for fetch in fetches:
            fetch.cancel()
        if fetches:
            await asyncio.wait(fetches)
        for fetch in fetches:
            if not fetch.cancelled():
                fetch.exception()  # retrieve the exception, so that asyncio does not log it
        self._cluster.close_lane(self._lane)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Return the next offset of each partition."""
        return self._positions

    @property
    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """Return the end of each log as its leader last reported it; unknown ones are missing."""
        return self._high_watermarks

    def at_end(self, partitions: Iterable[TopicPartition] | None = None) -> bool:
        """Return whether everything up to the last reported high watermarks has been returned."""
        return all(
            self._positions[partition] >= self._high_watermarks.get(partition, 2**63)
            for partition in (self._positions if partitions is None else partitions)
        )

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue at other positions; pending fetches are dropped."""
        await self.close()
        self._positions.update(positions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from now on; pending fetches are dropped unless they still fit."""
        if any(self._positions.get(place) != offset for place, offset in positions.items()):
            await self.close()
        self._positions = dict(positions)
        self._out_of_range &= set(positions)
        self._high_watermarks = {
            place: end for place, end in self._high_watermarks.items() if place in positions
        }

    def take_resets(self) -> dict[TopicPartition, int]:
        """Return the new positions of partitions that were out of range, since the last call."""
        resets, self._resets = self._resets, {}
        return resets

    def drop(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        self._positions.pop(partition, None)
        self._high_watermarks.pop(partition, None)

    async def batches(self) -> list[FetchedBatch]:
        """Return the next batches of any partitions; empty after ``max_wait_ms`` without any.

        Raises ``BrokerRefused`` for errors that a retry does not cure (no such topic, an offset out of
        range), ``OutOfTime`` when the leaders cannot be reached for the cluster's time-out, and
        ``CorruptBatch``. Batches of other partitions that came with an error are returned first.
        """
        if not self._positions:
            return []
        try:
            if self._obstacle is not None:
                obstacle, self._obstacle = self._obstacle, None
                raise obstacle
            await self._reset_positions()
            await self._start_fetches()
        except (ConnectionLost, BrokerRefused) as error:
            if isinstance(error, BrokerRefused) and error.is_final:
                raise
            await self._stumble(error)
            return []
        await asyncio.wait(self._fetches.values(), return_when=asyncio.FIRST_COMPLETED)
        found: list[FetchedBatch] = []
        for leader in [leader for leader, fetch in self._fetches.items() if fetch.done()]:
            try:
                self._take(self._fetches.pop(leader).result(), found)
            except MillpondError as error:
                self._obstacle = error
        if self._obstacle is None:
            self._attempts = None
            self._fetch_ahead()
        elif not found:
            return await self.batches()
        return found

    async def records(self) -> AsyncIterator[tuple[TopicPartition, Record]]:
        """Yield every record, one by one, for ever; simpler and slower than ``batches``."""
        while True:
            for batch in await self.batches():
                for record in batch.records():
                    yield batch.partition, record

    # --- internals ---

    async def _start_fetches(self) -> None:
        """Start a fetch to every leader that has none in flight."""
        leaders: dict[int, list[TopicPartition]] = {}
        for partition in self._positions:
            leaders.setdefault(await self._cluster.leader_of(partition), []).append(partition)
        self._leaders = leaders
        self._fetch_ahead()

    def _fetch_ahead(self) -> None:
        """Start fetches to the leaders that are known, without waiting."""
        for leader, partitions in self._leaders.items():
            wanted = {
                partition: self._positions[partition]
                for partition in partitions
                if partition in self._positions and partition not in self._out_of_range
            }
            if wanted and leader not in self._fetches:
                self._fetches[leader] = asyncio.get_running_loop().create_task(
                    self._fetch(leader, wanted), name=f"fetch from {leader}"
                )

    async def _fetch(self, leader: int, wanted: dict[TopicPartition, int]) -> FetchResponse:
        connection = await self._cluster.connection_to(leader, lane=self._lane)
        topics: dict[str, FetchTopic] = {}
        named_by_id = True
        for partition, position in wanted.items():
            topic = topics.get(partition.topic)
            if topic is None:
                info = await self._cluster.topic(partition.topic)
                named_by_id = named_by_id and info.topic_id != _NO_ID
                self._names[info.topic_id] = info.name
                topic = FetchTopic(topic=info.name, topic_id=info.topic_id)
                topics[partition.topic] = topic
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=position,
                    partition_max_bytes=self._partition_bytes,
                )
            )
        version = connection.version_of(
            ApiKey.FETCH, at_most=None if named_by_id else _TOPIC_IDS_FROM - 1
        )
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            topics=list(topics.values()),
        )
        timeout_s = self._max_wait_ms / 1000 + self._cluster.timeout_s
        attempts = self._cluster.attempts(
            f"reading from broker {leader}", timeout_s, request_s=timeout_s
        )
        async with attempts.limit(connection):
            answer: FetchResponse = await connection.request(ApiKey.FETCH, request, version=version)
        if answer.error_code != ErrorCode.NONE:
            raise BrokerRefused(answer.error_code)
        return answer

    def _take(self, answer: FetchResponse, found: list[FetchedBatch]) -> None:
        """Add the response's batches; raise the first error after all partitions were processed."""
        error: MillpondError | None = None
        for topic in answer.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for item in topic.partitions:
                partition = TopicPartition(name, item.partition_index)
                if partition not in self._positions:
                    continue  # dropped meanwhile
                try:
                    self._take_partition(partition, item, found)
                except MillpondError as problem:
                    error = problem if error is None else error
        if error is not None:
            raise error

    def _take_partition(
        self, partition: TopicPartition, item: PartitionData, found: list[FetchedBatch]
    ) -> None:
        if item.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._when_out_of_range:
            self._out_of_range.add(partition)
            return
        if item.error_code != ErrorCode.NONE:
            raise BrokerRefused(item.error_code, subject=str(partition))
        self._high_watermarks[partition] = item.high_watermark
        if not item.records:
            return
        data = memoryview(item.records)
        position = self._positions[partition]
        aborted = _Aborted(item) if self._isolation is Isolation.READ_COMMITTED else None
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
                found.append(
                    FetchedBatch(
                        partition=partition,
                        header=header,
                        data=batch,
                        from_offset=position,
                        high_watermark=item.high_watermark,
                    )
                )
            position = header.next_offset
        self._positions[partition] = position

    async def _reset_positions(self) -> None:
        """Reset positions that are out of range to the start or the end of their logs."""
        if not self._out_of_range:
            return
        asked = {at: int(self._when_out_of_range) for at in self._out_of_range}
        for partition, found in (await Admin(self._cluster).list_offsets(asked)).items():
            if isinstance(found, BrokerRefused):
                raise found
            self._positions[partition] = self._resets[partition] = found.offset
        self._out_of_range.clear()

    async def _stumble(self, error: ConnectionLost | BrokerRefused) -> None:
        """Forget the leaders and wait, a little longer each time. Raises errors that are final."""
        if self._attempts is None:
            self._attempts = self._cluster.attempts("reading")
        for partition in self._positions:
            self._cluster.forget_topic(partition.topic)
        await self._attempts.after(error)


class _Aborted:
    """Tracks which producers are inside an aborted transaction, batch by batch, in one response."""

    def __init__(self, item: PartitionData) -> None:
        transactions = item.aborted_transactions or []
        self._coming = sorted(
            ((entry.first_offset, entry.producer_id) for entry in transactions), reverse=True
        )
        self._within: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether ``read_committed`` hides this batch."""
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._within.add(self._coming.pop()[1])
        if header.is_control:
            if any(marker_type(record) == MarkerType.ABORT for record in decode_batch(batch)):
                self._within.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._within
