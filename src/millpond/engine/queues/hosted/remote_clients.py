"""Clients of other nodes at the queues that are hosted here.

A remote node is known by its session; an *attachment* is one queue that its clients use. An attachment is the
sink of all their consumers: deliveries become events, with the messages, as far as there is credit. Events
wait until the remote node collects them, and those that it may not have received are kept until it confirms
them. A remote node that is silent for too long, or comes with another session or incarnation, is forgotten:
what its clients held goes back to its place.
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
    QueueRequest,
    Refused,
)
from millpond.message.hub import Message
from millpond.metadata.image import Image
from millpond.queue.consumers import Consumer
from millpond.queue.steps import Handout

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)


class Attachment:
    """A queue that a remote node uses: the sink of the consumers that it has there."""

    follows = False

    def __init__(self, remote: "_RemoteNode", number: int, queue: LocalQueue) -> None:
        self._remote = remote
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
        """A channel of the remote node is closed."""
        for owner in self._channels.pop(channel, ()):
            self._forget(owner)
        self.queue.lose_channel(channel)

    def _forget(self, owner: str) -> None:
        self._credit.pop(owner, None)
        self._handed.pop(owner, None)

    @property
    def remembered(self) -> int:
        """How much is known of the clients of the remote node."""
        return len(self._channels) + len(self._credit) + len(self._handed)

    def give_credit(self, owner: str, credit: int) -> None:
        if owner in self._credit:
            self._credit[owner] = credit
            self.queue.wake()

    def leave(self) -> None:
        """Return what the channels of the remote node hold."""
        for channel in self._channels:
            if not self.queue.is_gone:
                self.queue.lose_channel(channel)

    # --- a sink ------------------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        if self._remote.is_full:
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
            owner, batch = handout.consumer.owner, self._remote.sealed(messages)
            self._handed[owner] = self._handed.get(owner, 0) + len(messages)
            self._remote.tell(
                Handed(self._number, owner, handout.lane, first, handout.deliveries, batch)
            )

    def send_out(self) -> None:
        """It is on its way already."""

    def cancelled(self, consumer: Consumer) -> None:
        """The metadata tell every node that the queue is gone."""

    def moved(self, consumer: Consumer, queue: QueueHandle) -> None:
        """The remote node is told once, for the whole attachment."""

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
        self._attachments: dict[int, Attachment] = {}
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
        return sum(attachment.remembered for attachment in self._attachments.values())

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
            for attachment in self._attachments.values():
                attachment.queue.wake()
        return self._sent

    def sealed(self, messages: list[Message]) -> bytes:
        return self._queues.batches.pack(messages)

    # --- requests ----------------------------------------------------------------------------------

    def take(self, request: QueueRequest) -> None:
        """Carry out a request; a failure is answered by an event."""
        if isinstance(request, Attach):
            hosted = self._queues.hosted_by_key(request.key)
            if hosted is None:
                self.tell(Detached(request.attachment))
            else:
                self._attachments[request.attachment] = Attachment(self, request.attachment, hosted)
            return
        attachment = self._attachments.get(request.attachment)
        if attachment is None:
            return
        if attachment.queue.is_gone:
            self._detach(request.attachment)
            return
        number = getattr(request, "number", None)
        try:
            self._carry_out(attachment, request)
        except MillpondError as error:
            if number is None:
                log.warning("%s: %s", attachment.queue.queue.resource, error)
            else:
                self.tell(Refused(number, error))

    def _carry_out(self, attachment: Attachment, request: QueueRequest) -> None:
        queue = attachment.queue
        match request:
            case Publish():
                self._publish(queue, request)
            case Consume():
                attachment.consume(request.consumer, request.credit)
                self.tell(Answered(request.number))
            case Cancel():
                attachment.cancel(request.owner)
                self.tell(Answered(request.number))
            case Credit():
                attachment.give_credit(request.owner, request.credit)
            case Finish():
                self._finish(queue, request)
            case LoseChannel():
                attachment.lose_channel(request.channel)
            case Detach():
                del self._attachments[request.attachment]
                attachment.leave()
            case Count() | Get() | Purge():
                self._queues.spawn(self._answer(attachment, request), f"{queue.queue.resource}")
            case Attach():
                raise AssertionError("was dealt with")

    def _publish(self, queue: LocalQueue, request: Publish) -> None:
        # Ages are counted by the clock that looks at them.
        now_ms = self._queues.engine.runtime.clock.now_ms()
        messages = [
            one._replace(received_ms=now_ms) for one in self._queues.batches.unpack(request.batch)
        ]
        taken = queue.publish(messages, again=request.again)
        kept: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

        def on_done(done: "asyncio.Future[int | None]") -> None:
            error = done.exception()
            if isinstance(error, MillpondError):
                self.tell(Refused(request.number, error))
            else:
                self.tell(Answered(request.number, (taken.admitted,)))

        kept.add_done_callback(on_done)
        when_all(*taken, kept)

    def _finish(self, queue: LocalQueue, request: Finish) -> None:
        match request.verb:
            case "settle":
                queue.settle(request.lane, request.ranges, request.owner)
            case "requeue":
                queue.requeue(request.lane, request.ranges, request.owner)
            case "reject":
                queue.reject(request.lane, request.ranges, request.owner)
            case _:
                raise InvalidRequest(f"a message cannot be {request.verb!r}")

    async def _answer(self, attachment: Attachment, request: Count | Get | Purge) -> None:
        queue = attachment.queue
        try:
            match request:
                case Count() if request.deletion:
                    messages = await queue.delete_if(request.command)
                    self.tell(Answered(request.number, (messages, 0, 0, DELETED)))
                case Count():
                    counts = await (queue.counted() if request.is_use else queue.glance())
                    values = tuple(counts) if request.wants_lost else tuple(counts)[:-1]
                    self.tell(Answered(request.number, values))
                case Purge():
                    self.tell(Answered(request.number, (await queue.purged(),)))
                case Get():
                    await self._get(attachment, request)
        except MillpondError as error:
            self.tell(Refused(request.number, error))

    async def _get(self, attachment: Attachment, request: Get) -> None:
        got = await attachment.queue.got(request.consumer)
        if got is None:
            self.tell(Answered(request.number))
            return
        if self.is_over:
            attachment.queue.lose_channel(request.consumer.channel)
            return
        attachment.hold(request.consumer.channel)
        handout, message, ready = got
        values = (handout.lane, handout.first, handout.deliveries, ready)
        self.tell(Answered(request.number, values, self.sealed([message])))

    # --- ends --------------------------------------------------------------------------------------

    def detach(self, queue: LocalQueue) -> None:
        """The queue is not hosted here any more."""
        for number, attachment in list(self._attachments.items()):
            if attachment.queue is queue:
                self._detach(number)

    def _detach(self, number: int) -> None:
        del self._attachments[number]
        self.tell(Detached(number))

    def forget(self) -> None:
        """The remote node is gone: return what its clients hold."""
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        attachments, self._attachments = self._attachments, {}
        for attachment in attachments.values():
            attachment.leave()


class RemoteClients:
    """The remote nodes whose clients use queues that this node hosts."""

    def __init__(self, queues: "Queues") -> None:
        self._queues = queues
        self._remotes: dict[NodeId, _RemoteNode] = {}
        self._timer: asyncio.TimerHandle | None = None
        handlers = queues.engine.peer_handlers
        handlers.serve(SendQueueRequests, self._on_requests)
        handlers.serve(CollectEvents, self._on_collect)
        Relay(queues.engine)

    def stop(self) -> None:
        remotes, self._remotes = self._remotes, {}
        for remote in remotes.values():
            remote.forget()
        if self._timer is not None:
            self._timer.cancel()

    def detach(self, queue: LocalQueue) -> None:
        """The queue is not hosted here any more."""
        for remote in self._remotes.values():
            remote.detach(queue)

    def on_change(self, image: Image, is_alive: Callable[[str], bool]) -> None:
        """Forget remote nodes whose incarnation is over, by the metadata."""
        for node, remote in list(self._remotes.items()):
            if node not in image.brokers or not is_alive(remote.life):
                self._forget(node)

    @property
    def remembered(self) -> int:
        """How much is known of clients of other nodes."""
        return sum(remote.remembered for remote in self._remotes.values())

    async def _on_requests(self, request: SendQueueRequests) -> None:
        self._queues.engine.runtime.check_running()
        remote = self._remote(request)
        if request.number < remote.next_number:
            return  # said twice
        if request.number > remote.next_number:
            raise InvalidRequest(
                f"requests {remote.next_number} of node {request.node_id} are missing"
            )
        remote.next_number += 1
        for one in request.requests:
            remote.take(one)

    async def _on_collect(self, request: CollectEvents) -> tuple[QueueEvent, ...]:
        remote = self._remotes.get(request.node_id)
        if remote is None or (remote.life, remote.session) != (request.life, request.session):
            raise InvalidRequest(f"node {request.node_id} has no session {request.session} here")
        remote.heard_ms = self._now_ms()
        events = await remote.collect(request.seen, request.wait_ms)
        remote.heard_ms = self._now_ms()
        return events

    def _remote(self, request: SendQueueRequests) -> _RemoteNode:
        remote = self._remotes.get(request.node_id)
        if remote is not None and remote.life == request.life:
            if remote.session > request.session:
                raise InvalidRequest(f"session {request.session} is over")
            if remote.session == request.session:
                remote.heard_ms = self._now_ms()
                return remote
        if request.number != 0:
            raise InvalidRequest(f"session {request.session} is not known here")
        if remote is not None:
            self._forget(request.node_id)
        remote = self._remotes[request.node_id] = _RemoteNode(
            self._queues, request.life, request.session
        )
        remote.heard_ms = self._now_ms()
        self._look_again()
        return remote

    def _forget(self, node: NodeId) -> None:
        remote = self._remotes.pop(node)
        log.info("clients of node %d are forgotten", node)
        with self._queues.deletions.forgiving():
            remote.forget()

    def _look_again(self) -> None:
        if self._timer is None and self._remotes:
            delay_s = limits.QUEUE_REMOTE_SILENCE_MS_MAX / 4000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        late_ms = self._now_ms() - limits.QUEUE_REMOTE_SILENCE_MS_MAX
        for node, remote in list(self._remotes.items()):
            if remote.heard_ms < late_ms:
                self._forget(node)
        self._look_again()

    def _now_ms(self) -> int:
        return self._queues.engine.runtime.clock.monotonic_ms()


def _size(event: QueueEvent) -> int:
    return len(event.batch) if isinstance(event, (Handed, Answered)) else 0
