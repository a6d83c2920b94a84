"""Hosts the timers of the partitions of ``__timers`` that this node leads, and delivers what is due.

The state machine is ``timer.shard``. For each shard one task watches the clock; for each target with due
timers one task delivers, batch after batch: it writes the intent, waits until that is committed, sends the
batch to the target's leader under the intent's producer id and sequence, and writes that it is done. A shard
that was read from the log sends its open intents again first. What cannot be sent is tried again, for as long
as the target exists; other targets do not wait for it. Of a topic that was deleted nothing stays, neither
timers nor the position.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from millpond.base.errors import (
    MalformedData,
    MillpondError,
    NotCoordinator,
    OutOfOrderSequence,
    ProducerFenced,
    ShuttingDown,
)
from millpond.base.ids import NodeId, TopicPartition
from millpond.engine.coordinators.durable import Durable, flushed
from millpond.engine.coordinators.record_replay import stored_batches
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.coordinators.shards import Shard, Shards
from millpond.engine.partitions.partition_calls import PartitionCalls
from millpond.engine.peers import ScheduleTimers, TimerPosition
from millpond.engine.timers.missing_targets import MissingTargets
from millpond.engine.timers.timer_records import read_timers
from millpond.group.offsets import partition_for
from millpond.metadata.controller import TIMERS_TOPIC
from millpond.metadata.image import Image
from millpond.record.builder import build_batch
from millpond.replication.partition import Partition
from millpond.timer import facts
from millpond.timer.delayed import Delayed, delivered, encode
from millpond.timer.facts import Fact, Intent, Target
from millpond.timer.shard import Entry, Schedule, TimerShard

log = logging.getLogger(__name__)

# Timers of one batch, and about how many bytes of records (fewer, if the target's topic takes less).
_BATCH_TIMERS: Final = 2_000
_BATCH_BYTES: Final = 512 * 1024
# Timers of one batch in __timers. A batch is read whole for each of its timers that is due at another time.
_BATCH_SCHEDULED: Final = 32
# Of each record in its batch, at most, beside its own bytes.
_RECORD_OVERHEAD: Final = 100
# Targets that one shard delivers to at a time.
_TARGETS_AT_ONCE: Final = 64
# How often the clock is looked at, at least: it may have stepped forward.
_TICK_S: Final = 0.5
# How long after the last look it comes again, at least: what becomes due meanwhile goes into one batch.
_LINGER_S: Final = 0.01
# When a batch that could not be delivered, or a producer id that is missing, is tried again.
_AGAIN_S: Final = 1.0
# Facts of one batch about a target that is gone.
_FORGOTTEN_AT_ONCE: Final = 1_000

_REFUSED_SEQUENCE: Final = (OutOfOrderSequence, ProducerFenced)


class Timers:
    """The timers that this node keeps and delivers."""

    def __init__(self, services: CoordinatorServices, partition_calls: PartitionCalls) -> None:
        self._services = services
        self._partition_calls = partition_calls
        self._shards: Shards[TimerShard] = Shards(services, TIMERS_TOPIC, self)
        self._runners: dict[int, _Runner] = {}
        # Partitions of __timers whose last write failed: their next runner waits a little.
        self._failed: set[int] = set()
        services.peer_handlers.serve(ScheduleTimers, self._on_schedule)

    def start(self) -> None:
        """Read the facts back and begin to deliver."""
        self._shards.start()
        self._services.metadata.observe(self._on_image)

    def stop(self) -> None:
        """Deliver nothing more."""
        self._shards.stop()

    async def schedule(self, command: Schedule) -> TimerPosition:
        """Make timers of a target's delayed records; they are kept for good when this returns.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``, ``TimerPositionGap``.
        """
        shard = self._shard(command.target)
        for part in _parts(command):
            decided = shard.state.schedule(part)
            if decided:
                self._write(shard, decided)
        durable = self._shards.settled(shard)
        answer = TimerPosition(shard.state.position(command.target), shard.state.is_full)
        runner = self._runners.get(shard.partition.index)
        if runner is not None:
            runner.wake()
        await flushed(durable)
        return answer

    def host_of(self, target: Target) -> NodeId:
        """Return the node that keeps the timers of a target; -1 if there is none now."""
        return self._shards.leader(_shard_key(target))

    def __len__(self) -> int:
        """How many timers are pending here."""
        return sum(len(state) for _, state in self._shards)

    def position(self, target: Target) -> int:
        """Below which offset of the target all delayed records have become timers; -1 if that is unknown.

        Raises ``NotCoordinator``, ``CoordinatorLoadInProgress``.
        """
        return self._shard(target).state.position(target)

    # --- shards ------------------------------------------------------------------------------------

    def new_state(self, index: int) -> TimerShard:
        """Nothing is known yet."""
        del index
        return TimerShard(self._services.runtime.clock.now_ms())

    def read_shard(self, state: TimerShard, partition: Partition) -> Iterator[int]:
        """Fold what the log says."""
        for header, stored in stored_batches(partition, self._services.repairs.may_come_back):
            found: list[tuple[Fact, int]] = []
            for record in stored if not header.is_control else ():
                if record.key is None or record.offset < partition.log.start_offset:
                    continue
                try:
                    found.append((facts.decode(record.key, record.value), record.offset))
                except MalformedData as error:
                    place = f"{partition.topic}-{partition.index}"
                    log.error("partition=%s offset=%d: left out: %s", place, record.offset, error)
            state.apply(found, is_replay=True)
            yield len(stored)

    def shard_loaded(self, index: int, state: TimerShard) -> None:
        """From now on what is due is delivered."""
        state.loaded()
        runner = self._runners[index] = _Runner(
            self._services,
            self._partition_calls,
            self,
            self._shards.own(index),
            pauses_first=index in self._failed,
        )
        self._failed.discard(index)
        try:
            self._services.runtime.tasks.spawn(runner.run(), name=f"timers {index}")
        except ShuttingDown:
            del self._runners[index]

    def shard_dropped(self, index: int, state: TimerShard) -> None:
        """Another host goes on, or the same after it has read the log again."""
        del state
        runner = self._runners.pop(index, None)
        if runner is not None:
            runner.stop()

    # --- for the runners ---------------------------------------------------------------------------

    def is_kept(self, shard: Shard[TimerShard]) -> bool:
        """Whether the shard is still this node's."""
        return self._shards.find(shard.partition.index) is shard.state

    def write(self, shard: Shard[TimerShard], decided: Sequence[Fact]) -> Durable:
        """Append facts as one batch and make them true.

        What fails is not known to be in the log or out of it, so the shard is read again; raises why.
        """
        try:
            return self._write(shard, decided)
        except MillpondError as error:
            self._failed.add(shard.partition.index)
            self._shards.resign(shard, f"its facts could not be written ({error})")
            raise

    def settled(self, shard: Shard[TimerShard]) -> Durable:
        """When everything that is true in the shard now holds for good; None if it does."""
        return self._shards.settled(shard)

    def _write(self, shard: Shard[TimerShard], decided: Sequence[Fact]) -> Durable:
        now_ms = self._services.runtime.clock.now_ms()
        batch = build_batch([(now_ms, *facts.encode(fact), ()) for fact in decided])
        appended = self._services.partitions.append_to(
            shard.partition, batch, acks=-1, internal=True
        )
        first = appended.info.first_offset
        shard.state.apply((fact, first + index) for index, fact in enumerate(decided))
        return self._shards.guard(shard, appended.durable)

    def _on_image(self, before: Image, after: Image) -> None:
        if TIMERS_TOPIC in before.topics and TIMERS_TOPIC not in after.topics:
            log.warning("%s was deleted, and with it all timers", TIMERS_TOPIC)
            self._shards.drop_all()

    def _shard(self, target: Target) -> Shard[TimerShard]:
        count = self._shards.count
        if not count:
            raise NotCoordinator(f"{TIMERS_TOPIC} has not been made yet")
        return self._shards.get(partition_for(_shard_key(target), count))

    async def _on_schedule(self, request: ScheduleTimers) -> TimerPosition:
        return await self.schedule(request.command)


