"""One queue on the node that leads its topic: its log, its messages, its consumers, and what joins them.

What a step of the line decided is written as one control batch for each partition, after the letters that it
caused and before a consumer hears of it; nobody waits for that write to be flushed. Where the log has copies,
a mark in it runs ahead of what is handed out, and that waits for the copies. The log loses its
beginning when everything there is over. When somebody else takes messages out of it (DeleteRecords, or
retention that was set on the topic), they are lost and counted, and the queue goes on behind them; so it does
behind messages that the disk has damaged.

What cannot be read now (the disk fails, or another replica is asked for what is damaged here) is neither lost
nor a reason to stop: who needs it waits and is tried again, and everybody else goes on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

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
from millpond.engine.queues.dead_letters import AT_LEAST_ONCE, DeadLetters
from millpond.engine.queues.delays import DelayedMessages
from millpond.engine.queues.hosted.queue_loading import Loading
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.hosted.recent_messages import RecentMessages
from millpond.engine.queues.hosted.retries import Retries
from millpond.engine.queues.queue_handle import NEVER_READ, Counts, Got, Sink, Taken, when_all
from millpond.queue.consumers import UNLIMITED, Consumer
from millpond.queue.known import UNREADABLE, Meta, Need
from millpond.queue.log_facts import LaneSnapshot, LogFacts
from millpond.queue.message import Message
from millpond.queue.queue_state import QueueState
from millpond.queue.steps import GIVEN_UP_AT_A_TIME, DeadLetter, Handout, Step
from millpond.rabbit.arguments import QUORUM
from millpond.rabbit.commands import DeleteQueue
from millpond.rabbit.dead_letter_headers import DeathReason
from millpond.rabbit.exchange_types import delay_ms_of
from millpond.rabbit.policies import QueueSettings
from millpond.rabbit.records import Queue
from millpond.record.builder import build_batch
from millpond.record.records import Record
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)

# So many offsets must be over at the beginning of a log before it is cut.
_CUT_OFFSETS = 10_000
# Messages that were looked at are kept opened, as many as this and as large together.
_OPENED_MAX = 1_024
_OPENED_BYTES_MAX = 1024 * 1024
_LETTERS_AT_A_TIME = 256
# A queue that nobody used for too long and that is still there is lost again after so long.
_LOST_AGAIN_S = 10.0
# Who waits for what the queue itself needs to read; others are its consumers' owners.
_ITSELF = ""


class _HeldBack(NamedTuple):
    """Messages that were published while it was decided whether their queue goes."""

    messages: Sequence[Message]
    again: bool
    kept: "asyncio.Future[int | None]"


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
        # While it is decided that the queue is over because nobody uses it: done when that is known.
        self.ending: asyncio.Future[None] | None = None
        # A quorum queue keeps all its messages, whatever their publishers ask for.
        self._is_durable = queue.durable
        self._keeps_all = queue.type == QUORUM
        self._lanes = [
            QueueLog(queues.engine, partition, lasts=queue.durable) for partition in partitions
        ]
        starts = [lane.taken for lane in self._lanes]
        self.line = QueueState(settings, now_ms=self._clock.now_ms(), starts=starts)
        self._sinks: dict[str, Sink] = {}
        # Of consumers that have gone: what was theirs may not have been asked for.
        self._left: set[Sink] = set()
        self._recent = RecentMessages(len(partitions))
        # Those that were looked at for their age, until they are handed out.
        self._opened: dict[tuple[int, int], Message] = {}
        self._opened_bytes = 0  # of all that were added since it was empty
        self.has_ttl = False
        self._is_scheduled = False
        # Not set while something is on its way back from channels that are gone.
        self._is_back = asyncio.Event()
        self._is_back.set()
        self._is_writing = False
        self._handouts: list[Handout] = []
        # By owner: what could not be read when it was handed out. Until it can be, there is no more for it.
        self._late: dict[str, list[Handout]] = {}
        # Messages that a decision of this turn needed and that cannot be read now.
        self._unreadable: list[tuple[int, int]] = []
        self._retries: Retries[str] = Retries(self._read_again)
        # Whether the queue itself met something in this turn that cannot be read now.
        self._is_unread = False
        self._wake_ms = NEVER_MS
        self._timer: asyncio.TimerHandle | None = None
        # After a turn that failed, or while memory runs low.
        self._retry: asyncio.TimerHandle | None = None
        self._retry_ms = limits.QUEUE_TURN_RETRY_MS_MIN
        self._letters = DeadLetters(queues, self)
        # Letters that wait for their turn, because they are many.
        self._mail: deque[DeadLetter] = deque()
        # Messages that were published twice, perhaps, and are not in the queue yet: lane, first and next.
        self._again: list[tuple[int, int, int]] = []
        # Publishes that wait while it is decided whether the queue goes; None while nobody wants that.
        self._held_back: list[_HeldBack] | None = None
        self._deleters = 0
        # Messages that others took out of the log, or that cannot be read.
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
        self._learn_sizes()
        if self.line.settings.is_delayed:
            DelayedMessages(self._queues, self).start()
        self.wake()

    def close(self) -> None:
        """The queue is gone, or the broker stops."""
        self._stop()
        for consumer in list(self.line.consumers):
            self._sinks.pop(consumer.owner).cancelled(consumer)

    def leave(self) -> list[tuple[Consumer, Sink]]:
        """Another node hosts the queue now; those who wanted messages here."""
        left = [(consumer, self._sinks[consumer.owner]) for consumer in self.line.consumers]
        self._sinks.clear()
        self._stop()
        return left

    def position_of(self, consumer: Consumer, sink: Sink) -> int:
        """Where a consumer goes on at another host; -1 if that is all the same."""
        return -1

    def abandon(self) -> None:
        """The log could not be read: nothing is known, so nothing is said."""
        self.is_gone = True
        self._recent.clear()
        self._opened.clear()
        self._letters.close()
        self._mail.clear()
        self._retries.close()
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
        if not self._is_writing:
            self.wake()

    def on_gone(self) -> None:
        if not self.is_gone:
            self._queues.on_gone(self.key)

    def wake(self) -> None:
        """Look at everything once more, soon."""
        if not self._is_scheduled and not self.is_gone:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    @property
    def is_settled(self) -> bool:
        """Whether every message that was appended here is in the queue."""
        return all(lane.is_taken_in for lane in self._lanes)

    async def settled(self) -> None:
        """Wait for messages that are on their way into the queue now, not for those that come meanwhile.

        Some may come back from channels that are gone. Raises ``RequestTimedOut`` if it takes too long: too
        few replicas are in sync.
        """
        self._take_in()
        await self._given_back()
        if not self.is_settled and not self.is_gone:
            for lane in self._lanes:
                await lane.confirmed()
            self._take_in()

    def publish(self, messages: Sequence[Message], *, again: bool = False) -> Taken:
        """Messages, in order. Those that are not admitted become letters if the queue wants that.

        ``again``: they may be in the queue already, and be known to consumers.
        """
        if self._held_back is not None:
            later: asyncio.Future[int | None] = self._loop.create_future()
            self._held_back.append(_HeldBack(messages, again, later))
            return Taken(len(messages), (later,))
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

    @contextmanager
    def _holding_back(self) -> Iterator[None]:
        """What is published in here is so when the last is through, or never if the queue is gone."""
        self._deleters += 1
        if self._held_back is None:
            self._held_back = []
        try:
            yield
        finally:
            self._deleters -= 1
            if not self._deleters:
                self._let_in()

    def _let_in(self) -> None:
        held_back, self._held_back = self._held_back or [], None
        for messages, again, kept in held_back:
            try:
                if self.is_gone:
                    raise self._unknown()
                when_all(*self.publish(messages, again=again), kept)
            except MillpondError as error:
                if not kept.done():
                    kept.set_exception(error)

    def lane_for(self, message: Message) -> int:
        """Which partition a message goes to."""
        return self.line.lane_of(message.priority)

    def append(self, lane: int, messages: Sequence[Message]) -> Appended:
        """Write messages; they are in the queue when ``durable`` is done. Raises what the log does."""
        target = self._lanes[lane]
        has_ttl = any(message.ttl_ms is not None for message in messages)
        if has_ttl and not self.has_ttl:
            target.write(LogFacts((), has_ttl=True))
            self.has_ttl = True
        batch = build_batch(self._queues.envelope.seal_all(messages))
        sizes = [len(message.body) for message in messages]
        synced = self._is_durable and (
            self._keeps_all or any(message.is_persistent for message in messages)
        )
        appended = target.append(batch, sizes, has_ttl=has_ttl, synced=synced)
        first = appended.info.first_offset
        if self._queues.is_recent_kept:
            self._recent.add(lane, first, messages)
        self.wake()
        return appended

    @property
    def recent_bytes(self) -> int:
        """How much of what was just published is kept in memory."""
        return self._recent.size

    @property
    def kept_bytes(self) -> int:
        """How much is kept in memory, of what was just published and of what was looked at."""
        return self._recent.size + sum(len(message.body) for message in self._opened.values())

    def forget_recent(self) -> None:
        """Memory runs low; the log has all of it."""
        self._recent.clear()
        self._opened.clear()
        self._opened_bytes = 0
        self.line.known.clear()
        for lane in self._lanes:
            lane.forget_window()

    def admit(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """How many of these may be appended, and whether the others are to become letters."""
        if self.line.settings.overflow == "drop-head":
            return len(messages), False
        self._learn_sizes()
        coming = [size for lane in self._lanes for size in lane.coming]
        answer = self.line.admit([*coming, *(len(message.body) for message in messages)])
        return max(0, answer.admitted - len(coming)), answer.to_letters

    # --- what decisions need -------------------------------------------------------------------------

    def _decide(self, decision: Callable[[], Step]) -> Step:
        """Carry out a decision: read what it needs and make it again, until it needs nothing or the log
        cannot be read now. Return its last step.
        """
        step = decision()
        self._follow(step)
        while step.needs and self._learn(step.needs):
            step = decision()
            self._follow(step)
        return step

    def _learn(self, needs: Iterable[Need]) -> bool:
        """Read messages for a decision. Return whether more is known than before."""
        is_more = False
        for lane, first, next_ in needs:
            metas: list[Meta] = []
            for offset in range(first, next_):
                if (lane, offset) in self._unreadable:
                    return is_more
                metas.append(self._meta(lane, offset))
                if metas[-1] is UNREADABLE:
                    break
            self.line.learn(lane, first, metas)
            is_more = True
        return is_more

    def _learn_sizes(self) -> None:
        """Make the sum of sizes certain, if it is counted and the log can be read."""
        while (needs := self.line.size_needs()) and self._learn(needs):
            pass

    def _meta(self, lane: int, offset: int) -> Meta:
        try:
            message = self.look(lane, offset)
        except MessageLost:
            # It does not expire: it is dropped as lost, in the next turn or when it is delivered.
            return Meta(0, NEVER_MS)
        except StorageFailure as error:
            self._unreadable.append((lane, offset))
            self._cannot_read(error)
            return UNREADABLE
        if len(self._opened) >= _OPENED_MAX or self._opened_bytes >= _OPENED_BYTES_MAX:
            self._opened.clear()
            self._opened_bytes = 0
        if (lane, offset) not in self._opened:
            self._opened[lane, offset] = message
            self._opened_bytes += len(message.body)
        return message.meta

    def _forget_unreadable(self) -> None:
        """What could not be read is tried again in a later turn."""
        for lane, offset in self._unreadable:
            self.line.known.forget(lane, offset, offset + 1)
        self._unreadable.clear()

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
        recent = self._recent.take(lane, offset)
        opened = self._opened.pop((lane, offset), None)
        return recent or opened or self.look(lane, offset)

    def look(self, lane: int, offset: int) -> Message:
        """A message in the log, whoever holds it. Raises ``MessageLost``, ``StorageFailure``."""
        recent = self._recent.look(lane, offset) or self._opened.get((lane, offset))
        if recent is not None:
            return recent
        return self._queues.envelope.open(self._record(lane, offset))

    def _record(self, lane: int, offset: int) -> Record:
        try:
            return self._lanes[lane].record(offset)
        except MessageLost:
            # It is seen to: the line may be in the middle of something now.
            self.wake()
            raise

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
        self._is_unread = False
        if self._unreadable:
            self._forget_unreadable()
        self._take_in()
        is_low = not self._queues.is_recent_kept
        self.line.held_max = limits.QUEUE_HELD_MAX if is_low else UNLIMITED
        was_held_back = bool(self._handouts)
        if not was_held_back:
            # Consumers' room is counted without what is held back for them.
            given: dict[tuple[str, bool], int] = {}
            self._decide(partial(self.line.deliver, now_ms, self._room, given))
        self._trim(now_ms)
        self._send_mail()
        self._write_facts()
        for handout in self._covered_handouts():
            self._hand_out(handout, sinks)
        if was_held_back and not self._handouts:
            self.wake()
        self._write_snapshots()
        self._cut()
        self._arm(now_ms)
        if is_low and self.line.ready and self.line.consumers:
            # Perhaps somebody holds so much that there is no more for it until memory suffices.
            self._wake_in(limits.QUEUE_HELD_LOOK_MS)
        if self._retries.is_needed and not self._is_unread and self.line.knows_sizes:
            self._retries.worked(_ITSELF)
        if self._unreadable:
            self._forget_unreadable()

    def _trim(self, now_ms: int) -> None:
        """Drop what is too old, then what is too much."""
        self._decide(partial(self.line.expire, now_ms))
        self._decide(self.line.drop_excess)
        self._learn_sizes()
        self.line.offered()

    def _hand_out(self, handout: Handout, sinks: dict[Sink, None]) -> None:
        owner = handout.consumer.owner
        sink = self._sinks.get(owner)
        if sink is None:
            # It went since that was decided, in a turn that failed.
            self._take_back(handout)
            return
        if owner in self._late:
            self._late[owner].append(handout)
            return
        try:
            sink.hand_out(self, handout)
        except MillpondError as error:
            # The others are to get theirs.
            self._keep_waiting(owner, error, handout)
            return
        sinks[sink] = None
        if self._retries.is_needed:
            self._retries.worked(owner)

    # --- what cannot be read now ---------------------------------------------------------------------

    def _keep_waiting(self, owner: str, error: MillpondError, *handouts: Handout) -> None:
        """A consumer gets nothing, so that nothing overtakes, until this can be read."""
        self._late.setdefault(owner, []).extend(handouts)
        self._retries.failed(owner, f"a consumer of {self.queue.resource}", error)

    def _take_back(self, handout: Handout) -> None:
        """A consumer has gone before it got these. Those that it need not acknowledge are over already."""
        if handout.consumer.no_ack:
            self.count_lost(
                handout.next - handout.first, "their consumer went before they could be read"
            )
        else:
            offsets = handout.first, handout.next
            self.requeue(handout.lane, [offsets], handout.consumer.owner)

    def _forget_late(self, owner: str) -> list[Handout]:
        """What waited for somebody, who waits no more."""
        self._retries.forget(owner)
        return self._late.pop(owner, [])

    def _cannot_read(self, error: MillpondError) -> None:
        """The queue itself looks again later, and does without it now."""
        self._is_unread = True
        self._retries.failed(_ITSELF, str(self.queue.resource), error)

    def _read_again(self, owner: str) -> None:
        self._handouts = [*self._late.pop(owner, ()), *self._handouts]
        self.wake()

    # --- one turn, in parts --------------------------------------------------------------------------

    def _covered_handouts(self) -> list[Handout]:
        """What goes out now; the rest is held back, in order, until all copies know of it."""
        handouts, count = self._handouts, 0
        while count < len(handouts):
            one = handouts[count]
            if not self._lanes[one.lane].is_covered(one.next):
                break
            count += 1
        self._handouts = handouts[count:]
        return handouts[:count]

    def _room(self, consumer: Consumer) -> int:
        owner = consumer.owner
        return 0 if owner in self._late else self._sinks[owner].room(consumer)

    def _take_in(self) -> None:
        for number, lane in enumerate(self._lanes):
            self._note_loss(number, lane)
            if lane.damaged:
                self._give_up_damaged(number, lane)
            try:
                self._take_arrivals(number, lane)
            except StorageFailure as error:
                # What came before it is served, and it comes in when it can be read.
                self._cannot_read(error)
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
        withheld: set[tuple[int, int]] = set()
        if step.letters and self.settings.dead_letter_strategy == AT_LEAST_ONCE:
            withheld = {(letter.lane, letter.first) for letter in step.letters}
            self._letters.take(step.letters)
        elif self._mail or sum(one.next - one.first for one in step.letters) > GIVEN_UP_AT_A_TIME:
            # Others are to have their turns between: what is over is so when its letter was sent.
            withheld = {(letter.lane, letter.first) for letter in step.letters}
            self._mail += _in_parts(step.letters)
        else:
            for letter in step.letters:
                if not self._send_letters(letter):
                    withheld.add((letter.lane, letter.first))
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
        self._handouts += step.handouts

    def _send_letters(self, letter: DeadLetter) -> bool:
        """Whether all are sent; otherwise those that are not wait, and what is over is noted part by part."""
        parts = deque(_in_parts([letter]))
        sent: list[DeadLetter] = []
        while parts and not self._mail and self._send_part(parts[0]):
            sent.append(parts.popleft())
        if not parts:
            return True
        self._mail += parts
        for part in sent:
            self.note_over(part.lane, Run(part.first, part.next, State.ARCHIVED))
        return False

    def _send_part(self, letter: DeadLetter) -> bool:
        """Whether these could be read, and are sent."""
        lane, first, next_, reason = letter
        messages, lost = list[Message](), list[tuple[int, MessageLost]]()
        for offset in range(first, next_):
            try:
                messages.append(self.look(lane, offset))
            except MessageLost as error:
                lost.append((offset, error))
            except StorageFailure as error:
                self._cannot_read(error)
                return False
        for offset, why in lost:
            self.count_lost(1, f"offset {offset} was to become a letter: {why}")
        self._queues.bury(self, messages, reason)
        return True

    def _send_mail(self) -> None:
        """Some of the letters that wait for a turn."""
        if self._mail and _ITSELF in self._retries.waiting:
            self._is_unread = True
            return
        sent = 0
        while self._mail:
            letter = self._mail[0]
            sent += letter.next - letter.first
            if sent > GIVEN_UP_AT_A_TIME or not self._send_part(letter):
                return
            self._mail.popleft()
            self.note_over(letter.lane, Run(letter.first, letter.next, State.ARCHIVED))

    def note_over(self, lane: int, run: Run) -> None:
        """The letter of a message has arrived: now it may be said that the message is over."""
        self._lanes[lane].facts.append(run)
        self.wake()

    def _write_facts(self) -> None:
        # What is written here is known here: it wakes nobody.
        self._is_writing = True
        try:
            for lane in self._lanes:
                lane.write_facts()
        finally:
            self._is_writing = False

    def _write_snapshots(self) -> None:
        for number, lane in enumerate(self._lanes):
            if lane.wants_snapshot and not self._letters and not self._mail:
                self._write_snapshot(number)

    def _write_snapshot(self, number: int) -> None:
        lane, line = self._lanes[number], self.line
        state = line.lanes[number].state()
        snapshot = LaneSnapshot(lane.taken, state, self.has_ttl, self._kept_bytes(number))
        if state.end < line.lanes[number].end:
            # Not all of it could be told: the rest is to be read, and its size with it.
            snapshot = snapshot._replace(taken=state.end, kept_bytes=None)
        lane.write_snapshot(snapshot)

    def _kept_bytes(self, number: int) -> int | None:
        """The size of what is not over, for a snapshot; None if it is not counted or not known."""
        held = self.line.held_ranges(number)
        if held is None:
            return None
        total = self.line.ready_bytes
        for first, next_ in held:
            for offset in range(first, next_):
                size = self._meta(number, offset).size
                if size < 0:
                    return None
                total += size
        return total

    def _cut(self) -> None:
        """Let the log lose what is over, and has left for those who need not acknowledge it."""
        if not self.line.knows_sizes:
            return  # The sizes of messages that are over are still to be read.
        if self._left:
            self._left = {sink for sink in self._left if self._is_owed(sink)}
        for number, (lane, place) in enumerate(zip(self._lanes, self.line.lanes, strict=True)):
            start = min(place.cursor.start, lane.partition.high_watermark)
            if lane.facts or start - lane.partition.log.start_offset < _CUT_OFFSETS:
                continue
            sinks = self._left.union(self._sinks.values())
            unread = [sink.unread(self, number) for sink in sinks]
            mail = [letter.first for letter in self._mail if letter.lane == number]
            late = [handout for handouts in self._late.values() for handout in handouts]
            back = [one.first for one in (*self._handouts, *late) if one.lane == number]
            start = min([start, *unread, *mail, *back, self._letters.keeps(number)])
            if start - lane.partition.log.start_offset >= _CUT_OFFSETS:
                start = lane.cuttable(start)
            if start - lane.partition.log.start_offset >= _CUT_OFFSETS:
                if self.has_ttl:
                    lane.write(LogFacts((), has_ttl=True))
                is_told = not self._letters and not self._mail
                if self.settings.max_length_bytes is not None and is_told:
                    # The size of what goes could not be found out any more.
                    self._write_snapshot(number)
                lane.cut(start)

    def _is_owed(self, sink: Sink) -> bool:
        return any(sink.unread(self, lane) < NEVER_READ for lane in range(len(self._lanes)))

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
        if self.ending is not None:
            raise self._unknown()
        self.line.consumers.check(self.queue.resource, exclusive=consumer.exclusive)
        self._sinks[consumer.owner] = sink
        self.line.consume(consumer, self._clock.now_ms())
        self.wake()

    def cancel(self, owner: str) -> None:
        """A consumer goes; what it holds stays its channel's."""
        if self.line.cancel(owner, self._clock.now_ms()):
            self._queues.lost_last_consumer(self)
        sink = self._sinks.pop(owner, None)
        if sink is not None:
            self._left.add(sink)
        for handout in self._forget_late(owner):
            self._take_back(handout)
        self.wake()

    def lose_channel(self, channel: str) -> None:
        """A channel is gone with all its consumers."""
        had_consumers = bool(self.line.consumers)
        for consumer in self.line.consumers.of_channel(channel):
            self._sinks.pop(consumer.owner, None)
            self._forget_late(consumer.owner)  # what the channel held comes back
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

    async def _lasting(self) -> None:
        """Whoever begins to use a queue that is about to go hears that it is gone."""
        if self.ending is not None:
            await asyncio.wait([self.ending])
            if self.is_gone:
                raise self._unknown()

    async def counted(self) -> Counts:
        """How full it is, with all that was published before. Whoever asks uses the queue."""
        await self._lasting()
        # As RabbitMQ does, say what is known when the replicas do not answer.
        with suppress(RequestTimedOut):
            await self.settled()
        self.line.touch(self._clock.now_ms())
        return self._counts()

    async def delete_if(self, command: DeleteQueue) -> int:
        """Delete the queue if it is as the command wants it, and nothing comes into it meanwhile."""
        with self._holding_back():
            while True:
                await self._lasting()
                await self.settled()
                if self.is_gone:
                    raise self._unknown()
                if self.ending is None:
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
        await self._lasting()
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
                self._take_back(handout)
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
            self._write_facts()
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
        earlier, self._handouts = self._handouts, []
        now_ms = self._clock.now_ms()
        step = self._decide(partial(self.line.get, consumer, now_ms))
        self._handouts = earlier
        self._write_facts()
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
        """There was no room for these, and they are to be kept as letters."""
        self._queues.bury(self, messages, DeathReason.MAX_LENGTH)


def _in_parts(letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    for letter in letters:
        for first in range(letter.first, letter.next, _LETTERS_AT_A_TIME):
            next_ = min(letter.next, first + _LETTERS_AT_A_TIME)
            yield letter._replace(first=first, next=next_)
