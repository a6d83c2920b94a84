"""A consumer's Fetch: read many partitions within one budget; wait when there is too little data.

The first attempt answers at once if it finds enough. Otherwise the request waits on its partitions without
holding the data that it read, and reads again when enough bytes came or the time is over (a true long poll).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from millpond.base import limits
from millpond.base.errors import CorruptLog, MillpondError
from millpond.engine.api import Partition, ReadWaiter, divergence
from millpond.frontend.kafka.convert import leader_hint, node_endpoints
from millpond.frontend.kafka.fetch_sessions import INITIAL_EPOCH, NO_SESSION, Turn
from millpond.frontend.kafka.handler import Context, Deferred, Payload, Result
from millpond.frontend.kafka.slices import SLICE, exhausted, is_large
from millpond.frontend.kafka.throttling import fetch_bytes_max, fetch_wait_ms
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    encode_fetch_response,
)

# From this version on a consumer names its rack and may read from followers (KIP-392).
_FOLLOWERS_READ_FROM = 11

# Partitions that a session reads without giving other connections a turn: about what a large request names.
_SESSION_PARTITIONS_AT_ONCE_MAX = 4 * SLICE

# A session's memory of its partitions is built in one step; a larger request gets no session.
_SESSION_REQUEST_BYTES_MAX = 1024 * 1024


def answer(context: Context, request: Request, fetch: FetchRequest) -> Result:
    """Answer a consumer at once if there is enough data, otherwise when enough came or the time is over."""
    version = request.api_version
    if request.size > _SESSION_REQUEST_BYTES_MAX and fetch.session_epoch <= INITIAL_EPOCH:
        turn = Turn(fetch.topics)
    else:
        turn = context.frontend.fetch_sessions.begin(fetch, version)
    if turn.error:
        return encode_fetch_response((), version, error_code=turn.error)
    started = _ConsumerFetch(context, request, fetch, turn)
    # Few bytes of an incremental request can stand for very many partitions.
    session = turn.session
    if is_large(request) or (
        session is not None and session.size > _SESSION_PARTITIONS_AT_ONCE_MAX
    ):
        return started.in_slices()
    return started.start()


class _ConsumerFetch:
    """One consumer's fetch that is being carried out."""

    __slots__ = (
        "_bytes_max",
        "_bytes_min",
        "_committed",
        "_context",
        "_deadline_ms",
        "_deferred",
        "_fetch",
        "_fetched",
        "_leaders",
        "_read_failed",
        "_request",
        "_total",
        "_turn",
        "_waiter",
        "_watched",
    )

    def __init__(self, context: Context, request: Request, fetch: FetchRequest, turn: Turn) -> None:
        self._context = context
        self._request = request
        self._fetch = fetch
        self._turn = turn
        self._committed = fetch.isolation_level == 1
        self._bytes_max = min(fetch.max_bytes, context.frontend.fetch_bytes_max)
        if context.engine.quotas.active:
            self._bytes_max = fetch_bytes_max(context, request, self._bytes_max)
        # More than may be answered cannot be waited for.
        self._bytes_min = min(fetch.min_bytes, max(self._bytes_max, 1))
        self._read_failed = False
        self._leaders: set[int] = set()  # whose endpoints the response gives
        self._watched: list[Partition] = []
        self._fetched: list[FetchedTopic] = []
        self._total = 0
        self._deferred: Deferred | None = None
        self._waiter: ReadWaiter | None = None
        self._deadline_ms = 0

    def start(self) -> Result:
        fetch = self._fetch
        fetched, size = self._read_all()
        if self._is_enough(size):
            return self._answer(fetched, size)
        self._deadline_ms = self._context.engine.runtime.clock.monotonic_ms() + fetch.max_wait_ms
        self._deferred = Deferred(self._stop_waiting, is_idle=True)
        self._wait(size, fetch.max_wait_ms)
        return self._deferred

    async def in_slices(self) -> Payload:
        """Do the same for very many partitions: give other connections a turn after each slice."""
        await exhausted(self._read_steps())
        if not self._is_enough(self._total):
            came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiter = self._context.engine.partitions.wait_for_data(
                self._watched,
                missing_bytes=1 if self._committed else self._bytes_min - self._total,
                wait_ms=self._fetch.max_wait_ms,
                done=lambda: None if came.done() else came.set_result(None),
            )
            try:
                await came
            finally:
                waiter.cancel()
            await exhausted(self._read_steps())
        # Sessions and quotas are used on the event loop only; encoding runs in a thread.
        return await asyncio.to_thread(self._conclude(self._fetched, self._total))

    def _is_enough(self, size: int) -> bool:
        return (
            size >= self._bytes_min
            or self._fetch.max_wait_ms <= 0
            or self._read_failed
            or not self._watched
        )

    def _wait(self, size: int, wait_ms: int) -> None:
        # A reader of committed data waits for the end of a transaction, whose marker is small however much
        # data it makes visible. So such a reader looks again at each advance.
        self._waiter = self._context.engine.partitions.wait_for_data(
            self._watched,
            missing_bytes=1 if self._committed else self._bytes_min - size,
            wait_ms=wait_ms,
            done=self._on_data,
        )

    def _stop_waiting(self) -> None:
        if self._waiter is not None:
            self._waiter.cancel()

    def _on_data(self) -> None:
        deferred = self._deferred
        assert deferred is not None
        try:
            watched = len(self._watched)
            fetched, size = self._read_all()
            left_ms = self._deadline_ms - self._context.engine.runtime.clock.monotonic_ms()
            if (
                self._committed
                and size < self._bytes_min
                and left_ms > 0
                and not self._read_failed
                and len(self._watched) == watched
            ):
                self._wait(size, left_ms)
            else:
                deferred.resolve(self._answer(fetched, size))
        except Exception as error:  # noqa: BLE001 - the session answers for it
            deferred.resolve(error)

    def _answer(self, fetched: list[FetchedTopic], size: int) -> Payload:
        return self._conclude(fetched, size)()

    def _conclude(self, fetched: list[FetchedTopic], size: int) -> Callable[[], Payload]:
        """Decide what the response says. Return a function that encodes it, which may run in any thread."""
        version = self._request.api_version
        if self._context.engine.quotas.active and (
            wait_ms := fetch_wait_ms(self._context, self._request, size)
        ):
            session = self._turn.session
            return partial(
                encode_fetch_response,
                (),
                version,
                throttle_ms=wait_ms,
                session_id=session.session_id if session is not None else NO_SESSION,
            )
        topics, session_id = self._context.frontend.fetch_sessions.end(self._turn, fetched, version)
        endpoints = node_endpoints(self._context, self._leaders) if self._leaders else ()
        return partial(
            encode_fetch_response,
            topics,
            version,
            session_id=session_id,
            node_endpoints=endpoints,
        )

    def _read_all(self) -> tuple[list[FetchedTopic], int]:
        for _ in self._read_steps():
            pass
        return self._fetched, self._total

    def _read_steps(self) -> Iterator[None]:
        """Read all partitions of the request; yield after each slice."""
        engine = self._context.engine
        read = engine.partitions.read_now
        # A consumer that can name its rack may read from a follower near it (KIP-392).
        find = (
            engine.partitions.replica
            if self._request.api_version >= _FOLLOWERS_READ_FROM
            else engine.partitions.partition
        )
        rack = self._fetch.rack_id
        committed = self._committed
        budget = self._bytes_max
        total = 0
        looked_at = 0
        self._watched = watched = []
        self._fetched = answer = []
        for name, topic_id, wanted in self._turn.wanted:
            fetched: list[FetchedPartition] = []
            answer.append((name, topic_id, fetched))
            try:
                topic = engine.partitions.topic_by_id(topic_id) if topic_id is not None else None
                topic_name = topic.name if topic is not None else name
                assert topic_name is not None
            except MillpondError as error:
                code = code_of(error)
                for one in wanted:
                    fetched.append(_unknown(one, code))
                    looked_at += 1
                    if looked_at % SLICE == 0:
                        yield
                continue
            for one in wanted:
                looked_at += 1
                if looked_at % SLICE == 0:
                    yield
                try:
                    partition = find(topic_name, one.partition)
                except MillpondError as error:
                    fetched.append(self._not_here(topic_name, one, error))
                    continue
                watched.append(partition)
                try:
                    if one.last_fetched_epoch >= 0:
                        diverging = self._diverging(partition, one)
                        if diverging is not None:
                            fetched.append(diverging)
                            continue
                    if rack and partition.leadership is not None:
                        nearest = engine.replicas.nearest(partition, rack, one.fetch_offset)
                        if nearest != partition.node_id:
                            fetched.append(self._elsewhere(partition, one, nearest))
                            continue
                    room = min(one.partition_max_bytes, budget - total)
                    try:
                        found = read(
                            partition,
                            one.fetch_offset,
                            bytes_max=max(room, 0),
                            committed=committed,
                            at_least_one=total == 0,
                            leader_epoch=one.current_leader_epoch,
                        )
                    except CorruptLog as damage:
                        found = engine.repairs.read_behind(
                            partition,
                            one.fetch_offset,
                            damage,
                            bytes_max=max(room, 0),
                            committed=committed,
                            at_least_one=total == 0,
                        )
                    high, stable, start, records, aborted = found
                except MillpondError as error:
                    fetched.append(self._failed(partition, one, error))
                    continue
                total += len(records)
                fetched.append(
                    FetchedPartition(
                        one.partition,
                        0,
                        high,
                        stable,
                        start,
                        records,
                        aborted if committed else None,
                    )
                )
        self._total = total

    def _failed(
        self, partition: Partition, wanted: FetchPartition, error: MillpondError
    ) -> FetchedPartition:
        self._read_failed = True
        return self._refused(partition.topic, wanted, code_of(error), aborted=None)

    def _not_here(
        self, topic: str, wanted: FetchPartition, error: MillpondError
    ) -> FetchedPartition:
        return self._refused(topic, wanted, code_of(error), aborted=())

    def _refused(
        self,
        topic: str,
        wanted: FetchPartition,
        code: ErrorCode,
        *,
        aborted: Sequence[tuple[int, int]] | None,
    ) -> FetchedPartition:
        leader = leader_hint(self._context, topic, wanted.partition, code)
        if leader is not None:
            self._leaders.add(leader[0])
        return FetchedPartition(wanted.partition, code, aborted=aborted, leader=leader)

    def _elsewhere(
        self, partition: Partition, wanted: FetchPartition, node: int
    ) -> FetchedPartition:
        """Send the consumer to a replica nearer to it, which has the offset too (KIP-392)."""
        self._read_failed = True
        return FetchedPartition(
            wanted.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
            preferred_read_replica=node,
        )

    def _diverging(self, partition: Partition, wanted: FetchPartition) -> FetchedPartition | None:
        """Tell a reader whose last record is not in our log where it must truncate (KIP-595)."""
        partition.check_epoch(wanted.current_leader_epoch)
        parting = divergence(partition, wanted.last_fetched_epoch, wanted.fetch_offset)
        if parting is None:
            return None
        self._read_failed = True
        return FetchedPartition(
            wanted.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.start_offset,
            diverging=parting,
        )


def _unknown(wanted: FetchPartition, code: ErrorCode) -> FetchedPartition:
    return FetchedPartition(wanted.partition, code, aborted=())


assert limits.FETCH_RESPONSE_BYTES_MAX < limits.RESPONSE_BYTES_MAX
