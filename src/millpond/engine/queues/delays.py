"""Messages that a delayed exchange keeps back, and what becomes of them when their time has come.

They are in a queue of the exchange's own, where each is ready at its time; this is that queue's only
consumer. What is ready goes on as if it were published now: by the bindings that the exchange has now, with
the delay in its headers turned negative, as RabbitMQ's plug-in does. A message is settled when every queue
that it goes to has it, so a restart between may send it twice, and never loses it. When a queue cannot take
it (its node is away) it is tried again.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from millpond.base.errors import MessageLost, MillpondError
from millpond.cursor.ack import Range
from millpond.engine.queues.queue_handle import NEVER_READ, Kept, QueueHandle
from millpond.queue.consumers import Consumer
from millpond.queue.message import Message
from millpond.queue.steps import Handout
from millpond.rabbit.copies import copies
from millpond.rabbit.exchange_types import CHANCES, DELAY_HEADER, Routed, delay_ms_of
from millpond.rabbit.names import exchange_behind

if TYPE_CHECKING:
    from millpond.engine.queues.hosted.local_queue import LocalQueue
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)

# Messages on their way at a time.
_WINDOW = 500
# What a queue did not take is tried again after so long.
_AGAIN_S = 1.0


class DelayedMessages:
    """The consumer of one exchange's queue."""

    follows = False

    def __init__(self, queues: "Queues", queue: "LocalQueue") -> None:
        self._queues = queues
        self._queue = queue
        self._vhost = queue.queue.vhost
        self._exchange = exchange_behind(queue.queue.name)
        self._owner = f"{queue.key}/delayed"
        self._under_way = 0

    def start(self) -> None:
        consumer = Consumer(owner=self._owner, channel=self._owner, tag="delayed")
        self._queue.consume(consumer, self)

    # --- a sink --------------------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        return _WINDOW - self._under_way

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        self._under_way += handout.next - handout.first
        self._send(handout.lane, (handout.first, handout.next))

    def send_out(self) -> None:
        """It is on its way already."""

    def cancelled(self, consumer: Consumer) -> None:
        """The exchange is gone, and with it what it kept."""

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        """Another node goes on."""

    def unread(self, queue: QueueHandle, lane: int) -> int:
        return NEVER_READ

    # --- going on ------------------------------------------------------------------------------------

    def _send(self, lane: int, offsets: Range) -> None:
        if self._queue.is_gone:
            return
        kept: list[Kept] = []
        try:
            for name, messages in self._addressed(lane, offsets).items():
                kept += self._queues.find(self._vhost, name).publish(messages).durable
        except MillpondError as error:
            self._try_again(lane, offsets, error)
            return
        if not kept:
            self._done(lane, offsets)
            return
        missing = set(kept)

        def on_done(done: Kept) -> None:
            missing.discard(done)
            if missing:
                return
            failed = [one for one in kept if one.cancelled() or one.exception() is not None]
            if failed:
                self._try_again(lane, offsets, failed[0])
            else:
                self._done(lane, offsets)

        for one in tuple(missing):
            one.add_done_callback(on_done)

    def _addressed(self, lane: int, offsets: Range) -> dict[str, list[Message]]:
        router = self._queues.broker.rooms(self._vhost).router
        now_ms = self._queues.engine.clock.now_ms()
        found: dict[str, list[Message]] = {}
        for offset in range(*offsets):
            try:
                kept_back = self._queue.message(lane, offset)
            except MessageLost as error:
                self._queue.count_lost(1, f"offset {offset} was kept back: {error}")
                continue
            headers = {**kept_back.headers, DELAY_HEADER: -delay_ms_of(kept_back.headers)}
            message = self._queues.envelope.with_headers(kept_back, headers=headers, now_ms=now_ms)
            keys = (message.routing_key, *copies(headers.get("CC")))
            chosen_by = self._queues.envelope.chosen_by(message)
            chance = self._queues.engine.rng.randrange(CHANCES)
            for name in router.route(self._exchange, Routed(keys, headers, chosen_by, chance)):
                found.setdefault(name, []).append(message)
        return found

    def _done(self, lane: int, offsets: Range) -> None:
        self._under_way -= offsets[1] - offsets[0]
        if not self._queue.is_gone:
            self._queue.settle(lane, [offsets], self._owner)

    def _try_again(self, lane: int, offsets: Range, why: object) -> None:
        log.warning(
            "exchange=%s: %d delayed messages wait another %g s: %s",
            self._exchange,
            offsets[1] - offsets[0],
            _AGAIN_S,
            why,
        )
        asyncio.get_running_loop().call_later(_AGAIN_S, self._send, lane, offsets)
