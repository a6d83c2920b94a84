"""One queue's messages and consumers: which consumer gets which message, and which messages are dropped.

A queue is its log: a message is a lane (one for each priority, the highest is served first) and an offset in
it; bodies are not here. What a limit must know of a message (its size, when it was published and how long it
may wait) is in ``known`` as far as the host has read it. Nothing here reads the log: a decision that lacks
knowledge returns a step with ``needs``, and the host learns that and makes the same call again
(``known.py``). ``deliver``, ``get``, ``expire`` and ``drop_excess`` are such decisions. What they decide does
not depend on how much was known before, nor on the order and the portions in which the answers come.

A verb changes the state and returns a ``Step``: ``facts`` are to be written to the queue's log,
``dead_letters`` are to be forwarded *before* the facts are written. That a message was delivered is not a
fact that must be written; written or not, after a restart (``Recovery.end_load``) it is ready again, in its
place. Deciding and applying are one here because a message delivered twice is worse than a fact that was
never written.

Expiry happens at the head only, as in RabbitMQ's classic queues: a message waits behind one that may wait
longer. A new message is offered to consumers before its age is looked at.

A message may have to wait until a time before it is ready: one that was returned to a queue with delayed
retry, or any message of a queue that delays. No consumer holds it (``LATER``) until then; it keeps its place.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from millpond.cursor.ack import Delta, Range
from millpond.cursor.dead_letter import DeadLetterPolicy, GiveUp
from millpond.cursor.runs import NEVER_MS, Run, State
from millpond.queue.ages import Ages
from millpond.queue.consumers import UNLIMITED, Consumer, Consumers
from millpond.queue.drops import Drops
from millpond.queue.known import KnownMessages, Meta, Need, asked
from millpond.queue.lane import LATER, Lane
from millpond.queue.recovery import Recovery
from millpond.queue.returns import Returns
from millpond.queue.settings import QueueSettings
from millpond.queue.sizes import ReadyBytes
from millpond.queue.steps import (
    GIVEN_UP_AT_A_TIME,
    NOTHING,
    RETURNED_AT_A_TIME,
    DeathReason,
    Facts,
    Handout,
    Step,
    joined_steps,
)

DROP_HEAD, REJECT, REJECT_TO_DEAD_LETTERS = "drop-head", "reject-publish", "reject-publish-dlx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many of the coming messages are kept. The rest is refused, and dead-lettered if wanted."""

    admitted: int
    to_dead_letters: bool = field(default=False)


