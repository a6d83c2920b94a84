"""The consumers here of a queue that another node hosts, and the messages that are on their way to them.

Handouts bring their messages along. The host hands out as far as a consumer has credit, which grows as fast
as its sink takes messages; what comes when the sink has no room waits here. What a client holds is
remembered: if its host is lost the next one may not know that it was handed out.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from millpond.base import limits
from millpond.base.errors import MessageLost
from millpond.base.fields import Long
from millpond.cursor.ack import Range
from millpond.engine.queues.queue_handle import Sink
from millpond.engine.queues.remote.queue_messages import Credit, Finish, Handed, QueueRequest
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout
from millpond.rabbit.arguments import STREAM, STREAM_OFFSET

if TYPE_CHECKING:
    from millpond.engine.queues.remote.remote_queue import RemoteQueue


class Client:
    """A consumer of a front-end here."""

    __slots__ = (
        "consumer",
        "credit",
        "is_begun",
        "is_leaving",
        "is_open",
        "is_spread",
        "position",
        "received",
        "sink",
        "waiting",
    )

    def __init__(self, consumer: Consumer, sink: Sink) -> None:
        self.consumer = consumer
        self.sink = sink
        self.is_begun = False
        self.is_leaving = False
        # Whether the client has been told that it consumes: messages come afterwards.
        self.is_open = False
        # Behind the last message that went to the client; -1 before the first, and if they are of several
        # partitions.
        self.position = -1
        self.is_spread = False
        self.reset()

    def note(self, lane: int, offset: int) -> None:
        """This goes to the client now."""
        self.is_spread = self.is_spread or lane > 0
        self.position = -1 if self.is_spread else offset + 1

    @property
    def wanted(self) -> Consumer:
        """The consumer as the next host is to know it: in a stream it goes on where it was."""
        if self.position < 0:
            return self.consumer
        arguments = {**self.consumer.arguments, STREAM_OFFSET: Long(self.position)}
        return replace(self.consumer, arguments=arguments)

    def reset(self) -> None:
        """Counts begin anew with every host."""
        self.credit = limits.QUEUE_CREDIT
        self.received = 0
        # Messages that came and that the sink has no room for.
        self.waiting = 0


class RemoteConsumers:
    """The consumers of one queue. ``say`` sends the host a request, which it makes for an attachment."""

    def __init__(
        self, handle: "RemoteQueue", say: Callable[[Callable[[int], QueueRequest]], None]
    ) -> None:
        self._face = handle
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._all: dict[str, Client] = {}
        # Messages that were handed out and not asked for, with their consumers (several of a stream); those
        # without room, in order.
        self._messages: dict[tuple[int, int], list[tuple[str, Message]]] = {}
        self._is_stream = handle.queue.type == STREAM
        self._bytes = 0
        self._waiting: deque[Handout] = deque()
        # What clients hold, with their consumers; and what they held of hosts that are lost.
        self._out: dict[tuple[int, int], str] = {}
        self._seen: set[tuple[int, int]] = set()
        self._is_scheduled = False

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._all.values()))

    def get(self, owner: str) -> Client | None:
        return self._all.get(owner)

    def add(self, consumer: Consumer, sink: Sink) -> Client:
        client = self._all[consumer.owner] = Client(consumer, sink)
        return client

    def remove(self, owner: str) -> Client | None:
        """A consumer goes. What came for it and never went to it goes back."""
        self.give_back(owner)
        return self._all.pop(owner, None)

    def open(self, client: Client) -> None:
        """It was told that it consumes."""
        client.is_open = True
        self.hand_out()

    def take_all(self) -> list[Client]:
        """No consumer is left here."""
        clients, self._all = list(self._all.values()), {}
        self._messages.clear()
        self._waiting.clear()
        return clients

    def lose_channel(self, channel: str) -> None:
        for client in self:
            if client.consumer.channel == channel:
                del self._all[client.consumer.owner]
        kept = self._all
        self._waiting = deque(one for one in self._waiting if one.consumer.owner in kept)
        for place, found in list(self._messages.items()):
            for owner, _message in tuple(found):
                if owner not in kept:
                    self._drop(place, owner)
        self._out = {place: owner for place, owner in self._out.items() if owner in kept}
        if not kept:
            self._seen.clear()

    def lose_host(self) -> None:
        """What was on its way will come again, from another host."""
        self._seen.update(self._out)
        self._out.clear()
        self._messages.clear()
        self._waiting.clear()
        self._bytes = 0
        for client in self:
            client.reset()
            client.sink.moved(client.consumer, self._face)

    # --- messages out --------------------------------------------------------------------------------

    def on_handed(self, event: Handed, messages: Sequence[Message]) -> None:
        """Messages for a consumer, unless it has gone with its channel."""
        client = self._all.get(event.owner)
        if client is None:
            return
        for offset, message in enumerate(messages, event.first):
            self._messages.setdefault((event.lane, offset), []).append((event.owner, message))
            self._bytes += len(message.body)
        client.received += len(messages)
        client.waiting += len(messages)
        next_ = event.first + len(messages)
        whole = Handout(client.consumer, event.lane, event.first, next_, event.deliveries)
        knows_more = self._seen and not self._is_stream
        self._waiting += self._with_memory(whole) if knows_more else (whole,)
        self.hand_out()

    def _with_memory(self, handout: Handout) -> Iterator[Handout]:
        """What a client here has had before comes again, whether the host knows it or not."""
        for offset in range(handout.first, handout.next):
            one = handout._replace(first=offset, next=offset + 1)
            if (handout.lane, offset) in self._seen:
                self._seen.discard((handout.lane, offset))
                one = one._replace(deliveries=max(2, one.deliveries))
            yield one

    def wake(self) -> None:
        """A consumer may take more."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.hand_out)

    def hand_out(self) -> None:
        """As much as there is room for; then ask for more."""
        self._is_scheduled = False
        if self._face.is_gone:
            return
        left: deque[Handout] = deque()
        for handout in self._waiting:
            client = self._all.get(handout.consumer.owner)
            if client is None:
                continue
            count = handout.next - handout.first
            free = max(0, min(count, client.sink.room(client.consumer))) if client.is_open else 0
            if free < count:
                left.append(handout._replace(first=handout.first + free))
            if free:
                client.waiting -= free
                client.sink.hand_out(self._face, handout._replace(next=handout.first + free))
        self._waiting = left
        for client in self._all.values():
            if not client.is_leaving:
                self._give_credit(client)

    def _give_credit(self, client: Client) -> None:
        """As much as the sink takes, in steps that are worth a request."""
        if self._bytes > limits.QUEUE_WAITING_BYTES_MAX:
            return
        room = client.sink.room(client.consumer) - client.waiting
        credit = client.received + max(0, min(room, limits.QUEUE_CREDIT))
        open_ = client.credit - client.received
        if credit > client.credit and open_ <= limits.QUEUE_CREDIT // 2:
            client.credit = credit
            owner = client.consumer.owner
            self._say(lambda attachment: Credit(attachment, owner, credit))

    def message(self, lane: int, offset: int) -> Message:
        """A message that was handed out and has not been asked for. Raises ``MessageLost``."""
        found = self._messages.get((lane, offset))
        if not found:
            # Its host was lost while it waited for the socket: it comes again from the next.
            raise MessageLost(f"{self._face.queue.resource} has no message {offset} at hand")
        owner, message = found[0]
        client = self._all.get(owner)
        if client is not None:
            client.note(lane, offset)
            if not client.consumer.no_ack:
                self._out[lane, offset] = owner
        self._drop((lane, offset), owner)
        return message

    def finish(self, verb: str, lane: int, ranges: tuple[Range, ...], owner: str) -> None:
        """What became of messages."""
        for first, next_ in ranges:
            for offset in range(first, next_):
                self._out.pop((lane, offset), None)
                if self._messages:
                    self._drop((lane, offset), owner)
        self._say(lambda attachment: Finish(attachment, verb, lane, ranges, owner))

    def give_back(self, owner: str) -> None:
        """What came for a consumer that goes, and never went to it."""
        kept: deque[Handout] = deque()
        for handout in self._waiting:
            if handout.consumer.owner == owner and not handout.consumer.no_ack:
                self.finish("requeue", handout.lane, ((handout.first, handout.next),), owner)
            else:
                kept.append(handout)
        self._waiting = kept

    def _drop(self, place: tuple[int, int], owner: str) -> None:
        found = self._messages.get(place, [])
        one = next((one for one in found if one[0] == owner), None)
        if one is None:
            return
        found.remove(one)
        if not found:
            del self._messages[place]
        was_full = self._bytes > limits.QUEUE_WAITING_BYTES_MAX
        self._bytes -= len(one[1].body)
        if was_full and self._bytes <= limits.QUEUE_WAITING_BYTES_MAX:
            self.wake()
