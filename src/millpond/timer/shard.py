"""The timers of one partition of ``__timers`` as a pure state machine.

A command gives facts; they take effect by ``apply``, with the offsets at which they were written, so
replaying the partition makes the same state. What is only in memory are the due times' order (the wheels),
which follows from the facts, and the sequence that the next intent uses.

Delivery is exactly once because an intent is written, and committed, before its batch is sent, and there is
at most one for a target. Another host that finds it open sends the same batch with the same producer id and
sequence: the target has it already, or takes it now. A host begins with a producer id that was never used
before, so its own intents cannot be mistaken for those of an earlier host.

Memory: 32 bytes for each pending timer; the records stay in the log and are read when they are due.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

from millpond.base.errors import TimerPositionGap
from millpond.base.limits import TIMERS_OF_A_SHARD_MAX
from millpond.record.batch import SEQUENCE_MAX
from millpond.timer.delayed import Kind, due_of
from millpond.timer.facts import (
    Fact,
    Intent,
    IntentDone,
    Scheduled,
    Target,
    TargetForgotten,
    TimerEnded,
    TimerScheduled,
)
from millpond.timer.pending import Pending
from millpond.timer.wheel import Due, Wheel

# Cancelled timers that may stay in a wheel before it is swept.
_GARBAGE_MIN: Final = 10_000
# How often one call asks a wheel that gives out nothing but cancelled timers.
_TAKES: Final = 8
# A target is not known.
UNKNOWN: Final = -1


class Entry(NamedTuple):
    """A record of a control batch in a target: its offset there and its bytes (``timer.delayed``)."""

    source: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The target's leader says: these are all delayed records from ``first`` on, below ``upto``.

    ``is_reset``: the target's log ends at ``upto``, below the position; it has lost what was behind it.
    ``begins``: the leader only asks for the position; a target that is not known begins with ``upto``.
    """

    target: Target
    first: int
    upto: int
    entries: Sequence[Entry] = ()
    is_reset: bool = False
    begins: bool = False


class TargetTimers:
    """What is known of one target."""

    __slots__ = (
        "delivering",
        "intent",
        "pending",
        "position",
        "producer_id",
        "sequence",
        "wake_ms",
        "wheel",
    )

    def __init__(self, now_ms: int) -> None:
        self.position = UNKNOWN
        self.pending = Pending()
        self.wheel = Wheel(now_ms)
        self.intent: Intent | None = None
        self.delivering: frozenset[int] = frozenset()
        # Under which this host delivers, and the sequence of its next batch.
        self.producer_id: int | None = None
        self.sequence = 0
        # When the wheel has something to do, as the shard's heap has it.
        self.wake_ms: int | None = None


