"""Dead letters of one queue: where they go, and how the queue keeps a message until its dead letter arrived.

Dead letters are forwarded to the queue's dead-letter exchange before the fact that ends the original is
written. With the strategy *at most once* each is tried once. With *at least once* (quorum queues) the fact is
not written until every queue that gets the dead letter keeps it; one that cannot be routed or kept is tried
again, and after a restart in between the original is still in the queue. Dead letters that would go in a
circle are dropped, as in RabbitMQ.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millpond.base.errors import MessageLost
from millpond.cursor.runs import Run, State
from millpond.engine.forwarding.forwarder import Dispatch, Forwarder, RetryingForwarder
from millpond.engine.queues.queue_destination import QueueDestination
from millpond.engine.queues.queue_handle import NEVER_READ
from millpond.message.hub import Message
from millpond.queue.steps import DeadLetter, DeathReason
from millpond.rabbit.copies import copies
from millpond.rabbit.dead_letter_headers import is_cycle, with_death
from millpond.rabbit.exchange_types import CHANCES, Routed
from millpond.rabbit.policies import DeadLetterTarget

if TYPE_CHECKING:
    from millpond.engine.queues.hosted.local_queue import LocalQueue
    from millpond.engine.queues.queues import Queues

AT_LEAST_ONCE = "at-least-once"

# Dead letters of one queue that are on their way at a time.
_WINDOW = 64
# A dead letter that did not arrive is tried again after this time.
RETRY_PAUSE_S = 3.0


class _Pending(NamedTuple):
    """A dead letter that has not arrived."""

    lane: int
    offset: int
    reason: DeathReason


class DeadLetters:
    """One queue's dead letters, by either strategy."""

    def __init__(self, queues: "Queues", queue: "LocalQueue") -> None:
        self._queues = queues
        self._queue = queue
        name = f"dead letters of {queue.queue.resource}"
        self._once: Forwarder[Message] = Forwarder(name)
        self._certain: RetryingForwarder[_Pending, Message] = RetryingForwarder(
            name,
            route=self._route_pending,
            on_kept=self._on_kept,
            is_over=lambda: queue.is_gone,
            window=_WINDOW,
            pause_s=RETRY_PAUSE_S,
            is_ordered=True,
            must_admit=True,
        )
        # By lane, what ``keeps`` found, while it holds.
        self._lowest: dict[int, int] = {}

    def forward(self, messages: Sequence[Message], reason: DeathReason) -> None:
        """Forward messages at most once: what a queue does not keep is logged and left out."""
        self._once.forward(self._dispatches(messages, reason))

    # --- at least once -------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many must arrive and have not."""
        return len(self._certain)

    def take(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Forward messages at least once; the queue is told of each that has arrived."""
        for one in dead_letters:
            if one.lane in self._lowest:
                self._lowest[one.lane] = min(self._lowest[one.lane], one.first)
        self._certain.forward(
            _Pending(one.lane, offset, one.reason)
            for one in dead_letters
            for offset in range(one.first, one.next)
        )

    def keeps(self, lane: int) -> int:
        """The lowest offset whose dead letter must arrive and has not; ``NEVER_READ`` if there is none."""
        lowest = self._lowest.get(lane)
        if lowest is None:
            offsets = (one.offset for one in self._certain if one.lane == lane)
            lowest = self._lowest[lane] = min(offsets, default=NEVER_READ)
        return lowest

    def close(self) -> None:
        self._certain.close()

    def _route_pending(self, one: _Pending) -> Iterator[Dispatch[Message]]:
        """Raises what reading the message does, unless it is lost."""
        try:
            message = self._queue.store.look(one.lane, one.offset)
        except MessageLost as error:
            why = f"offset {one.offset} was to become a dead letter: {error}"
            self._queue.count_lost(1, why)
        else:
            yield from self._dispatches([message], one.reason)

    def _on_kept(self, one: _Pending) -> None:
        if self._lowest.get(one.lane) == one.offset:
            del self._lowest[one.lane]
        self._queue.note_over(one.lane, Run(one.offset, one.offset + 1, State.ARCHIVED))

    # --- where to ------------------------------------------------------------------------------------

    def _dispatches(
        self, messages: Sequence[Message], reason: DeathReason
    ) -> Iterator[Dispatch[Message]]:
        queues, queue = self._queues, self._queue.queue
        where = self._queue.settings.dead_letter_target
        if not isinstance(where, DeadLetterTarget):
            return
        vhost = queues.broker.rooms(queue.vhost)
        exchange, new_key = where
        exists = not exchange or exchange in vhost.exchanges
        now_ms = queues.engine.runtime.clock.now_ms()
        for dead in messages:
            keys = (dead.key, *copies(dead.headers.get("CC")))
            headers = with_death(
                dead.headers,
                reason=reason,
                queue=queue.name,
                exchange=dead.address,
                routing_keys=keys,
                time_s=now_ms // 1000,
                expiration=None if dead.ttl_ms is None else str(dead.ttl_ms),
                new_key=new_key is not None,
            )
            routing_keys = keys if new_key is None else (new_key,)
            forwarded = queues.codec.readdressed(
                dead, address=exchange, key=routing_keys[0], headers=headers, now_ms=now_ms
            )
            chance = queues.engine.runtime.rng.randrange(CHANCES)
            routed = Routed(routing_keys, headers, queues.codec.chosen_by(dead), chance)
            found = vhost.router.route(exchange, routed) if exists else ()
            allowed = [
                QueueDestination(queues, queue.vhost, name)
                for name in found
                if not is_cycle(headers, name, reason)
            ]
            yield Dispatch([forwarded], allowed, is_unroutable=not found)
