"""A queue that another node hosts, as front-ends here see it; or one that has no host at the moment.

It is attached at the host that the metadata name. What was asked and not answered when the host is lost is
asked again of the next one, so a message may be published twice and is never lost silently; the second is
called redelivered. What was handed out goes back to its place there and comes again. If no host is found for
long, clients that wait are told.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from millpond.base import limits
from millpond.base.errors import (
    MillpondError,
    NotLeader,
    RequestTimedOut,
    ShuttingDown,
    UnknownResource,
)
from millpond.cursor.ack import Range
from millpond.engine.forwarding.kept import Taken, when_all
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.queue_handle import Counts, Got, Sink
from millpond.engine.queues.remote.queue_link import QueueLink
from millpond.engine.queues.remote.queue_messages import (
    DELETED,
    Answered,
    Cancel,
    Consume,
    Count,
    Get,
    Handed,
    LoseChannel,
    Publish,
    Purge,
    QueueRequest,
    Refused,
    deletion_of,
)
from millpond.engine.queues.remote.remote_consumers import Client, RemoteConsumers
from millpond.engine.queues.remote.remote_requests import Questions, pass_on, refuse
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import Handout
from millpond.rabbit.arguments import STREAM
from millpond.rabbit.commands import DeleteQueue
from millpond.rabbit.records import Queue

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

AnswerT = TypeVar("AnswerT")

# The host is not one any more, or stops: another node will do it.
_PASSING = (NotLeader, ShuttingDown)


class RemoteQueue:
    """One queue. ``adopt`` gives it consumers of a queue that was hosted here."""

    def __init__(self, queues: "Queues", queue: Queue, key: str) -> None:
        self._queues = queues
        self._loop = asyncio.get_running_loop()
        self.queue = queue
        self.key = key
        self.is_gone = False
        self._link: QueueLink | None = None
        self._attachment = 0
        self._host = -1
        self._clients = RemoteConsumers(self, self._say)
        self._questions = Questions(self._late)
        self._retry_ms = limits.QUEUE_HOST_RETRY_MS_MIN
        self._retry: asyncio.TimerHandle | None = None

    @property
    def settings(self) -> QueueSettings:
        """What its arguments and policies come to."""
        return self._queues.settings(self.queue)

    # --- the host --------------------------------------------------------------------------------------

    def look_for_host(self) -> None:
        """Sit where the metadata say, if it is not so already."""
        if self.is_gone:
            return
        host = self._queues.host_of(self.queue)
        if host == self._host and self._link is not None:
            return
        if self._link is not None:
            self._link.detach(self._attachment)
            self._lose_host()
        self._host = host
        if host == self._queues.node_id:
            if not self._queues.try_to_host(self.queue):
                self._look_again_later()
        elif host >= 0:
            self._sit(self._queues.link_to(host))

    def _sit(self, link: QueueLink) -> None:
        self._link = link
        self._attachment = link.attach(self, self.key)
        requests = list(self._questions.requests(self._attachment))
        for client in self._clients:
            if client.is_begun and not client.is_leaving:
                self._begin_again(client)
        for number, request in requests:
            link.say(self._attachment, request, number=number)

    def _begin_again(self, client: Client) -> None:
        """At the next host. If the consumer may not come there any more it is cancelled."""
        consumer = client.wanted if self.queue.type == STREAM else client.consumer

        def on_done(done: "asyncio.Future[Answered]") -> None:
            if done.cancelled() or done.exception() is None:
                return
            if self._clients.remove(consumer.owner) is not None:
                client.sink.cancelled(client.consumer)

        asked = self._ask(
            lambda attachment, number: Consume(attachment, number, consumer, client.credit),
            lambda hosted: None,
            is_fleeting=True,
        )
        asked.add_done_callback(on_done)

    def _lose_host(self) -> None:
        self._link, self._host = None, -1
        self._questions.drop_fleeting()
        self._clients.lose_host()

    def on_detached(self) -> None:
        """The host is lost, or does not host the queue. It is asked again soon: it may be about to."""
        self._lose_host()
        self._look_again_later()

    def _look_again_later(self) -> None:
        if self._retry is None and not self.is_gone:
            self._retry = self._loop.call_later(self._retry_ms / 1000, self._look_again)
            self._retry_ms = min(2 * self._retry_ms, limits.QUEUE_HOST_RETRY_MS_MAX)

    def _look_again(self) -> None:
        self._retry = None
        self.look_for_host()

    def hand_over(self, hosted: LocalQueue) -> None:
        """The queue is hosted here now: consumers go there, and what was asked is done there."""
        if self._link is not None:
            self._link.detach(self._attachment)
            self._lose_host()
        self._end()
        for client in self._clients.take_all():
            if client.is_leaving:
                continue
            client.sink.moved(client.consumer, hosted)
            is_stream = self.queue.type == STREAM
            try:
                hosted.consume(client.wanted if is_stream else client.consumer, client.sink)
            except MillpondError:
                client.sink.cancelled(client.consumer)
        self._questions.do_here(hosted)

    def adopt(self, consumer: Consumer, sink: Sink, *, position: int) -> None:
        """A consumer of this queue when it was hosted here; of a stream, where it was if that is known."""
        client = self._clients.add(consumer, sink)
        client.position = position
        client.is_begun = client.is_open = True
        sink.moved(consumer, self)

    def close(self) -> None:
        """The queue is gone, or the broker stops."""
        if self.is_gone:
            return
        if self._link is not None:
            self._link.detach(self._attachment)
            self._link = None
        self._end()
        for client in self._clients.take_all():
            client.sink.cancelled(client.consumer)
        self._questions.refuse_all(UnknownResource(f"no {self.queue.resource}"))

    def _end(self) -> None:
        self.is_gone = True
        if self._retry is not None:
            self._retry.cancel()

    # --- asking ----------------------------------------------------------------------------------------

    def _ask(
        self,
        request: Callable[[int, int], QueueRequest],
        here: Callable[[LocalQueue], None],
        *,
        is_fleeting: bool = False,
    ) -> "asyncio.Future[Answered]":
        number = self._queues.next_number()
        asked = self._questions.add(number, request, here, is_fleeting=is_fleeting)
        if self._link is not None:
            self._link.say(self._attachment, request(self._attachment, number), number=number)
        else:
            self.look_for_host()
        return asked

    def _check_has_host(self) -> None:
        """Raises ``InvalidQueueArgument`` if there can be none, as things are."""
        if self._link is None:
            self._queues.check_led_together(self.queue)

    def _late(self) -> MillpondError:
        where = f"node {self._host}" if self._host >= 0 else "nobody"
        return RequestTimedOut(f"{self.queue.resource}: {where} hosts it and has not answered")

    def _say(self, request: Callable[[int], QueueRequest]) -> None:
        if self._link is not None:
            self._link.say(self._attachment, request(self._attachment))

    def on_answered(self, event: Answered) -> None:
        self._retry_ms = limits.QUEUE_HOST_RETRY_MS_MIN
        self._questions.answer(event)

    def on_refused(self, event: Refused) -> None:
        if not isinstance(event.error, _PASSING):
            self._questions.refuse(event.number, event.error)
        elif self._link is not None:
            self._link.detach(self._attachment)
            self.on_detached()

    # --- messages in -----------------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message]) -> Taken:
        """Messages, in order; what is admitted is decided by the host."""
        self._check_has_host()
        kept: asyncio.Future[int | None] = self._loop.create_future()
        batch = self._queues.batches.pack(messages)
        was_sent = False

        def request(attachment: int, number: int) -> Publish:
            nonlocal was_sent
            again, was_sent = was_sent, True
            return Publish(attachment, number, batch, again)

        def here(hosted: LocalQueue) -> None:
            taken = hosted.publish(messages, again=was_sent)
            when_all(*taken, kept)

        self._queues.unanswered.add(len(batch))
        kept.add_done_callback(lambda _done: self._queues.unanswered.add(-len(batch)))
        asked = self._ask(request, here)
        pass_on(asked, kept, lambda event: event.values[0])
        return Taken(len(messages), (kept,))

    # --- messages out ----------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, sink: Sink) -> "asyncio.Future[None]":
        """A consumer comes; the future raises ``QueueInUse``."""
        self._check_has_host()
        begun: asyncio.Future[None] = self._loop.create_future()
        client = self._clients.add(consumer, sink)

        def on_begun(done: "asyncio.Future[None]") -> None:
            if done.cancelled() or done.exception() is not None:
                self._clients.remove(consumer.owner)
                return
            client.is_begun = True
            # Clients that wait for this have their turn first.
            self._loop.call_soon(self._clients.open, client)

        begun.add_done_callback(on_begun)
        asked = self._ask(
            lambda attachment, number: Consume(attachment, number, consumer, client.credit),
            # It goes there with the other consumers.
            lambda hosted: begun.set_result(None),
        )
        pass_on(asked, begun, lambda event: None)

        def on_answered(done: "asyncio.Future[Answered]") -> None:
            is_there = not done.cancelled() and done.exception() is None
            if is_there and self._clients.get(consumer.owner) is not client:
                # It went before this host was asked for it.
                self._send_away(consumer.owner)

        asked.add_done_callback(on_answered)
        return begun

    def _send_away(self, owner: str) -> None:
        """The host has a consumer that is not here any more."""
        if not self.is_gone:
            self._ask(
                lambda attachment, number: Cancel(attachment, number, owner),
                lambda hosted: None,
                is_fleeting=True,
            )

    def cancel(self, owner: str) -> "asyncio.Future[None] | None":
        """A consumer goes; what it holds stays its channel's."""
        client = self._clients.get(owner)
        if client is None or self._link is None:
            self._clients.remove(owner)
            return None
        self._clients.give_back(owner)
        client.is_leaving = True
        ended: asyncio.Future[None] = self._loop.create_future()

        def on_done(_done: object) -> None:
            self._clients.remove(owner)
            if not ended.done():
                ended.set_result(None)

        asked = self._ask(lambda attachment, number: Cancel(attachment, number, owner), on_done)
        asked.add_done_callback(on_done)
        return ended

    def lose_channel(self, channel: str) -> None:
        """A channel is gone with all its consumers and all that they hold."""
        self._clients.lose_channel(channel)
        self._say(lambda attachment: LoseChannel(attachment, channel))

    def on_handed(self, event: Handed) -> None:
        self._retry_ms = limits.QUEUE_HOST_RETRY_MS_MIN
        if self._clients.get(event.owner) is None:
            # It went with its channel, and the host may not have heard of that.
            messages = len(self._queues.batches.unpack(event.batch))
            ranges = ((event.first, event.first + messages),)
            self._clients.finish("requeue", event.lane, ranges, event.owner)
            self._send_away(event.owner)
            return
        self._clients.on_handed(event, self._queues.batches.unpack(event.batch))

    def wake(self) -> None:
        """A consumer may take more."""
        if not self.is_gone:
            self._clients.wake()

    def message(self, lane: int, offset: int) -> Message:
        """A message that was handed out and has not been asked for."""
        return self._clients.message(lane, offset)

    def lose(self, lane: int, offset: int, consumer: Consumer) -> None:
        """Its host was lost: it comes again from the next."""

    def settle(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._clients.finish("settle", lane, tuple(ranges), owner)

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._clients.finish("requeue", lane, tuple(ranges), owner)

    def reject(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._clients.finish("reject", lane, tuple(ranges), owner)

    # --- questions -------------------------------------------------------------------------------------

    async def counted(self) -> Counts:
        """Return how full the queue is, with all that was published before. Asking counts as a use of it."""
        return await self._count(is_use=True)

    async def glance(self) -> Counts:
        """How full it is now; a look is no use of it."""
        return await self._count(is_use=False)

    async def _count(self, *, is_use: bool) -> Counts:
        return await self._answer(
            lambda attachment, number: Count(attachment, number, is_use, wants_lost=True),
            lambda event: Counts(*event.values),
            lambda hosted: hosted.counted() if is_use else hosted.glance(),
        )

    async def purged(self) -> int:
        """Everything that is ready is over. How much it was."""
        return await self._answer(
            Purge, lambda event: event.values[0], lambda hosted: hosted.purged()
        )

    async def delete_if(self, command: DeleteQueue) -> int:
        """Delete the queue if it is as the command wants it, and nothing comes into it meanwhile."""

        async def here(hosted: LocalQueue) -> tuple[int, ...]:
            return (await hosted.delete_if(command), 0, 0, DELETED)

        messages, consumers, *rest = await self._answer(
            lambda attachment, number: Count(attachment, number, True, deletion_of(command)),
            lambda event: event.values,
            here,
        )
        if DELETED not in rest[1:]:
            # A host of an earlier version only counts.
            await self._queues.ask(replace(command, messages=messages, consumers=consumers))
        return messages

    async def got(self, consumer: Consumer) -> Got | None:
        """Return one message for a client's basic.get; None if there is none."""
        return await self._answer(
            lambda attachment, number: Get(attachment, number, consumer),
            lambda event: self._read_got(consumer, event),
            lambda hosted: hosted.got(consumer),
        )

    def _read_got(self, consumer: Consumer, event: Answered) -> Got | None:
        if not event.values:
            return None
        lane, offset, deliveries, ready = event.values
        (message,) = self._queues.batches.unpack(event.batch)
        return Got(Handout(consumer, lane, offset, offset + 1, deliveries), message, ready)

    async def _answer(
        self,
        request: Callable[[int, int], QueueRequest],
        read: Callable[[Answered], AnswerT],
        here: Callable[[LocalQueue], Coroutine[Any, Any, AnswerT]],
    ) -> AnswerT:
        """The host's answer; or, if the queue comes to be hosted here meanwhile, that one's."""
        self._check_has_host()
        answer: asyncio.Future[AnswerT] = self._loop.create_future()

        async def ask_here(hosted: LocalQueue) -> None:
            try:
                result = await here(hosted)
            except MillpondError as error:
                refuse(answer, error)
            else:
                if not answer.done():
                    answer.set_result(result)

        asked = self._ask(
            request, lambda hosted: self._queues.spawn(ask_here(hosted), f"{self.queue.resource}")
        )
        pass_on(asked, answer, read)
        return await answer
