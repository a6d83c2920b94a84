"""The assignors that run on the broker (KIP-848): ``uniform`` and ``range``.

Both are functions from members and topics to targets. ``uniform`` gives everyone as many partitions as
anyone else and moves as few as it can; ``range`` gives everyone neighbouring partitions, the same numbers of
each topic, and forgets what was before. Costs grow with members plus partitions, not with their product.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeAlias
from uuid import UUID

from millpond.group.consumer.records import Target

Place: TypeAlias = tuple[UUID, int]

# How often the topics are gone through to even out members that read different topics.
_BALANCE_ROUNDS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member as an assignor sees it: the topics it reads, in some order, and its last target."""

    topics: Collection[UUID]
    target: Target = field(default_factory=dict)
    instance_id: str | None = None


Candidates: TypeAlias = Mapping[str, Candidate]
Counts: TypeAlias = Mapping[UUID, int]
Targets: TypeAlias = dict[str, Target]
Assignor: TypeAlias = Callable[[Candidates, Counts], Targets]


def assign_uniform(members: Candidates, counts: Counts) -> Targets:
    """Assign evenly with as few moves as possible. ``counts`` has each topic that a member reads."""
    if not members:
        return {}
    first = next(iter(members.values())).topics
    if all(one.topics is first or set(one.topics) == set(first) for one in members.values()):
        return _assign_evenly(members, {topic_id: counts[topic_id] for topic_id in first})
    return _Balance(members, counts).assign()


def assign_range(members: Candidates, counts: Counts) -> Targets:
    """Assign neighbouring partitions of each topic to each member, in the order of their names."""
    order = sorted(members, key=lambda one: _range_key(one, members[one]))
    readers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    targets: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic_id, reading in readers.items():
        share, extra = divmod(counts[topic_id], len(reading))
        start = 0
        for place, member_id in enumerate(reading):
            end = start + share + (1 if place < extra else 0)
            if start < end:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _range_key(member_id: str, candidate: Candidate) -> tuple[bool, str]:
    # Static members first, by the name that stays theirs.
    if candidate.instance_id is not None:
        return False, candidate.instance_id
    return True, member_id


# --- all members read the same --------------------------------------------------------------------


def _assign_evenly(members: Candidates, counts: Counts) -> Targets:
    quota, extra = divmod(sum(counts.values()), len(members))
    targets: Targets = {}
    unfilled: list[tuple[str, int]] = []
    taken: dict[UUID, set[int]] = {topic_id: set() for topic_id in counts}
    for place, (member_id, candidate) in enumerate(members.items()):
        room = quota + (1 if extra else 0)
        has_extra = extra > 0
        kept, used = _keep(candidate.target, counts, taken, room)
        left = room - used
        if left and has_extra and len(members) - place > extra:
            # A later member may have it without a move.
            left, has_extra = left - 1, False
        if left:
            unfilled.append((member_id, left))
        if has_extra:
            extra -= 1
        targets[member_id] = kept
    free = (
        (topic_id, partition)
        for topic_id, count in counts.items()
        for partition in range(count)
        if partition not in taken[topic_id]
    )
    for member_id, left in unfilled:
        targets[member_id] = _with(targets[member_id], free, left)
    return targets


def _keep(
    target: Target, counts: Counts, taken: dict[UUID, set[int]], room: int
) -> tuple[Target, int]:
    """Return what a member can keep of its last target; the same object if that is all of it."""
    kept: dict[UUID, frozenset[int]] = {}
    used = 0
    for topic_id, partitions in target.items():
        count = counts.get(topic_id)
        if count is None:
            continue
        staying = partitions
        if len(partitions) > room - used or max(partitions, default=0) >= count:
            there = sorted(one for one in partitions if one < count)
            staying = frozenset(there[: room - used])
        if staying:
            kept[topic_id] = staying
            taken[topic_id].update(staying)
            used += len(staying)
    return (target if kept == target else kept), used


