"""One channel: its consumers, what is out on it, its confirms or its transaction."""

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
# From so many queues on a channel looks which of them are gone.
_QUEUES_MIN = 64


@dataclass(slots=True)
class Transaction:
    """What a channel has said since it last committed.

    Publishes are addressed already; what was acknowledged is (verb, messages by their tags), in order.
    """

    publishing: "Publishing"
    acks: list[tuple[str, dict[int, Held]]] = field(default_factory=list)
    size: int = 0


class Channel:
    """A channel as long as it is open. It is its consumers' sink."""

    follows = True

    def __init__(self, session: "AmqpSession", number: int, name: str) -> None:
        self.session = session
        self.number = number
        # Unique among all channels that ever were.
        self.name = name
        self.deliveries = Deliveries()
        self.confirms: Confirms | None = None
        # Where its last publish went.
        self.way: Way | None = None
        self.transaction: Transaction | None = None
        self.prefetch = 0
        self.last_queue = ""
        # Of the consumer of direct replies, and what makes their address.
        self.replies_tag: str | None = None
        self.replies_key = ""
        self.is_closed = False
        # Consumers whose queues are gone, to be told when something else has been said; None: at once.
        self._untold: list[str] | None = None
        self.consumers: dict[str, tuple[QueueHandle, Consumer]] = {}
        self.writers: dict[str, DeliveryWriter] = {}
        # Queues that this channel may hold messages of, by what deliveries call them.
        self.queues: dict[str, QueueHandle] = {}
        self._queues_max = _QUEUES_MIN
        self._owners = 0
        # Messages on their way to the socket, of those that are to be acknowledged and of the others.
        self._waiting = [0, 0]
        # Whose turn it is where the channel as a whole has a limit; the tags of those who take turns.
        self._limit = SharedLimit()
        self._tags: dict[str, str] = {}
        self._is_round = False

    def know(self, queue: QueueHandle) -> None:
        """The channel may hold messages of this queue. Those that are gone are forgotten now and then."""
        self.queues[queue.key] = queue
        if len(self.queues) > self._queues_max:
            self.queues = {key: one for key, one in self.queues.items() if not one.is_gone}
            self._queues_max = max(_QUEUES_MIN, 2 * len(self.queues))

    def add_consumer(self, queue: QueueHandle, consumer: Consumer) -> None:
        self.consumers[consumer.tag] = queue, consumer
        self._tags[consumer.owner] = consumer.tag
        self.know(queue)

    def remove_consumer(self, tag: str) -> tuple[QueueHandle, Consumer] | None:
        """The consumer that it was; None if there was none."""
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
        """An answer, unless its asker does not want to hear it."""
        if not nowait:
            self.session.send(self, method)

    def close(self) -> None:
        """What is held goes back to its place."""
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
            # What waits for another consumer, and not for the socket, is not in this one's way.
            window += outbox.count_held_up(self, no_ack=consumer.no_ack)
        if window <= 0 or not self.deliveries.prefetch:
            return window
        granted = self._limit.room(consumer.owner, self._free)
        if granted == 0:
            self.freed()
        if consumer.no_ack:
            # It takes none of the room, but it waits until there is some, as in RabbitMQ.
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
        """So many messages have gone to the socket."""
        before = self._waiting[handout.consumer.no_ack]
        self._waiting[handout.consumer.no_ack] = before - count
        if before > _WINDOW // 2 >= before - count:
            self.wake_all()
        self.freed()

    def dropped(self, handout: Handout) -> None:
        """These will not go to the socket."""
        self._waiting[handout.consumer.no_ack] -= handout.next - handout.first
        self.freed()

    # --- the limit of the whole channel --------------------------------------------------------------

    @property
    def _free(self) -> int:
        """How many more messages that are to be acknowledged the channel as a whole takes."""
        return self.deliveries.room - self._waiting[False]

    def set_limit(self, prefetch: int) -> None:
        """For the whole channel from now on; 0 is none."""
        self.deliveries.prefetch = prefetch
        self._limit.clear()
        self.wake_all()

    def wake_all(self) -> None:
        """All queues of its consumers look whether these take more."""
        for queue, _consumer in self.consumers.values():
            queue.wake()

    def freed(self) -> None:
        """Perhaps there is room again: those who wait for it have their turns."""
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
        # Queues that were woken look in the next turn of the loop, before this.
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
        """Consumers whose queues go meanwhile are told at the end: the client hears its answer first."""
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
