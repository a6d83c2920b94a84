"""A queue that another node hosts, as front-ends here see it; or one that has no host at the moment.

It sits at the host that the metadata name. What was asked and not answered when the host is lost is asked
again of the next one, so a message may be published twice and is never lost silently; what was handed out
goes back to its place there and comes again. If no host is found for long, whoever waits is told.

Handouts bring their messages along. The host hands out as far as a consumer has credit, which grows as fast
as its sink takes messages.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
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
from millpond.engine.hosted_queue import HostedQueue
from millpond.engine.queue_face import Counts, Got, Kept, Sink, Taken
from millpond.engine.queue_letters import (
    Answered,
    Cancel,
    Consume,
    Count,
    Credit,
    Finish,
    Get,
    Handed,
    LoseChannel,
    Publish,
    Purge,
    Refused,
    Wish,
)
from millpond.engine.queue_link import QueueLink
from millpond.queue.consumers import Consumer
from millpond.queue.facts import Queue
from millpond.queue.line import Handout
from millpond.queue.message import Message
from millpond.queue.policies import QueueSettings

if TYPE_CHECKING:
    from millpond.engine.queues import Queues

AnswerT = TypeVar("AnswerT")

# The host is not one any more, or stops: somebody else will do it.
_PASSING = (NotLeader, ShuttingDown)


class _Client:
    """A consumer of a front-end here."""

    __slots__ = (
        "consumer",
        "credit",
        "is_begun",
        "is_leaving",
        "is_open",
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
        self.reset()

    def reset(self) -> None:
        """Counts begin anew with every host."""
        self.credit = limits.QUEUE_CREDIT
        self.received = 0
        # Messages that came and that the sink has no room for.
        self.waiting = 0


@dataclass(slots=True, eq=False)
class _Question:
    """What waits for an answer. ``wish`` makes the letter; ``here`` does it if the queue is hosted here."""

    wish: Callable[[int, int], Wish]
    future: "asyncio.Future[Answered]"
    here: Callable[[HostedQueue], None]
    # It means something to this host only.
    is_fleeting: bool = False
    timer: asyncio.TimerHandle | None = None


class FarQueue:
    """One queue. ``adopt`` gives it consumers of a queue that was hosted here."""

    def __init__(self, queues: "Queues", queue: Queue, key: str) -> None:
        self._queues = queues
        self._loop = asyncio.get_running_loop()
        self.queue = queue
        self.key = key
        self.is_gone = False
        self._link: QueueLink | None = None
        self._seat = 0
        self._host = -1
        self._clients: dict[str, _Client] = {}
        self._questions: dict[int, _Question] = {}
        # Messages that were handed out and not asked for, with their consumers; those without room, in order.
        self._messages: dict[tuple[int, int], tuple[str, Message]] = {}
        self._bytes = 0
        self._waiting: deque[Handout] = deque()
        self._retry_ms = limits.QUEUE_HOST_RETRY_MS_MIN
        self._retry: asyncio.TimerHandle | None = None
        self._is_scheduled = False

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
        self._leave()
        self._host = host
        if host < 0 or host == self._queues.node_id:
            return  # there will be news
        self._link = link = self._queues.link_to(host)
        self._seat = link.sit(self, self._queues.topic_id(self.queue))
        questions = list(self._questions.items())
        for client in self._clients.values():
            if client.is_begun and not client.is_leaving:
                self._begin_again(client)
        for number, question in questions:
            link.say(self._seat, question.wish(self._seat, number), number=number)

    def _leave(self) -> None:
        if self._link is not None:
            self._link.rise(self._seat)
            self._lose_host()

    def _lose_host(self) -> None:
        self._link, self._host = None, -1
        self._messages.clear()
        self._waiting.clear()
        self._bytes = 0
        for number in [number for number, one in self._questions.items() if one.is_fleeting]:
            self._take(number)
        for client in list(self._clients.values()):
            client.reset()
            client.sink.moved(client.consumer, self)

    def on_unseated(self) -> None:
        """The host is lost, or does not host the queue. It is asked again soon: it may be about to."""
        self._lose_host()
        if self._retry is None and not self.is_gone:
            self._retry = self._loop.call_later(self._retry_ms / 1000, self._try_again)
            self._retry_ms = min(2 * self._retry_ms, limits.QUEUE_HOST_RETRY_MS_MAX)

    def _try_again(self) -> None:
        self._retry = None
        self.look_for_host()

    def _begin_again(self, client: _Client) -> None:
        """At the next host. If the consumer may not come there any more it is cancelled."""

        def on_done(done: "asyncio.Future[Answered]") -> None:
            if done.cancelled() or done.exception() is None:
                return
            if self._clients.pop(client.consumer.owner, None) is not None:
                client.sink.cancelled(client.consumer)

        future = self._ask(
            lambda seat, number: Consume(seat, number, client.consumer, client.credit),
            lambda hosted: None,
            is_fleeting=True,
        )
        future.add_done_callback(on_done)

    def hand_over(self, hosted: HostedQueue) -> None:
        """The queue is hosted here now: consumers go there, and what was asked is done there."""
        self._leave()
        self.is_gone = True
        if self._retry is not None:
            self._retry.cancel()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            if client.is_leaving:
                continue
            client.sink.moved(client.consumer, hosted)
            try:
                hosted.consume(client.consumer, client.sink)
            except MillpondError:
                client.sink.cancelled(client.consumer)
        questions, self._questions = self._questions, {}
        for question in questions.values():
            if question.timer is not None:
                question.timer.cancel()
            try:
                question.here(hosted)
            except MillpondError as error:
                _refuse(question.future, error)

    def adopt(self, consumer: Consumer, sink: Sink) -> None:
        """A consumer of this queue when it was hosted here."""
        client = self._clients[consumer.owner] = _Client(consumer, sink)
        client.is_begun = client.is_open = True
        sink.moved(consumer, self)

    def close(self) -> None:
        """The queue is gone, or the broker stops."""
        if self.is_gone:
            return
        if self._link is not None:
            self._link.rise(self._seat)
            self._link = None
        self.is_gone = True
        if self._retry is not None:
            self._retry.cancel()
        self._messages.clear()
        self._waiting.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.sink.cancelled(client.consumer)
        gone = UnknownResource(f"no {self.queue.resource}")
        questions, self._questions = self._questions, {}
        for question in questions.values():
            if question.timer is not None:
                question.timer.cancel()
            _refuse(question.future, gone)

    # --- asking ----------------------------------------------------------------------------------------

    def _ask(
        self,
        wish: Callable[[int, int], Wish],
        here: Callable[[HostedQueue], None],
        *,
        is_fleeting: bool = False,
    ) -> "asyncio.Future[Answered]":
        future: asyncio.Future[Answered] = self._loop.create_future()
        number = self._queues.next_number()
        question = _Question(wish, future, here, is_fleeting)
        self._questions[number] = question
        question.timer = self._loop.call_later(
            limits.QUEUE_HOST_WAIT_MS_MAX / 1000, self._give_up, number
        )
        if self._link is not None:
            self._link.say(self._seat, wish(self._seat, number), number=number)
        else:
            self.look_for_host()
        return future

    def _give_up(self, number: int) -> None:
        question = self._questions.pop(number, None)
        if question is not None:
            where = f"node {self._host}" if self._host >= 0 else "nobody"
            _refuse(
                question.future,
                RequestTimedOut(f"{self.queue.resource}: {where} hosts it and has not answered"),
            )

    def on_answered(self, event: Answered) -> None:
        self._retry_ms = limits.QUEUE_HOST_RETRY_MS_MIN
        question = self._take(event.number)
        if question is not None and not question.future.done():
            question.future.set_result(event)

    def on_refused(self, event: Refused) -> None:
        if isinstance(event.error, _PASSING):
            if self._link is not None:
                self._link.rise(self._seat)
                self.on_unseated()
            return
        question = self._take(event.number)
        if question is not None:
            _refuse(question.future, event.error)

    def _take(self, number: int) -> _Question | None:
        question = self._questions.pop(number, None)
        if question is not None and question.timer is not None:
            question.timer.cancel()
        return question

    def _say(self, wish: Callable[[int], Wish]) -> None:
        if self._link is not None:
            self._link.say(self._seat, wish(self._seat))

    # --- messages in -----------------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message]) -> Taken:
        """Messages, in order; what is admitted is decided by the host."""
        kept: asyncio.Future[int | None] = self._loop.create_future()
        batch = self._queues.sealed(messages)

        def here(hosted: HostedQueue) -> None:
            taken = hosted.publish(messages)
            when_all(taken.durable, kept, taken.admitted)

        def on_done(done: "asyncio.Future[Answered]") -> None:
            if kept.done() or done.cancelled():
                return
            error = done.exception()
            if error is not None:
                kept.set_exception(error)
            else:
                kept.set_result(done.result().values[0])

        asked = self._ask(lambda seat, number: Publish(seat, number, batch), here)
        asked.add_done_callback(on_done)
        return Taken(len(messages), (kept,))

    # --- messages out ----------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, sink: Sink) -> "asyncio.Future[None]":
        """A consumer comes; the future raises ``QueueInUse``."""
        begun: asyncio.Future[None] = self._loop.create_future()
        client = self._clients[consumer.owner] = _Client(consumer, sink)

        def here(hosted: HostedQueue) -> None:
            begun.set_result(None)  # it went there with the other consumers

        def on_done(done: "asyncio.Future[Answered]") -> None:
            if begun.done() or done.cancelled():
                return
            error = done.exception()
            if error is not None:
                self._clients.pop(consumer.owner, None)
                begun.set_exception(error)
            else:
                client.is_begun = True
                begun.set_result(None)

        # Whoever waits for this has its turn first.
        begun.add_done_callback(lambda _done: self._loop.call_soon(self._open, client))
        asked = self._ask(lambda seat, number: Consume(seat, number, consumer, client.credit), here)
        asked.add_done_callback(on_done)
        return begun

    def _open(self, client: _Client) -> None:
        client.is_open = True
        self._hand_out()

    def cancel(self, owner: str) -> "asyncio.Future[None] | None":
        """A consumer goes; what it holds stays its channel's."""
        client = self._clients.get(owner)
        if client is None or self._link is None:
            self._clients.pop(owner, None)
            return None
        self._return_waiting(owner)
        client.is_leaving = True
        ended: asyncio.Future[None] = self._loop.create_future()

        def on_done(_done: "asyncio.Future[Answered]") -> None:
            self._clients.pop(owner, None)
            self._return_waiting(owner)
            if not ended.done():
                ended.set_result(None)

        asked = self._ask(
            lambda seat, number: Cancel(seat, number, owner), lambda hosted: on_done(asked)
        )
        asked.add_done_callback(on_done)
        return ended

    def lose_channel(self, channel: str) -> None:
        """A channel is gone with all its consumers and all that they hold."""
        for owner in [
            owner for owner, client in self._clients.items() if client.consumer.channel == channel
        ]:
            del self._clients[owner]
        kept = self._clients
        self._waiting = deque(one for one in self._waiting if one.consumer.owner in kept)
        for place in [place for place, (owner, _) in self._messages.items() if owner not in kept]:
            self._drop(place)
        self._say(lambda seat: LoseChannel(seat, channel))

    def on_handed(self, event: Handed) -> None:
        """Messages for a consumer, unless it has gone with its channel."""
        client = self._clients.get(event.owner)
        if client is None:
            return
        self._retry_ms = limits.QUEUE_HOST_RETRY_MS_MIN
        messages = self._queues.opened(event.batch)
        for offset, message in enumerate(messages, event.first):
            self._messages[event.lane, offset] = event.owner, message
            self._bytes += len(message.body)
        next_ = event.first + len(messages)
        client.received += len(messages)
        client.waiting += len(messages)
        self._waiting.append(
            Handout(client.consumer, event.lane, event.first, next_, event.deliveries)
        )
        self._hand_out()

    def wake(self) -> None:
        """A consumer may take more."""
        if not self._is_scheduled and not self.is_gone:
            self._is_scheduled = True
            self._loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._is_scheduled = False
        if self.is_gone:
            return
        left: deque[Handout] = deque()
        for handout in self._waiting:
            client = self._clients.get(handout.consumer.owner)
            if client is None:
                continue
            count = handout.next - handout.first
            free = max(0, min(count, client.sink.room(client.consumer))) if client.is_open else 0
            if free < count:
                left.append(handout._replace(first=handout.first + free))
            if free:
                client.waiting -= free
                client.sink.hand_out(self, handout._replace(next=handout.first + free))
        self._waiting = left
        for client in self._clients.values():
            if not client.is_leaving:
                self._give_credit(client)

    def _give_credit(self, client: _Client) -> None:
        """As much as the sink takes, in steps that are worth a letter."""
        if self._bytes > limits.QUEUE_WAITING_BYTES_MAX:
            return
        room = client.sink.room(client.consumer) - client.waiting
        credit = client.received + max(0, min(room, limits.QUEUE_CREDIT))
        open_ = client.credit - client.received
        if credit > client.credit and open_ <= limits.QUEUE_CREDIT // 2:
            client.credit = credit
            owner = client.consumer.owner
            self._say(lambda seat: Credit(seat, owner, credit))

    def message(self, lane: int, offset: int) -> Message:
        """A message that was handed out and has not been asked for."""
        message = self._drop((lane, offset))
        assert message is not None
        return message

    def _drop(self, place: tuple[int, int]) -> Message | None:
        found = self._messages.pop(place, None)
        if found is None:
            return None
        was_full = self._bytes > limits.QUEUE_WAITING_BYTES_MAX
        self._bytes -= len(found[1].body)
        if was_full and self._bytes <= limits.QUEUE_WAITING_BYTES_MAX:
            self.wake()
        return found[1]

    def _return_waiting(self, owner: str) -> None:
        """What came for a consumer that goes, and never went to it."""
        kept: deque[Handout] = deque()
        for handout in self._waiting:
            if handout.consumer.owner == owner and not handout.consumer.no_ack:
                self.requeue(handout.lane, [(handout.first, handout.next)], owner)
            else:
                kept.append(handout)
        self._waiting = kept

    def settle(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish("settle", lane, ranges, owner)

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish("requeue", lane, ranges, owner)

    def reject(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self._finish("reject", lane, ranges, owner)

    def _finish(self, verb: str, lane: int, ranges: Iterable[Range], owner: str) -> None:
        meant = tuple(ranges)
        if self._messages:
            for first, next_ in meant:
                for offset in range(first, next_):
                    self._drop((lane, offset))
        self._say(lambda seat: Finish(seat, verb, lane, meant, owner))

    # --- questions -------------------------------------------------------------------------------------

    async def counted(self) -> Counts:
        """How full it is, with all that was published before. Whoever asks uses the queue."""
        return await self._count(is_use=True)

    async def glance(self) -> Counts:
        """How full it is now; a look is no use of it."""
        return await self._count(is_use=False)

    async def _count(self, *, is_use: bool) -> Counts:
        answer: asyncio.Future[Counts] = self._loop.create_future()
        self._ask_for(
            answer,
            lambda seat, number: Count(seat, number, is_use),
            lambda event: Counts(*event.values),
            lambda hosted: hosted.counted() if is_use else hosted.glance(),
        )
        return await answer

    async def purged(self) -> int:
        """Everything that is ready is over. How much it was."""
        answer: asyncio.Future[int] = self._loop.create_future()
        self._ask_for(answer, Purge, lambda event: event.values[0], lambda hosted: hosted.purged())
        return await answer

    async def got(self, consumer: Consumer) -> Got | None:
        """One message for somebody who asks; None if there is none."""
        answer: asyncio.Future[Got | None] = self._loop.create_future()
        self._ask_for(
            answer,
            lambda seat, number: Get(seat, number, consumer),
            lambda event: self._got(consumer, event),
            lambda hosted: hosted.got(consumer),
        )
        return await answer

    def _got(self, consumer: Consumer, event: Answered) -> Got | None:
        if not event.values:
            return None
        lane, offset, deliveries, ready = event.values
        (message,) = self._queues.opened(event.batch)
        return Got(Handout(consumer, lane, offset, offset + 1, deliveries), message, ready)

    def _ask_for(
        self,
        answer: "asyncio.Future[AnswerT]",
        wish: Callable[[int, int], Wish],
        read: Callable[[Answered], AnswerT],
        here: Callable[[HostedQueue], Coroutine[Any, Any, AnswerT]],
    ) -> None:
        """Ask the host; or, if the queue comes to be hosted here meanwhile, that one."""

        async def ask_here(hosted: HostedQueue) -> None:
            try:
                result = await here(hosted)
            except MillpondError as error:
                _refuse(answer, error)
            else:
                if not answer.done():
                    answer.set_result(result)

        def on_done(done: "asyncio.Future[Answered]") -> None:
            if answer.done() or done.cancelled():
                return
            error = done.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(read(done.result()))

        asked = self._ask(
            wish,
            lambda hosted: self._queues.spawn(ask_here(hosted), f"{self.queue.resource}"),
        )
        asked.add_done_callback(on_done)


def _refuse(future: "asyncio.Future[Any]", error: MillpondError) -> None:
    if not future.done():
        future.set_exception(error)


def when_all(awaited: Sequence[Kept], kept: "asyncio.Future[int | None]", admitted: int) -> None:
    """``kept`` is done when all of these are, with how many were admitted."""
    missing = set(awaited)

    def on_done(done: Kept) -> None:
        missing.discard(done)
        if kept.done():
            return
        error = None if done.cancelled() else done.exception()
        if error is not None:
            kept.set_exception(error)
        elif not missing:
            kept.set_result(admitted)

    if not missing:
        kept.set_result(admitted)
    for future in tuple(missing):
        future.add_done_callback(on_done)
