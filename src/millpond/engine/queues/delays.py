"""Messages that a delayed exchange keeps back, and what happens to them when they are due.

They are in a queue of the exchange's own, where each is ready at its time; this is that queue's only
consumer. A message that is ready is forwarded as if it were published now: by the bindings that the exchange
has now, with the delay in its headers turned negative, as RabbitMQ's plug-in does. It is settled when every
queue that it goes to keeps it, so a restart in between may send it twice, and never loses it. While a queue
cannot take it (its node is away) it is tried again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from millpond.base.errors import MessageLost
from millpond.engine.forwarding.forwarder import Dispatch, RetryingForwarder
from millpond.engine.queues.queue_destination import QueueDestination
from millpond.engine.queues.queue_handle import NEVER_READ, QueueHandle
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout
from millpond.rabbit.copies import copies
from millpond.rabbit.exchange_types import CHANCES, DELAY_HEADER, Routed
from millpond.rabbit.names import exchange_behind

if TYPE_CHECKING:
    from millpond.engine.queues.hosted.local_queue import LocalQueue
    from millpond.engine.queues.queues import Queues

# Messages on their way at a time.
_WINDOW = 500
# Messages that a queue did not take are tried again after this time.
_RETRY_PAUSE_S = 1.0


class _Due(NamedTuple):
    """Messages of a lane that are due."""

    lane: int
    first: int
    next: int


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
        self._forwarder: RetryingForwarder[_Due, Message] = RetryingForwarder(
            f"delayed messages of exchange {self._exchange!r}",
            route=self._dispatches,
            on_kept=self._on_kept,
            is_over=lambda: queue.is_gone,
            window=_WINDOW,
            pause_s=_RETRY_PAUSE_S,
            is_ordered=False,
            must_admit=False,
        )

    def start(self) -> None:
        consumer = Consumer(owner=self._owner, channel=self._owner, tag="delayed")
        self._queue.consume(consumer, self)

    # --- a sink --------------------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        return _WINDOW - self._under_way

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        self._under_way += handout.next - handout.first
        self._forwarder.forward([_Due(handout.lane, handout.first, handout.next)])

    def send_out(self) -> None:
        """It is on its way already."""

    def cancelled(self, consumer: Consumer) -> None:
        """The exchange is gone, and with it what it kept."""

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        """Another node goes on."""

    def unread(self, queue: QueueHandle, lane: int) -> int:
        return NEVER_READ

    # --- going on ------------------------------------------------------------------------------------

    def _dispatches(self, due: _Due) -> Iterator[Dispatch[Message]]:
        """The messages of each queue that gets some, in order."""
        router = self._queues.broker.rooms(self._vhost).router
        now_ms = self._queues.engine.runtime.clock.now_ms()
        found: dict[str, list[Message]] = {}
        for offset in range(due.first, due.next):
            try:
                kept_back = self._queue.message(due.lane, offset)
            except MessageLost as error:
                self._queue.count_lost(1, f"offset {offset} was kept back: {error}")
                continue
            headers = {**kept_back.headers, DELAY_HEADER: -kept_back.delay_ms}
            message = self._queues.codec.with_headers(kept_back, headers=headers, now_ms=now_ms)
            keys = (message.key, *copies(headers.get("CC")))
            chosen_by = self._queues.codec.chosen_by(message)
            chance = self._queues.engine.runtime.rng.randrange(CHANCES)
            for name in router.route(self._exchange, Routed(keys, headers, chosen_by, chance)):
                found.setdefault(name, []).append(message)
        for name, messages in found.items():
            yield Dispatch(messages, [QueueDestination(self._queues, self._vhost, name)])

    def _on_kept(self, due: _Due) -> None:
        self._under_way -= due.next - due.first
        self._queue.settle(due.lane, [(due.first, due.next)], self._owner)
