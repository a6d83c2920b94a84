"""The client's one way to fetch: a request to a leader, and the loop that repeats it.

``ask_leader`` sends one Fetch and returns its response by partition. ``FetchLoop`` keeps the positions, finds
the leaders, keeps at most one fetch in flight to each of them, waits and tries again when leaders move or are
away, and has positions that are out of range moved. Its users decide what to do with the data: they are
``Fetcher`` (batches for consumers) and Spark's reader of a range; ``fetch_raw`` sends single fetches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.client._admin_model import by_topic
from millpond.client._attempts import Attempts
from millpond.client._connection import Connection
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ConnectionLost, NoBroker
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

# From this version of Fetch on, topics are named by id.
_TOPIC_IDS_FROM = 13
_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What a fetch returns at most, and how long the leader waits for the least."""

    isolation_level: int = 0
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFetch:
    """A leader's response for one partition. ``data`` may end within a batch."""

    partition: TopicPartition
    data: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]  # producer id, first offset
    throttle_ms: int = 0  # the pause before the next fetch, because of a quota


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderResponse:
    """A leader's response. One that is throttled may leave out partitions."""

    partitions: dict[TopicPartition, RawFetch | BrokerRefused]
    throttle_ms: int


async def ask_leader(
    cluster: Cluster,
    connection: Connection,
    positions: Mapping[TopicPartition, int],
    limits: FetchLimits,
    *,
    attempts: Attempts | None = None,
) -> LeaderResponse:
    """Send one Fetch. Raises ``BrokerRefused`` if the leader refuses the whole request. Checksums are not
    checked; ``record.check_crc`` does that.
    """
    topics: list[FetchTopic] = []
    names: dict[UUID, str] = {}
    for name, numbers in by_topic(positions).items():
        info = await cluster.topic(name, attempts=attempts)
        names[info.topic_id] = name
        topics.append(
            FetchTopic(
                topic=name,
                topic_id=info.topic_id,
                partitions=[
                    FetchPartition(
                        partition=number,
                        fetch_offset=positions[TopicPartition(name, number)],
                        partition_max_bytes=limits.partition_bytes,
                    )
                    for number in numbers
                ],
            )
        )
    request = FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        topics=topics,
    )
    version = connection.version_of(ApiKey.FETCH, _TOPIC_IDS_FROM - 1 if _NO_ID in names else None)
    answer: FetchResponse = await connection.request(ApiKey.FETCH, request, version=version)
    if answer.error_code != ErrorCode.NONE:
        raise BrokerRefused(answer.error_code)
    found: dict[TopicPartition, RawFetch | BrokerRefused] = {}
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for item in topic.partitions:
            place = TopicPartition(name, item.partition_index)
            found[place] = _result(place, item, answer.throttle_time_ms)
    return LeaderResponse(partitions=found, throttle_ms=answer.throttle_time_ms)


def _result(
    place: TopicPartition, item: PartitionData, throttle_ms: int
) -> RawFetch | BrokerRefused:
    if item.error_code != ErrorCode.NONE:
        return BrokerRefused(item.error_code, subject=str(place))
    return RawFetch(
        partition=place,
        data=memoryview(item.records or b""),
        high_watermark=item.high_watermark,
        last_stable_offset=item.last_stable_offset,
        log_start_offset=item.log_start_offset,
        aborted=[
            (entry.producer_id, entry.first_offset) for entry in item.aborted_transactions or ()
        ],
        throttle_ms=throttle_ms,
    )


