"""Connections to brokers for Spark's processes: blocking calls, kept between batches, raw batches out.

Spark keeps its Python processes: the driver has one for each query, executors reuse theirs. So connections
are kept for the process, by settings (``brokers_for``). A broker that was never reached is an error at once,
because its address is probably wrong; one that was reached, or that the driver has reached before a task
began, is waited for as long as the settings say.

The requests run on an event loop in a background thread, so that the next bytes arrive while these are
decoded.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from millpond.base.ids import TopicPartition
from millpond.client import Admin, BrokerRefused, Cluster, Groups, NoBroker, RawFetch
from millpond.client._attempts import Attempts
from millpond.client._fetch_loop import FetchLimits, FetchLoop
from millpond.record import iter_batches
from millpond.spark.loss import LossPolicy
from millpond.spark.offsets import EARLIEST, LATEST
from millpond.spark.options import (
    BrokerSettings,
    FetchSettings,
    Isolation,
    Partitions,
    Subscription,
    TopicPattern,
    Topics,
)
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Bounds, Lost, Range, Reason
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

T = TypeVar("T")

# A broker that has just started may not know every topic yet.
_UNKNOWN_TOPIC_S = 3.0
_COMMIT_S = 5.0
# A response without records below the end of a range: a gap to the end (compaction), or a broker that holds
# back because of a quota. Only several of them in a row are taken for a gap.
_EMPTY_ANSWERS_MAX = 3

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_lanes = itertools.count(1)


class Brokers:
    """A cluster for one process of Spark."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="millpond-spark", daemon=True
        )
        self._thread.start()
        self.cluster = Cluster(
            settings.bootstrap,
            client_id=settings.client_id,
            timeout_s=settings.timeout_s,
            request_s=settings.request_s,
            unknown_topic_s=_UNKNOWN_TOPIC_S,
        )
        self._free_lanes: list[str] = []
        self._admin = Admin(self.cluster)
        self._groups = Groups(self.cluster)

    def close(self) -> None:
        """Close connections and end the thread."""
        self.run(self.cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and return its result."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` on the loop; return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # --- for the driver ---

    def topics(self, subscription: Subscription) -> Mapping[str, Collection[int]]:
        """Return the existing topics of the subscription, with their partitions."""
        match subscription:
            case Topics(names):
                return self.run(self._partitions(names))
            case Partitions(places):
                return self.run(self._partitions(sorted({place.topic for place in places})))
            case TopicPattern():
                found = self.run(self._partitions(None))
                return {topic: at for topic, at in found.items() if subscription.matches(topic)}

    def all_topics(self) -> Collection[str]:
        """Return every topic except internal ones."""
        return self.run(self._partitions(None)).keys()

    def bounds(
        self, places: Iterable[TopicPartition], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> Bounds:
        """Return the starts and ends of these logs; partitions that do not exist are left out."""
        wanted = list(places)

        async def ask() -> Bounds:
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(self._offsets(dict.fromkeys(wanted, EARLIEST), isolation))
                last = tasks.create_task(self._offsets(dict.fromkeys(wanted, LATEST), isolation))
            return Bounds(earliest=first.result(), latest=last.result())

        return self.run(_without_group(ask)) if wanted else Bounds(earliest={}, latest={})

    def at_times(
        self, times: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after each time."""
        found = self.run(self._offsets(dict(times), isolation))
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a group without members; with a short time-out."""
        if offsets:
            self.run(self._groups.commit(group_id, offsets, timeout_s=_COMMIT_S))

    async def _partitions(self, names: Iterable[str] | None) -> dict[str, list[int]]:
        attempts = self.cluster.attempts("asking for topics")
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        while True:
            answer: MetadataResponse = await self.cluster.ask_any(
                ApiKey.METADATA, request, attempts=attempts
            )
            found: dict[str, list[int]] = {}
            for topic in answer.topics:
                if topic.error_code == ErrorCode.NONE:
                    if topic.name and not (asked is None and topic.is_internal):
                        found[topic.name] = [item.partition_index for item in topic.partitions]
                elif topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    refused = BrokerRefused(topic.error_code, subject=topic.name or "")
                    await attempts.after(refused)
                    break
            else:
                return found

    async def _offsets(
        self, asked: dict[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        found = await self._admin.list_offsets(asked, isolation_level=isolation)
        offsets: dict[TopicPartition, int] = {}
        for place, answer in found.items():
            if not isinstance(answer, BrokerRefused):
                offsets[place] = answer.offset
            elif answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise answer
        return offsets

    # --- for executors ---

    def read(self, wanted: Range, fetch: FetchSettings, lose: LossPolicy) -> Iterator[Fetched]:
        """Yield the batches of a range, one response ahead of the reader; the last may go beyond its end."""
        lane = self._free_lanes.pop() if self._free_lanes else f"spark {next(_lanes)}"
        reader = _RangeReader(self.cluster, wanted, fetch, lose, lane)
        coming: Future[Fetched | None] = self.submit(reader.next())
        is_read = False
        try:
            while (fetched := coming.result()) is not None:
                coming = self.submit(reader.next())
                yield fetched
            is_read = True
        finally:
            if is_read:
                self._free_lanes.append(
                    lane
                )  # nothing is in flight on it: the next batch saves a connection
            else:
                coming.cancel()
                self.run(reader.close())


class _RangeReader:
    """Fetches from the leader of one partition until a range is read."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Range,
        fetch: FetchSettings,
        lose: LossPolicy,
        lane: str,
    ) -> None:
        self._cluster = cluster
        self._range = wanted
        self._fetch = fetch
        self._lose = lose
        self._response: RawFetch | None = None
        self._fetched: Fetched | None = None
        self._empty_answers = 0
        self._waiting: Attempts | None = None
        self._loop = FetchLoop(
            cluster,
            {wanted.place: wanted.first},
            FetchLimits(
                isolation_level=fetch.isolation,
                max_wait_ms=fetch.max_wait_ms,
                min_bytes=fetch.min_bytes,
                max_bytes=fetch.max_bytes,
                partition_bytes=fetch.partition_bytes,
            ),
            lane=lane,
            take=self._take,
            move=self._out_of_range,
            what=lambda: f"reading {wanted.place} at offset {self._position}",
            is_ahead=False,  # ``Brokers.read`` is one response ahead already
            retries=(NoBroker, BrokerRefused),
        )

    @property
    def _position(self) -> int:
        return self._loop.positions[self._range.place]

    async def close(self) -> None:
        """Close the reader's connection."""
        await self._loop.close()

    async def next(self) -> Fetched | None:
        """Return the next response that has batches; ``None`` at the end of the range."""
        while self._position < self._range.end:
            self._response = self._fetched = None
            try:
                await self._loop.step()
            except BrokerRefused as error:
                if error.code not in _UNKNOWN:
                    raise
                self._loop.positions[self._range.place] = self._lost(self._range.end, Reason.GONE)
            if self._fetched is not None:
                return self._fetched
            if self._response is not None:
                await self._nothing(self._response)
        return None

    def _take(self, response: RawFetch, position: int) -> int:
        """Keep the batches of a response. Return the position behind them."""
        self._response = response
        if response.throttle_ms:  # a quota: the broker returns nothing until then
            self._empty_answers = 0
        next_offset = position
        for _, header in iter_batches(response.data):
            next_offset = max(next_offset, header.next_offset)
        if next_offset > position:
            self._empty_answers = 0
            self._waiting = None
            self._fetched = Fetched(
                data=response.data, aborted=tuple(response.aborted), next_offset=next_offset
            )
        return next_offset

    async def _nothing(self, response: RawFetch) -> None:
        """Handle a response without a batch: the rest of the range is a gap, or not there yet."""
        visible = (
            response.last_stable_offset
            if self._fetch.isolation is Isolation.READ_COMMITTED
            else response.high_watermark
        )
        if visible >= self._range.end:
            self._empty_answers += 1
            if self._empty_answers >= _EMPTY_ANSWERS_MAX:
                self._loop.positions[self._range.place] = self._range.end
            return
        if self._waiting is None:
            self._waiting = self._cluster.attempts(
                f"reading {self._range.place} from {self._position} to {self._range.end}"
            )
        await self._waiting.after(
            BrokerRefused(
                ErrorCode.OFFSET_NOT_AVAILABLE, f"the log can be read up to {visible} only"
            )
        )

    async def _out_of_range(self, _places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Report a position that is out of range because the log changed since planning. Return the position
        behind the gap.
        """
        place = self._range.place
        earliest = (await Admin(self._cluster).list_offsets({place: EARLIEST}))[place]
        if isinstance(earliest, BrokerRefused):
            raise earliest
        if earliest.offset > self._position:
            return {place: self._lost(min(earliest.offset, self._range.end), Reason.DELETED)}
        return {place: self._lost(self._range.end, Reason.WENT_BACK)}

    def _lost(self, end: int, reason: Reason) -> int:
        """Report everything from here to ``end`` as lost. Return where to continue, if that is allowed."""
        place = self._range.place
        self._lose(
            [
                Lost(
                    topic=place.topic,
                    partition=place.partition,
                    first=self._position,
                    end=end,
                    reason=reason,
                )
            ]
        )
        return end


class BrokerPlace:
    """The brokers as the driver's tracker uses them, with the query's isolation level."""

    def __init__(self, settings: BrokerSettings, isolation: Isolation) -> None:
        self._brokers = brokers_for(settings)
        self._isolation = isolation

    def topics(self, subscription: Subscription) -> Mapping[str, Collection[int]]:
        """See ``Brokers.topics``."""
        return self._brokers.topics(subscription)

    def all_topics(self) -> Collection[str]:
        """See ``Brokers.all_topics``."""
        return self._brokers.all_topics()

    def bounds(self, places: Iterable[TopicPartition]) -> Bounds:
        """See ``Brokers.bounds``."""
        return self._brokers.bounds(places, self._isolation)

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """See ``Brokers.at_times``."""
        return self._brokers.at_times(times, self._isolation)


_kept: dict[tuple[int, BrokerSettings], Brokers] = {}
_keeping = threading.Lock()


def brokers_for(settings: BrokerSettings) -> Brokers:
    """Return this process's connections with these settings. A forked child makes its own."""
    key = (os.getpid(), settings)
    with _keeping:
        brokers = _kept.get(key)
        if brokers is None:
            brokers = _kept[key] = Brokers(settings)
        return brokers


async def _without_group(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Raise the first of several errors without its exception group."""
    try:
        return await work()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