class QueueState:
    """One queue, while this node leads it."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        now_ms: int,
        starts: Sequence[int] = (),
    ) -> None:
        self._settings = settings
        self.known = KnownMessages()
        self.lanes = [Lane() for _priority in range(settings.max_priority + 1)]
        for lane, start in zip(self.lanes, starts, strict=False):
            lane.apply(Delta(start=start, restarts=True))
        self.consumers = Consumers(single_active=settings.single_active_consumer)
        self._getters: dict[str, set[str]] = {}
        self._returns = Returns(self.lanes)
        counts = settings.max_length_bytes is not None
        self.sizes = ReadyBytes(self.known, self.lanes, is_counted=counts)
        self.ages = Ages(self.known, self.lanes, settings)
        self._drops = Drops(self.known, self.lanes, self.sizes, settings)
        self.recovery = Recovery(self.known, self.lanes, self.sizes, self.ages)
        # How much a consumer without a prefetch may hold.
        self.held_max = UNLIMITED
        # By lane: from here on messages have not been offered to consumers.
        self._new = [lane.end for lane in self.lanes]
        self._used_ms = now_ms
        # Whether more is to be dropped than was.
        self._is_behind = False
        self._set_policy()

    # --- looking -------------------------------------------------------------------------------------

    @property
    def settings(self) -> QueueSettings:
        return self._settings

    @property
    def ready(self) -> int:
        """How many messages wait."""
        lanes = self.lanes
        return lanes[0].ready if len(lanes) == 1 else sum(lane.ready for lane in lanes)

    @property
    def held(self) -> int:
        """How many messages were handed out and are not settled."""
        return sum(lane.held for lane in self.lanes)

    @property
    def delayed(self) -> int:
        """How many messages will be ready at a time that has not come."""
        return sum(lane.cursor.held_by(LATER) for lane in self.lanes)

    @property
    def ready_bytes(self) -> int:
        """The size of what waits; counted only where there is a limit to it."""
        return self.sizes.total

    def held_by(self, owner: str) -> int:
        lanes = self.lanes
        if len(lanes) == 1:
            return lanes[0].cursor.held_by(owner)
        return sum(lane.cursor.held_by(owner) for lane in lanes)

    def lane_of(self, priority: int | None) -> int:
        """Where a message of this priority goes; what is above the highest counts as it."""
        return min(priority or 0, self._settings.max_priority)

    def next_up(self) -> tuple[int, int] | None:
        """The lane and the offset of the message that would be handed out next; None if there is none."""
        for number, lane in self._returns.in_turn:
            head = lane.head() if lane.ready else None
            if head is not None and head.first < lane.returning_from:
                return number, head.first
        return None

    def unused_since_ms(self) -> int | None:
        """Since when no client has used the queue; None while it has consumers."""
        return None if self.consumers else self._used_ms

    def wake_ms(self) -> int:
        """When to call ``expire``, or to see whether the queue itself expires.

        It is now if the first message of a lane is not known: ``expire`` asks for it.
        """
        if self._is_behind:
            return 0
        wakes = [NEVER_MS]
        if self.ages.are_watched:
            for number, lane in enumerate(self.lanes):
                head = lane.head()
                if head is not None:
                    meta = self.known.get((number, head.first))
                    wakes.append(0 if meta is None else self.ages.expires_ms(meta))
        wakes += [lane.cursor.wake_ms for lane in self.lanes if lane.cursor.held_by(LATER)]
        if self._settings.expires_ms is not None and not self.consumers:
            wakes.append(self._used_ms + self._settings.expires_ms)
        return min(wakes)

    def is_outdated(self, now_ms: int) -> bool:
        """Whether the queue was unused for so long that it is to be deleted."""
        limit, since = self._settings.expires_ms, self.unused_since_ms()
        return limit is not None and since is not None and now_ms - since >= limit

    # --- publishing ----------------------------------------------------------------------------------

    def admit(self, sizes: Sequence[int]) -> Admission:
        """Before messages are written: how many there is room for. Only a queue that refuses says no."""
        settings = self._settings
        if settings.overflow == DROP_HEAD:
            return Admission(admitted=len(sizes))
        admitted = len(sizes)
        if settings.max_length is not None:
            admitted = min(admitted, max(0, settings.max_length - self.ready))
        if settings.max_length_bytes is not None:
            free = settings.max_length_bytes - self.sizes.total
            for number, size in enumerate(sizes[:admitted]):
                free -= size
                if free < 0:
                    admitted = number
                    break
        return Admission(
            admitted=admitted, to_dead_letters=settings.overflow == REJECT_TO_DEAD_LETTERS
        )

    def published(
        self,
        lane: int,
        first: int,
        next_: int,
        *,
        has_ttl: bool = False,
        size: int | None = None,
        due_ms: Sequence[int] = (),
    ) -> None:
        """Messages are confirmed. Call ``deliver`` next, then ``expire``, ``drop_excess`` and ``offered``:
        a message that can be delivered needs no room.

        ``size`` is their sum if the caller knows it. ``due_ms``: when each is ready, in a queue that delays.
        """
        self.lanes[lane].extend(first, next_)
        if has_ttl:
            self.ages.note_ttl()
        if self._settings.is_delayed:
            runs = tuple(
                Run(offset, offset + 1, State.ACQUIRED, 0, LATER, until_ms)
                for offset, until_ms in zip(range(first, next_), due_ms, strict=True)
            )
            self.lanes[lane].apply(Delta(runs=runs))
        else:
            self.sizes.came(lane, first, next_, size)

    def offered(self) -> None:
        """All messages have been offered to consumers: their ages count from now on."""
        self._new = [lane.end for lane in self.lanes]

    def drop_excess(self) -> Step:
        """Drop from the head what is too much. All of it is decided at once, or ``needs`` are returned."""
        settings = self._settings
        if settings.overflow != DROP_HEAD:
            return NOTHING
        count = 0
        if settings.max_length is not None:
            count = max(0, self.ready - settings.max_length)
        if settings.max_length_bytes is not None:
            if needs := self.sizes.needs():
                return Step(needs=needs)
            found = self._heaviest(count, self.sizes.total - settings.max_length_bytes)
            if isinstance(found, Need):
                return Step(needs=(found,))
            count = found
        elif count > GIVEN_UP_AT_A_TIME and self._drops.are_looked_at:
            self._is_behind, count = True, GIVEN_UP_AT_A_TIME
        return self._drops.from_head(count, DeathReason.MAX_LENGTH) if count else NOTHING

    def _heaviest(self, count: int, excess: int) -> int | Need:
        """How many messages from the head on are to go: so many, and so many bytes at least."""
        passed = 0
        for number in reversed(range(len(self.lanes))):
            if passed >= count and excess <= 0:
                break
            lane = self.lanes[number]
            head = lane.head()
            if head is None:
                continue
            for first, next_ in lane.ready_within(head.first, lane.end):
                for offset in range(first, next_):
                    if passed >= count and excess <= 0:
                        return passed
                    if passed >= GIVEN_UP_AT_A_TIME:
                        self._is_behind = True
                        return passed
                    size = self.known.size(number, offset)
                    if size is None:
                        return asked(number, offset, next_, passed)
                    excess -= size
                    passed += 1
        return passed

    # --- handing out ---------------------------------------------------------------------------------

    def deliver(
        self,
        now_ms: int,
        room: Callable[[Consumer], int] | None = None,
        given: dict[tuple[str, bool], int] | None = None,
    ) -> Step:
        """Hand out what can be. ``room``: how many more may go to a consumer now, as of before.

        Consumers of a channel share that room, those that acknowledge and those that do not each theirs.
        ``given`` is what went to them by earlier calls for which ``room`` was the same.
        """
        self._is_behind = False
        steps = [self.awaken(now_ms)]
        given = {} if given is None else given

        def free(consumer: Consumer) -> int:
            mine = self._room(consumer)
            if room is None:
                return mine
            return min(mine, room(consumer) - given.get((consumer.channel, consumer.no_ack), 0))

        while ready := self.ready:
            if self.ages.are_watched:
                late = self._expire(now_ms, self._new)
                steps.append(late)
                ready = self.ready
                if not ready or late.is_full or late.needs:
                    break
            turn = self.consumers.next(free, ready)
            if turn is None:
                break
            consumer, count = turn.consumer, turn.most
            if self.ages.are_watched:
                timely = self.ages.timely(count, self._new, now_ms)
                if isinstance(timely, Need):
                    steps.append(Step(needs=(timely,)))
                    break
                count = timely
            self.consumers.served(turn)
            step = self._hand_out(consumer, count, now_ms)
            if not step.handouts:
                break  # Messages of closed channels must be returned before.
            steps.append(step)
            if room is not None:
                count = sum(one.next - one.first for one in step.handouts)
                place = consumer.channel, consumer.no_ack
                given[place] = given.get(place, 0) + count
        return joined_steps(*steps)

    def get(self, consumer: Consumer, now_ms: int) -> Step:
        """One message for a client that polls. No handout: there is none, or the step has ``needs``."""
        self._used_ms = now_ms
        late = joined_steps(self.awaken(now_ms), self.expire(now_ms))
        if late.needs:
            return late
        if not consumer.no_ack:
            self._getters.setdefault(consumer.channel, set()).add(consumer.owner)
        return joined_steps(late, self._hand_out(consumer, 1, now_ms))

    def _hand_out(self, consumer: Consumer, count: int, now_ms: int) -> Step:
        facts: list[Facts] = []
        handouts: list[Handout] = []
        for number, lane in self._returns.in_turn:
            if count <= 0 or not lane.ready:
                continue
            taken = lane.take(consumer.owner, min(count, lane.ready), now_ms)
            for run in taken:
                count -= run.next - run.first
                handouts.append(Handout(consumer, number, run.first, run.next, run.deliveries))
                self._drops.left(number, run.first, run.next)
            if consumer.no_ack:
                ranges = [(run.first, run.next) for run in taken]
                outcome = lane.cursor.settle(ranges, owner=consumer.owner, now_ms=now_ms)
                facts.append(Facts(number, lane.decided(outcome)))
        return Step(facts=tuple(facts), handouts=tuple(handouts))

    def _room(self, consumer: Consumer) -> int:
        most = consumer.prefetch or self.held_max
        if consumer.no_ack or most >= UNLIMITED:
            return UNLIMITED
        return most - self.held_by(consumer.owner)

    # --- consumers -----------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, now_ms: int) -> None:
        """Add a consumer that ``consumers.check`` has allowed. Call ``deliver`` next."""
        self._used_ms = now_ms
        self.consumers.add(consumer)

    def cancel(self, owner: str, now_ms: int) -> bool:
        """Remove a consumer; its channel keeps what it holds. Return whether it was the last one."""
        self._used_ms = now_ms
        gone = self.consumers.remove(owner)
        if gone is None:
            return False
        if not gone.no_ack and self.held_by(owner):
            self._getters.setdefault(gone.channel, set()).add(owner)
        return not self.consumers

    def lose_channel(self, channel: str, now_ms: int) -> Step:
        """A channel is closed with all its consumers: what they hold is ready again, in its place.

        Of very many messages some are returned now and the rest with ``give_back``.
        """
        self._used_ms = now_ms
        was_returning = self.is_returning
        owners = self._getters.pop(channel, set())
        for consumer in self.consumers.of_channel(channel):
            owners.add(consumer.owner)
            self.consumers.remove(consumer.owner)
        for owner in owners:
            for number, lane in enumerate(self.lanes):
                self._returns.add(number, owner, lane.cursor.held_ranges(owner), now_ms)
        if was_returning:
            # Many channels are closed with their connection: each adds to the steps that are under way.
            self._returns.hold_back()
            return joined_steps()
        return self.give_back()

    @property
    def is_returning(self) -> bool:
        """Whether messages are being returned: those behind them are not delivered before."""
        return len(self._returns) > 0

    def give_back(self) -> Step:
        """Return some more of what closed channels held, the lowest offsets first."""
        steps, left = [], RETURNED_AT_A_TIME
        while self._returns and left > 0:
            _first, number, owner, ranges, since_ms = self._returns.pop()
            lane = self.lanes[number]
            outcome, looked = lane.cursor.release_next(owner, ranges, left)
            left -= looked
            steps.append(self._drops.back(number, lane, outcome, self._later(since_ms, "failed")))
            self._returns.add(number, owner, ranges, since_ms)
        self._returns.hold_back()
        return joined_steps(*steps)

    def touch(self, now_ms: int) -> None:
        """A client declared the queue again: it is in use."""
        self._used_ms = now_ms

    # --- what became of it -----------------------------------------------------------------------------

    def settle(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """These are done."""
        target = self.lanes[lane]
        outcome = target.cursor.settle(ranges, owner=owner, now_ms=now_ms)
        facts = (Facts(lane, target.decided(outcome)),) if outcome.delta.runs else ()
        return Step(facts=facts, refused=outcome.refused)

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """These are ready again, in their places; those that were delivered too often are dead letters.

        Call ``drop_excess`` next: there may be too many messages now.
        """
        target = self.lanes[lane]
        outcome = target.cursor.release(ranges, owner=owner, now_ms=now_ms)
        return self._drops.back(lane, target, outcome, self._later(now_ms, "returned"))

    def reject(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """No consumer gets these again."""
        target = self.lanes[lane]
        outcome = target.cursor.reject(ranges, owner=owner, now_ms=now_ms)
        return self._drops.over(lane, target, outcome, DeathReason.REJECTED)

    def expire(self, now_ms: int) -> Step:
        """Drop what has waited too long at the head of each lane. All of a step's worth is decided at once,
        or ``needs`` are returned."""
        return self._expire(now_ms, [lane.end for lane in self.lanes])

    def purge(self) -> tuple[int, Step]:
        """Drop everything that is ready, without dead letters. Return how much it was."""
        count = self.ready
        facts = []
        for number, lane in enumerate(self.lanes):
            if lane.ready:
                facts.append(Facts(number, lane.drop(lane.ready)))
        self.sizes.clear()
        self.known.clear()
        return count, Step(facts=tuple(facts))

    # --- settings and the log --------------------------------------------------------------------------

    def configure(self, settings: QueueSettings) -> None:
        """The settings have changed. The number of priorities stays, it is the number of logs.

        Call ``expire`` and ``drop_excess`` next.
        """
        assert settings.max_priority == self._settings.max_priority
        self._settings = settings
        self.ages.configure(settings)
        self._drops.configure(settings)
        self._set_policy()
        self.consumers.single_active = settings.single_active_consumer
        counts, counted = settings.max_length_bytes is not None, self.sizes.is_counted
        self.sizes.is_counted = counts
        if counts != counted:
            self.sizes.recount()

    def learn(self, lane: int, first: int, metas: Sequence[Meta]) -> None:
        """What the host has read of messages that follow each other."""
        self.known.learn(lane, first, metas)
        if not self.sizes.is_certain:
            self.sizes.resolve()

    # --- helpers -------------------------------------------------------------------------------------

    def _set_policy(self) -> None:
        limit = self._settings.delivery_limit
        policy = DeadLetterPolicy(
            deliveries_max=None if limit is None else limit + 1,
            on_rejected=GiveUp.DEAD_LETTER,
            on_deliveries=GiveUp.DEAD_LETTER,
        )
        for lane in self.lanes:
            lane.cursor.policy = policy

    def _expire(self, now_ms: int, upto: Sequence[int]) -> Step:
        """Of what lies below an offset in each lane."""
        if not self.ages.are_watched:
            return NOTHING
        needs: list[Need] = []
        late: list[tuple[int, int]] = []
        left = GIVEN_UP_AT_A_TIME
        for number, lane in enumerate(self.lanes):
            head = lane.head() if left > 0 else None
            if head is None or head.first >= upto[number]:
                continue
            found = self.ages.late(number, head.first, upto[number], left, now_ms)
            if isinstance(found, Need):
                needs.append(found)
            elif found:
                late.append((number, found))
                left -= found
        if needs:
            return Step(needs=tuple(needs))
        self._is_behind = self._is_behind or left <= 0
        return joined_steps(
            *(self._drops.from_lane(number, count, DeathReason.EXPIRED) for number, count in late)
        )

    # --- later ---------------------------------------------------------------------------------------

    def _later(self, now_ms: int, how: str) -> Callable[[Run], int | None]:
        """When a returned message is ready: ``how`` is "returned" or, if its channel was closed, "failed"."""
        settings = self._settings
        if settings.delayed_retry not in {"all", how}:
            return lambda run: None
        low, high = settings.delayed_retry_min_ms, settings.delayed_retry_max_ms
        return lambda run: now_ms + min(low * max(1, run.deliveries), high)

    def awaken(self, now_ms: int) -> Step:
        """Messages whose time has come are ready; of very many, as many as go in one step."""
        steps = []
        for number, lane in enumerate(self.lanes):
            if lane.cursor.held_by(LATER) and lane.cursor.wake_ms <= now_ms:
                # The rest is still due: ``wake_ms`` says so.
                outcome = lane.cursor.expire(now_ms, GIVEN_UP_AT_A_TIME)
                steps.append(self._drops.back(number, lane, outcome, lambda run: None))
        return joined_steps(*steps)
