"""Clients of other nodes at the queues that are hosted here.

A *guest* is another node, in one session; a *seat* is one queue that it uses. A seat is the sink of all its
consumers: what is handed out goes into events, with the messages, as far as there is credit. Events wait
until the guest collects them, and those that it may not have got are kept until it says that it has. A guest
that is silent for too long, or comes in another session or another life, is forgotten: what its clients held
goes back to its place.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.errors import InvalidRequest, MessageLost, MillpondError
from millpond.base.ids import NodeId
from millpond.engine.forwarding.kept import when_all
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.peer_requests import CollectEvents, SendQueueRequests
from millpond.engine.queues.queue_handle import NEVER_READ, QueueHandle
from millpond.engine.queues.remote.host_route import Relay
from millpond.engine.queues.remote.queue_messages import (
    DELETED,
    Answered,
    Attach,
    Cancel,
    Consume,
    Count,
    Credit,
    Detach,
    Detached,
    Finish,
    Get,
    Handed,
    LoseChannel,
    Publish,
    Purge,
    QueueEvent,
    Refused,
    Wish,
)
from millpond.message.hub import Message
from millpond.metadata.image import Image
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)


class Attachment:
    """A queue that a guest uses: the sink of the consumers that it has there."""

    follows = False

    def __init__(self, guest: "_RemoteNode", number: int, queue: LocalQueue) -> None:
        self._guest = guest
        self._number = number
        self.queue = queue
        # Channels that consume here or hold something, with their consumers.
        self._channels: dict[str, set[str]] = {}
        # By consumer: how many it may have all in all, and how many it has had.
        self._credit: dict[str, int] = {}
        self._handed: dict[str, int] = {}

    def consume(self, consumer: Consumer, credit: int) -> None:
        self.queue.consume(consumer, self)
        self.hold(consumer.channel).add(consumer.owner)
        self._credit[consumer.owner] = credit
        self._handed[consumer.owner] = 0

    def cancel(self, owner: str) -> None:
        self.queue.cancel(owner)
        self._forget(owner)

    def hold(self, channel: str) -> set[str]:
        """A channel may hold messages here from now on; its consumers."""
        return self._channels.setdefault(channel, set())

    def lose_channel(self, channel: str) -> None:
        """A channel of the guest's is gone."""
        for owner in self._channels.pop(channel, ()):
            self._forget(owner)
        self.queue.lose_channel(channel)

    def _forget(self, owner: str) -> None:
        self._credit.pop(owner, None)
        self._handed.pop(owner, None)

    @property
    def remembered(self) -> int:
        """How much is known of the guest's clients."""
        return len(self._channels) + len(self._credit) + len(self._handed)

    def give_credit(self, owner: str, credit: int) -> None:
        if owner in self._credit:
            self._credit[owner] = credit
            self.queue.wake()

    def leave(self) -> None:
        """What this guest's channels hold goes back."""
        for channel in self._channels:
            if not self.queue.is_gone:
                self.queue.lose_channel(channel)

    # --- a sink ------------------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        if self._guest.is_full:
            return 0
        return self._credit.get(consumer.owner, 0) - self._handed.get(consumer.owner, 0)

    def hand_out(self, queue: QueueHandle, handout: Handout) -> None:
        consumer, lane = handout.consumer, handout.lane
        # All are read before one is told: what cannot be read now is handed out again, whole.
        found: list[Message | None] = []
        for offset in range(handout.first, handout.next):
            try:
                found.append(queue.message(lane, offset))
            except MessageLost:
                found.append(None)
        first, messages = handout.first, list[Message]()
        for offset, message in enumerate(found, handout.first):
            if message is not None:
                messages.append(message)
                continue
            queue.lose(lane, offset, consumer)
            self._tell(handout, first, messages)
            first, messages = offset + 1, []
        self._tell(handout, first, messages)

    def _tell(self, handout: Handout, first: int, messages: list[Message]) -> None:
        if messages:
            owner, batch = handout.consumer.owner, self._guest.sealed(messages)
            self._handed[owner] = self._handed.get(owner, 0) + len(messages)
            self._guest.tell(
                Handed(self._number, owner, handout.lane, first, handout.deliveries, batch)
            )

    def send_out(self) -> None:
        """It is on its way already."""

    def cancelled(self, consumer: Consumer) -> None:
        """The metadata tell every node that the queue is gone."""

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        """The guest is told once, for the whole seat."""

    def unread(self, queue: QueueHandle, lane: int) -> int:
        return NEVER_READ