def _with(target: Target, free: Iterator[Place], count: int) -> Target:
    added: dict[UUID, set[int]] = {}
    for _, (topic_id, partition) in zip(range(count), free, strict=False):
        added.setdefault(topic_id, set()).add(partition)
    return _merged(target, added) if added else target


def _merged(target: Target, added: Mapping[UUID, set[int]]) -> Target:
    merged = dict(target)
    for topic_id, partitions in added.items():
        merged[topic_id] = merged.get(topic_id, frozenset()) | partitions
    return merged


# --- members read different topics ----------------------------------------------------------------


class _Balance:
    """Members as numbers, how many partitions each has, and which member has each partition."""

    def __init__(self, members: Candidates, counts: Counts) -> None:
        self._names = list(members)
        self._before = [one.target for one in members.values()]
        self._counts = counts
        self._loads = [0] * len(self._names)
        self._readers: dict[UUID, list[int]] = {}
        for number, candidate in enumerate(members.values()):
            for topic_id in candidate.topics:
                self._readers.setdefault(topic_id, []).append(number)
        self._owners: dict[UUID, list[int | None]] = {
            topic_id: [None] * counts[topic_id] for topic_id in self._readers
        }

    def assign(self) -> Targets:
        for topic_id, reading in self._readers.items():
            self._keep(topic_id, reading)
        # The topics that give each of their readers most first: they leave the least choice.
        order = sorted(
            self._readers,
            key=lambda one: (
                -self._counts[one] / len(self._readers[one]),
                len(self._readers[one]),
                one.bytes,
            ),
        )
        for topic_id in order:
            self._give_out(topic_id)
        shared = [topic_id for topic_id in order if len(self._readers[topic_id]) > 1]
        for _ in range(_BALANCE_ROUNDS_MAX):
            if not sum([self._even_out(topic_id) for topic_id in shared]):
                break
        return self._targets()

    def _keep(self, topic_id: UUID, reading: list[int]) -> None:
        owners = self._owners[topic_id]
        for number in reading:
            for partition in self._before[number].get(topic_id, ()):
                if partition < len(owners) and owners[partition] is None:
                    owners[partition] = number
                    self._loads[number] += 1

    def _give_out(self, topic_id: UUID) -> None:
        owners = self._owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner is None]
        if not free:
            return
        least = [(self._loads[number], number) for number in self._readers[topic_id]]
        heapify(least)
        for partition in free:
            load, number = least[0]
            owners[partition] = number
            self._loads[number] = load + 1
            heapreplace(least, (load + 1, number))

    def _even_out(self, topic_id: UUID) -> int:
        """Move partitions of a topic from the members with most to those with least. Return how many."""
        reading, loads = self._readers[topic_id], self._loads
        low = min(loads[number] for number in reading)
        if max(loads[number] for number in reading) - low <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        owners = self._owners[topic_id]
        for partition, owner in enumerate(owners):
            assert owner is not None
            owned.setdefault(owner, []).append(partition)
        most = [(-loads[number], number) for number in owned]
        least = [(loads[number], number) for number in reading]
        heapify(most)
        heapify(least)
        moved = 0
        while most:
            load, giver = -most[0][0], most[0][1]
            if load != loads[giver] or not owned[giver]:
                heappop(most)
                if owned[giver]:
                    heappush(most, (-loads[giver], giver))
                continue
            while least[0][0] != loads[least[0][1]]:
                heapreplace(least, (loads[least[0][1]], least[0][1]))
            taker = least[0][1]
            if load - loads[taker] <= 1:
                break
            partition = owned[giver].pop()
            # What a taker gets here it keeps: its own heap entry may only shrink what it gives.
            owners[partition] = taker
            loads[giver] -= 1
            loads[taker] += 1
            moved += 1
        return moved

    def _targets(self) -> Targets:
        parts: list[dict[UUID, set[int]]] = [{} for _ in self._names]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None
                parts[owner].setdefault(topic_id, set()).add(partition)
        targets: Targets = {}
        for number, name in enumerate(self._names):
            target = {topic_id: frozenset(one) for topic_id, one in parts[number].items()}
            before = self._before[number]
            targets[name] = before if before == target else target
        return targets