class _Runner:
    """Watches the clock for one shard, and delivers to its targets."""

    def __init__(
        self,
        services: CoordinatorServices,
        partition_calls: PartitionCalls,
        timers: Timers,
        shard: Shard[TimerShard],
        *,
        pauses_first: bool,
    ) -> None:
        self._pauses_first = pauses_first
        self._partition_calls = partition_calls
        self._services = services
        self._timers = timers
        self._shard = shard
        self._state = shard.state
        self._news = asyncio.Event()
        self._delivering: set[Target] = set()
        # Targets that wait until fewer are delivered to.
        self._waiting: dict[Target, None] = {}
        self._producer_id = -1
        self._missing = MissingTargets(lambda target: self._topic_of(target) is not None)
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True
        self._news.set()

    def wake(self) -> None:
        """Something was scheduled, or a delivery has ended."""
        self._news.set()

    async def run(self) -> None:
        """Until the shard is dropped."""
        if self._pauses_first:
            await asyncio.sleep(_AGAIN_S)
        self._producer_id = await self._new_producer_id()
        try:
            # An intent that may still be lost must not be carried out.
            await flushed(self._timers.settled(self._shard))
        except MillpondError:
            return  # the shard is read again
        for intent in list(self._state.open_intents()):
            self._waiting[intent.target] = None
        while self._goes_on():
            self._news.clear()
            now_ms = self._services.runtime.clock.now_ms()
            for target in self._state.awake(now_ms):
                self._waiting[target] = None
            self._look_for_missing()
            self._begin()
            wake_ms = self._state.next_wake_ms()
            wait_s = _TICK_S if wake_ms is None else (wake_ms - now_ms) / 1000
            wait_s = min(_TICK_S, max(_LINGER_S, wait_s))
            try:
                async with asyncio.timeout(wait_s if self._state.targets else None):
                    await self._news.wait()
            except TimeoutError:
                pass

    def _goes_on(self) -> bool:
        return not self._is_stopped and self._timers.is_kept(self._shard)

    def _begin(self) -> None:
        for target in tuple(self._waiting):
            if len(self._delivering) >= _TARGETS_AT_ONCE:
                return
            del self._waiting[target]
            if target in self._delivering:
                continue
            try:
                self._services.runtime.tasks.spawn(self._deliver(target), name="timers")
            except ShuttingDown:
                return
            self._delivering.add(target)

    async def _deliver(self, target: Target) -> None:
        """Deliver to one target until nothing more is due, or the shard is dropped."""
        try:
            while self._goes_on() and await self._deliver_batch(target):
                pass
        except MillpondError as error:
            log.warning("timers of %s-%d wait: %s", target.topic_id, target.partition, error)
            await asyncio.sleep(_AGAIN_S)
            self._waiting[target] = None
        finally:
            self._delivering.discard(target)
            self.wake()

    async def _deliver_batch(self, target: Target) -> bool:
        """Carry out one intent; answers whether there may be more to do."""
        topic = self._topic_of(target)
        if topic is None:
            return await self._give_up(target)
        self._missing.remove(target)
        # What cannot be written is not taken out of the wheel, and the shard need not be read again.
        self._shard.partition.check_in_sync()
        intent = self._state.open_intent(target)
        records: dict[int, Delayed] = {}
        if intent is None:
            room = min(_BATCH_BYTES, self._services.partitions.config_of(topic).max_message_bytes)

            def fits(sources: Sequence[int]) -> int:
                records.update(self._read(target, sources))
                return _count_within(sources, records, room)

            intent = self._state.deliver(
                target,
                self._services.runtime.clock.now_ms(),
                producer_id=self._producer_id,
                limit=_BATCH_TIMERS,
                fits=fits,
            )
            if intent is None:
                return False
            await flushed(self._timers.write(self._shard, [intent]))
        else:
            records = self._read(target, intent.sources)
        if await self._send(TopicPartition(topic, target.partition), intent, records):
            self._shard.partition.check_in_sync()
            self._timers.write(self._shard, self._state.delivered(target))
        return True

    async def _send(self, to: TopicPartition, intent: Intent, records: dict[int, Delayed]) -> bool:
        """Send the batch of a committed intent; answers whether the target has it."""
        if not self._goes_on():
            return False
        now_ms = self._services.runtime.clock.now_ms()
        batch = [delivered(records[one], now_ms) for one in intent.sources if one in records]
        if not batch:
            return True
        data = build_batch(
            batch,
            producer_id=intent.producer_id,
            producer_epoch=0,
            base_sequence=intent.sequence,
        )
        try:
            await self._partition_calls.append(to, bytes(data))
        except _REFUSED_SEQUENCE as error:
            log.warning(
                "partition=%s: delayed records are sent under a new producer id: %s", to, error
            )
            fresh = await self._new_producer_id()
            again = self._state.again(intent.target, producer_id=fresh) if self._goes_on() else None
            if again is not None:
                await flushed(self._timers.write(self._shard, [again]))
            return False
        except MillpondError as error:
            log.warning(
                "partition=%s: %d delayed records wait another %g s: %s",
                to,
                len(batch),
                _AGAIN_S,
                error,
            )
            await asyncio.sleep(_AGAIN_S)
            return False
        return self._goes_on()

    def _topic_of(self, target: Target) -> str | None:
        try:
            return self._services.partitions.topic_by_id(target.topic_id).name
        except MillpondError:
            return None

    def _look_for_missing(self) -> None:
        now_ms = self._services.runtime.clock.monotonic_ms()
        self._missing.look(self._state.targets, now_ms)
        for target in self._missing.decided(now_ms):
            self._waiting[target] = None

    async def _give_up(self, target: Target) -> bool:
        """The topic is not known. If that lasts it was deleted, and its timers and its position are over;
        answers whether there is more to do now.
        """
        now_ms = self._services.runtime.clock.monotonic_ms()
        self._missing.note(target, now_ms)
        if not self._missing.is_gone(target, now_ms):
            return False
        gone = self._state.forget(target, _FORGOTTEN_AT_ONCE)
        if not gone:
            self._missing.remove(target)
            return False
        self._shard.partition.check_in_sync()
        self._timers.write(self._shard, gone)
        await asyncio.sleep(0)  # there may be millions
        return True

    def _read(self, target: Target, sources: Sequence[int]) -> dict[int, Delayed]:
        offsets = {
            source: offset
            for source in sources
            if (offset := self._state.offset_of(target, source)) is not None
        }
        found = read_timers(
            self._shard.partition, list(offsets.values()), self._services.repairs.may_come_back
        )
        return {source: found[at] for source, at in offsets.items() if at in found}

    async def _new_producer_id(self) -> int:
        while True:
            try:
                return await self._services.producer_ids.next()
            except ShuttingDown:
                raise
            except MillpondError as error:
                log.info("timers: no producer id yet (%s); trying again", error)
                await asyncio.sleep(_AGAIN_S)


def _shard_key(target: Target) -> str:
    return f"{target.topic_id}-{target.partition}"


def _parts(command: Schedule) -> Iterator[Schedule]:
    """The same as commands of a few records, each of which becomes a batch of its own."""
    first = command.first
    part: list[Entry] = []
    size = 0
    for entry in command.entries:
        if part and (len(part) == _BATCH_SCHEDULED or size + len(entry.value) > _BATCH_BYTES):
            yield replace(command, first=first, upto=entry.source, entries=part)
            first, part, size = entry.source, [], 0
        part.append(entry)
        size += len(entry.value)
    yield replace(command, first=first, entries=part)


def _count_within(sources: Sequence[int], records: dict[int, Delayed], room: int) -> int:
    """How many of the records go into so many bytes; one at least."""
    size = 0
    for count, source in enumerate(sources):
        if source in records:
            size += len(encode(records[source])) + _RECORD_OVERHEAD
        if size > room:
            return max(count, 1)
    return len(sources)
