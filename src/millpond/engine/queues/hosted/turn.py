"""One queue's turns: what came is taken in, decisions are made and carried out, and the log is kept short.

A turn runs soon after something has changed (``wake``), and when a message or the queue expires. What was
decided is written as one control batch for each partition, after the dead letters that it caused and before
a consumer gets its messages. A turn that fails is tried again: what was decided waits to be written.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import MillpondError, StorageFailure
from millpond.cursor.runs import NEVER_MS, Run, State
from millpond.engine.queues.hosted.decisions import Decisions
from millpond.engine.queues.hosted.handouts import Handouts
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.engine.queues.hosted.outbox import Outbox
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.queue_handle import QueueHandle, Sink
from millpond.queue.consumers import UNLIMITED
from millpond.queue.log_facts import LaneSnapshot, LogFacts
from millpond.queue.queue_state import QueueState
from millpond.queue.steps import Step

log = logging.getLogger(__name__)

# So many offsets must be over at the beginning of a log before it is cut.
_CUT_OFFSETS = 10_000
# A queue that has expired and is still there is deleted again after so long.
_LOST_AGAIN_S = 10.0


class Surroundings:
    """What a turn needs of the node and of its queue."""

    def __init__(
        self,
        *,
        queue: QueueHandle,
        clock: Clock,
        hurry: Callable[[], None],
        is_memory_low: Callable[[], bool],
        on_expired: Callable[[], None],
        count_lost: Callable[[int, str], None],
    ) -> None:
        """``hurry`` begins to flush what was written; ``on_expired`` hears that the queue is to go."""
        self.queue = queue
        self.clock = clock
        self.hurry = hurry
        self.is_memory_low = is_memory_low
        self.on_expired = on_expired
        self.count_lost = count_lost


class Turn:
    """Those of one queue."""

    def __init__(
        self,
        state: QueueState,
        store: MessageStore,
        handouts: Handouts,
        decisions: Decisions,
        outbox: Outbox,
        around: Surroundings,
    ) -> None:
        self.state = state
        self._store = store
        self._lanes = store.lanes
        self._handouts = handouts
        self._decisions = decisions
        self._outbox = outbox
        self._queue = around.queue
        self._name = str(around.queue.queue.resource)
        self.now_ms = around.clock.now_ms
        self._hurry = around.hurry
        self._is_memory_low = around.is_memory_low
        self._on_expired = around.on_expired
        self._count_lost = around.count_lost
        self._loop = asyncio.get_running_loop()
        self.is_stopped = False
        self._is_scheduled = False
        self._wake_ms = NEVER_MS
        self._timer: asyncio.TimerHandle | None = None
        # After a turn that failed, or while memory runs low.
        self._retry: asyncio.TimerHandle | None = None
        self._retry_ms = limits.QUEUE_TURN_RETRY_MS_MIN
        # Messages that were published twice, perhaps, and are not in the queue yet: lane, first and next.
        self._repeated: list[tuple[int, int, int]] = []

    def wake(self) -> None:
        """Begin a turn soon."""
        if not self._is_scheduled and not self.is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    def stop(self) -> None:
        """There are no more turns."""
        self.is_stopped = True
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()

    def repeated(self, lane: int, first: int, next_: int) -> None:
        """These messages may be in the queue a second time: they count as delivered when they come."""
        self._repeated.append((lane, first, next_))

    def decide(self, decision: Callable[[], Step]) -> Step:
        """Carry out a decision to its end. Return its last step."""
        return self._decisions.carry_out(self.state, decision, self.follow)

    def _due_ms(self, lane: int, first: int, next_: int) -> list[int]:
        is_delayed = self.state.settings.is_delayed
        return self._store.due_ms(lane, first, next_) if is_delayed else []

    # --- one turn ------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._is_scheduled = False
        if self.is_stopped:
            return
        sinks: dict[Sink, None] = {}
        try:
            self._turn(sinks)
            self._retry_ms = limits.QUEUE_TURN_RETRY_MS_MIN
        except MillpondError as error:
            log.warning("%s: cannot go on: %s", self._name, error)
            self._try_again()
        # The disk works while consumers are written to.
        self._hurry()
        # Not while the turn is under way: a client that cannot be sent anything is cancelled.
        for sink in sinks:
            sink.send_out()

    def _try_again(self) -> None:
        """What was decided waits to be written, and perhaps nothing else wakes this queue."""
        self._wake_in(self._retry_ms)
        self._retry_ms = min(2 * self._retry_ms, limits.QUEUE_TURN_RETRY_MS_MAX)

    def _wake_in(self, delay_ms: int) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_ms / 1000, self.wake)

    def _turn(self, sinks: dict[Sink, None]) -> None:
        """``sinks`` gets those that were handed something."""
        now_ms = self.now_ms()
        self._handouts.is_unread = False
        self._decisions.forget_unreadable(self.state)
        self.take_in()
        is_low = self._is_memory_low()
        self.state.held_max = limits.QUEUE_HELD_MAX if is_low else UNLIMITED
        was_held_back = self._handouts.is_held_back
        if not was_held_back:
            # Consumers' room is counted without what is held back for them.
            self._deliver(now_ms)
        self.trim(now_ms)
        if self._outbox and self._handouts.is_pausing:
            self._handouts.is_unread = True
        else:
            self._outbox.send_some()
        self._store.write_facts()
        self._hand_out(sinks)
        if was_held_back and not self._handouts.is_held_back:
            self.wake()
        self._keep_log()
        self._arm(now_ms)
        if is_low and self.state.ready and self.state.consumers:
            # Perhaps a consumer holds so much that it gets no more until memory suffices.
            self._wake_in(limits.QUEUE_HELD_LOOK_MS)
        self._handouts.could_read()
        self._decisions.forget_unreadable(self.state)

    def _deliver(self, now_ms: int) -> None:
        """Decide which consumers get which messages."""
        given: dict[tuple[str, bool], int] = {}
        self.decide(partial(self.state.deliver, now_ms, self._handouts.room, given))

    def trim(self, now_ms: int) -> None:
        """Drop what is too old, then what is too much."""
        self.decide(partial(self.state.expire, now_ms))
        # It costs less than to open the messages, which a decision that needs them does.
        self._decisions.learn_sizes(self.state)
        self.decide(self.state.drop_excess)
        self.state.offered()

    def _hand_out(self, sinks: dict[Sink, None]) -> None:
        self._handouts.hand_out(self._queue, sinks)

    def take_in(self) -> None:
        """Take in what was confirmed since, and drop what is lost."""
        for number, lane in enumerate(self._lanes):
            self._note_loss(number, lane)
            if lane.reader.damaged:
                self._give_up_damaged(number, lane)
            try:
                self._take_arrivals(number, lane)
            except StorageFailure as error:
                # What came before it is served, and it comes in when it can be read.
                self._handouts.cannot_read(error)
        if self._repeated:
            again, self._repeated = self._repeated, []
            for lane_, first, next_ in again:
                if next_ <= self.state.lanes[lane_].end:
                    self.follow(self.state.recovery.doubt(lane_, first, next_))
                else:
                    self._repeated.append((lane_, first, next_))

    def _take_arrivals(self, number: int, lane: QueueLog) -> None:
        for first, next_, has_ttl, size in lane.arrivals():
            due_ms = self._due_ms(number, first, next_)
            self.state.published(number, first, next_, has_ttl=has_ttl, size=size, due_ms=due_ms)

    def _note_loss(self, number: int, lane: QueueLog) -> None:
        start = lane.partition.log.start_offset
        if start > self.state.lanes[number].cursor.start:
            lost = self.state.recovery.lose(number, start)
            lane.skip_to(start)
            topic = lane.partition.topic
            self._count_lost(lost, f"its topic {topic} was cut to offset {start} from outside")

    def _give_up_damaged(self, number: int, lane: QueueLog) -> None:
        damaged, lane.reader.damaged = lane.reader.damaged, []
        lost, step = self.state.recovery.lose_unreadable(number, damaged)
        self.follow(step)
        self._count_lost(lost, f"offsets {damaged[0][0]} to {damaged[-1][1] - 1} cannot be read")

    def follow(self, step: Step) -> None:
        """Carry out a step."""
        if not step.is_empty:
            self.note(step)
            self._handouts.add(step.handouts)

    def note(self, step: Step) -> None:
        """Carry out a step but for what it hands out."""
        withheld = self._outbox.take(step.dead_letters, self.state.settings.dead_letter_strategy)
        for fact in step.facts:
            self._lanes[fact.lane].facts += [
                run for run in fact.delta.runs if (fact.lane, run.first) not in withheld
            ]
        for handout in step.handouts:
            self._lanes[handout.lane].marks.cover(handout.next)
            if not handout.consumer.no_ack:
                run = Run(handout.first, handout.next, State.AVAILABLE, handout.deliveries)
                # What was handed out and settled in one step is in ``facts`` already.
                self._lanes[handout.lane].facts.append(run)

    def note_over(self, lane: int, run: Run) -> None:
        """The dead letters of these messages were sent: now the log may say that they are over."""
        self._lanes[lane].facts.append(run)
        self.wake()

    def _keep_log(self) -> None:
        """Write snapshots where a load would take long, and cut off what is over."""
        for number, lane in enumerate(self._lanes):
            if lane.wants_snapshot and self._outbox.is_empty:
                self._write_snapshot(number)
        self._cut()

    def _write_snapshot(self, number: int) -> None:
        lane, target = self._lanes[number], self.state.lanes[number]
        state = target.state()
        kept_bytes = self._decisions.kept_bytes(self.state, number)
        snapshot = LaneSnapshot(lane.taken, state, self._store.has_ttl, kept_bytes)
        if state.end < target.end:
            # Not all of it could be told: the rest is to be read, and its size with it.
            snapshot = snapshot._replace(taken=state.end, kept_bytes=None)
        lane.write_snapshot(snapshot)

    def _cut(self) -> None:
        """Let the log lose what is over, and has left for consumers that need not acknowledge it."""
        if not self.state.sizes.is_certain:
            return  # The sizes of messages that are over are still to be read.
        self._handouts.forget_served(self._queue)
        for number, (lane, place) in enumerate(zip(self._lanes, self.state.lanes, strict=True)):
            start = min(place.cursor.start, lane.partition.high_watermark)
            if lane.facts or start - lane.partition.log.start_offset < _CUT_OFFSETS:
                continue
            start = min(
                start, self._handouts.lowest(self._queue, number), self._outbox.lowest(number)
            )
            if start - lane.partition.log.start_offset >= _CUT_OFFSETS:
                start = lane.cuttable(start)
            if start - lane.partition.log.start_offset >= _CUT_OFFSETS:
                if self._store.has_ttl:
                    lane.write(LogFacts((), has_ttl=True))
                if self.state.settings.max_length_bytes is not None and self._outbox.is_empty:
                    # The size of what goes could not be found out any more.
                    self._write_snapshot(number)
                lane.cut(start)

    # --- time ----------------------------------------------------------------------------------------

    def _arm(self, now_ms: int) -> None:
        wake_ms = self.state.wake_ms()
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
        if self.state.is_outdated(self.now_ms()):
            self._on_expired()
            # Unless that could not be decided.
            self._timer = self._loop.call_later(_LOST_AGAIN_S, self._on_time)
        else:
            self.wake()