class FetchLoop:
    """Fetches partitions from their positions on.

    ``take`` gets each partition's response and its position, and returns the next position. ``move`` gets the
    partitions whose positions are out of range and returns where to continue; without it the leader's error
    is raised. ``what`` describes the work in the message of ``OutOfTime``.

    A loop that fetches ahead sends the next request to a leader before its user has come back, so memory is
    bounded by two responses for each leader. Positions change in ``step`` only, after its last ``await``:
    cancelling it loses nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        limits: FetchLimits,
        *,
        lane: str,
        take: Callable[[RawFetch, int], int],
        move: Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]
        | None = None,
        what: Callable[[], str] = lambda: "reading",
        is_ahead: bool = True,
        timeout_s: float | None = None,
        retries: tuple[type[NoBroker] | type[BrokerRefused], ...] = (ConnectionLost, BrokerRefused),
    ) -> None:
        self.positions = dict(positions)
        self._cluster = cluster
        self._limits = limits
        self._lane = lane
        self._take_data = take
        self._move = move
        self._what = what
        self._is_ahead = is_ahead
        self._timeout_s = timeout_s
        self._retries = retries
        self._leaders: dict[int, list[TopicPartition]] = {}
        self._fetches: dict[int, asyncio.Task[LeaderResponse]] = {}
        self._throttled_until: dict[int, float] = {}
        self._out_of_range: set[TopicPartition] = set()
        self._obstacle: MillpondError | None = None
        self._attempts: Attempts | None = None

    @property
    def has_obstacle(self) -> bool:
        """Return whether the next step begins with an error of this one."""
        return self._obstacle is not None

    async def close(self) -> None:
        """Stop fetching and close the connections for it. A later step starts again."""
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

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue at other positions; pending fetches are dropped."""
        await self.close()
        self.positions.update(positions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from now on; pending fetches are dropped unless they still fit."""
        if any(self.positions.get(place) != offset for place, offset in positions.items()):
            await self.close()
        self.positions = dict(positions)
        self._out_of_range &= set(positions)

    async def step(self) -> None:
        """Wait for the next response of any leader and give it to ``take``.

        After an error that a retry may cure, wait a little longer each time instead. Raises ``BrokerRefused``
        for errors that a retry does not cure and ``OutOfTime`` when the leaders cannot be reached for the
        cluster's time-out. Data that came with an error is given to ``take`` before the next step raises it.
        """
        try:
            if self._obstacle is not None:
                obstacle, self._obstacle = self._obstacle, None
                raise obstacle
            await self._move_positions()
            await self._start_fetches()
        except self._retries as error:
            if isinstance(error, BrokerRefused) and error.is_final:
                raise
            await self._back_off(error)
            return
        if not self._fetches:
            return
        await asyncio.wait(self._fetches.values(), return_when=asyncio.FIRST_COMPLETED)
        for leader in [leader for leader, fetch in self._fetches.items() if fetch.done()]:
            try:
                self._take(leader, self._fetches.pop(leader).result())
            except MillpondError as error:
                self._obstacle = error
        if self._obstacle is None:
            self._attempts = None
            if self._is_ahead:
                self._fetch_ahead()

    async def _start_fetches(self) -> None:
        """Start a fetch to every leader that has none in flight."""
        leaders: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            leaders.setdefault(await self._cluster.leader_of(partition), []).append(partition)
        self._leaders = leaders
        self._fetch_ahead()

    def _fetch_ahead(self) -> None:
        """Start fetches to the leaders that are known, without waiting."""
        for leader, partitions in self._leaders.items():
            wanted = {
                partition: self.positions[partition]
                for partition in partitions
                if partition in self.positions and partition not in self._out_of_range
            }
            if wanted and leader not in self._fetches:
                self._fetches[leader] = asyncio.get_running_loop().create_task(
                    self._fetch(leader, wanted), name=f"fetch from {leader}"
                )

    async def _fetch(self, leader: int, wanted: Mapping[TopicPartition, int]) -> LeaderResponse:
        pause_s = self._throttled_until.get(leader, 0.0) - asyncio.get_running_loop().time()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        connection = await self._cluster.connection_to(leader, lane=self._lane)
        attempts = self._cluster.attempts(
            f"reading from broker {leader}", self._timeout_s, request_s=self._timeout_s
        )
        async with attempts.limit(connection):
            response = await ask_leader(self._cluster, connection, wanted, self._limits)
        if not response.throttle_ms:
            for partition in wanted.keys() - response.partitions.keys():
                response.partitions[partition] = BrokerRefused(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    "the broker left the partition out of its answer",
                    subject=str(partition),
                )
        return response

    def _take(self, leader: int, response: LeaderResponse) -> None:
        """Take the data of all partitions; raise the first error after that."""
        if response.throttle_ms:
            now = asyncio.get_running_loop().time()
            self._throttled_until[leader] = now + response.throttle_ms / 1000
        first_error: MillpondError | None = None
        for partition, result in response.partitions.items():
            if partition not in self.positions:
                continue  # dropped meanwhile
            try:
                self._take_partition(partition, result)
            except MillpondError as error:
                first_error = error if first_error is None else first_error
        if first_error is not None:
            raise first_error

    def _take_partition(self, partition: TopicPartition, result: RawFetch | BrokerRefused) -> None:
        if isinstance(result, RawFetch):
            self.positions[partition] = self._take_data(result, self.positions[partition])
        elif result.code == ErrorCode.OFFSET_OUT_OF_RANGE and self._move is not None:
            self._out_of_range.add(partition)
        else:
            raise result

    async def _move_positions(self) -> None:
        """Have positions that are out of range moved."""
        if self._out_of_range and self._move is not None:
            moved = await self._move(frozenset(self._out_of_range))
            self._out_of_range.clear()
            for partition, offset in moved.items():
                if partition in self.positions:
                    self.positions[partition] = offset

    async def _back_off(self, error: NoBroker | BrokerRefused) -> None:
        """Forget the leaders and wait, a little longer each time. Raises errors that are final."""
        if self._attempts is None:
            self._attempts = self._cluster.attempts(self._what())
        for partition in self.positions:
            self._cluster.forget_topic(partition.topic)
        await self._attempts.after(error)
