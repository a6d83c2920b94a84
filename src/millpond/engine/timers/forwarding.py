"""Passes delayed records from the partitions that this node leads to the hosts of their timers.

The leader of a partition asks the host for the *position* first: below it all delayed records have become
timers. A partition that the host does not know begins at the end of its log. Only then does the leader take
delayed records in, so none can lie before the position. It reads the log from the position to the end that it
had when this node began to lead, and after that only the batches that it has appended itself, each when the
high watermark has passed it and its companion (``timer.deferral``). What is passed on twice, after a change
of leader or a lost answer, is left out by the host.

A position that moves only with delayed records would make the next leader read all that was produced since
the last one, so it is moved from time to time also without any.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptLog,
    InvalidRequest,
    MalformedData,
    MillpondError,
    NotCoordinator,
    PeerUnreachable,
    RequestTimedOut,
    ShuttingDown,
    TimerPositionGap,
    TimersNotReady,
)
from millpond.base.ids import LeaderEpoch, Offset
from millpond.base.limits import DEFERRED_BATCHES_WAITING_MAX
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.peers import ScheduleTimers, TimerPosition
from millpond.engine.timers.timers import Timers
from millpond.log.partition_log import AppendInfo
from millpond.metadata.controller import TIMERS_TOPIC
from millpond.metadata.image import Image
from millpond.metadata.topic_configs import DELAY_ENABLE
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.records import UNREADABLE, decode_batch
from millpond.replication.partition import Partition
from millpond.timer.deferral import entries, is_deferral
from millpond.timer.facts import Target
from millpond.timer.shard import UNKNOWN, Entry, Schedule

log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS: Final = 15_000
# Bytes of the log that are read at once, and of delayed records that one request has, about.
_READ_BYTES: Final = 1024 * 1024
# Offsets between two batches of delayed records that are read with them.
_NEAR: Final = 100
# How long a host that does not answer is left alone, at first and at most.
_BACKOFF_S: Final = 0.1
_BACKOFF_S_MAX: Final = 2.0
# How often the position is moved without delayed records, and a host that was full is asked again.
_IDLE_S: Final = 30.0
_FULL_S: Final = 1.0

# A host that moved, is reading its log or is not reached; no reason for a word in the log.
_PASSING: Final = (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    PeerUnreachable,
    RequestTimedOut,
)
# What a host that knows another position answers; over the wire the second.
_OTHER_POSITION: Final = (TimerPositionGap, InvalidRequest)


class TimerForwarding:
    """The partitions of topics with delays that this node leads."""

    def __init__(self, services: CoordinatorServices, timers: Timers) -> None:
        self._services = services
        self._timers = timers
        self._forwarders: dict[tuple[UUID, int], _Forwarder] = {}
        self._is_running = False

    def start(self) -> None:
        """Begin with the partitions that this node leads already."""
        self._is_running = True
        for partition in self._services.topics:
            if partition.is_leader and self._may_have_delays(partition.topic):
                self._begin(partition)
        self._services.partitions.on_leadership(self._on_leadership)
        self._services.metadata.observe(self._on_image)

    def stop(self) -> None:
        """Pass nothing on any more."""
        self._is_running = False
        for forwarder in tuple(self._forwarders.values()):
            self._end(forwarder)

    # --- for the publisher -------------------------------------------------------------------------

    def check(self, partition: Partition) -> None:
        """Raises ``TimersNotReady`` if the partition can take no delayed records now."""
        forwarder = self._forwarders.get((partition.topic_id, partition.index))
        if forwarder is None or forwarder.partition is not partition:
            self._begin(partition)
            raise TimersNotReady("delayed records are accepted as soon as timers can be kept")
        forwarder.check()

    def note(self, partition: Partition, info: AppendInfo) -> None:
        """Note that a batch of delayed records was appended, after ``check``."""
        self._forwarders[partition.topic_id, partition.index].note(info)

    # --- inside ------------------------------------------------------------------------------------

    def _may_have_delays(self, topic: str) -> bool:
        """Whether delays are on, or were: what was accepted before has to be passed on."""
        return DELAY_ENABLE in self._services.metadata.image.topic_config(topic)

    def _on_leadership(self, partition: Partition, gained: bool, _epoch: LeaderEpoch) -> None:
        known = self._forwarders.get((partition.topic_id, partition.index))
        if known is not None:
            self._end(known)
        if gained and (known is not None or self._may_have_delays(partition.topic)):
            self._begin(partition)

    def _on_image(self, before: Image, after: Image) -> None:
        if before.configs is after.configs:
            return
        for topic in after.topics.values():
            if DELAY_ENABLE not in after.topic_config(topic.name):
                continue
            for index in range(len(topic.partitions)):
                if (topic.topic_id, index) not in self._forwarders:
                    self._begin_if_led(topic.name, index)

    def _begin_if_led(self, topic: str, index: int) -> None:
        try:
            partition = self._services.partitions.partition(topic, index)
        except MillpondError:
            return
        self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        if not self._is_running or not partition.is_leader:
            return
        known = self._forwarders.get((partition.topic_id, partition.index))
        if known is not None:
            self._end(known)
        forwarder = _Forwarder(self._services, self._timers, partition)
        try:
            self._services.runtime.tasks.spawn(forwarder.run(), name="timer forwarding")
        except ShuttingDown:
            return
        self._forwarders[partition.topic_id, partition.index] = forwarder

    def _end(self, forwarder: "_Forwarder") -> None:
        partition = forwarder.partition
        del self._forwarders[partition.topic_id, partition.index]
        forwarder.stop()


class _Range(NamedTuple):
    """Offsets whose delayed records may be passed on."""

    first: Offset
    upto: Offset


class _Forwarder:
    """One partition, for as long as this node leads it in one epoch."""

    def __init__(self, services: CoordinatorServices, timers: Timers, partition: Partition) -> None:
        self._services = services
        self._timers = timers
        self.partition = partition
        self._target = Target(partition.topic_id, partition.index)
        # Up to where the log is read for delayed records; those behind it are in ``_appended``.
        self._read_upto = partition.log.end_offset
        self._appended: deque[_Range] = deque()
        self._position = UNKNOWN
        # The last one that was known, if the host answered that it knows another.
        self._lost_position = UNKNOWN
        self._is_full = False
        self._is_stopped = False
        self._news = asyncio.Event()
        partition.confirm_at(self._read_upto, self._on_committed)

    def stop(self) -> None:
        """Another node leads, or the topic is gone."""
        self._is_stopped = True
        self._news.set()

    def check(self) -> None:
        """Raises ``TimersNotReady`` if no delayed records can be taken now."""
        if self._position == UNKNOWN:
            raise TimersNotReady("delayed records are accepted as soon as timers can be kept")
        if self._is_full:
            raise TimersNotReady(
                "too many delayed records are pending; more are accepted when some were delivered"
            )
        if len(self._appended) >= DEFERRED_BATCHES_WAITING_MAX:
            raise TimersNotReady(
                f"the node that leads the partition of {TIMERS_TOPIC} does not answer; delayed records are "
                "accepted when it does"
            )

    def note(self, info: AppendInfo) -> None:
        """A batch of delayed records was appended."""
        upto = info.last_offset + 1
        self._appended.append(_Range(info.first_offset, upto))
        self.partition.confirm_at(upto, self._on_committed)

    def _on_committed(self, _error: MillpondError | None) -> None:
        self._news.set()

    # --- the loop ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the partition is led elsewhere."""
        backoff_s = _BACKOFF_S
        while not self._is_stopped:
            self._news.clear()
            try:
                await self._work()
            except ShuttingDown:
                return
            except MillpondError as error:
                self._on_failure(error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _BACKOFF_S_MAX)
                continue
            backoff_s = _BACKOFF_S
            if not self._is_stopped:
                await self._idle()

    async def _work(self) -> None:
        """Pass on all that may be passed on now."""
        if self._position == UNKNOWN:
            await self._find_position()
        while not self._is_stopped:
            ready = self._ready()
            if ready is None:
                return
            await self._pass_on(ready)

    async def _idle(self) -> None:
        try:
            async with asyncio.timeout(_FULL_S if self._is_full else _IDLE_S):
                await self._news.wait()
            return
        except TimeoutError:
            pass
        upto = max(self._position, self.partition.high_watermark)
        is_behind = self._appended or self._position < self._read_upto
        if self._is_stopped or is_behind or (upto == self._position and not self._is_full):
            return
        try:
            await self._schedule(upto, ())
        except MillpondError as error:
            self._on_failure(error)

    def _on_failure(self, error: MillpondError) -> None:
        if isinstance(error, _OTHER_POSITION) and self._position != UNKNOWN:
            # The host has lost facts, or another node led meanwhile: read what lies behind its position.
            self._read_upto = self.partition.log.end_offset
            self._appended.clear()
            self.partition.confirm_at(self._read_upto, self._on_committed)
            self._position, self._lost_position = UNKNOWN, self._position
        elif not isinstance(error, _PASSING):
            log.warning(
                "partition=%s-%d: delayed records wait to become timers: %s",
                self.partition.topic,
                self.partition.index,
                error,
            )

    # --- the position ------------------------------------------------------------------------------

    async def _find_position(self) -> None:
        """Ask the host where to go on; begin at the log's end, or where this leader was, if it does not
        know.
        """
        is_first = self._lost_position == UNKNOWN
        begin = self._read_upto if is_first else self._lost_position
        answer = await self._ask(
            Schedule(target=self._target, first=begin, upto=begin, begins=True)
        )
        if answer.position > self._read_upto:
            # Records that were committed are lost (an unclean election); their timers stay.
            log.warning(
                "partition=%s-%d: its log ends at %d and delayed records up to %d have become timers; "
                "going on at the log's end",
                self.partition.topic,
                self.partition.index,
                self._read_upto,
                answer.position,
            )
            answer = await self._ask(
                Schedule(
                    target=self._target,
                    first=self._read_upto,
                    upto=self._read_upto,
                    is_reset=True,
                )
            )
        self._position, self._is_full = answer

    async def _schedule(self, upto: Offset, found: Sequence[Entry]) -> None:
        answer = await self._ask(
            Schedule(target=self._target, first=self._position, upto=upto, entries=found)
        )
        self._position, self._is_full = answer

    async def _ask(self, command: Schedule) -> TimerPosition:
        if TIMERS_TOPIC not in self._services.metadata.image.topics:
            await self._services.topic_admin.ensure_topic(TIMERS_TOPIC)
        host, peers = self._timers.host_of(self._target), self._services.peers
        if host == self._services.info.node_id:
            return await self._timers.schedule(command)
        if host < 0 or peers is None:
            raise CoordinatorNotAvailable(f"no node leads the partition of {TIMERS_TOPIC} now")
        return await peers.call(host, ScheduleTimers(command=command), timeout_ms=_ASK_TIMEOUT_MS)

    # --- the records -------------------------------------------------------------------------------

    def _ready(self) -> _Range | None:
        """The next offsets of which all is committed."""
        committed = self.partition.high_watermark
        if self._position < self._read_upto:
            # All of it: a batch and its companion are both committed, or the companion is lost.
            whole = _Range(self._position, self._read_upto)
            return whole if committed >= self._read_upto else None
        appended = self._appended
        while appended and appended[0].upto <= self._position:
            appended.popleft()
        if not appended or appended[0].upto > committed:
            return None
        first, upto = appended[0]
        for one in appended:
            if one.upto > committed or one.first - upto > _NEAR:
                break
            upto = one.upto
        return _Range(first, upto)

    async def _pass_on(self, ready: _Range) -> None:
        """Pass on the delayed records at these offsets, or the first of them."""
        found: list[Entry] = []
        size = 0
        at = ready.first
        while at < ready.upto and size < _READ_BYTES and not self._is_stopped:
            at, more = self._read(max(at, self.partition.log.start_offset), ready.upto)
            found += more
            size += sum(len(one.value) for one in more)
            if at < ready.upto:
                await asyncio.sleep(0)
        if not self._is_stopped:
            await self._schedule(at, found)

    def _read(self, at: Offset, upto: Offset) -> tuple[Offset, list[Entry]]:
        """Read some of the log; answers up to which offset, and the delayed records there."""
        if at >= upto:
            return upto, []
        try:
            data = self.partition.log.read(at, _READ_BYTES, upto=upto).data
        except CorruptLog as error:
            if error.next_offset <= at or self._services.repairs.may_come_back(self.partition, at):
                raise
            self._say_lost(at, error.next_offset, error)
            return error.next_offset, []
        found: list[Entry] = []
        batches = list(iter_batches(data))
        for number, (position, header) in enumerate(batches):
            if header.is_control:
                follows = batches[number + 1][1] if number + 1 < len(batches) else None
                found += self._delayed(data, position, header, follows, upto)
        return (batches[-1][1].next_offset if batches else upto), found

    def _delayed(
        self,
        data: bytes | bytearray | memoryview,
        position: int,
        header: BatchHeader,
        follows: BatchHeader | None,
        upto: Offset,
    ) -> list[Entry]:
        try:
            records = decode_batch(data, position)
            if not is_deferral(header, records):
                return []
            if follows is None and header.next_offset < upto:
                behind = self.partition.log.read(header.next_offset, 1, upto=upto).data
                follows = next((one for _, one in iter_batches(behind)), None)
            return entries(records, follows)
        except (MalformedData, *UNREADABLE) as error:
            self._say_lost(header.base_offset, header.next_offset, error)
            return []

    def _say_lost(self, first: Offset, upto: Offset, error: Exception) -> None:
        log.error(
            "partition=%s-%d: delayed records at offsets %d to %d cannot be read and are not delivered: %s",
            self.partition.topic,
            self.partition.index,
            first,
            upto - 1,
            error,
        )