class _RemoteNode:
    """Another node whose clients use queues here."""

    def __init__(self, queues: "Queues", life: str, session: int) -> None:
        self._queues = queues
        self.life = life
        self.session = session
        self.next_number = 0
        self.heard_ms = 0
        self.is_over = False
        self._seats: dict[int, Attachment] = {}
        self._events: list[QueueEvent] = []
        self._events_bytes = 0
        # What was sent last, and how many times something was.
        self._sent: tuple[QueueEvent, ...] = ()
        self._sent_count = 0
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        return self.is_over or self._events_bytes > limits.QUEUE_WAITING_BYTES_MAX

    @property
    def remembered(self) -> int:
        """How much is known of its clients."""
        return sum(seat.remembered for seat in self._seats.values())

    # --- events ------------------------------------------------------------------------------------

    def tell(self, event: QueueEvent) -> None:
        if self.is_over:
            return
        self._events.append(event)
        self._events_bytes += _size(event)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def collect(self, seen: int, wait_ms: int) -> tuple[QueueEvent, ...]:
        """What has happened since. The same again if that was not seen."""
        if seen < self._sent_count:
            return self._sent
        if not self._events:
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait([waiter], timeout=wait_ms / 1000)
            if seen < self._sent_count:
                # The same question came a second time, by another way, and took them.
                return self._sent
        if self.is_over or not self._events:
            return ()
        return self._next()

    def _next(self) -> tuple[QueueEvent, ...]:
        was_full = self.is_full
        size = count = 0
        for event in self._events:
            size += _size(event)
            if count and size > limits.QUEUE_MESSAGE_BYTES_MAX:
                break
            count += 1
        self._sent = tuple(self._events[:count])
        self._sent_count += 1
        del self._events[:count]
        self._events_bytes = sum(map(_size, self._events))
        if was_full and not self.is_full:
            for seat in self._seats.values():
                seat.queue.wake()
        return self._sent

    def sealed(self, messages: list[Message]) -> bytes:
        return self._queues.batches.pack(messages)

    # --- wishes ------------------------------------------------------------------------------------

    def take(self, wish: Wish) -> None:
        """Carry out what the guest wants; what goes wrong is an event."""
        if isinstance(wish, Attach):
            hosted = self._queues.hosted_by_key(wish.key)
            if hosted is None:
                self.tell(Detached(wish.seat))
            else:
                self._seats[wish.seat] = Attachment(self, wish.seat, hosted)
            return
        seat = self._seats.get(wish.seat)
        if seat is None:
            return
        if seat.queue.is_gone:
            self._unseat(wish.seat)
            return
        number = getattr(wish, "number", None)
        try:
            self._carry_out(seat, wish)
        except MillpondError as error:
            if number is None:
                log.warning("%s: %s", seat.queue.queue.resource, error)
            else:
                self.tell(Refused(number, error))

    def _carry_out(self, seat: Attachment, wish: Wish) -> None:
        queue = seat.queue
        match wish:
            case Publish():
                self._publish(queue, wish)
            case Consume():
                seat.consume(wish.consumer, wish.credit)
                self.tell(Answered(wish.number))
            case Cancel():
                seat.cancel(wish.owner)
                self.tell(Answered(wish.number))
            case Credit():
                seat.give_credit(wish.owner, wish.credit)
            case Finish():
                self._finish(queue, wish)
            case LoseChannel():
                seat.lose_channel(wish.channel)
            case Detach():
                del self._seats[wish.seat]
                seat.leave()
            case Count() | Get() | Purge():
                self._queues.spawn(self._answer(seat, wish), f"{queue.queue.resource}")
            case Attach():
                raise AssertionError("was dealt with")

    def _publish(self, queue: LocalQueue, wish: Publish) -> None:
        # Ages are counted by the clock that looks at them.
        now_ms = self._queues.engine.runtime.clock.now_ms()
        messages = [
            one._replace(received_ms=now_ms) for one in self._queues.batches.unpack(wish.batch)
        ]
        taken = queue.publish(messages, again=wish.again)
        kept: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

        def on_done(done: "asyncio.Future[int | None]") -> None:
            error = done.exception()
            if isinstance(error, MillpondError):
                self.tell(Refused(wish.number, error))
            else:
                self.tell(Answered(wish.number, (taken.admitted,)))

        kept.add_done_callback(on_done)
        when_all(*taken, kept)

    def _finish(self, queue: LocalQueue, wish: Finish) -> None:
        match wish.verb:
            case "settle":
                queue.settle(wish.lane, wish.ranges, wish.owner)
            case "requeue":
                queue.requeue(wish.lane, wish.ranges, wish.owner)
            case "reject":
                queue.reject(wish.lane, wish.ranges, wish.owner)
            case _:
                raise InvalidRequest(f"nobody can {wish.verb!r} a message")

    async def _answer(self, seat: Attachment, wish: Count | Get | Purge) -> None:
        queue = seat.queue
        try:
            match wish:
                case Count() if wish.deletion:
                    messages = await queue.delete_if(wish.command)
                    self.tell(Answered(wish.number, (messages, 0, 0, DELETED)))
                case Count():
                    counts = await (queue.counted() if wish.is_use else queue.glance())
                    values = tuple(counts) if wish.wants_lost else tuple(counts)[:-1]
                    self.tell(Answered(wish.number, values))
                case Purge():
                    self.tell(Answered(wish.number, (await queue.purged(),)))
                case Get():
                    await self._get(seat, wish)
        except MillpondError as error:
            self.tell(Refused(wish.number, error))

    async def _get(self, seat: Attachment, wish: Get) -> None:
        got = await seat.queue.got(wish.consumer)
        if got is None:
            self.tell(Answered(wish.number))
            return
        if self.is_over:
            seat.queue.lose_channel(wish.consumer.channel)
            return
        seat.hold(wish.consumer.channel)
        handout, message, ready = got
        values = (handout.lane, handout.first, handout.deliveries, ready)
        self.tell(Answered(wish.number, values, self.sealed([message])))

    # --- ends --------------------------------------------------------------------------------------

    def unseat(self, queue: LocalQueue) -> None:
        """The queue is not hosted here any more."""
        for number, seat in list(self._seats.items()):
            if seat.queue is queue:
                self._unseat(number)

    def _unseat(self, number: int) -> None:
        del self._seats[number]
        self.tell(Detached(number))

    def forget(self) -> None:
        """Nobody is there any more."""
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        seats, self._seats = self._seats, {}
        for seat in seats.values():
            seat.leave()


