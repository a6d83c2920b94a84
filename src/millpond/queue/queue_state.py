"""One queue's messages and consumers: who gets which message, what becomes of it, and when it is too late.

A queue is its log: messages are places, a lane (one for each priority, the highest first to be served) and
an offset in it; bodies are not here. What must be known of a message (its size, when it was published and
how long it may wait) is looked up through ``MessageIndex`` and only where a limit asks for it.

A verb changes the state and returns a ``Step``: ``facts`` are to be written to the queue's log, ``letters``
are to be published to the dead-letter exchange *before* the facts are written. What was handed out is no
fact that must be written; written or not, after a restart (``forget_owners``) it is ready again, in its
place. Deciding and applying are one here because a message handed out twice is worse than a fact that was
never written.

Expiry happens at the head only, as in RabbitMQ's classic queues: a message waits behind one that may wait
longer. What has just come is offered to consumers before its age is looked at.

A message may have to wait until a time before it is ready: one that came back to a queue with delayed retry,
or any in the queue of a delayed exchange. It is held by nobody (``LATER``) until then, in its place.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from millpond.cursor.ack import Delta, Outcome, Range
from millpond.cursor.dead_letter import DeadLetterPolicy, GiveUp
from millpond.cursor.runs import NEVER_MS, Run, State
from millpond.queue.consumers import UNLIMITED, Consumer, Consumers
from millpond.queue.lane import LATER, NOWHERE, Lane, LaneState
from millpond.queue.sizes import Sizes, Weights
from millpond.queue.steps import (
    GIVEN_UP_AT_A_TIME,
    NOTHING,
    RETURNED_AT_A_TIME,
    DeadLetter,
    Facts,
    Handout,
    Step,
    joined_steps,
)
from millpond.rabbit.dead_letter_headers import DeathReason
from millpond.rabbit.policies import QueueSettings

DROP_HEAD, REJECT, REJECT_TO_LETTERS = "drop-head", "reject-publish", "reject-publish-dlx"


class Meta(NamedTuple):
    """What is known of a message. ``ttl_ms`` is its own; None is no limit.

    ``delay_ms`` is how long a delayed exchange keeps it.
    """

    size: int
    published_ms: int
    ttl_ms: int | None = None
    delay_ms: int = 0


class MessageIndex(Sizes, Protocol):
    """How to find what is known of a message that is in the log."""

    def meta(self, lane: int, offset: int) -> Meta: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many of the messages that come are kept; the rest is refused, and kept as letters if wanted."""

    admitted: int
    to_letters: bool = field(default=False)


class _Returning(NamedTuple):
    """What somebody who is gone holds in a lane: from where on, ranges (the lowest last), and since when."""

    first: int
    lane: int
    owner: str
    ranges: list[Range]
    since_ms: int


