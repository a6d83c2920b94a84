"""One queue on the node that leads its topic: its turns, and what its clients ask of it.

The parts of a queue: its messages (``message_store.py``), decisions and what they need (``decisions.py``),
messages on their way to consumers (``handouts.py``), dead letters on their way (``outbox.py``) and its end
(``ending.py``).

What a step decided is written as one control batch for each partition, after the dead letters that it caused
and before a consumer gets its messages; no client waits for that write to be flushed. Where the log has
copies, a mark in it runs ahead of what is delivered, and that waits for the copies. The log loses its
beginning when everything there is over. When a client or retention takes messages out of it (DeleteRecords),
they are lost and counted, and the queue goes on behind them; so it does behind messages that the disk has
damaged.

What cannot be read now (the disk fails, or another replica is asked for what is damaged here) is neither lost
nor a reason to stop: the consumer that needs it waits and is tried again, and all others go on.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.errors import (
    MessageLost,
    MillpondError,
    RequestTimedOut,
    StorageFailure,
    UnknownResource,
)
from millpond.cursor.ack import Range
from millpond.cursor.runs import NEVER_MS, Run, State
from millpond.engine.partitions.publish import Appended
from millpond.engine.queues.dead_letters import DeadLetters
from millpond.engine.queues.delays import DelayedMessages
from millpond.engine.queues.hosted.decisions import Decisions
from millpond.engine.queues.hosted.ending import Ending
from millpond.engine.queues.hosted.handouts import Handouts
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.engine.queues.hosted.outbox import Outbox
from millpond.engine.queues.hosted.queue_loading import Loading
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.queue_handle import Counts, Got, Sink, Taken
from millpond.queue.consumers import UNLIMITED, Consumer
from millpond.queue.log_facts import LaneSnapshot, LogFacts
from millpond.queue.message import Message
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import DeathReason, Handout, Step
from millpond.rabbit.arguments import QUORUM
from millpond.rabbit.commands import DeleteQueue
from millpond.rabbit.exchange_types import delay_ms_of
from millpond.rabbit.records import Queue
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)

# So many offsets must be over at the beginning of a log before it is cut.
_CUT_OFFSETS = 10_000
# A queue that has expired and is still there is deleted again after so long.
_LOST_AGAIN_S = 10.0


class HostedQueue:
    """One queue."""

    def __init__(
        self,
        queues: "Queues",
        queue: Queue,
        settings: QueueSettings,
        partitions: Sequence[Partition],
    ) -> None:
        self._queues = queues
        self._clock = queues.engine.clock
        self._loop = asyncio.get_running_loop()
        self.queue = queue
        # Unlike its name, no other queue ever has this.
        self.key = queues.key_of(queue)
        self.is_gone = False
        # A quorum queue keeps all its messages, whatever their publishers ask for.
        self._is_durable = queue.durable
        self._keeps_all = queue.type == QUORUM
        lanes = [
            QueueLog(queues.engine, partition, lasts=queue.durable) for partition in partitions
        ]
        self._lanes = lanes
        starts = [lane.taken for lane in lanes]
        self.line = QueueState(settings, now_ms=self._clock.now_ms(), starts=starts)
        self.store = MessageStore(lanes, queues.envelope, self.wake)
        self.handouts = Handouts(self, lanes, str(queue.resource))
        self.decisions = Decisions(self.store, self.cannot_read)
        self.outbox = Outbox(self, DeadLetters(queues, self), self._dead_letter)
        self.ending = Ending(self._publish, self._check_there)
        self._is_scheduled = False
        # Not set while messages of closed channels are being returned.
        self._is_back = asyncio.Event()
        self._is_back.set()
        self._wake_ms = NEVER_MS
        self._timer: asyncio.TimerHandle | None = None
        # After a turn that failed, or while memory runs low.
        self._retry: asyncio.TimerHandle | None = None
        self._retry_ms = limits.QUEUE_TURN_RETRY_MS_MIN
        # Messages that were published twice, perhaps, and are not in the queue yet: lane, first and next.
        self._again: list[tuple[int, int, int]] = []
        # Messages that were taken out of the log from outside, or that cannot be read.
        self.lost = 0

    @property
    def settings(self) -> QueueSettings:
        """What its arguments and policies come to."""
        return self.line.settings

    # --- life --------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the log: what messages there are, and what became of them. Raises what the log does."""
        self.line.begin_load()
        for number, lane in enumerate(self._lanes):
            lane.load(Loading(self, number))
            lane.partition.watchers[self] = None
            self.line.doubt(number, 0, lane.doubtful_below)
        self.line.forget_owners()
        self.decisions.learn_sizes(self.line)
        if self.line.settings.is_delayed:
            DelayedMessages(self._queues, self).start()
        self.wake()

    def close(self) -> None:
        """The queue is gone, or the broker stops."""
        self._stop()
        for consumer in list(self.line.consumers):
            self.handouts.sink(consumer.owner).cancelled(consumer)
        self.handouts.clear()

    def leave(self) -> list[tuple[Consumer, Sink]]:
        """Another node hosts the queue now; those who wanted messages here."""
        left = [(one, self.handouts.sink(one.owner)) for one in self.line.consumers]
        self.handouts.clear()
        self._stop()
        return left

    def position_of(self, consumer: Consumer, sink: Sink) -> int:
        """Where a consumer goes on at another host; -1 if that is all the same."""
        return -1

    def abandon(self) -> None:
        """The log could not be read: nothing is known, so nothing is said."""
        self.is_gone = True
        self.store.clear()
        self.outbox.close()
        self.handouts.close()
        self._is_back.set()
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        for lane in self._lanes:
            lane.partition.watchers.pop(self, None)

    def send_away(self) -> None:
        """Another node may host the queue by now: who waits for its replicas is told."""
        for lane in self._lanes:
            lane.send_away()

    def _stop(self) -> None:
        self.abandon()
        for lane in self._lanes:
            lane.say_last_facts()

    def configure(self, settings: QueueSettings) -> None:
        """Policies have changed."""
        if settings != self.line.settings:
            self.line.configure(settings)
            self._trim(self._clock.now_ms())
            self.wake()

    # --- the log's side ----------------------------------------------------------------------------

    def on_advance(self, added_bytes: int) -> None:
        if not self.store.is_writing:
            self.wake()

    def on_gone(self) -> None:
        if not self.is_gone:
            self._queues.on_gone(self.key)

    def wake(self) -> None:
        """Look at everything once more, soon."""
        if not self._is_scheduled and not self.is_gone:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    async def settled(self) -> None:
        """Wait for messages that are on their way into the queue now, not for those that come meanwhile.

        Some may come back from channels that are gone. Raises ``RequestTimedOut`` if it takes too long: too
        few replicas are in sync.
        """
        self._take_in()
        await self._given_back()
        if not self.store.is_taken_in and not self.is_gone:
            for lane in self._lanes:
                await lane.confirmed()
            self._take_in()

    def publish(self, messages: Sequence[Message], *, again: bool = False) -> Taken:
        """Messages, in order. Those that are not admitted become letters if the queue wants that.

        ``again``: they may be in the queue already, and be known to consumers.
        """
        held = self.ending.hold(messages, again=again)
        return held or self._publish(messages, again)

    def _publish(self, messages: Sequence[Message], again: bool) -> Taken:
        admitted, to_letters = self.admit(messages)
        kept = messages if admitted == len(messages) else messages[:admitted]
        lanes: dict[int, Sequence[Message]] = {}
        if len(self._lanes) == 1:
            if kept:
                lanes[0] = kept
        else:
            by_priority: dict[int, list[Message]] = {}
            for message in kept:
                by_priority.setdefault(self.lane_for(message), []).append(message)
            lanes.update(by_priority)
        appended = []
        for lane, some in lanes.items():
            written = self.append(lane, some)
            appended.append(written.durable)
            if again:
                self._again.append((lane, written.info.first_offset, written.info.last_offset + 1))
        if to_letters and admitted < len(messages):
            self.refuse(messages[admitted:])
        return Taken(admitted, [durable for durable in appended if durable is not None])

    def lane_for(self, message: Message) -> int:
        """Which partition a message goes to."""
        return self.line.lane_of(message.priority)

    def append(self, lane: int, messages: Sequence[Message]) -> Appended:
        """Write messages; they are in the queue when ``durable`` is done. Raises what the log does."""
        synced = self._is_durable and (
            self._keeps_all or any(message.is_persistent for message in messages)
        )
        kept = self._queues.is_recent_kept
        appended = self.store.append(lane, messages, synced=synced, kept=kept)
        self.wake()
        return appended

    def forget_recent(self) -> None:
        """Memory runs low; the log has all of it."""
        self.store.forget()
        self.line.known.clear()

    def admit(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """How many of these may be appended, and whether the others are to become letters."""
        if self.line.settings.overflow == "drop-head":
            return len(messages), False
        self.decisions.learn_sizes(self.line)
        coming = self.store.coming()
        answer = self.line.admit([*coming, *(len(message.body) for message in messages)])
        return max(0, answer.admitted - len(coming)), answer.to_letters

    def _decide(self, decision: Callable[[], Step]) -> Step:
        """Carry out a decision to its end. Return its last step."""
        return self.decisions.carry_out(self.line, decision, self._follow)

    def due_ms(self, lane: int, first: int, next_: int) -> list[int]:
        """When messages are ready, in a queue that delays; a lost one at once. Raises ``StorageFailure``."""
        if not self.line.settings.is_delayed:
            return []
        due: list[int] = []
        for offset in range(first, next_):
            try:
                message = self.look(lane, offset)
            except MessageLost:
                due.append(0)
            else:
                due.append(message.received_ms + delay_ms_of(message.headers))
        return due

    def message(self, lane: int, offset: int) -> Message:
        """A message that was handed out."""
        return self.store.message(lane, offset)

    def look(self, lane: int, offset: int) -> Message:
        """A message in the log, whether a consumer holds it or not. Raises ``MessageLost``,
        ``StorageFailure``."""
        return self.store.look(lane, offset)

    def lose(self, lane: int, offset: int, consumer: Consumer) -> None:
        """A message that was handed out cannot be read: nobody has it, and nobody will."""
        # What others cut off is counted where that is seen.
        if consumer.no_ack or offset >= self.line.lanes[lane].cursor.start:
            self.count_lost(1, f"offset {offset} cannot be read")
        if not consumer.no_ack:
            self.settle(lane, [(offset, offset + 1)], consumer.owner)

    def count_lost(self, count: int, why: str) -> None:
        """Messages are lost that were not over."""
        if count:
            self.lost += count
            log.warning("%s: %d messages are lost: %s", self.queue.resource, count, why)

    # --- one turn ------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._is_scheduled = False
        if self.is_gone:
            return
        sinks: dict[Sink, None] = {}
        try:
            self._turn(sinks)
            self._retry_ms = limits.QUEUE_TURN_RETRY_MS_MIN
        except MillpondError as error:
            log.warning("%s: cannot go on: %s", self.queue.resource, error)
            self._try_again()
        # The disk works while consumers are written to.
        self._queues.engine.flusher.hurry()
        # Not while the turn is under way: who cannot be sent anything is cancelled.
        for sink in sinks:
            sink.send_out()

    def _try_again(self) -> None:
        """What was decided waits to be written, and perhaps nobody else will wake this queue."""
        self._wake_in(self._retry_ms)
        self._retry_ms = min(2 * self._retry_ms, limits.QUEUE_TURN_RETRY_MS_MAX)

    def _wake_in(self, delay_ms: int) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_ms / 1000, self.wake)

    def _turn(self, sinks: dict[Sink, None]) -> None:
        """``sinks`` gets those who were handed something."""
        now_ms = self._clock.now_ms()
        self.handouts.is_unread = False
        self.decisions.forget_unreadable(self.line)
        self._take_in()
        is_low = not self._queues.is_recent_kept
        self.line.held_max = limits.QUEUE_HELD_MAX if is_low else UNLIMITED
        was_held_back = self.handouts.is_held_back
        if not was_held_back:
            # Consumers' room is counted without what is held back for them.
            given: dict[tuple[str, bool], int] = {}
            self._decide(partial(self.line.deliver, now_ms, self.handouts.room, given))
        self._trim(now_ms)
        if self.outbox and self.handouts.is_pausing:
            self.handouts.is_unread = True
        else:
            self.outbox.send_some()
        self.store.write_facts()
        self._hand_out(sinks)
        if was_held_back and not self.handouts.is_held_back:
            self.wake()
        self._write_snapshots()
        self._cut()
        self._arm(now_ms)
        if is_low and self.line.ready and self.line.consumers:
            # Perhaps somebody holds so much that there is no more for it until memory suffices.
            self._wake_in(limits.QUEUE_HELD_LOOK_MS)
        self.handouts.could_read()
        self.decisions.forget_unreadable(self.line)

    def _trim(self, now_ms: int) -> None:
        """Drop what is too old, then what is too much."""
        self._decide(partial(self.line.expire, now_ms))
        self._decide(self.line.drop_excess)
        self.decisions.learn_sizes(self.line)
        self.line.offered()

    def _hand_out(self, sinks: dict[Sink, None]) -> None:
        self.handouts.hand_out(self, sinks)

    def cannot_read(self, error: MillpondError) -> None:
        """The queue itself reads again later, and does without it now."""
        self.handouts.cannot_read(error)

    def _take_in(self) -> None:
        for number, lane in enumerate(self._lanes):
            self._note_loss(number, lane)
            if lane.damaged:
                self._give_up_damaged(number, lane)
            try:
                self._take_arrivals(number, lane)
            except StorageFailure as error:
                # What came before it is served, and it comes in when it can be read.
                self.cannot_read(error)
        if self._again:
            again, self._again = self._again, []
            for lane_, first, next_ in again:
                if next_ <= self.line.lanes[lane_].end:
                    self._follow(self.line.doubt(lane_, first, next_))
                else:
                    self._again.append((lane_, first, next_))

    def _take_arrivals(self, number: int, lane: QueueLog) -> None:
        for first, next_, has_ttl, size in lane.arrivals():
            due_ms = self.due_ms(number, first, next_)
            self.line.published(number, first, next_, has_ttl=has_ttl, size=size, due_ms=due_ms)

    def _note_loss(self, number: int, lane: QueueLog) -> None:
        start = lane.partition.log.start_offset
        if start <= self.line.lanes[number].cursor.start:
            return
        lost = self.line.lose(number, start)
        lane.skip_to(start)
        self.lost += lost
        if lost:
            log.warning(
                "%s: %d messages are lost, its topic %s was cut to offset %d by others",
                self.queue.resource,
                lost,
                self.queue.topic,
                start,
            )

    def _give_up_damaged(self, number: int, lane: QueueLog) -> None:
        damaged, lane.damaged = lane.damaged, []
        lost, step = self.line.lose_unreadable(number, damaged)
        self._follow(step)
        self.count_lost(lost, f"offsets {damaged[0][0]} to {damaged[-1][1] - 1} cannot be read")

    def _follow(self, step: Step) -> None:
        """Carry out a step."""
        if not step.is_empty:
            self._note(step)
            self.handouts.add(step.handouts)

    def _note(self, step: Step) -> None:
        """Carry out a step but for what it hands out."""
        withheld = self.outbox.take(step.letters, self.settings.dead_letter_strategy)
        for fact in step.facts:
            self._lanes[fact.lane].facts += [
                run for run in fact.delta.runs if (fact.lane, run.first) not in withheld
            ]
        for handout in step.handouts:
            self._lanes[handout.lane].cover(handout.next)
            if not handout.consumer.no_ack:
                run = Run(handout.first, handout.next, State.AVAILABLE, handout.deliveries)
                # What was handed out and settled in one step is in ``facts`` already.
                self._lanes[handout.lane].facts.append(run)

    def note_over(self, lane: int, run: Run) -> None:
        """The dead letters of these messages were sent: now the log may say that they are over."""
        self._lanes[lane].facts.append(run)
        self.wake()

    def _write_snapshots(self) -> None:
        for number, lane in enumerate(self._lanes):
            if lane.wants_snapshot and self.outbox.is_empty:
                self._write_snapshot(number)

    def _write_snapshot(self, number: int) -> None:
        lane, line = self._lanes[number], self.line
        state = line.lanes[number].state()
        kept_bytes = self.decisions.kept_bytes(line, number)
        snapshot = LaneSnapshot(lane.taken, state, self.store.has_ttl, kept_bytes)
        if state.end < line.lanes[number].end:
            # Not all of it could be told: the rest is to be read, and its size with it.
            snapshot = snapshot._replace(taken=state.end, kept_bytes=None)
        lane.write_snapshot(snapshot)

    def _cut(self) -> None:
        """Let the log lose what is over, and has left for those who need not acknowledge it."""
        if not self.line.knows_sizes:
            return  # The sizes of messages that are over are still to be read.
        self.handouts.forget_served(self)
        for number, (lane, place) in enumerate(zip(self._lanes, self.line.lanes, strict=True)):
            start = min(place.cursor.start, lane.partition.high_watermark)
            if lane.facts or start - lane.partition.log.start_offset < _CUT_OFFSETS:
                continue
            start = min(start, self.handouts.lowest(self, number), self.outbox.lowest(number))
            if start - lane.partition.log.start_offset >= _CUT_OFFSETS:
                start = lane.cuttable(start)
            if start - lane.partition.log.start_offset >= _CUT_OFFSETS:
                if self.store.has_ttl:
                    lane.write(LogFacts((), has_ttl=True))
                if self.settings.max_length_bytes is not None and self.outbox.is_empty:
                    # The size of what goes could not be found out any more.
                    self._write_snapshot(number)
                lane.cut(start)

    # --- time ----------------------------------------------------------------------------------------

    def _arm(self, now_ms: int) -> None:
        wake_ms = self.line.wake_ms()
        if wake_ms == self._wake_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wake_ms, self._timer = wake_ms, None
        if wake_ms < NEVER_MS:
            delay_s = max(0, wake_ms - now_ms) / 1000
            self._timer = self._loop.call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self.line.is_outdated(self._clock.now_ms()):
            self._queues.lose(self)
            # Unless nobody could decide it.
            self._timer = self._loop.call_later(_LOST_AGAIN_S, self._on_time)
        else:
            self.wake()

    # --- consumers' side -------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, sink: Sink) -> None:
        """A consumer comes. Raises ``QueueInUse``; ``UnknownResource`` if the queue is about to go."""
        if self.ending.has_begun:
            raise self._unknown()
        self.line.consumers.check(str(self.queue.resource), exclusive=consumer.exclusive)
        self.handouts.attach(consumer.owner, sink)
        self.line.consume(consumer, self._clock.now_ms())
        self.wake()

    def cancel(self, owner: str) -> None:
        """A consumer goes; what it holds stays its channel's."""
        if self.line.cancel(owner, self._clock.now_ms()):
            self._queues.lost_last_consumer(self)
        self.handouts.detach(owner)
        self.wake()

    def lose_channel(self, channel: str) -> None:
        """A channel is gone with all its consumers."""
        had_consumers = bool(self.line.consumers)
        for consumer in self.line.consumers.of_channel(channel):
            self.handouts.lose(consumer.owner)
        self._follow(self.line.lose_channel(channel, self._clock.now_ms()))
        self._give_back_soon()
        if had_consumers and not self.line.consumers:
            self._queues.lost_last_consumer(self)
        self.wake()

    def _give_back_soon(self) -> None:
        """What a channel held that is gone comes back in steps, and others have their turns between."""
        if self.line.is_returning and self._is_back.is_set():
            self._is_back.clear()
            self._loop.call_soon(self._give_back)

    def _give_back(self) -> None:
        if self.is_gone:
            return
        try:
            self._follow(self.line.give_back())
        finally:
            self.wake()
            self._is_back.set()
            self._give_back_soon()

    async def _given_back(self) -> None:
        """Wait until nothing is on its way back."""
        while self.line.is_returning and not self.is_gone:
            await self._is_back.wait()

    def _unknown(self) -> UnknownResource:
        return UnknownResource(f"no {self.queue.resource}")

    def _check_there(self) -> None:
        if self.is_gone:
            raise self._unknown()

    async def counted(self) -> Counts:
        """How full it is, with all that was published before. Whoever asks uses the queue."""
        await self.ending.passed()
        # As RabbitMQ does, say what is known when the replicas do not answer.
        with suppress(RequestTimedOut):
            await self.settled()
        self.line.touch(self._clock.now_ms())
        return self._counts()

    async def delete_if(self, command: DeleteQueue) -> int:
        """Delete the queue if it is as the command wants it, and nothing comes into it meanwhile."""
        with self.ending.holding_back():
            while True:
                await self.ending.passed()
                await self.settled()
                self._check_there()
                if not self.ending.has_begun:
                    break
            ready = self.line.ready
            found = replace(
                command, messages=ready, consumers=len(self.line.consumers), key=self.key
            )
            await self._queues.end(self, found)
            return ready

    async def glance(self) -> Counts:
        """How full it is now; a look is no use of it."""
        return self._counts()

    def _counts(self) -> Counts:
        line = self.line
        return Counts(line.ready, len(line.consumers), line.held, self.lost)

    async def got(self, consumer: Consumer) -> Got | None:
        """One message for somebody who asks; None if there is none. Raises ``StorageFailure``."""
        await self.ending.passed()
        await self.settled()
        await self._caught_up()
        await self._readable()
        while (handout := self.get(consumer)) is not None:
            try:
                message = self.message(handout.lane, handout.first)
            except MessageLost:
                self.lose(handout.lane, handout.first, consumer)
                await self._readable()
            except StorageFailure:
                self.handouts.take_back(handout)
                raise
            else:
                await self._lanes[handout.lane].covered(handout.next)
                return Got(handout, message, self.line.ready)
        return None

    async def _readable(self) -> None:
        """Wait until what is next can be read: nothing is taken before. Raises why it cannot be."""
        waited_ms, pause_ms = 0, limits.QUEUE_READ_RETRY_MS_MIN
        while not self.is_gone:
            await self._given_back()
            self._take_in()
            now_ms = self._clock.now_ms()
            self._follow(self.line.awaken(now_ms))
            self._decide(partial(self.line.expire, now_ms))
            place = self.line.next_up()
            try:
                if place is not None:
                    self.look(*place)
            except MessageLost:
                return
            except StorageFailure:
                self.wake()
                if waited_ms >= limits.QUEUE_READ_WAIT_MS_MAX:
                    raise
            else:
                return
            pause_ms = min(pause_ms, limits.QUEUE_READ_WAIT_MS_MAX - waited_ms)
            await asyncio.sleep(pause_ms / 1000)
            waited_ms, pause_ms = waited_ms + pause_ms, 2 * pause_ms

    async def _caught_up(self) -> None:
        """What is too old goes, however much it is, and others have their turns between."""
        while not self.is_gone:
            late = self._decide(partial(self.line.expire, self._clock.now_ms()))
            if not late.is_full:
                return
            self.store.write_facts()
            await asyncio.sleep(0)

    async def purged(self) -> int:
        """Everything that is ready is over. How much it was. Raises ``NotLeader``."""
        await self.settled()
        self._check_hosted()
        return self.purge()

    def _check_hosted(self) -> None:
        """Somebody has waited, and the queue may have moved meanwhile: nothing said to it here would last."""
        if self.is_gone:
            raise self._lanes[0].partition.not_leader()

    def get(self, consumer: Consumer) -> Handout | None:
        """One message for somebody who asks."""
        self._take_in()
        now_ms = self._clock.now_ms()
        decision = partial(self.line.get, consumer, now_ms)
        step = self.decisions.carry_out(self.line, decision, self._note)
        self.store.write_facts()
        # As RabbitMQ does, look at ages once more before counting.
        self._decide(partial(self.line.expire, now_ms))
        self.wake()
        return step.handouts[0] if step.handouts else None

    def purge(self) -> int:
        """Everything that is ready is over. How much it was."""
        self._take_in()
        count, step = self.line.purge()
        self._follow(step)
        self.wake()
        return count

    def settle(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish(QueueState.settle, lane, ranges, owner)

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish(QueueState.requeue, lane, ranges, owner)
        self._decide(self.line.drop_excess)

    def reject(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish(QueueState.reject, lane, ranges, owner)

    def _finish(
        self, verb: Callable[..., Step], lane: int, ranges: Iterable[Range], owner: str
    ) -> None:
        self._follow(verb(self.line, lane, ranges, owner, self._clock.now_ms()))
        self.wake()

    def refuse(self, messages: Sequence[Message]) -> None:
        """There was no room for these, and they are to become dead letters."""
        self._dead_letter(messages, DeathReason.MAX_LENGTH)

    def _dead_letter(self, messages: Sequence[Message], reason: DeathReason) -> None:
        self._queues.bury(self, messages, reason)
