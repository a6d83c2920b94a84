"""One step of a member towards its target, without two owners of a partition at any moment (KIP-848).

    STABLE ──new target──▶ give up what is not in it: UNREVOKED until the member says that it has
                           take what is free: UNRELEASED while others still hold some of it
                           all taken: STABLE, in the target's epoch

A member moves to the target's epoch when it has given up all that it must, not before. Pure: what a member
has and what it says in, what it has next out.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from uuid import UUID

from millpond.base.errors import MemberEpochFenced
from millpond.group.consumer.records import CurrentStored, Holding, MemberState, Target
from millpond.group.epochs import NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The target of a member, and what the member says."""

    target_epoch: int
    target: Target
    # Ids of the topics that the member reads. What it does not read it does not get, whatever the target.
    wanted: Container[UUID]
    metadata_changed: bool
    # What the member says it owns; None if it said nothing.
    owned: Target | None
    # The epoch in which a member holds a partition; -1 if none does.
    holder_epoch: Callable[[UUID, int], int]


def is_reconciled(current: CurrentStored, target_epoch: int) -> bool:
    """Whether there is nothing to do for this member."""
    return current.state is MemberState.STABLE and current.epoch == target_epoch


def reconcile(current: CurrentStored, goal: Goal) -> CurrentStored:
    """Return the member's next assignment; the same object if none changes. Raises ``MemberEpochFenced``."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch != goal.target_epoch:
                return _next(current, goal)
            return _give_up_unwanted(current, goal) if goal.metadata_changed else current
        case MemberState.UNREVOKED:
            if not _owns_any(goal.owned, current.revoking):
                return _next(current, goal)
            return _give_up_unwanted(current, goal) if goal.metadata_changed else current
        case MemberState.UNRELEASED:
            return _next(current, goal)
        case MemberState.UNKNOWN:
            # Written by a later version of Kafka: the member must begin anew, with empty hands.
            if goal.owned is None or goal.owned:
                raise MemberEpochFenced(f"member {current.member_id} must give up all and join")
            return _next(current, goal)


def _next(current: CurrentStored, goal: Goal) -> CurrentStored:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    gained: dict[UUID, dict[int, int]] = {}
    unreleased = False
    for topic_id in goal.target.keys() | current.assigned.keys():
        target = goal.target.get(topic_id, frozenset()) if topic_id in goal.wanted else frozenset()
        held = current.assigned.get(topic_id, {})
        leaving = current.revoking.get(topic_id, {})
        staying = {partition: epoch for partition, epoch in held.items() if partition in target}
        going = {partition: epoch for partition, epoch in held.items() if partition not in target}
        coming = {}
        for partition in target:
            if partition in staying:
                continue
            if goal.holder_epoch(topic_id, partition) != NO_EPOCH and partition not in leaving:
                unreleased = True
            else:
                coming[partition] = goal.target_epoch
        for parts, part in ((kept, staying), (revoking, going), (gained, coming)):
            if part:
                parts[topic_id] = part
    if revoking and _owns_any(goal.owned, revoking):
        return _changed(current, MemberState.UNREVOKED, current.epoch, kept, revoking)
    for topic_id, coming in gained.items():
        kept.setdefault(topic_id, {}).update(coming)
    state = MemberState.UNRELEASED if unreleased else MemberState.STABLE
    return _changed(current, state, goal.target_epoch, kept, {})


def _give_up_unwanted(current: CurrentStored, goal: Goal) -> CurrentStored:
    """Drop topics that the member no longer reads; that need not wait for a new target."""
    unwanted = {topic: held for topic, held in current.assigned.items() if topic not in goal.wanted}
    if not unwanted:
        return current
    kept = {topic: held for topic, held in current.assigned.items() if topic not in unwanted}
    revoking = {topic: dict(held) for topic, held in current.revoking.items()}
    for topic_id, held in unwanted.items():
        revoking.setdefault(topic_id, {}).update(held)
    if _owns_any(goal.owned, revoking):
        return _changed(current, MemberState.UNREVOKED, current.epoch, kept, revoking)
    return _changed(current, current.state, current.epoch, kept, current.revoking)


def _changed(
    current: CurrentStored, state: MemberState, epoch: int, assigned: Holding, revoking: Holding
) -> CurrentStored:
    after = replace(
        current,
        state=state,
        epoch=epoch,
        previous_epoch=current.epoch,
        assigned=assigned,
        revoking=revoking,
    )
    return current if after == current else after


def _owns_any(owned: Target | None, holding: Holding) -> bool:
    """Whether the member still has some of this. A member that says nothing has all of it."""
    if owned is None:
        return True
    return any(
        not partitions.isdisjoint(holding.get(topic_id, ()))
        for topic_id, partitions in owned.items()
    )
