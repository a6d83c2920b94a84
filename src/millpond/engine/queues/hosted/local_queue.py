"""One queue on the node that leads its topic: its turns, and what its clients ask of it.

The parts of a queue: what is published to it (``publishing.py``), its turns (``turn.py``), its messages
(``message_store.py``), decisions and what they need (``decisions.py``), messages on their way to consumers
(``handouts.py``) and back from them (``returning.py``), clients that poll (``polling.py``), dead letters on
their way (``outbox.py``) and its end (``ending.py``).

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
from typing import TYPE_CHECKING

from millpond.base.errors import (
    MessageLost,
    MillpondError,
    RequestTimedOut,
    StorageFailure,
    UnknownResource,
)
from millpond.cursor.ack import Range
from millpond.cursor.runs import Run
from millpond.engine.forwarding.kept import Taken
from millpond.engine.queues.dead_letters import DeadLetters
from millpond.engine.queues.delays import DelayedMessages
from millpond.engine.queues.hosted.decisions import Decisions
from millpond.engine.queues.hosted.ending import Ending
from millpond.engine.queues.hosted.handouts import Handouts
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.engine.queues.hosted.outbox import Outbox
from millpond.engine.queues.hosted.polling import Polling
from millpond.engine.queues.hosted.publishing import Publishing
from millpond.engine.queues.hosted.queue_loading import Loading
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.hosted.returning import Returning
from millpond.engine.queues.hosted.turn import Surroundings, Turn
from millpond.engine.queues.queue_handle import Counts, Got, Sink
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import DeathReason, Step
from millpond.rabbit.commands import DeleteQueue
from millpond.rabbit.records import Queue
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)


class LocalQueue:
    """One queue."""

    def __init__(
        self,
        queues: "Queues",
        queue: Queue,
        settings: QueueSettings,
        partitions: Sequence[Partition],
    ) -> None:
        self._queues = queues
        self._clock = queues.engine.runtime.clock
        self._loop = asyncio.get_running_loop()
        self.queue = queue
        # Unlike its name, no other queue ever has this.
        self.key = queues.key_of(queue)
        self.is_gone = False
        lanes = [
            QueueLog(queues.engine, partition, lasts=queue.durable) for partition in partitions
        ]
        self._lanes = lanes
        starts = [lane.taken for lane in lanes]
        self.state = self._new_state(settings, starts)
        self.store = MessageStore(lanes, queues.codec, queues.read, self.wake)
        self.handouts = Handouts(self, lanes, str(queue.resource))
        self.decisions = Decisions(self.store, self.cannot_read)
        self.dead_letters = DeadLetters(queues, self)
        self.outbox = Outbox(self, self.store, self.dead_letters)

        def is_memory_low() -> bool:
            return not queues.is_recent_kept

        self.turn = self._new_turn(
            Surroundings(
                queue=self,
                clock=self._clock,
                hurry=queues.engine.flusher.hurry,
                is_memory_low=is_memory_low,
                on_expired=lambda: queues.deletions.lose(self),
                count_lost=self.count_lost,
            )
        )
        self._publishing = self._new_publishing(is_memory_low)
        self.ending = Ending(self._publishing.publish, self._check_there)
        self._returning = Returning(self.state, self.turn)
        self._polling = Polling(self.state, self.store, self.decisions, self.turn, self._returning)
        # Messages that were taken out of the log from outside, or that cannot be read.
        self.lost = 0

    def _new_state(self, settings: QueueSettings, starts: Sequence[int]) -> QueueState:
        return QueueState(settings, now_ms=self._clock.now_ms(), starts=starts)

    def _new_turn(self, around: Surroundings) -> Turn:
        return Turn(self.state, self.store, self.handouts, self.decisions, self.outbox, around)

    def _new_publishing(self, is_memory_low: Callable[[], bool]) -> Publishing:
        return Publishing(
            self.state,
            self.store,
            self.decisions,
            self.turn,
            is_durable=self.queue.durable,
            is_memory_low=is_memory_low,
            refuse=self.refuse,
        )

    @property
    def settings(self) -> QueueSettings:
        """What its arguments and policies come to."""
        return self.state.settings

    # --- life --------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the log: what messages there are, and what became of them. Raises what the log does."""
        self.state.recovery.begin_load()
        for number, lane in enumerate(self._lanes):
            lane.load(Loading(self, number))
            lane.partition.watchers[self] = None
            self.state.recovery.doubt(number, 0, lane.doubtful_below)
        self.state.recovery.end_load()
        self.decisions.learn_sizes(self.state)
        if self.state.settings.is_delayed:
            DelayedMessages(self._queues, self).start()
        self.wake()

    def close(self) -> None:
        """The queue is gone, or the broker stops."""
        self._stop()
        for consumer in list(self.state.consumers):
            self.handouts.sink(consumer.owner).cancelled(consumer)
        self.handouts.clear()

    def leave(self) -> list[tuple[Consumer, Sink]]:
        """Another node hosts the queue now. Return the consumers that it had here, with their sinks."""
        left = [(one, self.handouts.sink(one.owner)) for one in self.state.consumers]
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
        self.turn.stop()
        self._returning.stop()
        for lane in self._lanes:
            lane.partition.watchers.pop(self, None)

    def send_away(self) -> None:
        """Another node may host the queue by now: tell publishers that wait for its replicas."""
        for lane in self._lanes:
            lane.send_away()

    def _stop(self) -> None:
        self.abandon()
        for lane in self._lanes:
            lane.say_last_facts()

    def configure(self, settings: QueueSettings) -> None:
        """Policies have changed."""
        if settings != self.state.settings:
            self.state.configure(settings)
            self.turn.trim(self._clock.now_ms())
            self.wake()

    # --- the log's side ----------------------------------------------------------------------------

    def on_advance(self, added_bytes: int) -> None:
        if not self.store.is_writing:
            self.wake()

    def on_gone(self) -> None:
        if not self.is_gone:
            self._queues.on_gone(self.key)

    def wake(self) -> None:
        """Begin a turn soon."""
        self.turn.wake()

    async def settled(self) -> None:
        """Wait for messages that are on their way into the queue now, not for those that come meanwhile.

        Some may come back from channels that are gone. Raises ``RequestTimedOut`` if it takes too long: too
        few replicas are in sync.
        """
        self.turn.take_in()
        await self._returning.done()
        if not self.store.is_taken_in and not self.is_gone:
            for lane in self._lanes:
                await lane.confirmed()
            self.turn.take_in()

    def publish(self, messages: Sequence[Message], *, again: bool = False) -> Taken:
        """Publish messages, in order. Those not admitted become dead letters if the queue wants that.

        ``again``: they may be in the queue already, and be known to consumers.
        """
        held = self.ending.hold(messages, again=again)
        return held or self._publishing.publish(messages, again=again)

    def forget_recent(self) -> None:
        """Memory runs low; the log has all of it."""
        self.store.forget()
        self.state.known.clear()

    def message(self, lane: int, offset: int) -> Message:
        """A message that was handed out."""
        return self.store.message(lane, offset)

    def lose(self, lane: int, offset: int, consumer: Consumer) -> None:
        """Settle a delivered message that cannot be read: the consumer never gets its body."""
        # What others cut off is counted where that is seen.
        if consumer.no_ack or offset >= self.state.lanes[lane].cursor.start:
            self.count_lost(1, f"offset {offset} cannot be read")
        if not consumer.no_ack:
            self.settle(lane, [(offset, offset + 1)], consumer.owner)

    def count_lost(self, count: int, why: str, *, at_most: bool = False) -> None:
        """Count messages that are lost and were not over; ``at_most`` so many if the number is not known."""
        if count:
            self.lost += count
            log.warning(
                "%s: %s%d %s lost: %s",
                self.queue.resource,
                "at most " if at_most else "",
                count,
                "message is" if count == 1 else "messages are",
                why,
            )

    def note_over(self, lane: int, run: Run) -> None:
        """The dead letters of these messages were sent: now the log may say that they are over."""
        self.turn.note_over(lane, run)

    def cannot_read(self, error: MillpondError) -> None:
        """The queue itself reads again later, and does without it now."""
        self.handouts.cannot_read(error)

    # --- consumers' side -------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, sink: Sink) -> None:
        """A consumer comes. Raises ``QueueInUse``; ``UnknownResource`` if the queue is about to go."""
        if self.ending.has_begun:
            raise self._unknown()
        self.state.consumers.check(str(self.queue.resource), exclusive=consumer.exclusive)
        self.handouts.attach(consumer.owner, sink)
        self.state.consume(consumer, self._clock.now_ms())
        self.wake()

    def cancel(self, owner: str) -> None:
        """A consumer goes; what it holds stays its channel's."""
        if self.state.cancel(owner, self._clock.now_ms()):
            self._queues.deletions.lost_last_consumer(self)
        self.handouts.detach(owner)
        self.wake()

    def lose_channel(self, channel: str) -> None:
        """A channel is gone with all its consumers."""
        had_consumers = bool(self.state.consumers)
        for consumer in self.state.consumers.of_channel(channel):
            self.handouts.lose(consumer.owner)
        self.turn.follow(self.state.lose_channel(channel, self._clock.now_ms()))
        self._returning.go_on()
        if had_consumers and not self.state.consumers:
            self._queues.deletions.lost_last_consumer(self)
        self.wake()

    def _unknown(self) -> UnknownResource:
        return UnknownResource(f"no {self.queue.resource}")

    def _check_there(self) -> None:
        if self.is_gone:
            raise self._unknown()

    async def counted(self) -> Counts:
        """Return how full the queue is, with all that was published before. Asking counts as a use of it."""
        await self.ending.passed()
        # As RabbitMQ does, say what is known when the replicas do not answer.
        with suppress(RequestTimedOut):
            await self.settled()
        self.state.touch(self._clock.now_ms())
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
            ready = self.state.ready
            found = replace(
                command, messages=ready, consumers=len(self.state.consumers), key=self.key
            )
            await self._queues.deletions.delete(self, found)
            return ready

    async def glance(self) -> Counts:
        """How full it is now; a look is no use of it."""
        return self._counts()

    def _counts(self) -> Counts:
        state = self.state
        return Counts(state.ready, len(state.consumers), state.held, self.lost)

    async def got(self, consumer: Consumer) -> Got | None:
        """Return one message for a client's basic.get; None if there is none. Raises ``StorageFailure``."""
        await self.ending.passed()
        await self.settled()
        await self._polling.caught_up()
        await self._polling.readable()
        while (handout := self._polling.take(consumer)) is not None:
            try:
                message = self.message(handout.lane, handout.first)
            except MessageLost:
                self.lose(handout.lane, handout.first, consumer)
                await self._polling.readable()
            except StorageFailure:
                self.handouts.take_back(handout)
                raise
            else:
                await self._lanes[handout.lane].covered(handout.next)
                return Got(handout, message, self.state.ready)
        return None

    async def purged(self) -> int:
        """Everything that is ready is over. How much it was. Raises ``NotLeader``."""
        await self.settled()
        if self.is_gone:
            # The queue moved to another node meanwhile: what is done to it here would not last.
            raise self._lanes[0].partition.not_leader()
        self.turn.take_in()
        count, step = self.state.purge()
        self.turn.follow(step)
        self.wake()
        return count

    def settle(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish(QueueState.settle, lane, ranges, owner)

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish(QueueState.requeue, lane, ranges, owner)
        self.turn.decide(self.state.drop_excess)

    def reject(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish(QueueState.reject, lane, ranges, owner)

    def _finish(
        self, verb: Callable[..., Step], lane: int, ranges: Iterable[Range], owner: str
    ) -> None:
        self.turn.follow(verb(self.state, lane, ranges, owner, self._clock.now_ms()))
        self.wake()

    def refuse(self, messages: Sequence[Message]) -> None:
        """There was no room for these, and they are to become dead letters."""
        self.dead_letters.forward(messages, DeathReason.MAX_LENGTH)