class QueueState:
    """One queue, while this node leads it."""

    def __init__(
        self,
        settings: QueueSettings,
        index: MessageIndex,
        *,
        now_ms: int,
        starts: Sequence[int] = (),
    ) -> None:
        self._index = index
        self._settings = settings
        self.lanes = [Lane() for _priority in range(settings.max_priority + 1)]
        for lane, start in zip(self.lanes, starts, strict=False):
            lane.apply(Delta(start=start, restarts=True))
        self.consumers = Consumers(single_active=settings.single_active_consumer)
        self._getters: dict[str, set[str]] = {}
        # What is on its way back, as a heap: the lowest is first. Lanes that may be served, in this order.
        self._returning: list[_Returning] = []
        self._in_turn: list[tuple[int, Lane]] = []
        self._hold_back()
        counts = settings.max_length_bytes is not None
        self._weights = Weights(index, self.lanes, is_counted=counts)
        # How much a consumer without a prefetch may hold.
        self.held_max = UNLIMITED
        # Whether some message came with a limit of its own.
        self._has_ttl = False
        # By lane: from here on messages have not been offered to anybody.
        self._new = [lane.end for lane in self.lanes]
        self._used_ms = now_ms
        # Whether more is to be given up than was.
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
        return self._weights.ready

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
        for number, lane in self._in_turn:
            head = lane.head() if lane.ready else None
            if head is not None and head.first < lane.returning_from:
                return number, head.first
        return None

    def unused_since_ms(self) -> int | None:
        """Since when nobody has used the queue; None while somebody does."""
        return None if self.consumers else self._used_ms

    def wake_ms(self) -> int:
        """When to call ``expire``, or to see whether the queue itself is to go."""
        if self._is_behind:
            return 0
        wakes = [NEVER_MS]
        if self._watches_age:
            for number, lane in enumerate(self.lanes):
                head = lane.head()
                if head is not None:
                    wakes.append(self._expires_ms(number, head.first))
        wakes += [lane.cursor.wake_ms for lane in self.lanes if lane.cursor.held_by(LATER)]
        if self._settings.expires_ms is not None and not self.consumers:
            wakes.append(self._used_ms + self._settings.expires_ms)
        return min(wakes)

    def is_outdated(self, now_ms: int) -> bool:
        """Whether nobody used the queue for so long that it is to be deleted."""
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
            free = settings.max_length_bytes - self._weights.ready
            for number, size in enumerate(sizes[:admitted]):
                free -= size
                if free < 0:
                    admitted = number
                    break
        return Admission(admitted=admitted, to_letters=settings.overflow == REJECT_TO_LETTERS)

    def published(self, lane: int, first: int, next_: int, *, has_ttl: bool = False) -> None:
        """Messages are confirmed. Then ``deliver``, then ``trim``: what can be handed out needs no room."""
        self.lanes[lane].extend(first, next_)
        self._has_ttl = self._has_ttl or has_ttl
        if self._settings.is_delayed:
            self._delay(lane, first, next_)
        else:
            self._weights.came(lane, first, next_)

    def trim(self, now_ms: int) -> Step:
        """Drops from the head what is too old, or too much."""
        settings = self._settings
        has_bounds = settings.max_length is not None or settings.max_length_bytes is not None
        step = NOTHING
        if has_bounds or self._watches_age:
            step = joined_steps(self.expire(now_ms), self._drop_excess())
        self._new = [lane.end for lane in self.lanes]
        return step

    def _drop_excess(self) -> Step:
        settings = self._settings
        if settings.overflow != DROP_HEAD:
            return Step()
        steps: list[Step] = []
        if settings.max_length is not None and self.ready > settings.max_length:
            excess = self.ready - settings.max_length
            if self._looks_at_dropped and excess > GIVEN_UP_AT_A_TIME:
                self._is_behind, excess = True, GIVEN_UP_AT_A_TIME
            steps.append(self._give_up(excess, DeathReason.MAX_LENGTH))
        if settings.max_length_bytes is not None:
            left = GIVEN_UP_AT_A_TIME
            while self._is_too_large(settings.max_length_bytes):
                if left <= 0:
                    self._is_behind = True
                    break
                excess, before = self._weights.ready - settings.max_length_bytes, self.ready
                steps.append(self._drop_bytes(excess, left))
                left -= before - self.ready
        return joined_steps(*steps)

    def _is_too_large(self, limit: int) -> bool:
        """Whether something is to go for its size; not while that is not known for certain."""
        weights = self._weights
        return weights.is_certain and weights.ready > limit and self.ready > 0

    # --- handing out ---------------------------------------------------------------------------------

    def deliver(self, now_ms: int, room: Callable[[Consumer], int] | None = None) -> Step:
        """Hands out what can be. ``room``: how many more may go to a consumer now, as of before.

        Consumers of a channel share that room, those that acknowledge and those that do not each theirs.
        """
        self._is_behind = False
        awake = self.awaken(now_ms)
        facts: list[Facts] = [*awake.facts]
        handouts: list[Handout] = []
        letters: list[DeadLetter] = [*awake.letters]

        given: dict[tuple[str, bool], int] = {}

        def free(consumer: Consumer) -> int:
            mine = self._room(consumer)
            if room is None:
                return mine
            return min(mine, room(consumer) - given.get((consumer.channel, consumer.no_ack), 0))

        while ready := self.ready:
            if self._watches_age:
                late = self._expire(now_ms, self._new)
                facts += late.facts
                letters += late.letters
                ready = self.ready
                if not ready or late.is_full:
                    break
            turn = self.consumers.next(free, ready)
            if turn is None:
                break
            consumer, count = turn
            if self._watches_age:
                count = self._timely(count, now_ms)
            step = self._hand_out(consumer, count, now_ms)
            if not step.handouts:
                break  # It must come back before.
            facts += step.facts
            handouts += step.handouts
            if room is not None:
                count = sum(one.next - one.first for one in step.handouts)
                place = consumer.channel, consumer.no_ack
                given[place] = given.get(place, 0) + count
        return Step(facts=tuple(facts), letters=tuple(letters), handouts=tuple(handouts))

    def get(self, consumer: Consumer, now_ms: int) -> Step:
        """One message for somebody who asks. No handout: there is none."""
        self._used_ms = now_ms
        late = joined_steps(self.awaken(now_ms), self.expire(now_ms))
        if not consumer.no_ack:
            self._getters.setdefault(consumer.channel, set()).add(consumer.owner)
        return joined_steps(late, self._hand_out(consumer, 1, now_ms))

    def _hand_out(self, consumer: Consumer, count: int, now_ms: int) -> Step:
        facts: list[Facts] = []
        handouts: list[Handout] = []
        for number, lane in self._in_turn:
            if count <= 0 or not lane.ready:
                continue
            taken = lane.take(consumer.owner, min(count, lane.ready), now_ms)
            for run in taken:
                count -= run.next - run.first
                handouts.append(Handout(consumer, number, run.first, run.next, run.deliveries))
                self._weights.went(number, run.first, run.next)
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
        """A consumer comes; whether it may was checked (``consumers.check``). ``deliver`` is next."""
        self._used_ms = now_ms
        self.consumers.add(consumer)

    def cancel(self, owner: str, now_ms: int) -> bool:
        """A consumer goes; what it holds stays its channel's. Whether it was the last one."""
        self._used_ms = now_ms
        gone = self.consumers.remove(owner)
        if gone is None:
            return False
        if not gone.no_ack and self.held_by(owner):
            self._getters.setdefault(gone.channel, set()).add(owner)
        return not self.consumers

    def lose_channel(self, channel: str, now_ms: int) -> Step:
        """A channel is gone with all its consumers: what they hold is ready again, in its place.

        If that is very much, it is some of it now and the rest with ``give_back``.
        """
        self._used_ms = now_ms
        was_returning = self.is_returning
        owners = self._getters.pop(channel, set())
        for consumer in self.consumers.of_channel(channel):
            owners.add(consumer.owner)
            self.consumers.remove(consumer.owner)
        for owner in owners:
            for number, lane in enumerate(self.lanes):
                self._return(number, owner, lane.cursor.held_ranges(owner), now_ms)
        if was_returning:
            # Many channels go with their connection: each adds to the steps that are under way.
            self._hold_back()
            return joined_steps()
        return self.give_back()

    @property
    def is_returning(self) -> bool:
        """Whether something is on its way back: what lies behind it is not handed out before."""
        return bool(self._returning)

    def give_back(self) -> Step:
        """Some more of what channels held that are gone, the lowest first."""
        steps, left = [], RETURNED_AT_A_TIME
        while self._returning and left > 0:
            _first, number, owner, ranges, since_ms = heappop(self._returning)
            lane = self.lanes[number]
            outcome, looked = lane.cursor.release_next(owner, ranges, left)
            left -= looked
            steps.append(self._back(number, lane, outcome, self._later(since_ms, "failed")))
            self._return(number, owner, ranges, since_ms)
        self._hold_back()
        return joined_steps(*steps)

    def _hold_back(self) -> None:
        """Nothing overtakes what comes back: neither what lies behind it, nor lower priorities."""
        for lane in self.lanes:
            lane.returning_from = NOWHERE
        for one in self._returning:
            lane = self.lanes[one.lane]
            lane.returning_from = min(lane.returning_from, one.first)
        lowest = max((one.lane for one in self._returning), default=0)
        served = range(len(self.lanes) - 1, lowest - 1, -1)
        self._in_turn = [(number, self.lanes[number]) for number in served]

    def _return(self, lane: int, owner: str, ranges: list[Range], since_ms: int) -> None:
        if ranges:
            heappush(self._returning, _Returning(ranges[-1][0], lane, owner, ranges, since_ms))

    def touch(self, now_ms: int) -> None:
        """Somebody declared the queue again: it is in use."""
        self._used_ms = now_ms

    # --- what became of it -----------------------------------------------------------------------------

    def settle(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """These are done."""
        target = self.lanes[lane]
        outcome = target.cursor.settle(ranges, owner=owner, now_ms=now_ms)
        facts = (Facts(lane, target.decided(outcome)),) if outcome.delta.runs else ()
        return Step(facts=facts, refused=outcome.refused)

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """These are ready again, in their places; those that were tried too often are given up."""
        target = self.lanes[lane]
        outcome = target.cursor.release(ranges, owner=owner, now_ms=now_ms)
        back = self._back(lane, target, outcome, self._later(now_ms, "returned"))
        return joined_steps(back, self._drop_excess())

    def reject(self, lane: int, ranges: Iterable[Range], owner: str, now_ms: int) -> Step:
        """Nobody shall get these again."""
        target = self.lanes[lane]
        outcome = target.cursor.reject(ranges, owner=owner, now_ms=now_ms)
        return self._over(lane, target, outcome, DeathReason.REJECTED)

    def expire(self, now_ms: int) -> Step:
        """Drops what has waited too long at the head of each lane."""
        return self._expire(now_ms, [lane.end for lane in self.lanes])

    def purge(self) -> tuple[int, Step]:
        """Everything that is ready is over, without letters. How much it was."""
        count = self.ready
        facts = []
        for number, lane in enumerate(self.lanes):
            if lane.ready:
                facts.append(Facts(number, lane.drop(lane.ready)))
        self._weights.ready = 0
        return count, Step(facts=tuple(facts))

    # --- settings and the log --------------------------------------------------------------------------

    def configure(self, settings: QueueSettings, now_ms: int) -> Step:
        """Policies have changed. The number of priorities stays, it is the number of logs."""
        assert settings.max_priority == self._settings.max_priority
        self._settings = settings
        self._set_policy()
        self.consumers.single_active = settings.single_active_consumer
        counts, counted = settings.max_length_bytes is not None, self._weights.is_counted
        self._weights.is_counted = counts
        if counts and not counted:
            self._weights.recount()
        return self.trim(now_ms)

    def begin_load(self) -> None:
        """The log will be told; sizes are added up at the end of it (``forget_owners``)."""
        self._weights.begin_load()

    def apply(self, facts: Facts) -> None:
        """A fact from the log, in order, while the queue is loaded; ``published`` is told of messages."""
        self._weights.ended(facts.lane, facts.delta.runs)
        self.lanes[facts.lane].apply(facts.delta)

    def restore(
        self, lane: int, state: LaneState, *, has_ttl: bool, kept_bytes: int | None = None
    ) -> None:
        """What a snapshot in the log says, before any later fact is applied."""
        self.lanes[lane].restore(state)
        self._has_ttl = self._has_ttl or has_ttl
        self._weights.restored(lane, kept_bytes)

    @property
    def knows_sizes(self) -> bool:
        """Whether every size that counts could be looked up."""
        return self._weights.is_certain

    def recount(self) -> None:
        """Look all sizes up anew."""
        self._weights.recount()

    def kept_bytes(self, lane: int) -> int | None:
        """The size of what is not over, for a snapshot; None if it is not counted for this lane alone."""
        return self._weights.kept(lane)

    def lose(self, lane: int, start: int) -> int:
        """The log of a lane lost its beginning. How many messages went that were not over."""
        lost = self.lanes[lane].lose(start)
        if lost:
            self._weights.lost(lane)
        return lost

    def lose_unreadable(self, lane: int, ranges: Iterable[Range]) -> tuple[int, Step]:
        """What waits there cannot be read: it is over, without letters. How much it was."""
        target = self.lanes[lane]
        facts: list[Facts] = []
        for first, next_ in ranges:
            runs = tuple(
                Run(low, high, State.ARCHIVED) for low, high in target.ready_within(first, next_)
            )
            if runs:
                target.apply(Delta(runs=runs))
                facts.append(Facts(lane, Delta(runs=runs)))
        self._weights.lost(lane)
        count = sum(run.next - run.first for fact in facts for run in fact.delta.runs)
        return count, Step(facts=tuple(facts))

    def doubt(self, lane: int, first: int, next_: int) -> Step:
        """Somebody may have had these messages already: they count as delivered once."""
        target = self.lanes[lane]
        runs = tuple(
            Run(low, high, State.AVAILABLE, 1) for low, high in target.never_delivered(first, next_)
        )
        if not runs:
            return NOTHING
        target.apply(Delta(runs=runs))
        return Step(facts=(Facts(lane, Delta(runs=runs)),))

    def forget_owners(self) -> None:
        """After loading: nobody holds anything any more."""
        for lane in self.lanes:
            for owner in lane.cursor.owners:
                if owner != LATER:
                    lane.decided(lane.cursor.release_owner(owner))
        self._weights.end_load(self.ready)

    # --- helpers -------------------------------------------------------------------------------------

    @property
    def _watches_age(self) -> bool:
        if self._settings.is_delayed:
            return False
        return self._has_ttl or self._settings.message_ttl_ms is not None

    def _set_policy(self) -> None:
        limit = self._settings.delivery_limit
        policy = DeadLetterPolicy(
            deliveries_max=None if limit is None else limit + 1,
            on_rejected=GiveUp.DEAD_LETTER,
            on_deliveries=GiveUp.DEAD_LETTER,
        )
        for lane in self.lanes:
            lane.cursor.policy = policy

    def _expires_ms(self, lane: int, offset: int) -> int:
        meta = self._index.meta(lane, offset)
        limits = [one for one in (meta.ttl_ms, self._settings.message_ttl_ms) if one is not None]
        return meta.published_ms + min(limits) if limits else NEVER_MS

    def _expire(self, now_ms: int, upto: Sequence[int]) -> Step:
        """Of what lies below an offset in each lane."""
        if not self._watches_age:
            return Step()
        steps, left = [], GIVEN_UP_AT_A_TIME
        for number, lane in enumerate(self.lanes):
            while left > 0 and (head := lane.head()) is not None:
                next_ = min(head.next, upto[number], head.first + left)
                late = self._late(number, head.first, next_, now_ms)
                if late:
                    steps.append(self._give_up_in(number, late, DeathReason.EXPIRED))
                    left -= late
                if head.first + late < head.next:
                    break
        self._is_behind = self._is_behind or left <= 0
        return joined_steps(*steps)

    def _late(self, number: int, first: int, next_: int, now_ms: int) -> int:
        """How many of these, from the first on, have waited too long."""
        for offset in range(first, next_):
            if self._expires_ms(number, offset) > now_ms:
                return offset - first
        return max(0, next_ - first)

    def _timely(self, count: int, now_ms: int) -> int:
        """How many of those that are next may be handed out together. The first may be."""
        number = next(one for one in reversed(range(len(self.lanes))) if self.lanes[one].ready)
        head = self.lanes[number].head()
        assert head is not None
        upto = min(head.next, head.first + count)
        if not self._has_ttl:
            # All may wait for the same time, and what is behind came later.
            return upto - head.first
        old = min(upto, max(head.first + 1, self._new[number]))
        for offset in range(head.first + 1, old):
            if self._expires_ms(number, offset) <= now_ms:
                return offset - head.first
        return upto - head.first

    def _drop_bytes(self, excess: int, count_max: int) -> Step:
        """Gives up what is at the head of the highest priority until so much is gone, or so many are."""
        number = next(one for one in reversed(range(len(self.lanes))) if self.lanes[one].ready)
        head = self.lanes[number].head()
        assert head is not None
        offset, stop = head.first, min(head.next, head.first + count_max)
        while excess > 0 and offset < stop:
            excess -= self._weights.between(number, offset, offset + 1)
            if not self._weights.is_certain:
                break
            offset += 1
        return self._give_up_in(number, offset - head.first, DeathReason.MAX_LENGTH)

    # --- later ---------------------------------------------------------------------------------------

    def _delay(self, number: int, first: int, next_: int) -> None:
        """Messages of a delayed exchange: each has its time."""
        runs = []
        for offset in range(first, next_):
            meta = self._index.meta(number, offset)
            until_ms = meta.published_ms + meta.delay_ms
            runs.append(Run(offset, offset + 1, State.ACQUIRED, 0, LATER, until_ms))
        self.lanes[number].apply(Delta(runs=tuple(runs)))

    def _later(self, now_ms: int, how: str) -> Callable[[Run], int | None]:
        """When a message that comes back, returned or because its consumer failed, is to be ready."""
        settings = self._settings
        if settings.delayed_retry not in {"all", how}:
            return lambda run: None
        low, high = settings.delayed_retry_min_ms, settings.delayed_retry_max_ms
        return lambda run: now_ms + min(low * max(1, run.deliveries), high)

    def awaken(self, now_ms: int) -> Step:
        """What has waited for its time is ready; of very much, as much as goes in one step."""
        steps = []
        for number, lane in enumerate(self.lanes):
            if lane.cursor.held_by(LATER) and lane.cursor.wake_ms <= now_ms:
                # The rest is still due: ``wake_ms`` says so.
                outcome = lane.cursor.expire(now_ms, GIVEN_UP_AT_A_TIME)
                steps.append(self._back(number, lane, outcome, lambda run: None))
        return joined_steps(*steps)

    # --- helpers -------------------------------------------------------------------------------------

    def _back(
        self,
        number: int,
        lane: Lane,
        outcome: Outcome,
        later: Callable[[Run], int | None],
    ) -> Step:
        runs = tuple(_postponed(run, later) for run in outcome.delta.runs)
        outcome = outcome._replace(delta=Delta(runs=runs))
        step = self._over(number, lane, outcome, DeathReason.DELIVERY_LIMIT)
        for run in outcome.delta.runs:
            if run.state is State.AVAILABLE:
                self._weights.came(number, run.first, run.next)
        return step

    def _over(self, number: int, lane: Lane, outcome: Outcome, reason: DeathReason) -> Step:
        letters = tuple(DeadLetter(number, one.first, one.next, reason) for one in outcome.letters)
        facts = (Facts(number, lane.decided(outcome)),) if outcome.delta.runs else ()
        return Step(facts=facts, letters=self._wanted(letters), refused=outcome.refused)

    def _give_up(self, count: int, reason: DeathReason) -> Step:
        """From the head: the highest priority first, as RabbitMQ does."""
        steps = []
        for number in reversed(range(len(self.lanes))):
            lane_count = min(count, self.lanes[number].ready)
            if lane_count > 0:
                steps.append(self._give_up_in(number, lane_count, reason))
                count -= lane_count
        return joined_steps(*steps)

    @property
    def _looks_at_dropped(self) -> bool:
        """Whether it matters which messages are given up: each is a letter, or its size is counted."""
        return self._settings.dead_letter_exchange is not None or self._weights.is_counted

    def _give_up_in(self, number: int, count: int, reason: DeathReason) -> Step:
        if not self._looks_at_dropped:
            return Step(facts=(Facts(number, self.lanes[number].drop(count)),))
        delta = self.lanes[number].give_up(count)
        letters = []
        for run in delta.runs:
            self._weights.went(number, run.first, run.next)
            letters.append(DeadLetter(number, run.first, run.next, reason))
        return Step(facts=(Facts(number, delta),), letters=self._wanted(tuple(letters)))

    def _wanted(self, letters: tuple[DeadLetter, ...]) -> tuple[DeadLetter, ...]:
        return letters if self._settings.dead_letter_exchange is not None else ()


def _postponed(run: Run, later: Callable[[Run], int | None]) -> Run:
    until_ms = later(run) if run.state is State.AVAILABLE else None
    if until_ms is None:
        return run
    return Run(run.first, run.next, State.ACQUIRED, run.deliveries, LATER, until_ms)
