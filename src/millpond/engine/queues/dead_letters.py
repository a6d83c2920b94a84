"""Dead letters: where they go, and how a queue keeps a message until its letter has arrived.

A queue's letters are published to its dead-letter exchange before the fact that ends the original is
written. With the strategy *at most once* nobody waits for them: what cannot be kept is reported and left out.
With *at least once* (quorum queues) the fact is not written until every queue that gets the letter has it as
durably as it keeps things; a letter that cannot be routed or kept is tried again, and a restart in between
gives the original back. Letters that would go in a circle are dropped, as in RabbitMQ.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millpond.base.errors import MessageLost, MillpondError
from millpond.cursor.runs import Run, State
from millpond.engine.queues.queue_handle import NEVER_READ, Kept
from millpond.queue.message import Message
from millpond.queue.steps import DeadLetter, DeathReason
from millpond.rabbit.copies import copies
from millpond.rabbit.dead_letter_headers import is_cycle, with_death
from millpond.rabbit.exchange_types import CHANCES, Routed
from millpond.rabbit.policies import DeadLetterTarget

if TYPE_CHECKING:
    from millpond.engine.queues.hosted.local_queue import LocalQueue
    from millpond.engine.queues.queues import Queues

log = logging.getLogger(__name__)

AT_LEAST_ONCE = "at-least-once"

# Letters of one queue that are on their way at a time.
_WINDOW = 64
# What did not arrive is tried again after so long.
_AGAIN_S = 3.0


class _Addressed(NamedTuple):
    """A letter and the queues that get it; ``is_stuck``: there is none now, and there should be."""

    letter: Message
    queues: list[str]
    is_stuck: bool


def bury(
    queues: "Queues", queue: "LocalQueue", messages: Sequence[Message], reason: DeathReason
) -> None:
    """Send letters to where the queue wants them; nobody waits for them."""
    for letter, targets, _is_stuck in _addressed(queues, queue, messages, reason):
        for name in targets:
            try:
                taken = queues.find(queue.queue.vhost, name).publish([letter])
                for durable in taken.durable:
                    durable.add_done_callback(lambda done: done.cancelled() or done.exception())
            except MillpondError as error:
                log.warning("a letter of %s for %s is lost: %s", queue.queue.resource, name, error)


def _addressed(
    queues: "Queues", queue: "LocalQueue", messages: Sequence[Message], reason: DeathReason
) -> Iterator[_Addressed]:
    settings, vhost = queue.line.settings, queue.queue.vhost
    where = settings.dead_letter_target
    rooms = queues.broker.rooms(vhost)
    if not isinstance(where, DeadLetterTarget):
        return
    target, new_key = where
    is_there = not target or target in rooms.exchanges
    now_ms = queues.engine.clock.now_ms()
    for dead in messages:
        keys = (dead.routing_key, *copies(dead.headers.get("CC")))
        headers = with_death(
            dead.headers,
            reason=reason,
            queue=queue.queue.name,
            exchange=dead.exchange,
            routing_keys=keys,
            time_s=now_ms // 1000,
            expiration=None if dead.ttl_ms is None else str(dead.ttl_ms),
            new_key=new_key is not None,
        )
        routed = keys if new_key is None else (new_key,)
        letter = queues.envelope.readdressed(
            dead, exchange=target, routing_key=routed[0], headers=headers, now_ms=now_ms
        )
        chance = queues.engine.rng.randrange(CHANCES)
        addressed = Routed(routed, headers, queues.envelope.chosen_by(dead), chance)
        found = rooms.router.route(target, addressed) if is_there else ()
        allowed = [name for name in found if not is_cycle(headers, name, reason)]
        yield _Addressed(letter, allowed, is_stuck=not found)


class _Pending(NamedTuple):
    """A letter that has not arrived."""

    lane: int
    offset: int
    reason: DeathReason


class DeadLetters:
    """One queue's letters that must arrive."""

    def __init__(self, queues: "Queues", queue: "LocalQueue") -> None:
        self._queues = queues
        self._queue = queue
        self._waiting: deque[_Pending] = deque()
        self._under_way: set[_Pending] = set()
        # By lane, what ``keeps`` found, while it holds.
        self._lowest: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def take(self, letters: Sequence[DeadLetter]) -> None:
        """These must arrive."""
        for letter in letters:
            if letter.lane in self._lowest:
                self._lowest[letter.lane] = min(self._lowest[letter.lane], letter.first)
            self._waiting += [
                _Pending(letter.lane, offset, letter.reason)
                for offset in range(letter.first, letter.next)
            ]
        self._go_on()

    def keeps(self, lane: int) -> int:
        """The lowest offset whose letter has not arrived; ``NEVER_READ`` if there is none."""
        lowest = self._lowest.get(lane)
        if lowest is None:
            pending = (*self._waiting, *self._under_way)
            lowest = min((one.offset for one in pending if one.lane == lane), default=NEVER_READ)
            self._lowest[lane] = lowest
        return lowest

    def close(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        while self._waiting and len(self._under_way) < _WINDOW and self._timer is None:
            one = self._waiting.popleft()
            self._under_way.add(one)
            self._send(one)

    def _send(self, one: _Pending) -> None:
        try:
            kept = self._published(one)
        except MessageLost as error:
            self._queue.count_lost(1, f"offset {one.offset} was to become a letter: {error}")
            self._arrived(one)
            return
        except MillpondError as error:
            self._try_again(one, error)
            return
        missing = set(kept)
        if not missing:
            self._arrived(one)
            return

        def on_done(done: Kept) -> None:
            missing.discard(done)
            if missing:
                return
            for each in kept:
                if each.cancelled() or each.exception() is not None or each.result() == 0:
                    self._try_again(one, each)
                    return
            self._arrived(one)

        for each in tuple(missing):
            each.add_done_callback(on_done)

    def _published(self, one: _Pending) -> list[Kept]:
        """Raises why the letter cannot be kept."""
        vhost = self._queue.queue.vhost
        message = self._queue.look(one.lane, one.offset)
        kept: list[Kept] = []
        for addressed in _addressed(self._queues, self._queue, [message], one.reason):
            if addressed.is_stuck:
                raise MillpondError("there is no queue to take it")
            for name in addressed.queues:
                taken = self._queues.find(vhost, name).publish([addressed.letter])
                if not taken.admitted:
                    raise MillpondError(f"queue {name!r} is full")
                kept += taken.durable
        return kept

    def _arrived(self, one: _Pending) -> None:
        self._under_way.discard(one)
        if self._lowest.get(one.lane) == one.offset:
            del self._lowest[one.lane]
        if not self._queue.is_gone:
            run = Run(one.offset, one.offset + 1, State.ARCHIVED)
            self._queue.note_over(one.lane, run)
            asyncio.get_running_loop().call_soon(self._go_on)

    def _try_again(self, one: _Pending, why: object) -> None:
        self._under_way.discard(one)
        if self._queue.is_gone:
            return
        self._waiting.appendleft(one)
        if self._timer is None:
            log.warning(
                "%s: letters wait (%d), the next try is in %g s: %s",
                self._queue.queue.resource,
                len(self),
                _AGAIN_S,
                why,
            )
            self._timer = asyncio.get_running_loop().call_later(_AGAIN_S, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._go_on()
