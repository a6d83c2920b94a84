"""One step of a member of a streams group towards its target, without two owners of a task at any moment.

As ``reconcile`` for consumer groups, with tasks for partitions. A task that runs is free when no member runs
it and the member's own process does not follow it either; a task that only follows must not be in the same
process twice, because one process keeps one copy of the state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from millpond.base.errors import MemberEpochFenced
from millpond.group.streams.records import (
    DatedTasks,
    HeldTasks,
    StreamsCurrentStored,
    Tasks,
    TaskSet,
    TaskState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGoal:
    """The target of a member, and what the member says."""

    target_epoch: int
    target: TaskSet
    # What the member says it owns; None if it said nothing.
    owned: TaskSet | None
    # Whether a member runs this task; whether the member's own process runs, or follows it.
    is_run: Callable[[str, int], bool]
    is_run_here: Callable[[str, int], bool]
    is_followed_here: Callable[[str, int], bool]


def is_reconciled(current: StreamsCurrentStored, target_epoch: int) -> bool:
    """Whether there is nothing to do for this member."""
    return current.state is TaskState.STABLE and current.epoch == target_epoch


def reconcile(current: StreamsCurrentStored, goal: TaskGoal) -> StreamsCurrentStored:
    """Return the member's next tasks; the same object if nothing changes. Raises ``MemberEpochFenced``."""
    match current.state:
        case TaskState.STABLE:
            if current.epoch == goal.target_epoch:
                return current
            return _next(current, goal, current.epoch)
        case TaskState.UNREVOKED:
            if _owns_any(goal.owned, current.revoking):
                return current
            return _next(current, goal, current.epoch + 1)
        case TaskState.UNRELEASED:
            return _next(current, goal, current.epoch)
        case TaskState.UNKNOWN:
            # Written by a later version of Kafka: the member must begin anew, with empty hands.
            if goal.owned is None or any(goal.owned):
                raise MemberEpochFenced(f"member {current.member_id} must give up all and join")
            return _next(current, goal, goal.target_epoch)


class _Difference(NamedTuple):
    kept: DatedTasks
    lost: DatedTasks
    gained: DatedTasks
    must_wait: bool


def _next(current: StreamsCurrentStored, goal: TaskGoal, epoch: int) -> StreamsCurrentStored:
    def is_taken(part: str, number: int) -> bool:
        return goal.is_run(part, number) or goal.is_followed_here(part, number)

    def is_here(part: str, number: int) -> bool:
        return goal.is_run_here(part, number) or goal.is_followed_here(part, number)

    has, target = current.assigned, goal.target
    active = _compare(has.active, target.active, goal.target_epoch, is_taken)
    standby = _compare(_undated(has.standby), target.standby, 0, is_here)
    warmup = _compare(_undated(has.warmup), target.warmup, 0, is_here)
    kinds = active, standby, warmup
    lost = _held(*(kind.lost for kind in kinds))
    kept = _held(*(kind.kept for kind in kinds))
    if not lost.is_empty and _owns_any(goal.owned, lost):
        return _changed(current, TaskState.UNREVOKED, epoch, kept, lost)
    taken = _held(*(_merged(kind.kept, kind.gained) for kind in kinds))
    waits = any(kind.must_wait for kind in kinds)
    state = TaskState.UNRELEASED if waits else TaskState.STABLE
    return _changed(current, state, goal.target_epoch, taken, HeldTasks())


def _compare(
    has: DatedTasks, target: Tasks, epoch: int, is_taken: Callable[[str, int], bool]
) -> _Difference:
    kept: dict[str, dict[int, int]] = {}
    lost: dict[str, dict[int, int]] = {}
    gained: dict[str, dict[int, int]] = {}
    must_wait = False
    for part in sorted({*has, *target}):
        held, wanted = has.get(part, {}), target.get(part, frozenset())
        for number, since in held.items():
            (kept if number in wanted else lost).setdefault(part, {})[number] = since
        for number in sorted(wanted - held.keys()):
            if is_taken(part, number):
                must_wait = True
            else:
                gained.setdefault(part, {})[number] = epoch
    return _Difference(kept, lost, gained, must_wait)


def _merged(one: DatedTasks, other: DatedTasks) -> DatedTasks:
    return {part: {**one.get(part, {}), **other.get(part, {})} for part in sorted({*one, *other})}


def _held(active: DatedTasks, standby: DatedTasks, warmup: DatedTasks) -> HeldTasks:
    return HeldTasks(active, _bare(standby), _bare(warmup))


def _bare(tasks: DatedTasks) -> Tasks:
    return {part: frozenset(numbers) for part, numbers in tasks.items()}


def _undated(tasks: Tasks) -> DatedTasks:
    return {part: dict.fromkeys(numbers, 0) for part, numbers in tasks.items()}


def _changed(
    current: StreamsCurrentStored,
    state: TaskState,
    epoch: int,
    assigned: HeldTasks,
    revoking: HeldTasks,
) -> StreamsCurrentStored:
    after = replace(
        current,
        state=state,
        epoch=epoch,
        previous_epoch=current.epoch,
        assigned=assigned,
        revoking=revoking,
    )
    return current if after == current else after


def _owns_any(owned: TaskSet | None, held: HeldTasks) -> bool:
    """Whether the member still has some of this. A member that says nothing has all of it."""
    if owned is None:
        return True
    pairs: tuple[tuple[Tasks, Mapping[str, object]], ...] = (
        (owned.active, held.active),
        (owned.standby, held.standby),
        (owned.warmup, held.warmup),
    )
    return any(_overlap(said, has) for said, has in pairs)


def _overlap(said: Tasks, has: Mapping[str, object]) -> bool:
    return any(
        not numbers.isdisjoint(has.get(part, ()))  # type: ignore[arg-type]
        for part, numbers in said.items()
    )