class RemoteClients:
    """All of a node's."""

    def __init__(self, queues: "Queues") -> None:
        self._queues = queues
        self._guests: dict[NodeId, _RemoteNode] = {}
        self._timer: asyncio.TimerHandle | None = None
        desk = queues.engine.peer_handlers
        desk.serve(SendQueueRequests, self._on_wishes)
        desk.serve(CollectEvents, self._on_collect)
        Relay(queues.engine)

    def stop(self) -> None:
        guests, self._guests = self._guests, {}
        for guest in guests.values():
            guest.forget()
        if self._timer is not None:
            self._timer.cancel()

    def unseat(self, queue: LocalQueue) -> None:
        """The queue is not hosted here any more."""
        for guest in self._guests.values():
            guest.unseat(queue)

    def on_change(self, image: Image, is_alive: Callable[[str], bool]) -> None:
        """RemoteClients whose life is over, by the metadata, are forgotten."""
        for node, guest in list(self._guests.items()):
            if node not in image.brokers or not is_alive(guest.life):
                self._forget(node)

    @property
    def remembered(self) -> int:
        """How much is known of clients of other nodes."""
        return sum(guest.remembered for guest in self._guests.values())

    async def _on_wishes(self, request: SendQueueRequests) -> None:
        self._queues.engine.runtime.check_running()
        guest = self._guest(request)
        if request.number < guest.next_number:
            return  # said twice
        if request.number > guest.next_number:
            raise InvalidRequest(
                f"wishes {guest.next_number} of node {request.node_id} are missing"
            )
        guest.next_number += 1
        for wish in request.requests:
            guest.take(wish)

    async def _on_collect(self, request: CollectEvents) -> tuple[QueueEvent, ...]:
        guest = self._guests.get(request.node_id)
        if guest is None or (guest.life, guest.session) != (request.life, request.session):
            raise InvalidRequest(f"node {request.node_id} has no session {request.session} here")
        guest.heard_ms = self._now_ms()
        events = await guest.collect(request.seen, request.wait_ms)
        guest.heard_ms = self._now_ms()
        return events

    def _guest(self, request: SendQueueRequests) -> _RemoteNode:
        guest = self._guests.get(request.node_id)
        if guest is not None and guest.life == request.life:
            if guest.session > request.session:
                raise InvalidRequest(f"session {request.session} is over")
            if guest.session == request.session:
                guest.heard_ms = self._now_ms()
                return guest
        if request.number != 0:
            raise InvalidRequest(f"session {request.session} is not known here")
        if guest is not None:
            self._forget(request.node_id)
        guest = self._guests[request.node_id] = _RemoteNode(
            self._queues, request.life, request.session
        )
        guest.heard_ms = self._now_ms()
        self._look_again()
        return guest

    def _forget(self, node: NodeId) -> None:
        guest = self._guests.pop(node)
        log.info("clients of node %d are forgotten", node)
        with self._queues.deletions.forgiving():
            guest.forget()

    def _look_again(self) -> None:
        if self._timer is None and self._guests:
            delay_s = limits.QUEUE_REMOTE_SILENCE_MS_MAX / 4000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        late_ms = self._now_ms() - limits.QUEUE_REMOTE_SILENCE_MS_MAX
        for node, guest in list(self._guests.items()):
            if guest.heard_ms < late_ms:
                self._forget(node)
        self._look_again()

    def _now_ms(self) -> int:
        return self._queues.engine.runtime.clock.monotonic_ms()


def _size(event: QueueEvent) -> int:
    return len(event.batch) if isinstance(event, (Handed, Answered)) else 0