class TimerShard:
    """All targets whose timers are in one partition of ``__timers``."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self.targets: dict[Target, TargetTimers] = {}
        self._wakes: list[tuple[int, Target]] = []
        self._size = 0

    def __len__(self) -> int:
        """How many timers are pending."""
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether leaders should take no more delayed records."""
        return self._size >= TIMERS_OF_A_SHARD_MAX

    # --- deciding ----------------------------------------------------------------------------------

    def position(self, target: Target) -> int:
        """Below which offset of the target all delayed records have become timers; -1 if that is unknown."""
        known = self.targets.get(target)
        return UNKNOWN if known is None else known.position

    def schedule(self, command: Schedule) -> list[Fact]:
        """The facts that make timers of these records, those that are timers already left out.

        A target that is not known begins with ``upto``. Raises ``TimerPositionGap`` if records before
        ``first`` are missing.
        """
        target = command.target
        position = self.position(target)
        if position == UNKNOWN:
            if command.entries:
                raise TimerPositionGap(f"timers of {target} are not known; begin with its position")
            return [Scheduled(target, command.upto)]
        if command.begins:
            return []
        if command.is_reset:
            return [Scheduled(target, command.upto)] if command.upto < position else []
        if command.first > position:
            raise TimerPositionGap(
                f"timers of {target} are known below {position}, and these begin at {command.first}"
            )
        facts: list[Fact] = []
        added: dict[int, TimerScheduled] = {}
        name = self.targets[target].pending.last
        for source, value in command.entries:
            if source < position:
                continue
            kind, number = due_of(value)
            if kind is not Kind.CANCEL:
                # Offsets that a log has lost and given out again may name pending timers.
                name = max(source, name + 1)
                added[name] = TimerScheduled(target, name, value)
            elif added.pop(number, None) is None and self._may_cancel(target, number):
                facts.append(TimerEnded(target, number))
        facts += added.values()
        if command.upto > position:
            facts.append(Scheduled(target, command.upto))
        return facts

    def deliver(
        self,
        target: Target,
        now_ms: int,
        *,
        producer_id: int,
        limit: int,
        fits: Callable[[Sequence[int]], int] = len,
    ) -> Intent | None:
        """The intent to deliver what is due, in order of due time; None if nothing is, or one is open.

        ``fits`` says how many of these timers, one at least, go into one batch; what it raises is raised, and
        nothing has changed then. What the intent names is out of the wheel: a host that cannot write the
        intent must read the shard again.
        """
        known = self.targets.get(target)
        if known is None or known.intent is not None:
            return None
        due: list[Due] = []
        for _ in range(_TAKES):
            taken = known.wheel.take(now_ms, limit - len(due))
            due += [one for one in taken if one.number in known.pending]
            if not taken or len(due) >= limit:
                break
        sources = [one.number for one in due]
        if sources:
            try:
                count = fits(sources)
            except BaseException:
                self._put_back(target, known, due)
                raise
            assert count > 0
            self._put_back(target, known, due[count:])
            sources = sources[:count]
        self._wake(target, known)
        if not sources:
            return None
        if known.producer_id is None:
            known.producer_id = producer_id
        return Intent(target, known.producer_id, known.sequence, tuple(sources))

    def _put_back(self, target: Target, known: TargetTimers, due: Sequence[Due]) -> None:
        for one in due:
            known.wheel.add(*one)
        self._wake(target, known)

    def again(self, target: Target, *, producer_id: int) -> Intent | None:
        """The open intent under a producer id that was never used; this host goes on with it.

        For a target that refuses the sequence: it has lost what an earlier batch said, and with it this
        batch if it ever had it.
        """
        intent = self.open_intent(target)
        if intent is None:
            return None
        self.targets[target].producer_id = producer_id
        return Intent(target, producer_id, 0, intent.sources)

    def delivered(self, target: Target) -> list[Fact]:
        """The facts that say that the open intent was carried out. They belong into one batch."""
        intent = self.open_intent(target)
        if intent is None:
            return []
        return [*(TimerEnded(target, one) for one in intent.sources), IntentDone(target)]

    def forget(self, target: Target, limit: int) -> list[Fact]:
        """Facts that end timers of a target that does not exist any more, and then the target itself."""
        known = self.targets.get(target)
        if known is None:
            return []
        ended: list[Fact] = []
        for source, _offset in known.pending:
            if len(ended) >= limit:
                return ended
            ended.append(TimerEnded(target, source))
        done: list[Fact] = [] if known.intent is None else [IntentDone(target)]
        return [*ended, *done, TargetForgotten(target)]

    def open_intent(self, target: Target) -> Intent | None:
        """What is being delivered to the target."""
        known = self.targets.get(target)
        return None if known is None else known.intent

    def open_intents(self) -> Iterator[Intent]:
        """What is being delivered to all targets."""
        for known in self.targets.values():
            if known.intent is not None:
                yield known.intent

    def offset_of(self, target: Target, source: int) -> int | None:
        """Where a pending timer's record lies in the partition of ``__timers``."""
        known = self.targets.get(target)
        return None if known is None else known.pending.get(source)

    def _may_cancel(self, target: Target, source: int) -> bool:
        known = self.targets[target]
        return source in known.pending and source not in known.delivering

    # --- time --------------------------------------------------------------------------------------

    def loaded(self) -> None:
        """The partition was read to its end: from now on wheels are watched."""
        for target, known in self.targets.items():
            self._wake(target, known)

    def awake(self, now_ms: int) -> list[Target]:
        """Targets whose wheels have something to do. ``deliver`` each; those with an open intent come
        again when that is done.
        """
        found: list[Target] = []
        while self._wakes and self._wakes[0][0] <= now_ms:
            wake_ms, target = heappop(self._wakes)
            known = self.targets.get(target)
            if known is not None and known.wake_ms == wake_ms:
                known.wake_ms = None
                if known.intent is None:
                    found.append(target)
        return found

    def next_wake_ms(self) -> int | None:
        """When ``awake`` has something next."""
        return self._wakes[0][0] if self._wakes else None

    def _wake(self, target: Target, known: TargetTimers) -> None:
        wake_ms = known.wheel.next_ms()
        if wake_ms is not None and (known.wake_ms is None or wake_ms < known.wake_ms):
            known.wake_ms = wake_ms
            heappush(self._wakes, (wake_ms, target))

    # --- applying ----------------------------------------------------------------------------------

    def apply(self, facts: Iterable[tuple[Fact, int]], *, is_replay: bool = False) -> None:
        """These facts were written, at these offsets."""
        touched: set[Target] = set()
        for fact, offset in facts:
            self._apply(fact, offset, is_replay)
            touched.add(fact.target)
        if not is_replay:
            for target in touched & self.targets.keys():
                self._sweep(self.targets[target])
                self._wake(target, self.targets[target])

    def _apply(self, fact: Fact, offset: int, is_replay: bool) -> None:
        target = fact.target
        known = self.targets.get(target)
        if known is None:
            if isinstance(fact, TimerEnded | IntentDone | TargetForgotten):
                return
            known = self.targets[target] = TargetTimers(self._now_ms)
        match fact:
            case TimerScheduled(_, source, value):
                self._add(known, source, value, offset, is_replay)
            case TimerEnded(_, source):
                self._size -= known.pending.remove(source)
            case Scheduled(_, position):
                known.position = position
            case Intent(_, producer_id, sequence, sources):
                known.intent = fact
                known.delivering = frozenset(sources)
                if producer_id == known.producer_id:
                    known.sequence = (sequence + len(sources)) & SEQUENCE_MAX
            case IntentDone():
                known.intent = None
                known.delivering = frozenset()
            case TargetForgotten():
                self._size -= len(known.pending)
                del self.targets[target]

    def _add(
        self, known: TargetTimers, source: int, value: bytes, offset: int, is_replay: bool
    ) -> None:
        if source <= known.pending.last:
            return
        kind, due_ms = due_of(value)
        known.pending.add(source, offset)
        add = known.wheel.load if is_replay else known.wheel.add
        add(due_ms if kind is Kind.DELAYED else 0, source)
        self._size += 1

    def _sweep(self, known: TargetTimers) -> None:
        """Drop cancelled timers from a wheel that is mostly these."""
        garbage = len(known.wheel) - len(known.pending)
        if garbage > _GARBAGE_MIN and garbage > len(known.pending):
            known.wheel.sweep(known.pending.__contains__)
