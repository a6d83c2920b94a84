"""One channel: its consumers, unacknowledged messages, confirms or transaction."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millpond.engine.api.queues import QueueHandle
from millpond.queue.consumers import UNLIMITED, Consumer
from millpond.queue.shared_limit import SharedLimit
from millpond.queue.steps import Handout
from millpond.rabbit.channel import Confirms, Deliveries, Held
from millpond.wire.amqp.content import DeliveryWriter
from millpond.wire.amqp.methods import BasicCancel, Method

if TYPE_CHECKING:
    from millpond.frontend.amqp.publishing import Publishing, Way
    from millpond.frontend.amqp.session import AmqpSession

# Messages that a channel is given at a time; more come when these have left.
_WINDOW = 1_000
# From so many queues on a channel checks which of them were deleted.
_QUEUES_MIN = 64


@dataclass(slots=True)
class Transaction:
    """The publishes and acknowledgements of a channel since its last commit.

    Publishes are routed already; acknowledgements are (verb, messages by their tags), in order.
    """

    publishing: "Publishing"
    acks: list[tuple[str, dict[int, Held]]] = field(default_factory=list)
    size: int = 0


class Channel:
    """An open channel: the sink of its consumers."""

    follows = True

    def __init__(self, session: "AmqpSession", number: int, name: str) -> None:
        self.session = session
        self.number = number
        # Unique among all channels since the node started.
        self.name = name
        self.deliveries = Deliveries()
        self.confirms: Confirms | None = None
        # The route of its last publish.
        self.way: Way | None = None
        self.transaction: Transaction | None = None
        self.prefetch = 0
        self.last_queue = ""
        # The tag of the consumer of direct replies, and the key of their address.
        self.replies_tag: str | None = None
        self.replies_key = ""
        self.is_closed = False
        # Consumers whose queues were deleted, to be told after the present answer; None: at once.
        self._untold: list[str] | None = None
        self.consumers: dict[str, tuple[QueueHandle, Consumer]] = {}
        self.writers: dict[str, DeliveryWriter] = {}
        # Queues that this channel may hold messages of, by the owner of their deliveries.
        self.queues: dict[str, QueueHandle] = {}
        self._queues_max = _QUEUES_MIN
        self._owners = 0
        # Messages that wait for the socket: those that must be acknowledged, and the others.
        self._waiting = [0, 0]
        # The tags of consumers that take turns where the channel as a whole has a limit.
        self._limit = SharedLimit()
        self._tags: dict[str, str] = {}
        self._is_round = False

    def know(self, queue: QueueHandle) -> None:
        """Note a queue that the channel may hold messages of. Deleted queues are forgotten now and then."""
        self.queues[queue.key] = queue
        if len(self.queues) > self._queues_max:
            self.queues = {key: one for key, one in self.queues.items() if not one.is_gone}
            self._queues_max = max(_QUEUES_MIN, 2 * len(self.queues))

    def add_consumer(self, queue: QueueHandle, consumer: Consumer) -> None:
        self.consumers[consumer.tag] = queue, consumer
        self._tags[consumer.owner] = consumer.tag
        self.know(queue)

    def remove_consumer(self, tag: str) -> tuple[QueueHandle, Consumer] | None:
        """Remove and return a consumer; None if there is none."""
        known = self.consumers.pop(tag, None)
        if known is not None:
            owner = known[1].owner
            self._tags.pop(owner, None)
            self._limit.forget(owner)
        return known

    def next_owner(self) -> str:
        self._owners += 1
        return f"{self.name}/{self._owners}"

    def say(self, method: Method, *, nowait: bool = False) -> None:
        """Send an answer, unless the client asked for none (``no-wait``)."""
        if not nowait:
            self.session.send(self, method)

    def close(self) -> None:
        """Requeue the unacknowledged messages."""
        self.is_closed = True
        self.consumers.clear()
        if self.replies_tag is not None:
            self.session.frontend.replies.cancel(self)
        for queue in self.queues.values():
            if not queue.is_gone:
                queue.lose_channel(self.name)
        self.queues.clear()

    # --- a sink ------------------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        outbox = self.session.outbox
        if outbox.is_stalled:
            return 0
        waiting = self._waiting[consumer.no_ack]
        window = _WINDOW - waiting
        if outbox.held_up:
            if consumer.owner in outbox.held_up:
                return 0
            # Messages that wait for another consumer, not for the socket, do not hold up this one.
            window += outbox.count_held_up(self, no_ack=consumer.no_ack)
        if window <= 0 or not self.deliveries.prefetch:
            return window
        granted = self._limit.room(consumer.owner, self._free)
        if granted == 0:
            self.freed()
        if consumer.no_ack:
            # It uses no credit, but waits until there is some, as in RabbitMQ.
            return window if granted > 0 else 0
        return min(window, granted)

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        consumer, count = handout.consumer, handout.next - handout.first
        self._waiting[consumer.no_ack] += count
        if self.deliveries.prefetch:
            self._limit.took(consumer.owner, UNLIMITED if consumer.no_ack else count)
        self.session.outbox.post(self, queue, handout)

    def send_out(self) -> None:
        self.session.outbox.write_now()

    def left(self, handout: Handout, count: int) -> None:
        """Note that so many messages were written to the socket."""
        before = self._waiting[handout.consumer.no_ack]
        self._waiting[handout.consumer.no_ack] = before - count
        if before > _WINDOW // 2 >= before - count:
            self.wake_all()
        self.freed()

    def dropped(self, handout: Handout) -> None:
        """Note that messages will not be written to the socket."""
        self._waiting[handout.consumer.no_ack] -= handout.next - handout.first
        self.freed()

    # --- the limit of the whole channel --------------------------------------------------------------

    @property
    def _free(self) -> int:
        """Return the credit of the channel as a whole."""
        return self.deliveries.room - self._waiting[False]

    def set_limit(self, prefetch: int) -> None:
        """Set the prefetch limit of the whole channel; 0 is none."""
        self.deliveries.prefetch = prefetch
        self._limit.clear()
        self.wake_all()

    def wake_all(self) -> None:
        """Wake all queues of the channel's consumers."""
        for queue, _consumer in self.consumers.values():
            queue.wake()

    def freed(self) -> None:
        """Give waiting consumers their turns, if there is credit again."""
        if not self._is_round and self._limit.is_waited_for and not self.is_closed:
            self._begin_round()

    def _begin_round(self) -> None:
        owners = self._limit.begin(self._free)
        if not owners:
            return
        self._is_round = True
        for owner in owners:
            tag = self._tags.get(owner)
            if tag is not None:
                self.consumers[tag][0].wake()
        # Queues that were woken deliver in the next turn of the loop, before this.
        asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        self._is_round = False
        self._limit.end()
        self.freed()

    # --- what becomes of its consumers ---------------------------------------------------------------

    def unread(self, queue: QueueHandle, lane: int) -> int:
        return self.session.outbox.unread(self, queue, lane)

    def cancelled(self, consumer: Consumer) -> None:
        known = self.remove_consumer(consumer.tag)
        self.writers.pop(consumer.owner, None)
        if known is None or self.is_closed:
            return
        if self._untold is not None:
            self._untold.append(consumer.tag)
        else:
            self._tell_cancelled(consumer.tag)

    def _tell_cancelled(self, tag: str) -> None:
        self.session.tell_cancelled(self, BasicCancel(consumer_tag=tag, nowait=True))

    @contextmanager
    def telling_later(self) -> Iterator[None]:
        """Hold back cancellations of consumers until the block ends: the client gets its answer first."""
        assert self._untold is None
        self._untold = []
        try:
            yield
        finally:
            untold, self._untold = self._untold, None
            for tag in untold:
                self._tell_cancelled(tag)

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        known = self.consumers.get(consumer.tag)
        if known is not None and known[1] is consumer:
            self.session.outbox.forget(self, known[0], consumer.owner)
            self.consumers[consumer.tag] = queue, consumer
            self.queues[queue.key] = queue
