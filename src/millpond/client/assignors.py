"""Partition assignors: pure functions of a group's members and their topics.

``range`` and ``roundrobin`` ignore the previous assignment; ``sticky`` moves as little as possible;
``cooperative-sticky`` decides the same, but moves no partition before its owner has revoked it (KIP-429), so
that the others keep reading while a group rebalances.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from millpond.base.ids import TopicPartition
from millpond.client.errors import BadConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """A member's subscription, and the partitions that it owned in which generation."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    instance_id: str | None = None


Members: TypeAlias = Mapping[str, MemberSubscription]
Plan: TypeAlias = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """The interface of an assignor; applications may implement their own."""

    @property
    def name(self) -> str:
        """The name that members agree on."""
        ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions while the group rebalances."""
        ...

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Plan:
        """Return a plan that assigns every partition of every subscribed topic to one of its subscribers."""
        ...


def assign_range(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """Assign topic by topic: members in order get consecutive partitions, the first ones one more each."""
    plan: Plan = {member: [] for member in members}
    for topic in sorted(partition_counts):
        readers = [name for name in _in_order(members) if topic in members[name].topics]
        if not readers:
            continue
        share, extra = divmod(partition_counts[topic], len(readers))
        start = 0
        for index, reader in enumerate(readers):
            stop = start + share + (index < extra)
            plan[reader] += [TopicPartition(topic, number) for number in range(start, stop)]
            start = stop
    return plan


def assign_round_robin(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """Assign all partitions in turn; members that are not subscribed to a topic are skipped."""
    plan: Plan = {member: [] for member in members}
    order = _in_order(members)
    turn = 0
    for place in _all_partitions(members, partition_counts):
        while place.topic not in members[order[turn % len(order)]].topics:
            turn += 1
        plan[order[turn % len(order)]].append(place)
        turn += 1
    return plan


def assign_sticky(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """Assign as evenly as subscriptions allow, and among such plans keep most partitions where they were.

    Members keep what they had; unassigned partitions go to the member with the fewest; then partitions move
    from members with two more than another subscriber of theirs, until there is no such pair.
    """
    plan: Plan = {member: [] for member in members}
    places = _all_partitions(members, partition_counts)
    owners = _owners(members, set(places))
    for place, owner in owners.items():
        plan[owner].append(place)
    readers = {
        topic: [name for name in _in_order(members) if topic in members[name].topics]
        for topic in {place.topic for place in places}
    }
    free = [place for place in places if place not in owners]
    for place in sorted(free, key=lambda place: (len(readers[place.topic]), place)):
        least = min(readers[place.topic], key=lambda name: len(plan[name]))
        plan[least].append(place)
    _even_out(plan, readers, set(owners))
    return {name: sorted(given) for name, given in plan.items()}


def assign_cooperative(members: Members, partition_counts: Mapping[str, int]) -> Plan:
    """Return the sticky plan without partitions that another member still owns: they follow in the next
    round.
    """
    plan = assign_sticky(members, partition_counts)
    owners = _owners(members, set(_all_partitions(members, partition_counts)))
    return {
        name: [place for place in given if owners.get(place, name) == name]
        for name, given in plan.items()
    }


def _even_out(
    plan: Plan, readers: Mapping[str, Sequence[str]], settled: set[TopicPartition]
) -> None:
    """Move partitions while that makes two members more equal; newly assigned ones before kept ones."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(plan, key=lambda name: -len(plan[name])):
            for place in sorted(plan[giver], key=lambda place: (place in settled, place)):
                taker = min(readers[place.topic], key=lambda name: len(plan[name]))
                if len(plan[giver]) - len(plan[taker]) >= 2:
                    plan[giver].remove(place)
                    plan[taker].append(place)
                    moved = True


def _owners(members: Members, places: set[TopicPartition]) -> dict[TopicPartition, str]:
    """Return the present owners; if two members claim a partition, the later generation wins, else
    neither.
    """
    claims: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for name in _in_order(members):
        member = members[name]
        for place in member.owned:
            if place in places and place.topic in member.topics:
                claims[place].append((member.generation, name))
    owners = {}
    for place, found in claims.items():
        found.sort()
        if len(found) == 1 or found[-1][0] > found[-2][0]:
            owners[place] = found[-1][1]
    return owners


def _in_order(members: Members) -> list[str]:
    """Return static members by their instance ids, which survive restarts, then the others by id."""
    return sorted(
        members,
        key=lambda name: (members[name].instance_id is None, members[name].instance_id or name),
    )


def _all_partitions(members: Members, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    wanted = {topic for member in members.values() for topic in member.topics}
    return [
        TopicPartition(topic, number)
        for topic in sorted(wanted)
        for number in range(partition_counts.get(topic, 0))
    ]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    is_cooperative: bool
    assign: Callable[[Members, Mapping[str, int]], Plan]


RANGE = _Named("range", False, assign_range)
ROUND_ROBIN = _Named("roundrobin", False, assign_round_robin)
STICKY = _Named("sticky", False, assign_sticky)
COOPERATIVE_STICKY = _Named("cooperative-sticky", True, assign_cooperative)

_KNOWN = {item.name: item for item in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
_JAVA = {"cooperativesticky": COOPERATIVE_STICKY} | _KNOWN


def assignors_of(given: Sequence[Any]) -> list[Assignor]:
    """Return assignors by name (ours or Java's class) or as given; by default those of Java's consumer."""
    if not given:
        return [RANGE, COOPERATIVE_STICKY]
    found: list[Assignor] = []
    for item in given:
        if not isinstance(item, str):
            found.append(item() if isinstance(item, type) else item)
            continue
        short = item.rsplit(".", 1)[-1].lower().removesuffix("assignor")
        if short not in _JAVA:
            raise BadConfig(f"no assignor is called {item!r}; known are {', '.join(_KNOWN)}")
        found.append(_JAVA[short])
    return found
